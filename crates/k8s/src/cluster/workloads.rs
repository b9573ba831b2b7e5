//! mirage's own workloads in a cluster: whether the DaemonSet that runs a node agent is still there and meant for its node, and their end.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};

use super::answered;

/// Most time for pods to end: their agents tidy up.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(500);

/// Whether a DaemonSet is gone, or on its way.
pub async fn is_gone(client: &Client, namespace: &str, daemonset: &str) -> Result<bool, String> {
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let what = || format!("looking for DaemonSet {namespace}/{daemonset}");
    let found = answered(what, api.get_opt(daemonset)).await?;
    Ok(found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()))
}

/// Whether a node has a label, whatever its value; one that is not there has none.
pub async fn is_labelled(client: &Client, node: &str, label: &str) -> Result<bool, String> {
    let api: Api<Node> = Api::all(client.clone());
    let what = || format!("looking for label {label} on node {node}");
    let found = answered(what, api.get_metadata_opt(node)).await?;
    Ok(found.is_some_and(|found| found.labels().contains_key(label)))
}

/// Deletes the Deployments and DaemonSets that a selector names, and waits until no pod of theirs is left. Says what ended.
pub async fn end(client: &Client, namespace: &str, selector: &str) -> Result<String, String> {
    let chosen = ListParams::default().labels(selector);
    let how = DeleteParams::background();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let daemonsets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    answered(
        || format!("deleting Deployments with {selector} in {namespace}"),
        deployments.delete_collection(&how, &chosen),
    )
    .await?;
    answered(
        || format!("deleting DaemonSets with {selector} in {namespace}"),
        daemonsets.delete_collection(&how, &chosen),
    )
    .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let begin = Instant::now();
    let mut most = 0;
    loop {
        let what = || format!("listing pods with {selector} in {namespace}");
        let left = answered(what, pods.list_metadata(&chosen)).await?.items;
        most = most.max(left.len());
        let Some(first) = left.first() else {
            return Ok(format!("{most} pods ended"));
        };
        if begin.elapsed() > PATIENCE {
            return Err(format!(
                "{} pods with {selector} have not ended after {PATIENCE:?}, the first of them {namespace}/{}; delete them, then try again",
                left.len(),
                first.name_any()
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
