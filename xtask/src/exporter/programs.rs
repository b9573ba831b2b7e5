//! Programs that listen: started, asked, watched, and ended by their id.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::shell::{self, target};

const PATIENCE: Duration = Duration::from_secs(120);

/// A directory below the target directory, removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Scratch> {
        let path = target().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that listens; ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// A `mirage up`, once it has printed where it serves.
    pub(crate) fn mirage(command: &mut Command) -> Result<Server> {
        let shown = shell::show(command);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {shown}"))?;
        let stdout = child.stdout.take().context("its output")?;
        let find = |line: &str| {
            let rest = line.trim().strip_prefix("metrics")?;
            let rest = rest.trim().strip_prefix("http://")?;
            rest.strip_suffix("/metrics").map(str::to_owned)
        };
        Server::once_told(child, stdout, find, &shown)
    }

    /// A Prometheus, once it has said where it serves.
    pub(crate) fn prometheus(config: &Path, data: &Path) -> Result<Server> {
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let shown = shell::show(&command);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {shown}"))?;
        let stderr = child.stderr.take().context("its errors")?;
        let find = |line: &str| {
            let rest = line.split_once("Listening on\" address=")?.1;
            rest.split_whitespace().next().map(str::to_owned)
        };
        Server::once_told(child, stderr, find, &shown)
    }

    fn once_told(
        child: Child,
        stream: impl Read + Send + 'static,
        find: impl Fn(&str) -> Option<String>,
        shown: &str,
    ) -> Result<Server> {
        let mut server = Server {
            child,
            address: String::new(),
        };
        let mut lines = BufReader::new(stream).lines();
        let mut said = Vec::new();
        for line in lines.by_ref() {
            let line = line.with_context(|| format!("reading what {shown} says"))?;
            if let Some(address) = find(&line) {
                server.address = address;
                break;
            }
            said.push(line);
        }
        if server.address.is_empty() {
            bail!("{shown} did not say where it listens:\n{}", said.join("\n"));
        }
        // Read on, or it would wait for us.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(address: &str, path: &str) -> Result<TcpStream> {
    let mut stream =
        TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection, and has no chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    Ok(stream)
}

/// The body of a page that must be there.
pub(crate) fn get(address: &str, path: &str) -> Result<String> {
    let mut text = String::new();
    ask(address, path)?
        .read_to_string(&mut text)
        .with_context(|| format!("reading {path} of {address}"))?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .with_context(|| format!("{path} of {address} has no head"))?;
    if head.split(' ').nth(1) != Some("200") {
        bail!(
            "{path} of {address}: {}\n{body}",
            head.lines().next().unwrap_or_default()
        );
    }
    Ok(body.to_owned())
}

/// Reads a page without keeping it; returns its length.
pub(crate) fn get_and_drop(address: &str, path: &str) -> Result<u64> {
    let mut stream = ask(address, path)?;
    std::io::copy(&mut stream, &mut std::io::sink())
        .with_context(|| format!("reading {path} of {address}"))
}

/// The series that answer a question.
pub(crate) fn query(prometheus: &Server, question: &str) -> Result<Vec<Value>> {
    let path = format!("/api/v1/query?query={}", encode(question));
    let text = get(&prometheus.address, &path).with_context(|| format!("asking {question:?}"))?;
    let mut answer: Value = serde_json::from_str(&text).context("Prometheus' answer")?;
    match answer["data"]["result"].take() {
        Value::Array(series) => Ok(series),
        _ => bail!("{question:?} is answered with {text}"),
    }
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Resident memory of a process, MB.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    status(pid, "VmRSS:")
}

/// The most it was since [`start_again`], MB.
pub(crate) fn peak(pid: u32) -> Result<f64> {
    status(pid, "VmHWM:")
}

/// Makes [`peak`] begin at what is resident now.
pub(crate) fn start_again(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("writing {path}"))
}

fn status(pid: u32, key: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|line| line.starts_with(key));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().nth(1))
        .with_context(|| format!("no {key} of process {pid}"))?
        .parse()?;
    Ok(kib * 1024.0 / 1e6)
}
