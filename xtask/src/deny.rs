//! `cargo xtask deny`: cargo-deny with the repository's rules.

use anyhow::Result;

use crate::shell::{self, cargo};

const VERSION: &str = "0.20.2";

/// Installs cargo-deny where it is missing and runs every check.
pub(crate) fn run() -> Result<()> {
    if shell::run(cargo().args(["deny", "--version"])).is_err() {
        shell::run(cargo().args(["install", "cargo-deny", "--locked", "--version", VERSION]))?;
    }
    shell::run(cargo().args(["deny", "check"]))
}
