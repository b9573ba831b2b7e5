//! What comes and goes: the kubelet, mirage itself, and the health of a GPU.

use anyhow::{Result, ensure};

use super::look::{attributed, nvml};
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;
use crate::e2e::mirage::Shows;
use crate::e2e::process::until;

/// A kubelet that starts again finds the GPUs again; pods keep theirs, and new pods get the rest.
pub(super) fn kubelet_restarts(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("old", GPU, 2))?;
    let before = nvml(stage, "old", "main")?.gpus;
    stage.node.stop_kubelet()?;
    stage.node.start_kubelet()?;
    // The node's status may still be the one from before; that six more GPUs can be had is the proof.
    stage.cluster.run_stubbornly(&Pod::with("new", GPU, 6))?;
    stage.cluster.allocatable(GPU, 8)?;
    let after = nvml(stage, "old", "main")?.gpus;
    ensure!(before == after, "the old pod saw {before:?}, now {after:?}");
    let new = nvml(stage, "new", "main")?.gpus;
    ensure!(new.len() == 6, "the new pod sees {new:?}");
    ensure!(
        new.iter().all(|uuid| !before.contains(uuid)),
        "both pods have one: {before:?} and {new:?}"
    );
    attributed(&mirage, "old", "main", &before)?;
    attributed(&mirage, "new", "main", &new)?;
    mirage.stop()
}

/// mirage is killed: no GPU can be given until it is back; pods run on with theirs.
pub(super) fn mirage_is_killed(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("survivor", GPU, 1))?;
    let before = nvml(stage, "survivor", "main")?;
    mirage.kill()?;
    cluster.allocatable(GPU, 0)?;
    // NVML needs no mirage to be read.
    let orphaned = nvml(stage, "survivor", "main")?;
    ensure!(
        before == orphaned,
        "the pod saw {before:?}, without mirage {orphaned:?}"
    );
    let mirage = stage.mirage(&[])?;
    cluster.allocatable(GPU, 8)?;
    attributed(&mirage, "survivor", "main", &before.gpus)?;
    let after = nvml(stage, "survivor", "main")?;
    ensure!(before == after, "the pod saw {before:?}, now {after:?}");
    cluster.run(&Pod::with("next", GPU, 7))?;
    let next = nvml(stage, "next", "main")?.gpus;
    ensure!(
        next.len() == 7 && !next.contains(&before.gpus[0]),
        "the survivor has {before:?}, the next pod {next:?}"
    );
    let restarts = cluster.until_pod("survivor", "status", |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"].as_u64()
    })?;
    ensure!(restarts == 0, "the survivor was restarted {restarts} times");
    mirage.stop()
}

/// A critical Xid takes a GPU out of what can be given; healing brings it back.
pub(super) fn a_gpu_falls_ill(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    mirage.control(&["fault", "inject", "xid=79", "--device", "3"])?;
    cluster.allocatable(GPU, 7)?;
    let (capacity, _) = cluster.resource(GPU)?;
    ensure!(capacity == 8, "an ill GPU counts no more: {capacity}");
    mirage.until("Xid 79 of GPU 3", "DCGM_FI_DEV_XID_ERRORS", |all| {
        let mut of = all.iter().filter(|sample| sample.label("gpu") == "3");
        of.any(|sample| (sample.value - 79.0).abs() < 0.5)
            .then_some(())
    })?;
    cluster.run(&Pod::with("rest", GPU, 7))?;
    let rest = nvml(stage, "rest", "main")?.gpus;
    mirage.control(&["fault", "heal", "--device", "3"])?;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("healed", GPU, 1))?;
    let healed = nvml(stage, "healed", "main")?.gpus;
    ensure!(
        healed.len() == 1 && !rest.contains(&healed[0]),
        "the rest has {rest:?}, the healed GPU is {healed:?}"
    );
    mirage.stop()
}

/// containerd restarts: nothing changes.
pub(super) fn containerd_restarts(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("steady", GPU, 1))?;
    let before = nvml(stage, "steady", "main")?;
    stage.node.stop_containerd()?;
    stage.node.start_containerd()?;
    let after = until("answer of the container after containerd's restart", || {
        Ok(nvml(stage, "steady", "main").map_err(|error| format!("{error:#}")))
    })?;
    ensure!(before == after, "the pod saw {before:?}, now {after:?}");
    attributed(&mirage, "steady", "main", &before.gpus)?;
    mirage.stop()
}
