//! Whole clusters: a controller, and a server that does what it is told.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod hot;
mod lives;
mod mig;
mod pods;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::body::Write;
use super::seen::{Bound, Node, fingerprint};
use super::settle::Controller;
use super::{LEAVING, Settings, VIRTUAL, Wanted};
use crate::topology::{self, KWOK};

const POOL: &str = "run.ai/simulated-gpu-node-pool";

/// A controller with its cluster.
struct Stage {
    controller: Controller,
    version: u64,
    /// Writes so far.
    writes: usize,
    /// Pods that somebody's finalizer keeps.
    kept_back: Vec<String>,
    /// Events so far: of whom, and what they say.
    warnings: Vec<(String, String)>,
    /// What the clock shows.
    now: Timestamp,
}

impl Stage {
    fn new(document: &str) -> Stage {
        let mut controller = Controller::new(Settings::default());
        controller.wanted = Some(Wanted::read(document, "topology").unwrap());
        Stage {
            controller,
            version: 1,
            writes: 0,
            kept_back: Vec::new(),
            warnings: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn want(&mut self, document: &str) {
        self.controller.wanted = Some(Wanted::read(document, "topology").unwrap());
    }

    /// Lets the controller act until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..50 {
            let mut writes = Vec::new();
            for name in self.controller.names() {
                for write in self.controller.settle(&name) {
                    self.controller.wrote(&write);
                    writes.push(write);
                }
            }
            for (namespace, name) in self.pods() {
                if let Some(write) = self.controller.phase(&namespace, &name, self.now) {
                    self.controller.wrote(&write);
                    writes.push(write);
                }
            }
            if writes.is_empty() {
                return;
            }
            self.writes += writes.len();
            for write in writes {
                self.serve(write);
            }
        }
        panic!("it never settles");
    }

    /// The same cluster, and a controller that knows nothing of what another did before it.
    fn restart(&mut self) {
        let old = std::mem::take(&mut self.controller);
        self.controller = Controller::new(Settings::default());
        self.controller.wanted = old.wanted;
        self.controller.seen = old.seen;
    }

    fn pods(&self) -> Vec<(String, String)> {
        let nodes = self.controller.seen.nodes.keys();
        let pods = nodes.flat_map(|node| self.controller.seen.pods_of(node));
        pods.map(|bound| (bound.pod.namespace.clone(), bound.pod.name.clone()))
            .collect()
    }

