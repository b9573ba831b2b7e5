//! Workloads: names, devices, activity, limits, owners.

mod fit;

use std::collections::HashSet;

use super::form::{Entry, Form, Parsed};
use super::limits::MAX_DEVICE_USES;
use crate::plan::{
    ActivityStep, DeviceRef, Function, Limits, Owner, Range, WorkloadKind, WorkloadPlan,
};
use crate::select::Index;
use crate::yaml::{Position, Problem, Span, Style};

/// Power intensity of a workload that names none: ordinary mixed kernels.
pub(super) const INTENSITY: f64 = 0.7;
/// Process name of a workload that names none.
pub(super) const PROCESS: &str = "python3";

/// What workloads and faults have taken so far.
#[derive(Default)]
pub(super) struct Uses {
    names: HashSet<String>,
    devices: usize,
}

/// Reads one workload; `None` when it has problems.
pub(super) fn read(
    form: &Form<'_>,
    index: Option<&Index<'_>>,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Option<WorkloadPlan> {
    let before = problems.len();
    let name = form.text("name");
    if let Some(name) = name
        && !uses.names.insert(name.to_string())
    {
        let span = form.get("name").map_or(form.span, |entry| entry.span);
        let problem = Problem::new(span, format!("there are two workloads called `{name}`"));
        problems.push(problem.help("give it a name of its own"));
    }
    let devices = form
        .get("devices")
        .map(|entry| devices(entry, index, uses, problems))
        .unwrap_or_default();
    let (activity, repeat) = activity(form, problems);
    let owner = owner(form, problems);
    if let (Some(fleet), Some(entry)) = (index.and_then(Index::fixed), form.get("devices")) {
        problems.extend(fit::whole(&devices, fleet, entry));
        warnings.extend(fit::memory(form, &devices, &activity, fleet));
    }
    let plan = WorkloadPlan {
        name: name?.to_string(),
        devices,
        at: form.duration("at").unwrap_or_default(),
        activity,
        repeat,
        limits: form.form("limits").map(limits).unwrap_or_default(),
        intensity: form.number("intensity").unwrap_or(INTENSITY),
        tensor: form.number("tensor").unwrap_or(0.0),
        owner,
        process: form.text("process").unwrap_or(PROCESS).to_string(),
        kind: match form.choice("kind") {
            Some("graphics") => WorkloadKind::Graphics,
            Some("mps") => WorkloadKind::Mps,
            _ => WorkloadKind::Compute,
        },
    };
    (problems.len() == before && !plan.devices.is_empty()).then_some(plan)
}

/// The devices of a selector or a list of them; none without a fleet to look them up in.
pub(super) fn devices(
    entry: &Entry<'_>,
    index: Option<&Index<'_>>,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
) -> Vec<DeviceRef> {
    let mut found = Vec::new();
    let parts = match &entry.value {
        Parsed::List(parts) => parts.iter().collect(),
        _ => vec![entry],
    };
    if parts.is_empty() {
        let problem = Problem::new(entry.span, "the list of devices is empty");
        problems.push(problem.help("write for example `node-a/0-3` or `all`"));
    }
    for part in parts {
        let (Parsed::Text(text), Some(index)) = (&part.value, index) else {
            continue;
        };
        let (mut more, errors) = index.find_all(text);
        found.append(&mut more);
        problems.extend(errors.into_iter().map(|error| {
            let span = inside(part, error.at.start, error.at.end);
            Problem::new(span, error.message)
        }));
    }
    found.sort_unstable();
    found.dedup();
    uses.devices = uses.devices.saturating_add(found.len());
    if uses.devices > MAX_DEVICE_USES {
        let message = format!(
            "workloads and faults name more devices in all than the limit of {MAX_DEVICE_USES}"
        );
        problems.push(Problem::new(entry.span, message));
        return Vec::new();
    }
    found
}

/// The place of bytes `from..to` of a scalar's text, where the text stands as written.
fn inside(entry: &Entry<'_>, from: usize, to: usize) -> Span {
    let Some(scalar) = entry.node.scalar() else {
        return entry.span;
    };
    let Span { start, end } = entry.span;
    let quotes = usize::from(scalar.style == Style::Quoted);
    let literal =
        end.offset.saturating_sub(start.offset) as usize == scalar.text.len() + 2 * quotes;
    if !literal || start.line != end.line || scalar.style == Style::Block {
        return entry.span;
    }
    let shift = |bytes: usize| {
        let letters = scalar.text.get(..bytes).unwrap_or("").chars().count() + quotes;
        let small = |number: usize| u32::try_from(number).unwrap_or(0);
        Position {
            offset: start.offset + small(bytes + quotes),
            line: start.line,
            column: start.column + small(letters),
        }
    };
    Span {
        start: shift(from),
        end: shift(to),
    }
}

