//! `mirage node` as a user starts it, beside the kubelet; steered with `mirage ctl`, read through its exporter.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::process::{Daemon, until};
use super::{NODE, http};
use crate::shell;

const ADDRESS: &str = "127.0.0.1:9400";
/// Where the exporter serves that runs by itself.
const BESIDE: &str = "127.0.0.1:9401";
const STATE: &str = "/run/mirage";

/// A running `mirage node`; killed when dropped.
pub(super) struct Mirage {
    program: PathBuf,
    daemon: Daemon,
}

impl Mirage {
    /// Starts it with these options more, and waits until it serves.
    pub(super) fn start(
        program: &Path,
        kubeconfig: &Path,
        options: &[&str],
        logs: &Path,
    ) -> Result<Mirage> {
        let mut command = Command::new(program);
        command
            .args(["node", "--node-name", NODE, "--listen", ADDRESS])
            .args(["--state-dir", STATE])
            .args(options)
            .env("KUBECONFIG", kubeconfig);
        let mut daemon = Daemon::start("mirage", &mut command, logs)?;
        daemon.ready(|| http::get(ADDRESS, "/metrics").is_ok())?;
        Ok(Mirage {
            program: program.to_path_buf(),
            daemon,
        })
    }

    /// Takes away what it left on the node.
    pub(super) fn uninstall(program: &Path, kubeconfig: &Path, options: &[&str]) -> Result<()> {
        let mut command = Command::new(program);
        command
            .args(["node", "--node-name", NODE, "--uninstall"])
            .args(options)
            .env("KUBECONFIG", kubeconfig);
        shell::output(&mut command).map(drop)
    }

    /// Asks it to end; it must end well.
    pub(super) fn stop(self) -> Result<()> {
        let log = self.daemon.log().to_path_buf();
        let status = self.daemon.stop()?;
        anyhow::ensure!(
            status.success(),
            "mirage node ended with {status}; its log ends:\n{}",
            super::process::tail(&log)
        );
        Ok(())
    }

    /// Ends it as a crash would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.daemon.kill()
    }

    /// Lets it stand still, or go on.
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        self.daemon.signal(name)
    }

    /// Waits until it has said this on standard error.
    pub(super) fn says(&self, words: &str) -> Result<()> {
        let log = self.daemon.log();
        until(&format!("word of {words:?} from mirage"), || {
            let text = std::fs::read_to_string(log).context("reading mirage's log")?;
            Ok(if text.contains(words) {
                Ok(())
            } else {
                Err(super::process::tail(log))
            })
        })
    }

    /// `mirage ctl` with these words.
    pub(super) fn control(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["ctl", "--state-dir", STATE]).args(words);
        shell::output(&mut command)
    }

    /// Waits until a part of it does its work.
    pub(super) fn works(&self, part: &str) -> Result<()> {
        until(&format!("working {part}"), || {
            let up = samples(ADDRESS, "/self/metrics", "mirage_part_up")?;
            let up = up
                .iter()
                .any(|one| one.label("part") == part && one.value > 0.0);
            Ok(if up { Ok(()) } else { Err(self.health()?) })
        })
    }

    /// Its `/health`.
    pub(super) fn health(&self) -> Result<String> {
        Ok(http::request(ADDRESS, "GET", "/health", None)?.body)
    }
}

/// Who shows metrics.
pub(super) trait Shows {
    /// Where.
    fn address(&self) -> &'static str;

    /// Its samples of a metric.
    fn samples(&self, metric: &str) -> Result<Vec<Sample>> {
        samples(self.address(), "/metrics", metric)
    }

    /// Waits until a metric's samples satisfy a look.
    fn until<T>(
        &self,
        what: &str,
        metric: &str,
        look: impl Fn(&[Sample]) -> Option<T>,
    ) -> Result<T> {
        until(&format!("{what} in {metric}"), || {
            let samples = self.samples(metric)?;
            let seen: Vec<String> = samples.iter().map(Sample::to_string).collect();
            Ok(look(&samples).ok_or_else(|| seen.join(", ")))
        })
    }
}

impl Shows for Mirage {
    fn address(&self) -> &'static str {
        ADDRESS
    }
}

/// A running `mirage dcgm-exporter`, which shows the GPUs of a `mirage node`; killed when dropped.
pub(super) struct Exporter {
    _daemon: Daemon,
}

impl Exporter {
    /// Starts it with pods from a pod-resources socket, and waits until it serves.
    pub(super) fn start(program: &Path, socket: &str, logs: &Path) -> Result<Exporter> {
        let mut command = Command::new(program);
        command
            .args(["dcgm-exporter", "--kubernetes", "--address", BESIDE])
            .args(["--pod-resources-kubelet-socket", socket])
            .args(["--collect-interval", "1000"])
            .arg("--state")
            .arg(Path::new(STATE).join(NODE));
        let mut daemon = Daemon::start("exporter", &mut command, logs)?;
        daemon.ready(|| http::get(BESIDE, "/metrics").is_ok())?;
        Ok(Exporter { _daemon: daemon })
    }
}

impl Shows for Exporter {
    fn address(&self) -> &'static str {
        BESIDE
    }
}

/// A page's samples of a metric.
fn samples(address: &str, page: &str, metric: &str) -> Result<Vec<Sample>> {
    let text = http::get(address, page)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples: Option<Vec<Sample>> = lines
        .filter(|line| line.split('{').next() == Some(metric))
        .map(Sample::parse)
        .collect();
    samples.with_context(|| format!("a line of {metric} that is no sample"))
}

/// One line of the exporter.
#[derive(Debug)]
pub(super) struct Sample {
    labels: Vec<(String, String)>,
    /// Its value.
    pub(super) value: f64,
}

impl Sample {
    pub(super) fn parse(line: &str) -> Option<Sample> {
        let (head, value) = line.rsplit_once(' ')?;
        let inner = head.split_once('{')?.1.strip_suffix('}')?;
        let mut labels = Vec::new();
        let mut rest = inner;
        while let Some((key, after)) = rest.split_once("=\"") {
            let end = closing(after)?;
            labels.push((key.to_owned(), after[..end].to_owned()));
            rest = after[end + 1..].trim_start_matches(',');
        }
        Some(Sample {
            labels,
            value: value.parse().ok()?,
        })
    }

    /// A label's value, empty when it is not there.
    pub(super) fn label(&self, key: &str) -> &str {
        let found = self.labels.iter().find(|(name, _)| name == key);
        found.map_or("", |(_, value)| value)
    }
}

/// What matters of it to somebody who waits for something else.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}", self.label("gpu"))?;
        for key in ["GPU_I_ID", "pod", "container"] {
            let value = self.label(key);
            if !value.is_empty() {
                write!(f, " {key}={value}")?;
            }
        }
        write!(f, ": {}", self.value)
    }
}

/// Where a label's value ends: at the first quote that is not escaped.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let end = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        end.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_exporter_is_a_sample() {
        let line = r#"DCGM_FI_DEV_GPU_UTIL{gpu="0",note="a \"b\", c=\"d\"",pod="train"} 97"#;
        let sample = Sample::parse(line).expect("a sample");
        assert_eq!(sample.label("gpu"), "0");
        assert_eq!(sample.label("pod"), "train");
        assert_eq!(sample.label("note"), r#"a \"b\", c=\"d\""#);
        assert_eq!(sample.label("namespace"), "");
        assert!((sample.value - 97.0).abs() < f64::EPSILON);
    }
}
