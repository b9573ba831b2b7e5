//! What ought to be written about one node, from all that was seen.

mod cut;
mod pods;
mod say;
mod work;

pub(in crate::controller) use pods::RESERVED;
pub use work::Work;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mirage_model::board::Board;
use mirage_model::config::{self, Defaults};
use mirage_model::identity::Identity;
use mirage_model::plan::{GpuPlan, NodePlan};

use super::body::{self, Write};
use super::seen::{Node, Seen};
use super::{Settings, Wanted};
use crate::allocate::{Lack, Ledger, Pod, allocate, fill, recall, slots};
use crate::cluster::node::Labels;
use crate::cluster::tell::Complaint;
use crate::flavour;
use crate::inference::Rates;
use crate::topology::{self, Gpu, Other, Reporter};
use say::Written;

/// The controller's mind: what it saw, what it wants, and what it made of that.
#[derive(Debug, Default)]
pub struct Controller {
    /// How it behaves.
    pub settings: Settings,
    /// What there is to be; nothing until a document was read.
    pub wanted: Option<Wanted>,
    /// What was seen.
    pub seen: Seen,
    /// Labels that others work out, by node, with the shape of the node that they were worked out from.
    pub(super) labels: BTreeMap<String, (u64, Labels)>,
    /// Nobody works out labels at present: nodes are spoken about without.
    pub(super) labels_fail: bool,
    /// How many requests inference pods serve.
    pub rates: Rates,
    /// What is wrong with the topology's document; that before it is in force.
    pub refusal: Option<String>,
    /// Shapes of nodes so far.
    shapes: u64,
    /// What follows for each node that no kubelet keeps.
    pub(super) kept: BTreeMap<String, Kept>,
}

/// What was made of a node.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// What tells this plan from others that the node had.
    pub(super) shape: u64,
    pub(super) ledger: Ledger,
    /// Its GPUs as they are simulated, those that are drained included.
    plan: NodePlan,
    strategy: &'static str,
    document: topology::Node,
    /// Pods that cannot have what they ask for.
    pub(super) refused: BTreeMap<String, Lack>,
    /// Pods that were thought of.
    pub(super) considered: BTreeSet<String>,
    /// Those of them whose status was written.
    pub(super) told: BTreeSet<String>,
    /// Those of them whose status could not be written.
    pub(super) failed: BTreeSet<String>,
    /// What they and the node were told is wrong with what they say, by UID.
    pub(super) warned: BTreeSet<(String, Complaint)>,
    written: Written,
    /// Somebody else may have acted since: it is shown until it is worked out anew, and decides nothing.
    pub(super) is_past: bool,
}

impl Controller {
    /// A controller that has seen nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Every node there is reason to look at.
    pub fn names(&self) -> BTreeSet<String> {
        let made = self.wanted.iter().flat_map(Wanted::virtual_nodes);
        let made = made.map(|node| node.name.to_string());
        let seen = self
            .seen
            .nodes
            .keys()
            .chain(self.seen.documents.keys())
            .cloned();
        made.chain(seen).collect()
    }

