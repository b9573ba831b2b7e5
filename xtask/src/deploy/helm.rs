//! helm from the Go module registry, built once and kept in the cache beside Kubernetes. `xtask/deploy/helm` pins the release and, in
//! go.sum, every source it is built from.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::e2e::fetch::{cache, once};
use crate::shell::{self, root, sha256};

/// The program; builds it if need be, which takes minutes.
pub(crate) fn prepare() -> Result<PathBuf> {
    let module = root().join("xtask/deploy/helm");
    let read = |name: &str| {
        let path = module.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let (pins, sums) = (read("go.mod")?, read("go.sum")?);
    let version = version(&pins).context("go.mod requires no release of helm")?;
    let key = sha256(format!("{pins}{sums}").as_bytes())?;
    let directory = cache()?.join(format!("helm-{version}-{}", &key[..16]));
    once(&directory, |aside| {
        eprintln!(
            "xtask: building helm {version} into {}; this takes minutes, once",
            directory.display()
        );
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath"])
            .args(["-ldflags", "-s -w", "-o"])
            .arg(aside.join("helm"))
            .arg("helm.sh/helm/v3/cmd/helm")
            .current_dir(&module)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "")
            // What go.sum does not name is an error, not a question to a server.
            .env("GOSUMDB", "off");
        shell::run(&mut go).context("building helm needs Go and the module proxy")
    })?;
    Ok(directory.join("helm"))
}

/// The release that go.mod requires.
fn version(pins: &str) -> Option<&str> {
    let lines = pins.lines().map(str::trim);
    let mut words = lines
        .filter_map(|line| {
            line.trim_start_matches("require ")
                .strip_prefix("helm.sh/helm/v3 ")
        })
        .map(str::split_whitespace);
    words.next()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_go_mod_requires() {
        let pins = include_str!("../../deploy/helm/go.mod");
        let version = version(pins).expect("a release");
        assert!(version.starts_with("v3."), "{version}");
    }
}
