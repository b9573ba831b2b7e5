//! Nodes, pods and documents as the API server last told them; no more of each than is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::activity::GROUP;
use crate::cluster::pod::{Container, Pod, Role};
use crate::topology::{KWOK, Reporter};

use super::body::FOLLOWS;
use super::{MANAGER, VIRTUAL};

/// Annotations of pods that mean something here begin so.
const POD_ANNOTATIONS: &[&str] = &[
    "mirage.dev/",
    "run.ai/",
    "runai-",
    "gpu-fraction",
    "pod-group-name",
];
/// Annotations of nodes that mean something here begin so.
const NODE_ANNOTATIONS: &[&str] = &["mirage.dev/", "run.ai/", KWOK];
/// Longest annotation kept.
const LONGEST: usize = 64 << 10;

/// A node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// UID.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Those annotations that mean something here.
    pub annotations: BTreeMap<String, String>,
    /// What it has, by resource.
    pub capacity: BTreeMap<String, String>,
    /// What pods may ask for, by resource.
    pub allocatable: BTreeMap<String, String>,
    /// It says that it is ready.
    pub is_ready: bool,
    /// Whether it follows the topology, and the words for it; empty if it does not say.
    pub follows: (String, String),
    /// No new pods go there.
    pub is_cordoned: bool,
    /// What tells the keys that stand there by the controller's word from others ([`fingerprint`]); `None` if none do.
    pub spoken: Option<u64>,
    /// What tells this state of it from others.
    pub version: String,
}

impl Node {
    /// What is kept of a node as the server sends it.
    pub fn read(node: core::Node) -> Option<(String, Node)> {
        let meta = node.metadata;
        let status = node.status.unwrap_or_default();
        let spoken = spoken(meta.managed_fields.as_deref().unwrap_or_default());
        let amounts = |amounts: Option<BTreeMap<String, Quantity>>| {
            let amounts = amounts.unwrap_or_default().into_iter();
            amounts.map(|(name, amount)| (name, amount.0)).collect()
        };
        let conditions = status.conditions.unwrap_or_default();
        let is_ready = conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let follows = conditions.into_iter().find(|one| one.type_ == FOLLOWS);
        let follows = follows.map(|one| (one.status, one.message.unwrap_or_default()));
        let read = Node {
            uid: meta.uid?,
            labels: meta.labels.unwrap_or_default(),
            annotations: kept(meta.annotations, NODE_ANNOTATIONS),
            capacity: amounts(status.capacity),
            allocatable: amounts(status.allocatable),
            is_ready,
            follows: follows.unwrap_or_default(),
            is_cordoned: node
                .spec
                .and_then(|spec| spec.unschedulable)
                .unwrap_or(false),
            spoken,
            version: meta.resource_version.unwrap_or_default(),
        };
        Some((meta.name?, read))
    }

    /// Made and kept by mirage.
    pub fn is_ours(&self) -> bool {
        self.annotations
            .get(VIRTUAL)
            .is_some_and(|value| value == "true")
    }

    /// What its document says of it too, so that others know it for KWOK's.
    pub fn kwok(&self) -> BTreeMap<String, String> {
        let mark = self.annotations.get_key_value(KWOK).into_iter();
        mark.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Kept by KWOK, or by nobody.
    pub fn is_kwok(&self) -> bool {
        self.annotations.contains_key(KWOK)
    }
}

/// What tells labels, annotations, capacity and allocatable amounts from others, by their keys.
pub fn fingerprint<'k>(keys: [impl Iterator<Item = &'k str>; 4]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for keys in keys {
        let mut keys: Vec<&str> = keys.collect();
        keys.sort_unstable();
        keys.hash(&mut hasher);
    }
    hasher.finish()
}

/// The keys that stand on a node by the controller's word, as the server remembers it.
fn spoken(managed: &[ManagedFieldsEntry]) -> Option<u64> {
    let ours = |entry: &&ManagedFieldsEntry| {
        let is = |word: &Option<String>, wanted| word.as_deref() == Some(wanted);
        is(&entry.manager, MANAGER)
            && is(&entry.operation, "Apply")
            && is(&entry.subresource, "status")
    };
    let fields = &managed.iter().find(ours)?.fields_v1.as_ref()?.0;
    let parts = [
        &fields["f:metadata"]["f:labels"],
        &fields["f:metadata"]["f:annotations"],
        &fields["f:status"]["f:capacity"],
        &fields["f:status"]["f:allocatable"],
    ];
    Some(fingerprint(parts.map(|part| {
        let keys = part.as_object().into_iter().flatten();
        keys.filter_map(|(key, _)| key.strip_prefix("f:"))
    })))
}

