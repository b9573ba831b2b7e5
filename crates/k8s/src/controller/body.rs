//! Objects as they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{LEAVING, Settings, VIRTUAL};
use crate::allocate::Lack;
use crate::cluster::node::Labels;
use crate::cluster::pod::Role;
use crate::cluster::tell::Complaint;
use crate::controller::seen::Bound;
use crate::migconfig::DEVICE;

/// Something to be written. Each is whole in itself: written twice, it changes nothing the second time.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A node's document.
    Document {
        /// The node.
        node: String,
        /// The ConfigMap.
        body: Value,
    },
    /// No document of a node.
    NoDocument {
        /// The node.
        node: String,
    },
    /// A node that is not there yet.
    NewNode {
        /// Its name.
        node: String,
        /// The node.
        body: Value,
    },
    /// That no pods are to go to a node any more, or that they may again.
    Cordon {
        /// The node.
        node: String,
        /// What mirage says about it.
        body: Value,
    },
    /// No node.
    NoNode {
        /// Its name.
        node: String,
        /// Which one of that name.
        uid: String,
    },
    /// A node's labels, annotations, resources and health. The server takes them all in one write to its status.
    Node {
        /// The node.
        node: String,
        /// What mirage says about it.
        body: Value,
    },
    /// Annotations of a pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The annotations.
        body: Value,
    },
    /// A pod's status.
    PodStatus {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The status, merged into what stands there.
        body: Value,
    },
    /// The end of a pod that was told to end.
    NoPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which one of that name.
        uid: String,
    },
    /// An Event: something that is said on a pod or a node makes no sense.
    Warning {
        /// The node.
        node: String,
        /// UID of the pod, or of the node.
        uid: String,
        /// The pod, if it is one.
        bound: Option<Arc<Bound>>,
        /// What is wrong.
        complaint: Complaint,
    },
}

impl Write {
    /// What is written, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Write::Document { .. } | Write::NoDocument { .. } => "documents",
            Write::NewNode { .. }
            | Write::Node { .. }
            | Write::NoNode { .. }
            | Write::Cordon { .. } => "nodes",
            Write::Pod { .. } | Write::PodStatus { .. } | Write::NoPod { .. } => "pods",
            Write::Warning { .. } => "events",
        }
    }
}

/// A node that mirage makes, as it begins.
pub fn new_node(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                VIRTUAL: "true",
            },
            "annotations": { VIRTUAL: "true" },
        },
        "spec": spec,
    })
}

/// Nothing about a node: whatever was said before is taken away.
pub fn nothing(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
}

/// A node that is to go when its pods have; or one that may stay.
pub fn cordon(name: &str, is_leaving: bool) -> Value {
    let mut body = nothing(name);
    if is_leaving {
        body["metadata"]["annotations"] = json!({ LEAVING: "true" });
        body["spec"] = json!({ "unschedulable": true });
    }
    body
}

/// What the scheduler is to know about a node that mirage makes.
pub fn spec(settings: &Settings, taints: &[Value]) -> Value {
    let mut all = taints.to_vec();
    if settings.taints {
        all.push(json!({ "key": VIRTUAL, "value": "true", "effect": "NoSchedule" }));
    }
    json!({ "taints": all })
}

/// A node as mirage speaks about it.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// Its name.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a Labels,
    /// Annotations.
    pub annotations: &'a Labels,
    /// What it has.
    pub resources: &'a BTreeMap<String, String>,
    /// The kubelet's version that it shows, where mirage keeps it alive.
    pub alive: Option<&'a str>,
    /// What is wrong with the topology's document.
    pub refusal: Option<&'a str>,
}

/// The name of the condition that says whether the topology's document is followed.
pub const FOLLOWS: &str = "MirageTopology";

impl Said<'_> {
    /// What the condition [`FOLLOWS`] says: its status, its reason and its words.
    pub fn follows(&self) -> (&'static str, &'static str, String) {
        match self.refusal {
            None => ("True", "Followed", "the topology is followed".into()),
            Some(why) => ("False", "BadTopology", clipped(why)),
        }
    }

    /// All of it.
    pub fn body(&self) -> Value {
        let name = self.name;
        // Since when is not told: it would be another object each time.
        let condition = |kind: &str, good: &str, reason: &str, words: &str| json!({ "type": kind, "status": good, "reason": reason, "message": words });
        let (good, reason, words) = self.follows();
        let mut conditions = vec![condition(FOLLOWS, good, reason, &words)];
        let mut status = json!({ "capacity": self.resources, "allocatable": self.resources });
        if let Some(version) = self.alive {
            for (kind, good, reason) in [
                ("Ready", "True", "MirageReady"),
                ("MemoryPressure", "False", "MirageHasMemory"),
                ("DiskPressure", "False", "MirageHasDisk"),
                ("PIDPressure", "False", "MirageHasPids"),
            ] {
                conditions.push(condition(kind, good, reason, "kept by mirage"));
            }
            status["addresses"] = json!([{ "type": "Hostname", "address": name }]);
            status["nodeInfo"] = json!({
                "architecture": "amd64", "operatingSystem": "linux", "osImage": "mirage", "kernelVersion": "mirage",
                "kubeletVersion": version, "kubeProxyVersion": version, "containerRuntimeVersion": "mirage://0",
                "machineID": name, "systemUUID": name, "bootID": name,
            });
        }
        status["conditions"] = conditions.into();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": self.labels, "annotations": self.annotations },
            "status": status,
        })
    }
}

