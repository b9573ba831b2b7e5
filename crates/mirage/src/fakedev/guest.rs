//! Workloads that connect to a machine of simulated GPUs: fakedev-workload's document, as the machine's own
//! words for a workload.
//!
//! Devices are GPUs here: `nvidia0` (or `card0`, or a bare number) means a GPU of the only node or of the one that
//! `--pod-node` names, and whatever else `mirage ctl` takes for a device is taken too. A workload that names its pod holds
//! these GPUs on every surface.

use serde_json::{Map, Value, json};

use super::json::{self, Invalid, Object, mismatch};
use super::spec::wants_words;

/// A step without an end lasts as long as stock servers let it: a day.
const DAY: u64 = 86_400;

/// A workload, ready to be added.
#[derive(Debug, PartialEq)]
pub(super) struct Guest {
    /// Its name among the machine's workloads.
    pub(super) name: String,
    /// The workload in the config's words.
    pub(super) document: String,
    /// Whether its client wants the reply in words.
    pub(super) wants_words: bool,
}

impl Guest {
    /// Reads what a client sent, for the workload with this number.
    pub(super) fn parse(text: &[u8], number: u64, node: Option<&str>) -> Result<Guest, Invalid> {
        let value = json::parse(text)?;
        let top = Object::of(&value, "")?;
        let process = top
            .text("Name")?
            .filter(|name| !name.is_empty())
            .ok_or_else(|| top.invalid("Name", "a name is needed"))?;
        let name = format!("guest-{number}");
        let mut document = Map::new();
        let mut put = |key: &str, value: Value| document.insert(key.to_owned(), value);
        put("name", json!(name));
        put("process", json!(process));
        put("devices", Value::Array(devices(&top, node)?));
        let steps = top.list("Profile")?.iter().enumerate();
        let steps: Vec<Value> = steps
            .map(|(at, step)| step_of(&Object::of(step, format!("Profile[{at}]"))?))
            .collect::<Result<_, _>>()?;
        if steps.is_empty() {
            return Err(top.invalid("Profile", "at least one step is needed"));
        }
        put("activity", Value::Array(steps));
        put(
            "repeat",
            match top.count("Repeat")?.unwrap_or(0) {
                0 => json!("forever"),
                times => json!(times),
            },
        );
        let labels = top.texts("Labels")?;
        if let Some(pod) = labels.get("pod").filter(|pod| !pod.is_empty()) {
            let namespace = labels.get("namespace").filter(|name| !name.is_empty());
            let namespace = namespace.map_or("default", String::as_str);
            put("pod", json!(format!("{namespace}/{pod}")));
            if let Some(container) = labels.get("container").filter(|c| !c.is_empty()) {
                put("container", json!(container));
            }
            if let Some(uid) = labels.get("pod_uid").or_else(|| labels.get("uid")) {
                put("pod-uid", json!(uid));
            }
        }
        let limits = limits(&top)?;
        if !limits.is_empty() {
            put("limits", Value::Object(limits));
        }
        Ok(Guest {
            name,
            document: Value::Object(document).to_string(),
            wants_words: wants_words(text),
        })
    }
}