/// The steps, and how often they are run.
fn activity(form: &Form<'_>, problems: &mut Vec<Problem>) -> (Vec<ActivityStep>, Option<u32>) {
    let (holder, key) = match form.form("activity") {
        Some(schedule) => (schedule, "steps"),
        None => (form, "activity"),
    };
    let Some(entries) = holder.list(key) else {
        if let (Some(entry), None) = (form.get("repeat"), form.get("activity")) {
            let problem = Problem::new(entry.span, "there is no `activity` to repeat");
            problems.push(problem.help("add `activity`, or remove `repeat`"));
        }
        // No steps: one that never ends.
        let full = Range {
            low: 100.0,
            high: 100.0,
        };
        let step = ActivityStep {
            duration: None,
            utilization: form.percent("utilization").unwrap_or(full),
            memory: form.amount("memory"),
            bandwidth: None,
            interconnect: None,
            function: Function::Random,
        };
        return (vec![step], Some(1));
    };
    if entries.is_empty()
        && let Some(entry) = holder.get(key)
    {
        let problem = Problem::new(entry.span, "an activity needs at least one step");
        problems.push(problem.help("write for example `- { for: 1h, utilization: 80 }`"));
    }
    let mut steps: Vec<ActivityStep> = Vec::with_capacity(entries.len());
    for (position, form) in holder.forms(key).enumerate() {
        let mut next = step(form);
        next.memory = next
            .memory
            .or(steps.last().and_then(|before| before.memory));
        if next.duration.is_none() && form.get("for").is_none() && position + 1 < entries.len() {
            let problem = Problem::new(form.span, "this step never ends, but others follow");
            problems.push(problem.help("add `for`, for example `for: 10m`"));
        }
        steps.push(next);
    }
    let repeat = match (form.get("repeat"), holder.get("repeat")) {
        (Some(outer), Some(_)) if !std::ptr::eq(form, holder) => {
            let problem = Problem::new(outer.span, "`repeat` stands here and in `activity`");
            problems.push(problem.help("keep one of them"));
            None
        }
        (outer, inner) => outer.or(inner),
    };
    let endless = steps.last().is_some_and(|step| step.duration.is_none());
    if endless && let Some(entry) = repeat {
        let problem = Problem::new(entry.span, "the last step never ends, so nothing repeats");
        problems.push(problem.help("give the last step a `for`, or remove `repeat`"));
    }
    let times = match repeat.map(|entry| &entry.value) {
        None => Some(1),
        Some(Parsed::Integer(times)) => u32::try_from(*times).ok(),
        Some(_) => None,
    };
    (steps, times)
}

fn step(form: &Form<'_>) -> ActivityStep {
    ActivityStep {
        duration: form.duration("for"),
        utilization: form.percent("utilization").unwrap_or(Range {
            low: 0.0,
            high: 0.0,
        }),
        memory: form.amount("memory"),
        bandwidth: form.percent("bandwidth"),
        interconnect: form.percent("interconnect"),
        function: match form.choice("function") {
            Some("ramp") => Function::Ramp,
            Some("increase") => Function::Increase,
            _ => Function::Random,
        },
    }
}

fn limits(form: &Form<'_>) -> Limits {
    Limits {
        runtime: form.duration("runtime"),
        memory: form.integer("memory"),
        temperature: form.number("temperature"),
        power: form.number("power"),
    }
}

fn owner(form: &Form<'_>, problems: &mut Vec<Problem>) -> Option<Owner> {
    let Some(pod) = form.text("pod") else {
        for key in ["container", "pod-uid"] {
            if form.get("pod").is_none()
                && let Some(entry) = form.get(key)
            {
                let problem = Problem::new(entry.span, format!("`{key}` without `pod`"));
                problems.push(problem.help("add `pod: namespace/name`"));
            }
        }
        return None;
    };
    let (namespace, pod) = pod.split_once('/')?;
    Some(Owner {
        namespace: namespace.into(),
        pod: pod.into(),
        container: form.text("container").unwrap_or(pod).into(),
        pod_uid: form.text("pod-uid").unwrap_or("").into(),
    })
}
