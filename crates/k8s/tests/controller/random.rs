//! Random lives of pods, nodes and documents, with a server that forgets, fails, refuses and goes away, and a controller that dies in
//! between: whatever happened, each GPU is with the pod that a slow and plain allocator gives it to.
//!
//! What comes in one step comes after what goes in it, so that the outcome does not depend on who saw what when. `MIRAGE_SEEDS=3,4` plays
//! other lives than the usual.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::store::Store;
use super::{Cluster, DOCUMENT, holders, map};

const STEPS: usize = 16;
const NODES: usize = 3;
const NAMES: usize = 12;

#[tokio::test]
async fn a_random_life_ends_where_the_plain_allocator_ends() {
    lives(&[1]).await;
}

#[tokio::test]
async fn another_random_life_does_too() {
    lives(&[2]).await;
}

async fn lives(usual: &[u64]) {
    let seeds = match std::env::var("MIRAGE_SEEDS") {
        Ok(text) => text.split(',').map(|seed| seed.parse().unwrap()).collect(),
        Err(_) => usual.to_vec(),
    };
    for seed in seeds {
        Play::new(seed).await.play().await;
    }
}

/// Numbers that look like chance, the same for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// A pod as it ought to be.
#[derive(Clone)]
struct Expected {
    node: String,
    runs: bool,
}

/// The slow and plain allocator: lists of GPUs, looked through from the start every time.
struct Plain {
    /// GPUs that each node is to have, and nodes that there are to be.
    wanted: (usize, usize),
    nodes: BTreeMap<String, Vec<Option<String>>>,
    pods: BTreeMap<String, Expected>,
}

impl Plain {
    fn come(&mut self, name: &str, node: &str, gpus: usize) {
        let list = self.nodes.get_mut(node).unwrap();
        let usable = self.wanted.0.min(list.len());
        let free: Vec<usize> = (0..usable).filter(|at| list[*at].is_none()).collect();
        let runs = free.len() >= gpus;
        for at in free.into_iter().take(if runs { gpus } else { 0 }) {
            list[at] = Some(name.to_owned());
        }
        let node = node.to_owned();
        self.pods.insert(name.to_owned(), Expected { node, runs });
    }

    fn end(&mut self, name: &str) {
        for gpu in self.nodes.values_mut().flatten() {
            if gpu.as_deref() == Some(name) {
                *gpu = None;
            }
        }
        if let Some(pod) = self.pods.get_mut(name) {
            pod.runs = false;
        }
        self.fit();
    }

    fn go(&mut self, name: &str) {
        self.end(name);
        self.pods.remove(name);
        self.fit();
    }

    /// GPUs beyond the number go when they and all after them are free, nodes when they have no pods.
    fn fit(&mut self) {
        let (gpus, nodes) = self.wanted;
        for number in 0..nodes {
            self.nodes.entry(format!("gpu-{number}")).or_default();
        }
        let pods = &self.pods;
        self.nodes.retain(|name, _| {
            let number: usize = name[4..].parse().unwrap();
            number < nodes || pods.values().any(|pod| pod.runs && pod.node == *name)
        });
        for list in self.nodes.values_mut() {
            while list.len() > gpus && list.last().is_some_and(Option::is_none) {
                list.pop();
            }
            if list.len() < gpus {
                list.resize(gpus, None);
            }
        }
    }
}

struct Play {
    store: Store,
    cluster: Option<Cluster>,
    dice: Dice,
    plain: Plain,
    number: usize,
    log: Vec<String>,
}

fn path(pod: &str) -> String {
    format!("/api/v1/namespaces/team/pods/{pod}")
}

impl Play {
    async fn new(seed: u64) -> Play {
        let store = Store::start().await;
        let plain = Plain {
            wanted: (4, 2),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
        };
        let mut play = Play {
            cluster: None,
            dice: Dice(seed),
            plain,
            number: 0,
            log: vec![format!("seed {seed}")],
            store,
        };
        play.edit(4, 2);
        play
    }

    async fn play(mut self) {
        self.begin().await;
        for _ in 0..STEPS {
            self.step().await;
            self.agree().await;
        }
        self.cluster.take().unwrap().end().await;
    }

    async fn begin(&mut self) {
        self.cluster = Some(Cluster::join(&self.store, "one").await);
        self.agree().await;
    }

    fn edit(&mut self, gpus: usize, nodes: usize) {
        self.log.push(format!("{nodes} nodes with {gpus} GPUs"));
        self.plain.wanted = (gpus, nodes);
        self.plain.fit();
        let text =
            format!("pools:\n  gpu: {{ model: t4, gpus: {gpus}, virtual-nodes: {nodes} }}\n");
        self.store.put(DOCUMENT, map(&text));
    }

    async fn step(&mut self) {
        match self.dice.below(12) {
            0..=2 => self.come(),
            3 | 4 => self.go(true),
            5 => {
                let (gpus, nodes) = (1 + self.dice.below(6), 1 + self.dice.below(NODES));
                self.edit(gpus, nodes);
            }
            6 => self.lose(),
            7 => {
                self.log.push("forgotten".into());
                let store = self.store.clone();
                store.forget(|_| self.turn());
            }
            8 => {
                self.log.push("failing".into());
                self.store.fail(4);
                self.turn();
            }
            9 => {
                self.log.push("conflicts".into());
                self.store.conflict("/", 8);
                self.turn();
            }
            10 => {
                self.log.push("server away".into());
                self.store.away(true);
                self.turn();
                self.store.away(false);
            }
            _ => {
                self.log.push("controller away".into());
                self.cluster.take().unwrap().end().await;
                self.turn();
                if self.dice.below(2) == 0 {
                    self.lose();
                }
                self.log.push("controller back".into());
                self.begin().await;
            }
        }
    }

