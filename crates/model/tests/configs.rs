//! Every file in `configs/valid` is accepted and means what the `.txt` beside it says;
//! every file in `configs/invalid` is refused with the message beside it. Adding a case is
//! adding a file; `UPDATE_EXPECT=1` writes the expectations.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mirage_model::config::{Defaults, Diagnostics, load};
use mirage_model::plan::{Amount, DeviceRef, Fault, FaultPlan, Plan, When, WorkloadPlan};
use mirage_model::quantity::show_duration;
use mirage_model::schema;

fn cases(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/configs")
        .join(kind);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end != "txt"))
        .collect();
    files.sort();
    files
}

fn read(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    (std::fs::read_to_string(path).unwrap(), name)
}

fn defaults() -> Defaults {
    Defaults {
        host: "here".into(),
        ..Defaults::default()
    }
}

/// Compares with the file, or writes it; what differs, if anything.
fn compare(path: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        if std::fs::read_to_string(path).ok().as_deref() != Some(actual) {
            std::fs::write(path, actual).unwrap();
        }
        return None;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    (expected != actual).then(|| {
        format!(
            "--- {}\n--- expected\n{expected}--- actual\n{actual}",
            path.display()
        )
    })
}

fn check(kind: &str, least: usize, show: impl Fn(&str, &str) -> Result<String, String>) {
    let files = cases(kind);
    assert!(files.len() >= least, "only {} cases in {kind}", files.len());
    let mut wrong = Vec::new();
    for path in &files {
        let (text, name) = read(path);
        match show(&text, &name) {
            Ok(actual) => wrong.extend(compare(&path.with_extension("txt"), &actual)),
            Err(surprise) => wrong.push(format!("{}: {surprise}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn valid_configs_mean_what_is_beside_them() {
    check("valid", 15, |text, name| {
        let loaded = load(text, name, &defaults()).map_err(|errors| errors.to_string())?;
        Ok(summary(&loaded.plan, &loaded.warnings))
    });
}

#[test]
fn invalid_configs_are_refused_with_the_message_beside_them() {
    check("invalid", 50, |text, name| {
        match load(text, name, &defaults()) {
            Ok(_) => Err("accepted".into()),
            Err(errors) => Ok(format!("{errors}\n")),
        }
    });
}

#[test]
fn the_reference_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let difference = compare(&page, &schema::reference());
    assert!(
        difference.is_none(),
        "docs/reference/config.md is old; run this test with UPDATE_EXPECT=1"
    );
}

#[test]
fn the_schema_is_json_and_names_every_key() {
    let text = schema::schema();
    let root = mirage_model::yaml::parse(&text).unwrap();
    let definitions = root.get("$defs").unwrap();
    let workload = definitions
        .get("workload")
        .unwrap()
        .get("properties")
        .unwrap();
    for key in ["name", "devices", "activity", "repeat", "limits", "pod"] {
        assert!(workload.get(key).is_some(), "{key}");
    }
    // Every reference leads somewhere.
    for reference in text.split("\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(definitions.get(name).is_some(), "{name}");
    }
}

/// A plan in few lines, so that a reader can judge it beside its config.
fn summary(plan: &Plan, warnings: &Diagnostics) -> String {
    let mut text = String::new();
    let tick = show_duration(plan.tick);
    writeln!(
        text,
        "seed {}, tick {tick}, mig {:?}",
        plan.seed, plan.mig_strategy
    )
    .unwrap();
    for pool in &plan.pools {
        let node = pool.node("");
        writeln!(text, "pool {}: {}", pool.name, gpus(&node)).unwrap();
    }
    let mut nodes = plan.nodes.iter().peekable();
    while let Some(node) = nodes.next() {
        let mut last = node;
        let mut count = 1;
        while let Some(next) =
            nodes.next_if(|next| gpus(next) == gpus(node) && next.pool == node.pool)
        {
            (last, count) = (next, count + 1);
        }
        let pool = node
            .pool
            .as_deref()
            .map_or(String::new(), |pool| format!(" ({pool})"));
        let names = match count {
            1 => node.name.to_string(),
            _ => format!("{count} nodes {} … {}", node.name, last.name),
        };
        writeln!(text, "node {names}{pool}: {}", gpus(node)).unwrap();
    }
    for workload in &plan.workloads {
        writeln!(text, "{}", show_workload(workload)).unwrap();
    }
    for fault in &plan.faults {
        writeln!(text, "{}", show_fault(fault)).unwrap();
    }
    if !warnings.is_empty() {
        writeln!(text, "{warnings}").unwrap();
    }
    text
}

fn gpus(node: &mirage_model::plan::NodePlan) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut gpus = node.gpus.iter().peekable();
    while let Some(gpu) = gpus.next() {
        let mut count = 1;
        while gpus.next_if(|next| *next == gpu).is_some() {
            count += 1;
        }
        let mut part = format!(
            "{count} x {} {}MiB",
            gpu.board.name, gpu.board.memory_total_mib
        );
        if let Some(given) = &gpu.given {
            for (what, value) in [("id", &given.uuid), ("serial", &given.serial)] {
                if let Some(value) = value {
                    write!(part, " {what} {value}").unwrap();
                }
            }
            if let Some(mig) = &given.mig {
                let show = |i: &mirage_model::plan::GivenInstance| {
                    let start = i.start.map_or(String::new(), |start| format!("@{start}"));
                    let id = i.uuid.as_ref().map_or(String::new(), |id| format!("={id}"));
                    format!("{}{start}{id}", i.profile)
                };
                let list: Vec<String> = mig.iter().map(show).collect();
                write!(part, " mig [{}]", list.join(" ")).unwrap();
            }
        }
        parts.push(part);
    }
    let (major, minor) = node.driver.cuda;
    let mut text = format!(
        "{}; driver {} cuda {major}.{minor}",
        parts.join(", "),
        node.driver.version
    );
    if node.dynamic_mig {
        text.push_str("; dynamic mig");
    }
    if let Some(extras) = &node.extras {
        if extras.without_kubelet {
            text.push_str("; without kubelet");
        }
        for (name, count) in &extras.resources {
            write!(text, "; {count} x {name}").unwrap();
        }
    }
    text
}

fn devices(devices: &[DeviceRef]) -> String {
    let show = |device: &DeviceRef| match device.instance {
        Some(instance) => format!("{}/{}:{instance}", device.node, device.gpu),
        None => format!("{}/{}", device.node, device.gpu),
    };
    match devices {
        [first, .., last] if devices.len() > 6 => {
            format!("{} devices {} … {}", devices.len(), show(first), show(last))
        }
        _ => devices.iter().map(show).collect::<Vec<_>>().join(" "),
    }
}

fn show_workload(workload: &WorkloadPlan) -> String {
    let mut text = format!(
        "workload {} on {}",
        workload.name,
        devices(&workload.devices)
    );
    if !workload.at.is_zero() {
        write!(text, " at {}", show_duration(workload.at)).unwrap();
    }
    for step in &workload.activity {
        let time = step.duration.map_or("for ever".into(), show_duration);
        write!(text, "\n  {time}: {}%", step.utilization).unwrap();
        match step.memory {
            Some(Amount::Bytes(range)) => write!(text, ", {range} bytes").unwrap(),
            Some(Amount::Share(range)) => write!(text, ", {range}% of memory").unwrap(),
            None => {}
        }
        if let Some(range) = step.bandwidth {
            write!(text, ", bandwidth {range}%").unwrap();
        }
        if let Some(range) = step.interconnect {
            write!(text, ", interconnect {range}%").unwrap();
        }
        write!(text, ", {:?}", step.function).unwrap();
    }
    let repeat = workload
        .repeat
        .map_or("for ever".into(), |times| format!("{times} times"));
    write!(
        text,
        "\n  {repeat}, intensity {}, tensor {}",
        workload.intensity, workload.tensor
    )
    .unwrap();
    write!(text, ", {:?} `{}`", workload.kind, workload.process).unwrap();
    let limits = &workload.limits;
    if *limits != mirage_model::plan::Limits::default() {
        write!(text, "\n  {limits:?}").unwrap();
    }
    if let Some(owner) = &workload.owner {
        let (space, pod, container) = (&owner.namespace, &owner.pod, &owner.container);
        write!(text, "\n  pod {space}/{pod}/{container} {}", owner.pod_uid).unwrap();
    }
    text
}

fn show_fault(fault: &FaultPlan) -> String {
    let when = match fault.when {
        When::At(at) => format!("at {}", show_duration(at)),
        When::Every { period, first } => {
            format!(
                "every {} from {}",
                show_duration(period),
                show_duration(first)
            )
        }
        When::Rate(rate) => format!("{rate} times an hour"),
    };
    let heal = fault.heal_after.map_or("for ever".into(), |time| {
        format!("for {}", show_duration(time))
    });
    let what = match &fault.fault {
        Fault::LinkDown(mask) => format!("LinkDown({mask:#x})"),
        other => format!("{other:?}"),
    };
    format!("fault {what} on {} {when}, {heal}", devices(&fault.devices))
}
