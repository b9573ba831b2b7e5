//! The node as the cluster's document wants it: an edit of its pool reaches the engine, and with it the device plugin, labels and
//! metrics, without a restart. A GPU in use stays as it is until its pod ends, and is not offered again if it is to go.
//! A document that cannot be read changes nothing, and is told so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::cluster::node::Labels;
use mirage_k8s::cluster::own::{About, Document, Own, follow_document, warn};
use mirage_k8s::cluster::tell::Complaint;
use mirage_k8s::controller::settle::grown;
use mirage_k8s::migconfig;
use mirage_k8s::topology::KEY;
use mirage_k8s::topology::report::{Held, held};
use mirage_model::config::{self, Defaults};
use mirage_model::plan::Plan;
use tokio::sync::watch;

use super::Node;
use super::asked::{AskedArgs, Place};
use crate::cli::say;
use crate::engine::Core;

/// Its names in `/health`: what the document says, and whether it can be asked for.
pub(super) const PART: &str = "topology";
const WATCH: &str = "topology-watch";
/// Longest time that the kubelet is waited for when it is asked who has what.
const ASKING: Duration = Duration::from_secs(2);
/// Time until the engine is asked again when it has no time.
const AGAIN: Duration = Duration::from_millis(100);

/// What the document is read with.
#[derive(Debug, Clone)]
struct Reading {
    node: String,
    /// The pool that was given on the command line.
    pool: Option<String>,
    seed: Option<u64>,
}

/// Runs until the machine ends. `limit` is told how many GPUs are offered while others are drained.
pub(super) async fn run(
    node: Node,
    args: &AskedArgs,
    pool: Option<&str>,
    seed: Option<u64>,
    limit: watch::Sender<Option<u32>>,
) {
    let Some(place) = &args.topology else {
        return;
    };
    let reading = Reading {
        node: node.name.clone(),
        pool: pool.map(str::to_owned),
        seed,
    };
    let (document, told) = watch::channel(None);
    let mut ending = node.inside.ending.clone();
    let work = async {
        tokio::join!(
            listen(&node, place, &document),
            follow(&node, args, &reading, told, &limit),
        );
    };
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = work => {}
    }
}

async fn listen(node: &Node, place: &Place, document: &watch::Sender<Option<Document>>) {
    let health = &node.inside.health;
    let client = node.cluster.reached().await;
    let Place { namespace, name } = place;
    health.trouble(PART, format!("waiting for ConfigMap {namespace}/{name}"));
    let tell = |outcome: Result<(), String>| match outcome {
        Ok(()) => health.good(WATCH),
        Err(why) => health.trouble(WATCH, why),
    };
    let hear = |now: Document| {
        document.send_replace(Some(now));
    };
    follow_document(client, namespace, name, tell, hear).await;
}

async fn follow(
    node: &Node,
    args: &AskedArgs,
    reading: &Reading,
    mut document: watch::Receiver<Option<Document>>,
    limit: &watch::Sender<Option<u32>>,
) {
    let mut own = node.own.clone();
    let mut ticks = node.inside.fleet.changes();
    // What was read last.
    let mut read: Option<(Document, Labels)> = None;
    let mut wanted: Option<Plan> = None;
    loop {
        let (map, object) = (
            document.borrow_and_update().clone(),
            own.borrow_and_update().clone(),
        );
        ticks.borrow_and_update();
        let mut drains = false;
        if let (Some(map), Some(object)) = (map, object) {
            // Its labels say which pool it is of.
            let key = (map.clone(), object.labels.clone());
            if read.as_ref() != Some(&key) {
                match plan(reading, &map, &object) {
                    Ok(plan) => {
                        wanted = Some(plan);
                        node.inside.health.good(PART);
                    }
                    Err(why) => {
                        let why = format!("{why}; the old topology stays in force");
                        complain(node, &map, &why).await;
                        node.inside.health.trouble(PART, why);
                    }
                }
                read = Some(key);
            }
            if let Some(wanted) = &wanted {
                let mut wanted = wanted.clone();
                for one in &mut wanted.nodes {
                    one.dynamic_mig |= args.mig_manager && migconfig::is_dynamic(&object.labels);
                }
                drains = lay(node, wanted, limit).await;
            }
        }
        let gone = tokio::select! {
            changed = document.changed() => changed.is_err(),
            changed = own.changed() => changed.is_err(),
            changed = ticks.changed(), if drains => changed.is_err(),
        };
        if gone {
            return;
        }
    }
}

/// What the document makes of this node.
fn plan(reading: &Reading, map: &Document, own: &Own) -> Result<Plan, String> {
    let place = format!("{}/{}", map.namespace, map.name);
    let Some(text) = &map.text else {
        return Err(format!("ConfigMap {place} has no `{KEY}`"));
    };
    let defaults = Defaults {
        host: reading.node.clone(),
        seed: reading.seed.unwrap_or(0),
        ..Defaults::default()
    };
    let loaded =
        config::load(text, &map.name, &defaults).map_err(|problems| problems.to_string())?;
    let mut plan = loaded.plan;
    if let Some(seed) = reading.seed {
        plan.seed = seed;
    }
    let labelled = own.labels.get(&plan.pool_label);
    let pool = reading.pool.clone().or_else(|| labelled.cloned());
    plan.alone(&reading.node, pool.as_deref())
        .map_err(|why| format!("ConfigMap {place}: {why}"))
}

/// Says on the document what is wrong with it.
async fn complain(node: &Node, map: &Document, why: &str) {
    let complaint = Complaint {
        reason: "BadTopology",
        message: why.to_owned(),
    };
    let client = node.cluster.reached().await;
    if let Err(error) = warn(&client, &node.name, About::Document(map), &complaint).await {
        say(&error);
    }
}

