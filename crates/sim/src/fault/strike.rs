//! Striking and healing: who is hit, for how long, and who is well again.

use std::time::Duration;

use mirage_model::plan::{DeviceRef, Fault, FaultPlan};
use mirage_model::xid::Effect;

use super::ledger::Healed;
use super::{
    FaultState, Schedule, device_stream, fails_remapping, impossible, lasts, reset_mends, row,
};
use crate::world::World;

impl World {
    /// Strikes what is due and heals what has lasted long enough, up to and including `until`.
    pub(crate) fn run_faults(&mut self, until: Duration) {
        if !self.schedules.is_empty() {
            let mut schedules = std::mem::take(&mut self.schedules);
            for (number, schedule) in &mut schedules {
                let mut struck = Vec::new();
                let name_of = |d: DeviceRef| self.stream_of(d);
                schedule.poll(until, &self.seed, *number, name_of, |device| {
                    struck.push(device)
                });
                let (fault, heal_after) = (schedule.plan.fault.clone(), schedule.plan.heal_after);
                let planned = schedule.planned;
                for device in struck {
                    self.strike(device, &fault, until, heal_after, planned);
                }
            }
            schedules.retain(|(_, schedule)| !schedule.is_over());
            schedules.append(&mut self.schedules);
            self.schedules = schedules;
        }
        let due = |f: &FaultState| f.active && f.heals_at.is_some_and(|at| at <= until);
        if self.faults.all().iter().any(due) {
            self.heal_where(until, due);
        }
        self.faults.trim();
    }

    pub(crate) fn stream_of(&self, device: DeviceRef) -> Option<u64> {
        let node = self.nodes.get(device.node as usize)?;
        Some(device_stream(&node.name, device))
    }

    pub(crate) fn schedule(
        &self,
        plan: &FaultPlan,
        origin: Duration,
        planned: bool,
        number: u64,
    ) -> Schedule {
        Schedule::new(plan, origin, planned, &self.seed, number, |d| {
            self.stream_of(d)
        })
    }

    /// Lets `fault` strike `device` at `now`; returns its id.
    pub(crate) fn strike(
        &mut self,
        device: DeviceRef,
        fault: &Fault,
        now: Duration,
        heal_after: Option<Duration>,
        planned: bool,
    ) -> Option<u64> {
        let gpu = self.gpu(device)?;
        if impossible(fault, &gpu.board).is_some() {
            return None;
        }
        let was_lost = gpu.readings.lost;
        let active = lasts(fault, &gpu.board);
        let follows = |row: &mirage_model::xid::Xid| row.effects.contains(&Effect::Follow(154));
        let announced = row(fault, &gpu.board).is_some_and(follows);
        let heals_at = heal_after.map(|after| now.saturating_add(after));
        let id = if let Some(known) = self.faults.same(device, fault) {
            known.heals_at = heals_at;
            known.id
        } else {
            self.next_id += 1;
            self.faults.push(FaultState {
                id: self.next_id,
                device,
                fault: fault.clone(),
                since: now,
                heals_at,
                active,
                planned,
            });
            self.next_id
        };
        // A device off the bus reports nothing more.
        if !was_lost {
            self.leave_traces(device, fault, now);
        }
        self.refresh(device, now, announced);
        Some(id)
    }

    /// Heals every active fault that `which` picks; returns their ids.
    pub(crate) fn heal_where(
        &mut self,
        now: Duration,
        which: impl Fn(&FaultState) -> bool,
    ) -> Vec<u64> {
        let healed = self.faults.heal(which);
        for Healed { device, fault, .. } in &healed {
            let Some(gpu) = self.gpu(*device) else {
                continue;
            };
            if fails_remapping(fault, &gpu.board) {
                self.restore(*device);
            }
        }
        self.relieve(healed, now)
    }

    /// Heals what a reset of the device mends.
    pub(crate) fn mend_by_reset(&mut self, device: DeviceRef, now: Duration) {
        let Some(board) = self.gpu(device).map(|gpu| gpu.board.clone()) else {
            return;
        };
        let healed = self
            .faults
            .heal_of(device, |f| reset_mends(&f.fault, &board));
        self.relieve(healed, now);
    }

    /// Makes a board on which remapping rows has failed a good one again, unless another fault says that it is not.
    pub(crate) fn restore(&mut self, device: DeviceRef) {
        let fails = self.gpu(device).is_some_and(|gpu| {
            let mut faults = self.faults.of(device);
            faults.any(|f| fails_remapping(&f.fault, &gpu.board))
        });
        if let Some(gpu) = self.gpu_mut(device) {
            gpu.readings.remap_failed &= fails;
        }
    }

    /// Takes from devices what ailed them; returns the ids of what did.
    fn relieve(&mut self, healed: Vec<Healed>, now: Duration) -> Vec<u64> {
        let mut devices: Vec<DeviceRef> = healed.iter().map(|healed| healed.device).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            self.refresh(device, now, true);
        }
        self.faults.trim();
        healed.into_iter().map(|healed| healed.id).collect()
    }
}
