//! The cluster itself, before mirage: what fails here is not mirage's.

use anyhow::{Result, ensure};

use super::{GPU, Stage};
use crate::e2e::cluster::Pod;

/// A pod starts, runs a command, and finds no GPU; the node has none either.
pub(super) fn a_pod_runs(stage: &mut Stage) -> Result<()> {
    let cluster = &stage.cluster;
    cluster.run(&Pod::new("plain").container("main", &[]))?;
    let said = cluster.exec("plain", "main", &["echo", "hello"])?;
    ensure!(said == "hello\n", "echo in a container says {said:?}");
    let probe = cluster.exec("plain", "main", &["sh", "-c", "probe 2>&1 || true"])?;
    ensure!(
        probe.contains("libnvidia-ml.so.1"),
        "a container without a GPU finds NVML: {probe}"
    );
    let (capacity, allocatable) = cluster.resource(GPU)?;
    ensure!(
        (capacity, allocatable) == (0, 0),
        "a node without mirage has GPUs: {allocatable} of {capacity}"
    );
    cluster.delete("plain")
}
