//! From the topology's ConfigMap to metrics, on a node with a kubelet: what the document says, edits of it, and GPUs that are cut into MIG
//! devices as the node's labels ask.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::look::{BUSY, attributed, busy, labelled, nvml, only_gpu};
use super::{GPU, Stage};
use crate::e2e::NODE;
use crate::e2e::cluster::{Cluster, Pod};
use crate::e2e::controller::{NAMESPACE, document as path, topology, until_held};
use crate::e2e::mirage::Shows;
use crate::e2e::process::until;

/// GPUs of the GPU Mock design, one of them with an id that is no UUID.
const FIRST: &str = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1";
const SECOND: &str = "GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8";
const THIRD: &str = "GPU-d9b1ba2a-1f4c-5b0e-8d3a-0e6a3f0f6b11";
const POOL: &str = "run.ai/simulated-gpu-node-pool";
const SLICE: &str = "nvidia.com/mig-1g.5gb";
const CONFIG: &str = "nvidia.com/mig.config";
const STATE: &str = "nvidia.com/mig.config.state";
const ROLES: [&str; 2] = [
    "node-role.kubernetes.io/runai-dynamic-mig",
    "node-role.kubernetes.io/runai-mig-enabled",
];
const OPTIONS: [&str; 3] = ["--topology", NAMESPACE, "--mig-manager"];

/// The document in the form of the GPU Mock design.
fn design(ids: &[&str]) -> String {
    let gpus: String = ids.iter().map(|id| format!("      - id: {id}\n")).collect();
    format!(
        "mig-strategy: mixed\nnodes:\n  {NODE}:\n    gpu-memory: 11441\n    gpu-product: Tesla-K80\n    gpus:\n{gpus}"
    )
}

/// The GPU Mock design's sequence: document, resource, labels, pod, metrics, document; then edits, a bad one among them.
pub(super) fn document(stage: &mut Stage) -> Result<()> {
    let options = &OPTIONS[..2];
    let cluster = &stage.cluster;
    topology(cluster, &design(&[FIRST, SECOND]))?;
    let mirage = stage.mirage(options)?;
    cluster.allocatable(GPU, 2)?;
    labelled(
        cluster,
        &[
            ("nvidia.com/gpu.count", "2"),
            ("nvidia.com/gpu.memory", "11441"),
            ("nvidia.com/gpu.product", "Tesla-K80"),
            ("nvidia.com/mig.strategy", "mixed"),
        ],
    )?;
    until_held(cluster, NODE, &["", ""])?;
    cluster.run(&Pod::with("worker", GPU, 1))?;
    let uuid = only_gpu(stage, "worker", "main")?;
    let at = [FIRST, SECOND].iter().position(|id| **id == *uuid);
    let at = at.with_context(|| format!("the document has no {uuid}"))?;
    attributed(&mirage, "worker", "main", std::slice::from_ref(&uuid))?;
    busy(&mirage, "worker", 95.0, 100.0)?;
    for metric in ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"] {
        mirage.until("the worker's memory", metric, |all| {
            let mut of = all.iter().filter(|one| one.label("pod") == "worker");
            (of.next()?.label("UUID") == uuid && of.next().is_none()).then_some(())
        })?;
    }
    let mut held = ["", "", ""];
    held[at] = "worker";
    until_held(cluster, NODE, &held[..2])?;

    // A GPU more, without a restart of anything.
    topology(cluster, &design(&[FIRST, SECOND, THIRD]))?;
    cluster.allocatable(GPU, 3)?;
    labelled(cluster, &[("nvidia.com/gpu.count", "3")])?;
    until_held(cluster, NODE, &held)?;
    let still = only_gpu(stage, "worker", "main")?;
    ensure!(still == uuid, "the worker had {uuid}, and now {still}");

    // Nonsense changes nothing, and is told with its line.
    topology(cluster, &design(&[FIRST]).replace("11441", "plenty"))?;
    refused(cluster, "topology:4")?;
    ensure!(cluster.resource(GPU)? == (3, 3), "a bad edit took effect");

    // The worker's GPU stays until it ends; the others go at once.
    let rest = if at == 0 { SECOND } else { FIRST };
    topology(cluster, &design(&[rest]))?;
    cluster.allocatable(GPU, 1)?;
    let still = only_gpu(stage, "worker", "main")?;
    ensure!(still == uuid, "the worker had {uuid}, and now {still}");
    cluster.delete("worker")?;
    until_held(cluster, NODE, &[""])?;
    mirage.until("the one GPU of the document", BUSY, |all| {
        (all.len() == 1 && all[0].label("UUID") == rest).then_some(())
    })?;
    mirage.stop()?;
    stage.uninstall(options)?;
    ensure!(
        cluster.find(&path(NODE))?.is_none(),
        "the node's document outlasts it"
    );
    Ok(())
}

