//! The devices: one type, a number of them, and where each of their readings is kept.
//!
//! A stock device type gives labels and the limits of each metric. Everything else it may say is
//! an addition: counters, sub-devices, links, termination limits, relations between metrics,
//! extra label dimensions, and how fast the device is.

mod list;
mod metric;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use serde_json::Value;

use super::json::{self, Invalid, Object};
use super::relation::Relations;
pub(super) use metric::{Metric, Scope};

/// What stands between a device's name and its sub-device's number, in a workload's device list.
const SUB_DEVICE_MARK: char = '.';
/// More would be a typing mistake; every sub-device costs a reading per metric and tick.
const MOST_SUB_DEVICES: u64 = 1024;

/// One device of the list.
#[derive(Debug)]
pub(super) struct Device {
    /// Its labels and those of its type, under their internal names.
    pub(super) labels: BTreeMap<String, String>,
    /// Its file name, by which workloads ask for it.
    pub(super) file: String,
    /// The devices it is linked to, by position.
    pub(super) peers: Vec<usize>,
}

/// What a workload runs on: a device, or one of its sub-devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) device: usize,
    pub(super) part: Option<usize>,
}

/// All devices, and everything their type says.
#[derive(Debug)]
pub struct Fleet {
    pub(super) devices: Vec<Device>,
    /// In the order of their names.
    pub(super) metrics: Vec<Metric>,
    pub(super) relations: Relations,
    /// Sub-devices of each device; 1 where the type has none.
    pub(super) parts: usize,
    capability: Option<f64>,
    max_frequency: Option<f64>,
    /// Where the readings of each metric begin, and behind the last one their number.
    offsets: Vec<usize>,
    by_file: HashMap<String, usize>,
    by_index: HashMap<u64, usize>,
}

/// A device type, as its file says.
#[derive(Debug)]
pub struct DeviceType {
    labels: BTreeMap<String, String>,
    metrics: Vec<Metric>,
    relations: Relations,
    parts: usize,
    capability: Option<f64>,
    max_frequency: Option<f64>,
    index_regexp: Option<regex_lite::Regex>,
}

impl DeviceType {
    /// Reads a device type file.
    pub fn parse(text: &[u8]) -> Result<DeviceType, Invalid> {
        let value = json::parse(text)?;
        let top = Object::of(&value, "")?;
        let metrics = metric::parse_all(&top)?;
        let relations = Relations::parse(&top, &metrics)?;
        let parts = match top.count("SubDevices")? {
            None | Some(0) => 1,
            Some(count) if count <= MOST_SUB_DEVICES => count as usize,
            Some(count) => {
                return Err(top.invalid(
                    "SubDevices",
                    format!("{count} is more than {MOST_SUB_DEVICES}"),
                ));
            }
        };
        let index_regexp = top
            .text("IndexRegexp")?
            .map(|text| {
                regex_lite::Regex::new(text)
                    .map_err(|error| top.invalid("IndexRegexp", error.to_string()))
            })
            .transpose()?;
        let frequency = metrics
            .iter()
            .find(|metric| metric.name == "frequency" && metric.max > 0.0)
            .map(|metric| metric.max);
        Ok(DeviceType {
            labels: top.texts("DeviceLabels")?,
            metrics,
            relations,
            parts,
            capability: positive(&top, "Capability")?,
            max_frequency: positive(&top, "MaxFrequency")?.or(frequency),
            index_regexp,
        })
    }
}

