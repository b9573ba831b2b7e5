//! Pools and nodes: what is written for a node, then for its pool, then for all.
//!
//! Nodes of a pool share its boards, drivers and given facts, so a fleet of 10,000 costs
//! little more than its list of names.

pub(super) mod boards;
pub(super) mod mig;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::form::{Entry, Form, Parsed};
use super::limits::{MAX_GPUS, MAX_NODES};
use super::{Defaults, node_name};
use crate::plan::{Extras, GivenGpu, GivenInstance, GpuPlan, Plan, PoolPlan};
use crate::quantity::clip;
use crate::select::closest;
use crate::yaml::{Node, Problem, Span};
use boards::Boards;

/// Fills in pools and nodes; whether all of them could be read.
pub(super) fn read(
    root: &Form<'_>,
    defaults: &Defaults,
    plan: &mut Plan,
    problems: &mut Vec<Problem>,
) -> bool {
    let before = problems.len();
    let mut reader = Reader {
        root,
        defaults,
        boards: Boards::default(),
        problems,
    };
    let mut pools = HashMap::new();
    for (name, form) in root.named("pools") {
        let Some(pool) = reader.pool(&name.text, Layers(vec![form])) else {
            continue;
        };
        pools.insert(name.text.as_str(), (form, pool.clone()));
        plan.pools.push(pool);
    }
    let mut roster = Roster::new(plan);
    for (name, form) in root.named("nodes") {
        reader.node(&name.text, name.span, form, &pools, &mut roster);
    }
    let mut has_virtual = false;
    for (name, form) in root.named("pools") {
        if let (Some(count), Some((_, pool))) =
            (form.integer("virtual-nodes"), pools.get(&*name.text))
        {
            has_virtual = true;
            roster.add_virtual(pool, &name.text, count, name.span, reader.problems);
        }
    }
    // A document that names no nodes means this machine.
    if root.get("nodes").is_none()
        && !has_virtual
        && let Some(pool) = reader.fallback(&pools, roster.plan)
    {
        roster.add(
            &pool,
            &node_name(&defaults.host),
            None,
            root.span,
            None,
            reader.problems,
        );
    }
    problems.len() == before
}

type Pools<'f, 'n> = HashMap<&'n str, (&'f Form<'n>, PoolPlan)>;

struct Reader<'f, 'n, 'd> {
    root: &'f Form<'n>,
    defaults: &'d Defaults,
    boards: Boards,
    problems: &'d mut Vec<Problem>,
}

/// Forms that speak about the same node; the first that has a key decides.
struct Layers<'f, 'n>(Vec<&'f Form<'n>>);

impl<'f, 'n> Layers<'f, 'n> {
    fn first<T>(&self, read: impl Fn(&'f Form<'n>) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|form| read(form))
    }
}

