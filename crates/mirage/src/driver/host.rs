//! The machine itself: whether it has a real driver, and which device numbers are taken.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// What only a real driver makes.
const SIGNS: &[&str] = &["proc/driver/nvidia/version", "sys/module/nvidia"];

/// What shows that a machine has a real driver.
pub(super) fn real_driver(host: &Path) -> Option<PathBuf> {
    let mut signs = SIGNS.iter().map(|sign| host.join(sign));
    signs.find(|sign| sign.exists())
}

/// Refuses a machine with a real driver.
pub(super) fn refuse_real_driver(host: &Path) -> Result<()> {
    if let Some(sign) = real_driver(host) {
        bail!(
            "{} exists: this machine has a real NVIDIA driver; remove that first, or go on beside it with --force",
            sign.display()
        );
    }
    Ok(())
}

/// Major numbers of the driver's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Majors {
    pub(super) uvm: u32,
    pub(super) caps: u32,
    pub(super) imex: u32,
}

/// The one that is fixed.
pub(super) const NVIDIA: u32 = 195;
/// Where the kernel gives out character majors on demand, from the upper end down.
const ON_DEMAND: std::ops::RangeInclusive<u32> = 384..=511;

impl Majors {
    /// Those real machines usually show, unless another driver of this machine has them: a node must never open somebody else's
    /// device.
    pub(super) fn choose(host: &Path) -> Majors {
        let text = fs::read_to_string(host.join("proc/devices")).unwrap_or_default();
        let mut taken = taken(&text);
        let mut take = |usual: u32| {
            let free = |major: &u32| !taken.contains(major);
            let major = [usual]
                .into_iter()
                .chain(ON_DEMAND)
                .find(free)
                .unwrap_or(usual);
            taken.push(major);
            major
        };
        Majors {
            uvm: take(510),
            caps: take(506),
            imex: take(505),
        }
    }
}

/// Majors of other drivers' character devices in `/proc/devices`.
fn taken(text: &str) -> Vec<u32> {
    let characters = text.split("Block devices:").next().unwrap_or_default();
    let lines = characters.lines().filter_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        (!name.trim().starts_with("nvidia")).then(|| major.parse().ok())?
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_of_others_are_avoided() {
        let host = tempfile::tempdir().unwrap();
        let usual = Majors {
            uvm: 510,
            caps: 506,
            imex: 505,
        };
        assert_eq!(Majors::choose(host.path()), usual);
        fs::create_dir(host.path().join("proc")).unwrap();
        let devices = "Character devices:\n  1 mem\n384 x\n510 other\n506 nvidia-caps\n\nBlock devices:\n505 sd\n";
        fs::write(host.path().join("proc/devices"), devices).unwrap();
        assert_eq!(Majors::choose(host.path()), Majors { uvm: 385, ..usual });
    }

    #[test]
    fn a_real_driver_is_seen() {
        let host = tempfile::tempdir().unwrap();
        refuse_real_driver(host.path()).unwrap();
        fs::create_dir_all(host.path().join("sys/module/nvidia")).unwrap();
        let error = refuse_real_driver(host.path()).unwrap_err().to_string();
        assert!(
            error.contains("sys/module/nvidia") && error.contains("--force"),
            "{error}"
        );
    }
}
