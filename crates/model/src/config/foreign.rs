//! Topology documents of other tools, read unchanged.
//!
//! Three shapes: the GPU Mock and MIG designs' topology (`nodes.<name>.gpus[].metrics`),
//! fake-gpu-operator's cluster (`nodePools`), and its single node (`gpuProduct`, `gpus`).
//! Keys may be written `gpu-memory`, `gpuMemory` or `GpuMemory`. What these documents say
//! beyond what mirage simulates is a warning, not an error.

mod keys;
mod node;
mod pools;
mod product;
mod usage;

use super::fleet::Roster;
use super::fleet::boards::Boards;
use super::{Defaults, Draft, node_name, strategy};
use crate::plan::{Plan, WorkloadPlan};
use crate::yaml::{Node, Problem};
use keys::{find, strangers};

/// Which tool's document it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `nodes` with facts about each GPU.
    Topology,
    /// `nodePools`.
    Pools,
    /// One node's GPUs.
    Node,
}

/// Keys that only our own language has at its top.
const OWN: &[&str] = &["seed", "tick", "driver", "pools", "workloads", "faults"];
/// Keys of a node that only the topology documents have.
const TOPOLOGY: &[&str] = &["gpumemory", "gpuproduct", "gpucount", "isdynamicmigenabled"];
/// Keys of a GPU that only the topology documents have.
const GPU: &[&str] = &["metrics", "status", "migdevices"];

/// The dialect, unless the document is in our own language.
pub(super) fn recognise(root: &Node) -> Option<Dialect> {
    let entries = root.entries()?;
    if pools::body(root).is_some() {
        return Some(Dialect::Pools);
    }
    if entries
        .iter()
        .any(|(key, _)| OWN.contains(&key.text.as_str()))
    {
        return None;
    }
    if let Some((_, nodes)) = find(root, "nodes") {
        let nodes = nodes.entries()?;
        let foreign = nodes.iter().any(|(_, node)| {
            let gpus = find(node, "gpus").and_then(|(_, gpus)| gpus.items());
            has(node, TOPOLOGY) || gpus.unwrap_or(&[]).iter().any(|gpu| has(gpu, GPU))
        });
        return foreign.then_some(Dialect::Topology);
    }
    has(root, TOPOLOGY).then_some(Dialect::Node)
}

fn has(node: &Node, keys: &[&str]) -> bool {
    keys.iter().any(|key| find(node, key).is_some())
}

/// A document inside a ConfigMap manifest: its key, its text, and the node it speaks of.
pub(super) fn wrapped(root: &Node) -> Option<(&str, &str, Option<&str>)> {
    if root.get("kind")?.text()? != "ConfigMap" {
        return None;
    }
    let data = root.get("data")?.entries()?;
    const KNOWN: [&str; 4] = [
        "topology.yml",
        "topology.yaml",
        "mirage.yaml",
        "config.yaml",
    ];
    let known = data
        .iter()
        .find(|(key, _)| KNOWN.contains(&key.text.as_str()));
    let (key, value) = match (known, data) {
        (Some(known), _) => known,
        (None, [only]) => only,
        _ => return None,
    };
    let labels = root.get("metadata").and_then(|meta| meta.get("labels"));
    let node = labels.and_then(|labels| labels.get("node-name"));
    Some((&key.text, value.text()?, node.and_then(Node::text)))
}

/// Everything a foreign document's parts add to.
struct Reading<'d> {
    defaults: &'d Defaults,
    boards: Boards,
    workloads: Vec<WorkloadPlan>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// Reads a document of this dialect.
pub(super) fn read(dialect: Dialect, root: &Node, defaults: &Defaults) -> Draft {
    let mut plan = Plan::empty(defaults.seed);
    let mut reading = Reading {
        defaults,
        boards: Boards::default(),
        workloads: Vec::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let body = match dialect {
        Dialect::Pools => pools::body(root).unwrap_or(root),
        _ => root,
    };
    if let Some((_, node)) = find(body, "migstrategy") {
        match node.text() {
            Some(word @ ("none" | "single" | "mixed")) => plan.mig_strategy = strategy(word),
            _ => {
                let message = "the MIG strategy is `none`, `single` or `mixed`";
                reading.problems.push(Problem::new(node.span, message));
            }
        }
    }
    match dialect {
        Dialect::Topology => reading.topology(root, &mut plan),
        Dialect::Pools => reading.pools(body, &mut plan),
        Dialect::Node => {
            strangers(
                root,
                &[node::KEYS, &["migstrategy"]].concat(),
                &mut reading.warnings,
            );
            let mut roster = Roster::new(&mut plan);
            let host = node_name(&defaults.host);
            reading.node(root, &host, root.span, &mut roster);
        }
    }
    plan.workloads = reading.workloads;
    Draft {
        plan,
        problems: reading.problems,
        warnings: reading.warnings,
    }
}

impl Reading<'_> {
    fn topology(&mut self, root: &Node, plan: &mut Plan) {
        strangers(root, &["migstrategy", "nodes"], &mut self.warnings);
        let mut roster = Roster::new(plan);
        let nodes = find(root, "nodes").and_then(|(_, nodes)| nodes.entries());
        for (name, node) in nodes.unwrap_or(&[]) {
            strangers(node, node::KEYS, &mut self.warnings);
            self.node(node, &name.text, name.span, &mut roster);
        }
    }
}
