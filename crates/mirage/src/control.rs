//! The control socket: the one way to change a running world.
//!
//! One JSON object per line in, one per line out. An answer begins `{"code":N`, where N is an
//! NVML return code, 0 for done; a refusal goes on with `"error"` saying what and why. An answer
//! comes after the change is published. Whatever arrives, nothing here panics: lines have a length
//! limit, JSON has a depth limit, and every field is checked.

mod execute;
mod instances;
mod nvml;
mod request;
mod settings;
#[cfg(test)]
mod tests;

pub use execute::status;
pub use request::Request;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::engine::{Core, Engine};

/// Longest request in bytes, its newline included.
pub const LONGEST: usize = 256 * 1024;
/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// NVML return codes an answer may begin with.
#[allow(missing_docs, reason = "NVML's own names")]
pub mod codes {
    pub const SUCCESS: u32 = 0;
    pub const INVALID_ARGUMENT: u32 = 2;
    pub const NOT_SUPPORTED: u32 = 3;
    pub const NOT_FOUND: u32 = 6;
    pub const GPU_IS_LOST: u32 = 15;
    pub const RESET_REQUIRED: u32 = 16;
    pub const IN_USE: u32 = 19;
    pub const INSUFFICIENT_RESOURCES: u32 = 23;
    pub const UNKNOWN: u32 = 999;
}

/// A refusal: its code and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// See [`codes`].
    pub code: u32,
    /// What was attempted, on what, and why not.
    pub message: String,
}

impl Problem {
    /// A request that cannot be understood.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: codes::INVALID_ARGUMENT,
            message: message.into(),
        }
    }
}

/// What an answer says beside its code.
pub type Fields = Map<String, Value>;

/// Reads a line and does what it asks. The answer has no newline.
pub fn answer(core: &mut Core, line: &[u8]) -> String {
    let outcome = Request::parse(line).and_then(|request| execute::execute(core, request));
    render(outcome)
}

/// An answer as it goes over the socket.
fn render(outcome: Result<(u32, Fields), Problem>) -> String {
    let mut answer = Fields::new();
    match outcome {
        Ok((code, fields)) => {
            answer.insert("code".into(), code.into());
            answer.extend(fields);
        }
        Err(problem) => {
            answer.insert("code".into(), problem.code.into());
            answer.insert("error".into(), problem.message.into());
        }
    }
    Value::Object(answer).to_string()
}

/// Serves the socket until the runtime ends.
pub async fn serve(listener: UnixListener, engine: Engine) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = free.clone().acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: give others time to end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let engine = engine.clone();
        tokio::spawn(async move {
            // A client that goes away in the middle has nobody to tell.
            let _ = connection(stream, &engine).await;
            drop(permit);
        });
    }
}

async fn connection(stream: UnixStream, engine: &Engine) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut read).take(LONGEST as u64);
        let waited = tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await;
        match waited {
            Err(_) | Ok(Ok(0)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(_)) => {}
        }
        let is_whole = line.last() == Some(&b'\n');
        if !is_whole && line.len() >= LONGEST {
            let message = format!("reading a request: longer than the limit of {LONGEST} bytes");
            write
                .write_all(render(Err(Problem::invalid(message))).as_bytes())
                .await?;
            return write.write_all(b"\n").await;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let request = std::mem::take(&mut line);
        let mut text = match engine.ask(move |core| answer(core, &request)) {
            Ok(waiting) => waiting.await.unwrap_or_else(|_| stopped()),
            Err(error) => render(Err(Problem {
                code: codes::UNKNOWN,
                message: error.to_string(),
            })),
        };
        text.push('\n');
        let sent = tokio::time::timeout(PATIENCE, write.write_all(text.as_bytes())).await;
        match sent {
            Ok(done) => done?,
            Err(_) => return Ok(()),
        }
    }
}

fn stopped() -> String {
    render(Err(Problem {
        code: codes::UNKNOWN,
        message: "the engine has stopped".into(),
    }))
}
