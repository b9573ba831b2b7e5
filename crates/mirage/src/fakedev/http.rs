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
use tokio::sync::watch;
use tokio::time::Instant;

use super::Error;
use super::clock::Page;
use crate::http::{self, Limits};

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

/// Answers for ever, within the limits of mirage's other servers.
pub(super) async fn serve(listener: TcpListener, page: Page, last: Arc<LastScrape>) {
    serve_within(listener, page, last, Limits::default()).await;
}

async fn serve_within(listener: TcpListener, page: Page, last: Arc<LastScrape>, limits: Limits) {
    let answer = move |request: Request| {
        let answer = respond(&request, &page, &last);
        async { answer }
    };
    let (_never, ending) = watch::channel(false);
    http::serve(listener, Router::new().fallback(answer), limits, ending).await;
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// There is room for one only, so an answer means that the client before was cut off.
    #[tokio::test]
    async fn a_client_that_says_little_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_page, page) = watch::channel("metric 1\n".into());
        let limits = Limits {
            connections: 1,
            head: Duration::from_millis(50),
            ..Limits::default()
        };
        let last = Arc::new(LastScrape::never());
        tokio::spawn(serve_within(listener, page, last, limits));
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\nHost:")
            .await
            .unwrap();
        let scrape = async || {
            let mut stream = TcpStream::connect(address).await?;
            let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer.ends_with("metric 1\n"))
        };
        // On a busy machine so little patience may cut off this one, too.
        let trying = async { while !matches!(scrape().await, Ok(true)) {} };
        let served = tokio::time::timeout(Duration::from_secs(60), trying).await;
        served.expect("it serves");
        drop(slow);
    }
}
