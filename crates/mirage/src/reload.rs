//! Hot reload: a changed config file, or SIGHUP, lays the new config over the running world. A
//! bad file leaves the old one in force and says so.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use mirage_sim::Reconfigured;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::say;
use crate::engine::Engine;
use crate::source::Source;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

/// Watches a config file.
#[derive(Debug)]
pub struct Reload {
    source: Source,
    path: Option<PathBuf>,
    host: String,
    engine: Engine,
    hangup: Signal,
    seen: Option<Version>,
}

impl Reload {
    /// Begins to watch a file that was loaded when it was as `seen`. Made before the start page is
    /// printed, so that no SIGHUP is lost.
    pub fn new(
        source: Source,
        seen: Option<Version>,
        host: String,
        engine: Engine,
    ) -> Result<Self> {
        let path = source.config.clone();
        Ok(Self {
            seen,
            source,
            path,
            host,
            engine,
            hangup: signal(SignalKind::hangup()).context("listening for SIGHUP")?,
        })
    }

    /// Reloads whenever there is reason to, for ever.
    pub async fn run(mut self) {
        let mut look = tokio::time::interval(EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                _ = self.hangup.recv() => true,
                _ = look.tick() => false,
            };
            let Some(path) = self.path.clone() else {
                if asked {
                    say("SIGHUP: there is no config file to reload (--config)");
                }
                continue;
            };
            let now = version(&path);
            // A file that is gone or empty for a moment is being written.
            let changed = now.is_some_and(|file| file.size > 0) && now != self.seen;
            if !asked && !changed {
                continue;
            }
            self.seen = now;
            self.reload(&path).await;
        }
    }

    async fn reload(&self, path: &Path) {
        let shown = path.display();
        let (source, host, owned) = (self.source.clone(), self.host.clone(), path.to_owned());
        let loading = tokio::task::spawn_blocking(move || source.load(&owned, &host));
        let loaded = match loading.await {
            Ok(Ok(loaded)) => loaded,
            Ok(Err(error)) => {
                say(&format!("{error:#}"));
                say(&format!(
                    "{shown} was not loaded; the old config stays in force"
                ));
                return;
            }
            Err(error) => {
                say(&format!("loading {shown}: {error}"));
                return;
            }
        };
        if !loaded.warnings.is_empty() {
            say(&format!("{}", loaded.warnings));
        }
        let plan = loaded.plan;
        let summary = match self.engine.ask(move |core| core.reconfigure(plan)) {
            Ok(waiting) => waiting.await.ok(),
            Err(error) => {
                say(&format!("{shown} was not loaded: {error}"));
                None
            }
        };
        if let Some(summary) = summary {
            say(&format!("{shown} loaded: {}", tell(&summary)));
        }
    }
}

fn tell(summary: &Reconfigured) -> String {
    let Reconfigured {
        gpus_kept,
        gpus_added,
        gpus_removed,
        workloads_kept,
        workloads_added,
        workloads_removed,
        faults_kept,
        faults_added,
        faults_removed,
    } = summary;
    let part = |what, kept, added, removed| {
        format!("{what} {kept} kept, {added} added, {removed} removed")
    };
    [
        part("GPUs", gpus_kept, gpus_added, gpus_removed),
        part(
            "workloads",
            workloads_kept,
            workloads_added,
            workloads_removed,
        ),
        part("faults", faults_kept, faults_added, faults_removed),
    ]
    .join("; ")
}

/// The version of a file there is now.
pub fn version(path: &Path) -> Option<Version> {
    let file = std::fs::metadata(path).ok()?;
    Some(Version {
        device: file.dev(),
        inode: file.ino(),
        modified: (file.mtime(), file.mtime_nsec()),
        size: file.size(),
    })
}
