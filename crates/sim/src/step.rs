//! Time passing: short stretches, each with workloads first, then faults, then every GPU.

use std::collections::HashSet;
use std::time::Duration;

use mirage_model::plan::DeviceRef;

use crate::chance::Moment;
use crate::event::EventKind;
use crate::fault::impossible;
use crate::input::{Answer, FaultSelector, Input, Refusal, Setting};
use crate::load::gather;
use crate::physics::{self, Outcome};
use crate::workload::{Limit, Phase};
use crate::world::World;
use crate::{mig, settings};

/// Physics is stable up to this long a stretch.
const STRETCH: Duration = Duration::from_secs(1);

impl World {
    /// Applies the inputs in order, then lets `dt` pass. One answer per input.
    ///
    /// With no time to pass the inputs still show at once: a step of zero length moves no counter.
    pub fn step(&mut self, inputs: &[Input], dt: Duration) -> Vec<Result<Answer, Refusal>> {
        let answers = inputs.iter().map(|input| self.apply(input)).collect();
        let mut left = dt;
        loop {
            let stretch = left.min(STRETCH);
            self.pass(stretch);
            left -= stretch;
            if left.is_zero() {
                return answers;
            }
        }
    }

    /// Lets one stretch pass.
    fn pass(&mut self, dt: Duration) {
        let begin = self.now;
        let end = begin.saturating_add(dt);
        self.run_workloads(begin, dt);
        self.run_faults(end);
        self.now = end;
        let overheated = self.run_gpus(begin, dt);
        for device in overheated {
            self.strike(device, &mirage_model::plan::Fault::Lost, end, None, false);
            // What the loss means for the readings shows in this same stretch.
            let moment = Moment::new(end, dt);
            let noise = self.seed.noise(self.stream_of(device).unwrap_or(0), moment);
            if let Some(gpu) = self.gpu_mut(device) {
                physics::run(gpu, Default::default(), &noise, Duration::ZERO);
            }
        }
    }

    /// Runs all GPUs; returns those that switched themselves off.
    fn run_gpus(&mut self, begin: Duration, dt: Duration) -> Vec<DeviceRef> {
        let moment = Moment::new(self.now, dt);
        let mut overheated = Vec::new();
        let mut changed = Vec::new();
        let mut overflows = std::mem::take(&mut self.overflows);
        let mut hits = Vec::new();
        for (n, node) in self.nodes.iter_mut().enumerate() {
            for (g, gpu) in node.gpus.iter_mut().enumerate() {
                let noise = self.seed.noise(gpu.stream, moment);
                let load = gather(gpu, &self.workloads, &noise, begin, &mut overflows);
                let outcome = physics::run(gpu, load, &noise, dt);
                let device = || DeviceRef {
                    node: n as u32,
                    gpu: g as u32,
                    instance: None,
                };
                match outcome {
                    Outcome::Fine => {}
                    Outcome::Changed { pstate, limits } => changed.push((device(), pstate, limits)),
                    Outcome::Overheated => overheated.push(device()),
                }
                for task in &gpu.tasks {
                    let Some(workload) = self.workloads[task.slot as usize].as_ref() else {
                        continue;
                    };
                    let limits = &workload.shape.limits;
                    let hit = if limits.memory.is_some_and(|most| task.memory > most) {
                        Limit::Memory
                    } else if limits
                        .temperature
                        .is_some_and(|most| gpu.heat.die_c >= most)
                    {
                        Limit::Temperature
                    } else if limits
                        .power
                        .is_some_and(|most| f64::from(gpu.readings.power_mw) >= most * 1000.0)
                    {
                        Limit::Power
                    } else {
                        continue;
                    };
                    hits.push((task.slot, hit));
                }
            }
        }
        hits.extend(overflows.drain(..).map(|slot| (slot, Limit::Memory)));
        self.overflows = overflows;
        for (slot, limit) in hits {
            if let Some(workload) = self.workloads[slot as usize].as_mut()
                && workload.doomed.is_none()
            {
                workload.doomed = Some(limit);
            }
        }
        for (device, pstate, limits) in changed {
            self.note_change(device, pstate, limits);
        }
        overheated
    }

