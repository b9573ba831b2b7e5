//! Programs from the Go module registry. A module below `xtask/e2e` pins their release and, in go.sum, every source file they are built
//! from, so the build asks no checksum database and gives the same programs everywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{once, sha256};
use crate::shell::{self, root};

/// A release and what is built of it.
pub(super) struct Release {
    /// The directory below `xtask/e2e`, and the beginning of its name in the cache.
    name: &'static str,
    /// The module that go.mod requires.
    module: &'static str,
    /// Its packages below `cmd`.
    programs: &'static [&'static str],
    /// Packages that a release stamps with its version.
    stamped: &'static [&'static str],
    /// Parts that are left out.
    tags: &'static str,
}

/// The cluster; ten minutes or more.
pub(super) const KUBERNETES: Release = Release {
    name: "kubernetes",
    module: "k8s.io/kubernetes",
    programs: &[
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    ],
    stamped: &[
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ],
    tags: "",
};

/// A containerd of the second generation, whose NRI has a call for each event; Debian's stable one is of the first. A minute or two.
pub(super) const CONTAINERD: Release = Release {
    name: "containerd",
    module: "github.com/containerd/containerd/v2",
    programs: &["containerd", "containerd-shim-runc-v2", "ctr"],
    stamped: &[],
    tags: "no_btrfs no_devmapper no_zfs",
};

/// The directory with the programs; builds them if need be.
pub(super) fn prepare(cache: &Path, release: &Release) -> Result<PathBuf> {
    let sources = root().join("xtask/e2e").join(release.name);
    let read = |name: &str| {
        let path = sources.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let (pins, sums) = (read("go.mod")?, read("go.sum")?);
    let version = version(&pins, release.module)
        .with_context(|| format!("go.mod requires no release of {}", release.module))?;
    let flags = linker_flags(release, version);
    let tags = release.tags;
    let key = sha256(format!("{pins}{sums}{flags}{tags}").as_bytes())?;
    let name = release.name;
    let directory = cache.join(format!("{name}-{version}-{}", &key[..16]));
    once(&directory, |aside| {
        eprintln!(
            "xtask e2e: building {name} {version} into {}; this takes minutes, once",
            directory.display()
        );
        let begin = Instant::now();
        for (done, program) in release.programs.iter().enumerate() {
            build(&sources, release, program, &flags, aside)?;
            eprintln!(
                "xtask e2e: {program} is built ({} of {}, {:.0} s)",
                done + 1,
                release.programs.len(),
                begin.elapsed().as_secs_f64()
            );
        }
        Ok(())
    })?;
    Ok(directory)
}

fn build(sources: &Path, release: &Release, program: &str, flags: &str, to: &Path) -> Result<()> {
    let mut go = Command::new("nice");
    go.args(["go", "build", "-mod=readonly", "-buildvcs=false"])
        .args(["-trimpath", "-tags", release.tags, "-ldflags", flags, "-o"])
        .arg(to.join(program))
        .arg(format!("{}/cmd/{program}", release.module))
        .current_dir(sources)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "")
        // What go.sum does not name is an error, not a question to a server.
        .env("GOSUMDB", "off");
    shell::run(&mut go).with_context(|| {
        format!(
            "building {} needs Go 1.26.3 or later and the module proxy",
            release.name
        )
    })
}

/// The release of a module that go.mod requires.
fn version<'a>(pins: &'a str, module: &str) -> Option<&'a str> {
    let line = pins
        .lines()
        .find_map(|line| line.trim().strip_prefix("require ")?.strip_prefix(module))?;
    line.split_whitespace().next()
}

fn linker_flags(release: &Release, version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let major = numbers.next().unwrap_or_default();
    let minor = numbers.next().unwrap_or_default();
    let mut flags = "-s -w".to_owned();
    for package in release.stamped {
        flags += &format!(
            " -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        );
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_go_mod_requires() {
        let pins = include_str!("../../../e2e/kubernetes/go.mod");
        let kubernetes = version(pins, KUBERNETES.module).expect("a release");
        assert!(kubernetes.starts_with("v1."), "{kubernetes}");
        let libraries = kubernetes.replacen("v1.", "v0.", 1);
        let replaced = pins.lines().filter(|line| line.contains("=> k8s.io/"));
        for line in replaced {
            assert!(line.ends_with(&libraries), "{line}");
        }
        let pins = include_str!("../../../e2e/containerd/go.mod");
        let containerd = version(pins, CONTAINERD.module).expect("a release");
        assert!(containerd.starts_with("v2."), "{containerd}");
    }

    #[test]
    fn a_release_is_stamped_with_its_version() {
        let flags = linker_flags(&KUBERNETES, "v1.34.11");
        assert!(flags.contains("component-base/version.gitVersion=v1.34.11"));
        assert!(flags.contains("component-base/version.gitMinor=34"));
        assert_eq!(linker_flags(&CONTAINERD, "v2.3.5"), "-s -w");
    }
}
