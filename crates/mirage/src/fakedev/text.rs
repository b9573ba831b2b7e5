//! The page: which series there are is worked out once, so that a tick only fills in numbers.
//!
//! One comment with name and version, then device by device: its metrics in the order of their
//! shown names, then, if the identity names any, the series of the workloads on it. Labels
//! are parted by a comma *and a space*, device labels first, each group in order.

mod label;

use std::collections::{BTreeMap, BTreeSet};

use super::Error;
use super::device::{Device, Fleet, Metric, Scope};
use super::identity::{Identity, PEER, SUB_DEVICE};
use super::number;
use super::relation::Readings;
use label::Labels;

/// The first line of every page.
const TITLE: &str = concat!("# fakedev-exporter v", env!("CARGO_PKG_VERSION"), "\n");

/// One series, ready but for its number and, if it is a workload's, that workload's labels.
#[derive(Debug)]
struct Series {
    shown: String,
    /// The device's labels, and the metric's.
    own: String,
    extra: String,
    /// Everything before the number, for a series of the device.
    head: String,
    metric: usize,
    cell: usize,
    /// The share of the reading that these labels show.
    share: f64,
}

/// All series there can be.
#[derive(Debug)]
pub(super) struct Sheet {
    /// By device.
    of_devices: Vec<Vec<Series>>,
    of_workloads: Vec<Vec<Series>>,
    /// Internal and shown names.
    workload_labels: Vec<(String, String)>,
}

/// What workloads add to a device, under the labels they share; in the order of the labels.
pub(super) type Shares = BTreeMap<String, Vec<f64>>;

impl Sheet {
    /// Works out the series of these devices under an identity.
    pub(super) fn new(fleet: &Fleet, identity: &Identity) -> Result<Sheet, Error> {
        let mut labels: Vec<(String, String)> = identity
            .workload_labels()
            .map(|(name, shown)| (name.to_owned(), shown.to_owned()))
            .collect();
        labels.sort_by(|one, other| one.1.cmp(&other.1));
        let mut reserved = Labels::default();
        for (_, shown) in &labels {
            reserved.push(shown, "");
        }
        let list = |shown: &dyn Fn(&str) -> Option<String>, reserved: &Labels| {
            fleet
                .devices
                .iter()
                .map(|device| series(fleet, identity, device, shown, reserved))
                .collect::<Result<Vec<_>, _>>()
        };
        let of_devices = list(
            &|name| identity.metric(name).map(str::to_owned),
            &Labels::default(),
        )?;
        let of_workloads = list(
            &|name| identity.workload_metric(name).map(str::to_owned),
            &reserved,
        )?;
        let mut heads = BTreeSet::new();
        for series in of_devices.iter().flatten() {
            if !heads.insert(&series.head) {
                return Err(Error::Config(format!(
                    "two devices or metrics would be shown as {}; map a label that tells them \
                     apart",
                    series.head.trim_end()
                )));
            }
        }
        let names: BTreeSet<&str> = of_devices
            .iter()
            .flatten()
            .map(|series| series.shown.as_str())
            .collect();
        for series in of_workloads.iter().flatten() {
            if names.contains(series.shown.as_str()) {
                return Err(Error::Config(format!(
                    "{} is in MetricMap and in WorkloadMetricMap; a sum over it would count twice",
                    series.shown
                )));
            }
        }
        Ok(Sheet {
            of_devices,
            of_workloads,
            workload_labels: labels,
        })
    }

    /// Whether single workloads are shown at all.
    pub(super) fn shows_workloads(&self) -> bool {
        self.of_workloads.iter().any(|series| !series.is_empty())
    }

    /// The labels of a workload as they stand in its series.
    pub(super) fn workload_labels(&self, own: &BTreeMap<String, String>) -> String {
        let mut labels = Labels::default();
        for (name, shown) in &self.workload_labels {
            if let Some(value) = own.get(name) {
                labels.push(shown, value);
            }
        }
        labels.into_text()
    }

