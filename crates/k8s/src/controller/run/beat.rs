//! Signs of life of the nodes that are kept: their leases, a bounded number at a time, each in its own time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::perform::patch;
use super::{Shared, Tell};
use crate::controller::MANAGER;
use crate::error::chain;

/// How often a node's lease is renewed. After 40 s a cluster gives a node up; half of that is left for a slow server.
const RENEW: Duration = Duration::from_secs(20);
/// How often it is looked whether one is due.
const LOOK: Duration = Duration::from_millis(500);
/// Leases written at a time.
const PARALLEL: usize = 16;
/// Leases renewed before it is looked again, so that new nodes need not wait for all the old ones.
const ROUND: usize = 256;
/// Leases that stand, listed at a time.
const PAGE: u32 = 500;
/// Where nodes have their leases.
pub(super) const LEASES: &str = "kube-node-lease";

/// A node by name and UID.
type Key = (String, String);

/// When the leases of nodes are due.
#[derive(Debug, Default)]
struct Due {
    next: HashMap<Key, Instant>,
    /// Those that an earlier process left, until their nodes are thought of.
    standing: HashMap<Key, Instant>,
}

impl Due {
    /// Those that are due, longest first, a node's first before all; nodes that are not among `alive` are forgotten.
    fn take(&mut self, alive: Vec<Key>, now: Instant) -> Vec<(Key, bool)> {
        let before = std::mem::take(&mut self.next);
        let mut due = Vec::new();
        for node in alive {
            match before
                .get(&node)
                .copied()
                .or_else(|| self.standing.remove(&node))
            {
                Some(next) => {
                    if next <= now {
                        due.push((Some(next), node.clone()));
                    }
                    self.next.insert(node, next);
                }
                None => due.push((None, node)),
            }
        }
        due.sort();
        due.truncate(ROUND);
        due.into_iter()
            .map(|(since, node)| (node, since.is_none()))
            .collect()
    }

    /// A lease was written; or was not, and has to be made anew.
    fn done(&mut self, node: Key, succeeded: bool, now: Instant) {
        if succeeded {
            self.next.insert(node, now + RENEW);
        } else {
            self.next.remove(&node);
        }
    }
}

