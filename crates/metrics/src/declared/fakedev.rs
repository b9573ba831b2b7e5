//! Reads fakedev-exporter's identity files, as they are: names for the metrics and labels of devices that somebody defined, here
//! given to what GPUs have. Names of members have no case, unknown members are ignored, and what no GPU has is left out and told.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::file::{is_label_name, is_metric_name, label};
use super::{Comments, Declared, Family, Label, Of, On, Series, Value};
use crate::decimal::Format;
use crate::expression::Expression;

/// What fakedev's device types call what GPUs have too. Other names may be those of our own quantities.
pub(crate) const METRICS: &[(&str, &str)] = &[
    ("frequency", "sm_mhz"),
    ("memory_frequency", "mem_mhz"),
    ("memory", "memory_used"),
    ("bandwidth", "memory_bps"),
    ("fabric", "nvlink_bps"),
    ("power", "power_w"),
    ("energy", "energy_j"),
    ("temperature", "temperature_c"),
    ("usage", "gpu_percent/100"),
    ("errors", "ecc_uncorrected_volatile"),
];

/// The same of labels. Other names may be those of our own texts.
pub(crate) const LABELS: &[(&str, &str)] = &[
    ("file", "card"),
    ("addr", "pci_bdf"),
    ("pciid", "pci_device_id"),
    ("name", "model"),
];

/// The member that tells such a file from one of ours.
const MEMBER: &str = "MetricMap";

/// What the original prints first.
const TITLE: &str = concat!("# fakedev-exporter v", env!("CARGO_PKG_VERSION"));

/// A member of an object, whatever its case.
fn member<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    let mut members = object.as_object()?.iter();
    let found = members.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// Whether a file is one of fakedev's.
pub(super) fn is_one(json: &Json) -> bool {
    member(json, MEMBER).is_some()
}

/// Reads it.
pub(super) fn read(json: &Json) -> Result<Declared, String> {
    let mut gaps = Vec::new();
    let mut device = Vec::new();
    for (name, shown) in names(json, "DeviceLabelMap")? {
        let text = find(LABELS, &name);
        match label(&shown, &format!("${text}")) {
            _ if !is_label_name(&shown) => return Err(format!("{shown:?} is not a label name")),
            Ok(
                label @ Label {
                    value: Value::Text(_) | Value::Host(_),
                    ..
                },
            ) => device.push(label),
            _ => gaps.push(format!("no GPU has a label {name:?}")),
        }
    }
    device.sort_by(|a, b| a.name.cmp(&b.name));
    let metrics = names(json, MEMBER)?;
    let mut own = own_labels(json, &metrics)?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for (name, shown) in &metrics {
        if !is_metric_name(shown) {
            return Err(format!("{shown:?} is not a metric name"));
        }
        let Ok(from) = Expression::parse(find(METRICS, name)) else {
            gaps.push(format!("no GPU has a metric {name:?}"));
            continue;
        };
        let labels = [&device[..], &own.remove(name).unwrap_or_default()].concat();
        if let Some(twice) = repeated(&labels) {
            return Err(format!("metric {shown}: label {twice} is there twice"));
        }
        let family = families.entry(shown.clone()).or_insert_with(|| Family {
            name: shown.clone(),
            prometheus: "untyped".to_owned(),
            help: String::new(),
            series: Vec::new(),
        });
        family.series.push(Series {
            of: Of::Gpu,
            on: On::All,
            from,
            numbers: Format::Go,
            labels,
        });
    }
    if member(json, "WorkloadMetricMap").is_some() {
        gaps.push("series of single workloads (WorkloadMetricMap) are not shown".to_owned());
    }
    if families.is_empty() {
        return Err(format!("{MEMBER} names no metric that a GPU has"));
    }
    Ok(Declared {
        about: "an identity file of fakedev-exporter".to_owned(),
        version: String::new(),
        vendors: Vec::new(),
        comments: Comments::None,
        preamble: TITLE.to_owned(),
        separator: ", ".to_owned(),
        sorted_samples: false,
        families: families.into_values().collect(),
        gaps,
    })
}

/// Our name for one of theirs; the same if it has no other.
fn find<'a>(table: &[(&str, &'static str)], name: &'a str) -> &'a str {
    let known = table.iter().find(|(theirs, _)| *theirs == name);
    known.map_or(name, |(_, ours)| ours)
}

