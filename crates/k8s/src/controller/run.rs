//! A controller at work: what the API server tells goes into its mind, what follows is written back.

mod accepted;
mod beat;
mod follow;
mod groups;
mod lead;
mod perform;
mod remove;

pub use lead::resign;
pub use remove::remove;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::{Notify, watch};

use super::body::Write;
use super::queue::Queue;
use super::settle::Controller;
use super::{Settings, Wanted};

/// Nodes worked on at a time, and pods.
const PARALLEL: usize = 16;
/// The least they rest when they have all they can do at a time.
const SHORTEST: Duration = Duration::from_millis(5);
/// How long the workers rest when there is nothing to do and nobody wakes them.
const REST: Duration = Duration::from_secs(1);

/// A kind of object that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nodes,
    Pods,
    Documents,
}

/// What a controller's tasks share, and what others may ask it.
#[derive(Debug)]
pub struct Shared {
    mind: Mutex<Mind>,
    wake: Notify,
    /// Counts whatever changed in what follows for the nodes.
    changes: watch::Sender<u64>,
    leads: watch::Sender<bool>,
    /// Until when this controller may act.
    until: Mutex<Option<Instant>>,
    /// Another controller is known to act.
    stands_by: AtomicBool,
    /// The text of the document that is in force.
    accepted: watch::Sender<Option<String>>,
    /// Requests that write, by what they write.
    writes: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug)]
struct Mind {
    controller: Controller,
    nodes: Queue<String>,
    pods: Queue<(String, String)>,
    listed: [bool; 3],
    /// What an earlier controller went by, for want of a document.
    recalled: Option<Wanted>,
    /// The document was looked for, and is not there or cannot be read.
    lacks_document: bool,
}