    /// The document of a node: as it ought to stand, or as the node's own agent reports it.
    pub fn document(&self, node: &str) -> Option<Cow<'_, topology::Node>> {
        if let Some(text) = self.seen.reports.get(node) {
            return topology::read_node(text, node).ok().map(Cow::Owned);
        }
        let kept = self.kept.get(node)?;
        Some(Cow::Borrowed(&kept.document))
    }

    /// What is to be written about one node.
    pub fn settle(&mut self, name: &str) -> Vec<Write> {
        let Some(wanted) = &self.wanted else {
            // Nothing is known to be unwanted.
            return Vec::new();
        };
        let Some(node) = self.seen.nodes.get(name) else {
            self.kept.remove(name);
            self.labels.remove(name);
            return match wanted.node(name, None).filter(super::is_virtual) {
                Some(plan) => vec![self.make(&plan)],
                None => self.no_document(name),
            };
        };
        let pool = node.labels.get(&wanted.plan.pool_label).map(String::as_str);
        let is_ours = node.is_ours();
        let plan = match wanted.node(name, pool) {
            Some(plan) if !is_ours && !node.is_kwok() => {
                // A kubelet's node: its own agent knows best.
                let _ = plan;
                self.kept.remove(name);
                return Vec::new();
            }
            Some(plan) => plan,
            None if is_ours => match self.last(name) {
                Some(plan) => plan,
                None if self.is_empty(name) => return self.leave(name),
                // What it was is not known any more; its pods still are.
                None => return say::cordoned(name, node).into_iter().collect(),
            },
            None => {
                self.kept.remove(name);
                let mut writes = self.no_document(name);
                if !writes.is_empty() {
                    // First what was said on the node: as long as its document stands, that is known to be left.
                    let body = body::nothing(name);
                    let node = name.to_owned();
                    writes.insert(0, Write::Node { node, body });
                }
                return writes;
            }
        };
        let is_leaving = is_ours && !wanted.makes(name);
        let writes = self.keep(name, plan, is_leaving);
        if is_leaving && self.is_empty(name) {
            return self.leave(name);
        }
        writes
    }

    /// Works out a node as one who does not act: from what stands written alone, so that it always says what the acting one says.
    pub fn look_on(&mut self, node: &str) {
        if let Some(kept) = self.kept.get_mut(node) {
            kept.is_past = true;
        }
        self.settle(node);
    }

    /// Begins to act: what was known of an earlier time, in which somebody else may have acted since, does not count. It is shown on
    /// until then, for what runs on the nodes runs on.
    pub fn begin(&mut self) {
        for kept in self.kept.values_mut() {
            kept.is_past = true;
        }
    }

    /// A write about a node did not succeed: what was asked is not known to stand.
    pub fn forget(&mut self, node: &str) {
        if let Some(kept) = self.kept.get_mut(node) {
            kept.written = Written::default();
        }
    }

    /// A write succeeded; the server will tell of it, and until then it is known here.
    pub fn wrote(&mut self, write: &Write) {
        match write {
            Write::Document { node, body } => {
                let text = body["data"][topology::KEY].as_str().unwrap_or_default();
                self.seen.documents.insert(node.clone(), text.to_owned());
            }
            Write::NoDocument { node } => {
                self.seen.documents.remove(node);
            }
            Write::PodStatus {
                namespace,
                name,
                body,
            } => {
                let Some(bound) = self.seen.pod(namespace, name) else {
                    return;
                };
                let now = bound.after(body);
                if let Some(kept) = self.kept.get_mut(&now.node) {
                    kept.told.insert(now.pod.uid.clone());
                }
                self.seen.put_pod(now);
            }
            Write::Pod {
                namespace,
                name,
                body,
            } => {
                if let Some(bound) = self.seen.pod(namespace, name) {
                    let now = bound.after(body);
                    self.seen.put_pod(now);
                }
            }
            Write::NoPod {
                namespace,
                name,
                uid,
            } => self.seen.release(namespace, name, uid),
            Write::Warning {
                node,
                uid,
                complaint,
                ..
            } => {
                if let Some(kept) = self.kept.get_mut(node) {
                    kept.warned.insert((uid.clone(), complaint.clone()));
                }
            }
            _ => {}
        }
    }

    /// The status of a pod could not be written: its node's document waits for it no longer.
    pub fn stuck(&mut self, namespace: &str, name: &str) {
        let bound = self.seen.pod(namespace, name).cloned();
        if let Some(bound) = bound
            && let Some(kept) = self.kept.get_mut(&bound.node)
        {
            kept.failed.insert(bound.pod.uid.clone());
        }
    }

    /// Whether mirage says what becomes of a node's pods.
    pub(super) fn is_alive(&self, node: &Node) -> bool {
        node.is_ours() || node.is_kwok() && self.settings.keeps_kwok
    }

    /// Nodes that mirage keeps alive, with their UIDs. Those it made are, even while nothing can be made of them: a document that
    /// cannot be read after a restart must not cost every pod its node.
    pub fn alive(&self) -> Vec<(String, String)> {
        let nodes = self.seen.nodes.iter();
        let alive = nodes.filter(|(name, node)| {
            node.is_ours() || self.is_alive(node) && self.kept.contains_key(*name)
        });
        alive
            .map(|(name, node)| (name.clone(), node.uid.clone()))
            .collect()
    }

    /// A node that mirage makes, before it is there. Whoever changes its taints later has the last word.
    fn make(&self, plan: &NodePlan) -> Write {
        let spec = body::spec(&self.settings, &flavour::of(plan).taints(plan));
        Write::NewNode {
            node: plan.name.to_string(),
            body: body::new_node(&plan.name, spec),
        }
    }

    fn no_document(&self, name: &str) -> Vec<Write> {
        let stands = self.seen.documents.contains_key(name);
        let node = name.to_owned();
        stands
            .then_some(Write::NoDocument { node })
            .into_iter()
            .collect()
    }

    /// Whether nothing on a node keeps it there.
    fn is_empty(&self, name: &str) -> bool {
        let pods = self.seen.pods_of(name);
        pods.iter().all(|bound| bound.ended || bound.is_daemon)
    }

    fn leave(&mut self, name: &str) -> Vec<Write> {
        self.kept.remove(name);
        let mut writes = self.no_document(name);
        if let Some(node) = self.seen.nodes.get(name) {
            writes.push(Write::NoNode {
                node: name.to_owned(),
                uid: node.uid.clone(),
            });
        }
        writes
    }

    /// Works out a node that no kubelet keeps, and what of it does not stand there yet.
    fn keep(&mut self, name: &str, plan: NodePlan, is_leaving: bool) -> Vec<Write> {
        let node = self.seen.nodes.get(name).cloned().unwrap_or_default();
        let bound = self.seen.pods_of(name);
        let pods: Vec<Pod> = bound.iter().map(|bound| self.pod(bound)).collect();
        let last = self.kept.remove(name);
        // After a restart, or when another may have acted, what stands written is all that is known.
        let old = last.as_ref().filter(|last| !last.is_past);
        let standing = match old {
            Some(old) => Some(old.document.clone()),
            None => self.standing(name),
        };
        let before = match old {
            Some(old) => old.ledger.clone(),
            None => recall(standing.as_ref(), &pods),
        };
        let living: BTreeSet<&str> = pods
            .iter()
            .filter(|pod| !pod.ended)
            .map(|pod| &*pod.uid)
            .collect();
        let in_use = |gpu: u32| {
            let mut holds = before.iter();
            holds.any(|(place, hold)| place.gpu == gpu && living.contains(&*hold.uid))
        };
        let count = plan.gpus.len();
        let highest = before.keys().rev().find(|place| in_use(place.gpu));
        let needed = highest.map_or(0, |place| place.gpu as usize + 1);
        let was = match &last {
            Some(last) => Some(Cow::Borrowed(&last.plan)),
            None if needed > 0 => self.was(&plan, &node).map(Cow::Owned),
            None => None,
        };
        let plan = grown(plan, was.as_deref(), needed, in_use);
        let layout = cut::Layout::of(&node, &plan);
        let mut document = self.blank(&plan, &node);
        let before_cut = cut::Before {
            document: standing.as_ref(),
            in_use: &in_use,
        };
        let (plan, answer) = layout.cut(plan, &mut document, &before_cut, &node, self.settings.ids);
        let single = self.strategy() == "single";
        let slots = slots(&document, count, single);
        let allocation = allocate(&slots, &before, &pods);
        let board = plan.gpus.first().map(|gpu| &*gpu.board);
        fill(&mut document, board, &allocation.ledger, &pods);

        let strategy = self.strategy();
        let shape = match &last {
            Some(last) if last.strategy == strategy && same_node(&last.plan, &plan) => last.shape,
            _ => {
                self.shapes += 1;
                self.shapes
            }
        };
        let considered: BTreeSet<String> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let old = last.filter(|last| !last.is_past);
        let (written, mut told, mut failed, mut warned) = old
            .map(|old| (old.written, old.told, old.failed, old.warned))
            .unwrap_or_default();
        told.retain(|uid| considered.contains(uid));
        failed.retain(|uid| considered.contains(uid));
        warned.retain(|(uid, _)| considered.contains(uid) || *uid == node.uid);
        let mut kept = Kept {
            shape,
            ledger: allocation.ledger,
            plan,
            strategy,
            document,
            refused: allocation.refused.into_iter().collect(),
            considered,
            told,
            failed,
            warned,
            written,
            is_past: false,
        };
        let mut writes = Vec::new();
        let text = kept.document.yaml(self.settings.style);
        let stands = self.seen.documents.get(name);
        let is_reported = self.seen.reports.contains_key(name);
        // Pods that are about to be started will change the document again: one write says both.
        let is_soon = stands.is_some()
            && self.is_alive(&node)
            && bound.iter().any(|bound| kept.starts(bound));
        if !is_reported && !is_soon && stands != Some(&text) {
            writes.push(Write::Document {
                node: name.to_owned(),
                body: topology::object(
                    Reporter::Controller,
                    &self.settings.namespace,
                    name,
                    &node.uid,
                    &node.kwok(),
                    &text,
                ),
            });
        }
        let problem = answer.problem.clone();
        let mut written = std::mem::take(&mut kept.written);
        if node.is_ours() {
            writes.extend(self.cordon_write(name, &node, is_leaving, &mut written));
        }
        let labels = self.labels.get(name).filter(|(of, _)| *of == shape);
        if labels.is_some() || !self.settings.awaits_labels || self.labels_fail {
            let mut shown = kept.plan.clone();
            shown.gpus.truncate(count);
            let saying = say::Saying {
                plan: &shown,
                node: &node,
                slots: &slots,
                answer,
                labels: labels.map(|(_, labels)| labels),
            };
            writes.extend(self.node_write(saying, &mut written));
        }
        kept.written = written;
        for bound in &bound {
            if !(self.is_alive(&node) && kept.starts(bound)) {
                writes.extend(self.note(&kept, bound));
            }
        }
        // Last: whether anybody can be warned must not hold up the rest.
        writes.extend(problem.and_then(|why| kept.node_warning(name, &node.uid, why)));
        for (bound, pod) in bound.iter().zip(&pods) {
            writes.extend(self.warnings(&kept, bound, pod));
        }
        self.kept.insert(name.to_owned(), kept);
        writes
    }

    /// A node that no plan knows any more, as it last was.
    fn last(&self, name: &str) -> Option<NodePlan> {
        match self.kept.get(name) {
            Some(kept) => Some(kept.plan.clone()),
            None => self.as_it_stands(name),
        }
    }

    /// A node whose document says that its GPUs were others than those of its plan. Whoever has one of them keeps it, also after a restart.
    fn was(&self, plan: &NodePlan, node: &Node) -> Option<NodePlan> {
        let standing = self.standing(&plan.name)?;
        let new = self.blank(plan, node);
        let is_model = (&standing.product, standing.memory_mib) == (&new.product, new.memory_mib);
        let mut ids = standing.gpus.iter().zip(&new.gpus);
        if is_model && standing.gpus.len() <= new.gpus.len() && ids.all(|(a, b)| a.id == b.id) {
            return None;
        }
        let mut was = self.as_it_stands(&plan.name)?;
        for (index, gpu) in was.gpus.iter_mut().enumerate() {
            let now = plan.gpus.get(index);
            if let (true, Some(like)) = (is_model, now.or(plan.gpus.last())) {
                gpu.board = Arc::clone(&like.board);
            }
            let id = |gpus: &[Gpu]| gpus.get(index).map(|gpu| gpu.id.clone());
            if let Some(now) = now.filter(|_| id(&standing.gpus) == id(&new.gpus)) {
                gpu.given.clone_from(&now.given);
            }
        }
        Some(was)
    }

    /// A node as its document describes it, which is a config like others; or else as its labels do.
    fn as_it_stands(&self, name: &str) -> Option<NodePlan> {
        let node = self.seen.nodes.get(name)?;
        let text = match self.seen.documents.get(name) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(say::described(node)?),
        };
        let defaults = Defaults {
            host: name.to_owned(),
            ..Defaults::default()
        };
        let loaded = config::load(&text, name, &defaults).ok()?;
        let mut plan = loaded.plan.nodes.into_iter().next()?;
        plan.name = name.into();
        let label = &self.wanted.as_ref()?.plan.pool_label;
        plan.pool = node.labels.get(label).map(|pool| pool.as_str().into());
        let mut extras = plan.extras.as_deref().cloned().unwrap_or_default();
        extras.without_kubelet = node.is_ours();
        plan.extras = Some(Arc::new(extras));
        Some(plan)
    }

    /// The document that stands; one that cannot be read is written anew.
    fn standing(&self, name: &str) -> Option<topology::Node> {
        let text = self.seen.documents.get(name)?;
        topology::read_node(text, name).ok()
    }

    fn strategy(&self) -> &'static str {
        self.wanted.as_ref().map_or("none", Wanted::strategy)
    }

    /// A node's document before anybody uses it.
    fn blank(&self, plan: &NodePlan, node: &Node) -> topology::Node {
        let count = u32::try_from(plan.gpus.len()).unwrap_or(u32::MAX);
        let gpus = plan.gpus.iter().zip(0u32..).map(|(gpu, index)| Gpu {
            id: Identity::of(&plan.name, index, count, &gpu.board, gpu.given.as_deref()).uuid,
            ..Gpu::default()
        });
        let board = plan.gpus.first().map(|gpu| &gpu.board);
        let others = plan.extras.iter().flat_map(|extras| &extras.resources);
        topology::Node {
            memory_mib: board.map_or(0, |board| board.memory_total_mib),
            product: board.map_or_else(String::new, |board| board.product.clone()),
            driver: Some(plan.driver.version.clone()),
            cuda: Some(format!("{}.{}", plan.driver.cuda.0, plan.driver.cuda.1)),
            mig_strategy: Some(self.strategy().into()),
            dynamic_mig: plan.dynamic_mig || cut::is_dynamic(node),
            others: others
                .map(|(name, count)| Other {
                    name: name.clone(),
                    count: *count,
                })
                .collect(),
            gpus: gpus.collect(),
        }
    }
}

