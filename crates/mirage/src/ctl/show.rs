//! Answers as people read them.

use std::io::Write;

use anyhow::Result;
use serde_json::Value;

/// Prints the answer to a request.
pub(super) fn answer(request: &Value, answer: &Value, out: &mut impl Write) -> Result<()> {
    match request["op"].as_str().unwrap_or_default() {
        "status" => status(answer, out),
        "fault.list" => faults(answer, out),
        "workload.list" => table(
            &["ID", "NAME", "PHASE", "SM", "MEMORY", "DEVICES"],
            rows(&answer["workloads"], |workload| {
                let phase = match workload["reason"].as_str() {
                    Some(reason) => format!("ended: {reason}"),
                    None => text(&workload["phase"]),
                };
                vec![
                    text(&workload["id"]),
                    text(&workload["name"]),
                    phase,
                    format!("{}%", text(&workload["sm_percent"])),
                    mebibytes(&workload["memory_bytes"]),
                    devices(&workload["devices"]),
                ]
            }),
            out,
        ),
        "mig.list" => mig(answer, out),
        "pause" | "resume" | "step" if answer["time_s"].is_number() => {
            let manner = if answer["paused"] == true {
                "paused"
            } else {
                "running"
            };
            writeln!(out, "{manner} at {} s", answer["time_s"])?;
            Ok(())
        }
        _ => changed(answer, out),
    }
}

/// Faults that have struck, then those still to come.
fn faults(answer: &Value, out: &mut impl Write) -> Result<()> {
    let struck = rows(&answer["faults"], |fault| {
        let state = if fault["active"] == true {
            "active"
        } else {
            "healed"
        };
        vec![
            text(&fault["id"]),
            text(&fault["device"]),
            text(&fault["fault"]),
            seconds(&fault["since_s"]),
            state.into(),
        ]
    });
    let pending = rows(&answer["pending"], |fault| {
        let again = if fault["every_s"].is_number() {
            format!(", then every {}", seconds(&fault["every_s"]))
        } else if fault["rate"].is_number() {
            format!(", by chance {} an hour", fault["rate"])
        } else {
            String::new()
        };
        vec![
            text(&fault["id"]),
            devices(&fault["devices"]),
            text(&fault["fault"]),
            "-".into(),
            format!("strikes at {}{again}", seconds(&fault["strikes_at_s"])),
        ]
    });
    table(
        &["ID", "DEVICE", "FAULT", "SINCE", "STATE"],
        struck.into_iter().chain(pending).collect(),
        out,
    )
}

fn status(answer: &Value, out: &mut impl Write) -> Result<()> {
    let line = |name: &str, value: String| format!("{name:11}{value}");
    let lines = [
        line("fleet", text(&answer["fleet"])),
        line(
            "time",
            format!(
                "{} simulated, tick {}",
                seconds(&answer["time_s"]),
                answer["tick"]
            ),
        ),
        line(
            "speed",
            text(&answer["speed"])
                + if answer["paused"] == true {
                    ", paused"
                } else {
                    ""
                },
        ),
        line("seed", text(&answer["seed"])),
        line(
            "workloads",
            format!("{} running", answer["workloads_running"]),
        ),
        line("faults", format!("{} active", answer["faults_active"])),
        line(
            "process",
            format!("{}, version {}", answer["pid"], text(&answer["version"])),
        ),
    ];
    writeln!(out, "{}", lines.join("\n"))?;
    Ok(())
}

fn mig(answer: &Value, out: &mut impl Write) -> Result<()> {
    let mut lines = Vec::new();
    for gpu in answer["gpus"].as_array().into_iter().flatten() {
        let device = text(&gpu["device"]);
        if gpu["mig"] != true {
            lines.push(vec![device, "off".into()]);
            continue;
        }
        let instances = gpu["instances"].as_array();
        if instances.is_none_or(Vec::is_empty) {
            lines.push(vec![device, "on".into()]);
            continue;
        }
        for instance in instances.into_iter().flatten() {
            lines.push(vec![
                device.clone(),
                "on".into(),
                text(&instance["gpu_instance"]),
                text(&instance["compute_instance"]),
                text(&instance["profile"]),
                text(&instance["start"]),
                mebibytes(&instance["memory_used_bytes"]),
                text(&instance["uuid"]),
            ]);
        }
    }
    table(
        &["GPU", "MIG", "GI", "CI", "PROFILE", "START", "USED", "UUID"],
        lines,
        out,
    )
}

/// What a change came to.
fn changed(answer: &Value, out: &mut impl Write) -> Result<()> {
    for device in answer["created"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "created GPU instance {} on {} at slice {}",
            device["gpu_instance"],
            text(&device["device"]),
            device["start"]
        )?;
    }
    if let Some(ids) = answer["ids"].as_array() {
        let ids: Vec<_> = ids.iter().map(text).collect();
        let ids = match ids.len() {
            0..=16 => ids.join(", "),
            count => format!("{}, … ({count})", ids[..16].join(", ")),
        };
        writeln!(out, "done, id {ids}")?;
    } else if let Some(count) = answer["done"].as_u64().filter(|count| *count > 0) {
        let later = match answer["after_reset"].as_u64() {
            Some(_) => ", in force after a reset",
            None => "",
        };
        writeln!(out, "done ({count}){later}")?;
    }
    Ok(())
}

fn rows(list: &Value, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Columns as wide as they need to be.
fn table(titles: &[&str], lines: Vec<Vec<String>>, out: &mut impl Write) -> Result<()> {
    let mut widths: Vec<_> = titles.iter().map(|title| title.len()).collect();
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let titles: Vec<_> = titles.iter().map(|title| (*title).to_owned()).collect();
    for line in std::iter::once(&titles).chain(&lines) {
        let cells: Vec<_> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn seconds(value: &Value) -> String {
    format!("{:.0}s", value.as_f64().unwrap_or(0.0))
}

fn mebibytes(value: &Value) -> String {
    format!("{} MiB", value.as_u64().unwrap_or(0) >> 20)
}

fn devices(value: &Value) -> String {
    let all: Vec<_> = value.as_array().into_iter().flatten().map(text).collect();
    match all.len() {
        0..=4 => all.join(" "),
        count => format!("{} … ({count})", all[..4].join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_line_up() {
        let mut out = Vec::new();
        let faults = json!({ "faults": [
            { "id": 1, "device": "a/3", "fault": "xid=79", "since_s": 1.2, "active": true },
            { "id": 12, "device": "node/0", "fault": "lost", "since_s": 100, "active": false },
        ], "pending": [
            { "id": 3, "devices": ["a/0"], "fault": "hang", "strikes_at_s": 30.0 },
            { "id": 4, "devices": ["a/0", "a/1"], "fault": "hang", "strikes_at_s": 30, "every_s": 60.0 },
            { "id": 5, "devices": ["a/0"], "fault": "xid=31", "strikes_at_s": 812.4, "rate": 2.5 },
        ]});
        answer(&json!({ "op": "fault.list" }), &faults, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ID  DEVICE   FAULT   SINCE  STATE\n\
             1   a/3      xid=79  1s     active\n\
             12  node/0   lost    100s   healed\n\
             3   a/0      hang    -      strikes at 30s\n\
             4   a/0 a/1  hang    -      strikes at 30s, then every 60s\n\
             5   a/0      xid=31  -      strikes at 812s, by chance 2.5 an hour\n"
        );
    }
}
