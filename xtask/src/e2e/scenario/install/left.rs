//! What is left when mirage was taken back: nothing, in the cluster, on its node, and on a node and a pod that somebody else keeps.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::{GPU, Names, POOL, Stage, mark};
use crate::e2e::cluster::{Cluster, PODS};
use crate::e2e::process::until;

/// Where the agent leaves files on a node, all of which go with it.
const PLACES: &[&str] = &["/run/mirage", "/var/lib/nvidia-mock", "/var/run/cdi"];
const PLUGINS: &str = "/var/lib/kubelet/device-plugins";
/// A node that no kubelet keeps and mirage did not make, and its pod.
const OTHERS: &str = "kwok-0";

/// Has somebody else bring a node as KWOK has them, with a pod that asks for a GPU, and waits until mirage speaks of both.
pub(super) fn kept_by_others(stage: &Stage) -> Result<()> {
    let cluster = &stage.cluster;
    let text = format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {OTHERS}\n  \
         labels: {{ type: kwok, {POOL}: default }}\n  annotations: {{ kwok.x-k8s.io/node: fake }}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{ name: {OTHERS}, namespace: default }}\nspec:\n  \
         nodeName: {OTHERS}\n  tolerations: [{{ operator: Exists }}]\n  \
         containers: [{{ name: main, image: none, resources: {{ limits: {{ {GPU}: \"1\" }} }} }}]\n"
    );
    super::apply(stage, "others.yaml", &text)?;
    until("word of mirage on the node of others and its pod", || {
        let (node, pod) = others(cluster)?;
        let speaks = mark(&node).is_some()
            && node["status"]["capacity"][GPU].is_string()
            && note(&pod).is_some();
        Ok(if speaks {
            Ok(())
        } else {
            Err(format!("{node} {pod}"))
        })
    })
}

/// Makes sure that both stand there as they came, and takes them away.
fn nothing_on_others(cluster: &Cluster) -> Result<()> {
    let (node, pod) = others(cluster)?;
    for object in [&node, &pod] {
        if let Some(key) = mark(object).or_else(|| note(object)) {
            bail!("{OTHERS} still has {key}: {}", object["metadata"]);
        }
    }
    let capacity = &node["status"]["capacity"][GPU];
    ensure!(capacity.is_null(), "{OTHERS} still has {capacity} GPUs");
    let now = ["--force", "--grace-period=0"];
    cluster.kubectl(&["delete", "pod", OTHERS, now[0], now[1]])?;
    cluster.kubectl(&["delete", "node", OTHERS]).map(drop)
}

fn others(cluster: &Cluster) -> Result<(Value, Value)> {
    let find = |path: String| cluster.find(&path)?.with_context(|| format!("no {path}"));
    Ok((
        find(format!("/api/v1/nodes/{OTHERS}"))?,
        find(format!("{PODS}/{OTHERS}"))?,
    ))
}

/// An annotation that mirage leaves on a node or a pod.
fn note(object: &Value) -> Option<&str> {
    let all = object["metadata"]["annotations"].as_object();
    let mut keys = all.into_iter().flatten().map(|(key, _)| key.as_str());
    let ours = ["mirage.dev/", "nvidia.com/", "run.ai/"];
    keys.find(|key| ours.iter().any(|start| key.starts_with(start)))
}

/// Nothing of mirage is left, in the cluster or on the node.
pub(super) fn nothing_left(cluster: &Cluster, names: &Names) -> Result<()> {
    nothing_on_others(cluster)?;
    let nodes = cluster.find("/api/v1/nodes")?.context("no list of nodes")?;
    let nodes = nodes["items"].as_array().cloned().unwrap_or_default();
    let [node] = nodes.as_slice() else {
        bail!("{} nodes are left", nodes.len());
    };
    if let Some(key) = mark(node) {
        bail!("the node still has the label {key}");
    }
    if let Some(key) = note(node) {
        bail!("the node still has the annotation {key}");
    }
    cluster.no_gpus()?;
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    ensure!(
        conditions.all(|condition| condition["type"] != "GPULost"),
        "the node still has the condition GPULost"
    );
    until("end of the namespace", || {
        let left = cluster.find(&format!("/api/v1/namespaces/{}", names.namespace))?;
        Ok(left.map_or(Ok(()), |left| Err(left["status"].to_string())))
    })?;
    let named = cluster.kubectl(&[
        "get",
        "clusterroles,clusterrolebindings,validatingadmissionpolicies,runtimeclasses,customresourcedefinitions,roles,rolebindings,leases,configmaps",
        "-A",
        "-l",
        "app.kubernetes.io/part-of=mirage",
        "-o",
        "name",
    ])?;
    ensure!(named.trim().is_empty(), "the cluster still has {named}");
    until("end of the leases of nodes without a kubelet", || {
        let names = cluster.kubectl(&["get", "leases", "-n", "kube-node-lease", "-o", "name"])?;
        Ok(if names.contains("cloud-") || names.contains(OTHERS) {
            Err(names)
        } else {
            Ok(())
        })
    })?;
    for place in PLACES {
        let left = entries(place);
        ensure!(left.is_empty(), "{place} still has {left:?}");
    }
    let sockets = entries(PLUGINS);
    ensure!(
        sockets.iter().all(|name| name.starts_with("kubelet")),
        "{PLUGINS} still has {sockets:?}"
    );
    Ok(())
}

fn entries(directory: &str) -> Vec<String> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
