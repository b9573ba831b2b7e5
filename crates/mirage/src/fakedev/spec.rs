//! A workload: its name, what it does, on which devices, how often, and what must not happen.
//!
//! The document is the one stock clients send. What it may say beyond that (spans per metric,
//! device indices, labels, the device it was measured on, a wish for a reply in words) is
//! optional; a limit, which stock servers read and forget, is kept.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::activity::Step;
use super::device::{Fleet, Target, positive};
use super::identity::Identity;
use super::json::{self, Invalid, Object};

/// The limit that is no metric: how many seconds a workload may run.
pub(super) const RUNTIME: &str = "runtime";

/// What ends a workload before its time.
#[derive(Debug)]
pub(super) struct Limit {
    /// As the workload calls it.
    pub(super) name: String,
    /// The metric's position; none for the run time.
    pub(super) metric: Option<usize>,
    pub(super) at: f64,
}

/// A workload that was checked against the devices it asks for.
#[derive(Debug)]
pub struct Spec {
    pub(super) name: String,
    /// How often the steps are gone through; 0 is for ever.
    pub(super) repeat: u64,
    pub(super) steps: Vec<Step>,
    pub(super) targets: Vec<Target>,
    pub(super) limits: Vec<Limit>,
    /// Who it is: `workload`, and what else it says of itself (`pod`, `namespace`, …).
    pub(super) labels: BTreeMap<String, String>,
    /// How many times as fast the devices are as the one it was described for.
    pub(super) speed: f64,
    pub(super) wants_words: bool,
}

impl Spec {
    /// Reads a workload that a client sent: it must say which devices it runs on.
    pub fn parse(text: &[u8], fleet: &Fleet, identity: &Identity) -> Result<Spec, Invalid> {
        Spec::parse_for(text, fleet, identity, Vec::new())
    }

    /// Reads a workload that runs on the given devices, by position, unless it names its own.
    pub fn parse_for(
        text: &[u8],
        fleet: &Fleet,
        identity: &Identity,
        devices: Vec<usize>,
    ) -> Result<Spec, Invalid> {
        let value = json::parse(text)?;
        let top = Object::of(&value, "")?;
        let name = top
            .text("Name")?
            .filter(|name| !name.is_empty())
            .ok_or_else(|| top.invalid("Name", "a name is needed"))?;
        let find = |name: &str| {
            fleet
                .metric(name)
                .or_else(|| fleet.metric(identity.internal_metric(name)?))
        };
        let speed = fleet
            .speed(
                positive(&top, "MaxFrequency")?,
                positive(&top, "Capability")?,
            )
            .map_err(|what| top.invalid("Capability", what))?;
        let mut steps = Vec::new();
        for (position, step) in top.list("Profile")?.iter().enumerate() {
            let step = Object::of(step, format!("Profile[{position}]"))?;
            steps.push(Step::parse(&step, fleet, &find, speed)?);
        }
        if steps.is_empty() {
            return Err(top.invalid("Profile", "at least one step is needed"));
        }
        let mut targets = targets(&top, fleet)?;
        if targets.is_empty() {
            targets = devices
                .into_iter()
                .map(|device| Target { device, part: None })
                .collect();
        }
        if targets.is_empty() {
            return Err(top.invalid("Devices", "at least one device is needed"));
        }
        let mut limits = Vec::new();
        for (name, at) in top.numbers("Limits")? {
            let metric = find(&name);
            if metric.is_none() && name != RUNTIME {
                return Err(top.invalid(
                    "Limits",
                    format!("the devices have no metric {name:?}, and it is not {RUNTIME:?}"),
                ));
            }
            limits.push(Limit { name, metric, at });
        }
        let mut labels = top.texts("Labels")?;
        labels.insert("workload".to_owned(), name.to_owned());
        let wants_words = match top.text("Reply")? {
            None | Some("code") => false,
            Some("text") => true,
            Some(other) => {
                return Err(
                    top.invalid("Reply", format!("{other:?} is none of \"code\", \"text\""))
                );
            }
        };
        Ok(Spec {
            name: name.to_owned(),
            repeat: top.count("Repeat")?.unwrap_or(0),
            steps,
            targets,
            limits,
            labels,
            speed,
            wants_words,
        })
    }

    /// How long one pass through the steps takes, in microseconds.
    pub(super) fn lap(&self) -> u64 {
        self.steps
            .iter()
            .fold(0, |sum, step| sum.saturating_add(step.micros))
    }
}

/// Whether a workload says itself on which devices it runs.
pub(super) fn names_devices(workload: &Value) -> bool {
    Object::of(workload, "").is_ok_and(|top| {
        ["Devices", "Indices"]
            .iter()
            .any(|name| top.list(name).is_ok_and(|list| !list.is_empty()))
    })
}

/// Whether a client asked for its reply in words, even if the rest of what it sent is refused.
pub(super) fn wants_words(text: &[u8]) -> bool {
    json::parse(text).is_ok_and(|value| {
        Object::of(&value, "").is_ok_and(|top| top.text("Reply") == Ok(Some("text")))
    })
}

/// The devices named; a whole device covers its sub-devices.
fn targets(top: &Object<'_>, fleet: &Fleet) -> Result<Vec<Target>, Invalid> {
    let mut found = BTreeSet::new();
    for (position, name) in top.list("Devices")?.iter().enumerate() {
        let at = top.path(&format!("Devices[{position}]"));
        let name = name
            .as_str()
            .ok_or_else(|| json::mismatch(&at, "a device's file name", name))?;
        let target = fleet
            .find(name)
            .ok_or_else(|| Invalid::new(at, format!("there is no device {name:?}")))?;
        found.insert(target);
    }
    for (position, index) in top.list("Indices")?.iter().enumerate() {
        let at = top.path(&format!("Indices[{position}]"));
        let index = index
            .as_u64()
            .ok_or_else(|| json::mismatch(&at, "a device's index", index))?;
        let target = fleet
            .find_index(index)
            .ok_or_else(|| Invalid::new(at, format!("there is no device with index {index}")))?;
        found.insert(target);
    }
    Ok(found
        .iter()
        .filter(|target| {
            target.part.is_none()
                || !found.contains(&Target {
                    device: target.device,
                    part: None,
                })
        })
        .copied()
        .collect())
}

#[cfg(test)]
mod tests;
