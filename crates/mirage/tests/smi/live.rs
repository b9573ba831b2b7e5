//! A running node: values are those of the API, and changes are made by the engine. Time stands still in it, so
//! that two looks see the same.

use std::path::PathBuf;

use crate::support::{STILL, Up, stdout};
use crate::{run, shown};

fn start() -> (Up, PathBuf) {
    let up = Up::with_config(STILL, &["--paused"]);
    let state = up.state_dir().join("node-a");
    (up, state)
}

#[test]
fn values_are_those_of_the_api() {
    let (up, state) = start();
    let arguments = "--query-gpu=index,uuid,serial,pci.bus_id,memory.used,temperature.gpu,power.limit,\
                     clocks.sm,utilization.gpu,pstate --format=csv,noheader,nounits";
    let rows = shown(&state, arguments);
    let gpus = up.json("/api/v1/nodes/node-a");
    let gpus = gpus["gpus"].as_array().expect("GPUs");
    assert_eq!(rows.lines().count(), gpus.len());
    for (row, gpu) in rows.lines().zip(gpus) {
        let cells: Vec<&str> = row.split(", ").collect();
        let text = |key: &str| gpu[key].as_str().expect("a text").to_owned();
        let number = |key: &str| gpu[key].as_u64().expect("a number");
        let wanted = [
            number("index").to_string(),
            text("uuid"),
            text("serial"),
            text("pci_bus_id"),
            (number("memory_used_bytes") >> 20).to_string(),
            number("temperature_c").to_string(),
            format!("{:.2}", gpu["power_limit_w"].as_f64().expect("a number")),
            number("sm_clock_mhz").to_string(),
            number("utilization_percent").to_string(),
            format!("P{}", number("performance_state")),
        ];
        assert_eq!(cells, wanted, "{gpu}");
    }
    assert!(rows.lines().any(|row| row.contains(", 30720, ")), "{rows}");
}

#[test]
fn processes_are_in_every_view() {
    let (up, state) = start();
    let gpu = up.json("/api/v1/nodes/node-a");
    let process = &gpu["gpus"][0]["processes"][0];
    let pid = process["pid"].to_string();
    let apps = shown(
        &state,
        "--query-compute-apps=pid,used_memory --format=csv,noheader",
    );
    let first = apps.lines().next().expect("a process");
    assert_eq!(first, format!("{pid}, 30720 MiB"));
    let views = ["", "-q -d PIDS -i 0", "-q -x -i 0", "pmon -c 1 -i 0"];
    for view in views {
        assert!(shown(&state, view).contains(&pid), "{view}");
    }
    let xml = shown(&state, "-q -x -i 0");
    assert!(xml.contains(&format!("<pid>{pid}</pid>")), "{xml}");
    assert!(
        xml.contains("<used_memory>30720 MiB</used_memory>"),
        "{xml}"
    );
}

#[test]
fn accounted_processes_are_listed_once_accounting_is_on() {
    let (_up, state) = start();
    let running = shown(
        &state,
        "--query-compute-apps=pid --format=csv,noheader -i 0",
    );
    let query = "--query-accounted-apps=pid,max_memory_usage,time --format=csv,noheader -i 0";
    assert!(!running.is_empty());
    assert_eq!(shown(&state, query), "");
    shown(&state, "-am 1 -i 0");
    let accounted = shown(&state, query);
    for (process, account) in running.lines().zip(accounted.lines()) {
        let cells: Vec<&str> = account.split(", ").collect();
        assert_eq!(cells[0], process);
        assert_eq!(cells[1], "30720 MiB");
        // Told once it has ended.
        assert_eq!(cells[2], "0 ms");
    }
    assert_eq!(accounted.lines().count(), running.lines().count());
}

