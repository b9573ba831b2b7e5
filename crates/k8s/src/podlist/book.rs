//! Which running containers have which GPUs, as a runtime tells it: what `podlist.json` is written from.
//!
//! A container is in the book from its start to its stop, so one that could not be made or started never was. The runtime's
//! whole list ([`Book::synchronize`]) replaces what was known. What the API server says of pods hides those that are gone
//! without the runtime having told ([`Book::reconcile`]). Time is passed in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::write::Entry;
use crate::koordinator::{self, ALLOCATED, Allocation};
use crate::nri::generated::{Container, ContainerState, PodSandbox, SynchronizeRequest};
use mirage_state::Image;
use mirage_state::visible::VIEW;

/// Most containers of a node that are kept; a node has a few hundred.
const MOST: usize = 65_536;
/// How long a pod may be unknown to the API server before its containers are taken for gone. A watch may be behind.
pub const GRACE: Duration = Duration::from_secs(30);
/// Where the kubelet writes a pod's origin: only pods from the API server are known there under their own UID.
const SOURCE: &str = "kubernetes.io/config.source";

/// Which containers are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those whose pods a cluster's scheduler gave GPUs.
    #[default]
    Central,
    /// Those that the kubelet gave GPUs as well.
    All,
}

/// The containers.
#[derive(Debug, Default)]
pub struct Book {
    scope: Scope,
    listed: BTreeMap<String, Line>,
    /// Parts of a list that is still coming.
    gathered: Gathered,
    /// Since when the API server does not know a pod.
    missing: HashMap<String, Instant>,
}

#[derive(Debug, Clone)]
struct Line {
    sandbox: String,
    /// Whether the API server must know its pod.
    from_api: bool,
    /// Whether a cluster's scheduler gave the GPUs, of which the kubelet then knows nothing.
    is_central: bool,
    entry: Entry,
}

#[derive(Debug, Default)]
struct Gathered {
    pods: HashMap<String, PodSandbox>,
    containers: Vec<Container>,
}

/// A container that began while nobody adjusted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// `namespace/pod/container`.
    pub container: String,
}

impl Book {
    /// An empty one.
    pub fn new(scope: Scope) -> Book {
        Book {
            scope,
            ..Book::default()
        }
    }

    /// What is to be listed now, in the order of names.
    pub fn entries(&self, now: Instant) -> Vec<Entry> {
        self.select(now, |_| true)
    }

    /// Of that, what the kubelet did not give.
    pub fn central(&self, now: Instant) -> Vec<Entry> {
        self.select(now, |line| line.is_central)
    }

    fn select(&self, now: Instant, wanted: impl Fn(&Line) -> bool) -> Vec<Entry> {
        let is_there = |line: &Line| {
            let since = self.missing.get(&line.entry.pod_uid);
            since.is_none_or(|since| now.saturating_duration_since(*since) < GRACE)
        };
        let mut entries: Vec<Entry> = self
            .listed
            .values()
            .filter(|line| wanted(line) && is_there(line))
            .map(|line| line.entry.clone())
            .collect();
        entries.sort();
        entries
    }

    /// A container runs.
    pub fn started(&mut self, pod: &PodSandbox, container: &Container, image: &Image) {
        if let Some(line) = line(self.scope, pod, container, image)
            && self.listed.len() < MOST
        {
            self.listed.insert(container.id.clone(), line);
        }
    }

    /// A container has ended, or is gone.
    pub fn stopped(&mut self, container: &str) {
        self.listed.remove(container);
    }

    /// A pod has ended, with all its containers.
    pub fn pod_stopped(&mut self, sandbox: &str) {
        self.listed.retain(|_, line| line.sandbox != sandbox);
    }

    /// A part of everything there is. With the last part the book is what the runtime says; containers of pods with GPUs
    /// that were made without us are told.
    pub fn synchronize(&mut self, part: SynchronizeRequest, image: &Image) -> Vec<Missed> {
        for pod in part.pods {
            if self.gathered.pods.len() < MOST {
                self.gathered.pods.insert(pod.id.clone(), slim_pod(pod));
            }
        }
        let running = |container: &Container| {
            matches!(
                container.state(),
                ContainerState::ContainerRunning | ContainerState::ContainerPaused
            )
        };
        for container in part.containers.into_iter().filter(running) {
            if self.gathered.containers.len() < MOST {
                self.gathered.containers.push(slim_container(container));
            }
        }
        if part.more {
            return Vec::new();
        }
        let Gathered { pods, containers } = std::mem::take(&mut self.gathered);
        self.listed.clear();
        let mut missed = Vec::new();
        for container in containers {
            let Some(pod) = pods.get(&container.pod_sandbox_id) else {
                continue;
            };
            self.started(pod, &container, image);
            if is_missed(pod, &container, image) {
                missed.push(Missed {
                    container: format!("{}/{}/{}", pod.namespace, pod.name, container.name),
                });
            }
        }
        missed
    }

