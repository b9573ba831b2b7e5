//! A running `mirage up` to test against.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;

/// How long anything may take before a test gives up. Never reached when things work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, cut off from the machine's own settings.
pub(crate) fn mirage() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirage"));
    command.stdin(Stdio::null()).env_clear();
    for kept in ["PATH", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    mirage().args(args).output().expect("mirage starts")
}

/// What comes of a command that shall end by itself; one that goes on is ended.
pub(crate) fn outcome(mut command: Command) -> Output {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it starts");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it goes on: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("its output")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is text")
}

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

/// A `mirage up` in a directory of its own; ended when dropped.
pub(crate) struct Up {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) page: String,
    stderr: Arc<Mutex<String>>,
    root: TempDir,
}

impl Up {
    /// Starts it and waits for its start page.
    pub(crate) fn start(args: &[&str]) -> Up {
        Self::role("up", args)
    }

    /// Starts another role that runs GPUs.
    pub(crate) fn role(role: &str, args: &[&str]) -> Up {
        let root = tempfile::tempdir().expect("a temporary directory");
        Self::start_in(root, role, args)
    }

    /// Starts it with a config file it may reload.
    pub(crate) fn with_config(config: &str, args: &[&str]) -> Up {
        let root = tempfile::tempdir().expect("a temporary directory");
        let path = root.path().join("mirage.yaml");
        std::fs::write(&path, config).expect("the config is written");
        let path = path.to_str().expect("a plain path").to_owned();
        Self::start_in(root, "up", &[&["--config", &path], args].concat())
    }

    fn start_in(root: TempDir, role: &str, args: &[&str]) -> Up {
        let mut child = mirage()
            .args([role, "--listen", "127.0.0.1:0", "--state-dir"])
            .arg(root.path().join("state"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mirage starts");
        let errors = Arc::new(Mutex::new(String::new()));
        collect(child.stderr.take().expect("piped"), errors.clone());
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut page = String::new();
        while let Some(Ok(line)) = lines.next() {
            page.push_str(&line);
            page.push('\n');
            // The last line of the page.
            if line.contains("fault heal") || line.contains("no GPUs") {
                break;
            }
        }
        let address = page.lines().find_map(|line| {
            let rest = line.trim().strip_prefix("metrics")?;
            let rest = rest.trim().strip_prefix("http://")?;
            Some(rest.strip_suffix("/metrics")?.to_owned())
        });
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("no start page: {page}{}", errors.lock().expect("whole"));
        };
        Up {
            child,
            address,
            page,
            stderr: errors,
            root,
        }
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        let root = self.root.path().canonicalize().expect("a directory");
        root.join("state")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root.path().join("mirage.yaml")
    }

    /// Puts another config in place of the present one, whole at every moment.
    pub(crate) fn rewrite_config(&self, config: &str) {
        let young = self.config().with_extension("new");
        std::fs::write(&young, config).expect("the config is written");
        std::fs::rename(young, self.config()).expect("the config is replaced");
    }

    /// What it told on standard error so far.
    pub(crate) fn told(&self) -> String {
        self.stderr.lock().expect("whole").clone()
    }

    pub(crate) fn wait_until_told(&self, text: &str) {
        wait_for(text, || self.told().contains(text).then_some(()));
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "")
    }

    /// The body of a page that must be there.
    pub(crate) fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.page(path)).expect("JSON")
    }

    /// One request on a connection of its own.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> Answer {
        request(&self.address, method, path, headers)
    }

    /// `mirage ctl` with these words.
    pub(crate) fn ctl(&self, words: &[&str]) -> Output {
        mirage()
            .args(["ctl", "--state-dir"])
            .arg(self.state_dir())
            .args(words)
            .output()
            .expect("mirage ctl starts")
    }

    /// A command that must succeed, with what it printed.
    pub(crate) fn ctl_ok(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// A command that must be refused, with what it said.
    pub(crate) fn ctl_refused(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        stderr(&output)
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let socket = self.state_dir().join("control.sock");
        let stream = UnixStream::connect(socket).expect("the control socket listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// One request over the control socket.
    pub(crate) fn control(&self, line: &str) -> Value {
        let mut stream = self.connect();
        stream.write_all(line.as_bytes()).expect("sent");
        stream.write_all(b"\n").expect("sent");
        let mut answer = String::new();
        BufReader::new(stream)
            .read_line(&mut answer)
            .expect("an answer");
        assert!(answer.starts_with("{\"code\":"), "{answer}");
        serde_json::from_str(&answer).expect("JSON")
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for("the end", || self.child.try_wait().expect("a child"))
    }

    /// A series' value on a page: the first whose line holds all parts.
    pub(crate) fn series(&self, path: &str, parts: &[&str]) -> Option<f64> {
        let page = self.page(path);
        let line = page
            .lines()
            .filter(|line| !line.starts_with('#'))
            .find(|line| parts.iter().all(|part| line.contains(part)))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own.
pub(crate) fn request(address: &str, method: &str, path: &str, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("mirage listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("a request");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    Answer::parse(&bytes)
}

fn collect(stream: impl Read + Send + 'static, into: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            into.lock().expect("whole").push_str(&line);
            line.clear();
        }
    });
}

/// An HTTP answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..at].to_vec()).expect("a head of text");
        let status = head.split(' ').nth(1).expect("a status");
        let mut body = bytes[at + 4..].to_vec();
        if head.to_lowercase().contains("transfer-encoding: chunked") {
            body = unchunk(&body);
        }
        Answer {
            status: status.parse().expect("a number"),
            head: head.to_lowercase(),
            body,
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("a body of text")
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("a size");
        let size = std::str::from_utf8(&bytes[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
}

/// A fleet that stands still: its next tick is a minute away, so that what is read before and after a change
/// differs by that change.
pub(crate) const STILL: &str = "
seed: 7
tick: 60s
nodes:
  node-a: { model: a100-sxm4-40gb, gpus: 4 }
  node-b: { model: tesla-k80, gpus: 2 }
workloads:
  - name: train
    devices: node-a/0-1
    pod: ml/trainer
    activity:
      - { utilization: 90-100, memory: 30GiB }
";

/// A thread for servers; they end when it is dropped.
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts what `start` starts, and keeps it going.
    pub(crate) fn new<T: Send + 'static>(
        start: impl Future<Output = T> + Send + 'static,
    ) -> (Self, T) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, answer) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                started.send(start.await).expect("somebody waits");
                let _ = stopped.await;
            });
        });
        let value = answer.recv().expect("it starts");
        let background = Background {
            stop: Some(stop),
            thread: Some(thread),
        };
        (background, value)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
