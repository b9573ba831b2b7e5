//! Workloads and what they were given.

use mirage_model::plan::Plan;
use mirage_sim::{Phase, World};
use serde::Serialize;

use super::device_name;

/// A workload, living or ended.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct WorkloadView {
    pub id: u64,
    pub name: String,
    pub phase: &'static str,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub began_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_s: Option<f64>,
    pub step: usize,
    pub round: u32,
    /// `namespace/pod/container`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub devices: Vec<String>,
    /// SM use averaged over its devices, percent.
    pub sm_percent: u32,
    /// Memory on all its devices.
    pub memory_bytes: u64,
}

/// All workloads, in the order they were added.
pub fn workload_views(world: &World, plan: &Plan) -> Vec<WorkloadView> {
    let views = world.workloads().map(|workload| {
        let ending = match workload.phase() {
            Phase::Ended(ending) => Some(ending),
            Phase::Pending | Phase::Running => None,
        };
        let processes = world.workload_processes(workload.id());
        let living = || processes.iter().filter(|(_, p)| p.end.is_none());
        let count = u32::try_from(living().count()).unwrap_or(u32::MAX).max(1);
        let busy: u32 = living().map(|(_, p)| u32::from(p.sm_percent)).sum();
        WorkloadView {
            id: workload.id(),
            name: workload.name().into(),
            phase: match workload.phase() {
                Phase::Pending => "pending",
                Phase::Running => "running",
                Phase::Ended(_) => "ended",
            },
            reason: ending.map(|ending| ending.reason.clone()),
            exit_code: ending.map(|ending| ending.code),
            began_s: workload.began().as_secs_f64(),
            ended_s: ending.map(|ending| ending.at.as_secs_f64()),
            step: workload.step(),
            round: workload.round(),
            owner: workload
                .owner()
                .map(|o| format!("{}/{}/{}", o.namespace, o.pod, o.container)),
            devices: workload
                .devices()
                .iter()
                .map(|&device| device_name(device, plan))
                .collect(),
            sm_percent: busy / count,
            memory_bytes: living().map(|(_, process)| process.memory).sum(),
        }
    });
    views.collect()
}