    /// A connection has ended: parts of its list mean nothing any more.
    pub fn forget_parts(&mut self) {
        self.gathered = Gathered::default();
    }

    /// The UIDs of all pods that the API server has on this node, if it is known. Returns when the list changes next by itself.
    pub fn reconcile(&mut self, alive: Option<&HashSet<String>>, now: Instant) -> Option<Instant> {
        let Some(alive) = alive else {
            self.missing.clear();
            return None;
        };
        let lines = self.listed.values().filter(|line| line.from_api);
        let missing: HashMap<String, Instant> = lines
            .map(|line| &line.entry.pod_uid)
            .filter(|uid| !alive.contains(*uid))
            .map(|uid| (uid.clone(), self.missing.get(uid).copied().unwrap_or(now)))
            .collect();
        self.missing = missing;
        let ends = self.missing.values().map(|since| *since + GRACE);
        ends.filter(|end| *end > now).min()
    }
}

/// Only what is read: a list may be long.
fn slim_pod(mut pod: PodSandbox) -> PodSandbox {
    pod.labels = HashMap::new();
    pod.annotations
        .retain(|key, _| key == ALLOCATED || key == SOURCE);
    pod
}

fn slim_container(mut container: Container) -> Container {
    container.env.retain(|pair| pair.starts_with(VISIBLE));
    container
        .mounts
        .retain(|mount| mark(&mount.destination).is_some());
    container.linux = None;
    container
}

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES=";

/// The device that a mount makes visible.
fn mark(destination: &str) -> Option<&str> {
    destination.strip_prefix(VIEW)?.strip_prefix('/')
}

/// The line of a container; `None` if it has no GPU of this node, or none that is to be listed.
fn line(scope: Scope, pod: &PodSandbox, container: &Container, image: &Image) -> Option<Line> {
    let mut gpus = central(pod, image).uuids;
    let is_central = !gpus.is_empty();
    if gpus.is_empty() && scope == Scope::All {
        gpus = given(container, image);
    }
    if gpus.is_empty() {
        return None;
    }
    let source = pod.annotations.get(SOURCE).map(String::as_str);
    Some(Line {
        sandbox: container.pod_sandbox_id.clone(),
        from_api: source.is_none_or(|source| source == "api"),
        is_central,
        entry: Entry {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            container: container.name.clone(),
            gpu_list: gpus,
            pod_uid: pod.uid.clone(),
            container_id: container.id.clone(),
        },
    })
}

/// GPUs of this node that a scheduler gave the pod.
fn central(pod: &PodSandbox, image: &Image) -> Allocation {
    let annotation = pod.annotations.get(ALLOCATED);
    let gpus = annotation.and_then(|text| koordinator::parse(text).ok());
    gpus.map_or_else(Allocation::default, |gpus| {
        koordinator::resolve(&gpus, image)
    })
}

/// GPUs of this node that the container sees: by its marks, else by the UUIDs in its variable. An `all` that an image
/// brings along says nothing.
fn given(container: &Container, image: &Image) -> Vec<String> {
    let marks = container.mounts.iter().filter_map(|m| mark(&m.destination));
    let mut ids: Vec<&str> = marks.collect();
    if ids.is_empty() {
        let values = container
            .env
            .iter()
            .filter_map(|pair| pair.strip_prefix(VISIBLE));
        ids = values.flat_map(|value| value.split(',')).collect();
    }
    let mut uuids: Vec<String> = Vec::new();
    for (uuid, _) in ids.iter().filter_map(|id| koordinator::by_uuid(image, id)) {
        if !uuids.iter().any(|known| known == uuid) {
            uuids.push(uuid.to_owned());
        }
    }
    uuids
}

/// Whether a container should have had GPUs and was made without them.
fn is_missed(pod: &PodSandbox, container: &Container, image: &Image) -> bool {
    let Allocation { uuids, minors, .. } = central(pod, image);
    let minors: Vec<String> = minors.iter().map(u32::to_string).collect();
    let set = [uuids.join(","), minors.join(",")];
    let mut values = container
        .env
        .iter()
        .filter_map(|it| it.strip_prefix(VISIBLE));
    !uuids.is_empty()
        && !container
            .mounts
            .iter()
            .any(|m| mark(&m.destination).is_some())
        && !values.any(|value| set.iter().any(|set| set == value))
}

#[cfg(test)]
mod tests;
