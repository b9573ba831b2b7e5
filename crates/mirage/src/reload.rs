//! Hot reload: a changed config file, or SIGHUP, lays the new config over the running world. A
//! bad file leaves the old one in force and says so. An engine too busy to take a good one is asked
//! again until it does; what is asked for then is the file as it is by then.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use mirage_sim::Reconfigured;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::say;
use crate::engine::{Engine, Unavailable};
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
    /// A reload the engine was too busy to take.
    owed: bool,
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
            owed: false,
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
            self.attend(asked).await;
        }
    }

    /// Reloads if it was asked for, if the file is another, or if the engine owes it.
    async fn attend(&mut self, asked: bool) {
        let Some(path) = self.path.clone() else {
            if asked {
                say("SIGHUP: there is no config file to reload (--config)");
            }
            return;
        };
        let now = version(&path);
        // A file that is gone or empty for a moment is being written.
        let is_there = now.is_some_and(|file| file.size > 0);
        let changed = now != self.seen;
        if asked || is_there && (changed || self.owed) {
            self.seen = now;
            self.owed = !self.reload(&path).await;
        }
    }

    /// Whether that is settled, one way or the other; if not, it must be tried again.
    async fn reload(&self, path: &Path) -> bool {
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
                return true;
            }
            Err(error) => {
                say(&format!("loading {shown}: {error}"));
                return true;
            }
        };
        let plan = loaded.plan;
        let waiting = match self.engine.ask(move |core| core.reconfigure(plan)) {
            Ok(waiting) => waiting,
            Err(error @ Unavailable::Busy) => {
                // Once, however often it is tried.
                if !self.owed {
                    say(&format!("{shown} will be loaded later: {error}"));
                }
                return false;
            }
            Err(error @ Unavailable::Stopped) => {
                say(&format!("{shown} was not loaded: {error}"));
                return true;
            }
        };
        if !loaded.warnings.is_empty() {
            say(&format!("{}", loaded.warnings));
        }
        if let Ok(summary) = waiting.await {
            say(&format!("{shown} loaded: {}", tell(&summary)));
        }
        true
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::engine::{self, Core, Files};

    fn config(gpus: u32) -> String {
        format!("nodes:\n  a: {{ model: t4, gpus: {gpus} }}\n")
    }

    #[tokio::test]
    async fn a_busy_engine_is_asked_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("mirage.yaml");
        std::fs::write(&path, config(1)).unwrap();
        let source = Source {
            config: Some(path.clone()),
            ..Source::nothing()
        };
        let plan = source.load(&path, "a").unwrap().plan;
        let core = Core::new(plan, 1.0, 0, 0, Files::default());
        let (ended, _ended) = tokio::sync::oneshot::channel();
        let (engine, thread) = engine::start(core, None, ended).unwrap();
        let seen = version(&path);
        let mut reload = Reload::new(source, seen, "a".into(), engine.clone()).unwrap();

        // One job that does not end, and as many behind it as are let wait.
        let (begin, begun) = channel::<()>();
        let (release, held) = channel::<()>();
        let hold = move |_: &mut Core| begin.send(()).is_ok() && held.recv().is_ok();
        let mut waiting = vec![engine.ask(hold).unwrap()];
        begun.recv().unwrap();
        while let Ok(more) = engine.ask(|_| true) {
            waiting.push(more);
        }
        std::fs::write(&path, config(2)).unwrap();
        reload.attend(true).await;
        assert!(reload.owed);
        // Written again meanwhile: the last one counts.
        std::fs::write(&path, config(3)).unwrap();
        reload.attend(false).await;
        assert!(reload.owed);
        release.send(()).unwrap();
        for job in waiting {
            assert!(job.await.unwrap());
        }

        reload.attend(false).await;
        assert!(!reload.owed);
        let gpus = engine.ask(|core| core.plan().nodes[0].gpus.len()).unwrap();
        assert_eq!(gpus.await.unwrap(), 3);
        engine.stop();
        thread.join().unwrap();
    }
}