    fn serve(&mut self, write: Write) {
        self.version += 1;
        let version = self.version.to_string();
        let seen = &mut self.controller.seen;
        match write {
            Write::Document { node, body } => {
                let text = body["data"][topology::KEY].as_str().unwrap().to_owned();
                seen.documents.insert(node, text);
            }
            Write::NoDocument { node } => {
                seen.documents.remove(&node);
            }
            Write::NewNode { node, body } => {
                let new = Node {
                    uid: format!("uid-of-{node}"),
                    labels: strings(&body["metadata"]["labels"]),
                    annotations: strings(&body["metadata"]["annotations"]),
                    version,
                    ..Node::default()
                };
                assert!(seen.nodes.insert(node, new).is_none());
            }
            Write::Cordon { node, body } => {
                let entry = seen.nodes.get_mut(&node).unwrap();
                entry.is_cordoned = body["spec"]["unschedulable"] == true;
                entry.annotations.remove(LEAVING);
                entry
                    .annotations
                    .extend(strings(&body["metadata"]["annotations"]));
                entry.version = version;
            }
            Write::NoNode { node, uid } => {
                let gone = seen.nodes.remove(&node).unwrap();
                assert_eq!(gone.uid, uid);
                // A node goes only when its pods have.
                for bound in seen.pods_of(&node) {
                    assert!(
                        bound.ended || bound.is_daemon,
                        "{} on {node}",
                        bound.pod.name
                    );
                }
            }
            Write::Node { node, body } => {
                let entry = seen.nodes.get_mut(&node).unwrap();
                if body.get("status").is_none() {
                    entry.labels.retain(|key, _| key == POOL);
                    entry.capacity.clear();
                    entry.allocatable.clear();
                    entry.version = version;
                    return;
                }
                entry.labels.extend(strings(&body["metadata"]["labels"]));
                entry
                    .annotations
                    .extend(strings(&body["metadata"]["annotations"]));
                entry.capacity = strings(&body["status"]["capacity"]);
                entry.allocatable = strings(&body["status"]["allocatable"]);
                let conditions = body["status"]["conditions"].as_array().unwrap();
                let find = |kind: &str| conditions.iter().find(|one| one["type"] == kind);
                entry.is_ready = find("Ready").is_some();
                let (meta, status) = (&body["metadata"], &body["status"]);
                let said = [
                    &meta["labels"],
                    &meta["annotations"],
                    &status["capacity"],
                    &status["allocatable"],
                ];
                let said = said.map(|part| {
                    part.as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, _)| &**key)
                });
                entry.spoken = Some(fingerprint(said));
                let follows = find("MirageTopology").unwrap();
                let word = |key: &str| follows[key].as_str().unwrap().to_owned();
                entry.follows = (word("status"), word("message"));
                entry.version = version;
            }
            Write::Pod {
                namespace,
                name,
                body,
            }
            | Write::PodStatus {
                namespace,
                name,
                body,
            } => {
                let pod = seen.pod(&namespace, &name).unwrap();
                // Of this pod, and of no other that is made under its name.
                assert_eq!(body["metadata"]["uid"], *pod.pod.uid);
                let now = pod.after(&body);
                seen.put_pod(now);
            }
            Write::NoPod {
                namespace,
                name,
                uid,
            } => {
                if !self.kept_back.contains(&name) {
                    seen.drop_pod(&namespace, &name, Some(&uid)).unwrap();
                }
            }
            Write::Warning {
                node,
                bound,
                complaint,
                ..
            } => {
                let about = bound.map_or(node, |bound| bound.pod.name.clone());
                self.warnings.push((about, complaint.message));
            }
        }
    }

    /// Adds a pod that is bound to a node, as the API server would tell it.
    fn add_pod(
        &mut self,
        node: &str,
        name: &str,
        uid: &str,
        since: i64,
        limits: &[Value],
        meta: Value,
    ) {
        let containers: Vec<Value> = limits
            .iter()
            .enumerate()
            .map(|(index, limits)| json!({ "name": format!("c{index}"), "image": "busybox", "resources": { "limits": limits } }))
            .collect();
        let mut object = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": uid,
                "creationTimestamp": Timestamp::from_second(since).unwrap().to_string(),
            },
            "spec": { "nodeName": node, "containers": containers },
            "status": { "phase": "Pending" },
        });
        for (key, value) in meta.as_object().unwrap() {
            let part = if key == "restartPolicy" {
                "spec"
            } else {
                "metadata"
            };
            object[part][key] = value.clone();
        }
        let pod: core::Pod = serde_json::from_value(object).unwrap();
        self.controller.seen.put_pod(Bound::read(pod).unwrap());
    }

    fn gpu_pod(&mut self, node: &str, name: &str, since: i64, gpus: u32) {
        let limits = [json!({ "nvidia.com/gpu": gpus.to_string(), "cpu": "1" })];
        self.add_pod(
            node,
            name,
            &format!("uid-{name}"),
            since,
            &limits,
            json!({}),
        );
    }

    fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Bound)) {
        let mut bound = Bound::clone(self.controller.seen.pod("default", name).unwrap());
        change(&mut bound);
        self.controller.seen.put_pod(bound);
    }

    fn phase(&self, name: &str) -> String {
        self.controller
            .seen
            .pod("default", name)
            .unwrap()
            .pod
            .phase
            .clone()
    }

    /// Pods on the GPUs of a node, as its document says it.
    fn holders(&self, node: &str) -> Vec<String> {
        let text = &self.controller.seen.documents[node];
        let document = topology::read_node(text, node).unwrap();
        let gpus = document.gpus.into_iter();
        gpus.map(|gpu| {
            gpu.status
                .allocated_by
                .map_or_else(String::new, |by| by.pod)
        })
        .collect()
    }
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let entries = value.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

const THREE: &str =
    "pools:\n  gpu: { model: h100-sxm5-80gb, gpus: 8, virtual-nodes: 3, flavour: eks }\n";

