//! etcd, containerd, runc, the network plugins and busybox from Debian packages: downloaded through apt, which checks their
//! signatures, with an apt configuration of our own, and unpacked into the cache. Nothing is installed.
//!
//! The release that brings a containerd with NRI and CDI is newer than the oldest one mirage is tested on, so packages come from the
//! machine's own mirror but from the suites named here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{once, sha256};
use crate::shell;

/// Packages and the suite each is taken from. A newer runc needs a newer C library than the older suite has.
const PACKAGES: &[(&str, &str)] = &[
    ("busybox-static", "trixie"),
    ("containerd", "trixie"),
    ("containernetworking-plugins", "trixie"),
    ("etcd-server", "trixie"),
    ("runc", "bookworm"),
];

/// The directory with the unpacked packages; fetches them if need be.
pub(super) fn prepare(cache: &Path) -> Result<PathBuf> {
    let key = sha256(format!("{PACKAGES:?}").as_bytes())?;
    let directory = cache.join(format!("debian-{}", &key[..16]));
    once(&directory, |aside| {
        eprintln!(
            "xtask e2e: fetching Debian packages into {}",
            directory.display()
        );
        fetch(aside)
    })?;
    Ok(directory)
}

fn fetch(to: &Path) -> Result<()> {
    let mirror = mirror()?;
    let apt = Apt::new(&to.join("apt"), &mirror)?;
    quiet(apt.get().arg("update")).context("reading the package lists of the Debian mirror")?;
    let debs = to.join("apt/debs");
    fs::create_dir(&debs).context("making a directory for packages")?;
    for (package, suite) in PACKAGES {
        let mut download = apt.get();
        download.arg("download").arg(format!("{package}/{suite}"));
        quiet(download.current_dir(&debs))
            .with_context(|| format!("no {package} of {suite} on the Debian mirror"))?;
    }
    for deb in fs::read_dir(&debs).context("listing the packages")? {
        let deb = deb.context("listing the packages")?.path();
        eprintln!(
            "xtask e2e: unpacking {}",
            deb.file_name().unwrap_or_default().to_string_lossy()
        );
        let mut unpack = Command::new("dpkg-deb");
        shell::run(unpack.arg("-x").arg(&deb).arg(to))?;
    }
    fs::remove_dir_all(to.join("apt")).context("removing the package lists")?;
    for program in [
        "bin/busybox",
        "bin/containerd",
        "bin/etcd",
        "lib/cni/bridge",
        "sbin/runc",
    ] {
        ensure!(
            to.join("usr").join(program).exists(),
            "the packages have no /usr/{program}"
        );
    }
    Ok(())
}

/// The Debian mirror that this machine's apt uses.
pub(crate) fn mirror() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    let text = shell::output(targets.arg("Created-By: Packages"))
        .context("the programs come from Debian packages; apt-get is needed")?;
    let mirror = text
        .lines()
        .find(|line| line.trim_end_matches('/').ends_with("/debian"));
    Ok(mirror
        .context("apt's configuration names no mirror of Debian's main archive")?
        .to_owned())
}

/// An apt with lists and sources of its own; keys and transports are the system's.
struct Apt {
    directory: PathBuf,
}

impl Apt {
    fn new(directory: &Path, mirror: &str) -> Result<Apt> {
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(directory.join(part)).context("making apt's directories")?;
        }
        let mut suites: Vec<&str> = PACKAGES.iter().map(|(_, suite)| *suite).collect();
        suites.sort_unstable();
        suites.dedup();
        let sources: String = suites
            .iter()
            .map(|suite| format!("deb {mirror} {suite} main\n"))
            .collect();
        fs::write(directory.join("sources.list"), sources).context("writing apt's sources")?;
        Ok(Apt {
            directory: directory.to_path_buf(),
        })
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        let own = |name: &str| self.directory.join(name).display().to_string();
        for (key, value) in [
            ("Dir::State::lists", own("lists")),
            ("Dir::Cache", own("cache")),
            ("Dir::Etc::SourceList", own("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
            // The cache need not be readable for apt's own user.
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::Languages", "none".to_owned()),
            ("Acquire::Retries", "3".to_owned()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        command
    }
}

/// Runs a talkative program; its words are shown only if it ends badly.
fn quiet(command: &mut Command) -> Result<()> {
    let shown = shell::show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown} ended with {}:\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
