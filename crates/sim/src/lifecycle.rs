//! Workloads coming and going: slots, processes, and the reasons for an end.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::{DeviceRef, WorkloadPlan};

use crate::activity::Position;
use crate::gpu::{Gpu, Task};
use crate::physics::percent;
use crate::process::Process;
use crate::workload::{Ending, Limit, Phase, Shape, WorkloadState};
use crate::world::{Node, World};

/// Ended workloads remembered until they are removed.
const ENDED_KEPT: usize = 1024;
/// Ended processes a node keeps for accounting.
const PROCESSES_KEPT: usize = 64;
/// Shapes a new workload is compared with.
const SHAPES_KEPT: usize = 16;
/// First process id handed out on a node.
const FIRST_PID: u32 = 4001;

impl World {
    /// Adds a workload that may begin at `now` plus its own delay, with steps that began `lead` before.
    pub(crate) fn add(&mut self, plan: &WorkloadPlan, lead: Duration, planned: bool) -> u64 {
        self.next_id += 1;
        let shape = self.shape_of(plan);
        let mut workload = WorkloadState::new(self.next_id, plan, shape, self.now, planned);
        workload.lead = lead;
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                self.workloads.push(None);
                u32::try_from(self.workloads.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.names.insert(workload.salt, slot);
        self.order.insert(self.next_id, slot);
        self.workloads[slot as usize] = Some(workload);
        self.next_id
    }

    /// Gives a living workload the activity of `plan`; `false` if it is not about the same devices and owner.
    pub(crate) fn change(&mut self, slot: u32, plan: &WorkloadPlan) -> bool {
        let shape = self.shape_of(plan);
        let now = self.now;
        let Some(Some(workload)) = self.workloads.get_mut(slot as usize) else {
            return false;
        };
        if *workload.devices != *plan.devices || workload.owner.as_deref() != plan.owner.as_ref() {
            return false;
        }
        let goes_on = workload.shape.has_times_of(&shape);
        workload.shape = shape;
        if goes_on || workload.phase == Phase::Pending {
            return true;
        }
        workload.step_began = workload.clock(now);
        (workload.step, workload.round) = (0, 0);
        for device in workload.devices.clone() {
            let node = self.nodes.get_mut(device.node as usize);
            let gpu = node.and_then(|node| node.gpus.get_mut(device.gpu as usize));
            let tasks = gpu.into_iter().flat_map(|gpu| gpu.tasks.iter_mut());
            for task in tasks.filter(|task| task.slot == slot) {
                // A step with the number of an old one is another one all the same.
                task.position.step = u32::MAX;
            }
        }
        true
    }

    /// The shape of a plan, shared with the last workloads that had the same.
    fn shape_of(&mut self, plan: &WorkloadPlan) -> Arc<Shape> {
        let shape = Shape::of(plan);
        if let Some(known) = self.shapes.iter().find(|known| ***known == shape) {
            return known.clone();
        }
        if self.shapes.len() == SHAPES_KEPT {
            self.shapes.pop_front();
        }
        let shape = Arc::new(shape);
        self.shapes.push_back(shape.clone());
        shape
    }

    /// Ends a workload if it still lives, and forgets it.
    pub(crate) fn remove(&mut self, slot: u32, now: Duration) {
        self.end(slot, "removed".to_owned(), 0, now);
        let Some(gone) = self.workloads.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        if self.names.get(&gone.salt) == Some(&slot) {
            self.names.remove(&gone.salt);
        }
        self.order.remove(&gone.id);
        self.ended.retain(|s| *s != slot);
        self.free_slots.push(slot);
    }

    /// Moves workloads to `now`: ends those that are through, begins those whose time has come.
    pub(crate) fn run_workloads(&mut self, now: Duration, dt: Duration) {
        for slot in 0..self.workloads.len() {
            let stalled = self.hung > 0 && self.is_stalled(slot);
            let Some(workload) = &mut self.workloads[slot] else {
                continue;
            };
            let verdict = match workload.phase {
                Phase::Ended(_) => continue,
                Phase::Pending if workload.begins > now => continue,
                Phase::Pending => None,
                Phase::Running => {
                    if stalled {
                        workload.step_began = workload.step_began.saturating_add(dt);
                    }
                    let limit = workload.shape.limits.runtime;
                    let age = now.saturating_sub(workload.begins);
                    if let Some(limit) = workload.doomed.take() {
                        Some((limit.reached(), 1))
                    } else if limit.is_some_and(|limit| age >= limit) {
                        Some((Limit::Runtime.reached(), 1))
                    } else if workload.advance(now) {
                        continue;
                    } else {
                        Some(("completed".to_owned(), 0))
                    }
                }
            };
            let slot = slot as u32;
            match verdict {
                Some((reason, code)) => self.end(slot, reason, code, now),
                None => self.begin(slot, now),
            }
        }
    }

    /// One of its devices hangs.
    fn is_stalled(&self, slot: usize) -> bool {
        let Some(Some(workload)) = self.workloads.get(slot) else {
            return false;
        };
        let hung = |d: &DeviceRef| self.gpu(*d).is_some_and(|gpu| gpu.readings.hung);
        workload.devices.iter().any(hung)
    }

    fn begin(&mut self, slot: u32, now: Duration) {
        let Some(workload) = self
            .workloads
            .get_mut(slot as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        workload.phase = Phase::Running;
        // Begun late is begun now: a plan's first step is not cut short.
        workload.begins = now;
        workload.step_began = now;
        let devices = workload.devices.clone();
        if !workload.advance(now) {
            self.end(slot, "completed".to_owned(), 0, now);
            return;
        }
        for device in devices {
            if let Err(reason) = self.place(slot, device, now) {
                self.end(slot, reason, 1, now);
                return;
            }
        }
    }

    /// Puts the workload on one device.
    fn place(&mut self, slot: u32, device: DeviceRef, now: Duration) -> Result<(), String> {
        let label = self.label(device);
        let instance = self.instance_ids(device);
        let Some(gpu) = self.gpu(device) else {
            return Err(format!("device {label} does not exist"));
        };
        let r = &gpu.readings;
        if r.lost {
            return Err(format!("device {label} is lost"));
        }
        if gpu.ailments.refuses {
            return Err(format!("device {label} needs a reset"));
        }
        if r.compute_mode == 2 {
            return Err(format!("device {label} prohibits compute"));
        }
        let taken = gpu.tasks.iter().any(|task| task.instance == instance);
        if r.compute_mode == 3 && taken {
            return Err(format!("device {label} is held exclusively"));
        }
        if r.mig && instance.is_none() {
            return Err(format!("device {label} is not a MIG device, and MIG is on"));
        }
        if !r.mig && device.instance.is_some() {
            return Err(format!("device {label} does not exist: MIG is off"));
        }
        let Some(node) = self.nodes.get_mut(device.node as usize) else {
            return Err(format!("device {label} does not exist"));
        };
        let pid = node.take_pid();
        let gpu = &mut node.gpus[device.gpu as usize];
        gpu.push_task(Task {
            slot,
            pid,
            memory: 0,
            peak_memory: 0,
            started: now,
            busy: 0.0,
            band: 0.0,
            link: 0.0,
            part: 0.0,
            busy_s: 0.0,
            band_s: 0.0,
            position: Position {
                highest: 0.0,
                // No step has this number before it has run.
                step: u32::MAX,
            },
            instance,
        });
        Ok(())
    }

    /// Ends a living workload: its processes go, its reason stays.
    pub(crate) fn end(&mut self, slot: u32, reason: String, code: i32, now: Duration) {
        let Some(workload) = self
            .workloads
            .get_mut(slot as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        if matches!(workload.phase, Phase::Ended(_)) {
            return;
        }
        workload.phase = Phase::Ended(Box::new(Ending {
            reason,
            code,
            at: now,
        }));
        let workload = workload.clone();
        for device in workload.devices() {
            let Some(node) = self.nodes.get_mut(device.node as usize) else {
                continue;
            };
            node.bury(device.gpu, slot, &workload, now);
        }
        self.ended.push_back(slot);
        if self.ended.len() > ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.remove(oldest, now);
        }
    }

    /// Slot of the last workload of that name.
    pub(crate) fn slot_of(&self, name: &str) -> Option<u32> {
        let slot = *self.names.get(&crate::chance::salt(name))?;
        self.slot(slot).filter(|w| w.name() == name).map(|_| slot)
    }

    /// The workload in a slot.
    pub(crate) fn slot(&self, slot: u32) -> Option<&WorkloadState> {
        self.workloads.get(slot as usize).and_then(Option::as_ref)
    }
}

impl Node {
    /// Process ids rise by uneven steps, as on a machine that does other things too.
    fn take_pid(&mut self) -> u32 {
        let pid = self.next_pid.max(FIRST_PID);
        let gap = 1 + (crate::chance::mix(u64::from(pid)) % 97) as u32;
        let next = pid + gap;
        self.next_pid = if next > 4_194_304 { FIRST_PID } else { next };
        pid
    }

    /// Takes the workload's tasks off a GPU and keeps them for accounting.
    fn bury(&mut self, gpu: u32, slot: u32, workload: &WorkloadState, now: Duration) {
        let Some(device) = self.gpus.get_mut(gpu as usize) else {
            return;
        };
        let ended = &mut self.ended;
        let readings = device.readings.clone();
        device.tasks.retain(|task| {
            if task.slot != slot {
                return true;
            }
            let mut process = task.process(gpu, workload, &readings, now);
            process.end = Some(now);
            process.memory = process.peak_memory;
            if ended.len() == PROCESSES_KEPT {
                ended.pop_front();
            }
            ended.push_back(process);
            false
        });
    }
}

impl Gpu {
    /// Processes of this GPU, number `index` on its node.
    pub(crate) fn processes<'a>(
        &'a self,
        index: u32,
        world: &'a World,
    ) -> impl Iterator<Item = Process> + 'a {
        self.tasks.iter().filter_map(move |task| {
            let workload = world.slot(task.slot)?;
            Some(task.process(index, workload, &self.readings, world.now))
        })
    }
}

impl Task {
    fn process(
        &self,
        gpu: u32,
        workload: &WorkloadState,
        readings: &crate::Readings,
        now: Duration,
    ) -> Process {
        let age = now.saturating_sub(self.started).as_secs_f64();
        let average = |sum: f32| {
            if age > 0.0 {
                percent(f64::from(sum) / age)
            } else {
                0
            }
        };
        let part = |whole: u8| (f32::from(whole) * self.part).round() as u8;
        Process {
            pid: self.pid,
            gpu,
            gi: self.instance.map(|(gi, _)| u32::from(gi)),
            ci: self.instance.map(|(_, ci)| u32::from(ci)),
            kind: workload.shape.kind,
            name: workload.shape.process.clone(),
            owner: workload.owner.clone(),
            workload: workload.id,
            memory: self.memory,
            peak_memory: self.peak_memory,
            sm_percent: percent(f64::from(self.busy)),
            memory_percent: percent(f64::from(self.band)),
            encoder_percent: part(readings.encoder_percent),
            decoder_percent: part(readings.decoder_percent),
            average_percent: average(self.busy_s),
            average_memory_percent: average(self.band_s),
            start: self.started,
            end: None,
        }
    }
}
