//! The cloud a node looks like: labels, taints and size by which that provider's GPU nodes are recognised.
//!
//! One data file each, with its sources. `{pool}` and `{count}` (of GPUs) in a label's value stand for the node's own, whatever else for
//! what the file says of its machine; a label whose value has none of what it stands for is left out.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mirage_model::plan::NodePlan;
use mirage_model::yaml::{self, Node};
use serde_json::{Value, json};

/// Name and text of every flavour.
static FILES: [(&str, &str); 3] = [
    ("aks", include_str!("../data/flavours/aks.yaml")),
    ("eks", include_str!("../data/flavours/eks.yaml")),
    ("gke", include_str!("../data/flavours/gke.yaml")),
];
static FLAVOURS: [OnceLock<Flavour>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
static NONE: Flavour = Flavour {
    labels: Vec::new(),
    taints: Vec::new(),
    machines: Vec::new(),
};

/// How many GPUs, cores and bytes a node has that looks like no cloud's.
const SHAPE: [(&str, &str); 4] = [
    ("cpu", "96"),
    ("memory", "1024Gi"),
    ("pods", "110"),
    ("ephemeral-storage", "1024Gi"),
];

/// What the GPU nodes of a cloud are like.
#[derive(Debug, Default)]
pub struct Flavour {
    labels: Vec<(String, String)>,
    taints: Vec<Value>,
    machines: Vec<Machine>,
}

/// A type of machine.
#[derive(Debug)]
struct Machine {
    model: String,
    gpus: u64,
    /// `type`, `cpu`, `memory`, and whatever labels tell.
    facts: BTreeMap<String, String>,
}

/// The flavour of a node's pool.
pub fn of(plan: &NodePlan) -> &'static Flavour {
    let wanted = plan
        .extras
        .as_ref()
        .and_then(|extras| extras.flavour.as_deref());
    let found = FILES.iter().position(|(name, _)| Some(*name) == wanted);
    found.map_or(&NONE, |at| {
        FLAVOURS[at].get_or_init(|| read(FILES[at].1).expect("a test reads every file"))
    })
}

impl Flavour {
    /// The machine with as many GPUs of the model, or else any of the model.
    fn machine(&self, plan: &NodePlan) -> Option<&Machine> {
        let model = &plan.gpus.first()?.board.key;
        let same = || {
            self.machines
                .iter()
                .filter(|machine| machine.model == *model)
        };
        let exact = same().find(|machine| machine.gpus == plan.gpus.len() as u64);
        exact.or_else(|| same().next_back())
    }

    /// Labels of a node.
    pub fn labels(&self, plan: &NodePlan) -> BTreeMap<String, String> {
        let machine = self.machine(plan);
        let own = |what: &str| match what {
            "pool" => plan.pool.as_deref().map(str::to_owned),
            "count" => Some(plan.gpus.len().to_string()),
            fact => machine.and_then(|machine| machine.facts.get(fact).cloned()),
        };
        let labels = self.labels.iter();
        labels
            .filter_map(|(key, form)| Some((key.clone(), filled(form, own)?)))
            .collect()
    }

    /// Taints of a node.
    pub fn taints(&self, _plan: &NodePlan) -> Vec<Value> {
        self.taints.clone()
    }

    /// Cores, memory and the like of a node.
    pub fn shape(&self, plan: &NodePlan) -> BTreeMap<String, String> {
        let mut shape: BTreeMap<String, String> = SHAPE
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
            .collect();
        if let Some(machine) = self.machine(plan) {
            for name in ["cpu", "memory"] {
                if let Some(amount) = machine.facts.get(name) {
                    shape.insert(name.to_owned(), amount.clone());
                }
            }
        }
        shape
    }
}

/// A value with what it stands for filled in; `None` where that is not known.
fn filled(form: &str, own: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut value = String::new();
    let mut rest = form;
    while let Some((before, after)) = rest.split_once('{') {
        let (what, after) = after.split_once('}')?;
        value.push_str(before);
        value.push_str(&own(what)?);
        rest = after;
    }
    value.push_str(rest);
    Some(value)
}

