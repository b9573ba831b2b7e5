//! Frames in every shape, and a conversation that only works with the filter.

use proptest::collection::vec;
use proptest::prelude::*;

use super::frames::Frames;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn feed(chunks: &[&[u8]]) -> Vec<u8> {
    let mut frames = Frames::default();
    let mut out = Vec::new();
    for chunk in chunks {
        frames.feed(chunk, &mut out);
    }
    out
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, 1]);
    frame.extend(payload);
    frame
}

/// An integer behind the upper bits of a first byte.
fn integer(first: u8, bits: u32, value: usize) -> Vec<u8> {
    let most = (1usize << bits) - 1;
    if value < most {
        return vec![first | value as u8];
    }
    let mut out = vec![first | most as u8];
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// A string, said to be in Huffman's code or not: nobody looks inside.
fn string(huffman: bool, text: &[u8]) -> Vec<u8> {
    let mut out = integer(if huffman { 0x80 } else { 0 }, 7, text.len());
    out.extend(text);
    out
}

/// A header as the wire has it, and what shall become of it.
#[derive(Debug, Clone)]
struct Header {
    before: Vec<u8>,
    after: Vec<u8>,
}

fn same(bytes: Vec<u8>) -> Header {
    Header {
        before: bytes.clone(),
        after: bytes,
    }
}

/// `:authority` by its number, in one of the three forms of a literal.
fn authority(form: (u8, u32), huffman: bool, value: &[u8]) -> Header {
    let name = integer(form.0, form.1, 1);
    let before = [name.clone(), string(huffman, value)].concat();
    let after = [name, vec![1, b'm']].concat();
    Header { before, after }
}

fn forms() -> impl Strategy<Value = (u8, u32)> {
    prop_oneof![Just((0x40, 6)), Just((0x00, 4)), Just((0x10, 4))]
}

fn headers() -> impl Strategy<Value = Header> {
    let bytes = || vec(any::<u8>(), 0..300);
    prop_oneof![
        (1usize..5000).prop_map(|index| same(integer(0x80, 7, index))),
        (0usize..5000).prop_map(|size| same(integer(0x20, 5, size))),
        (forms(), 2usize..400, any::<bool>(), bytes()).prop_map(|(form, index, huffman, value)| {
            same([integer(form.0, form.1, index), string(huffman, &value)].concat())
        }),
        (forms(), any::<bool>(), bytes(), bytes()).prop_map(|(form, huffman, name, value)| {
            let name = [vec![form.0], string(huffman, &name)].concat();
            same([name, string(huffman, &value)].concat())
        }),
        (forms(), any::<bool>(), vec(any::<u8>(), 1..300))
            .prop_map(|(form, huffman, value)| authority(form, huffman, &value)),
    ]
}

/// What surrounds a header block in its frame.
#[derive(Debug, Clone)]
struct Dress {
    padding: Option<u8>,
    priority: Option<[u8; 5]>,
    end_headers: bool,
}

fn dress() -> impl Strategy<Value = Dress> {
    (
        proptest::option::of(any::<u8>()),
        proptest::option::of(any::<[u8; 5]>()),
        any::<bool>(),
    )
        .prop_map(|(padding, priority, end_headers)| Dress {
            padding,
            priority,
            end_headers,
        })
}

fn dressed(dress: &Dress, block: &[u8]) -> Vec<u8> {
    let mut flags = if dress.end_headers { 4 } else { 0 };
    let mut payload = Vec::new();
    if let Some(padding) = dress.padding {
        flags |= 8;
        payload.push(padding);
    }
    if let Some(priority) = dress.priority {
        flags |= 0x20;
        payload.extend(priority);
    }
    payload.extend(block);
    payload.extend(vec![0; dress.padding.unwrap_or(0).into()]);
    frame(1, flags, &payload)
}

/// Cuts bytes at the places given.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts {
        let (piece, rest) = bytes.split_at((cut % 40).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

proptest! {
    /// Only the value of `:authority` changes, however the bytes arrive.
    #[test]
    fn the_authority_changes_and_nothing_else(
        blocks in vec((vec(headers(), 0..6), dress()), 1..4),
        others in vec((2u8..10, vec(any::<u8>(), 0..200)), 4),
        tail in 0usize..8,
        cuts in vec(any::<usize>(), 0..60),
    ) {
        let (mut before, mut after) = (PREFACE.to_vec(), PREFACE.to_vec());
        for ((headers, dress), (kind, payload)) in blocks.iter().zip(&others) {
            let mut old: Vec<u8> = headers.iter().flat_map(|header| header.before.clone()).collect();
            let mut new: Vec<u8> = headers.iter().flat_map(|header| header.after.clone()).collect();
            if !dress.end_headers {
                // Broken off in the middle of a header, which a CONTINUATION would complete.
                let broken = authority((0x40, 6), true, b"/var/lib/x.sock").before;
                old.extend(&broken[..tail]);
                new.extend(&broken[..tail]);
            }
            before.extend(dressed(dress, &old));
            after.extend(dressed(dress, &new));
            let other = frame(*kind, 0xff, payload);
            before.extend(&other);
            after.extend(&other);
        }
        prop_assert_eq!(feed(&pieces(&before, &cuts)), after);
    }

    /// Nothing from outside makes it panic, lose its place, or keep more than a frame.
    #[test]
    fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..2000), cuts in vec(any::<usize>(), 0..60)) {
        prop_assert_eq!(&feed(&pieces(&bytes, &cuts)), &feed(&[&bytes]));
        let started = [PREFACE, &bytes].concat();
        let whole = feed(&[&started]);
        prop_assert!(whole.len() <= started.len());
        prop_assert_eq!(feed(&pieces(&started, &cuts)), whole);
    }

    /// A header block of any bytes keeps its frame whole.
    #[test]
    fn any_block_keeps_its_frame(block in vec(any::<u8>(), 0..400), flags in any::<u8>()) {
        let next = frame(0, 0, b"data");
        let out = feed(&[PREFACE, &frame(1, flags, &block), &next]);
        prop_assert!(out.ends_with(&next));
        let length = out.len() - PREFACE.len() - next.len() - 9;
        let told = out[PREFACE.len()..][..3].iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        prop_assert_eq!(told, length);
    }
}

#[test]
fn other_protocols_and_overlong_frames_pass() {
    let http = b"GET /metrics HTTP/1.1\r\n\r\n";
    assert_eq!(feed(&[http]), http);
    let big = frame(1, 4, &authority((0x40, 6), false, &[b'/'; 17_000]).before);
    let all = [PREFACE, &big].concat();
    assert_eq!(feed(&[&all]), all);
    // An empty value has no room for another.
    let empty = [PREFACE, &frame(1, 4, &[0x41, 0])].concat();
    assert_eq!(feed(&[&empty]), empty);
}
