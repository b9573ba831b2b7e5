//! The clients themselves: a Python environment, a Go program, a Rust program and nvtop, all pinned where pinning is
//! ours to do. What is missing and cannot be had is named, with the command that brings it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::e2e::fetch::mirror;
use crate::shell::{self, cargo, root, target};

/// The oldest Go whose generics and toolchain lines the program needs.
const GO: (u32, u32) = (1, 20);

/// Programs ready to run.
pub(crate) struct Tools {
    pub(crate) python: PathBuf,
    pub(crate) go_client: PathBuf,
    pub(crate) wrapper: PathBuf,
    pub(crate) nvtop: PathBuf,
}

impl Tools {
    /// Builds or fetches what is not there yet.
    pub(crate) fn prepare(scratch: &Path) -> Result<Tools> {
        fs::create_dir_all(scratch).context("making a scratch folder")?;
        Ok(Tools {
            python: python(
                &scratch.join("python"),
                &root().join("xtask/clients/python/requirements.txt"),
            )?,
            go_client: go_client(scratch)?,
            wrapper: wrapper()?,
            nvtop: nvtop(scratch)?,
        })
    }
}

/// A virtual environment with the pinned clients; made anew when the pins change.
pub(crate) fn python(folder: &Path, pins: &Path) -> Result<PathBuf> {
    let python = folder.join("bin/python");
    let wanted = fs::read_to_string(pins).with_context(|| format!("reading {}", pins.display()))?;
    let stamp = folder.join("pins");
    if fs::read_to_string(&stamp).is_ok_and(|pinned| pinned == wanted) && python.exists() {
        return Ok(python);
    }
    let _ = fs::remove_dir_all(folder);
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(folder);
    shell::run(&mut make)
        .context("a Python with venv is needed: apt-get install python3-venv, or python.org")?;
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--retries",
            "5",
        ])
        .arg("--requirement")
        .arg(pins);
    shell::run(&mut install).context("installing the pinned Python clients")?;
    fs::write(&stamp, wanted).context("remembering the pins")?;
    Ok(python)
}

fn go_client(scratch: &Path) -> Result<PathBuf> {
    let program = scratch.join("go-client");
    let mut build = go(&program)?;
    build
        .current_dir(root().join("xtask/clients/go"))
        .env("CGO_ENABLED", "1")
        // The binding wraps what NVIDIA's header calls deprecated.
        .env("CGO_CFLAGS", "-O1 -Wno-deprecated-declarations");
    shell::run(&mut build)
        .context("building the go-nvml client (cgo needs a C compiler: apt-get install gcc)")?;
    Ok(program)
}

/// The command that builds the Go program of the directory it is run in.
pub(crate) fn go(program: &Path) -> Result<Command> {
    let way_out = format!("Go {}.{} or newer is needed: https://go.dev/dl", GO.0, GO.1);
    let version =
        shell::output(Command::new("go").arg("version")).with_context(|| way_out.clone())?;
    match go_version(&version) {
        Some(found) if found >= GO => {}
        _ => bail!("{way_out}; this is {}", version.trim()),
    }
    let mut build = Command::new("go");
    build
        .args(["build", "-mod=readonly", "-buildvcs=false", "-o"])
        .arg(program)
        .arg(".");
    Ok(build)
}

/// The version in `go version go1.22.3 linux/amd64`.
fn go_version(text: &str) -> Option<(u32, u32)> {
    let version = text.split_whitespace().nth(2)?.strip_prefix("go")?;
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn wrapper() -> Result<PathBuf> {
    let manifest = root().join("xtask/clients/wrapper/Cargo.toml");
    shell::run(
        cargo()
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(target()),
    )?;
    Ok(target().join("debug/nvml-wrapper-client"))
}

/// nvtop of the machine, else of its distribution.
fn nvtop(scratch: &Path) -> Result<PathBuf> {
    if let Some(found) = on_path("nvtop") {
        return Ok(found);
    }
    let way_out =
        "nvtop is needed: apt-get install nvtop (on Debian 12 from the contrib section), as root";
    if on_path("apt-get").is_none() || !is_root() {
        bail!("{way_out}");
    }
    let options = contrib(scratch)?;
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(&options)
            .args(["-q", "-o", "Acquire::Retries=5"])
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive");
        shell::output(&mut command).map(drop)
    };
    apt(&["update"])
        .and_then(|()| apt(&["install", "--yes", "--no-install-recommends", "nvtop"]))
        .context(way_out)?;
    on_path("nvtop").with_context(|| format!("{way_out}; apt-get installed none"))
}

/// On Debian, package lists of our own that have the section nvtop is in; the machine's stay as they are.
fn contrib(scratch: &Path) -> Result<Vec<String>> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_matches('"').to_owned())
    };
    let (Some("debian"), Some(codename)) = (value("ID=").as_deref(), value("VERSION_CODENAME="))
    else {
        return Ok(Vec::new());
    };
    let lists = scratch.join("apt-lists");
    fs::create_dir_all(lists.join("partial")).context("making a folder for package lists")?;
    let source = scratch.join("apt.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let mirror = mirror()?;
    let line = format!("deb [signed-by={keys}] {mirror} {codename} main contrib\n");
    fs::write(&source, line).context("writing a package source")?;
    let options = [
        ("Dir::Etc::SourceList", source),
        ("Dir::Etc::SourceParts", PathBuf::from("/dev/null")),
        ("Dir::State::Lists", lists),
    ];
    Ok(options
        .iter()
        .flat_map(|(key, path)| ["-o".to_owned(), format!("{key}={}", path.display())])
        .collect())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn is_root() -> bool {
    // The owner of our own process's entry is who we are.
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_go_compare_as_numbers() {
        assert_eq!(go_version("go version go1.22.3 linux/amd64"), Some((1, 22)));
        assert_eq!(go_version("go version go1.9rc1 linux/arm64"), Some((1, 9)));
        assert!(go_version("go version go1.9 linux/arm64").is_some_and(|old| old < GO));
        assert_eq!(go_version("go: command not found"), None);
    }
}
