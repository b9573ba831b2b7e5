//! The clock: the one thread that owns the world. It steps it at an even pace, lets workloads in
//! and out between steps, and publishes the page after each. Nothing waits for it but those
//! who are told how their workload ended.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::{oneshot, watch};

use super::spec::Spec;
use super::world::{Ending, World};
use super::{Error, say};

/// A clock this far behind (a suspended machine) does not catch up: it goes on from now.
const MOST_CATCHING_UP: u32 = 600;

/// What a connection has to say.
pub(super) enum Message {
    /// A workload came, and where to tell how it ended.
    Join(u64, Box<Spec>, oneshot::Sender<Ending>),
    /// It went away.
    Leave(u64),
}

/// The page as of now.
pub(super) type Page = watch::Receiver<Bytes>;

/// Starts the clock. It stops when the last sender is gone.
pub(super) fn start(world: World, interval: Duration) -> Result<(Sender<Message>, Page), Error> {
    let (messages, inbox) = channel();
    let (page, latest) = watch::channel(Bytes::from(world.text()));
    let clock = Clock {
        world,
        page,
        waiting: HashMap::new(),
    };
    thread::Builder::new()
        .name("fakedev-clock".to_owned())
        .spawn(move || clock.run(&inbox, interval))
        .map_err(|source| Error::System {
            attempt: "starting",
            place: "the clock".to_owned(),
            source,
        })?;
    Ok((messages, latest))
}

struct Clock {
    world: World,
    page: watch::Sender<Bytes>,
    waiting: HashMap<u64, oneshot::Sender<Ending>>,
}

impl Clock {
    fn run(mut self, inbox: &Receiver<Message>, interval: Duration) {
        let mut next = Instant::now() + interval;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            match inbox.recv_timeout(left) {
                Ok(first) => {
                    self.take(first);
                    // Whoever else is waiting is served by the same reckoning.
                    while let Ok(message) = inbox.try_recv() {
                        self.take(message);
                    }
                    let endings = self.world.settle();
                    self.publish(endings);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let mut endings = Vec::new();
            let mut ticks = 0;
            while next <= Instant::now() {
                endings.extend(self.world.step());
                ticks += 1;
                next += interval;
                if ticks == MOST_CATCHING_UP {
                    next = Instant::now() + interval;
                }
            }
            if ticks > 0 {
                self.publish(endings);
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Join(id, spec, ending) => {
                say(format_args!(
                    "workload {id} ({:?}) joined, on {} devices",
                    spec.name,
                    spec.targets.len()
                ));
                self.waiting.insert(id, ending);
                self.world.join_between(id, *spec);
            }
            Message::Leave(id) => {
                self.waiting.remove(&id);
                if self.world.leave(id) {
                    say(format_args!("workload {id} disconnected"));
                }
            }
        }
    }

    /// The page first: who is told of an ending finds the page without it.
    fn publish(&mut self, endings: Vec<(u64, Ending)>) {
        self.page.send_replace(Bytes::from(self.world.text()));
        for (id, ending) in endings {
            if let Some(waiting) = self.waiting.remove(&id) {
                // It may have left in the same moment.
                let _ = waiting.send(ending);
            }
        }
    }
}
