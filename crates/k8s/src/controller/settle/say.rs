//! What is said on the node object: labels, annotations, resources, health; and only what is not said there already.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mirage_model::plan::NodePlan;
use serde_json::{Value, json};

use super::{Controller, cut};
use crate::allocate::{self, Slot};
use crate::cluster::node::Labels;
use crate::controller::body::{self, Said, Write};
use crate::controller::seen::{Node, fingerprint};
use crate::controller::{LEAVING, VIRTUAL, is_virtual};
use crate::{flavour, migconfig};

/// The version of a kubelet that a node without one shows.
const KUBELET: &str = "v1.34.0";

/// What was last asked of the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    node: Asking,
    cordon: Asking,
}

/// One object as it was last thought of: what tells its body from others, the version it was thought of, and whether it was written.
#[derive(Debug, Clone, Default)]
struct Asking(Option<(u64, String, bool)>);

impl Asking {
    /// Whether to ask for `body`, which stands there already if `reflected`.
    fn ask(&mut self, body: &Value, version: &str, reflected: bool) -> bool {
        let mut hasher = DefaultHasher::new();
        body.to_string().hash(&mut hasher);
        let body = hasher.finish();
        let (same, told, written) = match &self.0 {
            None => (true, true, false),
            Some((before, asked, written)) => {
                (*before == body || !written, asked != version, *written)
            }
        };
        // Until the server tells of what was written, asking again would only cost.
        let settled = reflected || written && !told;
        let ask = !(same && settled);
        if ask || reflected {
            self.0 = Some((body, version.to_owned(), ask || written));
        }
        ask
    }
}

/// What is to be said about a node.
pub(super) struct Saying<'a> {
    /// Its GPUs, those that are drained left out.
    pub(super) plan: &'a NodePlan,
    pub(super) node: &'a Node,
    pub(super) slots: &'a [Slot],
    pub(super) answer: cut::Answer,
    /// Labels that follow from what is simulated.
    pub(super) labels: Option<&'a Labels>,
}

impl Controller {
    /// Labels that follow from the plan alone.
    fn base_labels(&self, plan: &NodePlan) -> Labels {
        let mut labels = Labels::new();
        let mut put = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
        if is_virtual(plan) {
            put("kubernetes.io/hostname", &plan.name);
            put("kubernetes.io/os", "linux");
            put("kubernetes.io/arch", "amd64");
            put(VIRTUAL, "true");
            if let (Some(wanted), Some(pool)) = (&self.wanted, &plan.pool) {
                put(&wanted.plan.pool_label, pool);
            }
        }
        if self.settings.labels {
            if let Some(gpu) = plan.gpus.first() {
                put("nvidia.com/gpu.present", "true");
                put("nvidia.com/gpu.product", &gpu.board.product);
                put(
                    "nvidia.com/gpu.memory",
                    &gpu.board.memory_total_mib.to_string(),
                );
            }
            put("nvidia.com/gpu.count", &plan.gpus.len().to_string());
            put("nvidia.com/mig.strategy", self.strategy());
            put("nvidia.com/gpu.deploy.dcgm-exporter", "true");
            put("run.ai/fake.gpu", "true");
        }
        labels.extend(flavour::of(plan).labels(plan));
        labels
    }

    pub(super) fn node_write(&self, saying: Saying<'_>, written: &mut Written) -> Option<Write> {
        let Saying {
            plan, node, answer, ..
        } = saying;
        let mut labels = self.base_labels(plan);
        if self.settings.labels {
            labels.extend(saying.labels.cloned().unwrap_or_default());
        }
        let mut annotations = Labels::new();
        labels.extend(
            answer
                .state
                .map(|state| (migconfig::STATE.to_owned(), state.to_owned())),
        );
        annotations.extend(
            answer
                .mapping
                .map(|mapping| (migconfig::MAPPING.to_owned(), mapping)),
        );
        if node.is_ours() {
            annotations.insert(VIRTUAL.into(), "true".into());
        }
        let resources = resources(plan, node, saying.slots);
        let alive = node.is_ours() || node.is_kwok() && self.settings.keeps_kwok;
        let said = Said {
            name: &plan.name,
            labels: &labels,
            annotations: &annotations,
            resources: &resources,
            alive: alive.then_some(KUBELET),
            refusal: self.refusal.as_deref(),
        };
        let stands = |wanted: &Labels, seen: &Labels| {
            wanted
                .iter()
                .all(|(key, value)| seen.get(key) == Some(value))
        };
        // The server writes amounts with units in its own way; only devices are counted exactly.
        let same = |seen: &BTreeMap<String, String>| {
            let is = |(name, amount): (&String, &String)| match seen.get(name) {
                Some(stands) => !name.contains('/') || stands == amount,
                None => false,
            };
            resources.iter().all(is)
        };
        let (follows, _, words) = said.follows();
        // Whatever was said before and is not any more has to be taken back, also if it was said by an earlier process.
        let keys = fingerprint(
            [&labels, &annotations, &resources, &resources]
                .map(|said| said.keys().map(String::as_str)),
        );
        let reflected = node.spoken.is_none_or(|spoken| spoken == keys)
            && stands(&labels, &node.labels)
            && stands(&annotations, &node.annotations)
            && same(&node.capacity)
            && same(&node.allocatable)
            && (node.follows.0 == follows && node.follows.1 == words)
            && (!alive || node.is_ready);
        let body = said.body();
        let ask = written.node.ask(&body, &node.version, reflected);
        ask.then(|| Write::Node {
            node: plan.name.to_string(),
            body,
        })
    }

    /// Sees to it that no pods go to a node that is to go. One that its administrator has cordoned is left so.
    pub(super) fn cordon_write(
        &self,
        name: &str,
        node: &Node,
        is_leaving: bool,
        written: &mut Written,
    ) -> Option<Write> {
        let marked = node.annotations.contains_key(LEAVING);
        let reflected = marked == is_leaving && (!is_leaving || node.is_cordoned);
        let body = body::cordon(name, is_leaving);
        let ask = written.cordon.ask(&body, &node.version, reflected);
        ask.then(|| Write::Cordon {
            node: name.to_owned(),
            body,
        })
    }
}

/// The GPUs of a node as its labels tell them, in the words of its document.
pub(super) fn described(node: &Node) -> Option<String> {
    let label = |key: &str| node.labels.get(&format!("nvidia.com/gpu.{key}"));
    let memory: u64 = label("memory")?.parse().ok()?;
    let count: u32 = label("count")?.parse().ok()?;
    let told =
        json!({ "gpu-product": label("product")?, "gpu-memory": memory, "gpu-count": count });
    Some(told.to_string())
}

/// Sees to it that no pods go to a node of which nothing else is known.
pub(super) fn cordoned(name: &str, node: &Node) -> Option<Write> {
    let stands = node.annotations.contains_key(LEAVING) && node.is_cordoned;
    (!stands).then(|| Write::Cordon {
        node: name.to_owned(),
        body: body::cordon(name, true),
    })
}

fn resources(plan: &NodePlan, node: &Node, slots: &[Slot]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::from([(allocate::GPU.to_owned(), 0)]);
    for slot in slots {
        *counts.entry(slot.resource.clone()).or_default() += 1;
    }
    for (name, count) in plan.extras.iter().flat_map(|extras| &extras.resources) {
        counts.insert(name.clone(), *count);
    }
    let mut resources: BTreeMap<String, String> = counts
        .into_iter()
        .map(|(name, count)| (name, count.to_string()))
        .collect();
    if node.is_ours() {
        resources.extend(flavour::of(plan).shape(plan));
    }
    resources
}
