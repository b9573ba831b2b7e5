//! Large answers: how many there are at a time, and who gives way.
//!
//! An answer may hold a copy of the fleet until its client has taken the last piece, so there are few at a time, and
//! others wait. A client may be slow as long as nobody waits; when somebody does, one that has taken less than [`RATE`]
//! is cut off. So a client that trickles keeps nobody out, however patient its connection is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// Answers at a time.
const MOST: usize = 4;
/// Bytes a client has to take in a second, if others wait.
const RATE: f64 = 4_194_304.0;
/// Time a client may lose in all beside that.
const GRACE: Duration = Duration::from_secs(1);

/// The one limit of a server's large answers.
#[derive(Debug, Clone)]
pub struct Large {
    free: Arc<Semaphore>,
    /// How many wait.
    queue: Arc<watch::Sender<usize>>,
    grace: Duration,
}

impl Default for Large {
    fn default() -> Self {
        Self::new(MOST, GRACE)
    }
}

impl Large {
    pub(super) fn new(most: usize, grace: Duration) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            queue: Arc::new(watch::Sender::new(0)),
            grace,
        }
    }

    /// Waits for a place; whoever is slow hears of it.
    pub(super) async fn enter(&self) -> Option<Place> {
        let queued = Queued::new(self.queue.clone());
        let permit = self.free.clone().acquire_owned().await.ok()?;
        drop(queued);
        Some(Place {
            _permit: permit,
            queue: self.queue.subscribe(),
            grace: self.grace,
            taken: 0,
            waited: Duration::ZERO,
        })
    }
}

/// Somebody who waits, also if they leave.
struct Queued(Arc<watch::Sender<usize>>);

impl Queued {
    fn new(queue: Arc<watch::Sender<usize>>) -> Self {
        queue.send_modify(|waiting| *waiting += 1);
        Self(queue)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// A place among the large answers.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    queue: watch::Receiver<usize>,
    grace: Duration,
    /// Bytes the client took so far.
    taken: usize,
    /// How long it let us wait for that.
    waited: Duration,
}

impl Place {
    /// Hands on a piece, from a thread that may wait; `false` when the client has left or has to give way.
    pub(super) fn send(&mut self, pieces: &mpsc::Sender<Bytes>, piece: Bytes) -> bool {
        self.taken += piece.len();
        let piece = match pieces.try_send(piece) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(piece)) => piece,
        };
        let since = Instant::now();
        let sent = Handle::current().block_on(async {
            tokio::select! {
                biased;
                sent = pieces.send(piece) => sent.is_ok(),
                () = self.give_way() => false,
            }
        });
        self.waited += since.elapsed();
        sent
    }

    /// Ends when the client has used up its time and somebody waits.
    async fn give_way(&self) {
        let owed = Duration::from_secs_f64(self.taken as f64 / RATE);
        tokio::time::sleep((self.grace + owed).saturating_sub(self.waited)).await;
        let mut queue = self.queue.clone();
        if queue.wait_for(|waiting| *waiting > 0).await.is_err() {
            std::future::pending().await
        }
    }
}
