//! `mirage ctl`: steers a running `mirage up` over its control socket.

mod args;
mod show;

pub use args::Args;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::statedir::{self, SOCKET};

/// Longest answer taken.
const LONGEST: u64 = 1 << 30;
/// How long an answer may take; the engine answers within a tick.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends the request and prints the answer.
pub fn run(args: Args) -> Result<()> {
    let request = args.request()?;
    let socket = find(args.state_dir.as_deref())?;
    let line = ask(&socket, &request)?;
    let answer: Value = serde_json::from_str(&line)
        .with_context(|| format!("reading the answer of {}", socket.display()))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", line.trim_end())?;
    } else {
        show::answer(&request, &answer, &mut out)?;
    }
    out.flush()?;
    match answer["error"].as_str() {
        Some(error) => bail!("{error}"),
        None => Ok(()),
    }
}

/// The socket of the running `mirage up`.
fn find(directory: Option<&Path>) -> Result<PathBuf> {
    if let Some(directory) = directory {
        return Ok(directory.join(SOCKET));
    }
    match statedir::running() {
        Some(directory) => Ok(directory.join(SOCKET)),
        None => {
            let places: Vec<_> = statedir::candidates()
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            bail!(
                "no mirage is running: there is no {SOCKET} in {}; start one with `mirage up`, or \
                 name its directory with --state-dir",
                places.join(", ")
            )
        }
    }
}

fn ask(socket: &Path, request: &Value) -> Result<String> {
    let shown = socket.display();
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) => {
            let hint = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                    "; is `mirage up` running with this state directory?"
                }
                ErrorKind::PermissionDenied => "; only the user who started mirage may steer it",
                _ => "",
            };
            return Err(error).with_context(|| format!("connecting to {shown}{hint}"));
        }
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = request.to_string();
    line.push('\n');
    stream
        .write_all(line.as_bytes())
        .with_context(|| format!("sending to {shown}"))?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST))
        .read_line(&mut answer)
        .with_context(|| format!("waiting for an answer of {shown}"))?;
    if answer.is_empty() {
        bail!("{shown} closed without an answer; mirage is ending");
    }
    Ok(answer)
}