fn kept(
    annotations: Option<BTreeMap<String, String>>,
    beginnings: &[&str],
) -> BTreeMap<String, String> {
    let annotations = annotations.unwrap_or_default().into_iter();
    let means = |(key, value): &(String, String)| {
        value.len() <= LONGEST && beginnings.iter().any(|start| key.starts_with(start))
    };
    annotations.filter(means).collect()
}

/// A pod that is bound to a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The pod.
    pub pod: Pod,
    /// Its node.
    pub node: String,
    /// When it was made, in seconds since 1970.
    pub since: i64,
    /// Image of each of its containers.
    pub images: Vec<(String, Role, String)>,
    /// It succeeded or failed.
    pub ended: bool,
    /// When it began to run, in seconds since 1970.
    pub started: Option<i64>,
    /// Its containers are not started again when they have ended.
    pub may_end: bool,
    /// A DaemonSet put it there, as on every node: it goes with the node, and does not keep it.
    pub is_daemon: bool,
    /// Somebody's finalizer keeps it when it is deleted.
    pub is_kept: bool,
}

impl Bound {
    /// What is kept of a pod as the server sends it; `None` while it has no node.
    pub fn read(pod: core::Pod) -> Option<Bound> {
        let meta = pod.metadata;
        let spec = pod.spec?;
        let status = pod.status.unwrap_or_default();
        let node = spec.node_name.filter(|node| !node.is_empty())?;
        let init = spec.init_containers.unwrap_or_default().into_iter();
        let init = init.map(|container| {
            let lasts = container.restart_policy.as_deref() == Some("Always");
            (if lasts { Role::Sidecar } else { Role::Init }, container)
        });
        let main = spec
            .containers
            .into_iter()
            .map(|container| (Role::App, container));
        let statuses = status.container_statuses.unwrap_or_default();
        let before = status.init_container_statuses.unwrap_or_default();
        let mut images = Vec::new();
        let mut containers = Vec::new();
        for (role, container) in init.chain(main) {
            let mut statuses = statuses.iter().chain(&before);
            let status = statuses.find(|status| status.name == container.name);
            let running = status.and_then(|status| status.state.as_ref()?.running.as_ref());
            let limits = container.resources.and_then(|resources| resources.limits);
            let resources = limits.unwrap_or_default().into_iter();
            let resources = resources.filter(|(name, _)| name.contains('/'));
            images.push((
                container.name.clone(),
                role,
                container.image.unwrap_or_default(),
            ));
            containers.push(Container {
                name: container.name,
                role,
                is_running: running.is_some(),
                // Nodes without a kubelet simulate from when they are laid out.
                since: None,
                restarts: status
                    .and_then(|status| u32::try_from(status.restart_count).ok())
                    .unwrap_or(0),
                resources: resources
                    .filter_map(|(name, amount)| Some((name, amount.0.parse().ok()?)))
                    .collect(),
            });
        }
        let phase = status.phase.unwrap_or_default();
        let owners = meta.owner_references.unwrap_or_default();
        Some(Bound {
            started: status.start_time.map(|time| time.0.as_second()),
            may_end: spec.restart_policy.is_some_and(|policy| policy != "Always"),
            is_daemon: owners.iter().any(|owner| owner.kind == "DaemonSet"),
            is_kept: meta.finalizers.is_some_and(|all| !all.is_empty()),
            node,
            since: meta.creation_timestamp.map_or(0, |time| time.0.as_second()),
            images,
            ended: matches!(&*phase, "Succeeded" | "Failed"),
            pod: Pod {
                uid: meta.uid?,
                namespace: meta.namespace?,
                name: meta.name?,
                labels: meta.labels.unwrap_or_default(),
                annotations: kept(meta.annotations, POD_ANNOTATIONS),
                phase,
                is_ending: meta.deletion_timestamp.is_some(),
                containers,
            },
        })
    }
}

impl Bound {
    /// The pod as it is after a write of ours, which the server will tell of in time.
    pub fn after(&self, body: &Value) -> Bound {
        let mut after = self.clone();
        let notes = body["metadata"]["annotations"].as_object();
        for (key, value) in notes.into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            after.pod.annotations.insert(key.clone(), value);
        }
        if let Some(phase) = body["status"]["phase"].as_str() {
            phase.clone_into(&mut after.pod.phase);
            after.ended = matches!(phase, "Succeeded" | "Failed");
            let start = body["status"]["startTime"].as_str();
            let start = start.and_then(|text| text.parse::<Timestamp>().ok());
            after.started = start.map(Timestamp::as_second).or(after.started);
            for container in &mut after.pod.containers {
                container.is_running = phase == "Running" && container.role != Role::Init;
            }
        }
        after
    }
}

