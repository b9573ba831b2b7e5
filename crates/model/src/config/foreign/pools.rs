//! fake-gpu-operator's cluster document: pools, from which nodes are made by label.
//!
//! Each pool is read on its own, in the old form (`gpuProduct`, `gpuCount`) or the new
//! (`gpu.profile`), so a document may mix them.

use std::sync::Arc;

use super::Reading;
use super::keys::{Shape, find, integer, mappings, shapes, strangers, text};
use crate::config::fleet::{Roster, flavour};
use crate::config::form::NAMES;
use crate::config::language::is_name;
use crate::config::language::tables::fleet::FLAVOURS;
use crate::config::limits::{MAX_GPUS_PER_NODE, MAX_NODES};
use crate::config::node_name;
use crate::plan::{Extras, GpuPlan, Plan, PoolPlan};
use crate::quantity::clip;
use crate::yaml::{Node, Problem, Span};

/// The mapping that holds `nodePools`: the document, or what the chart wraps around it.
pub(super) fn body(root: &Node) -> Option<&Node> {
    let direct = find(root, "nodepools").map(|_| root);
    direct.or_else(|| {
        let inner = ["cluster", "topology"]
            .into_iter()
            .filter_map(|key| find(root, key));
        inner
            .map(|(_, body)| body)
            .find(|body| find(body, "nodepools").is_some())
    })
}

/// Keys of a pool that are mirage's own.
const OURS: &[&str] = &["virtualnodes", "flavour"];

impl Reading<'_> {
    pub(super) fn pools(&mut self, root: &Node, plan: &mut Plan) {
        let known = ["nodepools", "nodepoollabelkey", "migstrategy"];
        strangers(root, &known, &mut self.warnings);
        let wanted = [
            ("nodepools", Shape::Mapping),
            ("nodepoollabelkey", Shape::Text),
        ];
        shapes(root, &wanted, &mut self.problems);
        if let Some(label) = text(root, "nodepoollabelkey") {
            plan.pool_label = label.into();
        }
        let pools = find(root, "nodepools").and_then(|(_, pools)| pools.entries());
        for (name, node) in pools.unwrap_or(&[]) {
            if !is_name(&name.text) {
                let message = format!("`{}` cannot name a pool", clip(&name.text));
                self.problems
                    .push(Problem::new(name.span, message).help(NAMES));
                continue;
            }
            let pool = match find(node, "gpu") {
                Some((_, gpu)) => self.modern(node, gpu, name.span),
                None => {
                    let keys = ["gpuproduct", "gpucount", "gpumemory", "otherdevices"];
                    strangers(node, &[&keys, OURS].concat(), &mut self.warnings);
                    self.body(node, name.span)
                }
            };
            let flavour = self.flavour(node);
            plan.pools.extend(pool.map(|mut pool| {
                pool.name = name.text.as_str().into();
                if flavour.is_some() {
                    let extras = pool.extras.as_deref().cloned().unwrap_or_default();
                    pool.extras = Some(Arc::new(Extras { flavour, ..extras }));
                }
                pool
            }));
        }
        if self.virtual_nodes(root, plan) {
            return;
        }
        let default = plan.pools.iter().find(|pool| &*pool.name == "default");
        if let Some(pool) = default.or(plan.pools.first()).cloned() {
            let mut roster = Roster::new(plan);
            let host = node_name(&self.defaults.host);
            roster.add(&pool, &host, None, root.span, None, &mut self.problems);
        }
    }

    fn flavour(&mut self, pool: &Node) -> Option<String> {
        let (_, value) = find(pool, "flavour")?;
        let word = value.text().filter(|word| FLAVOURS.contains(word));
        if word.is_none() {
            let message = format!("the flavour is one of {}", FLAVOURS.join(", "));
            self.problems.push(Problem::new(value.span, message));
        }
        flavour(word)
    }

    /// Adds the nodes without a kubelet that pools ask for; whether one does.
    fn virtual_nodes(&mut self, root: &Node, plan: &mut Plan) -> bool {
        let written = find(root, "nodepools").and_then(|(_, pools)| pools.entries());
        let pools = plan.pools.clone();
        let mut roster = Roster::new(plan);
        let mut some = false;
        for (name, node) in written.unwrap_or(&[]) {
            let most = MAX_NODES as u64;
            let count = integer(node, "virtualnodes", (0, most), &mut self.problems);
            let pool = pools.iter().find(|pool| *pool.name == *name.text);
            if let (Some(count), Some(pool)) = (count, pool) {
                some = true;
                roster.add_virtual(pool, &name.text, count, name.span, &mut self.problems);
            }
        }
        some
    }

    /// A pool with a `gpu` block.
    fn modern(&mut self, pool: &Node, gpu: &Node, at: Span) -> Option<PoolPlan> {
        strangers(
            pool,
            &[&["gpu", "resources"], OURS].concat(),
            &mut self.warnings,
        );
        strangers(
            gpu,
            &["backend", "profile", "overrides"],
            &mut self.warnings,
        );
        let pool_shapes = [("gpu", Shape::Mapping), ("resources", Shape::List)];
        shapes(pool, &pool_shapes, &mut self.problems);
        mappings(pool, "resources", &mut self.problems);
        let gpu_shapes = [("profile", Shape::Text), ("overrides", Shape::Mapping)];
        shapes(gpu, &gpu_shapes, &mut self.problems);
        let product = find(gpu, "profile").and_then(|(_, node)| Some((node.text()?, node.span)));
        let board = self.product(product, None, at)?;
        let mut count = self.defaults.gpus.unwrap_or(board.gpus_per_node) as usize;
        if let Some((_, overrides)) = find(gpu, "overrides") {
            strangers(overrides, &["devicecount", "devices"], &mut self.warnings);
            shapes(overrides, &[("devices", Shape::List)], &mut self.problems);
            let most = MAX_GPUS_PER_NODE as u64;
            let given = integer(overrides, "devicecount", (0, most), &mut self.problems);
            let listed = find(overrides, "devices").and_then(|(_, list)| list.items());
            count = match (given, listed) {
                (Some(given), _) => usize::try_from(given).ok()?,
                (None, Some(listed)) => listed.len().min(MAX_GPUS_PER_NODE),
                (None, None) => count,
            };
        }
        let resources = self.counters(pool);
        Some(PoolPlan {
            name: "".into(),
            driver: self.boards.driver(&board, None, None),
            dynamic_mig: false,
            gpus: vec![GpuPlan { board, given: None }; count],
            extras: (!resources.is_empty()).then(|| {
                Arc::new(Extras {
                    resources,
                    ..Extras::default()
                })
            }),
        })
    }

    /// `resources: [{ <name>: n }]`.
    fn counters(&mut self, pool: &Node) -> Vec<(String, u32)> {
        let list = find(pool, "resources").and_then(|(_, list)| list.items());
        let mut resources = Vec::new();
        for (key, value) in list
            .unwrap_or(&[])
            .iter()
            .filter_map(Node::entries)
            .flatten()
        {
            match value.u64().and_then(|count| u32::try_from(count).ok()) {
                Some(count) if count <= 100_000 => resources.push((key.text.clone(), count)),
                _ => {
                    let message = "a resource's count must be a whole number from 0 to 100000";
                    self.problems.push(Problem::new(value.span, message));
                }
            }
        }
        resources
    }
}
