//! Waiting and running: every wait has a bound and says what it saw last; every program has a log, and ends with its owner.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell;

/// How long anything may take on a busy machine before it counts as broken.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);
/// Lines of a log that an error shows.
const TAIL: usize = 25;

/// Looks until there is a value. `Err` of the inner result says what is there instead; it ends up in the message, and so does a look
/// that itself went wrong: on a busy machine a server may be slow to answer once.
pub(super) fn until<T>(
    what: &str,
    mut look: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        let seen = match look() {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(seen)) => seen,
            Err(error) => format!("{error:#}"),
        };
        if begin.elapsed() > PATIENCE {
            bail!("no {what} within {PATIENCE:?}; the last look saw: {seen}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// The end of a log, for people to read.
pub(super) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// A long-running program with a log of its own; killed when dropped.
pub(super) struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; what it says is appended to `<name>.log` in `logs`.
    pub(super) fn start(name: &str, command: &mut Command, logs: &Path) -> Result<Daemon> {
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("a second handle of the log")?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", shell::show(command)))?;
        Ok(Daemon {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Its log.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended, and how.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("asking after {}", self.name))
    }

    /// Waits until `ready` says so; an early end or the end of patience shows the log.
    pub(super) fn ready(&mut self, mut ready: impl FnMut() -> bool) -> Result<()> {
        let begin = Instant::now();
        while !ready() {
            if let Some(status) = self.ended()? {
                bail!(
                    "{} ended with {status}; its log ends:\n{}",
                    self.name,
                    tail(&self.log)
                );
            }
            if begin.elapsed() > PATIENCE {
                bail!(
                    "{} is not ready after {PATIENCE:?}; its log ends:\n{}",
                    self.name,
                    tail(&self.log)
                );
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends a signal by name, such as `TERM`.
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        let mut kill = Command::new("kill");
        kill.arg(format!("-{name}")).arg(self.id().to_string());
        shell::run(&mut kill)
    }

    /// Asks it to end and waits for that.
    pub(super) fn stop(mut self) -> Result<ExitStatus> {
        self.signal("TERM")?;
        let name = self.name.clone();
        until(&format!("end of {name} after SIGTERM"), || {
            Ok(self.ended()?.ok_or_else(|| tail(&self.log)))
        })
    }

    /// Ends it as a crash would: without a word.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child
            .kill()
            .with_context(|| format!("killing {}", self.name))?;
        self.child
            .wait()
            .with_context(|| format!("waiting for {}", self.name))?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Gone already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
