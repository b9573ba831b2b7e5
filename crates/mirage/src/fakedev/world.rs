//! What is true now: every device's readings, and the workloads that bring them about.
//!
//! Time passes in ticks. Between two ticks a workload may come or go, and the readings are
//! reckoned anew for the same moment: chance is a function of the tick, so nothing else moves.
//! Counters grow with ticks only, and never fall.

mod running;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::device::Fleet;
use super::identity::Identity;
use super::noise::Noise;
use super::relation::{Passing, Readings};
use super::spec::Spec;
use super::text::{Shares, Sheet};
use super::{Error, say};
use running::{Moment, Running};

/// How a workload ended, by no doing of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Its profile is through.
    Finished,
    /// It reached a limit, of its own or of a device.
    Limit(String),
    /// What it asked for cannot be.
    Refused(String),
    /// Something else ended it, for this reason.
    Ended(String),
}

impl Ending {
    /// What its process is to exit with.
    pub fn code(&self) -> u8 {
        u8::from(*self != Ending::Finished)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Finished => f.write_str("Workload finished"),
            Ending::Limit(name) => write!(f, "Limit {} reached, terminated", name.escape_debug()),
            Ending::Refused(why) => write!(f, "Workload refused: {why}"),
            Ending::Ended(why) => write!(f, "Workload ended: {why}"),
        }
    }
}

/// The devices, the workloads on them, and the time.
#[derive(Debug)]
pub struct World {
    fleet: Arc<Fleet>,
    sheet: Sheet,
    noise: Noise,
    /// Microseconds from tick to tick.
    pace: u64,
    tick: u64,
    /// As of the tick before.
    before: Vec<Readings>,
    now: Vec<Readings>,
    /// In the order they came.
    running: BTreeMap<u64, Running>,
}

impl World {
    /// Idle devices at the beginning of time.
    pub fn new(
        fleet: Arc<Fleet>,
        identity: &Identity,
        seed: u64,
        pace: Duration,
    ) -> Result<World, Error> {
        let sheet = Sheet::new(&fleet, identity)?;
        let idle = vec![fleet.relations.idle(&fleet); fleet.devices.len()];
        Ok(World {
            sheet,
            noise: Noise::new(seed),
            pace: u64::try_from(pace.as_micros()).unwrap_or(u64::MAX).max(1),
            tick: 0,
            before: idle.clone(),
            now: idle,
            running: BTreeMap::new(),
            fleet,
        })
    }

    /// Lets a workload in, under a number that none had before and that is above all others.
    /// It counts from the next [`settle`](World::settle) on, and its time from the tick that it is.
    pub fn join(&mut self, id: u64, spec: Spec) {
        self.admit(id, spec, self.micros());
    }

    /// The same for one that comes somewhere between two ticks. Its time begins with the next one, so that it is
    /// there for no less than it says.
    pub fn join_between(&mut self, id: u64, spec: Spec) {
        self.admit(id, spec, self.micros().saturating_add(self.pace));
    }

    fn admit(&mut self, id: u64, mut spec: Spec, since: u64) {
        // Of all it says of itself, what is shown is kept.
        let labels = self
            .sheet
            .workload_labels(&std::mem::take(&mut spec.labels));
        let running = Running::new(spec, labels, since, &self.fleet);
        self.running.insert(id, running);
    }

    /// Lets a workload go, from the next [`settle`](World::settle) on. Says whether it was there.
    pub fn leave(&mut self, id: u64) -> bool {
        self.running.remove(&id).is_some()
    }

    /// How many workloads there are.
    pub fn workloads(&self) -> usize {
        self.running.len()
    }

    /// One tick: time passes, counters grow, workloads advance and end.
    pub fn step(&mut self) -> Vec<(u64, Ending)> {
        self.tick += 1;
        self.before.clone_from(&self.now);
        self.reckon(true)
    }

    /// Takes comings and goings into account, in the tick that it is.
    pub fn settle(&mut self) -> Vec<(u64, Ending)> {
        self.reckon(false)
    }

