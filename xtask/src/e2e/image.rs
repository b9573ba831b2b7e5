//! An image made by hand, since none can be pulled: busybox, the C library, and a program that asks NVML. One uncompressed layer; it
//! serves as the pods' sandbox too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::fetch::Programs;
use crate::image::{self, Layer, oci};
use crate::shell;

/// The image's name in containerd.
pub(super) const IMAGE: &str = "mirage.local/e2e:1";
const PROBE: &str = include_str!("../../e2e/probe.c");

/// Makes the archive that `ctr images import` reads; `users` are programs whose libraries must be in it.
pub(super) fn make(programs: &Programs, users: &[&Path], scratch: &Path) -> Result<PathBuf> {
    let root = scratch.join("image/root");
    for directory in [
        "bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin",
    ] {
        fs::create_dir_all(root.join(directory)).context("making the image's directories")?;
    }
    let busybox = programs.usr("bin/busybox");
    fs::copy(&busybox, root.join("bin/busybox")).context("copying busybox")?;
    for applet in shell::output(Command::new(&busybox).arg("--list"))?.lines() {
        if applet != "busybox" {
            symlink("busybox", root.join("bin").join(applet)).context("linking busybox")?;
        }
    }
    let probe = root.join("usr/bin/probe");
    compile(scratch, &probe)?;
    for program in users.iter().copied().chain([probe.as_path()]) {
        for library in image::libraries(program)? {
            let to = root.join(library.strip_prefix("/").unwrap_or(&library));
            fs::create_dir_all(to.parent().context("a library at the root")?)?;
            fs::copy(&library, &to).with_context(|| format!("copying {}", library.display()))?;
        }
    }
    let config = json!({"Env": ["PATH=/usr/bin:/bin"], "Cmd": ["sleep", "1000000"]});
    Ok(oci::pack(&root, &scratch.join("image"), IMAGE, &config, Layer::Plain)?.archive)
}

fn compile(scratch: &Path, to: &Path) -> Result<()> {
    let source = scratch.join("image/probe.c");
    fs::write(&source, PROBE).context("writing the probe's source")?;
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Werror", "-O1", "-o"])
        .arg(to);
    shell::run(cc.arg(&source).arg("-ldl"))
}
