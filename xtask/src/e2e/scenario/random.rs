//! Random lives of pods on nodes without a kubelet: whatever comes, goes or is missed, and however often the controller dies in
//! between, each GPU is with the pod that a slow and plain allocator gives it to.
//!
//! Steps are drawn from a seed; `MIRAGE_SEEDS=1,2,3` plays others than the usual. Within a step pods only come or only go, or both while
//! no controller runs: then the outcome does not depend on who saw what when.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Stage;
use crate::e2e::cluster::{PODS, PROXY};
use crate::e2e::controller::{Controller, FIRST, document, holders, topology, uninstall};
use crate::e2e::http;
use crate::e2e::process::until;

const NODES: [&str; 2] = ["gpu-0", "gpu-1"];
const STEPS: usize = 14;
const SEEDS: &[u64] = &[1, 2];

/// The usual lives, or those of `MIRAGE_SEEDS`.
pub(super) fn lives(stage: &mut Stage) -> Result<()> {
    let seeds = match std::env::var("MIRAGE_SEEDS") {
        Ok(text) => text
            .split(',')
            .map(|seed| seed.trim().parse().context("MIRAGE_SEEDS: a number"))
            .collect::<Result<Vec<u64>>>()?,
        Err(_) => SEEDS.to_vec(),
    };
    let outcome = seeds
        .iter()
        .try_for_each(|seed| life(stage, *seed).with_context(|| format!("seed {seed}")));
    // Of a life that failed pods are left, and no controller to let them go.
    let cleared = drop_pods(stage).and_then(|()| uninstall(&stage.program, &stage.admin()));
    outcome.and(cleared)
}

/// Removes what pods there are, by force.
fn drop_pods(stage: &Stage) -> Result<()> {
    let list = stage.cluster.find(PODS)?.context("no list of pods")?;
    for pod in list["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        remove(&format!("{PODS}/{name}?gracePeriodSeconds=0"))?;
    }
    Ok(())
}

/// Removes an object, if it is there.
fn remove(path: &str) -> Result<()> {
    let answer = http::request(PROXY, "DELETE", path, None)?;
    ensure!(matches!(answer.status, 200 | 404), "{}", answer.body);
    Ok(())
}

fn life(stage: &Stage, seed: u64) -> Result<()> {
    let mut play = Play {
        stage,
        dice: Dice(seed),
        seed,
        plain: Plain::new(4),
        number: 0,
        log: Vec::new(),
    };
    topology(&stage.cluster, &wanted(4))?;
    let mut controller = Some(play.controller()?);
    play.agree().context("at the beginning")?;
    for step in 0..STEPS {
        let outcome = play.step(&mut controller);
        let outcome = outcome.and_then(|()| play.agree());
        outcome.with_context(|| format!("step {step} of {:?}", play.log))?;
    }
    // All go, so that the next life begins with none.
    for name in play.plain.living() {
        play.remove(&name)?;
    }
    play.agree().context("at the end")
}

fn wanted(gpus: usize) -> String {
    format!(
        "pools:\n  gpu: {{ model: t4, gpus: {gpus}, virtual-nodes: {} }}\n",
        NODES.len()
    )
}

/// Numbers that look like chance, the same for a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }
}

/// The slow and plain allocator: lists of GPUs, looked through from the start every time.
struct Plain {
    /// GPUs that there are to be on each node.
    count: usize,
    nodes: BTreeMap<String, Vec<Option<String>>>,
    pods: BTreeMap<String, (String, bool)>,
}

impl Plain {
    fn new(count: usize) -> Plain {
        let nodes = NODES.map(|node| (node.to_owned(), vec![None; count]));
        Plain {
            count,
            nodes: nodes.into(),
            pods: BTreeMap::new(),
        }
    }

    fn create(&mut self, name: &str, node: &str, gpus: usize) {
        let list = self.nodes.entry(node.to_owned()).or_default();
        let free: Vec<usize> = (0..self.count.min(list.len()))
            .filter(|at| list[*at].is_none())
            .collect();
        let runs = free.len() >= gpus;
        for at in free.into_iter().take(if runs { gpus } else { 0 }) {
            list[at] = Some(name.to_owned());
        }
        self.pods.insert(name.to_owned(), (node.to_owned(), runs));
    }

    fn release(&mut self, name: &str) {
        for gpu in self.nodes.values_mut().flatten() {
            if gpu.as_deref() == Some(name) {
                *gpu = None;
            }
        }
        self.shrink();
    }

    fn remove(&mut self, name: &str) {
        self.release(name);
        self.pods.remove(name);
    }

    fn resize(&mut self, count: usize) {
        self.count = count;
        self.shrink();
    }

    /// GPUs beyond the number go when they and all after them are free.
    fn shrink(&mut self) {
        for list in self.nodes.values_mut() {
            while list.len() > self.count && list.last().is_some_and(Option::is_none) {
                list.pop();
            }
            if list.len() < self.count {
                list.resize(self.count, None);
            }
        }
    }

    fn living(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }
}

struct Play<'a> {
    stage: &'a Stage,
    dice: Dice,
    seed: u64,
    plain: Plain,
    number: u32,
    log: Vec<String>,
}