    fn note_change(&mut self, device: DeviceRef, pstate: bool, limits: bool) {
        let Some(gpu) = self.gpu(device) else { return };
        let (state, clock) = (gpu.readings.pstate, gpu.readings.sm_mhz);
        if pstate {
            let data = u64::from(state);
            self.log_event(device, EventKind::Pstate, data, self.now, String::new());
        }
        if limits {
            let data = u64::from(clock);
            self.log_event(device, EventKind::Clock, data, self.now, String::new());
        }
    }

    fn apply(&mut self, input: &Input) -> Result<Answer, Refusal> {
        match input {
            Input::AddWorkload(plan) => self.add_workload(plan, Duration::ZERO),
            Input::ResumeWorkload(plan, lead) => self.add_workload(plan, *lead),
            Input::ChangeWorkload(plan) => self.change_workload(plan),
            Input::RemoveWorkload(name) => {
                let slot = self.slot_of(name).ok_or_else(|| Refusal::NotFound {
                    what: format!("workload {name}"),
                })?;
                self.remove(slot, self.now);
                Ok(Answer::Done)
            }
            Input::Inject(plan) => self.inject(plan),
            Input::Heal(which) => self.heal(which),
            Input::Set { device, setting } => {
                let label = self.usable(*device, "changing a setting")?;
                if *setting == Setting::AccountingClear {
                    let ended = &mut self.nodes[device.node as usize].ended;
                    ended.retain(|process| process.gpu != device.gpu);
                }
                let gpu = self.gpu_mut(*device).ok_or_else(|| no_such(&label))?;
                settings::apply(gpu, &label, setting)
            }
            Input::Mig { device, op } => {
                let label = self.usable(*device, "changing MIG")?;
                let gpu = self.gpu_mut(*device).ok_or_else(|| no_such(&label))?;
                let answer = mig::apply(gpu, &label, op)?;
                if answer != Answer::InUse {
                    self.log_event(*device, EventKind::Mig, 0, self.now, String::new());
                }
                Ok(answer)
            }
            Input::Reset { device } => {
                let label = self.usable(*device, "reset")?;
                let gpu = self.gpu_mut(*device).ok_or_else(|| no_such(&label))?;
                settings::reset(gpu, &label)?;
                if mig::settle(gpu) {
                    self.log_event(*device, EventKind::Mig, 0, self.now, String::new());
                }
                self.mend_by_reset(*device, self.now);
                Ok(Answer::Done)
            }
        }
    }

    /// The device's label, if it is there and on the bus.
    fn usable(&self, device: DeviceRef, what: &'static str) -> Result<String, Refusal> {
        let label = self.label(device);
        match self.gpu(device) {
            None => Err(no_such(&label)),
            Some(gpu) if gpu.readings.lost => Err(Refusal::Lost {
                what,
                device: label,
            }),
            Some(_) => Ok(label),
        }
    }

    fn add_workload(
        &mut self,
        plan: &mirage_model::plan::WorkloadPlan,
        lead: Duration,
    ) -> Result<Answer, Refusal> {
        let invalid = |why: &str| Refusal::Invalid {
            what: format!("workload {}", plan.name),
            why: why.into(),
        };
        if plan.activity.is_empty() {
            return Err(invalid("it has no activity steps"));
        }
        if plan.devices.is_empty() {
            return Err(invalid("it names no devices"));
        }
        if let Some(device) = plan.devices.iter().find(|d| self.gpu(**d).is_none()) {
            return Err(no_such(&self.label(*device)));
        }
        if let Some(slot) = self.slot_of(&plan.name) {
            let living = |w: &crate::WorkloadState| !matches!(w.phase, Phase::Ended(_));
            if self.slot(slot).is_some_and(living) {
                return Err(Refusal::Exists {
                    name: plan.name.clone(),
                });
            }
            self.remove(slot, self.now);
        }
        let id = self.add(plan, lead, false);
        Ok(Answer::Workload { id })
    }

