//! `fakedev-workload`: tells the exporter what it does to which devices, and waits to be told to
//! exit. It does nothing else: whatever it is said to do is simulated by the exporter.

mod ask;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::exporter::{Signals, default_socket};
use super::flags::{self, Asked};
use super::{Error, say};

const ABOUT: &str = "Simulates a workload on devices of fakedev-exporter.";
/// No reply is longer; what is beyond is not read.
const LONGEST_REPLY: u64 = 64 * 1024;

/// Runs until the exporter says so, goes away, or a signal comes.
pub(super) fn run(args: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Error> {
    let given = match flags::parse(ask::FLAGS, args)? {
        Asked::Run(given) => given,
        Asked::Help => {
            let text = flags::usage("fakedev-workload", ABOUT, ask::FLAGS);
            // Nobody reads it, nobody misses it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
    };
    let document = ask::document(&given, &|name| std::env::var(name).ok())?;
    let text = indent(&document);
    say(format_args!("Workload: {text}"));
    let socket = given
        .text("socket")
        .map_or_else(default_socket, PathBuf::from);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::System {
            attempt: "starting",
            place: "the event loop".to_owned(),
            source,
        })?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            // A container's first process is told to end by nothing else.
            signal = signals.next() => Ok(ExitCode::from(128 + signal)),
            outcome = talk(&socket, &text) => outcome,
        }
    })
}

/// Says what there is to do, and waits for the reply.
async fn talk(socket: &Path, text: &str) -> Result<ExitCode, Error> {
    let failed = |attempt| {
        move |source| Error::System {
            attempt,
            place: socket.display().to_string(),
            source,
        }
    };
    let mut stream = UnixStream::connect(socket)
        .await
        .map_err(failed("connecting to fakedev-exporter at"))?;
    let written = stream.write_all(text.as_bytes()).await;
    let mut reply = Vec::new();
    let read = stream.take(LONGEST_REPLY).read_to_end(&mut reply).await;
    // A server that refuses early may hang up on the rest: its reply is what matters.
    if reply.is_empty() {
        written.map_err(failed("writing the workload to"))?;
        read.map_err(failed("waiting for a reply from"))?;
    }
    let reply = String::from_utf8_lossy(&reply);
    let (code, words) = reply.split_once('\n').unwrap_or((&reply, ""));
    if code.is_empty() {
        return Err(Error::Reply(
            "fakedev-exporter closed the connection without a reply".to_owned(),
        ));
    }
    let code: i32 = code
        .parse()
        .map_err(|_| Error::Reply(format!("fakedev-exporter replied {code:?}, no exit code")))?;
    for line in words.lines() {
        say(line.escape_debug());
    }
    say(format_args!("Exiting with code {code} returned by server"));
    // Of what a process exits with, the system keeps a byte.
    Ok(ExitCode::from(code.rem_euclid(256) as u8))
}

/// JSON as stock clients send it: a tab per level.
fn indent(document: &Value) -> String {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    serde::Serialize::serialize(document, &mut serializer)
        .expect("a JSON value is written to memory");
    String::from_utf8(text).expect("JSON is UTF-8")
}
