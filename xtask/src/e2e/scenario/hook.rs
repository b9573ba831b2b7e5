//! GPUs that a cluster's scheduler gave, not the kubelet: the runtime hook.

use std::slice::from_ref;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::look::{BUSY, attributed, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;
use crate::e2e::mirage::{Mirage, Shows};
use crate::e2e::process::until;

const ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";
const HOOK: &str = "runtime hook";
const SERVICE: &str = "pod-resources service";
const POD_LIST: &str = "/var/lib/kubelet/pod-resources/podlist.json";

/// A pod with koordinator's annotation sees the GPU it names; the pod list and the exporter name the pod.
pub(super) fn koordinator(stage: &mut Stage) -> Result<()> {
    let options = ["--nri"];
    let mirage = stage.mirage(&options)?;
    mirage.works(HOOK)?;
    let uuid = gpu(&mirage, "5")?;
    stage.cluster.run(&allocated("central", 5, &uuid))?;
    let seen = only_gpu(stage, "central", "main")?;
    ensure!(
        seen == uuid,
        "the annotation names {uuid}, the pod sees {seen}"
    );
    let told = ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"];
    let told = stage.cluster.exec("central", "main", &told)?;
    ensure!(told.trim() == uuid, "NVIDIA_VISIBLE_DEVICES is {told:?}");
    listed(&[("central", &uuid)])?;
    attributed(&mirage, "central", "main", from_ref(&uuid))?;

    // What runs is found again after a restart of either side.
    mirage.kill()?;
    let mirage = stage.mirage(&options)?;
    listed(&[("central", &uuid)])?;
    attributed(&mirage, "central", "main", from_ref(&uuid))?;
    stage.node.stop_containerd()?;
    stage.node.start_containerd()?;
    mirage.works(HOOK)?;
    listed(&[("central", &uuid)])?;

    stage.cluster.delete("central")?;
    listed(&[])?;
    attributed(&mirage, "central", "main", &[])?;
    mirage.stop()
}

/// A pod that starts while the hook stands still waits no longer than the runtime does, starts without its GPU, and is named; the hook
/// comes back by itself, and the next pod has its GPU.
pub(super) fn stopped(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&["--nri"])?;
    mirage.works(HOOK)?;
    let uuid = gpu(&mirage, "2")?;
    mirage.signal("STOP")?;
    let outcome = stage.cluster.run(&allocated("early", 2, &uuid));
    mirage.signal("CONT")?;
    outcome?;
    let probe = ["sh", "-c", "probe 2>&1 || true"];
    let probe = stage.cluster.exec("early", "main", &probe)?;
    ensure!(
        probe.contains("libnvidia-ml.so.1"),
        "a container that the hook missed finds NVML: {probe}"
    );
    mirage.says("container default/early/main was made while the runtime hook was away")?;
    mirage.works(HOOK)?;
    stage.cluster.run(&allocated("late", 2, &uuid))?;
    let seen = only_gpu(stage, "late", "main")?;
    ensure!(
        seen == uuid,
        "the annotation names {uuid}, the pod sees {seen}"
    );
    mirage.stop()
}

/// Whoever asks our socket instead of the kubelet's finds the pods of both, those of the kubelet and those of the cluster's scheduler.
pub(super) fn pod_resources(stage: &mut Stage) -> Result<()> {
    let socket = "/run/mirage-pods/kubelet.sock";
    // Pods do nothing, so that the exporter has their names from nowhere but the socket.
    let mirage = stage.mirage(&[
        "--nri",
        "--no-pod-activity",
        "--serve-pod-resources",
        socket,
    ])?;
    mirage.works(HOOK)?;
    mirage.works(SERVICE)?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("local", GPU, 1))?;
    let local = only_gpu(stage, "local", "main")?;
    let (index, minor) = if gpu(&mirage, "6")? == local {
        ("7", 7)
    } else {
        ("6", 6)
    };
    let central = gpu(&mirage, index)?;
    stage.cluster.run(&allocated("central", minor, &central))?;
    let exporter = stage.exporter(socket)?;
    attributed(&exporter, "local", "main", from_ref(&local))?;
    attributed(&exporter, "central", "main", from_ref(&central))?;
    stage.cluster.delete("central")?;
    attributed(&exporter, "central", "main", &[])?;
    attributed(&exporter, "local", "main", &[local])?;
    mirage.stop()?;
    ensure!(
        !std::path::Path::new(socket).exists(),
        "{socket} is still there"
    );
    Ok(())
}

/// A pod that a cluster's scheduler gave a GPU.
fn allocated(name: &str, minor: u32, uuid: &str) -> Pod {
    let allocated = json!({"gpu": [{"minor": minor, "id": uuid}]}).to_string();
    Pod::new(name)
        .container("main", &[])
        .annotation(ALLOCATED, &allocated)
}

/// The UUID of a GPU by its index.
fn gpu(mirage: &Mirage, index: &str) -> Result<String> {
    let samples = mirage.samples(BUSY)?;
    let of = samples.iter().find(|sample| sample.label("gpu") == index);
    let uuid = of.map(|sample| sample.label("UUID").to_owned());
    uuid.with_context(|| format!("the exporter has no GPU {index}"))
}

/// Waits until the pod list holds exactly these pods with these GPUs.
fn listed(wanted: &[(&str, &str)]) -> Result<()> {
    let wanted: Vec<(String, Value)> = wanted
        .iter()
        .map(|(pod, uuid)| ((*pod).to_owned(), json!([uuid])))
        .collect();
    until(&format!("{wanted:?} in podlist.json"), || {
        let text = std::fs::read_to_string(POD_LIST).unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        let found: Option<Vec<(String, Value)>> = list.as_array().map(|entries| {
            let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
            entries
                .iter()
                .map(|entry| (name(entry), entry["gpu_list"].clone()))
                .collect()
        });
        Ok(if found.as_ref() == Some(&wanted) {
            Ok(())
        } else {
            Err(text)
        })
    })
}
