//! The topology: which GPUs a cluster's nodes have and which pod uses which of them, as documents in ConfigMaps
//! carry it.
//!
//! One vocabulary, three spellings ([`Style`]): the GPU Mock and MIG designs' kebab-case, fake-gpu-operator's
//! camelCase, and the Go names its topology server answers with. Every spelling is read, whichever is written. What is written
//! depends on the value alone, byte for byte, so that an unchanged topology is an unchanged object.

mod read;
pub mod report;
#[cfg(test)]
mod tests;
mod write;
mod yaml;

pub use read::{read_cluster, read_node};
pub use write::Style;

use std::collections::BTreeMap;

/// Key of a ConfigMap under which its document is.
pub const KEY: &str = "topology.yml";
/// The cluster's document.
pub const CLUSTER: &str = "topology";
/// Label on the ConfigMaps of nodes, `true`.
pub const NODE_MARK: &str = "node-topology";
/// Label on the ConfigMap of a node: which.
pub const NODE_NAME: &str = "node-name";
/// Label on the ConfigMap of a node: who says what stands in it ([`Reporter`]). Whoever is not named there leaves it alone.
pub const REPORTED_BY: &str = "mirage.dev/reported-by";
/// Annotation of a node that no kubelet keeps alive.
pub const KWOK: &str = "kwok.x-k8s.io/node";

/// The name of a node's ConfigMap.
pub fn object_name(node: &str) -> String {
    format!("{CLUSTER}-{node}")
}

/// Who writes a node's document: there is one at a time, and nobody else touches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporter {
    /// The agent of a node that a kubelet keeps, which knows exactly who was given what.
    Node,
    /// The controller, for nodes that no kubelet keeps.
    Controller,
}

impl Reporter {
    /// The value of the label [`REPORTED_BY`].
    pub fn word(self) -> &'static str {
        match self {
            Reporter::Node => "node",
            Reporter::Controller => "controller",
        }
    }

    /// Who writes the document with these labels. Those without the label are from before there was one, or another
    /// program's, and the controller takes them over.
    pub fn of(labels: Option<&BTreeMap<String, String>>) -> Reporter {
        match labels.and_then(|labels| labels.get(REPORTED_BY)) {
            Some(word) if word == Reporter::Node.word() => Reporter::Node,
            _ => Reporter::Controller,
        }
    }

    /// The name under which it writes.
    fn manager(self) -> &'static str {
        match self {
            Reporter::Node => crate::cluster::MANAGER,
            Reporter::Controller => crate::controller::MANAGER,
        }
    }
}

/// The ConfigMap of a node, for server-side apply. It goes with its node, which has this UID.
pub fn object(
    reporter: Reporter,
    namespace: &str,
    node: &str,
    uid: &str,
    annotations: &BTreeMap<String, String>,
    text: &str,
) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": object_name(node),
            "namespace": namespace,
            "labels": {
                NODE_MARK: "true",
                NODE_NAME: node,
                REPORTED_BY: reporter.word(),
                "app.kubernetes.io/managed-by": reporter.manager(),
            },
            "annotations": annotations,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }],
        },
        "data": { KEY: text },
    })
}

/// A cluster: pools that nodes are made from, and nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    /// How `nvidia.com/mig.strategy` reads.
    pub mig_strategy: String,
    /// The node label that names a node's pool.
    pub pool_label: String,
    /// Pools by name.
    pub pools: BTreeMap<String, Pool>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Node>,
}

/// What the nodes of a pool are like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Product as GPU Feature Discovery labels it.
    pub product: String,
    /// GPUs of a node.
    pub count: u32,
    /// Memory of each in MiB.
    pub memory_mib: u64,
    /// Further devices, which have a number and nothing else.
    pub others: Vec<Other>,
}

/// Devices that are only counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Other {
    pub name: String,
    pub count: u32,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Memory of each GPU in MiB.
    pub memory_mib: u64,
    /// Product as GPU Feature Discovery labels it.
    pub product: String,
    /// Driver, where the document says it.
    pub driver: Option<String>,
    /// CUDA version, where the document says it.
    pub cuda: Option<String>,
    /// How `nvidia.com/mig.strategy` reads, where it is said of the node.
    pub mig_strategy: Option<String>,
    /// MIG instances come and go as its scheduler asks.
    pub dynamic_mig: bool,
    /// Further devices.
    pub others: Vec<Other>,
    /// GPUs by index.
    pub gpus: Vec<Gpu>,
}

/// One GPU of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpu {
    /// `GPU-…`.
    pub id: String,
    /// Who uses it; of no meaning while it is cut into MIG devices.
    pub status: Status,
    /// Its MIG devices; `None` for a GPU that is not in MIG mode.
    pub mig: Option<Vec<Mig>>,
}

/// One MIG device of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mig {
    /// `MIG-…`; absent until the mapping tells it.
    pub id: Option<String>,
    /// Profile, `1g.5gb`.
    pub name: String,
    /// First memory slice.
    pub position: Option<u32>,
    /// Who uses it.
    pub status: Status,
}

/// Who uses a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The container that was given the device; of a shared GPU, the one that reserves it.
    pub allocated_by: Option<Container>,
    /// How much of it each pod uses, by the pod's UID.
    pub usage: BTreeMap<String, Usage>,
}

/// A container by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[allow(missing_docs, reason = "Kubernetes' own names")]
pub struct Container {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// How much of a device a pod uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Least busy share, percent.
    pub min: u32,
    /// Largest busy share, percent.
    pub max: u32,
    /// Memory held, MiB.
    pub memory_mib: u64,
    /// Busy as its requests make it rather than by the range.
    pub inference: bool,
}

impl Status {
    /// Nobody uses it.
    pub fn is_free(&self) -> bool {
        self.allocated_by.is_none() && self.usage.is_empty()
    }
}
