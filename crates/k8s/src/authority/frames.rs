//! The bytes of an HTTP/2 client, cut into frames; a HEADERS frame that spells out `:authority` gets another value.
//!
//! The header block is walked, not decoded: integers and lengths are enough to find the place, so neither the Huffman
//! code nor the table of earlier headers is needed. Each header keeps its form, so the server's table has the same
//! entries as the client's. The new value is never longer than the old, so the server never drops an entry that the
//! client still refers to. Whatever is not understood passes as it came.

/// What every HTTP/2 client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length, type, flags and stream of a frame.
const HEAD: usize = 9;
/// The largest frame our servers announce; a longer one they refuse.
const LARGEST: usize = 16 << 10;
/// The type of frames that begin a header block.
const HEADERS: u8 = 1;
/// Flags of theirs.
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Where `:authority` stands in the static table.
const AUTHORITY: usize = 1;
/// What is said instead: a plain string of one letter.
const INSTEAD: &[u8] = &[1, b'm'];

/// Where in the client's bytes we are.
#[derive(Debug)]
enum Place {
    /// In the preface, after so many bytes.
    Preface(usize),
    /// In the head of a frame.
    Head,
    /// In a HEADERS frame, which is collected.
    Headers,
    /// In a frame that does not matter, so many bytes before its end.
    Other(usize),
    /// In a conversation that is not HTTP/2.
    Strange,
}

/// Cuts bytes into frames, however they arrive.
#[derive(Debug)]
pub(super) struct Frames {
    place: Place,
    /// The frame being collected, with its head.
    frame: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Self {
            place: Place::Preface(0),
            frame: Vec::new(),
        }
    }
}

impl Frames {
    /// Takes what came and appends what shall be read.
    pub(super) fn feed(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            match self.place {
                Place::Strange => {
                    out.extend_from_slice(bytes);
                    return;
                }
                Place::Preface(done) => {
                    let rest = &PREFACE[done..];
                    let now = rest.len().min(bytes.len());
                    self.place = if bytes[..now] != rest[..now] {
                        Place::Strange
                    } else if now == rest.len() {
                        Place::Head
                    } else {
                        Place::Preface(done + now)
                    };
                    out.extend_from_slice(take(&mut bytes, now));
                }
                Place::Head => {
                    let want = HEAD - self.frame.len();
                    self.frame.extend_from_slice(take(&mut bytes, want));
                    if self.frame.len() == HEAD {
                        self.begin(out);
                    }
                }
                Place::Headers => {
                    let want = HEAD + length(&self.frame) - self.frame.len();
                    self.frame.extend_from_slice(take(&mut bytes, want));
                    if self.frame.len() == HEAD + length(&self.frame) {
                        rewrite(&self.frame, out);
                        self.frame.clear();
                        self.place = Place::Head;
                    }
                }
                Place::Other(left) => {
                    let passed = take(&mut bytes, left);
                    out.extend_from_slice(passed);
                    self.place = match left - passed.len() {
                        0 => Place::Head,
                        left => Place::Other(left),
                    };
                }
            }
        }
    }

    /// Decides what to do with the frame whose head is complete.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let length = length(&self.frame);
        if self.frame[3] == HEADERS && (1..=LARGEST).contains(&length) {
            self.place = Place::Headers;
            return;
        }
        out.append(&mut self.frame);
        self.place = match length {
            0 => Place::Head,
            length => Place::Other(length),
        };
    }
}

/// The next bytes, at most so many.
fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    taken
}

/// The length of a frame's payload, from its head.
fn length(frame: &[u8]) -> usize {
    frame[..3]
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte))
}

/// Appends a HEADERS frame with another authority.
fn rewrite(frame: &[u8], out: &mut Vec<u8>) {
    let payload = &frame[HEAD..];
    let flags = frame[4];
    let mut begin = 0;
    let mut padding = 0;
    if flags & PADDED != 0 {
        padding = usize::from(payload[0]);
        begin += 1;
    }
    if flags & PRIORITY != 0 {
        begin += 5;
    }
    let Some(end) = payload
        .len()
        .checked_sub(padding)
        .filter(|&end| end >= begin)
    else {
        out.extend_from_slice(frame);
        return;
    };
    let at = out.len();
    out.extend_from_slice(&frame[..HEAD + begin]);
    let block = &payload[begin..end];
    let mut kept = 0;
    for (from, to) in authorities(block) {
        out.extend_from_slice(&block[kept..from]);
        out.extend_from_slice(INSTEAD);
        kept = to;
    }
    out.extend_from_slice(&block[kept..]);
    out.extend_from_slice(&payload[end..]);
    let length = out.len() - at - HEAD;
    for (byte, shift) in out[at..].iter_mut().zip([16, 8, 0]) {
        *byte = (length >> shift) as u8;
    }
}

/// Where the values of `:authority` stand in a header block. A block that breaks off says no more.
fn authorities(block: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = header(block, at, &mut found) {
        at = next;
    }
    found
}

/// Walks one header; where the next begins, if this one is whole.
fn header(block: &[u8], at: usize, found: &mut Vec<(usize, usize)>) -> Option<usize> {
    let first = *block.get(at)?;
    let bits = match first {
        // A whole header by number, or another size of the table.
        0x80.. => return Some(integer(block, at, 7)?.1),
        0x20..0x40 => return Some(integer(block, at, 5)?.1),
        0x40..0x80 => 6,
        0x00..0x20 => 4,
    };
    let (name, mut at) = integer(block, at, bits)?;
    if name == 0 {
        at = string(block, at)?;
    }
    let end = string(block, at)?;
    // An empty value stays: anything would be longer.
    if name == AUTHORITY && end - at >= INSTEAD.len() {
        found.push((at, end));
    }
    Some(end)
}

/// An integer that begins in the lower bits of a byte, and where it ends.
fn integer(block: &[u8], mut at: usize, bits: u32) -> Option<(usize, usize)> {
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*block.get(at)?) & most;
    at += 1;
    if value < most {
        return Some((value, at));
    }
    for shift in [0, 7, 14, 21] {
        let byte = *block.get(at)?;
        at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    None
}

/// Where a string ends.
fn string(block: &[u8], at: usize) -> Option<usize> {
    let (length, at) = integer(block, at, 7)?;
    let end = at.checked_add(length)?;
    (end <= block.len()).then_some(end)
}
