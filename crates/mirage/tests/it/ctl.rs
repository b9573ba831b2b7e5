//! `mirage ctl`, every command, and that what it does shows everywhere at once.

use mirage_state::layout::flags;
use serde_json::Value;

use crate::support::{STILL, Up, mirage, stderr, wait_for};

fn gpu(up: &Up, at: usize) -> Value {
    up.json("/api/v1/gpus")[at].clone()
}

fn flags_in_file(up: &Up, node: &str, gpu: usize) -> u64 {
    let path = up.state_dir().join(node).join("state");
    let reader = mirage_state::Reader::open(&path).expect("a state file");
    let image = wait_for("a whole tick", || reader.snapshot());
    image.lives[gpu].flags
}

#[test]
fn status_tells_what_is_running() {
    let up = Up::with_config(STILL, &[]);
    let text = up.ctl_ok(&["status"]);
    assert!(
        text.contains("2 nodes, 4 × NVIDIA A100-SXM4-40GB, 2 × Tesla K80"),
        "{text}"
    );
    assert!(text.contains(&up.child.id().to_string()), "{text}");
    let json: Value = serde_json::from_str(&up.ctl_ok(&["status", "--json"])).unwrap();
    assert_eq!((&json["code"], &json["gpus"]), (&0.into(), &6.into()));
}

#[test]
fn time_stands_still_on_every_surface_and_moves_by_hand() {
    let up = Up::with_config(STILL, &["--paused", "--speed", "60"]);
    let path = up.state_dir().join("node-a/state");
    let header = || {
        let image = mirage_state::Reader::open(&path).unwrap().snapshot();
        image.unwrap().header
    };
    assert!(up.ctl_ok(&["status"]).contains("speed      60.0, paused"));
    let begun = header();
    assert_eq!(begun.sim_ms, 0);
    // The engine lives on and says so.
    crate::support::wait_for("a later heartbeat", || {
        (header().heartbeat_ns > begun.heartbeat_ns).then_some(())
    });
    assert_eq!(up.ctl_ok(&["step", "90s"]), "paused at 90.0 s\n");
    let stepped = header();
    assert_eq!(stepped.sim_ms, 90_000);
    assert_eq!(up.json("/api/v1/nodes")[0]["time_s"], 90.0);
    crate::support::wait_for("a later heartbeat", || {
        (header().heartbeat_ns > stepped.heartbeat_ns).then_some(())
    });
    let later = header();
    assert_eq!((later.sim_ms, later.tick), (90_000, stepped.tick));
    let refused = up.ctl(&["step", "2d"]);
    assert!(!refused.status.success());
    assert!(up.ctl_ok(&["resume"]).starts_with("running at 90.0 s"));
    crate::support::wait_for("time to go on", || (header().sim_ms > 90_000).then_some(()));
}

#[test]
fn a_fault_shows_on_every_surface_at_once_and_heals() {
    let up = Up::with_config(STILL, &[]);
    let tick = |up: &Up| up.json("/api/v1/status")["tick"].as_u64().unwrap();
    let before = tick(&up);
    let injected = up.ctl_ok(&["fault", "inject", "xid=79", "--device", "node-a/3"]);
    assert!(injected.contains("done, id"), "{injected}");

    // The answer came, so it is published: exporter, API and state file agree.
    assert!(tick(&up) > before);
    let xid = up.series("/nodes/node-a/metrics", &["XID_ERRORS{gpu=\"3\""]);
    assert!(xid.is_some(), "{}", up.page("/nodes/node-a/metrics"));
    let broken = gpu(&up, 3);
    assert_eq!(broken["healthy"], false);
    assert!(broken["flags"].as_array().unwrap().contains(&"lost".into()));
    assert_ne!(flags_in_file(&up, "node-a", 3) & flags::LOST, 0);
    let events = up.page("/api/v1/events");
    assert!(events.contains("NVRM: Xid"), "{events}");
    let faults = up.json("/api/v1/faults");
    assert_eq!(faults[0]["device"], "node-a/3");
    assert_eq!(faults[0]["active"], true);
    let list = up.ctl_ok(&["fault", "list"]);
    assert!(list.contains("node-a/3  xid=79"), "{list}");
    // Nobody else is hurt.
    assert_eq!(gpu(&up, 2)["healthy"], true);

    up.ctl_ok(&["fault", "heal", "--device", "node-a/3"]);
    assert!(up.ctl_ok(&["fault", "list"]).contains("healed"));
    assert_eq!(flags_in_file(&up, "node-a", 3) & flags::LOST, 0);
}