#[test]
fn nodes_without_a_kubelet_come_alive_and_then_nothing_is_written() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    let node = &stage.controller.seen.nodes["gpu-2"];
    assert!(node.is_ready && node.is_ours());
    assert_eq!(node.allocatable["nvidia.com/gpu"], "8");
    assert_eq!(node.allocatable["cpu"], "192");
    assert_eq!(
        node.labels["nvidia.com/gpu.product"],
        "NVIDIA-H100-80GB-HBM3"
    );
    assert_eq!(
        node.labels["node.kubernetes.io/instance-type"],
        "p5.48xlarge"
    );
    assert_eq!(node.labels[POOL], "gpu");
    // Whoever has to run for real can keep away from it, taint or no taint.
    assert_eq!(node.labels[VIRTUAL], "true");
    assert_eq!(stage.controller.seen.documents.len(), 3);
    // The node, what is said on it, its document.
    assert_eq!(stage.writes, 9);
    for round in 0..3 {
        if round == 1 {
            stage.restart();
        }
        stage.settle();
        assert_eq!(stage.writes, 9);
    }
    assert_eq!(stage.controller.alive().len(), 3);
}

#[test]
fn a_pods_life_costs_one_document_each_way() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    let before = stage.writes;
    stage.gpu_pod("gpu-1", "train", 10, 2);
    stage.settle();
    assert_eq!(stage.phase("train"), "Running");
    // Its status with its devices, and the document.
    assert_eq!(stage.writes - before, 2);
    assert_eq!(stage.holders("gpu-1")[..3], ["train", "train", ""]);
    let text = stage.controller.seen.documents["gpu-1"].clone();
    assert!(
        text.contains("min: 100") && text.contains("fb-used: 81559"),
        "{text}"
    );
    stage.change_pod("train", |bound| {
        bound.ended = true;
        bound.pod.phase = "Succeeded".into();
    });
    stage.settle();
    assert_eq!(stage.writes - before, 3);
    assert_eq!(stage.holders("gpu-1")[0], "");
    // Told to end, it ends; evicted pods are deleted the same way.
    stage.gpu_pod("gpu-1", "next", 11, 1);
    stage.settle();
    stage.change_pod("next", |bound| bound.pod.is_ending = true);
    stage.settle();
    assert!(stage.controller.seen.pod("default", "next").is_none());
    assert_eq!(stage.holders("gpu-1")[0], "");
}

#[test]
fn a_pod_that_does_not_fit_is_turned_away_as_a_kubelet_does_it() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    stage.gpu_pod("gpu-0", "large", 1, 7);
    stage.gpu_pod("gpu-0", "second", 2, 2);
    stage.gpu_pod("gpu-0", "third", 3, 1);
    stage.gpu_pod("gpu-0", "none", 4, 0);
    stage.settle();
    let phases = ["large", "second", "third", "none"].map(|name| stage.phase(name));
    assert_eq!(phases, ["Running", "Failed", "Running", "Running"]);
    assert_eq!(stage.holders("gpu-0")[7], "third");
}

#[test]
fn a_pod_waits_for_what_another_is_about_to_give_back() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    stage.gpu_pod("gpu-0", "old", 1, 7);
    stage.gpu_pod("gpu-0", "small", 2, 1);
    stage.settle();
    // Both happened while nobody watched; it does not matter which is looked at first.
    stage.change_pod("old", |bound| bound.pod.is_ending = true);
    stage.gpu_pod("gpu-0", "new", 3, 7);
    stage.gpu_pod("gpu-1", "too-large", 4, 9);
    stage.restart();
    stage.settle();
    assert!(stage.controller.seen.pod("default", "old").is_none());
    assert_eq!(stage.phase("new"), "Running");
    assert_eq!(stage.phase("too-large"), "Failed");
    assert_eq!(stage.holders("gpu-0")[6..], ["new", "small"]);
}

#[test]
fn what_a_pod_held_that_has_ended_is_nobodys_after_a_restart() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    let end = |stage: &mut Stage, name: &str| {
        stage.change_pod(name, |bound| {
            bound.ended = true;
            bound.pod.phase = "Succeeded".into();
        });
        stage.settle();
    };
    stage.gpu_pod("gpu-0", "ended", 1, 3);
    stage.settle();
    end(&mut stage, "ended");
    stage.gpu_pod("gpu-0", "first", 2, 2);
    stage.gpu_pod("gpu-0", "second", 3, 1);
    stage.settle();
    end(&mut stage, "first");
    assert_eq!(stage.holders("gpu-0")[..3], ["", "", "second"]);
    // The ended one still says that it had the third.
    stage.restart();
    stage.settle();
    assert_eq!(stage.holders("gpu-0")[..3], ["", "", "second"]);
}

