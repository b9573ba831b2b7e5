//! The GPUs of nodes without a kubelet, simulated: whatever the controller decides is laid over the engine, and the labels that
//! follow from what is simulated go back to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mirage_k8s::controller::run::Shared;
use mirage_k8s::controller::settle::{Controller, Work};
use mirage_k8s::gfd;
use mirage_model::plan::{DeviceRef, Limits, MigStrategy, Plan, WorkloadKind, WorkloadPlan};

use crate::machine::Inside;

/// Its name in `/health`.
const PART: &str = "simulation";
/// Least time between two changes of the engine: a thousand pods that come at once are one change.
const SOONEST: Duration = Duration::from_millis(250);
/// Power intensity of what pods run.
const INTENSITY: f64 = 0.8;

/// Follows the controller for ever.
pub(super) async fn follow(inside: Inside, shared: Arc<Shared>) {
    let mut changes = shared.changes();
    let mut last = Laid::default();
    loop {
        let begin = Instant::now();
        let looked = shared.clone();
        let before = std::mem::take(&mut last);
        // A large fleet takes time, which whoever talks to the server must not wait for.
        let thought = tokio::task::spawn_blocking(move || {
            // Of two controllers, one simulates: the same GPUs must not show twice, and differently.
            let fleet = if looked.stands_by() {
                Laid::default()
            } else {
                looked.look(Laid::of)
            };
            let changed = changed(&before, &fleet);
            (fleet, changed)
        });
        let Ok((fleet, changed)) = thought.await else {
            return;
        };
        let mut failed = false;
        if let Some(names) = changed {
            match lay(inside.clone(), fleet.plan.clone()).await {
                Ok(()) => {
                    inside.health.good(PART);
                    let (inside, shared) = (inside.clone(), shared.clone());
                    let strategy = fleet.plan.mig_strategy;
                    let labelled = tokio::task::spawn_blocking(move || {
                        label(&inside, &shared, strategy, &names);
                    });
                    failed = labelled.await.is_err();
                }
                Err(why) => {
                    inside.health.trouble(PART, why);
                    failed = true;
                }
            }
            shared.labelling(!failed);
        }
        if !failed {
            last = fleet;
        }
        // No more than a quarter of the time goes into this.
        tokio::time::sleep(SOONEST.max(begin.elapsed() * 3)).await;
        if !failed && changes.changed().await.is_err() {
            return;
        }
    }
}

/// What is laid over the engine.
#[derive(Debug)]
struct Laid {
    plan: Plan,
    /// What tells the shape of each of its nodes from others that it had.
    shapes: Vec<u64>,
}

impl Default for Laid {
    fn default() -> Self {
        Laid {
            plan: Plan::empty(0),
            shapes: Vec::new(),
        }
    }
}

/// Nodes whose GPUs are others than before, with their shapes; nothing if all is as it was.
fn changed(before: &Laid, now: &Laid) -> Option<Vec<(String, u64)>> {
    let shapes = |laid: &'_ Laid| -> HashMap<Arc<str>, u64> {
        let nodes = laid.plan.nodes.iter().map(|node| node.name.clone());
        nodes.zip(laid.shapes.iter().copied()).collect()
    };
    let known = shapes(before);
    let nodes = now.plan.nodes.iter().zip(&now.shapes);
    let names: Vec<(String, u64)> = nodes
        .filter(|(node, shape)| known.get(&node.name) != Some(shape))
        .map(|(node, shape)| (node.name.to_string(), *shape))
        .collect();
    let rest = |laid: &'_ Laid| (laid.plan.nodes.len(), laid.plan.seed, laid.plan.tick);
    let same = rest(before) == rest(now) && before.plan.workloads == now.plan.workloads;
    (!names.is_empty() || !same).then_some(names)
}

/// Lays a plan over the engine, and waits until it shows.
async fn lay(inside: Inside, plan: Plan) -> Result<(), String> {
    let asked = inside.engine.ask(move |core| core.reconfigure(plan));
    let answer = asked.map_err(|error| error.to_string())?;
    let laid = answer.await.map(|_| ());
    laid.map_err(|_| "the engine has stopped".to_owned())
}

/// Gives nodes the labels that their GPUs have earned.
fn label(inside: &Inside, shared: &Shared, strategy: MigStrategy, names: &[(String, u64)]) {
    let options = gfd::Options {
        strategy,
        sharing: gfd::Sharing::default(),
        machine: String::new(),
        // It would be another object each time.
        timestamp: None,
    };
    for (name, shape) in names {
        if let Some(snapshot) = inside.fleet.one(name) {
            for image in &snapshot.nodes {
                shared.label(name, *shape, gfd::labels(image, &options));
            }
        }
    }
}

impl Laid {
    /// The fleet as a plan.
    fn of(controller: &Controller) -> Laid {
        let wanted = controller.wanted.as_ref();
        let mut plan = Plan::empty(wanted.map_or(0, |wanted| wanted.plan.seed));
        if let Some(wanted) = wanted {
            plan.tick = wanted.plan.tick;
            plan.mig_strategy = wanted.plan.mig_strategy;
            plan.pool_label.clone_from(&wanted.plan.pool_label);
        }
        let mut shapes = Vec::new();
        for (node, works, shape) in controller.fleet() {
            let index = u32::try_from(plan.nodes.len()).unwrap_or(u32::MAX);
            plan.nodes.push(node);
            shapes.push(shape);
            plan.workloads
                .extend(works.into_iter().map(|work| workload(index, work)));
        }
        Laid { plan, shapes }
    }
}

fn workload(node: u32, work: Work) -> WorkloadPlan {
    let devices = work.devices.iter().map(|(gpu, instance)| DeviceRef {
        node,
        gpu: *gpu,
        instance: *instance,
    });
    WorkloadPlan {
        name: format!("{}/{}", work.owner.pod_uid, work.owner.container),
        devices: devices.collect(),
        at: Duration::ZERO,
        activity: work.activity.steps,
        repeat: if work.activity.is_endless {
            None
        } else {
            Some(1)
        },
        limits: Limits::default(),
        intensity: INTENSITY,
        tensor: 0.0,
        owner: Some(work.owner),
        process: "python3".into(),
        kind: WorkloadKind::Compute,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use mirage_k8s::controller::Wanted;

    use super::*;

    fn laid(nodes: u32, shapes: &[u64]) -> Laid {
        let text = format!("pools:\n  gpu: {{ model: t4, gpus: 4, virtual-nodes: {nodes} }}\n");
        Laid {
            plan: Wanted::read(&text, "test").unwrap().plan,
            shapes: shapes.to_vec(),
        }
    }

    #[test]
    fn only_what_changed_is_laid_again() {
        let two = laid(2, &[1, 2]);
        assert_eq!(changed(&two, &laid(2, &[1, 2])), None);
        let new = |name: &str, shape| (name.to_owned(), shape);
        assert_eq!(
            changed(&two, &laid(3, &[1, 2, 3])).unwrap(),
            [new("gpu-2", 3)]
        );
        assert_eq!(changed(&two, &laid(1, &[1])).unwrap(), []);
        assert_eq!(changed(&two, &laid(2, &[4, 2])).unwrap(), [new("gpu-0", 4)]);
    }
}