#[test]
fn faults_are_chosen_by_glob_uuid_and_id() {
    let up = Up::with_config(STILL, &[]);
    let uuid = gpu(&up, 1)["uuid"].as_str().unwrap().to_owned();
    let active = || -> Vec<String> {
        let faults = up.json("/api/v1/faults");
        let faults = faults.as_array().unwrap().iter();
        faults
            .filter(|fault| fault["active"] == true)
            .map(|fault| fault["device"].as_str().unwrap().to_owned())
            .collect()
    };
    up.ctl_ok(&["fault", "inject", "power-brake", "--device", "node-*/0"]);
    assert_eq!(active(), ["node-a/0", "node-b/0"]);
    up.ctl_ok(&["fault", "inject", "hang", "--device", &uuid]);
    assert_eq!(active(), ["node-a/0", "node-b/0", "node-a/1"]);
    let id = up.json("/api/v1/faults")[0]["id"].to_string();
    up.ctl_ok(&["fault", "heal", &id]);
    assert_eq!(active(), ["node-b/0", "node-a/1"]);
    up.ctl_ok(&["fault", "heal", "--device", "all"]);
    assert!(active().is_empty());
    let refused = up.ctl_refused(&["fault", "inject", "xid=79", "--device", "node-a/9"]);
    assert!(refused.contains("GPUs 0-3"), "{refused}");
    let refused = up.ctl_refused(&["fault", "inject", "gremlins", "--device", "all"]);
    assert!(refused.contains("gremlins"), "{refused}");
}

#[test]
fn settings_take_effect_or_are_refused_with_the_range() {
    let up = Up::with_config(STILL, &[]);
    up.ctl_ok(&["set", "power-limit", "250W", "--device", "node-a/0"]);
    assert_eq!(gpu(&up, 0)["power_limit_w"], 250.0);
    assert_eq!(gpu(&up, 1)["power_limit_w"], 400.0);
    up.ctl_ok(&["set", "power-limit", "default", "--device", "node-a/0"]);
    assert_eq!(gpu(&up, 0)["power_limit_w"], 400.0);
    let refused = up.ctl_refused(&["set", "power-limit", "9000W", "--device", "node-a/0"]);
    assert!(refused.contains("400"), "{refused}");
    up.ctl_ok(&["set", "persistence", "off", "--device", "node-a"]);
    assert_eq!(flags_in_file(&up, "node-a", 2) & flags::PERSISTENCE, 0);
    up.ctl_ok(&["set", "clocks", "300-600", "--device", "node-a/0"]);
    up.ctl_ok(&["set", "clocks", "default", "--device", "node-a/0"]);
    up.ctl_ok(&["set", "cooling", "2", "--device", "all"]);
    let refused = up.ctl_refused(&["set", "fan", "50%", "--device", "node-a/0"]);
    assert!(refused.contains("fan"), "{refused}");
    let refused = up.ctl_refused(&["set", "colour", "red", "--device", "all"]);
    assert!(refused.contains("there are: power-limit"), "{refused}");
    let later = up.ctl_ok(&["set", "ecc", "off", "--device", "node-a/3"]);
    assert!(later.contains("after a reset"), "{later}");
    up.ctl_ok(&["reset", "--device", "node-a/3"]);
    assert_eq!(flags_in_file(&up, "node-a", 3) & flags::ECC, 0);
    let refused = up.ctl_refused(&["reset", "--device", "node-a/0"]);
    assert!(refused.contains("in use"), "{refused}");
}

#[test]
fn workloads_come_and_go() {
    let up = Up::with_config(STILL, &[]);
    let list = up.ctl_ok(&["workload", "list"]);
    assert!(list.contains("train"), "{list}");
    let add = [
        "workload",
        "add",
        "burn",
        "--device",
        "node-a/2-3",
        "--utilization",
        "100",
    ];
    up.ctl_ok(&[&add[..], &["--memory", "10GiB", "--pod", "ml/burner"]].concat());
    let workloads = up.json("/api/v1/workloads");
    let burn = workloads
        .as_array()
        .unwrap()
        .iter()
        .find(|w| w["name"] == "burn");
    let burn = burn.unwrap();
    assert_eq!(burn["devices"], serde_json::json!(["node-a/2", "node-a/3"]));
    let refused = up.ctl_refused(&add);
    assert!(refused.contains("burn"), "{refused}");

    let file = up.config().with_file_name("more.yaml");
    std::fs::write(
        &file,
        "name: more\ndevices: node-b/0\nactivity: [{ utilization: 5 }]\n",
    )
    .unwrap();
    up.ctl_ok(&["workload", "add", "--file", file.to_str().unwrap()]);
    assert!(up.ctl_ok(&["workload", "list"]).contains("more"));

    up.ctl_ok(&["workload", "remove", "burn"]);
    let gone = up.json("/api/v1/workloads");
    assert!(gone.as_array().unwrap().iter().all(|w| w["name"] != "burn"));
    let refused = up.ctl_refused(&["workload", "remove", "burn"]);
    assert!(refused.contains("burn"), "{refused}");
}

