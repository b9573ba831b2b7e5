//! The program in the image: how it is built, and what it needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::shell::{self, cargo, target};

/// Builds the program and the libraries as they are shipped.
pub(super) fn build() -> Result<PathBuf> {
    let libraries = ["-p", "mirage-nvml", "-p", "mirage-cuda"];
    let programs = ["-p", "mirage", "-p", "mirage-smi"];
    shell::run(
        cargo()
            .args(["build", "--locked", "--profile", "nvml"])
            .args(libraries),
    )?;
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let mut build = cargo();
    build
        .args(["build", "--locked", "--release"])
        .args(programs);
    if !has(&triple) {
        eprintln!(
            "xtask image: the target {triple} cannot be had; the program will bring the libraries of this machine along"
        );
        shell::run(&mut build)?;
        return Ok(target().join("release/mirage"));
    }
    // What little C there is calls no C library, so the machine's own compiler will do.
    let compiler = format!("CC_{}", triple.replace('-', "_"));
    if std::env::var_os(&compiler).is_none() {
        build.env(compiler, "cc");
    }
    shell::run(build.args(["--target", &triple]))?;
    Ok(target().join(triple).join("release/mirage"))
}

/// Whether the toolchain can link statically, after asking for what that needs.
fn has(triple: &str) -> bool {
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", triple]).stdin(Stdio::null());
    rustup
        .current_dir(shell::root())
        .status()
        .is_ok_and(|status| status.success())
}

/// The shared libraries that a program loads, and its loader; none for one that is static.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("asking ldd what a program needs")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // It says so, with an exit code of its own, when there is nothing to load.
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(PathBuf::from)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_loader_and_a_script_nothing() {
        let own = std::env::current_exe().expect("this program");
        let found = libraries(&own).expect("ldd");
        let loader = |path: &PathBuf| path.to_string_lossy().contains("/ld-");
        assert!(found.iter().any(loader), "{found:?}");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(libraries(&file).expect("ldd").is_empty());
    }
}