impl<'f, 'n> Reader<'f, 'n, '_> {
    /// What a node without a pool of its own is like.
    fn fallback(&mut self, pools: &Pools<'f, 'n>, plan: &Plan) -> Option<PoolPlan> {
        match (pools.get("default"), plan.pools.first()) {
            (Some((_, pool)), _) => Some(pool.clone()),
            (None, Some(first)) => Some(first.clone()),
            (None, None) => self.pool("", Layers(Vec::new())),
        }
    }

    fn node(
        &mut self,
        name: &str,
        at: Span,
        form: &'f Form<'n>,
        pools: &Pools<'f, 'n>,
        roster: &mut Roster<'_>,
    ) {
        let wanted = match (form.text("pool"), form.get("model")) {
            (Some(pool), _) => Some(pool),
            (None, None) if pools.contains_key("default") => Some("default"),
            _ => None,
        };
        let pool = match wanted {
            None => self.pool("", Layers(vec![form])),
            Some(wanted) => {
                let Some((pool_form, pool)) = pools.get(wanted) else {
                    // A pool that exists but could not be read was reported itself.
                    let known = || self.root.named("pools").iter().map(|(key, _)| &*key.text);
                    if !known().any(|known| known == wanted) {
                        let span = form.get("pool").map_or(at, |entry| entry.span);
                        let problem = unknown_pool(wanted, span, known());
                        self.problems.push(problem);
                    }
                    return;
                };
                // Most nodes say nothing of their own and are the pool's plan as it is.
                if OWN.iter().any(|key| form.get(key).is_some()) {
                    self.pool(wanted, Layers(vec![form, pool_form]))
                } else {
                    Some(pool.clone())
                }
            }
        };
        if let Some(pool) = pool {
            let gpus = form.get("gpus").map(|entry| entry.node);
            roster.add(&pool, name, form.integer("count"), at, gpus, self.problems);
        }
    }

    fn pool(&mut self, name: &str, layers: Layers<'f, 'n>) -> Option<PoolPlan> {
        let before = self.problems.len();
        let model = layers.first(|form| form.get("model"));
        let memory = layers.first(|form| form.integer("memory"));
        let board = match model {
            Some(entry) => {
                let name = layers.first(|form| form.text("model"))?;
                self.boards.find(name, memory, entry.span, self.problems)?
            }
            None => {
                let span = self.root.span;
                self.boards
                    .find(&self.defaults.model, memory, span, self.problems)?
            }
        };
        let layout = layers.first(|form| form.get("mig"));
        let mig = layout.and_then(|entry| mig::read(entry, &board, self.problems));
        let common = GpuPlan {
            given: mig.map(|mig| given(None, None, Some(mig))),
            board: board.clone(),
        };
        let usual = self.defaults.gpus.unwrap_or(board.gpus_per_node) as usize;
        let gpus = match layers.first(|form| form.get("gpus")).map(|e| &e.value) {
            Some(Parsed::Integer(count)) => vec![common; usize::try_from(*count).ok()?],
            Some(Parsed::List(entries)) => entries
                .iter()
                .filter_map(|entry| match &entry.value {
                    Parsed::Form(form) => self.gpu(form, &common, memory, layout),
                    _ => None,
                })
                .collect(),
            _ => vec![common; usual],
        };
        let mut drivers: Vec<&Form<'_>> =
            layers.0.iter().filter_map(|f| f.form("driver")).collect();
        drivers.extend(self.root.form("driver"));
        let version = drivers.iter().find_map(|form| form.text("version"));
        let cuda = drivers.iter().find_map(|form| form.text("cuda"));
        let pool = PoolPlan {
            name: name.into(),
            driver: self.boards.driver(&board, version, cuda),
            dynamic_mig: layers.first(|f| f.flag("dynamic-mig")).unwrap_or(false),
            gpus,
            extras: extras(&layers),
        };
        (self.problems.len() == before).then_some(pool)
    }

    /// One GPU of a list; `common` is what its node says of all, `layout` its MIG layout.
    fn gpu(
        &mut self,
        form: &Form<'_>,
        common: &GpuPlan,
        memory: Option<u64>,
        layout: Option<&Entry<'_>>,
    ) -> Option<GpuPlan> {
        let own = form.integer("memory");
        let board = match form.get("model") {
            Some(entry) => {
                let name = form.text("model")?;
                self.boards.find(name, own, entry.span, self.problems)?
            }
            None if own.is_some() && own != memory => self.boards.resize(&common.board, own),
            None => common.board.clone(),
        };
        let (id, serial) = (form.text("id"), form.text("serial"));
        let own = ["id", "serial", "mig", "model"];
        if own.iter().all(|key| form.get(key).is_none()) {
            return Some(GpuPlan {
                board,
                given: common.given.clone(),
            });
        }
        // Another model may not be cut the way the node's others are.
        let mig = form
            .get("mig")
            .or(layout)
            .and_then(|entry| mig::read(entry, &board, self.problems));
        if id.is_none() && serial.is_none() && mig.is_none() {
            return Some(GpuPlan { board, given: None });
        }
        Some(GpuPlan {
            board,
            given: Some(given(id, serial, mig)),
        })
    }
}

/// Keys by which a node differs from its pool.
const OWN: &[&str] = &[
    "gpus",
    "memory",
    "driver",
    "mig",
    "dynamic-mig",
    "virtual",
    "resources",
];

fn given(id: Option<&str>, serial: Option<&str>, mig: Option<Vec<GivenInstance>>) -> Arc<GivenGpu> {
    Arc::new(GivenGpu {
        uuid: id.map(Into::into),
        serial: serial.map(Into::into),
        mig,
    })
}

fn extras(layers: &Layers<'_, '_>) -> Option<Arc<Extras>> {
    let holder = layers.first(|form| form.list("resources").map(|_| form));
    let resources = holder.into_iter().flat_map(|form| form.forms("resources"));
    let extras = Extras {
        without_kubelet: layers.first(|form| form.flag("virtual")).unwrap_or(false),
        resources: resources
            .filter_map(|form| {
                let count = u32::try_from(form.integer("count")?).ok()?;
                Some((form.text("name")?.to_string(), count))
            })
            .collect(),
        flavour: flavour(layers.first(|form| form.choice("flavour"))),
    };
    (extras != Extras::default()).then(|| Arc::new(extras))
}

