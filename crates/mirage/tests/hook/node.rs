//! A `mirage node` in a directory of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take before a test gives up. Never reached when things work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until there is something to see.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Directories that a node and its surroundings have, and that outlive it.
pub(crate) struct Stage {
    root: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let root = tempfile::tempdir().unwrap();
        Stage { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn nri(&self) -> PathBuf {
        self.path("nri.sock")
    }

    /// What `podlist.json` says.
    pub(crate) fn list(&self) -> String {
        std::fs::read_to_string(self.path("kubelet/pod-resources/podlist.json")).unwrap()
    }

    pub(crate) fn files(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirage"));
        command.stdin(Stdio::null()).env_clear();
        command
            .args([
                "node",
                "--no-driver-root",
                "--no-api-server",
                "--kubelet-dir",
            ])
            .arg(self.path("kubelet"));
        command
    }

    pub(crate) fn uninstall(&self) {
        let status = self.command().arg("--uninstall").status().unwrap();
        assert!(status.success());
    }
}

/// A running `mirage node`; ended when dropped.
pub(crate) struct Node {
    child: Child,
    address: String,
    stderr: Arc<Mutex<String>>,
}

impl Node {
    /// Starts it with two GPUs and waits for its start page.
    pub(crate) fn start(stage: &Stage, args: &[&str]) -> Node {
        let mut child = stage
            .command()
            .args([
                "--node-name",
                "n",
                "--model",
                "a100-sxm4-40gb",
                "--gpus",
                "2",
            ])
            .args(["--nri", "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(stage.path("state"))
            .arg("--nri-socket")
            .arg(stage.nri())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (errors, into) = (child.stderr.take().unwrap(), stderr.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let mut told = into.lock().unwrap();
                told.push_str(&line);
                told.push('\n');
            }
        });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.map_while(Result::ok).find_map(|line| {
            let rest = line.trim().strip_prefix("metrics")?;
            let rest = rest.trim().strip_prefix("http://")?;
            Some(rest.strip_suffix("/metrics")?.to_owned())
        });
        let address =
            address.unwrap_or_else(|| panic!("no start page: {}", stderr.lock().unwrap()));
        Node {
            child,
            address,
            stderr,
        }
    }

    /// UUIDs of its GPUs, by index.
    pub(crate) fn uuids(&self) -> Vec<String> {
        let page = self.metrics();
        let of = |index: usize| {
            let gpu = format!("gpu=\"{index}\"");
            let line = page.lines().find(|line| line.contains(&gpu))?;
            Some(line.split("UUID=\"").nth(1)?.split('"').next()?.to_owned())
        };
        (0..).map_while(of).collect()
    }

    /// Waits for a series whose line holds all parts.
    pub(crate) fn wait_for_series(&self, parts: &[&str]) {
        wait_for(&format!("a series with {parts:?}"), || {
            let page = self.metrics();
            let mut lines = page.lines();
            lines
                .any(|line| parts.iter().all(|part| line.contains(part)))
                .then_some(())
        });
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = "GET /metrics HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    /// Waits until standard error holds a text.
    pub(crate) fn wait_until_told(&self, text: &str) {
        wait_for(text, || {
            self.stderr.lock().unwrap().contains(text).then_some(())
        });
    }

    /// Kills it, without a chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in order.
    pub(crate) fn end(&mut self) {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-s", "TERM", &pid]).status();
        assert!(told.unwrap().success());
        wait_for("the end", || self.child.try_wait().unwrap());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
