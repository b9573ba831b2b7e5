//! `cargo xtask driver`: a mock driver root made by `mirage driver all`, used by programs that know nothing of mirage: a C program and
//! Python scripts that load both libraries from it, readers of its nvidia-smi, and containers that asked for some of its GPUs.

mod container;
mod scratch;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::clients::tools;
use crate::shell::{self, cargo, target};
use scratch::{Root, Scratch, beside, script};

const GPUS: usize = 4;

/// Makes roots, uses them, removes them.
pub(crate) fn run(runc: Option<&Path>) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "-p", "mirage", "-p", "mirage-smi"]))?;
    let python = tools::python(&target().join("driver-python"), &beside("requirements.txt"))?;
    let scratch = Scratch::new()?;
    let program = compile(&scratch.0)?;

    let root = Root::make(&scratch.0, &["--gpus", &GPUS.to_string()])?;
    enumerate(&root, &program, &python)?;
    let read = root.used_by(script(&python, "readers.py"))?;
    eprintln!(
        "xtask driver: GPUtil, xmltodict and an exporter read {}",
        read.trim()
    );
    root.remove()?;

    let runc = match runc {
        Some(runc) => runc,
        None => {
            shell::ensure(&["runc"], "runc")?;
            Path::new("runc")
        }
    };
    container::run(&scratch.0, runc, &python, &program)
}

/// A C program, ctypes, NVIDIA's bindings and nvidia-smi find the same GPUs.
fn enumerate(root: &Root, program: &Path, python: &Path) -> Result<()> {
    let c = root.used_by(Command::new(program))?;
    let ctypes = root.used_by(script(python, "enumerate.py"))?;
    ensure!(c.lines().count() == GPUS, "the C program finds:\n{c}");
    ensure!(
        c == ctypes,
        "the C program finds:\n{c}\nthe Python script:\n{ctypes}"
    );
    let bindings = root.used_by(script(python, "bindings.py"))?;
    ensure!(
        c == bindings,
        "the C program finds:\n{c}\ncuda-bindings:\n{bindings}"
    );
    let smi = root.smi(&["-L"])?;
    for line in c.lines() {
        let uuid = line.split('|').nth(2).context("a line without a UUID")?;
        ensure!(
            smi.contains(uuid),
            "nvidia-smi -L does not show {uuid}:\n{smi}"
        );
    }
    Ok(())
}

fn compile(scratch: &Path) -> Result<PathBuf> {
    let program = scratch.join("enumerate");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o"]);
    cc.arg(&program).arg(beside("enumerate.c")).arg("-ldl");
    shell::run(&mut cc)?;
    Ok(program)
}
