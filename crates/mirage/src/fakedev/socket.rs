//! Workload connections: one JSON object in, then silence, then one reply and the end.
//!
//! Every connection is a task that sleeps until its client or the clock has something to say:
//! thousands of them cost nothing while they wait. A client that says nothing, too much, or
//! nonsense is answered `1` and let go, without anybody else noticing.

mod frame;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::clock::Message;
use super::device::Fleet;
use super::http::LastScrape;
use super::identity::Identity;
use super::say;
use super::spec::{self, Spec};
use super::world::Ending;
use frame::{Frame, Scan};

/// How long a client may take to say what it wants, if nobody scrapes; or as long as it may be
/// silent, if that is longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a reply may take to be taken.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait before accepting again, if that is impossible (no file descriptors left).
const RESPITE: Duration = Duration::from_millis(100);

/// What every connection needs.
pub(super) struct Desk {
    pub(super) fleet: Arc<Fleet>,
    pub(super) identity: Arc<Identity>,
    pub(super) clock: Sender<Message>,
    pub(super) last_scrape: Arc<LastScrape>,
    /// How long a client may stay silent if there was a scrape meanwhile. Stock
    /// servers look at new connections during a scrape, and the stock test of bad clients
    /// counts on being answered within 200 ms of one.
    pub(super) silence: Duration,
    /// The number of the next workload.
    pub(super) next: AtomicU64,
}

/// Accepts connections for ever.
pub(super) async fn serve(listener: UnixListener, desk: Arc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                tokio::spawn(async move { attend(stream, &desk).await });
            }
            Err(error) => {
                say(format_args!("WARN: accepting a workload: {error}"));
                sleep(RESPITE).await;
            }
        }
    }
}

/// One connection, from its first byte to its last.
async fn attend(mut stream: UnixStream, desk: &Desk) {
    let scraped = |since: Instant| desk.last_scrape.is_since(since, desk.silence);
    let text = match listen_to(&mut stream, desk.silence, scraped).await {
        Ok(text) => text,
        Err(why) => return reply(stream, &Ending::Refused(why), false).await,
    };
    let spec = match Spec::parse(&text, &desk.fleet, &desk.identity) {
        Ok(spec) => spec,
        Err(error) => {
            let words = spec::wants_words(&text);
            return reply(stream, &Ending::Refused(error.to_string()), words).await;
        }
    };
    drop(text);
    let words = spec.wants_words;
    let id = desk.next.fetch_add(1, Ordering::Relaxed);
    let (ending, ended) = oneshot::channel();
    if desk
        .clock
        .send(Message::Join(id, Box::new(spec), ending))
        .is_err()
    {
        return;
    }
    tokio::select! {
        ended = ended => {
            // Without an ending the clock has stopped, and so does the connection.
            if let Ok(ending) = ended {
                reply(stream, &ending, words).await;
            }
        }
        said = departure(&mut stream) => {
            // The clock outlives all connections, or nothing matters any more.
            let _ = desk.clock.send(Message::Leave(id));
            if let Some(why) = said {
                reply(stream, &Ending::Refused(why), words).await;
            }
        }
    }
}

/// The object a client sends, or why there is none. It may be silent for a while, and no longer once somebody has scraped
/// meanwhile.
pub(super) async fn listen_to(
    stream: &mut UnixStream,
    silence: Duration,
    scraped: impl Fn(Instant) -> bool,
) -> Result<Vec<u8>, String> {
    let since = Instant::now();
    let patience = PATIENCE.max(silence);
    let mut frame = Frame::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let left = patience.saturating_sub(since.elapsed());
        match timeout(silence.min(left), stream.read(&mut buffer)).await {
            Ok(Ok(0)) => return Err("the connection ended before the workload did".to_owned()),
            Ok(Ok(count)) => match frame.take(&buffer[..count]) {
                Scan::Whole => return Ok(frame.into_text()),
                Scan::Partial => {}
                Scan::Wrong(why) => return Err(why),
            },
            Ok(Err(error)) => return Err(format!("reading: {error}")),
            Err(_) => {
                if since.elapsed() >= patience || scraped(since) {
                    return Err("no whole JSON object came".to_owned());
                }
            }
        }
        if since.elapsed() >= patience {
            return Err("the JSON object took too long to come".to_owned());
        }
    }
}

/// Waits until a client leaves, or says more than it may.
pub(super) async fn departure(stream: &mut UnixStream) -> Option<String> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) if buffer[..count].iter().all(u8::is_ascii_whitespace) => {}
            Ok(_) => return Some("something came after the JSON object".to_owned()),
        }
    }
}

/// The exit code; behind it in words why, for those who asked. Then the connection ends.
pub(super) async fn reply(mut stream: UnixStream, ending: &Ending, words: bool) {
    let mut text = ending.code().to_string();
    if words {
        text.push_str(&format!("\n{ending}\n"));
    }
    if let Ending::Refused(why) = ending {
        say(format_args!(
            "WARN: workload refused: {}",
            why.escape_debug()
        ));
    }
    // A client that does not take its reply has left already.
    let _ = timeout(FAREWELL, async {
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await
    })
    .await;
}
