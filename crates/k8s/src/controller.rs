//! The cluster: which nodes there are to be, which of their devices each pod has, and the objects in the API server
//! that say so.
//!
//! | Module | What it does |
//! |---|---|
//! | [`seen`] | nodes, pods and documents as the API server last told them |
//! | [`settle`] | from all that, what ought to be written about one node: a pure function |
//! | [`phase`] | the same about one pod of a node without a kubelet |
//! | [`queue`] | what is to be looked at, when, and again after a failure |
//! | [`lease`] | which of several controllers acts |
//! | [`run`] | watches, leases and writes |
//!
//! Nothing is decided by events: they only say what to look at again. Nothing is written that stands there already.

pub mod body;
pub mod lease;
pub mod phase;
pub mod queue;
pub mod run;
pub mod seen;
pub mod settle;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mirage_model::config::{self, Defaults};
use mirage_model::plan::{MigStrategy, NodePlan, Plan, PoolPlan};
use mirage_model::yaml;

use crate::migconfig::Ids;
use crate::topology::{Cluster, Other, Pool, Style};

/// Name under which the controller writes into the API server.
pub const MANAGER: &str = "mirage-controller";
/// Annotation of nodes that mirage made and keeps alive, `true`. Also the key of their taint, and of a label by which pods that must really
/// run keep away where there is no taint.
pub const VIRTUAL: &str = "mirage.dev/virtual-node";

/// Annotation of such a node that is to go when its pods have, `true`.
pub const LEAVING: &str = "mirage.dev/leaving";

/// How a controller behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Namespace of the topology's ConfigMaps and of the lease.
    pub namespace: String,
    /// Name of the ConfigMap that says what there is to be.
    pub document: String,
    /// How keys of documents are spelled.
    pub style: Style,
    /// Namespace of pods that reserve GPUs for others.
    pub reservations: String,
    /// Which number stands for a MIG device in a mapping.
    pub ids: Ids,
    /// Keep alive nodes with KWOK's annotation too, for clusters where KWOK does not run.
    pub keeps_kwok: bool,
    /// Put a taint on nodes made by mirage, so that only pods that tolerate it go there.
    pub taints: bool,
    /// Write labels on nodes.
    pub labels: bool,
    /// Somebody works out further labels from what is simulated; a node is not spoken about before.
    pub awaits_labels: bool,
    /// Who this controller is among several.
    pub identity: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "gpu-operator".into(),
            document: crate::topology::CLUSTER.into(),
            style: Style::Kebab,
            reservations: "runai-reservation".into(),
            ids: Ids::Instance,
            keeps_kwok: false,
            taints: true,
            labels: true,
            awaits_labels: false,
            identity: "mirage".into(),
        }
    }
}

/// What there is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Pools and nodes.
    pub plan: Plan,
    /// Position of a node by name.
    names: HashMap<Arc<str>, usize>,
}

/// Whether a document speaks of pools, be it of none. One that was emptied by mistake must not take a cluster with it.
fn has_pools(text: &str) -> bool {
    yaml::parse(text).is_ok_and(|root| root.get("pools").is_some())
}

/// The machine a document means that names no node; the controller is no node.
const NOBODY: &str = "no-node-of-this-name";

impl Wanted {
    /// Reads a cluster's document, in any of the languages that mirage reads. The message names the line.
    pub fn read(text: &str, name: &str) -> Result<Wanted, String> {
        let defaults = Defaults {
            host: NOBODY.into(),
            ..Defaults::default()
        };
        let loaded =
            config::load(text, name, &defaults).map_err(|problems| problems.to_string())?;
        let mut plan = loaded.plan;
        let named = plan.nodes.len();
        plan.nodes.retain(|node| &*node.name != NOBODY);
        if plan.nodes.len() < named && plan.pools.is_empty() && !has_pools(text) {
            return Err(format!(
                "{name}:1: it names neither pools nor nodes; write `pools: {{}}` if there are to be none"
            ));
        }
        let names = plan.nodes.iter().enumerate();
        let names = names.map(|(at, node)| (node.name.clone(), at)).collect();
        Ok(Wanted { plan, names })
    }

    /// A pool by name.
    pub fn pool(&self, name: &str) -> Option<&PoolPlan> {
        self.plan.pools.iter().find(|pool| &*pool.name == name)
    }

    /// What a node of the cluster is to be like: as written of it, or as its pool says.
    pub fn node(&self, name: &str, pool: Option<&str>) -> Option<NodePlan> {
        let written = self.written(name).cloned();
        written.or_else(|| Some(self.pool(pool?)?.node(name)))
    }

    fn written(&self, name: &str) -> Option<&NodePlan> {
        self.plan.nodes.get(*self.names.get(name)?)
    }

    /// Nodes that mirage itself makes.
    pub fn virtual_nodes(&self) -> impl Iterator<Item = &NodePlan> {
        self.plan.nodes.iter().filter(|node| is_virtual(node))
    }

    /// Whether mirage makes the node of this name.
    pub fn makes(&self, name: &str) -> bool {
        self.written(name).is_some_and(is_virtual)
    }
}

/// Whether no kubelet keeps the node.
pub(crate) fn is_virtual(node: &NodePlan) -> bool {
    node.extras
        .as_ref()
        .is_some_and(|extras| extras.without_kubelet)
}

impl Wanted {
    /// The cluster's own document, as a topology server shows it: pools, without what its nodes do.
    pub fn cluster(&self) -> Cluster {
        let pools = self.plan.pools.iter().map(|pool| {
            let board = pool.gpus.first().map(|gpu| &gpu.board);
            let others = pool.extras.iter().flat_map(|extras| &extras.resources);
            let pool_of = Pool {
                product: board.map_or_else(String::new, |board| board.product.clone()),
                count: u32::try_from(pool.gpus.len()).unwrap_or(u32::MAX),
                memory_mib: board.map_or(0, |board| board.memory_total_mib),
                others: others
                    .map(|(name, count)| Other {
                        name: name.clone(),
                        count: *count,
                    })
                    .collect(),
            };
            (pool.name.to_string(), pool_of)
        });
        Cluster {
            mig_strategy: self.strategy().into(),
            pool_label: self.plan.pool_label.clone(),
            pools: pools.collect(),
            nodes: BTreeMap::new(),
        }
    }

    /// How MIG devices are offered, in a word.
    pub fn strategy(&self) -> &'static str {
        match self.plan.mig_strategy {
            MigStrategy::None => "none",
            MigStrategy::Single => "single",
            MigStrategy::Mixed => "mixed",
        }
    }
}
