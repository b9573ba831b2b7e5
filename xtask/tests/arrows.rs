//! The arrows of docs/architecture.md: which crate may use which. An arrow that is not in the table is
//! a decision, not an accident.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::process::Command;

/// Crate, and the crates of ours it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("mirage-model", &[]),
    ("mirage-sim", &["mirage-model"]),
    ("mirage-state", &[]),
    ("mirage-nvml", &["mirage-state"]),
    ("mirage-nvml-bench", &[]),
    ("mirage-cuda", &["mirage-state"]),
    ("mirage-smi", &["mirage-nvml"]),
    ("mirage-metrics", &["mirage-state"]),
    ("mirage-k8s", &["mirage-model", "mirage-state"]),
    (
        "mirage",
        &[
            "mirage-model",
            "mirage-sim",
            "mirage-state",
            "mirage-nvml",
            "mirage-cuda",
            "mirage-metrics",
            "mirage-k8s",
            "mirage-smi",
        ],
    ),
    ("xtask", &[]),
];

/// Crates loaded into other people's processes: nothing but libc beside our own.
const GUESTS: &[&str] = &["mirage-state", "mirage-nvml", "mirage-cuda"];

fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn normal_dependencies(package: &serde_json::Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap();
    all.iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_arrow_is_in_the_table() {
    let packages = packages();
    let ours: BTreeSet<_> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    for package in &packages {
        let name = package["name"].as_str().unwrap();
        let (_, allowed) = ARROWS
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap_or_else(|| panic!("{name} is not in the table of arrows"));
        for used in normal_dependencies(package)
            .iter()
            .filter(|used| ours.contains(used.as_str()))
        {
            assert!(
                allowed.contains(&used.as_str()),
                "{name} uses {used}, which the table does not allow"
            );
        }
    }
}

#[test]
fn guests_bring_libc_alone() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        if !GUESTS.contains(&name) {
            continue;
        }
        for used in normal_dependencies(&package) {
            assert!(
                used == "libc" || used == "mirage-state",
                "{name} would bring {used} into other processes"
            );
        }
    }
}
