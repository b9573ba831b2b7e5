//! A control group for the kubelet's pods, in every hierarchy there is, of either version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";
/// How long the kernel may take to let go of processes that are dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// The mounted hierarchies: one, or one per controller.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![root];
    }
    let mut found: Vec<PathBuf> = super::names(&root)
        .into_iter()
        .map(|name| root.join(name))
        .filter(|path| path.join("cgroup.procs").exists())
        .collect();
    found.sort();
    found
}

/// Makes the group.
pub(super) fn make(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        fs::create_dir_all(&group)
            .with_context(|| format!("making the control group {}", group.display()))?;
    }
    Ok(())
}

/// All groups at the top.
pub(super) fn names() -> Vec<String> {
    let all = hierarchies();
    all.iter().flat_map(|path| super::names(path)).collect()
}

/// Removes the group and all below it, as soon as its processes are gone.
pub(super) fn remove(name: &str) {
    let begin = Instant::now();
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        while group.exists() && !remove_tree(&group) {
            if begin.elapsed() > PATIENCE {
                eprintln!("xtask e2e: {} is still in use", group.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The files of a group go with it; only its directories can be removed.
fn remove_tree(group: &Path) -> bool {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    fs::remove_dir(group).is_ok()
}
