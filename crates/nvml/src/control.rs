//! Asking the engine for a change over the control socket: one line of JSON there, one line back, which comes after the
//! state shows the change.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use mirage_state::layout::text;

use crate::code::Fault;
use crate::device::Gpu;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is longer.
const LONGEST: usize = 4096;

/// What the engine answered, beyond success.
pub struct Reply(String);

impl Reply {
    /// A number of the answer.
    pub fn number(&self, key: &str) -> Option<u32> {
        let key = format!("\"{key}\":");
        let rest = &self.0[self.0.find(&key)? + key.len()..];
        let rest = rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    }
}

/// An argument of a request.
pub enum Value {
    /// A number.
    Number(u32),
    /// A switch.
    Flag(bool),
    /// Nothing given.
    Null,
}

/// Asks the engine to do `call` to a GPU. Without an engine, or without access to it, one lacks the permission.
pub fn request(gpu: &Gpu, call: &str, args: &[(&str, Value)]) -> Result<Reply, Fault> {
    let socket = gpu.session.socket().ok_or(Fault::NoPermission)?;
    let mut line = String::from("{\"op\":\"nvml\",\"call\":\"");
    line.push_str(call);
    line.push_str("\",\"gpu\":\"");
    // A UUID from a state file is as foreign as anything: only what a UUID consists of goes on.
    let plain = |c: &char| c.is_ascii_alphanumeric() || "-_./:".contains(*c);
    line.extend(text(&gpu.card().uuid).chars().filter(plain));
    line.push('"');
    for (name, value) in args {
        // Writing to a String cannot fail.
        let _ = match value {
            Value::Number(number) => write!(line, ",\"{name}\":{number}"),
            Value::Flag(flag) => write!(line, ",\"{name}\":{flag}"),
            Value::Null => write!(line, ",\"{name}\":null"),
        };
    }
    line.push_str("}\n");
    let answer = exchange(&socket, &line).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Fault::Timeout,
        _ => Fault::NoPermission,
    })?;
    let reply = Reply(answer);
    match reply.number("code") {
        Some(0) => Ok(reply),
        Some(code) => Err(Fault::Code(code)),
        None => Err(Fault::Unknown),
    }
}

fn exchange(socket: &Path, line: &str) -> std::io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let mut stream = connect(socket, end)?;
    stream.write_all(line.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 512];
    while !answer.contains(&b'\n') && answer.len() < LONGEST {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            // A signal of the host's own: the change is made all the same, and its answer under way.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    String::from_utf8(answer).map_err(|_| ErrorKind::InvalidData.into())
}

/// The time until `end`; none is an error, as no time limit at all would be set from it.
fn left(end: Instant) -> std::io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Connects with a time limit, which the standard library has no words for on this kind of socket.
fn connect(socket: &Path, end: Instant) -> std::io::Result<UnixStream> {
    let path = socket.as_os_str().as_bytes();
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as u16,
        sun_path: [0; 108],
    };
    if path.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidFilename.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    // SAFETY: plain numbers in, a new descriptor or -1 out.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let len = offset_of!(libc::sockaddr_un, sun_path) + path.len() + 1;
    loop {
        stream.set_write_timeout(Some(left(end)?))?;
        // SAFETY: the address is initialised, and `len` bytes of it hold the family and the path with its NUL.
        let answer = unsafe {
            libc::connect(
                stream.as_raw_fd(),
                (&raw const address).cast(),
                len as libc::socklen_t,
            )
        };
        if answer == 0 {
            return Ok(stream);
        }
        let error = std::io::Error::last_os_error();
        // An interrupted attempt on this kind of socket is undone, so it may be made again.
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_key() {
        let reply = Reply("{\"code\":0,\"gi\":13, \"activation\": 16}\n".into());
        assert_eq!(reply.number("code"), Some(0));
        assert_eq!(reply.number("gi"), Some(13));
        assert_eq!(reply.number("activation"), Some(16));
        assert_eq!(reply.number("ci"), None);
        assert_eq!(Reply(String::new()).number("code"), None);
        assert_eq!(Reply("{\"code\":99999999999}".into()).number("code"), None);
    }
}
