//! From the command line to the document that is sent. A `-json` file is read over it, so what it
//! says wins; what it does not say comes from the flags.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::fakedev::flags::{Flag, Given};
use crate::fakedev::{Error, device, glob, json as reading, spec};

pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "name",
        default: "Workload",
        help: "Workload / pod name",
    },
    Flag {
        name: "repeat",
        default: "1",
        help: "How many times the activity is simulated, 0 = for ever",
    },
    Flag {
        name: "activity",
        default: "98:1:0",
        help: "Comma separated steps load:fluctuation:seconds, in percent; 0 seconds = a day",
    },
    Flag {
        name: "devices",
        default: "/dev/dri/card*",
        help: "Pattern of the device files that the workload was given",
    },
    Flag {
        name: "devnames",
        default: "",
        help: "Comma separated device names, instead of those that match -devices",
    },
    Flag {
        name: "max-index",
        default: "0",
        help: "If given, INDEX in -devnames becomes JOB_COMPLETION_INDEX modulo this",
    },
    Flag {
        name: "json",
        default: "",
        help: "JSON workload file; what it says wins over the flags",
    },
    Flag {
        name: "socket",
        default: "fakedev-exporter in the system's temporary directory",
        help: "Unix socket of the exporter",
    },
    Flag {
        name: "index-regexp",
        default: "",
        help: "Ask for devices by the number this finds in the paths that match -devices",
    },
    Flag {
        name: "limits",
        default: "",
        help: "Comma separated metric=value (or runtime=seconds) past which the workload ends",
    },
    Flag {
        name: "labels",
        default: "",
        help: "Comma separated name=value, for series of single workloads; \
               pod, namespace and container default to POD_NAME, POD_NAMESPACE, CONTAINER_NAME",
    },
    Flag {
        name: "max-frequency",
        default: "",
        help: "Top frequency of the device the activity was measured on",
    },
    Flag {
        name: "capability",
        default: "",
        help: "Capability of the device the activity was measured on",
    },
];

/// A look at the environment.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The document that says it all.
pub(super) fn document(given: &Given, environment: Environment<'_>) -> Result<Value, Error> {
    let file = given.text("json").map(read).transpose()?;
    let file_names_devices = file.as_ref().is_some_and(spec::names_devices);
    let mut document = Map::new();
    document.insert(
        "Name".to_owned(),
        json!(given.get("name").unwrap_or("Workload")),
    );
    document.insert(
        "Repeat".to_owned(),
        json!(given.count("repeat")?.unwrap_or(1)),
    );
    document.insert(
        "Profile".to_owned(),
        profile(given.get("activity").unwrap_or("98:1:0"))?,
    );
    match devices(given, environment) {
        Ok((member, list)) => {
            document.insert(member.to_owned(), list);
        }
        // Nobody asks for devices twice.
        Err(_) if file_names_devices => {}
        Err(error) => return Err(error),
    }
    let limits = pairs(given, "limits", |value| {
        value
            .parse::<f64>()
            .ok()
            .filter(|at| at.is_finite())
            .map(|at| json!(at))
    })?;
    document.insert(
        "Limits".to_owned(),
        if limits.is_empty() {
            Value::Null
        } else {
            Value::Object(limits)
        },
    );
    let mut labels = Map::new();
    for (label, variable) in [
        ("pod", "POD_NAME"),
        ("namespace", "POD_NAMESPACE"),
        ("container", "CONTAINER_NAME"),
    ] {
        if let Some(value) = environment(variable).filter(|value| !value.is_empty()) {
            labels.insert(label.to_owned(), json!(value));
        }
    }
    labels.extend(pairs(given, "labels", |value| Some(json!(value)))?);
    if !labels.is_empty() {
        document.insert("Labels".to_owned(), Value::Object(labels));
    }
    for (member, flag) in [
        ("MaxFrequency", "max-frequency"),
        ("Capability", "capability"),
    ] {
        if let Some(number) = given.positive(flag)? {
            document.insert(member.to_owned(), json!(number));
        }
    }
    document.insert("Reply".to_owned(), json!("text"));
    if let Some(Value::Object(file)) = file {
        overlay(&mut document, file, file_names_devices);
    }
    if document.get("Name").and_then(Value::as_str) == Some("") {
        return Err(Error::Config("the workload has no name".to_owned()));
    }
    Ok(Value::Object(document))
}

