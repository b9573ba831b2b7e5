//! Parts of GPUs: MIG devices under their own resource, and GPUs that several pods share.

use anyhow::{Result, ensure};

use super::look::{attributed, labelled, nvml, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::Pod;
use crate::e2e::mirage::Shows;

const SLICE: &str = "nvidia.com/mig-1g.5gb";
/// One GPU in seven parts, and two whole ones.
const MIG: &str = "\
mig-strategy: mixed
pools:
  default: { model: a100-sxm4-40gb }
nodes:
  e2e-node:
    pool: default
    gpus:
      - { mig: [1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb] }
      - {}
      - {}
";

/// Every GPU in two parts.
const HALVES: &str = "\
pools:
  default: { model: a100-sxm4-40gb }
nodes:
  e2e-node:
    pool: default
    gpus:
      - { mig: [3g.20gb, 3g.20gb] }
      - { mig: [3g.20gb, 3g.20gb] }
";

/// A pod that asks for a MIG device sees that one, and the exporter names the pod on it.
pub(super) fn mig_mixed(stage: &mut Stage) -> Result<()> {
    let config = stage.file("mig.yaml", MIG)?;
    let mirage = stage.mirage(&["--config", &config])?;
    let cluster = &stage.cluster;
    cluster.allocatable(SLICE, 7)?;
    cluster.allocatable(GPU, 2)?;
    cluster.run(&Pod::with("slice", SLICE, 1))?;
    let seen = nvml(stage, "slice", "main")?;
    let [mig] = seen.migs.as_slice() else {
        anyhow::bail!("a pod with one MIG device sees {seen:?}");
    };
    ensure!(mig.starts_with("MIG-"), "a MIG device is called {mig}");
    ensure!(
        seen.gpus.len() == 1,
        "one MIG device lies on one GPU: {seen:?}"
    );
    let instance = mirage.until("pod slice on a 1g.5gb instance", BUSY_PART, |all| {
        let mut of = all.iter().filter(|sample| sample.label("pod") == "slice");
        let first = of.next()?;
        (of.next().is_none() && first.label("GPU_I_PROFILE") == "1g.5gb")
            .then(|| first.label("GPU_I_ID").to_owned())
    })?;
    ensure!(!instance.is_empty(), "the exporter names no GPU instance");
    cluster.run(&Pod::with("whole", GPU, 1))?;
    let whole = only_gpu(stage, "whole", "main")?;
    ensure!(!seen.gpus.contains(&whole), "{whole} is given twice");
    mirage.stop()
}

/// MIG devices under the name of whole GPUs: a pod that asks for a GPU sees one of them, and the labels say what they are.
pub(super) fn mig_single(stage: &mut Stage) -> Result<()> {
    let config = stage.file("halves.yaml", HALVES)?;
    let mirage = stage.mirage(&["--config", &config, "--mig-strategy", "single"])?;
    let cluster = &stage.cluster;
    cluster.allocatable(GPU, 4)?;
    cluster.run(&Pod::with("half", GPU, 1))?;
    let seen = nvml(stage, "half", "main")?;
    ensure!(
        (seen.gpus.len(), seen.migs.len()) == (1, 1),
        "a pod with one MIG device sees {seen:?}"
    );
    mirage.until("pod half on a 3g.20gb instance", BUSY_PART, |all| {
        let mut of = all.iter().filter(|sample| sample.label("pod") == "half");
        let first = of.next()?;
        (of.next().is_none() && first.label("GPU_I_PROFILE") == "3g.20gb").then_some(())
    })?;
    labelled(
        cluster,
        &[
            (
                "nvidia.com/gpu.product",
                "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb",
            ),
            ("nvidia.com/gpu.count", "4"),
            ("nvidia.com/mig.strategy", "single"),
        ],
    )?;
    mirage.stop()
}

/// How busy a GPU instance is; a GPU in MIG mode has no utilization.
const BUSY_PART: &str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";

/// Four shares of one GPU, under the name of whole ones and under a name of their own.
pub(super) fn time_slicing(stage: &mut Stage) -> Result<()> {
    shares(stage, "4", GPU)?;
    stage.cluster.clear()?;
    shares(stage, "4,rename", "nvidia.com/gpu.shared")
}

/// Two pods with a share each see the same GPU, and the exporter names both.
fn shares(stage: &mut Stage, slicing: &str, resource: &str) -> Result<()> {
    let mirage = stage.mirage(&[
        "--gpus",
        "1",
        "--time-slicing",
        slicing,
        "--kubernetes-virtual-gpus",
    ])?;
    let cluster = &stage.cluster;
    cluster.allocatable(resource, 4)?;
    cluster.run(&Pod::with("left", resource, 1))?;
    cluster.run(&Pod::with("right", resource, 1))?;
    let left = only_gpu(stage, "left", "main")?;
    let right = only_gpu(stage, "right", "main")?;
    ensure!(left == right, "there is one GPU, yet {left} and {right}");
    attributed(&mirage, "left", "main", &[left])?;
    attributed(&mirage, "right", "main", &[right])?;
    mirage.stop()
}
