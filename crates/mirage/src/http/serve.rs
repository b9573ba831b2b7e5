//! Accepting connections, within limits.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::stall::Stall;
use super::web::{Web, guard};

/// Connections that may wait to be accepted; the system may allow fewer.
const WAITING: i32 = 4096;

/// What one client may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// How long a request's head may take, and how long a connection may be idle.
    pub head: Duration,
    /// How long a client may take nothing of its answer.
    pub stall: Duration,
    /// Largest request head in bytes.
    pub head_bytes: usize,
    /// How long answers under way may go on once the end is near.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            head: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            head_bytes: 32 * 1024,
            farewell: Duration::from_secs(1),
        }
    }
}

/// Serves until `end` changes, then lets answers under way finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    end: watch::Receiver<bool>,
) {
    serve_behind(listener, router, limits, None, end).await;
}

/// As [`serve`], behind TLS and passwords if `web` says so.
pub async fn serve_behind(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    web: Option<Arc<Web>>,
    mut end: watch::Receiver<bool>,
) {
    let router = match &web {
        Some(web) => router.layer(from_fn_with_state(web.clone(), guard)),
        None => router,
    };
    // Each connection is a file, and a burst of clients should find room to wait in.
    crate::fakedev::raise_file_limit();
    let _ = rustix::net::listen(&listener, WAITING);
    let free = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            _ = end.changed() => break,
            accepted = accept(&listener, &free) => accepted,
        };
        let Some((stream, permit)) = accepted else {
            continue;
        };
        let (router, end) = (router.clone(), end.clone());
        let tls = web.as_ref().and_then(|web| web.tls());
        connections.spawn(async move {
            connection(stream, tls, router, limits, end).await;
            drop(permit);
        });
    }
    drop(listener);
    let farewell = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(limits.farewell, farewell).await;
}

async fn accept(
    listener: &TcpListener,
    free: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = free.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(_) => {
            // A client that left again, or no descriptors: let others end first.
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    router: Router,
    limits: Limits,
    end: watch::Receiver<bool>,
) {
    // Small answers go out at once; if that cannot be had, they go out a little later.
    let _ = stream.set_nodelay(true);
    let stream = Stall::new(stream, limits.stall);
    let Some(tls) = tls else {
        return converse(stream, router, limits, end).await;
    };
    // A handshake may take as long as a request's head.
    let greeting = TlsAcceptor::from(tls).accept(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(limits.head, greeting).await {
        converse(stream, router, limits, end).await;
    }
}

async fn converse<S>(stream: S, router: Router, limits: Limits, mut end: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(stream, TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        // Whatever a client does wrong is its own trouble.
        _ = connection.as_mut() => return,
        _ = end.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::body::streamed;
    use super::super::large::Large;
    use super::*;

    /// Pieces of a page that no socket holds.
    const LONG: usize = 256;

    /// A server with room for one client, and little patience.
    async fn server() -> (std::net::SocketAddr, watch::Sender<bool>) {
        let limits = Limits {
            connections: 1,
            head: Duration::from_millis(50),
            stall: Duration::from_millis(50),
            ..Limits::default()
        };
        server_within(limits).await
    }

    async fn server_within(limits: Limits) -> (std::net::SocketAddr, watch::Sender<bool>) {
        let large = Large::new(1, Duration::from_millis(50));
        let shared = large.clone();
        let endless = get(|| async {
            streamed(
                "text/plain",
                false,
                large,
                |sink| {
                    while sink(&[b'x'; 65_536]) {}
                },
            )
        });
        let long = get(|| async {
            streamed("text/plain", false, shared, |sink| {
                assert!((0..LONG).all(|_| sink(&[b'x'; 65_536])));
            })
        });
        let router = Router::new()
            .route("/", get(|| async { "OK" }))
            .route("/endless", endless)
            .route("/long", long);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ending) = watch::channel(false);
        tokio::spawn(serve(listener, router, limits, ending));
        (address, end)
    }

    /// There is room for one only: an answer means that the client before was cut off. On a busy
    /// machine so little patience may cut off this one, too; then it tries again.
    async fn wait_until_served(address: std::net::SocketAddr) {
        let trying = async { while !matches!(try_once(address).await, Ok(true)) {} };
        let patience = Duration::from_secs(60);
        tokio::time::timeout(patience, trying)
            .await
            .expect("it serves");
    }

    async fn try_once(address: std::net::SocketAddr) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address).await?;
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.ends_with("OK"))
    }

    #[tokio::test]
    async fn a_head_that_trickles_is_cut_off() {
        let (address, _end) = server().await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
        wait_until_served(address).await;
        drop(slow);
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_cut_off() {
        let (address, _end) = server().await;
        let mut deaf = TcpStream::connect(address).await.unwrap();
        let request = b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n";
        deaf.write_all(request).await.unwrap();
        wait_until_served(address).await;
        drop(deaf);
    }

    async fn ask(address: std::net::SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Whether all of a chunked answer came.
    async fn came_whole(mut stream: TcpStream) -> bool {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer.ends_with(b"0\r\n\r\n")
    }

    #[tokio::test]
    async fn a_slow_reader_gives_way_when_others_wait() {
        let (address, _end) = server_within(Limits::default()).await;
        let mut slow = ask(address, "/endless").await;
        slow.read_exact(&mut [0; 16]).await.unwrap();
        let patience = Limits::default().stall / 2;
        let other = async { came_whole(ask(address, "/long").await).await };
        let whole = tokio::time::timeout(patience, other).await;
        assert_eq!(whole, Ok(true), "the slow one held it out");
        assert!(!came_whole(slow).await, "it seems to have come whole");
    }

    #[tokio::test]
    async fn a_slow_reader_is_left_alone_when_nobody_waits() {
        let (address, _end) = server_within(Limits::default()).await;
        let slow = ask(address, "/long").await;
        // Longer than it might keep others waiting.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(came_whole(slow).await);
    }

    #[tokio::test]
    async fn it_ends_when_told() {
        let (address, end) = server().await;
        wait_until_served(address).await;
        end.send(true).unwrap();
        // The listener closes; connections are refused sooner or later.
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