fn read(text: &str) -> Option<Flavour> {
    let root = yaml::parse(text).ok()?;
    let labels = root.get("labels")?.entries()?.iter();
    let labels: Option<_> = labels
        .map(|(key, value)| Some((key.text.clone(), value.text()?.to_owned())))
        .collect();
    let taints = root.get("taints")?.items()?.iter().map(|taint| {
        let part = |key| Some(taint.get(key)?.text()?.to_owned());
        Some(json!({ "key": part("key")?, "value": part("value")?, "effect": part("effect")? }))
    });
    let taints: Option<_> = taints.collect();
    let machines: Option<_> = root.get("machines")?.items()?.iter().map(machine).collect();
    Some(Flavour {
        labels: labels?,
        taints: taints?,
        machines: machines?,
    })
}

fn machine(node: &Node) -> Option<Machine> {
    let facts = node.entries()?.iter();
    let facts = facts.filter_map(|(key, value)| Some((key.text.clone(), value.text()?.to_owned())));
    Some(Machine {
        model: node.get("model")?.text()?.to_owned(),
        gpus: node.get("gpus")?.u64()?,
        facts: facts.collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use mirage_model::catalogue;
    use mirage_model::config::{self, Defaults};

    use super::*;

    fn node(flavour: &str, model: &str, gpus: u32) -> NodePlan {
        let text = format!(
            "pools:\n  gpu: {{ model: {model}, gpus: {gpus}, virtual-nodes: 1, flavour: {flavour} }}\n"
        );
        let loaded = config::load(&text, "test", &Defaults::default()).unwrap();
        loaded.plan.nodes[0].clone()
    }

    #[test]
    fn every_file_can_be_read_and_names_models_there_are() {
        for (name, text) in FILES {
            let flavour = read(text).unwrap();
            assert!(!flavour.labels.is_empty(), "{name}");
            for machine in &flavour.machines {
                assert!(
                    catalogue::board(&machine.model).is_some(),
                    "{name}: {}",
                    machine.model
                );
                for fact in ["type", "cpu", "memory"] {
                    assert!(
                        machine.facts.contains_key(fact),
                        "{name}: {}",
                        machine.model
                    );
                }
            }
            // Whatever a label stands for is known of every machine.
            for (key, form) in &flavour.labels {
                for machine in &flavour.machines {
                    let own = |what: &str| match what {
                        "pool" | "count" => Some(String::new()),
                        fact => machine.facts.get(fact).cloned(),
                    };
                    assert!(
                        filled(form, own).is_some(),
                        "{name}: {key} of {}",
                        machine.model
                    );
                }
            }
        }
    }

    #[test]
    fn nodes_look_like_the_clouds() {
        for (flavour, model, gpus, key, value) in [
            (
                "eks",
                "h100-sxm5-80gb",
                8,
                "node.kubernetes.io/instance-type",
                "p5.48xlarge",
            ),
            (
                "eks",
                "a100-sxm4-40gb",
                8,
                "k8s.amazonaws.com/accelerator",
                "nvidia-a100",
            ),
            (
                "eks",
                "t4",
                4,
                "node.kubernetes.io/instance-type",
                "g4dn.12xlarge",
            ),
            ("eks", "t4", 4, "eks.amazonaws.com/nodegroup", "gpu"),
            (
                "gke",
                "a100-sxm4-40gb",
                1,
                "node.kubernetes.io/instance-type",
                "a2-highgpu-1g",
            ),
            (
                "gke",
                "t4",
                1,
                "cloud.google.com/gke-accelerator",
                "nvidia-tesla-t4",
            ),
            (
                "gke",
                "h100-sxm5-80gb",
                8,
                "cloud.google.com/gke-accelerator-count",
                "8",
            ),
            (
                "aks",
                "a100-sxm4-80gb",
                8,
                "kubernetes.azure.com/accelerator",
                "nvidia",
            ),
        ] {
            let node = node(flavour, model, gpus);
            let labels = of(&node).labels(&node);
            assert_eq!(
                labels.get(key).map(String::as_str),
                Some(value),
                "{flavour} {model}"
            );
        }
        let gke = node("gke", "t4", 1);
        assert_eq!(of(&gke).taints(&gke)[0]["key"], "nvidia.com/gpu");
        assert_eq!(of(&gke).shape(&gke)["cpu"], "4");
    }

    #[test]
    fn what_a_cloud_does_not_have_is_left_out() {
        let odd = node("gke", "mi300x", 8);
        let labels = of(&odd).labels(&odd);
        assert!(!labels.contains_key("node.kubernetes.io/instance-type"));
        assert_eq!(labels["cloud.google.com/gke-nodepool"], "gpu");
        let plain = node("none", "t4", 1);
        assert!(of(&plain).labels(&plain).is_empty());
        assert_eq!(of(&plain).shape(&plain)["pods"], "110");
    }
}
