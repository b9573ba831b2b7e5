//! Learns the priority classes of the groups that the node's pods name. Groups are other programs', and what class one has does not change:
//! each is asked for until it is known, and nobody is asked where no pod names one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mirage_k8s::cluster::Client;
use mirage_k8s::usage::groups::{Classes, ask, wanted};

use crate::node::Node;

/// Its name in `/health`.
const PART: &str = "pod-groups";
/// Time until one that is not known is asked for again: whoever makes groups may be slower than whoever makes pods.
const AGAIN: Duration = Duration::from_secs(10);
/// Shortest time between two looks at the pods.
const SOONEST: Duration = Duration::from_secs(1);

/// Learns for ever.
pub(super) async fn learn(node: &Node, client: &Client) {
    let cluster = &node.cluster;
    let mut changes = cluster.pods().changes();
    let mut known = Classes::new();
    let mut asked = BTreeMap::new();
    let mut is_used = false;
    loop {
        changes.borrow_and_update();
        let named = wanted(&cluster.pods().all());
        is_used |= !named.is_empty();
        known.retain(|key, _| named.contains(key));
        asked.retain(|key, _| named.contains(key));
        // Of the attempts made now. Where nobody is to be asked there is no trouble.
        let mut outcome = named.is_empty().then_some(Ok(()));
        for key in &named {
            let is_due = |at: &Instant| at.elapsed() >= AGAIN;
            if known.contains_key(key) || !asked.get(key).is_none_or(is_due) {
                continue;
            }
            asked.insert(key.clone(), Instant::now());
            match ask(client, &key.0, &key.1).await {
                Ok(class) => {
                    outcome = Some(Ok(()));
                    known.extend(class.map(|class| (key.clone(), class)));
                }
                // Whoever refuses one refuses all.
                Err(why) => {
                    outcome = Some(Err(why));
                    break;
                }
            }
        }
        match outcome {
            Some(Ok(())) if is_used => node.inside.health.good(PART),
            Some(Err(why)) => node.inside.health.trouble(PART, why),
            _ => {}
        }
        cluster.classes.send_if_modified(|now| {
            let changed = **now != known;
            if changed {
                *now = Arc::new(known.clone());
            }
            changed
        });
        tokio::time::sleep(SOONEST).await;
        let waits = known.len() < named.len();
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if waits => {}
        }
    }
}