    fn change_workload(
        &mut self,
        plan: &mirage_model::plan::WorkloadPlan,
    ) -> Result<Answer, Refusal> {
        let what = || format!("workload {}", plan.name);
        let slot = self.slot_of(&plan.name);
        let living = slot.filter(|slot| {
            self.slot(*slot)
                .is_some_and(|workload| !matches!(workload.phase, Phase::Ended(_)))
        });
        let slot = living.ok_or_else(|| Refusal::NotFound { what: what() })?;
        let invalid = |why: &str| Refusal::Invalid {
            what: what(),
            why: why.into(),
        };
        if plan.activity.is_empty() {
            return Err(invalid("it has no activity steps"));
        }
        if !self.change(slot, plan) {
            return Err(invalid("its devices and its owner stay as they are"));
        }
        Ok(Answer::Done)
    }

    fn inject(&mut self, plan: &mirage_model::plan::FaultPlan) -> Result<Answer, Refusal> {
        if plan.devices.is_empty() {
            return Err(Refusal::Invalid {
                what: "fault".into(),
                why: "it names no devices".into(),
            });
        }
        for device in &plan.devices {
            let label = self.label(*device);
            let gpu = self.gpu(*device).ok_or_else(|| no_such(&label))?;
            if let Some(why) = impossible(&plan.fault, &gpu.board) {
                return Err(Refusal::NotSupported {
                    what: "fault",
                    device: label,
                    why,
                });
            }
        }
        if plan.when == mirage_model::plan::When::At(Duration::ZERO) {
            let mut ids = Vec::new();
            for device in &plan.devices {
                ids.extend(self.strike(*device, &plan.fault, self.now, plan.heal_after, false));
            }
            self.faults.trim();
            return Ok(Answer::Faults { ids });
        }
        self.next_id += 1;
        let number = self.next_id;
        let schedule = self.schedule(plan, self.now, false, number);
        self.schedules.push((number, schedule));
        Ok(Answer::Faults { ids: Vec::new() })
    }

    fn heal(&mut self, which: &FaultSelector) -> Result<Answer, Refusal> {
        let now = self.now;
        let ids = match which {
            FaultSelector::All => {
                self.schedules.clear();
                let ids = self.heal_where(now, |_| true);
                // Also what a fault has left that a reset ended before.
                let gpus = self.nodes.iter_mut().flat_map(|node| &mut node.gpus);
                gpus.for_each(|gpu| gpu.readings.remap_failed = false);
                ids
            }
            FaultSelector::Id(id) => {
                let mut ids = self.heal_where(now, |f| f.id == *id);
                let before = self.schedules.len();
                self.schedules.retain(|(number, _)| number != id);
                if self.schedules.len() < before {
                    ids.push(*id);
                }
                if ids.is_empty() {
                    return Err(Refusal::NotFound {
                        what: format!("active or pending fault {id}"),
                    });
                }
                ids
            }
            FaultSelector::Devices(devices) => {
                if let Some(device) = devices.iter().find(|d| self.gpu(**d).is_none()) {
                    return Err(no_such(&self.label(*device)));
                }
                let places: HashSet<_> = devices.iter().map(|d| (d.node, d.gpu)).collect();
                let among = |d: &DeviceRef| places.contains(&(d.node, d.gpu));
                for (_, schedule) in &mut self.schedules {
                    schedule.spare(among);
                }
                self.schedules.retain(|(_, schedule)| !schedule.is_over());
                let ids = self.heal_where(now, |f| among(&f.device));
                // Also what a fault has left that a reset ended before.
                for device in devices {
                    self.restore(*device);
                }
                ids
            }
        };
        Ok(Answer::Faults { ids })
    }
}

fn no_such(label: &str) -> Refusal {
    Refusal::NoSuchDevice {
        device: label.into(),
    }
}
