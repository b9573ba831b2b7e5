//! A cage for the cluster: namespaces of its own for mounts, network and processes. Whatever happens to this process — the end of
//! the run, an error, a panic, Ctrl-C, even SIGKILL — the kernel ends all that ran inside, and with it every mount, address and port.
//! What is then left, a scratch directory and empty control groups, is removed here, or by the next run if this one was killed.

mod cgroup;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// How scratch directories and control groups begin; the rest is the process id of their run.
const PREFIX: &str = "mirage-e2e-";

/// The scratch directory and control groups of one run; gone when dropped.
pub(super) struct Cage {
    name: String,
    scratch: PathBuf,
}

impl Cage {
    /// Makes the directories, after removing those of runs that were killed.
    pub(super) fn new() -> Result<Cage> {
        sweep();
        let name = format!("{PREFIX}{}", std::process::id());
        let scratch = std::env::temp_dir().join(&name);
        fs::create_dir(&scratch).with_context(|| format!("making {}", scratch.display()))?;
        let cage = Cage { name, scratch };
        cgroup::make(&cage.name)?;
        Ok(cage)
    }

    /// The name of the run's control group.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A directory for everything the run writes.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Runs a program inside, to its end or until we are told to stop.
    pub(super) fn run(&self, program: &Command) -> Result<ExitStatus> {
        let mut command = Command::new("setpriv");
        // unshare dies with us, and its child, the first process inside, with it.
        command.args(["--pdeathsig", "KILL", "unshare"]);
        command.args(["--mount", "--net", "--pid", "--ipc", "--uts"]);
        command.args(["--fork", "--kill-child", "--mount-proc"]);
        command.args(["--propagation", "private"]);
        // A shell as first process takes in the orphans that container runtimes leave.
        command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]);
        command.arg(program.get_program()).args(program.get_args());
        // Ctrl-C is for us; we tell the others.
        command.process_group(0).stdin(Stdio::null());
        let mut child = command
            .spawn()
            .context("namespaces need setpriv and unshare of util-linux")?;
        let id = child.id();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting a runtime for signals")?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).context("catching SIGINT")?;
            let mut terminate = signal(SignalKind::terminate()).context("catching SIGTERM")?;
            let mut hangup = signal(SignalKind::hangup()).context("catching SIGHUP")?;
            let ended = tokio::task::spawn_blocking(move || child.wait());
            tokio::pin!(ended);
            let name = tokio::select! {
                status = &mut ended => {
                    return status.context("the waiting thread")?.context("waiting for the cage");
                }
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
                _ = hangup.recv() => "SIGHUP",
            };
            eprintln!("xtask e2e: {name}: cleaning up");
            let _ = Command::new("kill")
                .args(["-KILL", &id.to_string()])
                .status();
            let _ = ended.await;
            bail!("stopped by {name}")
        })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        cgroup::remove(&self.name);
        if let Err(error) = fs::remove_dir_all(&self.scratch) {
            eprintln!("xtask e2e: removing {}: {error}", self.scratch.display());
        }
    }
}

/// Removes what runs left that were killed before they could.
fn sweep() {
    let abandoned = |name: &str| {
        name.strip_prefix(PREFIX)
            .and_then(|id| id.parse::<u32>().ok())
            .is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
    };
    for name in names(&std::env::temp_dir())
        .into_iter()
        .filter(|name| abandoned(name))
    {
        let _ = fs::remove_dir_all(std::env::temp_dir().join(name));
    }
    for name in cgroup::names().into_iter().filter(|name| abandoned(name)) {
        cgroup::remove(&name);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