#[test]
fn an_edit_changes_nodes_and_drains_what_is_in_use() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    stage.gpu_pod("gpu-0", "train", 1, 3);
    stage.gpu_pod("gpu-2", "old", 1, 1);
    stage.settle();
    stage.want("pools:\n  gpu: { model: a100-sxm4-40gb, gpus: 2, virtual-nodes: 2 }\n");
    stage.settle();
    let seen = &stage.controller.seen;
    assert_eq!(seen.nodes["gpu-1"].allocatable["nvidia.com/gpu"], "2");
    assert_eq!(
        seen.nodes["gpu-1"].labels["nvidia.com/gpu.product"],
        "NVIDIA-A100-SXM4-40GB"
    );
    // Three GPUs are in use, one of them beyond the new number.
    assert_eq!(stage.holders("gpu-0"), ["train", "train", "train"]);
    assert_eq!(seen.nodes["gpu-0"].allocatable["nvidia.com/gpu"], "2");
    // The third node is to go, when its pod has.
    assert!(seen.nodes["gpu-2"].is_cordoned);
    for name in ["train", "old"] {
        stage.change_pod(name, |bound| bound.ended = true);
    }
    stage.settle();
    let seen = &stage.controller.seen;
    assert!(!seen.nodes.contains_key("gpu-2") && !seen.documents.contains_key("gpu-2"));
    assert_eq!(stage.holders("gpu-0"), ["", ""]);
}

#[test]
fn a_bad_edit_names_its_line() {
    let error = Wanted::read(
        "pools:\n  gpu: { model: h100-sxm5-80gb, gpu: 3 }\n",
        "topology",
    )
    .unwrap_err();
    assert!(error.contains("topology:2"), "{error}");
}

#[test]
fn kubelets_nodes_are_left_alone_and_kwoks_get_their_gpus() {
    let mut stage = Stage::new(
        "nodePools:\n  default: { gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441 }\n",
    );
    let node = |annotation: Option<&str>| Node {
        uid: "u".into(),
        labels: BTreeMap::from([(POOL.to_owned(), "default".to_owned())]),
        annotations: annotation
            .map(|key| (key.to_owned(), "fake".to_owned()))
            .into_iter()
            .collect(),
        is_ready: true,
        ..Node::default()
    };
    stage
        .controller
        .seen
        .nodes
        .insert("real".into(), node(None));
    stage
        .controller
        .seen
        .nodes
        .insert("kwok".into(), node(Some(KWOK)));
    let stranger = Node {
        labels: BTreeMap::new(),
        ..node(Some(KWOK))
    };
    stage
        .controller
        .seen
        .nodes
        .insert("stranger".into(), stranger);
    stage.gpu_pod("kwok", "train", 1, 1);
    stage.settle();
    let seen = &stage.controller.seen;
    assert!(seen.nodes["real"].capacity.is_empty() && seen.nodes["stranger"].capacity.is_empty());
    assert_eq!(seen.nodes["kwok"].capacity["nvidia.com/gpu"], "2");
    assert_eq!(seen.documents.keys().collect::<Vec<_>>(), ["kwok"]);
    assert_eq!(stage.holders("kwok"), ["train", ""]);
    // KWOK itself says what becomes of its pods.
    assert_eq!(stage.phase("train"), "Pending");
    // Out of the pool, out of the topology.
    stage
        .controller
        .seen
        .nodes
        .get_mut("kwok")
        .unwrap()
        .labels
        .clear();
    stage.settle();
    assert!(stage.controller.seen.documents.is_empty());
    let node = &stage.controller.seen.nodes["kwok"];
    assert!(node.capacity.is_empty() && node.labels.is_empty());
}