impl Play<'_> {
    fn controller(&self) -> Result<Controller> {
        self.stage.controller(FIRST)
    }

    fn step(&mut self, controller: &mut Option<Controller>) -> Result<()> {
        match self.dice.below(8) {
            0..=2 => self.come(),
            3 | 4 => self.go(),
            5 => self.lose_document(),
            6 => {
                let gpus = 1 + self.dice.below(6);
                self.log.push(format!("{gpus} GPUs"));
                self.plain.resize(gpus);
                topology(&self.stage.cluster, &wanted(gpus))
            }
            _ => {
                self.log.push("controller away".into());
                if let Some(running) = controller.take() {
                    running.kill()?;
                }
                self.go()?;
                self.come()?;
                if self.dice.below(2) == 0 {
                    self.lose_document()?;
                }
                self.log.push("controller back".into());
                *controller = Some(self.controller()?);
                Ok(())
            }
        }
    }

    /// Pods come, in the order of their names.
    fn come(&mut self) -> Result<()> {
        for _ in 0..=self.dice.below(3) {
            self.number += 1;
            let name = format!("r{}-{:03}", self.seed, self.number);
            let node = NODES[self.dice.below(NODES.len())];
            let gpus = self.dice.below(4);
            self.log.push(format!("{name} on {node} with {gpus}"));
            let limits = json!({ "nvidia.com/gpu": gpus.to_string() });
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": {
                    "nodeName": node,
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{ "name": "main", "image": "none", "resources": { "limits": limits } }],
                },
            });
            self.stage
                .cluster
                .send("POST", PODS, "application/json", &pod)?;
            self.plain.create(&name, node, gpus);
        }
        Ok(())
    }

    /// Pods go: told to, by force, or by themselves.
    fn go(&mut self) -> Result<()> {
        for _ in 0..=self.dice.below(3) {
            let living = self.plain.living();
            if living.is_empty() {
                return Ok(());
            }
            let name = living[self.dice.below(living.len())].clone();
            let path = format!("{PODS}/{name}");
            match self.dice.below(3) {
                0 => {
                    self.log.push(format!("{name} is deleted"));
                    self.remove(&name)?;
                }
                1 => {
                    self.log.push(format!("{name} is gone"));
                    remove(&format!("{path}?gracePeriodSeconds=0"))?;
                    self.plain.remove(&name);
                }
                _ => {
                    self.log.push(format!("{name} ends"));
                    let ended = json!({ "status": { "phase": "Succeeded" } });
                    let kind = "application/merge-patch+json";
                    self.stage
                        .cluster
                        .send("PATCH", &format!("{path}/status"), kind, &ended)?;
                    self.plain.release(&name);
                    if let Some(pod) = self.plain.pods.get_mut(&name) {
                        pod.1 = false;
                    }
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        remove(&format!("{PODS}/{name}"))?;
        self.plain.remove(name);
        Ok(())
    }

    fn lose_document(&mut self) -> Result<()> {
        let node = NODES[self.dice.below(NODES.len())];
        self.log.push(format!("document of {node} is deleted"));
        remove(&document(node))
    }

    /// Waits until the cluster says what the plain allocator says.
    fn agree(&self) -> Result<()> {
        for (node, expected) in &self.plain.nodes {
            until(&format!("agreement on {node}: {expected:?}"), || {
                let Some(held) = holders(&self.stage.cluster, node)? else {
                    return Ok(Err("no document".to_owned()));
                };
                let expected: Vec<String> = expected
                    .iter()
                    .map(|pod| pod.clone().unwrap_or_default())
                    .collect();
                let said = self.stage.cluster.find(&format!("/api/v1/nodes/{node}"))?;
                let said =
                    said.unwrap_or_default()["status"]["allocatable"]["nvidia.com/gpu"].clone();
                let same = held == expected && said == json!(self.plain.count.to_string());
                Ok(if same {
                    Ok(())
                } else {
                    Err(format!("{held:?}, {said} to give"))
                })
            })?;
        }
        for (name, (_, runs)) in &self.plain.pods {
            self.stage.cluster.until_pod(name, "settled phase", |pod| {
                let phase = pod["status"]["phase"].as_str()?;
                let settled = if *runs {
                    phase == "Running"
                } else {
                    matches!(phase, "Failed" | "Succeeded")
                };
                settled.then_some(())
            })?;
        }
        until("end of pods that went", || {
            let list = self.stage.cluster.find(PODS)?.context("no list of pods")?;
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let name = |pod: &Value| {
                pod["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let left: Vec<String> = items.iter().map(name).collect();
            Ok(if left == self.plain.living() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_in_use_outlast_their_number() {
        let mut plain = Plain::new(4);
        plain.create("a", "gpu-0", 1);
        plain.create("b", "gpu-0", 2);
        plain.resize(1);
        assert_eq!(plain.nodes["gpu-0"].len(), 3);
        plain.create("c", "gpu-0", 1);
        assert!(!plain.pods["c"].1);
        plain.remove("b");
        assert_eq!(plain.nodes["gpu-0"], [Some("a".to_owned())]);
    }
}