impl Fleet {
    /// The first `count` devices of a device list, all of one type.
    pub fn new(kind: DeviceType, list: &[u8], count: usize) -> Result<Fleet, Invalid> {
        let value = json::parse(list)?;
        let devices = list::parse(&Object::of(&value, "")?, &kind.labels, count)?;
        let mut by_file = HashMap::new();
        let mut by_index = HashMap::new();
        for (position, device) in devices.iter().enumerate() {
            if by_file.insert(device.file.clone(), position).is_some() {
                return Err(Invalid::new(
                    format!("DeviceLabels[{position}].file"),
                    format!("{:?} is an earlier device's already", device.file),
                ));
            }
            let index = match &kind.index_regexp {
                None => position as u64,
                Some(regexp) => index_in(regexp, &device.file).ok_or_else(|| {
                    Invalid::new(
                        format!("DeviceLabels[{position}].file"),
                        format!("IndexRegexp finds no number in {:?}", device.file),
                    )
                })?,
            };
            if by_index.insert(index, position).is_some() {
                return Err(Invalid::new(
                    format!("DeviceLabels[{position}].file"),
                    format!("index {index} is an earlier device's already"),
                ));
            }
        }
        let mut offsets = vec![0];
        let mut end = 0;
        for metric in &kind.metrics {
            end += if metric.scope == Scope::SubDevice {
                kind.parts
            } else {
                1
            };
            offsets.push(end);
        }
        Ok(Fleet {
            devices,
            metrics: kind.metrics,
            relations: kind.relations,
            parts: kind.parts,
            capability: kind.capability,
            max_frequency: kind.max_frequency,
            offsets,
            by_file,
            by_index,
        })
    }

    /// Where one device keeps the readings of a metric: one, or one per sub-device.
    pub(super) fn cells(&self, metric: usize) -> Range<usize> {
        self.offsets[metric]..self.offsets[metric + 1]
    }

    /// How many readings one device has.
    pub(super) fn width(&self) -> usize {
        self.offsets[self.metrics.len()]
    }

    /// The position of a metric, by its internal name.
    pub(super) fn metric(&self, name: &str) -> Option<usize> {
        self.metrics
            .binary_search_by(|metric| metric.name.as_str().cmp(name))
            .ok()
    }

    /// The device of a file name, or the sub-device of `file.number`.
    pub(super) fn find(&self, name: &str) -> Option<Target> {
        if let Some(device) = self.by_file.get(name) {
            return Some(Target {
                device: *device,
                part: None,
            });
        }
        let (file, part) = name.rsplit_once(SUB_DEVICE_MARK)?;
        let part: usize = part.parse().ok().filter(|part| *part < self.parts)?;
        Some(Target {
            device: *self.by_file.get(file)?,
            part: (self.parts > 1).then_some(part),
        })
    }

    /// The device of an index.
    pub(super) fn find_index(&self, index: u64) -> Option<Target> {
        self.by_index.get(&index).map(|device| Target {
            device: *device,
            part: None,
        })
    }

    /// How many times as fast these devices are as the one a workload was described for.
    pub(super) fn speed(
        &self,
        max_frequency: Option<f64>,
        capability: Option<f64>,
    ) -> Result<f64, String> {
        let mut speed = 1.0;
        for (asked, own, name) in [
            (max_frequency, self.max_frequency, "MaxFrequency"),
            (capability, self.capability, "Capability"),
        ] {
            if let Some(asked) = asked {
                let own = own.ok_or_else(|| format!("the device type has no {name}"))?;
                speed *= own / asked;
            }
        }
        if speed.is_finite() && speed > 0.0 {
            Ok(speed)
        } else {
            Err("MaxFrequency and Capability are out of all proportion to the device's".to_owned())
        }
    }
}

/// The number a regular expression finds: in its first group, or in all it matches.
pub(super) fn index_in(regexp: &regex_lite::Regex, text: &str) -> Option<u64> {
    let found = regexp.captures(text)?;
    let index = found.get(1).or_else(|| found.get(0))?;
    index.as_str().parse().ok()
}

/// A number above 0, if the member is there.
pub(super) fn positive(object: &Object<'_>, name: &str) -> Result<Option<f64>, Invalid> {
    match object.number(name)? {
        Some(number) if number <= 0.0 || !number.is_finite() => {
            Err(object.invalid(name, format!("a number above 0 is needed, not {number}")))
        }
        other => Ok(other),
    }
}

/// A number that may be infinite nowhere.
pub(super) fn finite(value: &Value, at: &str) -> Result<f64, Invalid> {
    value
        .as_f64()
        .filter(|number| number.is_finite())
        .ok_or_else(|| json::mismatch(at, "a number", value))
}

#[cfg(test)]
mod tests;
