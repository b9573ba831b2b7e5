//! Bodies: whole ones for small answers, streamed ones for large, compressed when asked.

use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Frame;
use tokio::sync::mpsc;

use super::large::Large;

/// Pieces made ahead of a slow client.
const AHEAD: usize = 4;
/// Compressed text is handed on when about this much has gathered.
const PIECE: usize = 32 * 1024;

/// Takes pieces of a body; `false` when nobody wants more.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// Whether the client takes gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get_all(header::ACCEPT_ENCODING).iter();
    let (mut named, mut any) = (None, None);
    for coding in listed
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
    {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts.any(|part| {
            part.strip_prefix("q=")
                .is_some_and(|weight| weight.parse() == Ok(0.0))
        });
        match name {
            "*" => any = Some(!refused),
            _ if name.eq_ignore_ascii_case("gzip") => named = Some(!refused),
            _ => {}
        }
    }
    named.or(any).unwrap_or(false)
}

/// A body made at once, on this thread.
pub(super) fn whole(
    content_type: &'static str,
    gzip: bool,
    make: impl FnOnce(Sink<'_>),
) -> Response {
    let mut text = Vec::new();
    produce(gzip, make, &mut |piece| {
        text.extend_from_slice(&piece);
        true
    });
    respond(content_type, gzip, Body::from(text))
}

/// A body made on a thread of its own, while it is sent.
pub(super) fn streamed(
    content_type: &'static str,
    gzip: bool,
    large: Large,
    make: impl FnOnce(Sink<'_>) + Send + 'static,
) -> Response {
    let (pieces, inbox) = mpsc::channel(AHEAD);
    let body = Pieces {
        inbox,
        whole: Arc::default(),
    };
    let whole = body.whole.clone();
    tokio::spawn(async move {
        let place = tokio::select! {
            place = large.enter() => place,
            // Nothing is made for a client that left while it waited.
            () = pieces.closed() => None,
        };
        let Some(mut place) = place else {
            return;
        };
        tokio::task::spawn_blocking(move || {
            let mut wanted = true;
            produce(gzip, make, &mut |piece| {
                wanted = wanted && place.send(&pieces, Bytes::from(piece));
                wanted
            });
            whole.store(wanted, Ordering::Release);
        });
    });
    respond(content_type, gzip, Body::new(body))
}

fn respond(content_type: &'static str, gzip: bool, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Runs `make`, compressing what it makes if wanted.
fn produce(gzip: bool, make: impl FnOnce(Sink<'_>), send: &mut dyn FnMut(Vec<u8>) -> bool) {
    if !gzip {
        make(&mut |piece| send(piece.to_vec()));
        return;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut wanted = true;
    make(&mut |piece| {
        // Writing to memory cannot fail.
        let _ = encoder.write_all(piece);
        if encoder.get_ref().len() >= PIECE {
            wanted = send(std::mem::take(encoder.get_mut()));
        }
        wanted
    });
    if wanted && let Ok(rest) = encoder.finish() {
        send(rest);
    }
}

/// A body whose pieces come over a channel.
struct Pieces {
    inbox: mpsc::Receiver<Bytes>,
    /// Whether the last piece is the end.
    whole: Arc<AtomicBool>,
}

/// An answer that broke off: the connection breaks, too, lest the client take it for a whole one.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
struct BrokeOff;

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(match ready!(self.inbox.poll_recv(context)) {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None if self.whole.load(Ordering::Acquire) => None,
            None => Some(Err(BrokeOff)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn gzip_is_used_only_when_taken() {
        let takes = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        assert!(takes("gzip"));
        assert!(takes("deflate, GZIP;q=0.5"));
        assert!(takes("*"));
        assert!(!takes("identity"));
        assert!(!takes("gzip;q=0"));
        assert!(!takes("gzip; q=0.0"));
        assert!(!takes("gzip;q=0, *"));
        assert!(takes("gzip, *;q=0"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn compressed_pieces_are_one_stream() {
        let text: Vec<u8> = (0..200_000u32)
            .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
            .collect();
        let mut packed = Vec::new();
        let mut pieces = 0;
        produce(
            true,
            |sink| assert!(text.chunks(1000).all(sink)),
            &mut |piece| {
                packed.extend(piece);
                pieces += 1;
                true
            },
        );
        assert!(pieces > 1);
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(&*packed)
            .read_to_end(&mut back)
            .unwrap();
        assert_eq!(back, text);
    }

    #[test]
    fn nothing_more_is_made_for_a_client_that_left() {
        let mut made = 0;
        produce(
            false,
            |sink| {
                while sink(b"piece") {
                    made += 1;
                }
            },
            &mut |_| made_enough(),
        );
        assert_eq!(made, 0);
        fn made_enough() -> bool {
            false
        }
    }
}
