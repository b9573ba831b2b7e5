//! What mirage says about itself. It has pages of its own, so that an imitated page stays what it imitates.

use std::fmt::Write;

use super::hot::Exporters;
use crate::attribution::Attribution;
use crate::health::Health;

/// The body of `/health`: `OK`, and a line for everything that is not as it should be.
pub fn health(attribution: &Attribution, exporters: &Exporters, parts: &Health) -> String {
    let mut body = "OK".to_owned();
    for (part, trouble) in parts.parts_now() {
        if let Some(trouble) = trouble {
            // Writing to a string cannot fail.
            let _ = write!(body, "\n{part}: {trouble}");
        }
    }
    for report in attribution.reports() {
        let Some(trouble) = &report.trouble else {
            continue;
        };
        let state = match report.age {
            Some(age) if report.stands => {
                format!("its answer of {} s ago stands", age.as_secs())
            }
            Some(age) => format!("its answer of {} s ago no longer stands", age.as_secs()),
            None => "it has not answered yet".to_owned(),
        };
        let _ = write!(
            body,
            "\npod source {} {}: {trouble}; {state}",
            report.kind, report.place
        );
    }
    for mount in exporters.mounts() {
        if let Some(trouble) = mount.exporter.reloads().trouble {
            let name = &mount.exporter.recipe().identity;
            let _ = write!(body, "\nexporter {name} keeps its old files: {trouble}");
        }
    }
    body
}

/// The page of `/self/metrics`.
pub fn self_metrics(attribution: &Attribution, exporters: &Exporters, parts: &Health) -> String {
    let mut page = String::new();
    let version = env!("CARGO_PKG_VERSION");
    family(&mut page, "mirage_build_info", "gauge", "Always 1");
    sample(&mut page, "mirage_build_info", &[("version", version)], 1.0);

    let parts = parts.parts_now();
    if !parts.is_empty() {
        family(
            &mut page,
            "mirage_part_up",
            "gauge",
            "Whether a part of this role does its work",
        );
    }
    for (part, trouble) in parts {
        let up = f64::from(u8::from(trouble.is_none()));
        sample(&mut page, "mirage_part_up", &[("part", part)], up);
    }

    let reports = attribution.reports();
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(usize) -> Option<f64>| {
        if reports.is_empty() {
            return;
        }
        family(&mut page, name, kind, help);
        for (at, report) in reports.iter().enumerate() {
            let labels = [("source", report.kind), ("path", report.place.as_str())];
            if let Some(value) = value(at) {
                sample(&mut page, name, &labels, value);
            }
        }
    };
    each(
        "mirage_pod_source_up",
        "gauge",
        "Whether the source's last answer was good",
        &|at| Some(f64::from(u8::from(reports[at].trouble.is_none()))),
    );
    each(
        "mirage_pod_source_age_seconds",
        "gauge",
        "Time since the source's last good answer",
        &|at| reports[at].age.map(|age| age.as_secs_f64()),
    );
    each(
        "mirage_pod_source_stands",
        "gauge",
        "Whether pages show the source's last good answer",
        &|at| Some(f64::from(u8::from(reports[at].stands))),
    );
    each(
        "mirage_pod_source_devices",
        "gauge",
        "Devices in the source's last good answer",
        &|at| Some(reports[at].claims as f64),
    );
    each(
        "mirage_pod_source_skipped",
        "gauge",
        "Entries of that answer that made no sense",
        &|at| Some(reports[at].skipped as f64),
    );
    each(
        "mirage_pod_source_failures_total",
        "counter",
        "Questions the source did not answer well",
        &|at| Some(reports[at].failures as f64),
    );

    family(
        &mut page,
        "mirage_exporter_reloads_total",
        "counter",
        "Changes of field lists and identities, taken over or refused",
    );
    for (at, mount) in exporters.mounts().iter().enumerate() {
        let reloads = mount.exporter.reloads();
        let identity = mount.exporter.recipe().identity.as_str();
        for (outcome, count) in [("good", reloads.good), ("refused", reloads.bad)] {
            let (exporter, place) = (at.to_string(), mount.place.to_string());
            let labels = [
                ("exporter", exporter.as_str()),
                ("identity", identity),
                ("place", place.as_str()),
                ("outcome", outcome),
            ];
            sample(
                &mut page,
                "mirage_exporter_reloads_total",
                &labels,
                count as f64,
            );
        }
    }
    page
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(page: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
        .collect();
    let _ = writeln!(page, "{name}{{{}}} {value}", labels.join(","));
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
