//! Bytes of the socket. One socket carries several connections: each frame begins with the number of its connection and a
//! length. A connection carries ttrpc: each message begins with a length, the number of its call, and what it is.
//! Frames cut messages anywhere, as they are only what one `write` gave.
//!
//! Lengths are the other side's word: nothing is kept before it has come, and nothing longer than the protocol allows.

use prost::bytes::{Buf, BufMut, Bytes, BytesMut};

/// The connection on which we are called.
pub const PLUGIN: u32 = 1;
/// The connection on which we call.
pub const RUNTIME: u32 = 2;

/// Most bytes of a message, without its head.
pub const MOST_MESSAGE: usize = 4 << 20;
/// Bytes before a message.
const MESSAGE_HEAD: usize = 10;
/// Bytes before a frame's.
const FRAME_HEAD: usize = 8;
/// Most bytes of a frame, without its head.
const MOST_FRAME: usize = MOST_MESSAGE + MESSAGE_HEAD;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call.
    Request,
    /// The answer to one.
    Response,
}

/// A message of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The connection it came on.
    pub connection: u32,
    /// The call it belongs to.
    pub call: u32,
    /// What it is.
    pub kind: Kind,
    /// Its protobuf.
    pub body: Bytes,
}

/// What no runtime sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A frame of a connection nobody opened.
    #[error("a frame of connection {0}; there are only {PLUGIN} and {RUNTIME}")]
    Connection(u32),
    /// A frame that is too long.
    #[error("a frame of {0} bytes; {MOST_FRAME} is the most")]
    Frame(u32),
    /// A message that is too long.
    #[error("a message of {0} bytes; {MOST_MESSAGE} is the most")]
    Message(u32),
    /// A message of a kind that unary calls do not have.
    #[error("a message of kind {0}; calls have 1 and 2")]
    Kind(u8),
}

/// Bytes in, messages out.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of a frame's head that have come so far.
    head: BytesMut,
    /// The frame that is being read, and what is still to come of it.
    frame: Option<(u32, usize)>,
    /// Messages in the making, of both connections.
    halves: [BytesMut; 2],
}

impl Decoder {
    /// Takes bytes in and tells which messages they complete, in order.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<Message>) -> Result<(), Malformed> {
        loop {
            let (connection, left) = match self.frame {
                Some(frame) => frame,
                None => match self.begin(&mut bytes)? {
                    Some(frame) => frame,
                    None => return Ok(()),
                },
            };
            let now = left.min(bytes.len());
            let half = &mut self.halves[(connection - PLUGIN) as usize];
            half.extend_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            cut(half, connection, out)?;
            self.frame = (left > now).then_some((connection, left - now));
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Reads a frame's head, once it is whole.
    fn begin(&mut self, bytes: &mut &[u8]) -> Result<Option<(u32, usize)>, Malformed> {
        let now = (FRAME_HEAD - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..now]);
        *bytes = &bytes[now..];
        if self.head.len() < FRAME_HEAD {
            return Ok(None);
        }
        let (connection, length) = (self.head.get_u32(), self.head.get_u32());
        self.head.clear();
        if !(PLUGIN..=RUNTIME).contains(&connection) {
            return Err(Malformed::Connection(connection));
        }
        if length as usize > MOST_FRAME {
            return Err(Malformed::Frame(length));
        }
        Ok(Some((connection, length as usize)))
    }
}

/// Takes the whole messages off the front.
fn cut(half: &mut BytesMut, connection: u32, out: &mut Vec<Message>) -> Result<(), Malformed> {
    while half.len() >= MESSAGE_HEAD {
        let mut head = &half[..MESSAGE_HEAD];
        let (length, call, kind) = (head.get_u32(), head.get_u32(), head.get_u8());
        if length as usize > MOST_MESSAGE {
            return Err(Malformed::Message(length));
        }
        let kind = match kind {
            1 => Kind::Request,
            2 => Kind::Response,
            other => return Err(Malformed::Kind(other)),
        };
        if half.len() < MESSAGE_HEAD + length as usize {
            return Ok(());
        }
        half.advance(MESSAGE_HEAD);
        let body = half.split_to(length as usize).freeze();
        out.push(Message {
            connection,
            call,
            kind,
            body,
        });
    }
    if half.is_empty() {
        // What a large message took is given back.
        *half = BytesMut::new();
    }
    Ok(())
}

/// A message as one frame. `None` if it is longer than a message may be.
pub fn encode(message: &Message) -> Option<Bytes> {
    let length = u32::try_from(message.body.len()).ok()?;
    if message.body.len() > MOST_MESSAGE {
        return None;
    }
    let mut out = BytesMut::with_capacity(FRAME_HEAD + MESSAGE_HEAD + message.body.len());
    out.put_u32(message.connection);
    out.put_u32(length + MESSAGE_HEAD as u32);
    out.put_u32(length);
    out.put_u32(message.call);
    out.put_u8(match message.kind {
        Kind::Request => 1,
        Kind::Response => 2,
    });
    out.put_u8(0);
    out.extend_from_slice(&message.body);
    Some(out.freeze())
}

#[cfg(test)]
mod tests;
