//! Everything a controller wrote, taken back.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crate::controller::{MANAGER, VIRTUAL};
use crate::error::chain;

/// Takes back whatever the controller wrote: nodes that it made, labels and resources on nodes of others, documents, its lease.
/// The document that says what there is to be is its author's, and stays. Says what was done.
pub async fn remove(client: &Client, namespace: &str) -> Result<String, String> {
    let trouble = |what: &str, error: kube::Error| format!("{what}: {}", chain(&error));
    let lease: Api<Lease> = Api::namespaced(client.clone(), namespace);
    gone(lease.delete(MANAGER, &DeleteParams::default()).await)
        .map_err(|error| trouble("deleting the lease", error))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes
        .list(&ListParams::default())
        .await
        .map_err(|error| trouble("listing nodes", error))?;
    let (mut deleted, mut cleaned) = (0, 0);
    let apply = PatchParams::apply(MANAGER).force();
    for node in listed {
        let name = node.name_any();
        if node
            .annotations()
            .get(VIRTUAL)
            .is_some_and(|value| value == "true")
        {
            let done = nodes.delete(&name, &DeleteParams::default()).await;
            gone(done).map_err(|error| trouble(&format!("deleting node {name}"), error))?;
            deleted += 1;
        } else if node
            .managed_fields()
            .iter()
            .any(|entry| entry.manager.as_deref() == Some(MANAGER))
        {
            // Saying nothing about it any more takes away what was said.
            let nothing =
                json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
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