/// The devices named, as the machine calls them.
fn devices(top: &Object<'_>, node: Option<&str>) -> Result<Vec<Value>, Invalid> {
    let of_node = |gpu: &str| match node {
        Some(node) => json!(format!("{node}/{gpu}")),
        None => json!(gpu),
    };
    let mut found = Vec::new();
    for (at, name) in top.list("Devices")?.iter().enumerate() {
        let at = top.path(&format!("Devices[{at}]"));
        let name = name
            .as_str()
            .ok_or_else(|| mismatch(&at, "a device's name", name))?;
        let number = ["nvidia", "card", ""]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .filter(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        found.push(match number {
            Some(number) => of_node(number),
            None => json!(name),
        });
    }
    for (at, index) in top.list("Indices")?.iter().enumerate() {
        let index = index.as_u64().ok_or_else(|| {
            mismatch(&top.path(&format!("Indices[{at}]")), "a GPU's index", index)
        })?;
        found.push(of_node(&index.to_string()));
    }
    if found.is_empty() {
        return Err(top.invalid("Devices", "at least one device is needed"));
    }
    Ok(found)
}

fn step_of(step: &Object<'_>) -> Result<Value, Invalid> {
    let load = step.number("Load")?.unwrap_or(0.0);
    let swing = step.number("Fluctuation")?.unwrap_or(0.0);
    let (low, high) = (load - swing, load + swing);
    if !(0.0..=100.0).contains(&load) || swing < 0.0 || low < 0.0 || high > 100.0 {
        return Err(step.invalid(
            "Load",
            format!("{load} ± {swing} is outside of 0 to 100 percent"),
        ));
    }
    let mut out = Map::new();
    let seconds = match step.count("Seconds")?.unwrap_or(0) {
        0 => DAY,
        seconds => seconds,
    };
    out.insert("for".to_owned(), json!(format!("{seconds}s")));
    let range = if swing == 0.0 {
        format!("{load}")
    } else {
        format!("{low}-{high}")
    };
    out.insert("utilization".to_owned(), json!(range));
    match step.text("Function")? {
        None | Some("random") => {}
        Some("random-increase") => {
            out.insert("function".to_owned(), json!("increase"));
        }
        Some("ramp") => {
            out.insert("function".to_owned(), json!("ramp"));
        }
        Some(other) => {
            return Err(step.invalid(
                "Function",
                format!("{other:?} is none of \"random\", \"random-increase\", \"ramp\""),
            ));
        }
    }
    for (metric, span) in step.entries("Metrics")? {
        if !metric.eq_ignore_ascii_case("memory") {
            return Err(step.invalid(
                "Metrics",
                format!(
                    "GPUs take \"memory\" here, and the rest follows from the load; not {metric:?}"
                ),
            ));
        }
        let at = step.path("Metrics.memory");
        out.insert("memory".to_owned(), memory(span, &at)?);
    }
    Ok(Value::Object(out))
}

/// A span of memory: bytes, or bytes or shares between two bounds.
fn memory(span: &Value, at: &str) -> Result<Value, Invalid> {
    if let Some(bytes) = span.as_f64() {
        return Ok(json!(format!("{}B", whole(bytes, at)?)));
    }
    let span = Object::of(span, at)?;
    let low = span.number("Min")?.unwrap_or(0.0);
    let high = span.number("Max")?.unwrap_or(low);
    Ok(match span.text("Unit")? {
        None | Some("absolute") => {
            json!(format!("{}-{}B", whole(low, at)?, whole(high, at)?))
        }
        Some("share") if (0.0..=1.0).contains(&low) && (low..=1.0).contains(&high) => {
            json!(format!("{}-{}%", low * 100.0, high * 100.0))
        }
        Some("share") => return Err(span.invalid("Max", "shares go from 0 to 1")),
        Some(other) => {
            return Err(span.invalid(
                "Unit",
                format!("{other:?} is none of \"absolute\", \"share\""),
            ));
        }
    })
}

/// Whole bytes.
fn whole(bytes: f64, at: &str) -> Result<u64, Invalid> {
    if (0.0..=1e15).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(Invalid::new(at, format!("{bytes} bytes are no memory")))
    }
}

