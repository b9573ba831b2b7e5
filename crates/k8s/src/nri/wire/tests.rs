//! Messages cut anywhere come out whole; nonsense is refused and takes no memory.

use proptest::prelude::*;

use super::*;

fn message() -> impl Strategy<Value = Message> {
    let body = prop::collection::vec(any::<u8>(), 0..300);
    (PLUGIN..=RUNTIME, any::<u32>(), any::<bool>(), body).prop_map(
        |(connection, call, request, body)| Message {
            connection,
            call,
            kind: if request {
                Kind::Request
            } else {
                Kind::Response
            },
            body: body.into(),
        },
    )
}

/// Frames of one connection's bytes, cut at the given places.
fn frames(connection: u32, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    let mut out = Vec::new();
    for pair in places.windows(2) {
        out.extend(connection.to_be_bytes());
        out.extend(((pair[1] - pair[0]) as u32).to_be_bytes());
        out.extend(&bytes[pair[0]..pair[1]]);
    }
    out
}

fn feed(decoder: &mut Decoder, bytes: &[u8], step: usize) -> Result<Vec<Message>, Malformed> {
    let mut out = Vec::new();
    for piece in bytes.chunks(step) {
        decoder.feed(piece, &mut out)?;
    }
    Ok(out)
}

proptest! {
    #[test]
    fn messages_survive_any_cut(
        messages in prop::collection::vec(message(), 1..8),
        cuts in prop::collection::vec(any::<usize>(), 0..9),
        step in 1..50_usize,
    ) {
        let mut bytes = Vec::new();
        for message in &messages {
            let whole = encode(message).expect("short");
            bytes.extend(frames(message.connection, &whole[FRAME_HEAD..], &cuts));
        }
        let mut decoder = Decoder::default();
        prop_assert_eq!(feed(&mut decoder, &bytes, step).expect("good"), messages);
        prop_assert!(decoder.frame.is_none());
        prop_assert!(decoder.halves.iter().all(BytesMut::is_empty));
    }

    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), step in 1..30_usize) {
        let _ = feed(&mut Decoder::default(), &bytes, step);
    }

    #[test]
    fn no_damage_breaks_it(message in message(), at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = encode(&message).expect("short").to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = feed(&mut Decoder::default(), &bytes, 7);
    }
}

#[test]
fn connections_may_take_turns_within_a_message() {
    let one = |connection, call| Message {
        connection,
        call,
        kind: Kind::Request,
        body: Bytes::from_static(b"hello"),
    };
    let (first, second) = (one(PLUGIN, 1), one(RUNTIME, 3));
    let (a, b) = (
        encode(&first).expect("short"),
        encode(&second).expect("short"),
    );
    let (a, b) = (&a[FRAME_HEAD..], &b[FRAME_HEAD..]);
    let mut bytes = frames(PLUGIN, &a[..4], &[]);
    bytes.extend(frames(RUNTIME, b, &[]));
    bytes.extend(frames(PLUGIN, &a[4..], &[]));
    let got = feed(&mut Decoder::default(), &bytes, 3).expect("good");
    assert_eq!(got, [second, first]);
}

#[test]
fn what_no_runtime_sends_is_refused() {
    let head = |connection: u32, length: u32| {
        let mut bytes = connection.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes
    };
    for connection in [0, 3, u32::MAX] {
        assert_eq!(
            feed(&mut Decoder::default(), &head(connection, 1), 8),
            Err(Malformed::Connection(connection))
        );
    }
    let long = MOST_FRAME as u32 + 1;
    assert_eq!(
        feed(&mut Decoder::default(), &head(1, long), 8),
        Err(Malformed::Frame(long))
    );
    // Told by its head, before any of it has come.
    let long = MOST_MESSAGE as u32 + 1;
    let mut bytes = head(1, 10);
    bytes.extend(long.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 1, 0]);
    assert_eq!(
        feed(&mut Decoder::default(), &bytes, 99),
        Err(Malformed::Message(long))
    );
    let mut bytes = head(1, 10);
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 1, 3, 0]);
    assert_eq!(
        feed(&mut Decoder::default(), &bytes, 99),
        Err(Malformed::Kind(3))
    );
}

#[test]
fn the_longest_message_passes_and_one_byte_more_does_not() {
    let of = |length| Message {
        connection: PLUGIN,
        call: 1,
        kind: Kind::Response,
        body: vec![7; length].into(),
    };
    let longest = of(MOST_MESSAGE);
    let bytes = encode(&longest).expect("the longest");
    let got = feed(&mut Decoder::default(), &bytes, 64 << 10).expect("good");
    assert!(got == [longest]);
    assert!(encode(&of(MOST_MESSAGE + 1)).is_none());
}
