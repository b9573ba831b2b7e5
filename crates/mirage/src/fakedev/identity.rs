//! The identity: which metrics and labels are shown, and under which names.
//!
//! A name without an entry is not shown; an entry with an empty name keeps the internal one.
//! Beyond stock identities, one may also name series of single workloads.

use std::collections::{BTreeMap, BTreeSet};

use super::device::Fleet;
use super::json::{self, Invalid, Object};

/// The internal label of sub-devices. It is shown even if the identity has no name for it,
/// since the series of one device would be the same otherwise.
pub(super) const SUB_DEVICE: &str = "subdevice";
/// The internal label of the device at the other end of a link; shown likewise.
pub(super) const PEER: &str = "peer";

/// Whose output is imitated.
#[derive(Debug, Default)]
pub struct Identity {
    device_labels: BTreeMap<String, String>,
    metrics: BTreeMap<String, String>,
    metric_labels: BTreeMap<String, BTreeMap<String, String>>,
    workload_metrics: BTreeMap<String, String>,
    workload_labels: BTreeMap<String, String>,
}

impl Identity {
    /// Reads an identity file.
    pub fn parse(text: &[u8]) -> Result<Identity, Invalid> {
        let value = json::parse(text)?;
        let top = Object::of(&value, "")?;
        let mut identity = Identity {
            device_labels: names(&top, "DeviceLabelMap", is_label_name)?,
            metrics: names(&top, "MetricMap", is_metric_name)?,
            metric_labels: BTreeMap::new(),
            workload_metrics: names(&top, "WorkloadMetricMap", is_metric_name)?,
            workload_labels: names(&top, "WorkloadLabelMap", is_label_name)?,
        };
        for (metric, labels) in top.entries("MetricLabels")? {
            let at = top.path(&format!("MetricLabels.{metric}"));
            if !identity.metrics.contains_key(metric)
                && !identity.workload_metrics.contains_key(metric)
            {
                return Err(Invalid::new(
                    at,
                    "labels for a metric that MetricMap does not have",
                ));
            }
            let labels = json::texts(labels, &at)?;
            if let Some(name) = labels.keys().find(|name| !is_label_name(name)) {
                return Err(Invalid::new(at, format!("{name:?} is no label name")));
            }
            identity.metric_labels.insert(metric.to_owned(), labels);
        }
        if !identity.workload_metrics.is_empty() && identity.workload_labels.is_empty() {
            for name in ["workload", "namespace", "pod", "container"] {
                identity
                    .workload_labels
                    .insert(name.to_owned(), name.to_owned());
            }
        }
        Ok(identity)
    }

    /// The shown name of a device's label.
    pub(super) fn device_label(&self, name: &str) -> Option<&str> {
        self.device_labels.get(name).map(String::as_str)
    }

    /// The shown name of a label that must not be lost.
    pub(super) fn kept_label<'a>(&'a self, name: &'a str) -> &'a str {
        self.device_label(name).unwrap_or(name)
    }

    /// The shown name of a metric.
    pub(super) fn metric(&self, name: &str) -> Option<&str> {
        self.metrics.get(name).map(String::as_str)
    }

    /// The internal name of a metric that is shown under this one.
    pub(super) fn internal_metric(&self, shown: &str) -> Option<&str> {
        self.metrics
            .iter()
            .find(|(_, name)| *name == shown)
            .map(|(name, _)| name.as_str())
    }

    /// The fixed labels of a metric, by its internal name.
    pub(super) fn metric_labels(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        self.metric_labels
            .get(name)
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The shown name of a metric of single workloads.
    pub(super) fn workload_metric(&self, name: &str) -> Option<&str> {
        self.workload_metrics.get(name).map(String::as_str)
    }

    /// The labels of single workloads: internal and shown name.
    pub(super) fn workload_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.workload_labels
            .iter()
            .map(|(name, shown)| (name.as_str(), shown.as_str()))
    }

    /// What the identity and the devices do not have in common: worth a warning each.
    pub fn gaps(&self, fleet: &Fleet) -> Vec<String> {
        let mut gaps = BTreeSet::new();
        for metric in &fleet.metrics {
            if self.metric(&metric.name).is_none() {
                gaps.insert(format!("no identity mapping for metric {:?}", metric.name));
            }
        }
        for name in self.metrics.keys().chain(self.workload_metrics.keys()) {
            if fleet.metric(name).is_none() {
                gaps.insert(format!("no device metric for identity mapping {name:?}"));
            }
        }
        let of_metrics: BTreeSet<&str> = fleet
            .metrics
            .iter()
            .flat_map(|metric| &metric.dimensions)
            .map(|dimension| dimension.label.as_str())
            .chain([SUB_DEVICE, PEER])
            .collect();
        for device in &fleet.devices {
            for name in device.labels.keys() {
                if self.device_label(name).is_none() {
                    gaps.insert(format!("no identity mapping for device label {name:?}"));
                }
            }
            for name in self.device_labels.keys() {
                if !device.labels.contains_key(name) && !of_metrics.contains(name.as_str()) {
                    gaps.insert(format!(
                        "device {:?} has no label for identity mapping {name:?}",
                        device.file
                    ));
                }
            }
        }
        gaps.into_iter().collect()
    }
}

/// A map from internal to shown names, of which the latter must be fit to show.
fn names(
    top: &Object<'_>,
    member: &str,
    fits: fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, Invalid> {
    let mut names = top.texts(member)?;
    for (name, shown) in &mut names {
        if shown.is_empty() {
            shown.clone_from(name);
        }
        if !fits(shown) {
            return Err(top.invalid(
                &format!("{member}.{name}"),
                format!("{shown:?} cannot be shown: letters, digits and underscores only"),
            ));
        }
    }
    Ok(names)
}

fn is_label_name(name: &str) -> bool {
    !name.contains(':') && is_metric_name(name)
}

fn is_metric_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

#[cfg(test)]
mod tests;