/// As simple readers do it: every element that is opened is closed, in order.
#[test]
fn xml_is_well_formed() {
    let (_up, state) = start();
    let xml = shown(&state, "-q -x");
    let mut open = Vec::new();
    let mut rest = xml.as_str();
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').expect("an end") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        match tag.strip_prefix('/') {
            _ if tag.starts_with(['?', '!']) => {}
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => open.push(tag.split(' ').next().expect("a name")),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(xml.matches("<gpu id=").count(), 4);
}

#[test]
fn settings_show_at_once() {
    let (_up, state) = start();
    let told = shown(&state, "-i 0 -pl 300");
    assert!(
        told.contains("was set to 300.00 W from 400.00 W."),
        "{told}"
    );
    let query = |field: &str| {
        let arguments = format!("--query-gpu={field} --format=csv,noheader -i 0");
        shown(&state, &arguments).trim().to_owned()
    };
    assert_eq!(query("power.limit"), "300.00 W");
    shown(&state, "-i 0 -pm 0");
    assert_eq!(query("persistence_mode"), "Disabled");
    shown(&state, "-i 0 -c EXCLUSIVE_PROCESS");
    assert_eq!(query("compute_mode"), "Exclusive_Process");
    shown(&state, "-i 0 -ac 1215,1410");
    assert_eq!(query("clocks.applications.graphics"), "1410 MHz");
    shown(&state, "-i 0 -rac");
    assert_eq!(query("clocks.applications.graphics"), "1095 MHz");
    shown(&state, "-i 0 -lgc 900,1200");
    shown(&state, "-i 0 -rgc");
    shown(&state, "-i 0 -e 0");
    assert_eq!(query("ecc.mode.pending"), "Disabled");
    let refused = run(&state, "-i 0 -pl 3000");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stdout(&refused).contains("Invalid Argument"));
}

#[test]
fn a_gpu_is_cut_and_made_whole() {
    let (up, state) = start();
    shown(&state, "-i 3 -mig 1");
    let made = shown(&state, "mig -i 3 -cgi 9,3g.20gb -C");
    let created = "Successfully created compute instance ID  0 on GPU  3 GPU instance ID";
    assert_eq!(made.matches(created).count(), 2, "{made}");
    let list = shown(&state, "-L");
    assert_eq!(
        list.matches("  MIG 3g.20gb     Device  ").count(),
        2,
        "{list}"
    );
    let api = up.json("/api/v1/nodes/node-a");
    let devices = api["gpus"][3]["mig_devices"]
        .as_array()
        .expect("MIG devices");
    for device in devices {
        let uuid = device["uuid"].as_str().expect("a UUID");
        assert!(list.contains(uuid), "{uuid} in {list}");
    }
    for (arguments, rows) in [("mig -lgi", 2), ("mig -lci", 2), ("mig -lcip", 6)] {
        let table = shown(&state, arguments);
        assert_eq!(table.matches("|   3 ").count(), rows, "{table}");
        let wide = table.lines().map(|line| line.chars().count());
        assert!(wide.clone().min() == wide.max(), "{table}");
    }
    let table = shown(&state, "");
    assert!(table.contains("|  3    1   0   "), "{table}");
    let busy = run(&state, "mig -dgi");
    assert_eq!(busy.status.code(), Some(19), "{}", stdout(&busy));
    shown(&state, "mig -dci");
    shown(&state, "mig -dgi");
    let none = run(&state, "mig -lgi");
    assert_eq!(none.status.code(), Some(6));
    shown(&state, "-i 3 -mig 0");
    assert_eq!(run(&state, "mig -lgip").status.code(), Some(6));
}

