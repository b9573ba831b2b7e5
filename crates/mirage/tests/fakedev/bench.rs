//! A running exporter in a folder of its own, and the ways to talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Far more than anything here takes, on the busiest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The binary under test.
pub(crate) fn mirage() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mirage"))
}

/// A file that comes with the tests.
pub(crate) fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakedev/files");
    path.join(name).to_str().unwrap().to_owned()
}

/// An exporter; it is ended when this goes.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) socket: PathBuf,
    /// What it said before it was ready.
    pub(crate) said: String,
    pub(crate) folder: tempfile::TempDir,
}

/// How a test's exporter differs from the next.
pub(crate) struct Setup {
    args: Vec<String>,
    silence: &'static str,
    socket: Option<PathBuf>,
}

/// A stock exporter: DG1 devices, the collectd identity, and no tick while a test lasts.
pub(crate) fn stock() -> Setup {
    kind("dg1.json", "collectd.json")
}

pub(crate) fn kind(devtype: &str, identity: &str) -> Setup {
    let args = [
        "-devlist",
        &file("devices.json"),
        "-devtype",
        &file(devtype),
        "-identity",
        &file(identity),
        "-address",
        "127.0.0.1:0",
        "-interval",
        "1h",
    ];
    Setup {
        args: args.map(str::to_owned).to_vec(),
        // A test's client may be held up between connecting and writing.
        silence: "1h",
        socket: None,
    }
}

impl Setup {
    /// Adds flags; the last of several wins.
    pub(crate) fn with(mut self, args: &[&str]) -> Setup {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Ticks fast: a simulated second in 20 ms.
    pub(crate) fn fast(self) -> Setup {
        self.with(&["-interval", "20ms", "-speed", "50"])
    }

    /// Deals with silent clients as quickly as by default.
    pub(crate) fn impatient(mut self) -> Setup {
        self.silence = "100ms";
        self
    }

    /// Listens for workloads here.
    pub(crate) fn at(mut self, socket: &Path) -> Setup {
        self.socket = Some(socket.to_owned());
        self
    }

    pub(crate) fn start(self) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let socket = self.socket.unwrap_or_else(|| folder.path().join("socket"));
        let mut child = mirage()
            .arg("fakedev-exporter")
            .args(&self.args)
            .args(["-silence", self.silence, "-socket"])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (sender, lines) = channel();
        // Reads to the end, so that the exporter never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut said = String::new();
        let address = loop {
            let line = match lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                Err(_) => {
                    let _ = child.kill();
                    panic!("the exporter did not start:\n{said}");
                }
            };
            let address = line
                .strip_prefix("Listening on ")
                .and_then(|rest| rest.strip_suffix("/metrics"));
            if let Some(address) = address {
                break address.to_owned();
            }
            said.push_str(&line);
            said.push('\n');
        };
        Server {
            child,
            address,
            socket,
            said,
            folder,
        }
    }
}

impl Server {
    /// Sends a request as it stands; the status and the body of the answer.
    pub(crate) fn request(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    /// The page.
    pub(crate) fn scrape(&self) -> String {
        let (status, body) = self.request(&request("GET", "/metrics", ""));
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The value of the one series that begins with this.
    pub(crate) fn value(&self, head: &str) -> f64 {
        value(&self.scrape(), head)
    }

    /// Waits until a series has a value.
    pub(crate) fn wait_for(&self, head: &str, expected: f64) {
        eventually(|| {
            let found = self.value(head);
            ((found - expected).abs() <= expected.abs() * 1e-9)
                .then_some(())
                .ok_or_else(|| format!("{head} is {found}, not {expected}"))
        });
    }

    /// Connects as a workload, and says this.
    pub(crate) fn connect(&self, spec: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(spec.as_bytes()).unwrap();
        stream
    }

    /// A workload client that is yet to be started.
    pub(crate) fn workload(&self, args: &[&str]) -> Command {
        let mut command = mirage();
        command
            .args(["workload", "-socket"])
            .arg(&self.socket)
            .args(args)
            .stdin(Stdio::null())
            .env_remove("JOB_COMPLETION_INDEX");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request with these headers, after which the connection ends.
pub(crate) fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n")
}

/// The value of the one series of a page that begins with this.
pub(crate) fn value(page: &str, head: &str) -> f64 {
    let mut found = page.lines().filter(|line| line.starts_with(head));
    let line = found
        .next()
        .unwrap_or_else(|| panic!("no {head} in\n{page}"));
    assert_eq!(found.next(), None, "more than one {head} in\n{page}");
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// All that a server has to say to a connection.
pub(crate) fn reply(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// What a process came to: its exit code and what it said.
pub(crate) fn outcome(output: &Output) -> (i32, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or(-1), said)
}

/// Tries until it works out.
pub(crate) fn eventually<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(why) if start.elapsed() > PATIENCE => panic!("{why}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