/// All that was told.
#[derive(Debug, Default)]
pub struct Seen {
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
    /// Pods by namespace and name.
    pods: BTreeMap<(String, String), Arc<Bound>>,
    /// UIDs of pods that were told to go for good: they stay only as long as a finalizer of somebody else's keeps them.
    released: BTreeSet<String>,
    /// Priority classes of groups of pods, by namespace and name.
    pub groups: BTreeMap<(String, String), String>,
    /// Keys of pods by node.
    by_node: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Text of the nodes' documents that the controller writes, by node.
    pub documents: BTreeMap<String, String>,
    /// Text of those that nodes' own agents write, by node. They are not ours to touch.
    pub reports: BTreeMap<String, String>,
}

impl Seen {
    /// Notes a pod; the nodes it concerns.
    pub fn put_pod(&mut self, bound: Bound) -> Vec<String> {
        let key = (bound.pod.namespace.clone(), bound.pod.name.clone());
        let node = bound.node.clone();
        let mut nodes = vec![node.clone()];
        let before = self.pods.insert(key.clone(), Arc::new(bound));
        if let Some(before) = before {
            if self.pods.get(&key).map(|now| &now.pod.uid) != Some(&before.pod.uid) {
                self.released.remove(&before.pod.uid);
            }
            if before.node != node {
                self.forget(&before.node, &key);
                nodes.push(before.node.clone());
            }
        }
        self.by_node.entry(node).or_default().insert(key);
        nodes
    }

    /// Forgets a pod, unless another of its name has been seen since; the node it concerns.
    pub fn drop_pod(&mut self, namespace: &str, name: &str, uid: Option<&str>) -> Option<String> {
        let key = (namespace.to_owned(), name.to_owned());
        let bound = self.pods.get(&key)?;
        if uid.is_some_and(|uid| uid != bound.pod.uid) {
            return None;
        }
        let bound = self.pods.remove(&key)?;
        self.released.remove(&bound.pod.uid);
        self.forget(&bound.node, &key);
        Some(bound.node.clone())
    }

    fn forget(&mut self, node: &str, key: &(String, String)) {
        if let Some(keys) = self.by_node.get_mut(node) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// Keeps only these pods: the server has just listed them all. The nodes of those that are gone.
    pub fn keep_pods(&mut self, listed: &BTreeSet<(String, String)>) -> Vec<String> {
        let gone: Vec<(String, String)> = self
            .pods
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        let nodes = gone
            .iter()
            .filter_map(|(namespace, name)| self.drop_pod(namespace, name, None));
        nodes.collect()
    }

    /// Notes that a pod was told to go for good.
    pub fn release(&mut self, namespace: &str, name: &str, uid: &str) {
        if self
            .pod(namespace, name)
            .is_some_and(|bound| bound.pod.uid == uid)
        {
            self.released.insert(uid.to_owned());
        }
    }

    /// Whether a pod was told to go for good.
    pub fn is_released(&self, uid: &str) -> bool {
        self.released.contains(uid)
    }

    /// Notes a document; whether it says something else than before.
    pub fn put_document(&mut self, node: &str, reporter: Reporter, text: String) -> bool {
        let (into, from) = match reporter {
            Reporter::Controller => (&mut self.documents, &mut self.reports),
            Reporter::Node => (&mut self.reports, &mut self.documents),
        };
        let moved = from.remove(node).is_some();
        let same = into.get(node) == Some(&text);
        into.insert(node.to_owned(), text);
        moved || !same
    }

    /// Forgets a document.
    pub fn drop_document(&mut self, node: &str) {
        self.documents.remove(node);
        self.reports.remove(node);
    }

    /// Keeps only these documents: the server has just listed them all. The nodes of those that are gone.
    pub fn keep_documents(&mut self, listed: &BTreeSet<String>) -> Vec<String> {
        let known = self.documents.keys().chain(self.reports.keys());
        let gone: Vec<String> = known
            .filter(|node| !listed.contains(*node))
            .cloned()
            .collect();
        for node in &gone {
            self.drop_document(node);
        }
        gone
    }

    /// A pod by name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Arc<Bound>> {
        self.pods.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The priority class of a pod's group, where it has one.
    pub fn class(&self, pod: &Pod) -> Option<&str> {
        let group = pod.annotations.get(GROUP)?;
        let key = (pod.namespace.clone(), group.clone());
        self.groups.get(&key).map(String::as_str)
    }

    /// Whether any pod is in a group.
    pub fn has_groups(&self) -> bool {
        let mut pods = self.pods.values();
        pods.any(|bound| bound.pod.annotations.contains_key(GROUP))
    }

    /// The pods of a node.
    pub fn pods_of(&self, node: &str) -> Vec<Arc<Bound>> {
        let keys = self.by_node.get(node).into_iter().flatten();
        keys.filter_map(|key| self.pods.get(key).cloned()).collect()
    }

    /// How many pods there are.
    pub fn pods_len(&self) -> usize {
        self.pods.len()
    }
}
