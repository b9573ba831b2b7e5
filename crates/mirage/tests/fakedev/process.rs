//! The exporter as a process: names, flags, files, signals and exit codes.

use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{eventually, file, kind, mirage, outcome, stock};

/// Signals a child of this test.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn signals_end_it_in_good_order() {
    for number in [Signal::HUP, Signal::INT, Signal::TERM] {
        let mut server = stock().start();
        assert!(server.socket.exists());
        signal(&server.child, number);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{number:?}");
        assert!(!server.socket.exists(), "{number:?}");
    }
}

#[test]
fn a_socket_that_was_left_is_replaced_and_a_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    assert!(left.exists());
    let mut server = stock().at(&left).start();
    let _held = server.connect("");
    signal(&server.child, Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    assert!(!left.exists());

    let notes = folder.path().join("notes");
    std::fs::write(&notes, "mine").unwrap();
    let (code, said) = run(&["-socket", notes.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(said.contains("no socket"), "{said}");
    assert_eq!(std::fs::read(&notes).unwrap(), b"mine");
}

/// Runs an exporter that cannot start.
fn run(args: &[&str]) -> (i32, String) {
    let output = mirage()
        .arg("fakedev-exporter")
        .args([
            "-devlist",
            &file("devices.json"),
            "-devtype",
            &file("dg1.json"),
        ])
        .args([
            "-identity",
            &file("collectd.json"),
            "-address",
            "127.0.0.1:0",
        ])
        .args(args)
        .output()
        .unwrap();
    outcome(&output)
}

#[test]
fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let none = folder.path().join("none.json").to_str().unwrap().to_owned();
    let broken = write("broken.json", "{");
    let unmapped = write(
        "unmapped.json",
        r#"{"MetricLabels": {"power": {"a": "b"}}}"#,
    );
    let base = write("base.json", r#"{"Name": "x", "Profile": [{"Load": 101}]}"#);
    let table: &[(&[&str], i32, &str)] = &[
        (
            &["-count", "17"],
            1,
            "fewer devices than requested (16 < 17)",
        ),
        (&["-devtype", &none], 1, "reading device type"),
        (&["-devlist", &none], 1, "reading device list"),
        (&["-identity", &none], 1, "reading identity"),
        (&["-wl-all", &none], 1, "reading base workload"),
        (&["-devtype", &broken], 1, "using device type"),
        (&["-identity", &unmapped], 1, "MetricMap"),
        (
            &["-wl-odd", &base, "-count", "2"],
            1,
            "Profile[0].Load: 101",
        ),
        (&["-address", "nowhere"], 1, "listening on nowhere"),
        (&["-address", ":x"], 2, "-address"),
        (&["-count", "-1"], 2, "-count"),
        (&["-interval", "0s"], 2, "-interval"),
        (&["-speed", "0"], 2, "-speed"),
        (
            &["-frequency", "1"],
            2,
            "flag provided but not defined: -frequency",
        ),
        (&["-count"], 2, "flag needs an argument: -count"),
    ];
    for (args, expected, reason) in table {
        let (code, said) = run(args);
        assert_eq!(code, *expected, "{args:?}: {said}");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
}

#[test]
fn it_is_whatever_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    for (name, flag) in [
        ("fakedev-exporter", "-wl-even"),
        ("fakedev-workload", "-max-index"),
    ] {
        let path = folder.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mirage"), &path).unwrap();
        for help in ["-help", "--help", "-h"] {
            let called = Command::new(&path).arg(help).output().unwrap();
            let role = mirage().args([name, help]).output().unwrap();
            for output in [called, role] {
                assert_eq!(output.status.code(), Some(0), "{name} {help}");
                let text = String::from_utf8(output.stdout).unwrap();
                assert!(text.contains(flag), "{name} {help}: {text}");
            }
        }
    }
}

#[test]
fn the_guide_s_files_do_what_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/fakedev.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks: Vec<&str> = guide
        .split("```json\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    let [devtype, workload] = blocks[..] else {
        panic!("{} blocks", blocks.len());
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("devtype.json");
    std::fs::write(&path, devtype).unwrap();
    let server = kind("dg1.json", "two-tile-identity.json")
        .with(&["-devtype", path.to_str().unwrap(), "-count", "2"])
        .start();
    let series = "xpum_power_watts{dev_file=\"card0\"";
    assert_eq!(server.value(series), 80.0);
    let _held = server.connect(workload);
    // It begins at the bottom of its span: shown, but not busy yet.
    eventually(|| {
        let page = server.scrape();
        if page.contains("kube_pod=\"train-0\"") {
            Ok(())
        } else {
            Err(page)
        }
    });
}