/// Lists of the XML report, which are empty on most boards.
#[test]
fn bridges_retired_pages_and_accounted_processes_are_listed() {
    const CONFIG: &str = "
nodes:
  node-a: { model: tesla-k80, gpus: 2 }
workloads:
  - { name: train, devices: node-a/0, activity: [{ utilization: 50, memory: 1GiB }] }
";
    let up = Up::with_config(CONFIG, &["--paused"]);
    let state = up.state_dir().join("node-a");
    let whole = |text: &str| text.split_whitespace().collect::<String>();
    let before = whole(&shown(&state, "-q -x -i 0"));
    assert!(before.contains("<bridge_chip_type>PLX</bridge_chip_type><bridge_chip_fw>0x"));
    let none = "<retired_count>0</retired_count><retired_pagelist></retired_pagelist>";
    assert_eq!(before.matches(none).count(), 2, "{before}");
    assert!(before.contains("<accounted_processes></accounted_processes>"));
    let text = shown(&state, "-q -i 0");
    assert!(text.contains("  : PLX\n"), "{text}");

    shown(&state, "-i 0 -am 1");
    up.ctl_ok(&["fault", "inject", "xid=48", "--device", "node-a/0"]);
    up.ctl_ok(&["step", "2s"]);
    let apps = "--query-accounted-apps=pid,max_memory_usage --format=csv,noheader,nounits -i 0";
    let row = shown(&state, apps);
    let (pid, most) = row.trim().split_once(", ").expect("two columns");
    let after = shown(&state, "-q -x -i 0");
    let listed = format!("<accounted_process_info><pid>{pid}</pid>");
    assert!(whole(&after).contains(&listed), "{after}");
    assert!(after.contains(&format!("<max_memory_usage>{most} MiB</max_memory_usage>")));
    let pages = shown(
        &state,
        "--query-retired-pages=retired_pages.address --format=csv,noheader -i 0",
    );
    assert!(pages.lines().count() > 0, "{after}");
    for page in pages.lines() {
        let element = format!("<retired_page_address>{page}</retired_page_address>");
        assert!(after.contains(&element), "{element} in {after}");
    }
}

/// `PROFILE:START` puts an instance where it is asked to be, or nowhere.
#[test]
fn instances_go_where_they_are_asked_to() {
    let (_up, state) = start();
    shown(&state, "-i 3 -mig 1");
    shown(&state, "mig -i 3 -cgi 9:4,19:0");
    let table = shown(&state, "mig -i 3 -lgi");
    for place in ["4:4", "0:1"] {
        let row = |line: &&str| line.split_whitespace().any(|cell| cell == place);
        assert_eq!(table.lines().filter(row).count(), 1, "{place} in {table}");
    }
    // Taken; and no place of this profile.
    for (refused, code) in [("9:4", 23), ("9:1", 2), ("9:x", 2), ("14:-2", 2)] {
        let answer = run(&state, &format!("mig -i 3 -cgi {refused}"));
        assert_eq!(
            answer.status.code(),
            Some(code),
            "{refused}: {}",
            stdout(&answer)
        );
    }
    assert_eq!(shown(&state, "mig -i 3 -lgi"), table, "nothing was made");
}

#[test]
fn a_lost_gpu_is_fifteen_and_the_others_go_on() {
    let (up, state) = start();
    up.ctl_ok(&["fault", "inject", "xid=79", "--device", "node-a/1"]);
    let lost = run(&state, "-L");
    assert_eq!(lost.status.code(), Some(15), "{}", stdout(&lost));
    assert!(stdout(&lost).contains("GPU is lost"));
    assert_eq!(shown(&state, "-L -i 0,2,3").lines().count(), 3);
}

#[test]
fn a_k80_reads_as_a_k80() {
    let (up, _) = start();
    let state = up.state_dir().join("node-b");
    let report = shown(&state, "-q -i 0");
    for line in [
        "Single Bit",
        "Remapped Rows                         : N/A",
        "Tesla K80",
    ] {
        assert!(report.contains(line), "{line} in {report}");
    }
    let query = "--query-gpu=mig.mode.current,remapped_rows.pending --format=csv,noheader -i 0";
    assert_eq!(shown(&state, query), "[N/A], [N/A]\n");
}

