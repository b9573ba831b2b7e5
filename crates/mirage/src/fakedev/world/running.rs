//! One workload at work: where in its profile it is, and what it adds to which reading.

use crate::fakedev::activity::{Progress, Span, Unit};
use crate::fakedev::device::{Fleet, Scope};
use crate::fakedev::noise::Noise;
use crate::fakedev::relation::Readings;
use crate::fakedev::spec::Spec;
use crate::fakedev::text::Shares;

use super::Ending;

/// The draw that drives everything a load drives; metrics with spans draw for themselves.
const LOAD: u64 = u64::MAX;

/// When it is, and what chance has to say about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) tick: u64,
    pub(super) micros: u64,
    pub(super) pace: u64,
    pub(super) noise: Noise,
}

/// What a workload does to one device.
#[derive(Debug)]
struct Hold {
    device: usize,
    parts: Vec<Option<usize>>,
    /// By cell: what it adds now, counters per second.
    adds: Vec<f64>,
    /// By cell: what it has made counters grow by.
    counted: Vec<f64>,
}

/// What one unit of a span comes to, on the cell it is meant for.
#[derive(Debug, Clone, Copy)]
struct Weight {
    share: f64,
    absolute: f64,
}

impl Weight {
    /// Shares hold for every sub-device alike; absolute amounts are split among them.
    fn with(self, share: f64, absolute: f64) -> Weight {
        Weight {
            share: self.share * share,
            absolute: self.absolute * absolute,
        }
    }

    fn of(self, value: f64, span: &Span) -> f64 {
        let weight = match span.unit {
            Unit::Share => self.share,
            Unit::Absolute => self.absolute,
        };
        (value * weight).min(f64::MAX)
    }
}

/// A workload that was let in.
#[derive(Debug)]
pub(super) struct Running {
    spec: Spec,
    labels: String,
    since: u64,
    lap: u64,
    holds: Vec<Hold>,
}

