//! Workload connections: the wire as stock clients know it, and clients of every kind at once.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use crate::bench::{PATIENCE, Server, kind, reply, stock};

const POWER: &str = "collectd_gpu_sysman_power_watts{dev_file=\"card0\"";
const MEMORY: &str = "collectd_gpu_sysman_memory_used_bytes{dev_file=\"card0\"";

fn half_load() -> &'static str {
    r#"{"Name": "half", "Repeat": 0, "Devices": ["card0"], "Profile": [{"Load": 50}]}"#
}

#[test]
fn malformed_specs_are_refused() {
    let server = stock().with(&["-count", "2"]).impatient().start();
    let start = r#"{"Name":"Invalid","Devices":["card0","card1"],"Profile":[{"Load":0}],"#;
    let zeros = "\0".repeat(64 * 1024);
    let specs = [
        String::new(),
        "foobar".to_owned(),
        "\0".repeat(200),
        r#"{"Foobar":0}"#.to_owned(),
        format!(r#"{start}"Repeat":-1}}"#),
        format!(r#"{start}"Profile":[{{"Load":-1}}]}}"#),
        format!(r#"{start}"Profile":[{{"Load":50,"Fluctuation":75}}]}}"#),
        format!(r#"{{"Name":"){zeros}"#),
        // And some that a stock client never thought of.
        r#"{"Name": "cut"#.to_owned(),
        format!("{} trailing", half_load()),
        r#"{"Name": "x", "Devices": ["card9"], "Profile": [{"Load": 1}]}"#.to_owned(),
        "[1, 2]".to_owned(),
        format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000)),
    ];
    let _held = server.connect(half_load());
    server.wait_for(POWER, 19.0);
    for spec in &specs {
        let shown: String = spec.chars().take(60).collect();
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The server may answer and hang up before it has read everything.
        let _ = stream.write_all(spec.as_bytes());
        // As the stock test client does: servers used to look during scrapes only.
        assert_eq!(server.value(POWER), 19.0, "{shown:?}");
        let mut answer = [0; 8];
        assert_eq!(stream.read(&mut answer).unwrap(), 1, "{shown:?}");
        assert_eq!(answer[0], b'1', "{shown:?}");
    }
    assert_eq!(server.value(POWER), 19.0, "nobody else was disturbed");
}

#[test]
fn a_stock_client_gets_a_bare_code_and_others_words() {
    let server = stock().fast().start();
    let spec =
        |more: &str| format!(r#"{{"Name": "x", "Repeat": 1, "Devices": ["card0"], {more}}}"#);
    let short = r#""Profile": [{"Load": 5, "Seconds": 1}]"#;
    assert_eq!(reply(server.connect(&spec(short))), "0");
    let words = format!(r#"{short}, "Reply": "text""#);
    assert_eq!(
        reply(server.connect(&spec(&words))),
        "0\nWorkload finished\n"
    );
    let limited = r#""Profile": [{"Load": 50}], "Limits": {"power": 5}"#;
    assert_eq!(reply(server.connect(&spec(limited))), "1");
    let words = format!(r#"{limited}, "Reply": "text""#);
    assert_eq!(
        reply(server.connect(&spec(&words))),
        "1\nLimit power reached, terminated\n"
    );
    let shown = r#""Profile": [{"Load": 50}], "Reply": "text",
                   "Limits": {"collectd_gpu_sysman_power_watts": 5}"#;
    assert_eq!(
        reply(server.connect(&spec(shown))),
        "1\nLimit collectd_gpu_sysman_power_watts reached, terminated\n"
    );
    assert_eq!(
        reply(server.connect(r#"{"Reply": "text"}"#)),
        "1\nWorkload refused: Name: a name is needed\n"
    );
}

#[test]
fn a_dropped_connection_frees_its_share_at_once() {
    // The next tick is an hour away: only the event itself can be the reason.
    let server = stock().start();
    let first = server.connect(half_load());
    let second = server.connect(half_load());
    server.wait_for(POWER, 35.0);
    drop(first);
    server.wait_for(POWER, 19.0);
    second.shutdown(Shutdown::Write).unwrap();
    server.wait_for(POWER, 3.0);
}

#[test]
fn one_who_talks_on_is_shown_out() {
    let server = stock().start();
    let mut quiet = server.connect(half_load());
    server.wait_for(POWER, 19.0);
    quiet.write_all(b" \n").unwrap();
    let mut loud = server.connect(half_load());
    server.wait_for(POWER, 35.0);
    loud.write_all(b"and another thing").unwrap();
    assert_eq!(reply(loud), "1");
    server.wait_for(POWER, 19.0);
}

#[test]
fn silent_and_slow_clients_hold_nobody_up() {
    let server = stock().start();
    let _silent: Vec<UnixStream> = (0..50).map(|_| server.connect("")).collect();
    let mut slow = server.connect("{\"Name\": ");
    let _held = server.connect(half_load());
    server.wait_for(POWER, 19.0);
    let rest = r#""slow", "Devices": ["card0"], "Profile": [{"Load": 25}]}"#;
    for byte in rest.as_bytes() {
        slow.write_all(&[*byte]).unwrap();
    }
    server.wait_for(POWER, 27.0);
}

#[test]
fn a_long_spec_is_not_cut() {
    let server = stock().start();
    let labels: Vec<String> = (0..10_000)
        .map(|number| format!(r#""label{number}": "value""#))
        .collect();
    let spec = format!(
        r#"{{"Labels": {{{}}}, "Name": "long", "Devices": ["card0"], "Profile": [{{"Load": 50}}]}}"#,
        labels.join(", ")
    );
    assert!(spec.len() > 200_000);
    let _held = server.connect(&spec);
    server.wait_for(POWER, 19.0);
    let endless = format!(r#"{{"Name": "{}"#, "x".repeat(2 * 1024 * 1024));
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It is refused before all of it was taken.
    let _ = stream.write_all(endless.as_bytes());
    let mut answer = [0; 8];
    assert_eq!(stream.read(&mut answer).unwrap(), 1);
    assert_eq!(answer[0], b'1');
}

/// A thousand clients need a thousand files here, and as many there.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn connect_many(server: &Server, count: usize) -> Vec<UnixStream> {
    let spec = r#"{"Name": "one", "Devices": ["card0"],
                   "Profile": [{"Metrics": {"memory": 1000}}]}"#;
    (0..count).map(|_| server.connect(spec)).collect()
}

#[test]
fn a_thousand_workloads_are_connected_at_once() {
    raise_file_limit();
    let server = stock().start();
    let mut held = connect_many(&server, 1000);
    server.wait_for(MEMORY, 1_048_576.0 + 1_000_000.0);
    // A page is the same bytes for whoever asks, however many are connected.
    let page = server.scrape();
    for _ in 0..20 {
        assert_eq!(server.scrape(), page);
    }
    held.truncate(400);
    server.wait_for(MEMORY, 1_048_576.0 + 400_000.0);
    held.clear();
    server.wait_for(MEMORY, 1_048_576.0);
}

#[test]
fn a_device_that_is_full_refuses_the_one_too_many() {
    let server = kind("two-tile.json", "two-tile-identity.json").start();
    let spec = r#"{"Name": "big", "Devices": ["card0.0"], "Reply": "text",
                   "Profile": [{"Metrics": {"memory": 40000000000}}]}"#;
    let memory =
        "xpum_memory_used_bytes{dev_file=\"card0\", pci_bdf=\"0000:03:00.0\", sub_dev=\"0\"";
    let _held = server.connect(spec);
    server.wait_for(memory, 4e10);
    assert_eq!(
        reply(server.connect(spec)),
        "1\nLimit memory reached, terminated\n"
    );
    assert_eq!(server.value(memory), 4e10);
}

#[test]
fn the_socket_is_private_and_does_not_outlive_its_server() {
    let mut server = stock().start();
    let mode = std::fs::metadata(&server.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let held = server.connect(half_load());
    server.wait_for(POWER, 19.0);
    crate::process::signal(&server.child, rustix::process::Signal::TERM);
    assert!(server.child.wait().unwrap().success());
    assert!(!server.socket.exists());
    assert_eq!(reply(held), "", "no code: the connection is lost");
}