/// What a file says wins, whatever the case of its names.
fn overlay(document: &mut Map<String, Value>, file: Map<String, Value>, names_devices: bool) {
    if names_devices {
        document.remove("Devices");
        document.remove("Indices");
    }
    for (name, value) in file {
        if value.is_null() {
            continue;
        }
        let known = document
            .keys()
            .find(|known| known.eq_ignore_ascii_case(&name))
            .cloned();
        document.insert(known.unwrap_or(name), value);
    }
}

fn read(path: &str) -> Result<Value, Error> {
    let what = "workload";
    let text = fs::read(path).map_err(|source| Error::Read {
        what,
        path: path.into(),
        source,
    })?;
    reading::parse(&text).map_err(|source| Error::File {
        what,
        path: path.into(),
        source,
    })
}

/// The devices, under the member that names them.
fn devices(given: &Given, environment: Environment<'_>) -> Result<(&'static str, Value), Error> {
    if let Some(names) = given.text("devnames") {
        return Ok(("Devices", names_of(names, given, environment)?));
    }
    let pattern = given.get("devices").unwrap_or("/dev/dri/card*");
    let paths = glob::find(pattern);
    if paths.is_empty() {
        return Err(Error::Config(format!(
            "no files match {pattern:?}; -devnames names devices without files"
        )));
    }
    if let Some(regexp) = given.text("index-regexp") {
        let regexp = regex_lite::Regex::new(regexp)
            .map_err(|error| Error::Usage(format!("invalid value for -index-regexp: {error}")))?;
        let indices: Vec<u64> = paths
            .iter()
            .map(|path| {
                device::index_in(&regexp, &path.to_string_lossy()).ok_or_else(|| {
                    Error::Config(format!("-index-regexp finds no number in {path:?}"))
                })
            })
            .collect::<Result<_, _>>()?;
        return Ok(("Indices", json!(indices)));
    }
    let names: Vec<String> = paths.iter().map(|path| base(path)).collect();
    Ok(("Devices", json!(names)))
}

fn base(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn names_of(names: &str, given: &Given, environment: Environment<'_>) -> Result<Value, Error> {
    const VARIABLE: &str = "JOB_COMPLETION_INDEX";
    let most = given.count("max-index")?.unwrap_or(0);
    let names = if most == 0 {
        names.to_owned()
    } else {
        let index = environment(VARIABLE)
            .filter(|index| !index.is_empty())
            .ok_or_else(|| Error::Config(format!("-max-index is given, but ${VARIABLE} is not")))?;
        let index: u64 = index
            .parse()
            .map_err(|_| Error::Config(format!("${VARIABLE} is {index:?}, which is no number")))?;
        names.replace("INDEX", &(index % most).to_string())
    };
    Ok(json!(names.split(',').collect::<Vec<_>>()))
}

/// `load:fluctuation:seconds`, and more of them behind commas.
fn profile(activity: &str) -> Result<Value, Error> {
    let mut steps = Vec::new();
    for step in activity.split(',').filter(|_| !activity.is_empty()) {
        // Stock clients skip blanks before a number.
        let numbers = step.split(':').map(|number| number.trim().parse().ok());
        let numbers: Option<Vec<u64>> = numbers.collect();
        let Some([load, fluctuation, seconds]) = numbers.as_deref() else {
            return Err(Error::Config(format!(
                "activity {step:?} is not load:fluctuation:seconds, three whole numbers"
            )));
        };
        if *load > 100 || fluctuation > load {
            return Err(Error::Config(format!(
                "activity {step:?}: load is above 100, or fluctuation above load"
            )));
        }
        steps.push(json!({"Load": load, "Fluctuation": fluctuation, "Seconds": seconds}));
    }
    if steps.is_empty() {
        return Err(Error::Config("no activity is given".to_owned()));
    }
    Ok(Value::Array(steps))
}

/// `name=value`, and more of them behind commas.
fn pairs(
    given: &Given,
    flag: &str,
    read: impl Fn(&str) -> Option<Value>,
) -> Result<Map<String, Value>, Error> {
    let Some(text) = given.text(flag) else {
        return Ok(Map::new());
    };
    text.split(',')
        .map(|pair| {
            pair.split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .and_then(|(name, value)| Some((name.to_owned(), read(value)?)))
                .ok_or_else(|| {
                    Error::Usage(format!(
                        "invalid value for -{flag}: {pair:?} is no name=value"
                    ))
                })
        })
        .collect()
}

#[cfg(test)]
mod tests;
