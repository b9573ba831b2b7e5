//! The engine's thread: owns the world, moves it on by the wall clock, and publishes every
//! tick.
//!
//! Whoever wants something of the world sends a job; it runs on this thread between two ticks,
//! what it changed is published at once, and only then is it answered. The engine never waits for
//! whoever asked.

mod core;
mod files;
mod pace;

pub use self::core::Core;
pub use self::files::Files;
pub use self::pace::{Pace, SPEED};

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Jobs that may wait; more are refused, so that a flood costs its senders and not the engine.
const QUEUE: usize = 256;
/// Ticks the engine runs behind before it lets simulated time slip.
const CATCH_UP: u32 = 5;

type Job = Box<dyn FnOnce(&mut Core) + Send>;

enum Message {
    Job(Job),
    Stop,
}

/// A way to reach the engine's thread.
#[derive(Debug, Clone)]
pub struct Engine {
    jobs: SyncSender<Message>,
}

/// Why the engine takes no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Too many wait already.
    #[error("the engine has {QUEUE} requests waiting; try again in a moment")]
    Busy,
    /// It has ended.
    #[error("the engine has stopped")]
    Stopped,
}

impl Engine {
    /// Runs `job` on the engine's thread. The answer comes after what it changed is published.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Unavailable> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |core| {
            let result = job(core);
            core.publish_changes();
            // Whoever asked may have gone.
            let _ = reply.send(result);
        });
        match self.jobs.try_send(Message::Job(job)) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(Unavailable::Busy),
            Err(TrySendError::Disconnected(_)) => Err(Unavailable::Stopped),
        }
    }

    /// Asks the engine to end after the jobs already waiting.
    pub fn stop(&self) {
        // Disconnected means it has ended already.
        let _ = self.jobs.send(Message::Stop);
    }
}

/// Starts the thread. `ended` is told when it ends by itself, `until` reached or not.
pub fn start(
    core: Core,
    until: Option<Duration>,
    ended: oneshot::Sender<()>,
) -> std::io::Result<(Engine, JoinHandle<()>)> {
    let (jobs, inbox) = sync_channel(QUEUE);
    let thread = std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
            run(core, &inbox, until);
            let _ = ended.send(());
        })?;
    Ok((Engine { jobs }, thread))
}

fn run(mut core: Core, inbox: &Receiver<Message>, until: Option<Duration>) {
    let is_over = |core: &Core| until.is_some_and(|end| core.now() >= end);
    let mut deadline = Instant::now() + core.pace().period;
    while !is_over(&core) {
        let now = Instant::now();
        if now >= deadline {
            core.beat();
            let period = core.pace().period;
            deadline += period;
            if now > deadline + period * CATCH_UP {
                deadline = now + period;
            }
        }
        // Also between ticks that take longer than their period: whoever asks must not wait for ever. No more
        // than a queue of them, so that a flood does not hold up time.
        for _ in 0..QUEUE {
            let left = deadline.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(left) {
                Ok(Message::Job(job)) => {
                    let before = core.pace();
                    job(&mut core);
                    if core.pace() != before {
                        deadline = Instant::now() + core.pace().period;
                    }
                }
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
            if is_over(&core) {
                return;
            }
        }
    }
}