fn limits(top: &Object<'_>) -> Result<Map<String, Value>, Invalid> {
    let mut out = Map::new();
    for (name, at) in top.numbers("Limits")? {
        let value = match name.as_str() {
            "runtime" if at > 0.0 => json!(format!("{at}s")),
            "runtime" => {
                return Err(top.invalid("Limits", format!("a runtime of {at} seconds is none")));
            }
            "memory" => json!(format!("{}B", whole(at, "Limits")?)),
            "temperature" | "power" => json!(at),
            _ => {
                return Err(top.invalid(
                    "Limits",
                    format!(
                        "{name:?} is none of \"runtime\", \"memory\", \"temperature\", \"power\""
                    ),
                ));
            }
        };
        out.insert(name, value);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<mirage_model::plan::WorkloadPlan, String> {
        let plan = mirage_model::config::demo("n", "a100-sxm4-40gb", 4, 1, 0).unwrap();
        let guest = Guest::parse(text.as_bytes(), 7, None).map_err(|error| error.to_string())?;
        assert_eq!(guest.name, "guest-7");
        mirage_model::config::parse_workload(&guest.document, &plan)
            .map_err(|error| format!("{}: {error}", guest.document))
    }

    #[test]
    fn what_stock_clients_send_is_a_workload() {
        let plan = read(
            r#"{"Name": "Workload", "Repeat": 1, "Devices": ["nvidia0", "card2"],
                "Profile": [{"Load": 98, "Fluctuation": 1, "Seconds": 60}, {"Load": 5, "Seconds": 0}]}"#,
        )
        .unwrap();
        let gpus: Vec<_> = plan.devices.iter().map(|device| device.gpu).collect();
        assert_eq!(gpus, [0, 2]);
        assert_eq!(plan.process, "Workload");
        assert_eq!(plan.owner, None);
    }

    #[test]
    fn pods_memory_and_limits_are_understood() {
        let plan = read(
            r#"{"name": "train", "indices": [1], "labels": {"namespace": "ml", "pod": "p-0", "container": "main"},
                "limits": {"runtime": 60, "memory": 51539607552, "power": 300},
                "profile": [{"load": 50, "function": "ramp", "fluctuation": 50,
                             "metrics": {"memory": {"min": 0.25, "max": 0.5, "unit": "share"}}},
                            {"load": 1, "metrics": {"memory": 1073741824}}]}"#,
        )
        .unwrap();
        let owner = plan.owner.unwrap();
        assert_eq!(
            (&*owner.namespace, &*owner.pod, &*owner.container),
            ("ml", "p-0", "main")
        );
    }

    #[test]
    fn an_empty_namespace_is_the_usual_one() {
        let plan = read(
            r#"{"Name": "x", "Devices": ["0"], "Profile": [{"Load": 1}],
                "Labels": {"pod": "p", "namespace": "", "container": ""}}"#,
        );
        let owner = plan.unwrap().owner.unwrap();
        assert_eq!((&*owner.namespace, &*owner.pod), ("default", "p"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        for (more, wanted) in [
            (r#""Profile": []"#, "at least one step"),
            (
                r#""Profile": [{"Load": 90, "Fluctuation": 20}]"#,
                "Profile[0].Load",
            ),
            (r#""Profile": [{"Load": -1}]"#, "outside of 0 to 100"),
            (
                r#""Profile": [{"Load": 1, "Metrics": {"hangs": 1}}]"#,
                "GPUs take \"memory\"",
            ),
            (
                r#""Profile": [{"Load": 1}], "Limits": {"noise": 1}"#,
                "none of \"runtime\"",
            ),
            (
                r#""Profile": [{"Load": 1}], "Limits": {"runtime": 0}"#,
                "a runtime of 0 seconds is none",
            ),
            (r#""Profile": [{"Load": 1}], "Repeat": -1"#, "Repeat"),
            (
                r#""Profile": [{"Load": 1, "Function": "x"}]"#,
                "none of \"random\"",
            ),
        ] {
            let text = format!(r#"{{"Name": "x", "Devices": ["nvidia0"], {more}}}"#);
            let error = read(&text).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let error = read(r#"{"Name": "x", "Devices": ["nvidia9"], "Profile": [{"Load": 1}]}"#);
        assert!(error.is_err(), "there is no GPU 9");
        assert!(read(r#"{"Devices": ["nvidia0"], "Profile": [{"Load": 1}]}"#).is_err());
        assert!(read(r#"{"Name": "x", "Profile": [{"Load": 1}]}"#).is_err());
    }

    #[test]
    fn a_node_can_be_meant() {
        let text = br#"{"Name": "x", "Devices": ["nvidia1", "GPU-a"], "Profile": [{"Load": 1}]}"#;
        let guest = Guest::parse(text, 0, Some("node-b")).unwrap();
        assert!(
            guest.document.contains(r#"["node-b/1","GPU-a"]"#),
            "{}",
            guest.document
        );
    }
}
