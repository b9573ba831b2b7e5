//! The workload client as a process: how it finds its devices, what it says, what it exits with.

use std::process::Stdio;

use crate::bench::{file, outcome, stock};

const POWER: &str = "collectd_gpu_sysman_power_watts{dev_file=\"card";

#[test]
fn a_finished_workload_exits_with_0_and_says_so() {
    let server = stock().fast().start();
    let output = server
        .workload(&[
            "-devnames",
            "card0",
            "-activity",
            "50:5:1,20:0:1",
            "-repeat",
            "2",
        ])
        .output()
        .unwrap();
    let (code, said) = outcome(&output);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Workload finished\n"), "{said}");
    assert!(
        said.contains("Exiting with code 0 returned by server\n"),
        "{said}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_limit_ends_it_with_1_and_its_name() {
    let server = stock().fast().start();
    let limited = |limits: &str| {
        let args = [
            "-devnames",
            "card0",
            "-activity",
            "50:0:0",
            "-limits",
            limits,
        ];
        outcome(&server.workload(&args).output().unwrap())
    };
    let (code, said) = limited("runtime=3");
    assert_eq!(code, 1);
    assert!(
        said.contains("Limit runtime reached, terminated\n"),
        "{said}"
    );
    let (code, said) = limited("memory=1e9,runtime=60");
    assert_eq!(code, 1);
    assert!(
        said.contains("Limit memory reached, terminated\n"),
        "{said}"
    );
}

#[test]
fn a_refused_workload_learns_why() {
    let server = stock().start();
    let output = server.workload(&["-devnames", "card7"]).output().unwrap();
    let (code, said) = outcome(&output);
    assert_eq!(code, 1);
    assert!(said.contains("there is no device"), "{said}");
}

#[test]
fn a_client_that_is_ended_gives_its_share_back() {
    let server = stock().start();
    let mut client = server
        .workload(&["-devnames", "card0", "-activity", "50:0:0"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    server.wait_for(&format!("{POWER}0\""), 19.0);
    crate::process::signal(&client, rustix::process::Signal::TERM);
    assert_eq!(client.wait().unwrap().code(), Some(143));
    server.wait_for(&format!("{POWER}0\""), 3.0);
    let mut client = server
        .workload(&["-devnames", "card0", "-activity", "50:0:0"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    server.wait_for(&format!("{POWER}0\""), 19.0);
    client.kill().unwrap();
    client.wait().unwrap();
    server.wait_for(&format!("{POWER}0\""), 3.0);
}

#[test]
fn a_lost_server_is_an_error() {
    let server = stock().start();
    let client = server
        .workload(&["-devnames", "card0", "-activity", "50:0:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_for(&format!("{POWER}0\""), 19.0);
    let socket = server.socket.clone();
    drop(server);
    let (code, said) = outcome(&client.wait_with_output().unwrap());
    assert_eq!(code, 1);
    assert!(said.contains("ERROR: "), "{said}");
    let output = crate::bench::mirage()
        .args(["workload", "-devnames", "card0", "-socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let (code, said) = outcome(&output);
    assert_eq!(code, 1);
    assert!(said.contains("connecting to fakedev-exporter"), "{said}");
}

#[test]
fn devices_come_from_files_indices_and_the_completion_index() {
    let server = stock().with(&["-count", "4"]).start();
    for name in ["card1", "card2", "renderD128"] {
        std::fs::write(server.folder.path().join(name), "").unwrap();
    }
    let pattern = format!("{}/card*", server.folder.path().display());
    let load = ["-activity", "50:0:0"];
    let mut clients = [
        server.workload(&["-devices", &pattern]),
        server.workload(&["-devices", &pattern, "-index-regexp", "card([0-9]+)$"]),
        server.workload(&["-devnames", "cardINDEX", "-max-index", "4"]),
    ];
    clients[2].env("JOB_COMPLETION_INDEX", "7");
    let mut children: Vec<_> = clients
        .iter_mut()
        .map(|client| client.args(load).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    for (device, expected) in [(0, 3.0), (1, 35.0), (2, 35.0), (3, 19.0)] {
        server.wait_for(&format!("{POWER}{device}\""), expected);
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = server
        .workload(&["-devnames", "cardINDEX", "-max-index", "4"])
        .output()
        .unwrap();
    assert_eq!(outcome(&output).0, 1, "no completion index");
}

#[test]
fn a_file_says_what_to_do_and_an_unreadable_one_is_an_error() {
    let server = stock().start();
    let mut client = server
        .workload(&["-json", &file("base-50.json"), "-devnames", "card0"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    server.wait_for(&format!("{POWER}0\""), 19.0);
    client.kill().unwrap();
    client.wait().unwrap();
    let none = server.folder.path().join("none.json");
    let output = server
        .workload(&["-json", none.to_str().unwrap(), "-devnames", "card0"])
        .output()
        .unwrap();
    let (code, said) = outcome(&output);
    assert_eq!(code, 1);
    assert!(said.contains("reading workload"), "{said}");
    assert!(said.contains("No such file"), "{said}");
}
