//! The control socket itself: NVML's setters, and whatever else may arrive.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{STILL, Up};

/// An NVML setter of a GPU of node-a.
fn nvml(up: &Up, gpu: usize, call: &str, args: Value) -> Value {
    let uuid = up.json("/api/v1/gpus")[gpu]["uuid"].clone();
    let mut request = json!({ "op": "nvml", "call": call, "gpu": uuid });
    for (key, value) in args.as_object().expect("an object") {
        request[key] = value.clone();
    }
    up.control(&request.to_string())
}

#[test]
fn it_is_private_and_reachable_from_each_nodes_directory() {
    let up = Up::with_config(STILL, &[]);
    let path = up.state_dir().join("control.sock");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let beside = up.state_dir().join("node-a/control.sock");
    std::os::unix::net::UnixStream::connect(beside).unwrap();
}

#[test]
fn every_setter_of_nvml_is_understood() {
    let up = Up::with_config(STILL, &[]);
    let free = 2;
    let done = [
        ("set_power_limit", json!({ "mw": 300_000 })),
        ("set_persistence", json!({ "on": true })),
        ("set_locked_clocks", json!({ "min": 300, "max": 600 })),
        ("reset_locked_clocks", json!({})),
        ("set_locked_mem_clocks", json!({ "min": 1215, "max": 1215 })),
        ("reset_locked_mem_clocks", json!({})),
        ("set_app_clocks", json!({ "mem": 1215, "sm": 900 })),
        ("reset_app_clocks", json!({})),
        ("set_ecc", json!({ "on": true })),
        ("clear_ecc", json!({ "aggregate": false })),
        ("set_compute_mode", json!({ "mode": 0 })),
        ("set_accounting", json!({ "on": true })),
        ("clear_accounting", json!({})),
        ("reset", json!({})),
    ];
    for (call, args) in done {
        let answer = nvml(&up, free, call, args);
        assert_eq!(answer["code"], 0, "{call}: {answer}");
    }
    let cases = [
        ("set_power_limit", json!({ "mw": 1 }), 2),
        ("set_fan", json!({ "fan": 0, "percent": 50 }), 3),
        ("default_fan", json!({ "fan": 0 }), 3),
        ("destroy_gi", json!({ "gi": 1 }), 3),
        ("do_magic", json!({}), 3),
    ];
    for (call, args, code) in cases {
        let answer = nvml(&up, free, call, args);
        assert_ne!(answer["code"], 0, "{call}: {answer}");
        if call != "destroy_gi" {
            assert_eq!(answer["code"], code, "{call}: {answer}");
        }
        assert!(answer["error"].is_string(), "{answer}");
    }
}

#[test]
fn nvml_partitions_a_gpu() {
    let up = Up::with_config(STILL, &[]);
    let mode = nvml(&up, 2, "set_mig", json!({ "on": true }));
    assert_eq!(
        (&mode["code"], &mode["activation"]),
        (&0.into(), &0.into()),
        "{mode}"
    );
    // Index 0 of the profiles is the one-slice one.
    let made = nvml(&up, 2, "create_gi", json!({ "profile": 0, "start": null }));
    assert_eq!(made["code"], 0, "{made}");
    let gi = made["gi"].clone();
    let made = nvml(
        &up,
        2,
        "create_ci",
        json!({ "gi": gi, "profile": 0, "start": null }),
    );
    assert_eq!(made["code"], 0, "{made}");
    let ci = made["ci"].clone();
    assert_eq!(
        up.json("/api/v1/gpus")[2]["mig_devices"][0]["gpu_instance"],
        gi
    );
    let gone = nvml(&up, 2, "destroy_ci", json!({ "gi": gi, "ci": ci }));
    assert_eq!(gone["code"], 0, "{gone}");
    let gone = nvml(&up, 2, "destroy_gi", json!({ "gi": gi }));
    assert_eq!(gone["code"], 0, "{gone}");
    // A GPU that somebody works on takes the mode and says why it is not in force.
    let busy = nvml(&up, 0, "set_mig", json!({ "on": true }));
    assert_eq!(
        (&busy["code"], &busy["activation"]),
        (&0.into(), &19.into()),
        "{busy}"
    );
}

#[test]
fn every_refusal_says_what_and_where() {
    let up = Up::with_config(STILL, &[]);
    let cases = [
        ("{", "reading a request"),
        ("[]", "expected an object"),
        ("{}", "\"op\" is missing"),
        (r#"{"op":1}"#, "\"op\" is missing or no text"),
        (r#"{"op":"dance"}"#, "unknown operation \"dance\""),
        (r#"{"op":"status","x":1}"#, "unknown field \"x\""),
        (r#"{"op":"reset"}"#, "\"devices\" is missing"),
        (
            r#"{"op":"reset","devices":7}"#,
            "must be a text, found the number 7",
        ),
        (r#"{"op":"reset","devices":"node-z/0"}"#, "node-z"),
        (r#"{"op":"fault.heal"}"#, "exactly one of"),
        (r#"{"op":"fault.heal","id":-1}"#, "whole number"),
        (r#"{"op":"fault.heal","id":99999}"#, "99999"),
        (
            r#"{"op":"fault.inject","fault":"device=node-a/0 cooling=NaN"}"#,
            "cooling",
        ),
        (
            r#"{"op":"fault.inject","fault":"device=node-a/0 cooling=1e300"}"#,
            "cooling",
        ),
        (
            r#"{"op":"workload.add","workload":{"name":"x"}}"#,
            "devices",
        ),
        (
            r#"{"op":"workload.add","workload":[]}"#,
            "a text or an object",
        ),
        (
            r#"{"op":"mig.create","devices":"node-a/0","profile":"9g"}"#,
            "node-a/0",
        ),
        (
            r#"{"op":"mig.create","devices":"all","profile":"1g.5gb","start":1e300}"#,
            "start",
        ),
        (
            r#"{"op":"set","devices":"all","name":"power-limit","value":"NaN"}"#,
            "power-limit",
        ),
        (
            r#"{"op":"nvml","call":"reset","gpu":"GPU-0"}"#,
            "no GPU has the id \"GPU-0\"",
        ),
        (
            r#"{"op":"nvml","call":"set_power_limit","gpu":"x"}"#,
            "\"mw\" is missing",
        ),
    ];
    for (request, wanted) in cases {
        let answer = up.control(request);
        assert_ne!(answer["code"], 0, "{request}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(wanted), "{request}: {error}");
    }
}

#[test]
fn one_connection_takes_many_requests() {
    let up = Up::with_config(STILL, &[]);
    let mut stream = up.connect();
    for _ in 0..50 {
        stream.write_all(b"{\"op\":\"status\"}\n\n").unwrap();
    }
    let mut reader = BufReader::new(stream);
    for _ in 0..50 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"code\":0"), "{line}");
    }
}

#[test]
fn endless_and_bottomless_messages_are_refused() {
    let up = Up::with_config(STILL, &[]);
    let deep = format!("{{\"op\":{}", "[".repeat(100_000));
    let answer = up.control(&deep);
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .contains("recursion limit"),
        "{answer}"
    );

    let mut stream = up.connect();
    // More than the limit, and no newline ever. The peer may close before all is sent.
    let _ = stream.write_all("x".repeat(400 * 1024).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.contains("longer than the limit"),
        "{answer}"
    );
    up.ctl_ok(&["status"]);
}
