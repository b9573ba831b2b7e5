//! Just enough HTTP for loopback: one request per connection, answered whole.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

const PATIENCE: Duration = Duration::from_secs(60);

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// A request; `body` is its content type and content.
pub(super) fn request(
    address: &str,
    method: &str,
    path: &str,
    body: Option<(&str, &str)>,
) -> Result<Answer> {
    let told = || format!("{method} http://{address}{path}");
    let mut stream = TcpStream::connect(address).with_context(told)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection, and has no chunks.
    let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n");
    let content = body.map_or("", |(kind, content)| {
        head += &format!(
            "Content-Type: {kind}\r\nContent-Length: {}\r\n",
            content.len()
        );
        content
    });
    write!(stream, "{head}\r\n{content}").with_context(told)?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).with_context(told)?;
    let text = String::from_utf8_lossy(&text);
    parse(&text).with_context(|| format!("{}: not HTTP: {text}", told()))
}

/// The body of a page that must be there.
pub(super) fn get(address: &str, path: &str) -> Result<String> {
    let answer = request(address, "GET", path, None)?;
    anyhow::ensure!(
        answer.status == 200,
        "GET http://{address}{path}: {} {}",
        answer.status,
        answer.body
    );
    Ok(answer.body)
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let answer = parse("HTTP/1.0 404 Not Found\r\nA: b\r\n\r\nno\r\n\r\nno").expect("HTTP");
        assert_eq!((answer.status, answer.body.as_str()), (404, "no\r\n\r\nno"));
        assert!(parse("").is_none());
    }
}
