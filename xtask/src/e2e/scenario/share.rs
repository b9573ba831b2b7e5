//! Who gets which GPU: one of eight, one each for two containers, more than there are, and those that others gave back.

use anyhow::{Result, ensure};

use super::look::{attributed, busy, nvml, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;

/// A pod with one GPU of eight sees that one, and the exporter names the pod on it.
pub(super) fn one_of_eight(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("one", GPU, 1))?;
    let uuid = only_gpu(stage, "one", "main")?;
    attributed(&mirage, "one", "main", &[uuid])?;
    // A pod that says nothing about its work is fully busy.
    busy(&mirage, "one", 95.0, 100.0)?;
    mirage.stop()
}

/// Two containers of a pod get a GPU each, and neither sees the other's.
pub(super) fn two_containers(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    let pod = Pod::new("pair")
        .container("left", &[(GPU, 1)])
        .container("right", &[(GPU, 1)]);
    stage.cluster.run(&pod)?;
    let left = only_gpu(stage, "pair", "left")?;
    let right = only_gpu(stage, "pair", "right")?;
    ensure!(left != right, "both containers see {left}");
    attributed(&mirage, "pair", "left", &[left])?;
    attributed(&mirage, "pair", "right", &[right])?;
    mirage.stop()
}

/// A pod that asks for nine GPUs of eight waits, and is told why.
pub(super) fn nine_of_eight(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    cluster.create(&Pod::with("greedy", GPU, 9))?;
    cluster.until_pod("greedy", "word from the scheduler", |pod| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let told = conditions.iter().any(|one| {
            one["reason"] == "Unschedulable"
                && one["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("Insufficient nvidia.com/gpu"))
        });
        (told && pod["status"]["phase"] == "Pending").then_some(())
    })?;
    mirage.stop()
}

/// GPUs of a deleted pod go to one that waited, and no longer bear the old name.
pub(super) fn freed(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("first", GPU, 8))?;
    let all = nvml(stage, "first", "main")?.gpus;
    ensure!(all.len() == 8, "a pod with eight GPUs sees {all:?}");
    attributed(&mirage, "first", "main", &all)?;
    cluster.create(&Pod::with("second", GPU, 8))?;
    cluster.until_pod("second", "place in the queue", |pod| {
        let conditions = pod["status"]["conditions"].as_array()?;
        conditions
            .iter()
            .any(|one| one["reason"] == "Unschedulable")
            .then_some(())
    })?;
    cluster.delete("first")?;
    cluster.started("second")?;
    attributed(&mirage, "second", "main", &all)?;
    attributed(&mirage, "first", "main", &[])?;
    cluster.delete("second")?;
    attributed(&mirage, "second", "main", &[])?;
    mirage.stop()
}

/// A container told by CDI sees the same as one told by its environment.
pub(super) fn cdi(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&["--device-list-strategy", "cdi-cri"])?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("named", GPU, 1))?;
    let uuid = only_gpu(stage, "named", "main")?;
    attributed(&mirage, "named", "main", &[uuid])?;
    mirage.stop()
}

/// So does one told by CDI names in its annotations, as runtimes are that know no other way.
pub(super) fn cdi_annotations(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&["--device-list-strategy", "cdi-annotations"])?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("noted", GPU, 1))?;
    let uuid = only_gpu(stage, "noted", "main")?;
    attributed(&mirage, "noted", "main", &[uuid])?;
    mirage.stop()
}

/// So does one told by mounts, which bear the names of its devices.
pub(super) fn volume_mounts(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&["--device-list-strategy", "volume-mounts"])?;
    stage.cluster.allocatable(GPU, 8)?;
    stage.cluster.run(&Pod::with("mounted", GPU, 1))?;
    let uuid = only_gpu(stage, "mounted", "main")?;
    let told = ["sh", "-c", "ls $NVIDIA_VISIBLE_DEVICES"];
    let told = stage.cluster.exec("mounted", "main", &told)?;
    ensure!(told.trim() == uuid, "the container is told {told:?}");
    attributed(&mirage, "mounted", "main", &[uuid])?;
    mirage.stop()
}