/// How a part is doing: its name, and its trouble.
pub type Tell = Arc<dyn Fn(&'static str, Result<(), String>) + Send + Sync>;

impl Shared {
    /// A controller that has seen nothing.
    pub fn new(settings: Settings) -> Arc<Shared> {
        let mind = Mind {
            controller: Controller::new(settings),
            nodes: Queue::default(),
            pods: Queue::default(),
            listed: [false; 3],
            recalled: None,
            lacks_document: false,
        };
        Arc::new(Shared {
            mind: Mutex::new(mind),
            wake: Notify::new(),
            changes: watch::Sender::new(0),
            leads: watch::Sender::new(false),
            until: Mutex::default(),
            stands_by: AtomicBool::new(false),
            accepted: watch::Sender::new(None),
            writes: Mutex::default(),
        })
    }

    /// Looks at the controller's mind.
    pub fn look<T>(&self, look: impl FnOnce(&Controller) -> T) -> T {
        look(&self.mind().controller)
    }

    /// Tells of every change of what follows for the nodes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether this controller is the one that acts.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Says until when this controller may act.
    fn reign(&self, until: Option<Instant>) {
        let begins = until.is_some_and(|until| Instant::now() < until) && !self.acts();
        if begins {
            self.change(|mind, now| {
                mind.controller.begin();
                for node in mind.controller.names() {
                    mind.nodes.push(node, now);
                }
            });
        }
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        let leads = self.acts();
        self.leads
            .send_if_modified(|now| std::mem::replace(now, leads) != leads);
    }

    /// Whether this controller may act at this very moment. Asked before every write: a process may have slept for any time since it was
    /// last told that it leads, and another acts now.
    fn acts(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether another controller is known to act. One that merely cannot reach the server does not know that.
    pub fn stands_by(&self) -> bool {
        self.stands_by.load(Ordering::Relaxed)
    }

    fn stand_by(&self, another_acts: bool) {
        if self.stands_by.swap(another_acts, Ordering::Relaxed) != another_acts {
            self.changes.send_modify(|number| *number += 1);
        }
    }

    /// Requests so far that write, by what they write; signs of life are `leases`.
    pub fn writes(&self) -> BTreeMap<&'static str, u64> {
        self.writes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn count(&self, what: &'static str) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        *writes.entry(what).or_default() += 1;
    }

    /// Gives labels to a node that no kubelet keeps, worked out from this shape of it.
    pub fn label(&self, node: &str, shape: u64, labels: crate::cluster::node::Labels) {
        let mut mind = self.mind();
        let labels = (shape, labels);
        if mind.controller.labels.get(node) != Some(&labels) {
            mind.controller.labels.insert(node.to_owned(), labels);
            mind.nodes.push(node.to_owned(), Instant::now());
            drop(mind);
            self.wake.notify_one();
        }
    }

    /// Takes how many requests inference pods serve.
    pub fn requests(&self, rates: crate::inference::Rates) {
        self.change(|mind, _| mind.controller.rates = rates);
        self.changes.send_modify(|number| *number += 1);
    }

    /// Says whether labels can be worked out; nodes do not wait for them otherwise.
    pub fn labelling(&self, works: bool) {
        self.change(|mind, now| {
            if std::mem::replace(&mut mind.controller.labels_fail, !works) == works {
                for node in mind.controller.names() {
                    mind.nodes.push(node, now);
                }
            }
        });
    }

    /// Takes what there is to be from a document. A bad one leaves the old one in force, and each node says so.
    pub fn want(&self, text: &str, name: &str) -> Result<(), String> {
        let wanted = Wanted::read(text, name).map_err(|why| self.refuse(why))?;
        self.change(|mind, now| {
            let before = mind.controller.names();
            mind.controller.refusal = None;
            mind.controller.wanted = Some(wanted);
            for node in before.into_iter().chain(mind.controller.names()) {
                mind.nodes.push(node, now);
            }
        });
        self.accepted.send_if_modified(|kept| {
            let is_new = kept.as_deref() != Some(text);
            if is_new {
                *kept = Some(text.to_owned());
            }
            is_new
        });
        Ok(())
    }

    /// Takes it that a document is none. The old one stays in force, and each node says why.
    fn refuse(&self, why: String) -> String {
        self.change(|mind, now| {
            mind.controller.refusal = Some(why.clone());
            mind.lack_document();
            for node in mind.controller.names() {
                mind.nodes.push(node, now);
            }
        });
        why
    }

    /// Takes what an earlier controller went by, to be used where there is no document to go by now.
    fn recall(&self, text: &str, name: &str) {
        let Ok(wanted) = Wanted::read(text, name) else {
            // Written by another version; without it nothing is known to be unwanted.
            return;
        };
        self.change(|mind, now| {
            mind.recalled = Some(wanted);
            if mind.lacks_document {
                mind.lack_document();
            }
            for node in mind.controller.names() {
                mind.nodes.push(node, now);
            }
        });
    }

    /// Takes it that there is no document.
    fn no_document(&self) {
        self.change(|mind, now| {
            mind.lack_document();
            for node in mind.controller.names() {
                mind.nodes.push(node, now);
            }
        });
    }

    /// Follows what the acting controller does, a few nodes at a time, and writes nothing.
    fn look_on(&self, now: Instant) -> Option<Instant> {
        let mut mind = self.mind();
        if !mind.is_ready() {
            return None;
        }
        let mut count = 0;
        while count < PARALLEL
            && let Some(node) = mind.nodes.take(now)
        {
            mind.controller.look_on(&node);
            mind.nodes.done(node, true, now);
            count += 1;
        }
        let due = mind.nodes.next();
        drop(mind);
        if count > 0 {
            self.changes.send_modify(|number| *number += 1);
        }
        due
    }

    fn mind(&self) -> MutexGuard<'_, Mind> {
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Mind, Instant)) {
        change(&mut self.mind(), Instant::now());
        self.wake.notify_one();
    }

    fn listed(&self, kind: Kind) {
        self.change(|mind, now| {
            mind.listed[kind as usize] = true;
            for node in mind.controller.names() {
                mind.nodes.push(node, now);
            }
        });
    }
}

impl Mind {
    /// There is no document to go by. What is in force stays so; who has just begun goes by what was.
    fn lack_document(&mut self) {
        self.lacks_document = true;
        if self.controller.wanted.is_none() {
            self.controller.wanted = self.recalled.take();
        }
    }

    /// Before everything was listed once, what is missing is not known to be gone.
    fn is_ready(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }
}

/// Runs for ever.
pub async fn run(client: Client, shared: Arc<Shared>, tell: Tell) {
    tokio::join!(
        follow::document(client.clone(), shared.clone(), tell.clone()),
        follow::nodes(client.clone(), shared.clone(), tell.clone()),
        follow::pods(client.clone(), shared.clone(), tell.clone()),
        follow::documents(client.clone(), shared.clone(), tell.clone()),
        groups::follow(client.clone(), shared.clone(), tell.clone()),
        accepted::keep(client.clone(), shared.clone(), tell.clone()),
        lead::compete(client.clone(), shared.clone(), tell.clone()),
        beat::nodes(client.clone(), shared.clone(), tell.clone()),
        work(client.clone(), shared.clone(), tell.clone()),
    );
}

