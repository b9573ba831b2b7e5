//! The config: a document as written becomes a [`Plan`] as meant, or a list of everything
//! that is wrong with it.
//!
//! Strict in its own language: unknown keys, impossible values and devices that do not
//! exist are errors, all reported at once with their place and the way out. Topology
//! documents of other tools are recognised by their shape and read unchanged.

mod demo;
mod diagnostic;
mod fault;
mod fleet;
mod foreign;
pub(crate) mod form;
pub(crate) mod language;
pub mod limits;
mod words;
mod workload;

pub use demo::{DemoError, demo};
pub use diagnostic::{Diagnostic, Diagnostics};

use crate::plan::{FaultPlan, MigStrategy, Plan, WorkloadPlan};
use crate::select::{Index, Running};
use crate::yaml::{self, Node, Problem};
use form::Form;
use language::tables;

/// What holds where a document says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// Name of the node when the document names none.
    pub host: String,
    /// GPU model.
    pub model: String,
    /// GPUs per node; the model's usual number when absent.
    pub gpus: Option<u32>,
    /// Seed.
    pub seed: u64,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            host: "localhost".into(),
            model: "a100-sxm4-40gb".into(),
            gpus: None,
            seed: 0,
        }
    }
}

/// An accepted document.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// What it means.
    pub plan: Plan,
    /// What is odd about it.
    pub warnings: Diagnostics,
}

/// What a document means so far, and what is wrong with it.
#[derive(Debug)]
struct Draft {
    plan: Plan,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

/// Reads a document called `name`.
pub fn load(text: &str, name: &str, defaults: &Defaults) -> Result<Loaded, Diagnostics> {
    let root = match yaml::parse(text) {
        Ok(root) => root,
        Err(problems) => return Err(Diagnostics::errors(name, text, problems)),
    };
    let Some((key, inner, node)) = foreign::wrapped(&root) else {
        return judge(&root, text, name, defaults);
    };
    // A manifest holds one document, and a document in it is no manifest.
    let name = format!("{name} ({key})");
    let mut defaults = defaults.clone();
    if let Some(node) = node {
        defaults.host = node.into();
    }
    match yaml::parse(inner) {
        Ok(root) => judge(&root, inner, &name, &defaults),
        Err(problems) => Err(Diagnostics::errors(&name, inner, problems)),
    }
}

fn judge(root: &Node, text: &str, name: &str, defaults: &Defaults) -> Result<Loaded, Diagnostics> {
    let draft = match foreign::recognise(root) {
        Some(dialect) => foreign::read(dialect, root, defaults),
        None => own(root, defaults),
    };
    if !draft.problems.is_empty() {
        return Err(Diagnostics::errors(name, text, draft.problems));
    }
    Ok(Loaded {
        plan: draft.plan,
        warnings: Diagnostics::warnings(name, text, draft.warnings),
    })
}

/// Reads one workload for a running fleet: YAML, JSON, or `key=value` words.
pub fn parse_workload<'p>(
    text: &str,
    fleet: impl Into<Running<'p>>,
) -> Result<WorkloadPlan, Diagnostics> {
    let fleet = fleet.into();
    one(
        text,
        "workload",
        &tables::workload::WORKLOAD,
        |form, problems| {
            let index = Index::running(fleet);
            workload::read(
                form,
                Some(&index),
                &mut workload::Uses::default(),
                problems,
                &mut Vec::new(),
            )
        },
    )
}

/// Reads one fault for a running fleet: YAML, JSON, or words such as
/// `device=node-a/3 xid=79 heal-after=5m`.
pub fn parse_fault<'p>(
    text: &str,
    fleet: impl Into<Running<'p>>,
) -> Result<FaultPlan, Diagnostics> {
    let fleet = fleet.into();
    one(text, "fault", &tables::fault::FAULT, |form, problems| {
        let index = Index::running(fleet);
        let mut uses = workload::Uses::default();
        fault::read(
            form,
            Some(&index),
            fleet.plan,
            &mut uses,
            problems,
            &mut Vec::new(),
        )
    })
}

fn one<T>(
    text: &str,
    name: &str,
    table: &language::Table,
    read: impl FnOnce(&Form<'_>, &mut Vec<Problem>) -> Option<T>,
) -> Result<T, Diagnostics> {
    let root = match words::parse(text, table) {
        Some(root) => Ok(root),
        None => yaml::parse(text),
    };
    let root = root.map_err(|problems| Diagnostics::errors(name, text, problems))?;
    let mut problems = Vec::new();
    let form = form::read(table, &root, &mut problems);
    let found = read(&form, &mut problems);
    match found {
        Some(found) if problems.is_empty() => Ok(found),
        _ => Err(Diagnostics::errors(name, text, problems)),
    }
}

/// Reads a document in our own language.
fn own(root: &Node, defaults: &Defaults) -> Draft {
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    let form = form::read(&tables::ROOT, root, &mut problems);
    let mut plan = Plan::empty(form.integer("seed").unwrap_or(defaults.seed));
    if let Some(tick) = form.duration("tick") {
        plan.tick = tick;
    }
    plan.mig_strategy = strategy(form.choice("mig-strategy").unwrap_or("none"));
    if let Some(label) = form.text("pool-label") {
        plan.pool_label = label.into();
    }
    let readable = is_fleet_readable(root, &form, &problems);
    let complete = fleet::read(&form, defaults, &mut plan, &mut problems) && readable;
    // Devices of nodes that could not be read would only be reported as missing.
    let index = complete.then(|| Index::new(&plan));
    let index = index.as_ref();
    let mut uses = workload::Uses::default();
    let workloads = form
        .forms("workloads")
        .filter_map(|form| workload::read(form, index, &mut uses, &mut problems, &mut warnings))
        .collect();
    let faults = form
        .forms("faults")
        .filter_map(|form| fault::read(form, index, &plan, &mut uses, &mut problems, &mut warnings))
        .collect();
    (plan.workloads, plan.faults) = (workloads, faults);
    Draft {
        plan,
        problems,
        warnings,
    }
}

/// Whether nodes and pools were read without a problem; a key nobody knows may have been
/// meant for either.
fn is_fleet_readable(root: &Node, form: &Form<'_>, problems: &[Problem]) -> bool {
    let inside = |node: &Node, problem: &Problem| {
        (node.span.start..node.span.end).contains(&problem.span.start)
    };
    let entries = root.entries().unwrap_or(&[]);
    entries.iter().all(|(key, node)| match key.text.as_str() {
        key @ ("nodes" | "pools") => {
            form.get(key).is_some() && !problems.iter().any(|problem| inside(node, problem))
        }
        key => tables::ROOT.field(key).is_some(),
    })
}

/// A machine's name as Kubernetes would name its node: lower case, and `-` for whatever
/// else it has.
pub fn node_name(host: &str) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() || letter == '.' => letter,
        _ => '-',
    };
    let name: String = host.chars().take(200).map(letter).collect();
    let labels: Vec<&str> = name
        .split('.')
        .map(|label| label.trim_matches('-'))
        .filter(|label| !label.is_empty())
        .collect();
    if labels.is_empty() {
        return "node".into();
    }
    labels.join(".")
}

fn strategy(word: &str) -> MigStrategy {
    match word {
        "single" => MigStrategy::Single,
        "mixed" => MigStrategy::Mixed,
        _ => MigStrategy::None,
    }
}
