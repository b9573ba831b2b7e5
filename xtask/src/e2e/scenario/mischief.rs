//! A device plugin that misbehaves: each way it can, what the cluster makes of it, and that all is well after healing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::look::{nvml, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;
use crate::e2e::mirage::{Mirage, Shows};
use crate::e2e::process::until;

/// How slow an allocation is that is told to be.
const SLOW: Duration = Duration::from_secs(10);

/// Injects a fault of the device plugin.
fn inject(mirage: &Mirage, what: &str, device: &str) -> Result<()> {
    let fault = format!("device-plugin:{what}");
    mirage
        .control(&["fault", "inject", &fault, "--device", device])
        .map(drop)
}

/// Heals everything, and waits until all GPUs can be had again.
fn heal(stage: &Stage, mirage: &Mirage) -> Result<()> {
    mirage.control(&["fault", "heal", "--device", "all"])?;
    stage.cluster.allocatable(GPU, 8)
}

/// Plays one fault that takes GPUs away until it heals.
fn takes(stage: &Stage, mirage: &Mirage, what: &str, device: &str, left: u64) -> Result<()> {
    inject(mirage, what, device)?;
    stage.cluster.allocatable(GPU, left)?;
    heal(stage, mirage)
}

/// Devices that are unhealthy, missing or vanished count no more.
pub(super) fn devices(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    takes(stage, &mirage, "unhealthy", "2", 7)?;
    takes(stage, &mirage, "missing", "0-2", 5)?;
    takes(stage, &mirage, "vanish", "4", 7)?;
    flap(stage, &mirage)?;
    mirage.stop()
}

/// A plugin that dies or loses its connection has nothing to give until it is back; nor has one that the kubelet refuses, or that
/// does not answer a new kubelet. One that registers late is late, and comes.
pub(super) fn connection(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    takes(stage, &mirage, "die", "all", 0)?;
    takes(stage, &mirage, "disconnect", "all", 0)?;
    takes(stage, &mirage, "wrong-version", "all", 0)?;

    inject(&mirage, "late", "all")?;
    stage.cluster.allocatable(GPU, 0)?;
    stage.cluster.allocatable(GPU, 8)?;
    heal(stage, &mirage)?;

    inject(&mirage, "hang", "all")?;
    stage.node.stop_kubelet()?;
    stage.node.start_kubelet()?;
    stage.cluster.allocatable(GPU, 0)?;
    heal(stage, &mirage)?;
    stage.cluster.run(&Pod::with("after", GPU, 1))?;
    only_gpu(stage, "after", "main")?;
    mirage.stop()
}

/// Health that comes and goes shows as such.
fn flap(stage: &Stage, mirage: &Mirage) -> Result<()> {
    inject(mirage, "flap", "6")?;
    for wanted in [7, 8, 7] {
        stage.cluster.allocatable(GPU, wanted)?;
    }
    heal(stage, mirage)
}

/// Allocations that fail, take long, or give another device than asked for.
pub(super) fn allocation(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 8)?;

    inject(&mirage, "allocate-error", "all")?;
    cluster.create(&Pod::with("refused", GPU, 1))?;
    cluster.until_pod("refused", "refusal", |pod| {
        (pod["status"]["phase"] == "Failed"
            && pod["status"]["reason"] == "UnexpectedAdmissionError")
            .then_some(())
    })?;
    heal(stage, &mirage)?;

    inject(&mirage, "allocate-slow", "all")?;
    let begin = Instant::now();
    cluster.run(&Pod::with("patient", GPU, 1))?;
    let took = begin.elapsed();
    ensure!(took >= SLOW, "a slow allocation took no more than {took:?}");
    mirage.says("the plugin was told to be slow")?;
    only_gpu(stage, "patient", "main")?;
    heal(stage, &mirage)?;

    inject(&mirage, "allocate-wrong", "all")?;
    cluster.run(&Pod::with("deceived", GPU, 1))?;
    let given = nvml(stage, "deceived", "main")?.gpus;
    let asked = until("devices of the deceived pod in the exporter", || {
        let samples = mirage.samples(super::look::BUSY)?;
        let mut of = samples.iter().filter(|one| one.label("pod") == "deceived");
        let uuid = of.next().map(|one| one.label("UUID").to_owned());
        Ok(uuid.ok_or_else(|| "nobody".to_owned()))
    })?;
    ensure!(
        !given.contains(&asked),
        "the kubelet asked for {asked} and got it: {given:?}"
    );
    heal(stage, &mirage)?;
    mirage.stop()
}

/// A socket that is removed: the kubelet holds its connection, and the plugin makes a new one in time for the next kubelet.
pub(super) fn socket_removed(stage: &mut Stage) -> Result<()> {
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    inject(&mirage, "socket-removed", "all")?;
    let socket = "/var/lib/kubelet/device-plugins/nvidia-gpu.sock";
    until("removal of the plugin's socket", || {
        Ok(match std::path::Path::new(socket).exists() {
            true => Err(format!("{socket} is there")),
            false => Ok(()),
        })
    })?;
    mirage.control(&["fault", "heal", "--device", "all"])?;
    until("new socket of the plugin", || {
        Ok(match std::path::Path::new(socket).exists() {
            true => Ok(()),
            false => Err(format!("no {socket}")),
        })
    })?;
    stage.cluster.run(&Pod::with("after", GPU, 1))?;
    only_gpu(stage, "after", "main")?;
    mirage.stop()
}
