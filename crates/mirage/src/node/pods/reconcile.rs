//! Makes the engine's workloads those of the containers that are at work.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use mirage_k8s::usage::Busy;
use mirage_model::plan::{DeviceRef, Limits, WorkloadKind, WorkloadPlan};
use mirage_sim::{Input, Phase, WorkloadState};

use crate::engine::Core;

/// Workloads of containers are called so; names from configs have no colon.
const PREFIX: &str = "pod:";
/// Power intensity of kernels nobody has described.
const INTENSITY: f64 = 0.7;
/// Process that NVML shows.
const PROCESS: &str = "python3";
/// Time before a workload is begun again that a device has refused.
const AGAIN: Duration = Duration::from_secs(10);

/// What was begun, as far as the engine does not know it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    begun: HashMap<String, Begun>,
}

#[derive(Debug)]
struct Begun {
    /// By UUID: a change of the MIG layout numbers devices anew.
    devices: Vec<String>,
    restarts: u32,
    at: Instant,
}

impl Ledger {
    /// Makes the engine follow; returns what it refused.
    pub(super) fn reconcile(
        &mut self,
        core: &mut Core,
        node: &str,
        busy: Vec<Busy>,
        now: Instant,
    ) -> Vec<String> {
        let nodes = &core.plan().nodes;
        let Some(index) = nodes.iter().position(|plan| &*plan.name == node) else {
            return Vec::new();
        };
        let mut wanted: BTreeMap<String, Busy> =
            busy.into_iter().map(|busy| (name(&busy), busy)).collect();
        let (mut ends, mut changes) = (Vec::new(), Vec::new());
        let mut begins: Vec<(String, Busy)> = Vec::new();
        let ours = core.world().workloads();
        for workload in ours.filter(|workload| workload.name().starts_with(PREFIX)) {
            let name = workload.name();
            let Some(busy) = wanted.remove(name) else {
                ends.push(Input::RemoveWorkload(name.to_owned()));
                continue;
            };
            let begun = self.begun.get(name).filter(|begun| begun.is_of(&busy));
            match (begun, workload.phase()) {
                (None, phase) => {
                    if !matches!(phase, Phase::Ended(_)) {
                        ends.push(Input::RemoveWorkload(name.to_owned()));
                    }
                    begins.push((name.to_owned(), busy));
                }
                (Some(begun), Phase::Ended(ending)) => {
                    // What has run out of memory stays out; a device may come back.
                    let by_device = ending.reason.starts_with("device ");
                    let is_due = by_device && now.saturating_duration_since(begun.at) >= AGAIN;
                    if is_due || !does(workload, &busy) {
                        begins.push((name.to_owned(), busy));
                    }
                }
                (Some(_), Phase::Pending | Phase::Running) => {
                    if !does(workload, &busy) {
                        let devices = workload.devices().to_vec();
                        changes.push(Input::ChangeWorkload(plan(name, busy, devices)));
                    }
                }
            }
        }
        begins.extend(wanted);
        let mut inputs = ends;
        inputs.append(&mut changes);
        for (name, busy) in begins {
            let devices = busy.devices.iter().map(|device| DeviceRef {
                node: index as u32,
                gpu: device.gpu,
                instance: device.index,
            });
            let devices = devices.collect();
            self.begun.insert(name.clone(), Begun::of(&busy, now));
            let lead = lead(&busy, core.speed());
            inputs.push(Input::ResumeWorkload(plan(&name, busy, devices), lead));
        }
        if inputs.is_empty() {
            return Vec::new();
        }
        let answers = core.apply(&inputs);
        let world = core.world();
        self.begun.retain(|name, _| world.workload(name).is_some());
        let refused = answers.into_iter().filter_map(Result::err);
        refused.map(|refusal| refusal.to_string()).collect()
    }
}

impl Begun {
    fn of(busy: &Busy, at: Instant) -> Begun {
        let devices = busy.devices.iter().map(|device| device.uuid.clone());
        Begun {
            devices: devices.collect(),
            restarts: busy.restarts,
            at,
        }
    }

    fn is_of(&self, busy: &Busy) -> bool {
        let devices = busy.devices.iter().map(|device| &device.uuid);
        self.restarts == busy.restarts && self.devices.iter().eq(devices)
    }
}

fn name(busy: &Busy) -> String {
    let owner = &busy.owner;
    format!(
        "{PREFIX}{}/{}/{}#{}",
        owner.namespace, owner.pod, owner.container, owner.pod_uid
    )
}

/// How far its schedule is: it counts from the container's start, in simulated time, whether mirage was there then or not.
fn lead(busy: &Busy, speed: f64) -> Duration {
    let begun = busy.since.unwrap_or_else(SystemTime::now);
    // One that begins in the future begins now; the past has an end too, so that time goes on after it.
    let wall = begun.elapsed().unwrap_or_default();
    let simulated = Duration::try_from_secs_f64(wall.as_secs_f64() * speed);
    simulated.unwrap_or(Duration::MAX).min(Duration::MAX / 2)
}

fn repeat(busy: &Busy) -> Option<u32> {
    (!busy.activity.is_endless).then_some(1)
}

/// Whether a workload does what it shall.
fn does(workload: &WorkloadState, busy: &Busy) -> bool {
    workload.activity() == busy.activity.steps && workload.repeat() == repeat(busy)
}

fn plan(name: &str, busy: Busy, devices: Vec<DeviceRef>) -> WorkloadPlan {
    WorkloadPlan {
        name: name.to_owned(),
        devices,
        at: Duration::ZERO,
        repeat: repeat(&busy),
        activity: busy.activity.steps,
        limits: Limits::default(),
        intensity: INTENSITY,
        tensor: 0.0,
        owner: Some(busy.owner),
        process: PROCESS.into(),
        kind: WorkloadKind::Compute,
    }
}

#[cfg(test)]
mod tests;
