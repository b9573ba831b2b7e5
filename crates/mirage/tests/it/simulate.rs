//! `mirage simulate`: offline, and always the same bytes.

use crate::support::{run, stderr, stdout};

const SCENARIO: &str = "
seed: 7
nodes:
  node-a: { model: a100-sxm4-40gb, gpus: 2 }
workloads:
  - name: train
    devices: node-a/0
    activity:
      - { for: 2m, utilization: 80-100, memory: 30GiB }
    repeat: 1
faults:
  - { at: 3m, device: node-a/1, xid: 79, heal-after: 1m }
";

fn simulate(args: &[&str]) -> String {
    let output = run(&[&["simulate"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn the_same_arguments_print_the_same_bytes() {
    for print in ["metrics", "json", "csv", "summary"] {
        let args = [
            "--gpus", "2", "--seed", "7", "--for", "3m", "--every", "1m", "--print", print,
        ];
        let first = simulate(&args);
        assert_eq!(first, simulate(&args), "{print}");
        let mut other = args;
        other[3] = "8";
        assert_ne!(first, simulate(&other), "{print} ignores the seed");
    }
}

#[test]
fn a_full_disk_is_told_with_what_was_to_be_written() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let output = crate::support::mirage()
        .args(["simulate", "--for", "1s"])
        .stdout(full.unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("writing the simulation to"), "{error}");
}

#[test]
fn looking_changes_nothing() {
    let play = |every, print| {
        simulate(&[
            "--model", "t4", "--for", "90500ms", "--every", every, "--print", print,
        ])
    };
    let summary = play("90500ms", "summary");
    let last = play("90500ms", "csv");
    let last: Vec<_> = last.lines().skip(1).collect();
    assert_eq!(last.len(), 4);
    for every in ["1s", "1500ms", "333ms", "7s"] {
        assert_eq!(play(every, "summary"), summary, "{every}");
        let csv = play(every, "csv");
        let lines: Vec<_> = csv.lines().skip(1).collect();
        assert_eq!(lines[lines.len() - 4..], last, "{every}");
    }
    // More samples than ticks: each tick is shown once.
    assert_eq!(play("333ms", "csv"), play("1s", "csv"));
    let csv = play("1500ms", "csv");
    let mut times: Vec<_> = csv.lines().skip(1).map(|l| l.split(',').next()).collect();
    times.dedup();
    assert_eq!(times[..4], ["2.000", "3.000", "5.000", "6.000"].map(Some));
}

#[test]
fn a_scenario_plays_out_in_every_form() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("scenario.yaml");
    std::fs::write(&path, SCENARIO).unwrap();
    let path = path.to_str().unwrap();
    let play = |print, every| {
        simulate(&[
            "--config", path, "--for", "5m", "--every", every, "--print", print,
        ])
    };

    let summary = play("summary", "5m");
    assert!(summary.contains("5m simulated, seed 7"), "{summary}");
    assert!(summary.contains("ended at 2m, exit code 0"), "{summary}");
    assert!(summary.contains("xid=79 at 3m, healed"), "{summary}");

    let csv = play("csv", "1m");
    let mut lines = csv.lines();
    let columns: Vec<_> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<_>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 5 * 2);
    assert!(rows.iter().all(|row| row.len() == columns.len()));
    let column = |name| columns.iter().position(|column| *column == name).unwrap();
    let value = |row: &Vec<&str>, name| row[column(name)].parse::<f64>().unwrap();
    assert_eq!(rows[0][column("time_s")], "60.000");
    assert!(value(&rows[0], "power_w") > value(&rows[8], "power_w"));
    assert!(value(&rows[0], "memory_used_mib") >= 30.0 * 1024.0);
    assert_eq!(rows[0][column("xid")], "");
    assert_ne!(rows[9][column("xid")], "");

    let json = play("json", "1m");
    let samples: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(samples.len(), 5);
    assert_eq!(samples[4]["time_s"], 300.0);
    let events = samples[2]["events"].as_array().unwrap();
    let struck = |event: &&serde_json::Value| event["kind"] == "xid" && event["data"] == 79;
    assert_eq!(events.iter().filter(struck).count(), 1, "{events:?}");

    let metrics = play("metrics", "1m");
    assert_eq!(metrics.matches("# simulated time").count(), 5);
    let last = simulate(&["--config", path, "--for", "5m", "--print", "metrics"]);
    assert!(metrics.ends_with(&last));
    assert!(!last.contains("# simulated time"));
}

#[test]
fn the_machine_it_runs_on_does_not_show() {
    let page = simulate(&["--gpus", "1", "--for", "1s", "--print", "metrics"]);
    assert!(page.contains("ostname=\"node\""), "{page}");
}

#[test]
fn impossible_runs_are_refused() {
    let refused = |args: &[&str], wanted: &str| {
        let output = run(&[&["simulate"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    };
    refused(&["--for", "10"], "no unit");
    refused(&["--for", "1h", "--every", "0"], "--every");
    refused(&["--for", "1000d", "--every", "1ns"], "samples");
    refused(&["--print", "poem"], "possible values");
    refused(
        &["--config", "x.yaml", "--model", "t4"],
        "cannot be used with",
    );
}

#[test]
fn clock_events_of_the_last_minutes_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = dir.path().join("fields.csv");
    std::fs::write(&list, "DCGM_EXP_CLOCK_EVENTS_COUNT, counter, clocks\n").expect("written");
    let list = list.to_str().expect("plain");
    let args = ["simulate", "--model", "t4", "--gpus", "1", "--for", "10m"];
    let more = ["--print", "metrics", "-f", list];
    let window = ["--clock-events-count-window-size", "60000"];
    let output = run(&[&args[..], &more, &window].concat());
    let page = stdout(&output);
    let events: Vec<_> = page.lines().filter(|l| !l.starts_with('#')).collect();
    assert!(!events.is_empty(), "{page}");
    for event in events {
        assert!(event.contains("window_size_in_ms=\"60000\""), "{event}");
        let count: u32 = event
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a count");
        assert!(count <= 60, "{event}");
    }
}

/// fake-gpu-operator writes that a pod with a whole GPU uses all its memory, which is more than
/// a driver hands out.
#[test]
fn pods_of_a_topology_document_stay() {
    const FREE: &str = "DCGM_FI_DEV_FB_FREE{";
    const USED: &str = "DCGM_FI_DEV_FB_USED{";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("topology.yaml");
    let play = |gpu: &str| {
        let node =
            "nodes:\n  node-a:\n    gpuProduct: NVIDIA-A100-SXM4-40GB\n    gpuMemory: 40960\n";
        std::fs::write(&path, format!("{node}    gpus:\n{gpu}")).unwrap();
        let path = path.to_str().unwrap();
        let args = ["--config", path, "--for", "10s", "--print", "metrics"];
        let output = run(&[&["simulate"], &args[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let page = stdout(&output);
        let sample = |name: &str| {
            let line = page.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(line.contains("pod=\"train-0\""), "{line}");
            line.rsplit(' ').next().unwrap().to_owned()
        };
        (sample(USED), sample(FREE))
    };
    let whole = play(
        "    - id: GPU-a
      status:
        allocatedBy: { namespace: team, pod: train-0, container: main }
        podGpuUsageStatus:
          6c3f: { utilization: { min: 80, max: 100 }, fbUsed: 40960 }
",
    );
    assert_eq!(whole, ("40442".into(), "0".into()));
    let part = play(
        "    - id: GPU-a
      migDevices:
      - id: MIG-a
        name: 1g.5gb
        status:
          allocatedBy: { namespace: team, pod: train-0, container: main }
          podGpuUsageStatus:
            6c3f: { utilization: { min: 80, max: 100 }, fbUsed: 5000 }
",
    );
    assert_eq!(part, ("4864".into(), "0".into()));
}