/// Waits for an Event about the topology that names a place in it.
fn refused(cluster: &Cluster, place: &str) -> Result<()> {
    let events = format!("/api/v1/namespaces/{NAMESPACE}/events");
    until(&format!("Event that names {place}"), || {
        let list = cluster.find(&events)?.unwrap_or_default();
        let about = |event: &&Value| event["involvedObject"]["name"] == "topology";
        let all = list["items"].as_array().into_iter().flatten();
        let said: Vec<&str> = all
            .filter(about)
            .filter_map(|event| event["message"].as_str())
            .collect();
        Ok(if said.iter().any(|text| text.contains(place)) {
            Ok(())
        } else {
            Err(format!("{said:?}"))
        })
    })
}

/// GPUs cut as `nvidia.com/mig.config` asks, never under a pod; then as the MIG design asks, with ids in the answer.
pub(super) fn mig_on_demand(stage: &mut Stage) -> Result<()> {
    let cluster = &stage.cluster;
    let label = |words: &[&str]| {
        let mut all = vec!["label", "node", NODE, "--overwrite"];
        all.extend(words);
        cluster.kubectl(&all)
    };
    topology(
        cluster,
        "mig-strategy: mixed\npools:\n  default: { model: a100-sxm4-40gb, gpus: 2 }\n",
    )?;
    label(&[&format!("{POOL}=default")])?;
    let mirage = stage.mirage(&OPTIONS)?;
    cluster.allocatable(GPU, 2)?;
    label(&[&format!("{CONFIG}=all-1g.5gb")])?;
    cluster.allocatable(SLICE, 14)?;
    cluster.allocatable(GPU, 0)?;
    labelled(
        cluster,
        &[(STATE, "success"), ("nvidia.com/mig-1g.5gb.count", "14")],
    )?;
    cluster.run(&Pod::with("slice", SLICE, 1))?;
    let seen = nvml(stage, "slice", "main")?;
    ensure!(
        seen.migs.len() == 1,
        "a pod with one MIG device sees {seen:?}"
    );
    label(&[&format!("{CONFIG}=all-disabled")])?;
    labelled(cluster, &[(STATE, "failed")])?;
    cluster.delete("slice")?;
    labelled(cluster, &[(STATE, "success")])?;
    cluster.allocatable(GPU, 2)?;
    cluster.allocatable(SLICE, 0)?;

    label(&[&format!("{CONFIG}-")])?;
    label(
        &ROLES
            .map(|role| format!("{role}=true"))
            .each_ref()
            .map(String::as_str),
    )?;
    let layout = "version: v1\nmig-configs:\n  selected:\n  - devices: [0]\n    mig-enabled: true\n    \
                  mig-devices:\n    - { name: 2g.10gb, position: 0, size: 2 }\n    - { name: 1g.5gb, position: 4, size: 1 }\n";
    cluster.kubectl(&[
        "annotate",
        "node",
        NODE,
        &format!("run.ai/mig.config={layout}"),
    ])?;
    until("ids of the MIG devices", || {
        let node = cluster.node()?;
        let mapping = &node["metadata"]["annotations"]["run.ai/mig-mapping"];
        let map = cluster.find(&path(NODE))?.unwrap_or_default();
        let text = map["data"]["topology.yml"].as_str().unwrap_or_default();
        let whole = mapping.is_string()
            && text.contains("is-dynamic-mig-enabled: true")
            && text.matches("id: MIG-").count() == 2
            && text.contains("name: 2g.10gb");
        Ok(if whole {
            Ok(())
        } else {
            Err(format!("{mapping} {text}"))
        })
    })?;
    mirage.until(
        "two GPU instances without a pod",
        "DCGM_FI_DEV_FB_USED",
        |all| {
            let mut profiles: Vec<&str> =
                all.iter().map(|one| one.label("GPU_I_PROFILE")).collect();
            profiles.sort_unstable();
            let named = all.iter().any(|one| !one.label("pod").is_empty());
            (!named && profiles.ends_with(&["1g.5gb", "2g.10gb"])).then_some(())
        },
    )?;
    mirage.until("no utilization of a GPU with instances", BUSY, |all| {
        all.iter().all(|one| one.label("gpu") != "0").then_some(())
    })?;
    mirage.stop()?;
    stage.uninstall(&OPTIONS)?;
    let left = cluster.node()?["metadata"].to_string();
    for key in [STATE, "run.ai/mig-mapping"] {
        ensure!(!left.contains(key), "{key} outlasts mirage: {left}");
    }
    cluster.kubectl(&["annotate", "node", NODE, "run.ai/mig.config-"])?;
    label(&[&format!("{POOL}-")])?;
    label(
        &ROLES
            .map(|role| format!("{role}-"))
            .each_ref()
            .map(String::as_str),
    )
    .map(drop)
}
