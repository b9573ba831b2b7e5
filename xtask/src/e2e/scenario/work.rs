//! What pods do with their GPUs, as their annotations say, and what the node says of itself.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::look::{BUSY, attributed, busy, labelled, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::{Cluster, Pod};
use crate::e2e::mirage::Shows;
use crate::e2e::process::until;

const UTILIZATION: &str = "run.ai/simulated-gpu-utilization";
const SCHEDULE: &str = "mirage.dev/gpu-schedule";

/// A schedule is followed step by step, again and again; a changed annotation takes its place. It does not begin again with mirage.
pub(super) fn schedule(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    // Long enough to be seen on a busy machine, however late each look is.
    let steps = r#"{"steps":[{"time":"4s","utilization":80},{"time":"4s","utilization":20}],"repeat":"forever"}"#;
    cluster.run(&Pod::with("worker", GPU, 1).annotation(SCHEDULE, steps))?;
    let uuid = only_gpu(stage, "worker", "main")?;
    attributed(&mirage, "worker", "main", &[uuid])?;
    for _ in 0..2 {
        busy(&mirage, "worker", 78.0, 82.0)?;
        busy(&mirage, "worker", 18.0, 22.0)?;
    }
    cluster.annotate("worker", SCHEDULE, r#"[{"time":"1h","utilization":55}]"#)?;
    busy(&mirage, "worker", 53.0, 57.0)?;

    // It counts from the container's start: one that began again with mirage would be in its first step.
    let steps = r#"[{"time":"6s","utilization":80},{"time":"1h","utilization":20}]"#;
    cluster.annotate("worker", SCHEDULE, steps)?;
    mirage.stop()?;
    let mirage = stage.mirage(&[])?;
    let percent = mirage.until("worker at work again", BUSY, |all| {
        let of = all.iter().filter(|sample| sample.label("pod") == "worker");
        let mut percents = of.map(|sample| sample.value);
        percents.find(|percent| *percent >= 18.0)
    })?;
    ensure!(
        percent <= 22.0,
        "the schedule should be in its second step, and is at {percent} %"
    );
    mirage.stop()
}

/// A percentage is obeyed; nonsense is told to the pod, and the default applies.
pub(super) fn annotations(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("calm", GPU, 1).annotation(UTILIZATION, "30-40"))?;
    cluster.run(&Pod::with("odd", GPU, 1).annotation(UTILIZATION, "plenty"))?;
    busy(&mirage, "calm", 30.0, 40.0)?;
    busy(&mirage, "odd", 95.0, 100.0)?;
    until("event about a value that makes no sense", || {
        let events = cluster.events("odd")?;
        let told = events.iter().any(|(_, text)| text.contains("plenty"));
        Ok(if told {
            Ok(())
        } else {
            Err(format!("{events:?}"))
        })
    })?;
    cluster.annotate("calm", UTILIZATION, "70")?;
    busy(&mirage, "calm", 69.0, 71.0)?;
    cluster.delete("calm")?;
    mirage.until("six idle GPUs and one more", BUSY, |all| {
        let idle = all.iter().filter(|sample| sample.value < 1.0).count();
        (idle == 7).then_some(())
    })?;
    mirage.stop()
}

/// Some labels of a node with eight A100.
const LABELS: &[(&str, &str)] = &[
    ("nvidia.com/gpu.count", "8"),
    ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
    ("nvidia.com/gpu.memory", "40960"),
    ("nvidia.com/mig.capable", "true"),
];

/// The node is labelled as GPU Feature Discovery would, and is as it was after `mirage node --uninstall`.
pub(super) fn labels(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    labelled(cluster, LABELS)?;
    cluster.run(&Pod::with("last", GPU, 1))?;
    cluster.delete("last")?;
    mirage.stop()?;
    stage.uninstall(&[])?;
    without_labels(cluster)?;
    for place in ["/var/lib/nvidia-mock", "/var/run/cdi", "/run/mirage"] {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let left: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        ensure!(left.is_empty(), "{place} still has {left:?}");
    }
    Ok(())
}

/// Labels for Node Feature Discovery are in a file of its directory, one on each line, and not on the node; the file goes with mirage.
pub(super) fn labels_as_file(stage: &mut Stage) -> Result<()> {
    // The node still has those of other scenarios.
    stage.uninstall(&[])?;
    without_labels(&stage.cluster)?;
    let directory = stage.scratch.join("features.d").display().to_string();
    let options = ["--nfd-features-dir", directory.as_str()];
    let mirage = stage.mirage(&options)?;
    mirage.works("labels")?;
    let file = Path::new(&directory).join("gfd");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    for (key, value) in LABELS {
        let line = format!("{key}={value}");
        ensure!(text.lines().any(|one| one == line), "no {line} in {text:?}");
    }
    without_labels(&stage.cluster)?;
    mirage.stop()?;
    stage.uninstall(&options)?;
    ensure!(!file.exists(), "{} is still there", file.display());
    Ok(())
}

fn without_labels(cluster: &Cluster) -> Result<()> {
    let node = cluster.node()?;
    let labels = node["metadata"]["labels"].as_object();
    let mut keys = labels.into_iter().flatten().map(|(key, _)| key);
    match keys.find(|key| key.starts_with("nvidia.com/")) {
        None => Ok(()),
        Some(key) => bail!("the node has the label {key}"),
    }
}
