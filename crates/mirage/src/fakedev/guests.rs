//! `--workload-socket`: workload clients of fakedev, connected to a machine of simulated GPUs.
//!
//! Each connection is a workload of the engine for as long as it lasts: it loads its GPUs, shows as a process, and if it
//! names its pod it holds them. A client that leaves takes its workload with it at once; one whose profile is through, or
//! that reaches a limit, gets its reply.

mod orders;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirage_sim::Phase;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use self::orders::Orders;
use super::guest::Guest;
use super::lease::{self, Lease};
use super::socket::{departure, listen_to, reply};
use super::spec::wants_words;
use super::world::Ending;
use crate::cli::{say, usage};
use crate::engine::{Core, Engine, Unavailable};
use crate::machine::Inside;

/// How often workloads are looked at that may have ended.
const LOOK: Duration = Duration::from_millis(250);
/// How long to wait for an engine that has too much to do.
const BREATH: Duration = Duration::from_millis(10);
/// How long to wait before accepting again, if that is impossible (no file descriptors left).
const RESPITE: Duration = Duration::from_millis(100);

/// Where workloads connect.
#[derive(Debug, Clone, clap::Args)]
pub struct GuestArgs {
    /// Let workloads connect at this socket, with `mirage workload -socket` or fakedev-workload
    #[arg(long, value_name = "SOCKET", help_heading = "Pods")]
    pub workload_socket: Option<PathBuf>,
}

impl GuestArgs {
    /// Listens, if they say where; `node` is what local device names mean in a fleet.
    pub fn listen(&self, node: Option<String>) -> anyhow::Result<Option<Guests>> {
        let Some(path) = &self.workload_socket else {
            return Ok(None);
        };
        let bad = |error: super::Error| usage(super::with_causes(&error));
        let (listener, lease) = lease::listen_blocking(path).map_err(bad)?;
        Ok(Some(Guests {
            listener,
            lease,
            node,
        }))
    }
}

/// A socket that workloads may connect to.
#[derive(Debug)]
pub struct Guests {
    listener: std::os::unix::net::UnixListener,
    lease: Lease,
    node: Option<String>,
}

impl Guests {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.lease.path()
    }

    /// Serves until the machine ends.
    pub async fn serve(self, inside: Inside) {
        let listener = match UnixListener::from_std(self.listener) {
            Ok(listener) => listener,
            Err(error) => return say(&format!("serving the workload socket: {error}")),
        };
        super::raise_file_limit();
        let several = inside.fleet.read().nodes.len() > 1;
        let (orders, clerk) = orders::desk();
        let desk = Arc::new(Desk {
            orders,
            node: self.node.filter(|_| several),
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
        });
        let mut ending = inside.ending;
        tokio::select! {
            () = accept(&listener, &desk) => {}
            () = clerk.work(&inside.engine) => {}
            () = watch_endings(&desk, &inside.engine) => {}
            () = told(&mut ending) => {}
        }
        drop(self.lease);
    }
}

/// Waits until the machine ends.
async fn told(ending: &mut watch::Receiver<bool>) {
    // A machine that is gone has ended.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// What every connection needs.
struct Desk {
    orders: Orders,
    node: Option<String>,
    /// The number of the next workload.
    next: AtomicU64,
    /// Who wants to know how a workload ended.
    waiting: Mutex<HashMap<String, oneshot::Sender<Ending>>>,
}

impl Desk {
    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, oneshot::Sender<Ending>>> {
        self.waiting
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Ends a workload and forgets it.
    async fn end(&self, name: String) {
        self.waiting().remove(&name);
        self.orders.end(name).await;
    }
}

/// Has something done by the engine, however busy it is; `None` once it has stopped.
async fn ask<T: Send + 'static>(
    engine: &Engine,
    job: impl FnOnce(&mut Core) -> T + Clone + Send + 'static,
) -> Option<T> {
    loop {
        match engine.ask(job.clone()) {
            Ok(answer) => return answer.await.ok(),
            Err(Unavailable::Busy) => sleep(BREATH).await,
            Err(Unavailable::Stopped) => return None,
        }
    }
}

async fn accept(listener: &UnixListener, desk: &Arc<Desk>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                tokio::spawn(async move { attend(stream, &desk).await });
            }
            Err(error) => {
                say(&format!("accepting a workload: {error}"));
                sleep(RESPITE).await;
            }
        }
    }
}

/// One connection, from its first byte to its last.
async fn attend(mut stream: UnixStream, desk: &Desk) {
    // Nobody has to scrape for a workload to be heard.
    let never = |_: Instant| false;
    let text = match listen_to(&mut stream, super::socket::PATIENCE, never).await {
        Ok(text) => text,
        Err(why) => return reply(stream, &Ending::Refused(why), false).await,
    };
    let number = desk.next.fetch_add(1, Ordering::Relaxed);
    let guest = match Guest::parse(&text, number, desk.node.as_deref()) {
        Ok(guest) => guest,
        Err(error) => {
            let words = wants_words(&text);
            return reply(stream, &Ending::Refused(error.to_string()), words).await;
        }
    };
    drop(text);
    let (ending, ended) = oneshot::channel();
    if let Err(why) = desk.orders.begin(guest.document).await {
        return reply(stream, &Ending::Refused(why), guest.wants_words).await;
    }
    desk.waiting().insert(guest.name.clone(), ending);
    let ending = tokio::select! {
        ended = ended => ended.ok(),
        said = departure(&mut stream) => said.map(Ending::Refused),
    };
    // Its share is free before its client is told.
    desk.end(guest.name).await;
    if let Some(ending) = ending {
        reply(stream, &ending, guest.wants_words).await;
    }
}

/// Tells connections how their workloads ended.
async fn watch_endings(desk: &Desk, engine: &Engine) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let names: Vec<String> = desk.waiting().keys().cloned().collect();
        if names.is_empty() {
            continue;
        }
        let Some(endings) = ask(engine, move |core| endings(core, names)).await else {
            return;
        };
        for (name, ending) in endings {
            if let Some(waiting) = desk.waiting().remove(&name) {
                // A client may have left meanwhile.
                let _ = waiting.send(ending);
            }
        }
    }
}

/// Those of the workloads that run no more, and why.
fn endings(core: &Core, names: Vec<String>) -> Vec<(String, Ending)> {
    let known: HashMap<&str, &Phase> = core
        .world()
        .workloads()
        .map(|workload| (workload.name(), workload.phase()))
        .collect();
    let ended = names.into_iter().filter_map(|name| {
        let ending = match known.get(name.as_str()) {
            Some(Phase::Ended(ending)) if ending.code == 0 => Ending::Finished,
            Some(Phase::Ended(ending)) => {
                let limit = ending.reason.strip_prefix("Limit ");
                match limit.and_then(|rest| rest.strip_suffix(" reached, terminated")) {
                    Some(limit) => Ending::Limit(limit.to_owned()),
                    None => Ending::Ended(ending.reason.clone()),
                }
            }
            Some(Phase::Pending | Phase::Running) => return None,
            None => Ending::Ended("the workload was removed".to_owned()),
        };
        Some((name, ending))
    });
    ended.collect()
}
