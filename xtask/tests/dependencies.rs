//! Licences and sources of everything in the lock file, without a network: the part of deny.toml that must
//! hold on every run.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

const LICENCES: &[&str] = &[
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether one of the choices in an SPDX expression is made of allowed licences only.
fn allowed(expression: &str) -> bool {
    let expression = expression
        .replace("Apache-2.0 WITH LLVM-exception", "Apache-2.0")
        .replace('/', " OR ");
    let expression = expression.replace(['(', ')'], " ");
    expression.split(" OR ").any(|choice| {
        choice
            .split(" AND ")
            .all(|one| LICENCES.contains(&one.trim()))
    })
}

#[test]
fn every_dependency_is_free_and_from_the_registry() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(allowed(licence), "{name} has the licence {licence:?}");
        if let Some(source) = package["source"].as_str() {
            assert!(
                source.starts_with("registry+") || source.starts_with("sparse+"),
                "{name} comes from {source}"
            );
        }
    }
}

#[test]
fn expressions_are_read_by_choice() {
    assert!(allowed("MIT OR GPL-3.0"));
    assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(!allowed("GPL-3.0"));
    assert!(!allowed("MIT AND GPL-3.0"));
}
