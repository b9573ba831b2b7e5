//! One metric of a device type: its limits, and what a stock file cannot say about it.

use serde_json::Value;

use super::finite;
use crate::fakedev::json::{Invalid, Object, mismatch};

/// Beyond this a double no longer counts by one.
const MOST: f64 = 9_007_199_254_740_992.0;
/// A product of dimensions past this is a mistake, not a metric.
const MOST_COMBINATIONS: usize = 4096;

/// What a metric is a reading of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fakedev) enum Scope {
    Device,
    SubDevice,
    /// Of the device, shown once per device it is linked to.
    Link,
}

/// An extra label, its values, and what share of the reading each of them shows.
#[derive(Debug)]
pub(in crate::fakedev) struct Dimension {
    pub(in crate::fakedev) label: String,
    pub(in crate::fakedev) values: Vec<(String, f64)>,
}

/// One metric, under its internal name.
#[derive(Debug)]
pub(in crate::fakedev) struct Metric {
    pub(in crate::fakedev) name: String,
    pub(in crate::fakedev) min: f64,
    pub(in crate::fakedev) max: f64,
    /// Whether it only grows, by what workloads do to it per second.
    pub(in crate::fakedev) counter: bool,
    /// Whether absolute values of it are per second, so that a faster device has more of them.
    pub(in crate::fakedev) rate: bool,
    /// What no workload may take it past.
    pub(in crate::fakedev) terminate: Option<f64>,
    pub(in crate::fakedev) scope: Scope,
    pub(in crate::fakedev) dimensions: Vec<Dimension>,
}

impl Metric {
    /// What lies between its limits.
    pub(in crate::fakedev) fn range(&self) -> f64 {
        self.max - self.min
    }
}

/// All metrics of a device type, in the order of their names.
pub(super) fn parse_all(top: &Object<'_>) -> Result<Vec<Metric>, Invalid> {
    let mut metrics = Vec::new();
    for (name, value) in top.entries("MetricLimits")? {
        let at = format!("MetricLimits.{name}");
        metrics.push(parse(name, &Object::of(value, at)?)?);
    }
    metrics.sort_by(|one, other| one.name.cmp(&other.name));
    for (name, value) in top.entries("MetricDimensions")? {
        let at = format!("MetricDimensions.{name}");
        let metric = metrics
            .iter_mut()
            .find(|metric| metric.name == name)
            .ok_or_else(|| Invalid::new(&at, "no such metric in MetricLimits"))?;
        metric.dimensions = dimensions(value, &at)?;
    }
    Ok(metrics)
}

fn parse(name: &str, entry: &Object<'_>) -> Result<Metric, Invalid> {
    let counter = entry.flag("Counter")?;
    let min = entry.number("Min")?.unwrap_or(0.0);
    let max = entry
        .number("Max")?
        .unwrap_or(if counter { MOST } else { 0.0 });
    // Their difference must be finite too: every reading is a share of it.
    if min > max || !(max - min).is_finite() {
        return Err(entry.invalid("Max", format!("{max} does not lie above Min {min}")));
    }
    let scope = match entry.text("Scope")? {
        None | Some("device") => Scope::Device,
        Some("subdevice") => Scope::SubDevice,
        Some("link") => Scope::Link,
        Some(other) => {
            return Err(entry.invalid(
                "Scope",
                format!("{other:?} is none of \"device\", \"subdevice\", \"link\""),
            ));
        }
    };
    Ok(Metric {
        name: name.to_owned(),
        min,
        max,
        counter,
        rate: entry.flag("Rate")?,
        terminate: entry.number("Terminate")?,
        scope,
        dimensions: Vec::new(),
    })
}

/// `{"engine": {"render": 1, "copy": 0.3}, "type": ["actual", "request"]}`.
fn dimensions(value: &Value, at: &str) -> Result<Vec<Dimension>, Invalid> {
    let Value::Object(labels) = value else {
        return Err(mismatch(at, "an object", value));
    };
    let mut dimensions = Vec::new();
    let mut combinations = 1usize;
    for (label, values) in labels {
        let at = format!("{at}.{label}");
        let values: Vec<(String, f64)> = match values {
            Value::Array(names) => names
                .iter()
                .map(|name| match name {
                    Value::String(name) => Ok((name.clone(), 1.0)),
                    other => Err(mismatch(&at, "a list of strings", other)),
                })
                .collect::<Result<_, _>>()?,
            Value::Object(shares) => shares
                .iter()
                .map(|(name, share)| Ok((name.clone(), finite(share, &format!("{at}.{name}"))?)))
                .collect::<Result<_, _>>()?,
            other => return Err(mismatch(&at, "a list or an object", other)),
        };
        if values.is_empty() {
            return Err(Invalid::new(at, "at least one value is needed"));
        }
        for (place, (name, _)) in values.iter().enumerate() {
            if values[..place].iter().any(|(earlier, _)| earlier == name) {
                return Err(Invalid::new(at, format!("{name:?} stands there twice")));
            }
        }
        combinations = combinations.saturating_mul(values.len());
        dimensions.push(Dimension {
            label: label.clone(),
            values,
        });
    }
    if combinations > MOST_COMBINATIONS {
        return Err(Invalid::new(
            at,
            format!("{combinations} combinations are more than {MOST_COMBINATIONS}"),
        ));
    }
    dimensions.sort_by(|one, other| one.label.cmp(&other.label));
    Ok(dimensions)
}