/// Makes the engine follow. Returns whether something waits for a pod to end.
async fn lay(node: &Node, wanted: Plan, limit: &watch::Sender<Option<u32>>) -> bool {
    let wanted = Arc::new(wanted);
    let (name, plan) = (node.name.clone(), wanted.clone());
    let stands = ask(node, move |core| **core.plan() == *plan).await;
    if stands {
        limit.send_replace(None);
        return false;
    }
    // The kubelet knows best, and now.
    let _ = tokio::time::timeout(ASKING, node.inside.attribution.refresh()).await;
    let busy: BTreeSet<u32> = in_hands(node).into_iter().map(|held| held.gpu).collect();
    let plan = wanted.clone();
    let last = busy.last().map_or(0, |last| *last as usize + 1);
    let old = name.clone();
    let final_plan = ask(node, move |core| {
        let old = core.plan().nodes.iter().find(|node| *node.name == *old);
        let mut plan = (*plan).clone();
        plan.nodes = plan
            .nodes
            .into_iter()
            .map(|node| grown(node, old, last, |gpu| busy.contains(&gpu)))
            .collect();
        plan
    })
    .await;
    let count = |plan: &Plan| plan.nodes.first().map_or(0, |node| node.gpus.len());
    let (offered, simulated) = (count(&wanted), count(&final_plan));
    let some = u32::try_from(offered).ok().filter(|_| simulated > offered);
    limit.send_replace(some);
    let drains = final_plan != *wanted;
    let changed = ask(node, move |core| {
        let changes = **core.plan() != final_plan;
        if changes {
            core.reconfigure(final_plan);
        }
        changes
    })
    .await;
    if changed {
        let left = simulated.saturating_sub(offered);
        say(&match (drains, left) {
            (false, _) => format!("{PART}: the node has {offered} GPUs, as the cluster wants it"),
            (true, 0) => format!("{PART}: GPUs that pods use become others when these end"),
            (true, left) => {
                format!(
                    "{PART}: {offered} GPUs are offered; up to {left} more go when their pods end"
                )
            }
        });
    }
    drains
}

/// Who has which of the node's GPUs.
pub(super) fn in_hands(node: &Node) -> Vec<Held> {
    let Some(image) = node.image() else {
        return Vec::new();
    };
    let pods = node.cluster.pods();
    let known = pods.is_complete().then(|| pods.all());
    held(&node.inside.attribution.claims(), known.as_deref(), &image)
}

/// Asks the engine until it has time.
pub(super) async fn ask<T: Send + 'static>(
    node: &Node,
    job: impl FnOnce(&mut Core) -> T + Send + 'static,
) -> T {
    let mut job = Some(job);
    loop {
        // A job that is refused is lost: it is sent as something that can be taken out again.
        let slot = Arc::new(std::sync::Mutex::new(job.take()));
        let sent = slot.clone();
        let run = move |core: &mut Core| {
            let job = sent.lock().unwrap_or_else(|it| it.into_inner()).take();
            job.map(|job| job(core))
        };
        match node.inside.engine.ask(run) {
            Ok(answer) => match answer.await {
                Ok(Some(answer)) => return answer,
                // The engine has stopped: the machine ends.
                _ => std::future::pending().await,
            },
            Err(_) => {
                job = slot.lock().unwrap_or_else(|it| it.into_inner()).take();
                if job.is_none() {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    const TEXT: &str = "\
pools:
  small: { model: tesla-t4, gpus: 1 }
  large: { model: h100-sxm5-80gb, gpus: 8 }
nodes:
  named: { model: tesla-t4, gpus: 3 }
";

    fn document(text: &str) -> Document {
        Document {
            name: "topology".into(),
            namespace: "gpu-operator".into(),
            text: Some(text.into()),
            ..Document::default()
        }
    }

    fn gpus(node: &str, pool: Option<&str>, label: Option<&str>) -> Result<usize, String> {
        let reading = Reading {
            node: node.into(),
            pool: pool.map(str::to_owned),
            seed: None,
        };
        let mut own = Own::default();
        if let Some(label) = label {
            let key = mirage_model::plan::POOL_LABEL;
            own.labels.insert(key.into(), label.into());
        }
        let plan = plan(&reading, &document(TEXT), &own)?;
        assert_eq!(plan.nodes.len(), 1);
        assert_eq!(&*plan.nodes[0].name, node);
        Ok(plan.nodes[0].gpus.len())
    }

    #[test]
    fn a_node_is_as_its_label_or_its_own_entry_says() {
        assert_eq!(gpus("n", None, Some("large")), Ok(8));
        assert_eq!(gpus("n", Some("small"), Some("large")), Ok(1));
        assert_eq!(gpus("named", None, None), Ok(3));
        let why = gpus("n", None, Some("huge")).unwrap_err();
        assert!(
            why.contains("gpu-operator/topology") && why.contains("huge"),
            "{why}"
        );
        assert!(gpus("n", None, None).unwrap_err().contains("small, large"));
    }

    #[test]
    fn a_bad_document_is_refused_with_its_line() {
        let reading = Reading {
            node: "n".into(),
            pool: None,
            seed: None,
        };
        let map = document("pools:\n  small: { model: nonsense-9000, gpus: 1 }\n");
        let why = plan(&reading, &map, &Own::default()).unwrap_err();
        assert!(why.contains("topology:2"), "{why}");
        let empty = Document {
            text: None,
            ..document("")
        };
        let why = plan(&reading, &empty, &Own::default()).unwrap_err();
        assert!(why.contains("topology.yml"), "{why}");
    }
}