    /// The page for these readings.
    pub(super) fn render(&self, fleet: &Fleet, readings: &[Readings], shares: &[Shares]) -> String {
        let mut page = String::from(TITLE);
        for (device, readings) in readings.iter().enumerate() {
            for series in &self.of_devices[device] {
                let limits = &fleet.metrics[series.metric];
                let value = readings.values[series.cell];
                let shown = limits.min + (value - limits.min) * series.share;
                page.push_str(&series.head);
                number::push(&mut page, shown.clamp(limits.min, limits.max));
                page.push('\n');
            }
            for (labels, shares) in shares.get(device).into_iter().flatten() {
                for series in &self.of_workloads[device] {
                    let range = fleet.metrics[series.metric].range();
                    page.push_str(&head(&series.shown, &[&series.own, labels, &series.extra]));
                    let value = (shares[series.cell] * series.share).clamp(0.0, range);
                    number::push(&mut page, value);
                    page.push('\n');
                }
            }
        }
        page
    }
}

/// The series of one device, for the metrics that have a shown name.
fn series(
    fleet: &Fleet,
    identity: &Identity,
    device: &Device,
    shown: &dyn Fn(&str) -> Option<String>,
    reserved: &Labels,
) -> Result<Vec<Series>, Error> {
    let mut list = Vec::new();
    for (position, metric) in fleet.metrics.iter().enumerate() {
        let Some(shown) = shown(&metric.name) else {
            continue;
        };
        for (part, cell) in fleet.cells(position).enumerate() {
            for (peer, half) in peers(fleet, device, metric) {
                let mut own = Labels::default();
                for (name, value) in &device.labels {
                    if let Some(shown) = identity.device_label(name) {
                        own.push(shown, value);
                    }
                }
                if metric.scope == Scope::SubDevice && fleet.parts > 1 {
                    own.push(identity.kept_label(SUB_DEVICE), &part.to_string());
                }
                if let Some(peer) = peer {
                    own.push(identity.kept_label(PEER), peer);
                }
                for (dimensions, share) in combinations(metric) {
                    let mut extra = Labels::default();
                    for (name, value) in identity.metric_labels(&metric.name) {
                        if !dimensions.iter().any(|(label, _)| *label == name) {
                            extra.push(name, value);
                        }
                    }
                    for (label, value) in dimensions {
                        extra.push(identity.kept_label(label), value);
                    }
                    if let Some(label) = label::clash(&[&own, &extra, reserved]) {
                        return Err(Error::Config(format!(
                            "{shown} of {:?} has label {label} twice; check the label maps of the \
                             identity",
                            device.file
                        )));
                    }
                    let own = own.clone().into_text();
                    let extra = extra.into_text();
                    list.push(Series {
                        shown: shown.clone(),
                        head: head(&shown, &[&own, &extra]),
                        own,
                        extra,
                        metric: position,
                        cell,
                        share: share * half,
                    });
                }
            }
        }
    }
    // Stable, so that sub-devices and dimensions stay as they were written.
    list.sort_by(|one, other| one.shown.cmp(&other.shown));
    Ok(list)
}

/// `name{a="1", b="2"} `, from groups of labels of which any may be empty.
fn head(shown: &str, groups: &[&str]) -> String {
    let groups: Vec<&str> = groups
        .iter()
        .copied()
        .filter(|group| !group.is_empty())
        .collect();
    format!("{shown}{{{}}} ", groups.join(", "))
}

/// The links a metric is shown for, each with its share: once with no peer for most metrics.
fn peers<'a>(fleet: &'a Fleet, device: &'a Device, metric: &Metric) -> Vec<(Option<&'a str>, f64)> {
    if metric.scope != Scope::Link {
        return vec![(None, 1.0)];
    }
    let share = 1.0 / device.peers.len().max(1) as f64;
    device
        .peers
        .iter()
        .map(|peer| (Some(fleet.devices[*peer].file.as_str()), share))
        .collect()
}

/// Every combination of a metric's extra labels, with the share of the reading it shows.
fn combinations(metric: &Metric) -> Vec<(Vec<(&str, &str)>, f64)> {
    let mut all = vec![(Vec::new(), 1.0)];
    for dimension in &metric.dimensions {
        all = all
            .iter()
            .flat_map(|(labels, share)| {
                dimension.values.iter().map(move |(value, own)| {
                    let mut labels: Vec<(&str, &str)> = labels.clone();
                    labels.push((&dimension.label, value));
                    (labels, share * own)
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests;