    /// The page as it stands.
    pub fn text(&self) -> String {
        let mut shares: Vec<Shares> = Vec::new();
        if self.sheet.shows_workloads() {
            shares.resize_with(self.fleet.devices.len(), Shares::new);
            for running in self.running.values() {
                running.show(&mut shares, &self.fleet);
            }
        }
        self.sheet.render(&self.fleet, &self.now, &shares)
    }

    fn micros(&self) -> u64 {
        self.tick.saturating_mul(self.pace)
    }

    fn reckon(&mut self, advance: bool) -> Vec<(u64, Ending)> {
        let moment = Moment {
            tick: self.tick,
            micros: self.micros(),
            pace: self.pace,
            noise: self.noise,
        };
        let mut endings = Vec::new();
        for (id, running) in &mut self.running {
            match running.ending(moment) {
                Some(ending) => endings.push((*id, ending)),
                None => running.act(*id, moment, &self.fleet, advance),
            }
        }
        self.drop_ended(&endings, 0);
        let seconds = if self.tick == 0 {
            0.0
        } else {
            self.pace as f64 / 1e6
        };
        loop {
            let known = endings.len();
            let mut next = self.add_up(&mut endings);
            if endings.len() == known {
                for (device, now) in next.iter_mut().enumerate() {
                    let before = &self.before[device];
                    let passing = Passing::Seconds(seconds);
                    self.fleet
                        .relations
                        .settle(&self.fleet, before, now, passing);
                    if !advance {
                        self.keep_counters(device, now);
                    }
                }
                self.judge(&next, &mut endings);
                if endings.len() == known {
                    self.now = next;
                    return endings;
                }
            }
            // At least one is gone, so this comes to an end.
            self.drop_ended(&endings, known);
        }
    }

    /// Counters grow with time, and no time has passed.
    fn keep_counters(&self, device: usize, now: &mut Readings) {
        for (metric, limits) in self.fleet.metrics.iter().enumerate() {
            if limits.counter {
                for cell in self.fleet.cells(metric) {
                    now.values[cell] = self.now[device].values[cell];
                }
            }
        }
    }

    /// What workloads do to the devices, one on top of the other, in the order they came. One
    /// that would take a device past its termination limit, or itself past its own, ends.
    fn add_up(&self, endings: &mut Vec<(u64, Ending)>) -> Vec<Readings> {
        let mut sums: Vec<Readings> = self
            .before
            .iter()
            .map(|before| {
                let mut sum = before.clone();
                for (metric, limits) in self.fleet.metrics.iter().enumerate() {
                    for cell in self.fleet.cells(metric) {
                        sum.values[cell] = limits.min;
                        sum.rates[cell] = 0.0;
                    }
                }
                sum
            })
            .collect();
        for (id, running) in &self.running {
            let limit = running
                .own_limit(&self.fleet)
                .or_else(|| running.device_limit(&sums, &self.fleet));
            match limit {
                Some(limit) => endings.push((*id, Ending::Limit(limit))),
                None => running.add_to(&mut sums, &self.fleet),
            }
        }
        sums
    }

    /// Limits on what follows from the whole: the newest workload of a device has to go, and
    /// every workload that set itself a limit there.
    fn judge(&self, readings: &[Readings], endings: &mut Vec<(u64, Ending)>) {
        let mut blamed = vec![false; readings.len()];
        for (id, running) in self.running.iter().rev() {
            let limit = running
                .own_limit_on(readings, &self.fleet)
                .or_else(|| running.blame(readings, &self.fleet, &mut blamed));
            if let Some(limit) = limit {
                endings.push((*id, Ending::Limit(limit)));
            }
        }
    }

    fn drop_ended(&mut self, endings: &[(u64, Ending)], from: usize) {
        for (id, ending) in &endings[from..] {
            if let Some(running) = self.running.remove(id) {
                say(format_args!(
                    "workload {id} ({:?}): {ending}",
                    running.name()
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