/// Whatever a board lacks, there is a word for it. Boards of other makers have another driver.
#[test]
fn every_model_can_be_asked_everything() {
    let models = stdout(&crate::support::run(&["models"]));
    let mut config = String::from("seed: 7\ntick: 60s\nnodes:\n");
    let (mut names, mut others) = (Vec::new(), Vec::new());
    for line in models.lines().skip(1) {
        let key = line.split(' ').next().unwrap_or_default();
        config += &format!("  n-{key}: {{ model: {key}, gpus: 1 }}\n");
        let is_nvidia = ["NVIDIA", "Tesla"].iter().any(|word| line.contains(word));
        let to = if is_nvidia { &mut names } else { &mut others };
        to.push(format!("n-{key}"));
    }
    assert!(names.len() > 10 && !others.is_empty(), "{models}");
    let up = Up::with_config(&config, &["--paused"]);
    let state = |name: &String| up.state_dir().join(name);
    let help = shown(&state(&names[0]), "--help-query-gpu");
    let fields = help
        .lines()
        .filter_map(|line| line.strip_prefix('"')?.split('"').next());
    let fields: Vec<&str> = fields.collect();
    let query = format!("--query-gpu={} --format=csv,noheader", fields.join(","));
    for name in &others {
        assert_eq!(run(&state(name), "").status.code(), Some(9), "{name}");
    }
    for name in &names {
        let row = shown(&state(name), &query);
        assert_eq!(
            row.trim().split(", ").count(),
            fields.len(),
            "{name}: {row}"
        );
        assert!(!row.contains("Unknown Error"), "{name}: {row}");
        let table = shown(&state(name), "");
        // A date, a line of blanks, and between them frames of one width.
        let framed = table.lines().filter(|line| line.starts_with(['|', '+']));
        let widths: std::collections::BTreeSet<usize> =
            framed.map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 1, "{name}: {table}");
        assert!(widths.iter().all(|width| [79, 89, 91].contains(width)));
        let report = shown(&state(name), "-q");
        let colon = |line: &str| {
            line.find(" : ")
                .map(|at| at + 1)
                .or_else(|| line.find(": "))
        };
        // One column for all of a report; processes stay in the one they always had.
        let column = report.lines().find_map(colon);
        assert!([Some(42), Some(55)].contains(&column), "{name}: {report}");
        let lines = report.lines().filter(|line| line.contains(": "));
        for line in lines {
            let of_process = column != Some(42) && line.starts_with("        ");
            let is_there = colon(line) == column || of_process && colon(line) == Some(42);
            assert!(is_there, "{name}: {line}");
        }
    }
}

/// Newer drivers no longer tell what older ones did.
#[test]
fn the_drivers_version_decides_what_is_told() {
    let config = |driver: &str, cuda: &str| {
        format!(
            "seed: 7\ntick: 60s\ndriver: {{ version: {driver}, cuda: \"{cuda}\" }}\n\
             nodes:\n  node-a: {{ model: h100-sxm5-80gb, gpus: 1 }}\n"
        )
    };
    let gone = "Requested functionality has been deprecated";
    let query = "--query-gpu=display_mode,clocks.applications.graphics,power.management,\
                 reset_status.reset_required --format=csv,noheader";
    let old = Up::with_config(&config("550.163.01", "12.4"), &["--paused"]);
    let state = old.state_dir().join("node-a");
    let report = shown(&state, "-q -x");
    assert!(
        report.contains("nvsmi_device_v12.dtd") && report.contains("<power_draw>"),
        "{report}"
    );
    assert!(!report.contains(gone) && !shown(&state, query).contains(gone));
    let new = Up::with_config(&config("595.58.03", "13.2"), &["--paused"]);
    let state = new.state_dir().join("node-a");
    let report = shown(&state, "-q -x");
    assert!(report.contains("nvsmi_device_v13.dtd"), "{report}");
    assert!(report.contains("<instant_power_draw>"), "{report}");
    assert!(
        report.contains(&format!("<display_mode>{gone}</display_mode>")),
        "{report}"
    );
    let [token, cells] = [format!("[{gone}]"), shown(&state, query)];
    let cells: Vec<&str> = cells.trim_end().split(", ").collect();
    assert_eq!(cells, [&*token; 4]);
}
