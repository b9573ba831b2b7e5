//! The GPUs of nodes without a kubelet, simulated: whatever the controller decides is laid over the engine, and the labels that
//! follow from what is simulated go back to it.

mod jobs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mirage_k8s::controller::run::Shared;
use mirage_k8s::controller::settle::Controller;
use mirage_k8s::gfd;
use mirage_model::plan::{MigStrategy, Plan};

use self::jobs::{Job, Jobs};
use crate::machine::Inside;

/// Its name in `/health`.
const PART: &str = "simulation";
/// Least time between two changes of the engine: a thousand pods that come at once are one change.
const SOONEST: Duration = Duration::from_millis(250);

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
        if let Some(Change {
            names,
            is_laid_anew,
        }) = changed
        {
            let plan = is_laid_anew.then(|| fleet.plan.clone());
            match lay(inside.clone(), plan, fleet.jobs.clone()).await {
                Ok(refused) => {
                    match refused.into_iter().next() {
                        None => inside.health.good(PART),
                        Some(why) => inside.health.trouble(PART, why),
                    }
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
    /// What runs on them.
    jobs: Arc<Jobs>,
}

/// What is to be done about a fleet that is not as it was.
#[derive(Debug, PartialEq)]
struct Change {
    /// Nodes whose GPUs are others than before, with their shapes.
    names: Vec<(String, u64)>,
    /// Nodes came, went or changed; otherwise only what runs on them.
    is_laid_anew: bool,
}

impl Default for Laid {
    fn default() -> Self {
        Laid {
            plan: Plan::empty(0),
            shapes: Vec::new(),
            jobs: Arc::default(),
        }
    }
}

/// What is not as it was; nothing if all is.
fn changed(before: &Laid, now: &Laid) -> Option<Change> {
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
    let is_laid_anew = !names.is_empty() || rest(before) != rest(now);
    let change = Change {
        names,
        is_laid_anew,
    };
    (is_laid_anew || before.jobs != now.jobs).then_some(change)
}

/// Lays a plan over the engine, if it is another, and what runs; waits until it shows. Returns what was refused.
async fn lay(inside: Inside, plan: Option<Plan>, jobs: Arc<Jobs>) -> Result<Vec<String>, String> {
    let asked = inside.engine.ask(move |core| {
        if let Some(plan) = plan {
            core.reconfigure(plan);
        }
        jobs::follow(core, &jobs, SystemTime::now())
    });
    let answer = asked.map_err(|error| error.to_string())?;
    let laid = answer.await;
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
        let mut jobs = Jobs::new();
        for (node, works, shape) in controller.fleet() {
            let index = u32::try_from(plan.nodes.len()).unwrap_or(u32::MAX);
            plan.nodes.push(node);
            shapes.push(shape);
            let works = works.into_iter().map(|work| Job::new(index, work));
            jobs.extend(works.map(|job| (job.name().to_owned(), job)));
        }
        let jobs = Arc::new(jobs);
        Laid { plan, shapes, jobs }
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
            jobs: Arc::default(),
        }
    }

    #[test]
    fn only_what_changed_is_laid_again() {
        let two = laid(2, &[1, 2]);
        assert_eq!(changed(&two, &laid(2, &[1, 2])), None);
        let anew = |now: &Laid| {
            let change = changed(&two, now).unwrap();
            assert!(change.is_laid_anew);
            change.names
        };
        let new = |name: &str, shape| (name.to_owned(), shape);
        assert_eq!(anew(&laid(3, &[1, 2, 3])), [new("gpu-2", 3)]);
        assert_eq!(anew(&laid(1, &[1])), []);
        assert_eq!(anew(&laid(2, &[4, 2])), [new("gpu-0", 4)]);
    }
}