/// A node's GPUs with those that are in use as they were: of their old model, or beyond the new number.
pub fn grown(
    mut plan: NodePlan,
    old: Option<&NodePlan>,
    needed: usize,
    in_use: impl Fn(u32) -> bool,
) -> NodePlan {
    let old = old.map_or(&[][..], |old| &old.gpus);
    for index in 0..needed {
        let held = in_use(u32::try_from(index).unwrap_or(u32::MAX));
        let before = old.get(index).cloned();
        match plan.gpus.get_mut(index) {
            Some(new) if held => {
                if let Some(before) = before {
                    *new = before;
                }
            }
            Some(_) => {}
            None => {
                let like = plan.gpus.last().map(|gpu| GpuPlan {
                    board: Arc::clone(&gpu.board),
                    given: None,
                });
                plan.gpus.extend(before.or(like));
            }
        }
    }
    plan
}

/// Whether two plans of a node mean the same GPUs.
fn same_node(a: &NodePlan, b: &NodePlan) -> bool {
    let same_board = |a: &Arc<Board>, b: &Arc<Board>| {
        Arc::ptr_eq(a, b)
            || (&a.key, a.memory_total_mib, &a.name) == (&b.key, b.memory_total_mib, &b.name)
    };
    let mut gpus = a.gpus.iter().zip(&b.gpus);
    a.gpus.len() == b.gpus.len()
        && (&a.pool, &a.driver, a.dynamic_mig, &a.extras)
            == (&b.pool, &b.driver, b.dynamic_mig, &b.extras)
        && gpus.all(|(a, b)| same_board(&a.board, &b.board) && a.given == b.given)
}
