//! Everything a controller wrote, taken back.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

use crate::controller::body::nothing;
use crate::controller::{MANAGER, VIRTUAL};
use crate::error::chain;

/// Nodes asked for at a time. Of a fleet of thousands, nothing but names is kept.
const PAGE: u32 = 250;

/// How much of a node a controller wrote.
#[derive(PartialEq, Eq)]
enum Wrote {
    All,
    Some,
}

impl Wrote {
    /// What was written of a node, by name; nothing if nothing was.
    fn on(node: Node) -> Option<(String, Wrote)> {
        let made = node.annotations().get(VIRTUAL);
        let mut managers = node.managed_fields().iter();
        let wrote = if made.is_some_and(|value| value == "true") {
            Wrote::All
        } else if managers.any(|entry| entry.manager.as_deref() == Some(MANAGER)) {
            Wrote::Some
        } else {
            return None;
        };
        Some((node.name_any(), wrote))
    }
}

/// Takes back whatever the controller wrote: nodes that it made, labels and resources on nodes of others, documents, its lease.
/// The document that says what there is to be is its author's, and stays. Says what was done.
pub async fn remove(client: &Client, namespace: &str) -> Result<String, String> {
    let trouble = |what: &str, error: kube::Error| format!("{what}: {}", chain(&error));
    let lease: Api<Lease> = Api::namespaced(client.clone(), namespace);
    gone(lease.delete(MANAGER, &DeleteParams::default()).await)
        .map_err(|error| trouble("deleting the lease", error))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let (mut deleted, mut cleaned) = (0, 0);
    let apply = PatchParams::apply(MANAGER).force();
    let mut page = ListParams::default().limit(PAGE);
    let mut listed = Vec::new();
    // Names first: a list goes on only as long as the server remembers where it was.
    loop {
        let list = nodes
            .list(&page)
            .await
            .map_err(|error| trouble("listing nodes", error))?;
        listed.extend(list.items.into_iter().filter_map(Wrote::on));
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => break,
        }
    }
    for (name, wrote) in listed {
        if wrote == Wrote::All {
            let done = nodes.delete(&name, &DeleteParams::default()).await;
            gone(done).map_err(|error| trouble(&format!("deleting node {name}"), error))?;
            deleted += 1;
        } else {
            // Saying nothing about it any more takes away what was said.
            let nothing = nothing(&name);
            let what = format!("cleaning node {name}");
            let done = nodes.patch(&name, &apply, &Patch::Apply(&nothing)).await;
            gone(done).map_err(|error| trouble(&what, error))?;
            let done = nodes
                .patch_status(&name, &apply, &Patch::Apply(&nothing))
                .await;
            gone(done).map_err(|error| trouble(&what, error))?;
            cleaned += 1;
        }
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/managed-by={MANAGER}"));
    let done = maps
        .delete_collection(&DeleteParams::default(), &ours)
        .await;
    done.map_err(|error| trouble("deleting documents", error))?;
    Ok(format!("{deleted} nodes deleted, {cleaned} cleaned"))
}

/// What is gone already is gone.
fn gone<T>(done: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}
