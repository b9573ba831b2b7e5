//! The fleet of `mirage up` without a config: something to look at within a second.
//!
//! On every node most GPUs train, one serves requests in bursts, one idles. Workloads
//! span nodes, so thousands of nodes need no more of them than one.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{MAX_GPUS, MAX_GPUS_PER_NODE, MAX_NODES};
use crate::catalogue;
use crate::plan::{
    ActivityStep, Amount, DeviceRef, Function, GpuPlan, Limits, Plan, PoolPlan, Range,
    WorkloadKind, WorkloadPlan,
};
use crate::quantity::clip;
use crate::select::closest;

/// Why there is no such demo fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DemoError {
    #[error("unknown model `{model}`; {hint}")]
    Model { model: String, hint: String },
    #[error("{count} {what}, more than the limit of {limit}")]
    TooMany {
        count: usize,
        what: &'static str,
        limit: usize,
    },
}

/// A lively fleet of `nodes` nodes with `gpus` GPUs of `model` each. One node is called
/// `host`; several are called `host-0`, `host-1`, ….
pub fn demo(host: &str, model: &str, gpus: u32, nodes: u32, seed: u64) -> Result<Plan, DemoError> {
    let (each, count) = (gpus as usize, nodes as usize);
    limit(each, "GPUs per node", MAX_GPUS_PER_NODE)?;
    limit(count, "nodes", MAX_NODES)?;
    limit(each.saturating_mul(count), "GPUs in all", MAX_GPUS)?;
    let host = &super::node_name(host);
    let board = catalogue::find(model).ok_or_else(|| unknown(model))?;
    let pool = PoolPlan {
        name: "default".into(),
        driver: super::fleet::boards::Boards::default().driver(&board, None, None),
        dynamic_mig: false,
        gpus: vec![GpuPlan { board, given: None }; each],
        extras: None,
    };
    let shared: Arc<str> = pool.name.clone();
    let mut plan = Plan::empty(seed);
    plan.nodes = (0..nodes)
        .map(|number| {
            let mut node = match nodes {
                1 => pool.node(host),
                _ => pool.node(&format!("{host}-{number}")),
            };
            node.pool = Some(shared.clone());
            node
        })
        .collect();
    plan.pools.push(pool);
    plan.workloads = workloads(gpus, nodes);
    Ok(plan)
}

fn limit(count: usize, what: &'static str, limit: usize) -> Result<(), DemoError> {
    if count > limit {
        return Err(DemoError::TooMany { count, what, limit });
    }
    Ok(())
}

fn unknown(model: &str) -> DemoError {
    let near = catalogue::nearest(model).or_else(|| closest(model, catalogue::keys()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`mirage models` lists those there are".into(),
    };
    DemoError::Model {
        model: clip(model),
        hint,
    }
}

/// Training on the first GPUs, serving on the last but one, nothing on the last; nodes
/// with fewer GPUs do without the idle one, then without the serving one.
fn workloads(gpus: u32, nodes: u32) -> Vec<WorkloadPlan> {
    let training = match gpus {
        0 | 1 => gpus,
        2 => 1,
        _ => gpus - 2,
    };
    let serving = training..(training + 1).min(gpus);
    let on = |parity: u32, range: std::ops::Range<u32>| -> Vec<DeviceRef> {
        let nodes = (0..nodes).filter(|node| node % 2 == parity);
        nodes
            .flat_map(|node| {
                range.clone().map(move |gpu| DeviceRef {
                    node,
                    gpu,
                    instance: None,
                })
            })
            .collect()
    };
    let every = |range: std::ops::Range<u32>| {
        let mut devices = on(0, range.clone());
        devices.extend(on(1, range));
        devices.sort_unstable();
        devices
    };
    let mut all = vec![
        // An epoch: data loads, kernels run hot, a checkpoint is written.
        workload(
            "train",
            on(0, 0..training),
            0.85,
            0.5,
            &[
                (20, (5.0, 25.0), (60.0, 60.0), Function::Random),
                (420, (88.0, 100.0), (70.0, 85.0), Function::Random),
                (30, (10.0, 40.0), (70.0, 70.0), Function::Random),
            ],
        ),
        // Fine-tuning: shorter, and memory grows with the batch.
        workload(
            "finetune",
            on(1, 0..training),
            0.7,
            0.35,
            &[
                (45, (30.0, 70.0), (20.0, 45.0), Function::Ramp),
                (240, (70.0, 95.0), (45.0, 55.0), Function::Increase),
                (15, (0.0, 10.0), (20.0, 20.0), Function::Random),
            ],
        ),
        // Requests come in bursts; the weights stay loaded.
        workload(
            "serve",
            every(serving),
            0.5,
            0.2,
            &[
                (40, (2.0, 15.0), (50.0, 52.0), Function::Random),
                (20, (35.0, 90.0), (52.0, 64.0), Function::Random),
                (60, (0.0, 8.0), (50.0, 52.0), Function::Random),
                (10, (60.0, 100.0), (54.0, 68.0), Function::Random),
            ],
        ),
    ];
    all.retain(|workload| !workload.devices.is_empty());
    all
}

/// Seconds, utilisation, share of memory, function.
type Step = (u64, (f64, f64), (f64, f64), Function);

fn workload(
    name: &str,
    devices: Vec<DeviceRef>,
    intensity: f64,
    tensor: f64,
    steps: &[Step],
) -> WorkloadPlan {
    let range = |(low, high)| Range { low, high };
    let step = |&(seconds, busy, memory, function): &Step| ActivityStep {
        duration: Some(Duration::from_secs(seconds)),
        utilization: range(busy),
        memory: Some(Amount::Share(range(memory))),
        bandwidth: None,
        interconnect: None,
        function,
    };
    WorkloadPlan {
        name: name.into(),
        devices,
        at: Duration::ZERO,
        activity: steps.iter().map(step).collect(),
        repeat: None,
        limits: Limits::default(),
        intensity,
        tensor,
        owner: None,
        process: super::workload::PROCESS.into(),
        kind: WorkloadKind::Compute,
    }
}
