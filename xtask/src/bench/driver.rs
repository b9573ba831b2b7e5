//! How long `mirage driver all` takes from nothing, and how much disk a root holds.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::Figures;
use crate::shell::{self, cargo, target};

const RUNS: usize = 5;
/// GPUs, the figure, and how many of its units a second has.
const SIZES: [(u32, &str, f64); 2] = [(8, "driver-8", 1e3), (128, "driver-128", 1.0)];

/// The best of a few runs each; the size of the largest root.
pub(super) fn measure(figures: &mut Figures) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let libraries = ["-p", "mirage-nvml", "-p", "mirage-cuda", "-p", "mirage-smi"];
    let profile = ["build", "--locked", "--profile", "nvml"];
    shell::run(cargo().args(profile).args(libraries))?;
    let scratch = target().join("bench-driver");
    let measured = sizes(&scratch, figures);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

fn sizes(scratch: &Path, figures: &mut Figures) -> Result<()> {
    let _ = fs::remove_dir_all(scratch);
    fs::create_dir_all(scratch.join("host"))?;
    for (gpus, key, unit) in SIZES {
        let mut best = f64::INFINITY;
        for run in 0..RUNS {
            // Each in a new place: some filesystems are slow for seconds after many files were removed.
            let root = scratch.join(format!("{gpus}-{run}"));
            best = best.min(once(scratch, &root, gpus)?);
            let bytes = on_disk(&root)?;
            figures.insert("driver-size".to_owned(), bytes as f64 / 1e6);
        }
        figures.insert(key.to_owned(), best * unit);
    }
    Ok(())
}

/// Seconds of one run.
fn once(scratch: &Path, root: &Path, gpus: u32) -> Result<f64> {
    let mut all = Command::new(target().join("release/mirage"));
    all.args(["driver", "all", "--log-level", "error", "--gpus"])
        .arg(gpus.to_string());
    all.arg("--root").arg(root);
    all.arg("--host").arg(scratch.join("host"));
    all.arg("--library-dir").arg(target().join("nvml"));
    let begin = Instant::now();
    let status = all
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("starting mirage driver all")?;
    let time = begin.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{} ended with {status}", shell::show(&all));
    }
    Ok(time)
}

/// What a directory takes on the disk, each file once.
fn on_disk(directory: &Path) -> Result<u64> {
    const BLOCK: u64 = 512;
    let mut seen = HashSet::new();
    let mut open = vec![directory.to_path_buf()];
    let mut bytes = 0;
    while let Some(next) = open.pop() {
        let there = fs::symlink_metadata(&next)
            .with_context(|| format!("looking at {}", next.display()))?;
        if seen.insert((there.dev(), there.ino())) {
            bytes += there.blocks() * BLOCK;
        }
        if there.is_dir() {
            for entry in fs::read_dir(&next)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(bytes)
}
