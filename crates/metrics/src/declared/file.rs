//! Reads an identity file, strictly: an unknown key or value is an error that says where.

use mirage_state::layout::vendors;
use serde_json::{Map, Value as Json};

use super::{Comments, Declared, Family, Label, Of, On, Series, Value, fakedev};
use crate::decimal::Format;
use crate::expression::Expression;
use crate::{Error, nearest, text};

/// Reads a file; `name` is for messages.
pub(crate) fn parse(text: &str, name: &str) -> Result<Declared, Error> {
    read(text).map_err(|problem| Error::Identity {
        file: name.to_owned(),
        problem,
    })
}

fn read(text: &str) -> Result<Declared, String> {
    let json: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if fakedev::is_one(&json) {
        return fakedev::read(&json);
    }
    let file = Node::new("the file", &json)?;
    file.allow(&[
        "about",
        "version",
        "vendors",
        "comments",
        "preamble",
        "separator",
        "numbers",
        "families",
        "samples",
        "label_order",
        "labels",
        "metrics",
    ])?;
    let numbers = file.format("numbers")?.unwrap_or(Format::Go);
    let sorted_labels = file.choice("label_order", &["given", "sorted"])? == 1;
    let base = file.labels("labels")?;
    let metrics = file.list("metrics")?;
    let mut families: Vec<Family> = Vec::new();
    for (at, metric) in metrics.iter().enumerate() {
        let metric = Node::new(&format!("metric {}", at + 1), metric)?;
        let family = family(&metric, &base, numbers, sorted_labels)
            .map_err(|problem| format!("{}: {problem}", metric.place))?;
        if families.iter().any(|f| f.name == family.name) {
            return Err(format!("metric {} is there twice", family.name));
        }
        families.push(family);
    }
    if families.is_empty() {
        return Err("metrics is empty: name at least one".to_owned());
    }
    if file.choice("families", &["given", "sorted"])? == 1 {
        families.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let preamble = file.text("preamble")?.unwrap_or_default();
    if preamble.lines().any(|line| !line.starts_with('#')) {
        return Err("each line of preamble has to start with #".to_owned());
    }
    Ok(Declared {
        about: file.text("about")?.unwrap_or_default(),
        version: file.text("version")?.unwrap_or_default(),
        vendors: makers(&file)?,
        comments: match file.choice("comments", &["before", "first", "none"])? {
            0 => Comments::Before,
            1 => Comments::First,
            _ => Comments::None,
        },
        preamble,
        separator: [",", ", "][file.choice("separator", &[",", ", "])?].to_owned(),
        sorted_samples: file.choice("samples", &["given", "sorted"])? == 1,
        families,
        gaps: Vec::new(),
    })
}

fn makers(file: &Node<'_>) -> Result<Vec<u32>, String> {
    let names = ["nvidia", "amd", "intel"];
    let ids = [vendors::NVIDIA, vendors::AMD, vendors::INTEL];
    file.list("vendors")?
        .iter()
        .map(|maker| {
            let maker = maker.as_str().unwrap_or_default();
            names
                .iter()
                .position(|n| *n == maker)
                .map(|at| ids[at])
                .ok_or_else(|| format!("vendors holds {maker:?}: write {}", names.join(", ")))
        })
        .collect()
}

fn family(
    metric: &Node<'_>,
    base: &[Label],
    numbers: Format,
    sorted: bool,
) -> Result<Family, String> {
    metric.allow(&[
        "name",
        "type",
        "help",
        "from",
        "of",
        "on",
        "numbers",
        "labels",
        "base_labels",
        "series",
    ])?;
    let name = metric.text("name")?.ok_or("it has no name")?;
    if !is_metric_name(&name) {
        return Err(format!("name {name:?} is not a metric name"));
    }
    let types = ["gauge", "counter", "untyped"];
    let prometheus = types[metric.choice("type", &types)?].to_owned();
    let help = metric.text("help")?.unwrap_or_default();
    if help.contains('\n') {
        return Err("help has more than one line".to_owned());
    }
    let base = if metric.flag("base_labels")?.unwrap_or(true) {
        base
    } else {
        &[]
    };
    let shared = metric.labels("labels")?;
    let of = read_of(metric)?.unwrap_or(Of::Gpu);
    let on = read_on(metric)?.unwrap_or(On::All);
    let numbers = metric.format("numbers")?.unwrap_or(numbers);
    let mut series = Vec::new();
    if let Some(from) = metric.text("from")? {
        series.push((from, of, on, Vec::new()));
    }
    for entry in metric.list("series")? {
        let entry = Node::new("series", entry)?;
        entry.allow(&["from", "of", "on", "labels"])?;
        let from = entry.text("from")?.ok_or("a series has no from")?;
        let of = read_of(&entry)?.unwrap_or(of);
        let on = read_on(&entry)?.unwrap_or(on);
        series.push((from, of, on, entry.labels("labels")?));
    }
    if series.is_empty() {
        return Err("it has neither from nor series".to_owned());
    }
    let series = series
        .into_iter()
        .map(|(from, of, on, own)| {
            let mut labels = [base, &shared, &own].concat();
            if sorted {
                labels.sort_by(|a, b| a.name.cmp(&b.name));
            }
            for (at, label) in labels.iter().enumerate() {
                if labels[..at].iter().any(|other| other.name == label.name) {
                    return Err(format!("label {} is there twice", label.name));
                }
            }
            Ok(Series {
                of,
                on,
                from: Expression::parse(&from)?,
                numbers,
                labels,
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Family {
        name,
        prometheus,
        help,
        series,
    })
}

fn read_of(node: &Node<'_>) -> Result<Option<Of>, String> {
    let names = ["gpu", "instance", "device", "link", "node"];
    let kinds = [Of::Gpu, Of::Instance, Of::Device, Of::Link, Of::Node];
    Ok(match node.text("of")? {
        Some(_) => Some(kinds[node.choice("of", &names)?]),
        None => None,
    })
}

fn read_on(node: &Node<'_>) -> Result<Option<On>, String> {
    let names = ["all", "dynamic-mig", "others"];
    let kinds = [On::All, On::DynamicMig, On::Others];
    Ok(match node.text("on")? {
        Some(_) => Some(kinds[node.choice("on", &names)?]),
        None => None,
    })
}

pub(super) fn is_metric_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b':';
    !name.is_empty() && name.bytes().all(plain) && !name.as_bytes()[0].is_ascii_digit()
}

pub(super) fn is_label_name(name: &str) -> bool {
    is_metric_name(name) && !name.contains(':')
}

/// A JSON object and where it stands.
struct Node<'a> {
    place: String,
    map: &'a Map<String, Json>,
}

impl<'a> Node<'a> {
    fn new(place: &str, json: &'a Json) -> Result<Node<'a>, String> {
        let map = json
            .as_object()
            .ok_or_else(|| format!("{place} is not an object"))?;
        let place = match map.get("name").and_then(Json::as_str) {
            Some(name) => format!("{place} ({name})"),
            None => place.to_owned(),
        };
        Ok(Node { place, map })
    }

    fn allow(&self, keys: &[&'static str]) -> Result<(), String> {
        match self.map.keys().find(|k| !keys.contains(&k.as_str())) {
            None => Ok(()),
            Some(key) => Err(match nearest::nearest(key, keys.iter().copied()) {
                Some(near) => format!("key {key:?} is not known; did you mean {near:?}?"),
                None => format!("key {key:?} is not known; there are {}", keys.join(", ")),
            }),
        }
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        self.map
            .get(key)
            .map(|v| v.as_str().map(str::to_owned))
            .map(|text| text.ok_or_else(|| format!("{key} is not text")))
            .transpose()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        self.map
            .get(key)
            .map(|v| {
                v.as_bool()
                    .ok_or_else(|| format!("{key} is not true or false"))
            })
            .transpose()
    }

    fn list(&self, key: &str) -> Result<&'a [Json], String> {
        match self.map.get(key) {
            None => Ok(&[]),
            Some(Json::Array(list)) => Ok(list),
            Some(_) => Err(format!("{key} is not a list")),
        }
    }

    /// Which of the choices a key makes; the first without it.
    fn choice(&self, key: &str, choices: &[&str]) -> Result<usize, String> {
        let Some(text) = self.text(key)? else {
            return Ok(0);
        };
        choices
            .iter()
            .position(|c| *c == text)
            .ok_or_else(|| format!("{key} is {text:?}: write one of {}", choices.join(" | ")))
    }

    fn format(&self, key: &str) -> Result<Option<Format>, String> {
        self.text(key)?
            .map(|text| {
                Format::parse(&text).ok_or_else(|| {
                    format!("{key} is {text:?}: write one of int | fixed6 | go | python | c15")
                })
            })
            .transpose()
    }

    /// Labels in the file's order: `$name` is a text of the device, `$name?` left out when empty.
    fn labels(&self, key: &str) -> Result<Vec<Label>, String> {
        let map = match self.map.get(key) {
            None => return Ok(Vec::new()),
            Some(json) => json
                .as_object()
                .ok_or_else(|| format!("{key} is not an object"))?,
        };
        map.iter()
            .map(|(name, value)| {
                let value = value
                    .as_str()
                    .ok_or_else(|| format!("label {name} is not text"))?;
                if !is_label_name(name) {
                    return Err(format!("{name:?} is not a label name"));
                }
                label(name, value).map_err(|problem| format!("label {name}: {problem}"))
            })
            .collect()
    }
}

/// A label of a name: text, `$name` for a text of the device, `$name?` to leave it out when empty.
pub(super) fn label(name: &str, value: &str) -> Result<Label, String> {
    let Some(source) = value.strip_prefix('$') else {
        return Ok(Label {
            name: name.to_owned(),
            value: Value::Constant(value.to_owned()),
            optional: false,
        });
    };
    let (source, optional) = match source.strip_suffix('?') {
        Some(source) => (source, true),
        None => (source, false),
    };
    let value = if source == "link" {
        Value::Link
    } else {
        let text = text::find(source).ok_or_else(|| {
            match nearest::nearest(source, text::TEXTS.iter().map(|t| t.name)) {
                Some(near) => format!("text ${source} is not known; did you mean ${near}?"),
                None => format!("text ${source} is not known"),
            }
        })?;
        match source {
            "node" | "exporter_pod" => Value::Host(text),
            _ => Value::Text(text),
        }
    };
    Ok(Label {
        name: name.to_owned(),
        value,
        optional,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse(text, "my.json").unwrap_err().to_string()
    }

    #[test]
    fn reads_the_least_there_can_be() {
        let declared = parse(
            r#"{"metrics": [{"name": "power", "from": "power_w"}]}"#,
            "x",
        )
        .unwrap();
        assert_eq!(declared.families[0].prometheus, "gauge");
        assert_eq!(declared.separator, ",");
    }

    #[test]
    fn errors_say_where_and_what() {
        let metric = |inside: &str| problem(&format!(r#"{{"metrics": [{{{inside}}}]}}"#));
        assert!(problem("[]").contains("the file is not an object"));
        assert!(problem("{").starts_with("reading identity my.json: EOF"));
        assert!(problem(r#"{"metrics": []}"#).contains("metrics is empty"));
        assert!(problem(r#"{"metrics": {}}"#).contains("metrics is not a list"));
        assert!(problem(r#"{"metric": []}"#).contains("did you mean \"metrics\"?"));
        assert!(metric(r#""from": "power_w""#).contains("metric 1: it has no name"));
        assert!(metric(r#""name": "a b", "from": "power_w""#).contains("not a metric name"));
        assert!(metric(r#""name": "a", "from": "pwer_w""#).contains("did you mean power_w?"));
        assert!(metric(r#""name": "a""#).contains("metric 1 (a): it has neither"));
        assert!(
            metric(r#""name": "a", "from": "power_w", "labels": {"x": "$uid"}"#)
                .contains("did you mean $uuid?")
        );
        assert!(
            metric(r#""name": "a", "from": "power_w", "labels": {"x-y": ""}"#)
                .contains("not a label name")
        );
        assert!(
            metric(r#""name": "a", "from": "power_w", "type": "x""#).contains("gauge | counter")
        );
        assert!(
            metric(r#""name": "a", "from": "power_w"}, {"name": "a", "from": "power_w""#)
                .contains("a is there twice")
        );
        assert!(
            problem(r#"{"preamble": "x", "metrics": [{"name": "a", "from": "power_w"}]}"#)
                .contains("start with #")
        );
    }
}