/// A member that gives names; an empty one keeps the internal name.
fn names(json: &Json, name: &str) -> Result<BTreeMap<String, String>, String> {
    let texts = texts(member(json, name), name)?;
    let named = texts
        .into_iter()
        .map(|(name, shown)| match shown.is_empty() {
            true => (name.clone(), name),
            false => (name, shown),
        });
    Ok(named.collect())
}

fn texts(json: Option<&Json>, place: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(json) = json else {
        return Ok(BTreeMap::new());
    };
    let object = json
        .as_object()
        .ok_or_else(|| format!("{place} is not an object"))?;
    let texts = object.iter().map(|(name, value)| {
        let value = value.as_str();
        let value = value.ok_or_else(|| format!("{place}.{name} is not text"))?;
        Ok((name.clone(), value.to_owned()))
    });
    texts.collect()
}

/// The fixed labels of metrics, sorted.
fn own_labels(
    json: &Json,
    metrics: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Vec<Label>>, String> {
    let workloads = names(json, "WorkloadMetricMap")?;
    let mut all = BTreeMap::new();
    let given = member(json, "MetricLabels").and_then(Json::as_object);
    for (metric, labels) in given.into_iter().flatten() {
        let place = format!("MetricLabels.{metric}");
        if !metrics.contains_key(metric) && !workloads.contains_key(metric) {
            return Err(format!("{place}: {MEMBER} does not have that metric"));
        }
        let mut list = Vec::new();
        for (name, value) in texts(Some(labels), &place)? {
            if !is_label_name(&name) {
                return Err(format!("{place}: {name:?} is not a label name"));
            }
            list.push(Label {
                name,
                value: Value::Constant(value),
                optional: false,
            });
        }
        all.insert(metric.clone(), list);
    }
    Ok(all)
}

/// A name that two labels have.
fn repeated(labels: &[Label]) -> Option<&str> {
    let mut pairs = labels.iter().enumerate();
    let twice =
        pairs.find(|(at, label)| labels[..*at].iter().any(|other| other.name == label.name));
    twice.map(|(_, label)| label.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn problem(text: &str) -> String {
        parse(text, "my.json").unwrap_err().to_string()
    }

    #[test]
    fn names_have_no_case_and_empty_ones_stay() {
        let text = r#"{"metricmap": {"power": "", "temperature": "t"}, "DEVICELABELMAP": {"file": ""}, "x": 1}"#;
        let declared = parse(text, "x").unwrap();
        let names: Vec<&str> = declared.families.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["power", "t"]);
        assert_eq!(declared.families[0].series[0].labels[0].name, "file");
        assert!(declared.gaps.is_empty(), "{:?}", declared.gaps);
    }

    #[test]
    fn what_no_gpu_has_is_left_out_and_told() {
        let text = r#"{"MetricMap": {"hangs": "h", "power": "p", "memory_free": "f"},
                       "DeviceLabelMap": {"subdevice": "s"}, "WorkloadMetricMap": {"usage": "u"}}"#;
        let declared = parse(text, "x").unwrap();
        assert_eq!(declared.families.len(), 2);
        assert_eq!(declared.gaps.len(), 3, "{:?}", declared.gaps);
        assert!(declared.gaps.iter().any(|gap| gap.contains("\"hangs\"")));
    }

    #[test]
    fn what_cannot_be_shown_is_refused() {
        let problems = [
            (r#"{"MetricMap": {"hangs": "h"}}"#, "names no metric"),
            (r#"{"MetricMap": {"power": "a b"}}"#, "not a metric name"),
            (
                r#"{"MetricMap": {"power": 1}}"#,
                "MetricMap.power is not text",
            ),
            (r#"{"MetricMap": []}"#, "MetricMap is not an object"),
            (
                r#"{"MetricMap": {"power": "p"}, "MetricLabels": {"heat": {"a": "b"}}}"#,
                "does not have that metric",
            ),
            (
                r#"{"MetricMap": {"power": "p"}, "MetricLabels": {"power": {"a:b": "b"}}}"#,
                "not a label name",
            ),
            (
                r#"{"MetricMap": {"power": "p"}, "DeviceLabelMap": {"file": "a b"}}"#,
                "not a label name",
            ),
            (
                r#"{"MetricMap": {"power": "p"}, "DeviceLabelMap": {"file": "a"}, "MetricLabels": {"power": {"a": "b"}}}"#,
                "label a is there twice",
            ),
        ];
        for (text, words) in problems {
            let problem = problem(text);
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
