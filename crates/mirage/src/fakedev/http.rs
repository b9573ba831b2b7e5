//! `GET /metrics` and nothing else: another path is 404, another method 405, a body 400.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::Error;
use super::clock::Page;

const PATH: &str = "/metrics";

/// When the page was last asked for.
#[derive(Debug)]
pub(super) struct LastScrape {
    start: Instant,
    /// Microseconds from the start, and one, so that 0 is never.
    micros: AtomicU64,
}

impl LastScrape {
    pub(super) fn never() -> LastScrape {
        LastScrape {
            start: Instant::now(),
            micros: AtomicU64::new(0),
        }
    }

    fn mark(&self) {
        let micros = self.start.elapsed().as_micros() as u64 + 1;
        self.micros.store(micros, Ordering::Relaxed);
    }

    /// Whether it was since this moment, or at most that long before.
    pub(super) fn is_since(&self, moment: Instant, margin: Duration) -> bool {
        let micros = self.micros.load(Ordering::Relaxed);
        micros > 0 && self.start + Duration::from_micros(micros) + margin >= moment
    }
}

/// Listens on `host:port`; without a host on every address there is, as Go does.
pub(super) async fn listen(address: &str) -> Result<TcpListener, Error> {
    let failed = |source| Error::System {
        attempt: "listening on",
        place: address.to_owned(),
        source,
    };
    let Some(port) = address.strip_prefix(':') else {
        return TcpListener::bind(address).await.map_err(failed);
    };
    let port: u16 = port.parse().map_err(|_| {
        Error::Usage(format!(
            "invalid value for -address: {address:?} is no host:port or :port"
        ))
    })?;
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        // A machine without IPv6.
        Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
            .await
            .map_err(failed),
        bound => bound.map_err(failed),
    }
}

/// Answers for ever.
pub(super) async fn serve(
    listener: TcpListener,
    page: Page,
    last: Arc<LastScrape>,
) -> Result<(), std::io::Error> {
    let answer = move |request: Request| {
        let answer = respond(&request, &page, &last);
        async { answer }
    };
    axum::serve(listener, Router::new().fallback(answer)).await
}

fn respond(request: &Request, page: &Page, last: &LastScrape) -> Response {
    if request.uri().path() != PATH {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    if request.method() != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if !request.body().is_end_stream() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    last.mark();
    let page = page.borrow().clone();
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], page).into_response()
}