/// Renews the leases of the nodes that are kept alive, for ever.
pub(super) async fn nodes(client: Client, shared: Arc<Shared>, tell: Tell) {
    const PART: &str = "heartbeats";
    let api: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let mut due = Due::default();
    let mut acted = false;
    loop {
        let round = if shared.acts() {
            if !std::mem::replace(&mut acted, true) {
                match standing(&api).await {
                    Ok(leases) => due.standing = leases,
                    // Then each is written as if it were new.
                    Err(error) => tell(PART, Err(format!("listing leases: {}", chain(&error)))),
                }
            }
            let alive = shared.look(|controller| controller.alive());
            due.take(alive, Instant::now())
        } else {
            // Whoever leads next writes them; when it is this one again, they are its first.
            due = Due::default();
            acted = false;
            Vec::new()
        };
        let is_full = round.len() == ROUND;
        let renewals = round
            .into_iter()
            .map(|(node, is_first)| renew(&client, &api, &shared, node, is_first));
        let mut renewals = stream::iter(renewals).buffer_unordered(PARALLEL);
        let mut failed = false;
        while let Some((node, outcome)) = renewals.next().await {
            due.done(node, outcome.is_ok(), Instant::now());
            failed |= outcome.is_err();
            tell(PART, outcome);
        }
        if !is_full || failed {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// The leases that stand, and when they are due: whoever takes over need not write them all at once.
async fn standing(api: &Api<Lease>) -> Result<HashMap<Key, Instant>, kube::Error> {
    let mut all = HashMap::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        let (now, clock) = (Instant::now(), Timestamp::now());
        for lease in list.items {
            let renewed = lease.spec.and_then(|spec| spec.renew_time);
            let owner = lease.metadata.owner_references.unwrap_or_default();
            let owner = owner.into_iter().find(|owner| owner.kind == "Node");
            if let (Some(node), Some(owner), Some(MicroTime(renewed))) =
                (lease.metadata.name, owner, renewed)
            {
                // The other's clock may be ahead of this one, or far behind.
                let age = Duration::try_from(clock.duration_since(renewed)).unwrap_or_default();
                all.insert((node, owner.uid), now + RENEW.saturating_sub(age));
            }
        }
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => return Ok(all),
        }
    }
}

async fn renew(
    client: &Client,
    api: &Api<Lease>,
    shared: &Shared,
    key: Key,
    is_first: bool,
) -> (Key, Result<(), String>) {
    let (node, uid) = &key;
    if !shared.acts() {
        return (key, Ok(()));
    }
    let now = MicroTime(Timestamp::now());
    shared.count("leases");
    let done = if is_first {
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": node,
                "namespace": LEASES,
                // It goes with its node.
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }],
            },
            "spec": { "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now },
        });
        let how = PatchParams::apply(MANAGER).force();
        patch(client, api, node, None, &how, &Patch::Apply(&body)).await
    } else {
        // Costs the server a fraction of the other.
        let body = json!({ "spec": { "renewTime": now } });
        let how = PatchParams::default();
        patch(client, api, node, None, &how, &Patch::Merge(&body)).await
    };
    let outcome =
        done.map_err(|error| format!("renewing the lease of node {node}: {}", chain(&error)));
    (key, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        (name.to_owned(), format!("uid-{name}"))
    }

    fn names(due: &[(Key, bool)]) -> Vec<(&str, bool)> {
        due.iter()
            .map(|((name, _), first)| (&**name, *first))
            .collect()
    }

    #[test]
    fn each_node_has_its_own_time_and_new_ones_come_first() {
        let start = Instant::now();
        let mut due = Due::default();
        let two = || vec![key("a"), key("b")];
        assert_eq!(names(&due.take(two(), start)), [("a", true), ("b", true)]);
        due.done(key("a"), true, start + Duration::from_secs(2));
        due.done(key("b"), true, start);
        assert!(due.take(two(), start).is_empty());
        // The longest due comes first, and a new one before all.
        let later = start + RENEW + Duration::from_secs(2);
        let all = || vec![key("a"), key("b"), key("c")];
        let round = due.take(all(), later);
        assert_eq!(names(&round), [("c", true), ("b", false), ("a", false)]);
        // What could not be renewed is made anew.
        due.done(key("b"), false, later);
        due.done(key("a"), true, later);
        due.done(key("c"), true, later);
        assert_eq!(names(&due.take(all(), later)), [("b", true)]);
        // A node made again under its name is another.
        due.done(key("b"), true, later);
        let other = vec![("a".to_owned(), "uid-other".to_owned())];
        assert_eq!(names(&due.take(other, later)), [("a", true)]);
    }

    #[test]
    fn a_lease_that_stands_is_renewed_in_its_time() {
        let start = Instant::now();
        let mut due = Due {
            standing: HashMap::from([
                (key("old"), start),
                (key("fresh"), start + RENEW),
                (key("later"), start + RENEW),
            ]),
            ..Due::default()
        };
        let alive = || vec![key("old"), key("fresh"), key("new")];
        let round = due.take(alive(), start);
        assert_eq!(names(&round), [("new", true), ("old", false)]);
        due.done(key("new"), true, start);
        due.done(key("old"), true, start);
        // A node that is thought of later still has its lease.
        assert!(due.take(vec![key("later")], start).is_empty());
        let again = due.take(vec![key("later")], start + RENEW);
        assert_eq!(names(&again), [("later", false)]);
    }

    #[test]
    fn a_round_is_bounded() {
        let mut due = Due::default();
        let many: Vec<Key> = (0..ROUND + 5).map(|n| key(&format!("n{n}"))).collect();
        assert_eq!(due.take(many, Instant::now()).len(), ROUND);
    }
}