#[test]
fn what_is_still_to_strike_is_listed_until_it_is_called_off() {
    let up = Up::with_config(STILL, &[]);
    let inject = |fault: &str, device: &str, when: &[&str]| {
        let call = ["fault", "inject", fault, "--device", device];
        up.ctl_ok(&[&call[..], when].concat());
    };
    inject("hang", "node-a/1-2", &["--at", "1h", "--heal-after", "5m"]);
    inject("lost", "node-a/1", &["--every", "2h"]);
    inject("xid=31", "node-a/3", &["--rate", "0.001"]);
    let pending = || {
        let json = up.ctl_ok(&["--json", "fault", "list"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            json["faults"].as_array().expect("a list").len(),
            0,
            "{json}"
        );
        json["pending"].as_array().expect("a list").clone()
    };
    let all = pending();
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(
        all[0]["devices"],
        serde_json::json!(["node-a/1", "node-a/2"])
    );
    assert_eq!(
        (&all[0]["fault"], &all[1]["fault"]),
        (&"hang".into(), &"lost".into())
    );
    assert_eq!(all[0]["heal_after_s"], 300.0);
    assert!(all[0]["strikes_at_s"].as_f64() >= Some(3600.0), "{all:?}");
    assert_eq!(
        (&all[1]["every_s"], &all[2]["rate"]),
        (&7200.0.into(), &0.001.into())
    );
    let list = up.ctl_ok(&["fault", "list"]);
    assert!(
        list.contains("node-a/1 node-a/2") && list.contains("strikes at"),
        "{list}"
    );

    // Spared with its device, or called off by its id.
    up.ctl_ok(&["fault", "heal", "--device", "node-a/1"]);
    let left = pending();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0]["devices"], serde_json::json!(["node-a/2"]));
    let id = left[0]["id"].to_string();
    up.ctl_ok(&["fault", "heal", &id]);
    assert_eq!(pending().len(), 1);
    let refused = up.ctl_refused(&["fault", "heal", &id]);
    assert!(refused.contains(&id), "{refused}");
    up.ctl_ok(&["fault", "heal", "--device", "all"]);
    assert_eq!(pending().len(), 0);
}

#[test]
fn a_gpu_in_mig_mode_takes_no_workload_itself() {
    let up = Up::with_config(STILL, &[]);
    let refused = || up.ctl_refused(&["workload", "add", "whole", "--device", "node-a/3"]);
    up.ctl_ok(&["mig", "enable", "--device", "node-a/3"]);
    let said = refused();
    assert!(said.contains("MIG is on for `node-a/3`"), "{said}");
    assert!(said.contains("mirage ctl mig create"), "{said}");
    up.ctl_ok(&["mig", "create", "1g.5gb", "--device", "node-a/3"]);
    let said = refused();
    assert!(said.contains("as in `node-a/3:0`"), "{said}");
    assert!(!up.ctl_ok(&["workload", "list"]).contains("whole"));
    up.ctl_ok(&["workload", "add", "part", "--device", "node-a/3:0"]);
    assert!(up.ctl_ok(&["workload", "list"]).contains("part"));
}

#[test]
fn gpus_are_partitioned_and_put_together_again() {
    let up = Up::with_config(STILL, &[]);
    let refused = up.ctl_refused(&["mig", "enable", "--device", "node-b/0"]);
    assert!(refused.contains("not supported"), "{refused}");
    up.ctl_ok(&["mig", "enable", "--device", "node-a/3"]);
    let created = up.ctl_ok(&["mig", "create", "1g.5gb", "--device", "node-a/3"]);
    assert!(created.contains("created GPU instance"), "{created}");
    up.ctl_ok(&["mig", "create", "3g.20gb", "--device", "node-a/3"]);
    let list = up.ctl_ok(&["mig", "list", "--device", "node-a/2-3"]);
    assert!(
        list.contains("1g.5gb") && list.contains("3g.20gb"),
        "{list}"
    );
    assert!(list.contains("node-a/2  off"), "{list}");
    let page = up.page("/nodes/node-a/metrics");
    assert!(page.contains("GPU_I_PROFILE=\"1g.5gb\""), "{page}");
    let devices = gpu(&up, 3)["mig_devices"].clone();
    assert_eq!(devices.as_array().unwrap().len(), 2);

    let gi = devices[0]["gpu_instance"].to_string();
    up.ctl_ok(&[
        "mig",
        "destroy",
        "--device",
        "node-a/3",
        "--gpu-instance",
        &gi,
    ]);
    let refused = up.ctl_refused(&[
        "mig",
        "destroy",
        "--device",
        "node-a/3",
        "--gpu-instance",
        &gi,
    ]);
    assert!(refused.contains("not found"), "{refused}");
    up.ctl_ok(&["mig", "destroy", "--device", "node-a/3"]);
    assert!(gpu(&up, 3).get("mig_devices").is_none());
    up.ctl_ok(&["mig", "disable", "--device", "node-a/3"]);
    let refused = up.ctl_refused(&["mig", "create", "1g.5gb", "--device", "node-a/3"]);
    assert!(!refused.is_empty());
}

#[test]
fn without_a_mirage_it_says_where_it_looked() {
    let root = tempfile::tempdir().unwrap();
    let output = mirage()
        .args(["ctl", "--state-dir"])
        .arg(root.path())
        .arg("status")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("is `mirage up` running"), "{error}");
    assert_eq!(
        mirage()
            .args(["ctl", "dance"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}