async fn work(client: Client, shared: Arc<Shared>, tell: Tell) {
    let mut leads = shared.leads();
    let mut nodes = FuturesUnordered::new();
    let mut pods = FuturesUnordered::new();
    loop {
        let now = Instant::now();
        let mut due: Option<Instant> = None;
        leads.borrow_and_update();
        if shared.acts() {
            let mut mind = shared.mind();
            if mind.is_ready() {
                while nodes.len() < PARALLEL
                    && let Some(node) = mind.nodes.take(now)
                {
                    nodes.push(handle_node(&client, &shared, node));
                }
                while pods.len() < PARALLEL
                    && let Some(pod) = mind.pods.take(now)
                {
                    pods.push(handle_pod(&client, &shared, pod));
                }
                due = mind.nodes.next().into_iter().chain(mind.pods.next()).min();
            }
        } else {
            due = shared.look_on(now);
        }
        let rest = due
            .map_or(REST, |due| due.saturating_duration_since(now))
            .clamp(SHORTEST, REST);
        tokio::select! {
            Some(outcome) = nodes.next(), if !nodes.is_empty() => tell("cluster", outcome),
            Some(outcome) = pods.next(), if !pods.is_empty() => tell("phases", outcome),
            () = shared.wake.notified() => {}
            _ = leads.changed() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

async fn handle_node(client: &Client, shared: &Shared, node: String) -> Result<(), String> {
    let (writes, namespace) = {
        let mut mind = shared.mind();
        let writes = mind.controller.settle(&node);
        (writes, mind.controller.settings.namespace.clone())
    };
    let mut outcome = Ok(());
    let mut is_whole = true;
    for write in writes {
        if !shared.acts() {
            // It stays to be done, by whoever acts next.
            shared.mind().controller.forget(&node);
            is_whole = false;
            break;
        }
        outcome = perform::write(client, &namespace, &write).await;
        shared.count(write.kind());
        let mut mind = shared.mind();
        if outcome.is_err() {
            if !matches!(write, Write::Warning { .. }) {
                mind.controller.forget(&node);
            }
            break;
        }
        mind.controller.wrote(&write);
    }
    let clock = Timestamp::now();
    shared.change(|mind, now| {
        mind.nodes
            .done(node.clone(), outcome.is_ok() && is_whole, now);
        for bound in mind.controller.seen.pods_of(&node) {
            let key = (bound.pod.namespace.clone(), bound.pod.name.clone());
            let end = mind.controller.end(&bound).filter(|end| *end > clock);
            if let Some(end) = end {
                let left = Duration::try_from(end.duration_since(clock));
                mind.pods.at(key, now + left.unwrap_or_default());
            } else if mind.controller.phase(&key.0, &key.1, clock).is_some() {
                mind.pods.push(key, now);
            }
        }
    });
    shared.changes.send_modify(|number| *number += 1);
    outcome
}

async fn handle_pod(client: &Client, shared: &Shared, key: (String, String)) -> Result<(), String> {
    let (write, namespace) = {
        let mind = shared.mind();
        let write = mind.controller.phase(&key.0, &key.1, Timestamp::now());
        (write, mind.controller.settings.namespace.clone())
    };
    let mut outcome = Ok(());
    let mut is_whole = true;
    if write.is_some() && !shared.acts() {
        is_whole = false;
    } else if let Some(write) = write {
        outcome = perform::write(client, &namespace, &write).await;
        shared.count(write.kind());
        let mut mind = shared.mind();
        if outcome.is_ok() {
            mind.controller.wrote(&write);
        } else {
            mind.controller.stuck(&key.0, &key.1);
        }
        // What became of the pod goes into its node's document.
        let node = mind.controller.seen.pod(&key.0, &key.1);
        if let Some(node) = node.map(|bound| bound.node.clone()) {
            mind.nodes.push(node, Instant::now());
        }
    }
    shared.change(|mind, now| mind.pods.done(key, outcome.is_ok() && is_whole, now));
    outcome
}