    /// Some go, and others come. Nobody is told to go then: until that is done, what is held is held.
    fn turn(&mut self) {
        self.go(false);
        self.come();
    }

    fn come(&mut self) {
        // Now and then under a name that another had, who goes first.
        let names: BTreeSet<String> = (0..=self.dice.below(3))
            .map(|_| format!("p{}", self.dice.below(NAMES)))
            .collect();
        for name in names
            .iter()
            .filter(|name| self.store.get(&path(name)).is_some())
        {
            self.log.push(format!("{name} goes"));
            self.store.delete(&path(name));
            self.plain.go(name);
        }
        for name in names {
            self.number += 1;
            let node = format!("gpu-{}", self.dice.below(self.plain.wanted.1));
            let (first, second) = (self.dice.below(3), self.dice.below(2));
            self.log
                .push(format!("{name} on {node} with {first}+{second}"));
            let container = |name: &str, gpus: usize| {
                let limits = json!({ "nvidia.com/gpu": gpus.to_string() });
                json!({ "name": name, "image": "i", "resources": { "limits": limits } })
            };
            let made = format!(
                "2026-01-01T00:{:02}:{:02}Z",
                self.number / 60,
                self.number % 60
            );
            let pod = json!({
                "metadata": { "creationTimestamp": made },
                "spec": { "nodeName": node, "containers": [container("a", first), container("b", second)] },
                "status": { "phase": "Pending" },
            });
            self.store.put(&path(&name), pod);
            self.plain.come(&name, &node, first + second);
        }
    }

    /// Pods go: told to, by force, or by themselves.
    fn go(&mut self, by_word: bool) {
        for _ in 0..=self.dice.below(3) {
            let names: Vec<String> = self.plain.pods.keys().cloned().collect();
            if names.is_empty() {
                return;
            }
            let name = names[self.dice.below(names.len())].clone();
            let Some(mut pod) = self.store.get(&path(&name)) else {
                continue;
            };
            let is_kept = self.plain.nodes.contains_key(&self.plain.pods[&name].node);
            match self.dice.below(3) {
                0 if by_word && is_kept => {
                    self.log.push(format!("{name} is told to go"));
                    pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
                    self.store.put(&path(&name), pod);
                    self.plain.go(&name);
                }
                1 => {
                    self.log.push(format!("{name} ends"));
                    pod["status"]["phase"] = json!("Succeeded");
                    self.store.put(&path(&name), pod);
                    self.plain.end(&name);
                }
                _ => {
                    self.log.push(format!("{name} is gone"));
                    self.store.delete(&path(&name));
                    self.plain.go(&name);
                }
            }
        }
    }

    /// Somebody deletes a document, or a node.
    fn lose(&mut self) {
        let nodes: Vec<String> = self.plain.nodes.keys().cloned().collect();
        let node = &nodes[self.dice.below(nodes.len())];
        let is_wanted = node[4..].parse::<usize>().unwrap() < self.plain.wanted.1;
        if is_wanted && self.dice.below(2) == 0 {
            self.log.push(format!("{node} is deleted"));
            self.store.delete(&format!("/api/v1/nodes/{node}"));
        } else {
            self.log.push(format!("document of {node} is deleted"));
            self.store.delete(&format!(
                "/api/v1/namespaces/gpu-operator/configmaps/topology-{node}"
            ));
        }
    }

    /// Waits until the server has what the plain allocator has.
    async fn agree(&self) {
        let cluster = self.cluster.as_ref().unwrap();
        for number in 0..NODES {
            let name = format!("gpu-{number}");
            let expected = self.plain.nodes.get(&name).map(|list| {
                let list = list.iter().cloned();
                list.map(Option::unwrap_or_default).collect::<Vec<_>>()
            });
            let what = format!("{expected:?} on {name} after {:?}", self.log);
            cluster
                .until(&what, |store| {
                    let node = store.get(&format!("/api/v1/nodes/{name}"));
                    let gives =
                        node.map(|node| node["status"]["allocatable"]["nvidia.com/gpu"].clone());
                    let wanted = expected
                        .as_ref()
                        .map(|_| json!(self.plain.wanted.0.to_string()));
                    (holders(store, &name) == expected && gives == wanted).then_some(())
                })
                .await;
        }
        for number in 0..NAMES {
            let name = format!("p{number}");
            let expected = self.plain.pods.get(&name).map(|pod| pod.runs);
            let what = format!("{name}, which runs: {expected:?}, after {:?}", self.log);
            cluster
                .until(&what, |store| {
                    let pod = store.get(&path(&name));
                    let runs = pod.map(|pod| match pod["status"]["phase"].as_str() {
                        Some("Running") => Some(true),
                        Some("Failed" | "Succeeded") => Some(false),
                        _ => None,
                    });
                    (runs == expected.map(Some)).then_some(())
                })
                .await;
        }
    }
}
