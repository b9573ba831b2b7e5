//! A driver root of its own in a scratch directory, and how programs use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{self, root, target};

/// A directory that goes with its owner.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("mirage-driver-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary directory harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A driver root.
pub(super) struct Root {
    pub(super) driver: PathBuf,
    host: PathBuf,
}

impl Root {
    /// Makes one below a directory, and looks whether a second run finds it whole.
    pub(super) fn make(below: &Path, words: &[&str]) -> Result<Root> {
        let root = Root {
            driver: below.join("driver"),
            host: below.join("host"),
        };
        fs::create_dir_all(&root.host)?;
        let all: Vec<&str> = [&["all"], words].concat();
        root.mirage(&all)?;
        let again = root.mirage(&all)?;
        ensure!(
            again.starts_with("nothing to do"),
            "a second run says: {again}"
        );
        root.mirage(&["status"])?;
        Ok(root)
    }

    /// Removes it, and looks whether anything is left.
    pub(super) fn remove(self) -> Result<()> {
        self.mirage(&["remove"])?;
        ensure!(
            !self.driver.exists(),
            "{} is still there after `mirage driver remove`",
            self.driver.display()
        );
        Ok(())
    }

    fn mirage(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(target().join("debug/mirage"));
        command.arg("driver").args(words);
        command.arg("--root").arg(&self.driver);
        shell::output(command.arg("--host").arg(&self.host))
    }

    /// The directory of the node's state.
    pub(super) fn state(&self) -> Result<PathBuf> {
        let state = self.driver.join("run/mirage");
        let mut nodes =
            fs::read_dir(&state).with_context(|| format!("listing {}", state.display()))?;
        Ok(nodes.next().context("no node has a state")??.path())
    }

    /// Runs a program as a user would: with the root's libraries and programs, and the state they come with.
    pub(super) fn used_by(&self, mut program: Command) -> Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        program
            .env("LD_LIBRARY_PATH", self.driver.join("lib64"))
            .env(
                "PATH",
                format!("{}:{path}", self.driver.join("bin").display()),
            )
            .env("MIRAGE_STATE", self.state()?)
            .env("MIRAGE_DEV", self.driver.join("dev"))
            .env_remove("NVIDIA_VISIBLE_DEVICES")
            .env_remove("MIRAGE_VISIBLE_DEVICES")
            .env_remove("CUDA_VISIBLE_DEVICES");
        shell::output(&mut program)
    }

    /// Runs its nvidia-smi.
    pub(super) fn smi(&self, words: &[&str]) -> Result<String> {
        let mut smi = Command::new(self.driver.join("bin/nvidia-smi"));
        smi.args(words);
        self.used_by(smi)
    }
}

/// One of the programs that lie beside this file.
pub(super) fn beside(name: &str) -> PathBuf {
    root().join("xtask/src/driver").join(name)
}

/// A Python script that lies beside this file.
pub(super) fn script(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(beside(name));
    command
}