impl Running {
    pub(super) fn new(spec: Spec, labels: String, since: u64, fleet: &Fleet) -> Running {
        let mut holds: Vec<Hold> = Vec::new();
        // Targets come sorted, so those of one device stand together.
        for target in &spec.targets {
            match holds.last_mut() {
                Some(hold) if hold.device == target.device => hold.parts.push(target.part),
                _ => holds.push(Hold {
                    device: target.device,
                    parts: vec![target.part],
                    adds: vec![0.0; fleet.width()],
                    counted: vec![0.0; fleet.width()],
                }),
            }
        }
        Running {
            lap: spec.lap(),
            spec,
            labels,
            since,
            holds,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// How it ends, if its time is up.
    pub(super) fn ending(&self, moment: Moment) -> Option<Ending> {
        let elapsed = moment.micros.saturating_sub(self.since);
        let runtime = self
            .spec
            .limits
            .iter()
            .find(|limit| limit.metric.is_none() && elapsed as f64 / 1e6 >= limit.at);
        if let Some(limit) = runtime
            && elapsed > 0
        {
            return Some(Ending::Limit(limit.name.clone()));
        }
        let through = self.spec.repeat > 0 && elapsed / self.lap.max(1) >= self.spec.repeat;
        through.then_some(Ending::Finished)
    }

    /// Works out what it adds at this moment; a tick makes its counters grow.
    pub(super) fn act(&mut self, id: u64, moment: Moment, fleet: &Fleet, advance: bool) {
        let mut elapsed = moment.micros.saturating_sub(self.since) % self.lap.max(1);
        let mut current = &self.spec.steps[0];
        for step in &self.spec.steps {
            current = step;
            if elapsed < step.micros {
                break;
            }
            elapsed -= step.micros;
        }
        let progress = Progress {
            elapsed,
            length: current.micros,
            tick: moment.pace,
        };
        let seconds = moment.pace as f64 / 1e6;
        for hold in &mut self.holds {
            hold.adds.fill(0.0);
            for (metric, limits) in fleet.metrics.iter().enumerate() {
                let own = current.metrics.iter().find(|(place, _)| *place == metric);
                let (span, key) = match own {
                    Some((_, span)) => (span, metric as u64),
                    // A load drives what nothing else drives.
                    None if limits.counter || fleet.relations.is_dependent(metric) => continue,
                    None => (&current.load, LOAD),
                };
                let cells = fleet.cells(metric);
                let per_second = limits.rate || limits.counter;
                let weight = Weight {
                    share: limits.range(),
                    absolute: if per_second { self.spec.speed } else { 1.0 },
                };
                for part in &hold.parts {
                    let draw = |part: usize| {
                        let keys = [moment.tick, id, hold.device as u64, part as u64, key];
                        span.at(progress, moment.noise.draw(&keys))
                    };
                    match (limits.scope, part) {
                        (Scope::SubDevice, Some(part)) if cells.len() > 1 => {
                            hold.adds[cells.start + part] += weight.of(draw(*part), span);
                        }
                        (Scope::SubDevice, _) => {
                            let weight = weight.with(1.0, 1.0 / cells.len() as f64);
                            for (part, cell) in cells.clone().enumerate() {
                                hold.adds[cell] += weight.of(draw(part), span);
                            }
                        }
                        (_, None) => hold.adds[cells.start] += weight.of(draw(0), span),
                        (_, Some(part)) => {
                            let weight = weight.with(1.0 / fleet.parts as f64, 1.0);
                            hold.adds[cells.start] += weight.of(draw(*part), span);
                        }
                    }
                }
                if advance && limits.counter {
                    for cell in cells {
                        hold.counted[cell] += hold.adds[cell] * seconds;
                    }
                }
            }
        }
    }

    /// A limit of its own that what it adds takes it past.
    pub(super) fn own_limit(&self, fleet: &Fleet) -> Option<String> {
        let past = |metric: usize, at: f64| {
            let counter = fleet.metrics[metric].counter;
            self.holds.iter().any(|hold| {
                let values = if counter { &hold.counted } else { &hold.adds };
                values[fleet.cells(metric)].iter().any(|value| *value > at)
            })
        };
        self.spec
            .limits
            .iter()
            .find(|limit| {
                limit.metric.is_some_and(|metric| {
                    !fleet.relations.is_dependent(metric) && past(metric, limit.at)
                })
            })
            .map(|limit| limit.name.clone())
    }

    /// A limit of its own on what follows from the whole, such as the temperature.
    pub(super) fn own_limit_on(&self, readings: &[Readings], fleet: &Fleet) -> Option<String> {
        self.spec
            .limits
            .iter()
            .find(|limit| {
                limit.metric.is_some_and(|metric| {
                    fleet.relations.is_dependent(metric)
                        && self.holds.iter().any(|hold| {
                            readings[hold.device].values[fleet.cells(metric)]
                                .iter()
                                .any(|value| *value > limit.at)
                        })
                })
            })
            .map(|limit| limit.name.clone())
    }

    /// A termination limit of a device that it would take that device past.
    pub(super) fn device_limit(&self, sums: &[Readings], fleet: &Fleet) -> Option<String> {
        for (metric, limits) in fleet.metrics.iter().enumerate() {
            let Some(at) = limits.terminate else {
                continue;
            };
            if limits.counter || fleet.relations.is_dependent(metric) {
                continue;
            }
            for hold in &self.holds {
                let sum = &sums[hold.device].values;
                if fleet
                    .cells(metric)
                    .any(|cell| hold.adds[cell] > 0.0 && sum[cell] + hold.adds[cell] > at)
                {
                    return Some(limits.name.clone());
                }
            }
        }
        None
    }

    /// A termination limit that a device is past, for which nobody newer was blamed.
    pub(super) fn blame(
        &self,
        readings: &[Readings],
        fleet: &Fleet,
        blamed: &mut [bool],
    ) -> Option<String> {
        let mut found = None;
        for hold in &self.holds {
            for (metric, limits) in fleet.metrics.iter().enumerate() {
                let Some(at) = limits.terminate else {
                    continue;
                };
                let dependent = fleet.relations.is_dependent(metric);
                if !(limits.counter || dependent) {
                    continue;
                }
                let guilty = fleet.cells(metric).any(|cell| {
                    readings[hold.device].values[cell] > at && (dependent || hold.adds[cell] > 0.0)
                });
                if guilty && !blamed[hold.device] {
                    blamed[hold.device] = true;
                    found.get_or_insert_with(|| limits.name.clone());
                }
            }
        }
        found
    }

    /// Puts what it adds on top of what others did.
    pub(super) fn add_to(&self, sums: &mut [Readings], fleet: &Fleet) {
        for hold in &self.holds {
            let sum = &mut sums[hold.device];
            for (metric, limits) in fleet.metrics.iter().enumerate() {
                for cell in fleet.cells(metric) {
                    if limits.counter {
                        sum.rates[cell] += hold.adds[cell];
                    } else {
                        sum.values[cell] += hold.adds[cell];
                    }
                }
            }
        }
    }

    /// Puts what it adds, or has counted, under its labels.
    pub(super) fn show(&self, shares: &mut [Shares], fleet: &Fleet) {
        for hold in &self.holds {
            let own = shares[hold.device]
                .entry(self.labels.clone())
                .or_insert_with(|| vec![0.0; fleet.width()]);
            for (metric, limits) in fleet.metrics.iter().enumerate() {
                for cell in fleet.cells(metric) {
                    own[cell] += if limits.counter {
                        hold.counted[cell]
                    } else {
                        hold.adds[cell]
                    };
                }
            }
        }
    }
}
