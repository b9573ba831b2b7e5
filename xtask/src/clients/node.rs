//! A `mirage up` that stands still, for clients to look at; ended when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell;

/// How long it may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long it may take to end.
const FAREWELL: Duration = Duration::from_secs(30);

/// A running mirage with one node.
pub(crate) struct Node {
    child: Child,
    mirage: PathBuf,
    directory: PathBuf,
    address: String,
    name: String,
}

impl Node {
    /// Starts it paused, on a port the system chooses.
    pub(crate) fn start(
        mirage: &Path,
        config: &Path,
        fields: &Path,
        directory: &Path,
    ) -> Result<Node> {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).context("making a state directory")?;
        let page = directory.with_extension("page");
        let output = fs::File::create(&page).context("making a file for its start page")?;
        let mut command = Command::new(mirage);
        command
            .args(["up", "--paused", "--listen", "127.0.0.1:0", "--config"])
            .arg(config)
            .arg("--collectors")
            .arg(fields)
            .arg("--state-dir")
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(output);
        let child = command.spawn().context("starting mirage up")?;
        let mut node = Node {
            child,
            mirage: mirage.to_path_buf(),
            directory: directory.to_path_buf(),
            address: String::new(),
            name: String::new(),
        };
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(&page).unwrap_or_default();
            if let Some((name, address)) = read(&text) {
                (node.name, node.address) = (name, address);
                return Ok(node);
            }
            if let Some(status) = node.child.try_wait()? {
                bail!("mirage up ended with {status}");
            }
            if begin.elapsed() > PATIENCE {
                bail!("mirage up showed no start page within {PATIENCE:?}: {text}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where its API is.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The node's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its state directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// `mirage ctl` with these words.
    pub(crate) fn control(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.mirage);
        command
            .args(["ctl", "--state-dir"])
            .arg(&self.directory)
            .args(words);
        shell::output(&mut command).map(drop)
    }
}

/// The node's name and the API's address, once the start page is whole.
fn read(page: &str) -> Option<(String, String)> {
    let name = page
        .lines()
        .next()?
        .strip_prefix("mirage: node ")?
        .split(',')
        .next()?;
    let metrics = page
        .lines()
        .find_map(|line| line.trim().strip_prefix("metrics"))?;
    let address = metrics.trim().strip_suffix("/metrics")?;
    page.contains("fault heal")
        .then(|| (name.to_owned(), address.to_owned()))
}

impl Drop for Node {
    fn drop(&mut self) {
        // It removes its state files when asked to end.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begin.elapsed() > FAREWELL {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_dir_all(&self.directory);
        let _ = fs::remove_file(self.directory.with_extension("page"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_page_is_read_once_it_is_whole() {
        let page =
            "mirage: node live, 8 × NVIDIA A100\n\n  metrics    http://127.0.0.1:4321/metrics\n";
        assert_eq!(read(page), None);
        let whole = format!("{page}  mirage ctl fault heal --device 3\n");
        let found = read(&whole).expect("a whole page");
        assert_eq!(found, ("live".into(), "http://127.0.0.1:4321".into()));
        assert_eq!(read(""), None);
    }
}