/// The cloud a word means; `none` is none.
pub(super) fn flavour(word: Option<&str>) -> Option<String> {
    word.filter(|word| *word != "none").map(Into::into)
}

fn unknown_pool<'a>(wanted: &str, span: Span, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    let problem = Problem::new(span, format!("there is no pool `{}`", clip(wanted)));
    match closest(wanted, known.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None if known.is_empty() => problem.help("add it under `pools`"),
        None => {
            let some: Vec<String> = known
                .iter()
                .take(5)
                .map(|name| format!("`{name}`"))
                .collect();
            problem.help(format!("pools are {}", some.join(", ")))
        }
    }
}

/// The nodes so far, under the fleet's limits.
pub(super) struct Roster<'p> {
    pub(super) plan: &'p mut Plan,
    names: HashSet<Arc<str>>,
    ids: HashSet<String>,
    gpus: usize,
}

impl<'p> Roster<'p> {
    pub(super) fn new(plan: &'p mut Plan) -> Self {
        Self {
            plan,
            names: HashSet::new(),
            ids: HashSet::new(),
            gpus: 0,
        }
    }

    /// Adds one node, or `count` numbered ones. `at` is where its name stands, `gpus`
    /// where its GPUs are written.
    pub(super) fn add(
        &mut self,
        pool: &PoolPlan,
        name: &str,
        count: Option<u64>,
        at: Span,
        gpus: Option<&Node>,
        problems: &mut Vec<Problem>,
    ) {
        let nodes = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        let total = self.plan.nodes.len().saturating_add(nodes);
        self.gpus = self
            .gpus
            .saturating_add(nodes.saturating_mul(pool.gpus.len()));
        let over = if total > MAX_NODES {
            Some(format!(
                "{total} nodes in all, more than the limit of {MAX_NODES}"
            ))
        } else if self.gpus > MAX_GPUS {
            Some(format!(
                "{} GPUs in all, more than the limit of {MAX_GPUS}",
                self.gpus
            ))
        } else {
            None
        };
        if let Some(message) = over {
            problems.push(Problem::new(at, message));
            return;
        }
        self.plan.nodes.reserve(nodes);
        for number in 0..nodes {
            let full = match count {
                Some(_) => format!("{name}-{number}"),
                None => name.to_string(),
            };
            if full.len() > 253 {
                let message = "node names have at most 253 characters";
                problems.push(Problem::new(at, message));
                return;
            }
            let mut node = pool.node(&full);
            if pool.name.is_empty() {
                node.pool = None;
            } else if let Some(last) = self.plan.nodes.last()
                && last.pool.as_deref() == Some(&pool.name)
            {
                node.pool = last.pool.clone();
            }
            if !self.names.insert(node.name.clone()) {
                let message = format!("there are two nodes called `{}`", clip(&full));
                problems.push(Problem::new(at, message));
                return;
            }
            if let Some(id) = self.repeated(pool) {
                let at = gpus.and_then(|gpus| gpus.last(&id)).unwrap_or(at);
                let problem = Problem::new(at, format!("two devices have the id `{id}`"));
                problems.push(problem.help("every id must be unique in the fleet"));
                return;
            }
            self.plan.nodes.push(node);
        }
    }

    /// Adds `count` nodes of a pool that have no kubelet, named after it.
    pub(super) fn add_virtual(
        &mut self,
        pool: &PoolPlan,
        name: &str,
        count: u64,
        at: Span,
        problems: &mut Vec<Problem>,
    ) {
        let mut pool = pool.clone();
        let mut extras = pool.extras.as_deref().cloned().unwrap_or_default();
        extras.without_kubelet = true;
        pool.extras = Some(Arc::new(extras));
        pool.name = name.into();
        self.add(&pool, name, Some(count), at, None, problems);
    }

    /// Notes the ids a node gives its devices; the first that another has already.
    fn repeated(&mut self, pool: &PoolPlan) -> Option<String> {
        for given in pool.gpus.iter().filter_map(|gpu| gpu.given.as_deref()) {
            let instances = given.mig.iter().flatten().filter_map(|i| i.uuid.as_ref());
            for id in given.uuid.iter().chain(instances) {
                if !self.ids.insert(id.clone()) {
                    return Some(id.clone());
                }
            }
        }
        None
    }
}
