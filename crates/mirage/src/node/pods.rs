//! What the node's pods do with their GPUs.
//!
//! Who was given which device is what the sources of attribution say; who runs, and what it does, is what the API server
//! says. Both are joined once a second and whenever a pod changes, and the engine's workloads are made to follow: what is
//! there and not wanted ends, what is wanted and not there begins. Nothing else is remembered, so it does not matter what
//! happened while mirage was away.

mod events;
mod reconcile;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mirage_k8s::usage::{self, Known};
use mirage_k8s::{Claims, PodFacts};
use tokio::time::MissedTickBehavior;

use self::events::Teller;
use self::reconcile::Ledger;
use super::Node;

/// Its name in `/health`.
pub(super) const PART: &str = "pods";
/// Time between two looks when nothing happens.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two looks when much happens: the kubelet takes no more than so many questions.
const SOONEST: Duration = Duration::from_millis(200);

/// Options.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct PodArgs {
    /// Leave GPUs idle whatever pods do; they are still shown with who holds them
    #[arg(long)]
    no_pod_activity: bool,
}

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &PodArgs) {
    let mut ending = node.inside.ending.clone();
    let (teller, telling) = events::channel(&node);
    let activity = async {
        match args.no_pod_activity {
            true => std::future::pending().await,
            false => work(&node, teller).await,
        }
    };
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = describe(&node) => {}
        () = activity => {}
        () = telling => {}
    }
}

/// Tells those who show pods what the API server knows of them.
async fn describe(node: &Node) {
    let attribution = &node.inside.attribution;
    if !node.cluster.is_wanted() {
        return std::future::pending().await;
    }
    let (cluster, filter) = (node.cluster.clone(), attribution.filter().clone());
    attribution
        .refine(move |claims: &Claims| usage::refined(claims, &cluster.pods().all(), &filter));
    let mut changes = node.cluster.pods().changes();
    while changes.changed().await.is_ok() {
        let pods = node.cluster.pods().all();
        let facts = pods.iter().map(|pod| {
            let facts = PodFacts {
                uid: pod.uid.clone(),
                labels: pod.labels.clone(),
            };
            ((pod.namespace.clone(), pod.name.clone()), facts)
        });
        attribution.tell_pods(facts.collect());
        // However much happens, a few times a second are enough.
        tokio::time::sleep(SOONEST).await;
    }
}

async fn work(node: &Node, mut teller: Teller) {
    node.cluster.settle().await;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut pods = node.cluster.pods().changes();
    let mut classes = node.cluster.class_changes();
    let mut look = tokio::time::interval(EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            Ok(()) = classes.changed() => {}
            changed = pods.changed() => {
                if changed.is_err() {
                    return;
                }
                // The kubelet knows already what the API server has just told.
                let asked = node.inside.attribution.refresh();
                // One that does not answer is no reason to wait: what it said last stands.
                let _ = tokio::time::timeout(EVERY, asked).await;
            }
        }
        pods.borrow_and_update();
        match round(node, &ledger, &mut teller).await {
            Ok(()) => node.inside.health.good(PART),
            Err(why) => node.inside.health.trouble(PART, why),
        }
        tokio::time::sleep(SOONEST).await;
    }
}

/// Joins what is known, and makes the engine follow.
async fn round(
    node: &Node,
    ledger: &Arc<Mutex<Ledger>>,
    teller: &mut Teller,
) -> Result<(), String> {
    let cluster = &node.cluster;
    if cluster.is_wanted() && !cluster.pods().is_complete() {
        return Err("waiting for the API server to say which pods there are".into());
    }
    let Some(snapshot) = node.inside.fleet.one(&node.name) else {
        return Err(format!("the config has no node {} any more", node.name));
    };
    let Some(image) = snapshot.nodes.first() else {
        return Ok(());
    };
    let attribution = &node.inside.attribution;
    let (pods, classes, rates) = (cluster.pods().all(), cluster.classes(), cluster.rates());
    let known = if cluster.is_wanted() {
        Known::Pods(&pods, &classes, &rates)
    } else {
        Known::Nothing
    };
    let usage = usage::read(&attribution.claims(), known, image, attribution.filter());
    teller.tell(&pods, usage.complaints);
    let (name, ledger, busy) = (node.name.clone(), ledger.clone(), usage.busy);
    let job = node.inside.engine.ask(move |core| {
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.reconcile(core, &name, busy, Instant::now())
    });
    let refused = job
        .map_err(|error| error.to_string())?
        .await
        .map_err(|_| "the engine has stopped".to_owned())?;
    match refused.first() {
        None => Ok(()),
        Some(refusal) => Err(refusal.clone()),
    }
}