/// Words of a length that an object can carry.
pub fn clipped(words: &str) -> String {
    words[..words.floor_char_boundary(1000)].to_owned()
}

/// What is said of one pod and of no other: the server refuses it for a pod that was made under the same name since.
fn only(bound: &Bound, status: Value) -> Value {
    json!({ "metadata": { "uid": bound.pod.uid }, "status": status })
}

/// Annotations on a pod.
pub fn annotations(bound: &Bound, annotations: &Labels) -> Value {
    json!({ "metadata": { "uid": bound.pod.uid, "annotations": annotations } })
}

/// A pod that runs, and what is noted on it: the server takes both in one write to its status.
pub fn running(bound: &Bound, annotations: &Labels, now: Timestamp) -> Value {
    let now = now.to_string();
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now });
    let container = |name: &str, image: &str, state: Value, ready: bool| {
        json!({
            "name": name, "image": image, "imageID": "", "ready": ready, "started": ready, "restartCount": 0,
            "containerID": format!("mirage://{}/{name}", bound.pod.uid), "state": state,
        })
    };
    let runs = || json!({ "running": { "startedAt": now } });
    let ended = || json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now } });
    let mut before = Vec::new();
    let mut main = Vec::new();
    for (name, role, image) in &bound.images {
        match role {
            Role::App => main.push(container(name, image, runs(), true)),
            Role::Sidecar => before.push(container(name, image, runs(), true)),
            Role::Init => before.push(container(name, image, ended(), true)),
        }
    }
    let kinds = [
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodReadyToStartContainers",
    ];
    let conditions: Vec<Value> = kinds.into_iter().map(condition).collect();
    let mut status = json!({
        "phase": "Running",
        "startTime": now,
        "conditions": conditions,
        "containerStatuses": main,
    });
    if !before.is_empty() {
        status["initContainerStatuses"] = before.into();
    }
    let mut body = only(bound, status);
    if !annotations.is_empty() {
        body["metadata"]["annotations"] = json!(annotations);
    }
    body
}

/// A pod whose containers have done their work.
pub fn succeeded(bound: &Bound, now: Timestamp) -> Value {
    ended(bound, &End::DONE, now)
}

/// A pod whose containers were told to end, and did.
pub fn stopped(bound: &Bound, now: Timestamp) -> Value {
    ended(bound, &End::TOLD, now)
}

/// How the containers of a pod have ended.
struct End {
    phase: &'static str,
    code: i32,
    reason: &'static str,
    condition: &'static str,
}

impl End {
    const DONE: End = End {
        phase: "Succeeded",
        code: 0,
        reason: "Completed",
        condition: "PodCompleted",
    };
    /// By SIGTERM.
    const TOLD: End = End {
        phase: "Failed",
        code: 143,
        reason: "Error",
        condition: "PodFailed",
    };
}

fn ended(bound: &Bound, end: &End, now: Timestamp) -> Value {
    let now = now.to_string();
    let began = bound
        .started
        .and_then(|second| Timestamp::from_second(second).ok());
    let began = began.map_or_else(|| now.clone(), |began| began.to_string());
    let all = bound
        .images
        .iter()
        .filter(|(_, role, _)| *role != Role::Init);
    let (mut before, mut main) = (Vec::new(), Vec::new());
    for (name, role, image) in all {
        let status = json!({
            "name": name, "image": image, "imageID": "", "ready": false, "started": false, "restartCount": 0,
            "containerID": format!("mirage://{}/{name}", bound.pod.uid),
            "state": { "terminated": { "exitCode": end.code, "reason": end.reason, "startedAt": began, "finishedAt": now } },
        });
        match role {
            Role::Sidecar => before.push(status),
            _ => main.push(status),
        }
    }
    let conditions: Vec<Value> = ["Ready", "ContainersReady"]
        .into_iter()
        .map(|kind| json!({ "type": kind, "status": "False", "reason": end.condition, "lastTransitionTime": now }))
        .collect();
    let mut status =
        json!({ "phase": end.phase, "conditions": conditions, "containerStatuses": main });
    if !before.is_empty() {
        status["initContainerStatuses"] = before.into();
    }
    only(bound, status)
}

/// A pod that its node cannot take, as a kubelet says it.
pub fn refused(bound: &Bound, lack: &Lack) -> Value {
    let (reason, why) = match lack {
        Lack::Resource(resource) => (
            format!("OutOf{resource}"),
            format!("Node didn't have enough resource: {resource}"),
        ),
        Lack::Device(place) => (
            "UnexpectedAdmissionError".to_owned(),
            format!(
                "{DEVICE} names the MIG device of GPU {} at slice {}, which another pod has or the node has not",
                place.gpu,
                place.start.unwrap_or(0)
            ),
        ),
    };
    let status = json!({
        "phase": "Failed",
        "reason": reason,
        "message": format!("Pod was rejected: {why}"),
    });
    only(bound, status)
}