#[test]
fn reservations_are_told_their_gpu_and_shared_pods_use_it() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    let group = json!({ "runai-gpu-group": "g" });
    let one = [json!({ "nvidia.com/gpu": "1" })];
    stage.add_pod(
        "gpu-0",
        "reservation",
        "uid-r",
        1,
        &one,
        json!({ "namespace": "runai-reservation", "labels": group }),
    );
    let half = json!({ "labels": group, "annotations": { "gpu-fraction": "0.5", "run.ai/simulated-gpu-utilization": "20-40" } });
    stage.add_pod("gpu-0", "half", "uid-h", 2, &[json!({})], half);
    stage.settle();
    let pod = stage
        .controller
        .seen
        .pod("runai-reservation", "reservation")
        .unwrap();
    let document = topology::read_node(&stage.controller.seen.documents["gpu-0"], "n").unwrap();
    assert_eq!(
        pod.pod.annotations["run.ai/reserve_for_gpu_index"],
        document.gpus[0].id
    );
    let usage = document.gpus[0].status.usage["uid-h"];
    assert_eq!((usage.min, usage.max, usage.memory_mib), (20, 40, 40779));
    let fleet = stage.controller.fleet();
    let work = &fleet
        .iter()
        .find(|(plan, ..)| &*plan.name == "gpu-0")
        .unwrap()
        .1;
    assert_eq!(work.len(), 1);
    assert_eq!(
        (&*work[0].owner.pod, &work[0].devices[..]),
        ("half", &[(0, None)][..])
    );
}

#[test]
fn a_shared_gpu_is_used_by_whoever_runs_in_its_group() {
    let mut stage = Stage::new(
        "nodePools:\n  default: { gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441 }\n",
    );
    // KWOK says what runs, so that pods may wait.
    let node = Node {
        uid: "u".into(),
        labels: BTreeMap::from([(POOL.to_owned(), "default".to_owned())]),
        annotations: BTreeMap::from([(KWOK.to_owned(), "fake".to_owned())]),
        is_ready: true,
        ..Node::default()
    };
    stage.controller.seen.nodes.insert("kwok".into(), node);
    let group = json!({ "runai-gpu-group": "g" });
    let one = [json!({ "nvidia.com/gpu": "1" })];
    stage.add_pod(
        "kwok",
        "reservation",
        "uid-r",
        1,
        &one,
        json!({ "namespace": "runai-reservation", "labels": group }),
    );
    let half = json!({ "labels": group, "annotations": { "gpu-fraction": "0.5", "run.ai/simulated-gpu-utilization.c1": "20-40" } });
    stage.add_pod("kwok", "half", "uid-h", 2, &[json!({}), json!({})], half);
    stage.change_pod("half", |bound| {
        bound.pod.containers[0].role = crate::cluster::pod::Role::Init;
    });
    let used = |stage: &Stage| {
        let text = &stage.controller.seen.documents["kwok"];
        let usage = topology::read_node(text, "n").unwrap().gpus[0].status.usage["uid-h"];
        (usage.min, usage.max, usage.memory_mib)
    };
    stage.settle();
    // Its memory is held from the start.
    assert_eq!(used(&stage), (0, 0, 5720));
    stage.change_pod("half", |bound| {
        bound.pod.phase = "Running".into();
        bound.pod.containers[1].is_running = true;
    });
    stage.settle();
    assert_eq!(used(&stage), (20, 40, 5720));
    let fleet = stage.controller.fleet();
    let work = &fleet[0].1;
    assert_eq!((work.len(), &*work[0].owner.container), (1, "c1"));
}

#[test]
fn each_container_is_as_busy_as_is_said_of_it() {
    let mut stage = Stage::new(THREE);
    stage.settle();
    let one = || json!({ "nvidia.com/gpu": "1" });
    let said = json!({ "annotations": {
        "run.ai/simulated-gpu-utilization": "70",
        "run.ai/simulated-gpu-utilization.c1": "10-20",
        "gpu-fraction.c1": "0.25",
    } });
    stage.add_pod("gpu-0", "two", "uid-t", 1, &[one(), one()], said);
    stage.settle();
    let document = topology::read_node(&stage.controller.seen.documents["gpu-0"], "n").unwrap();
    let used = document.gpus.iter().take(2).map(|gpu| {
        let usage = gpu.status.usage["uid-t"];
        (usage.min, usage.max, usage.memory_mib)
    });
    assert_eq!(used.collect::<Vec<_>>(), [(70, 70, 81559), (10, 20, 20389)]);
}
