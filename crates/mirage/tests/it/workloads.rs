//! Workload clients connected to a machine: what they load, whom they name, how they end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{PATIENCE, Up, mirage, stderr, wait_for};

const NODE: &str = "
tick: 100ms
nodes:
  n: { model: a100-sxm4-40gb, gpus: 8 }
";

/// A machine with a place for workloads, and a pod list beside it.
struct Machine {
    up: Up,
    socket: PathBuf,
    list: PathBuf,
    _dir: TempDir,
}

impl Machine {
    fn start(args: &[&str]) -> Machine {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, list) = (dir.path().join("socket"), dir.path().join("podlist.json"));
        std::fs::write(&list, "[]").expect("written");
        let plain = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let (at, pods) = (plain(&socket), plain(&list));
        let fixed = ["--workload-socket", &at, "--pod-list", &pods];
        let up = Up::with_config(NODE, &[&fixed, args].concat());
        Machine {
            up,
            socket,
            list,
            _dir: dir,
        }
    }

    /// Connects a workload.
    fn connect(&self, spec: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(spec.as_bytes()).expect("sent");
        stream
    }

    /// Series of memory in use that name a pod.
    fn held(&self) -> Vec<String> {
        let page = self.up.page("/metrics");
        let lines = page
            .lines()
            .filter(|line| line.starts_with("DCGM_FI_DEV_FB_USED{") && line.contains(",pod=\""));
        lines.map(str::to_owned).collect()
    }
}

fn reply(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a reply");
    text
}

fn spec(more: &str) -> String {
    format!(r#"{{"Name": "train", "Reply": "text", {more}}}"#)
}

#[test]
fn a_connected_workload_holds_what_it_names_for_as_long_as_it_stays() {
    let machine = Machine::start(&["--kubernetes-virtual-gpus"]);
    let text = spec(
        r#""Devices": ["nvidia1"], "Labels": {"namespace": "ml", "pod": "train-0", "container": "main"},
           "Profile": [{"Load": 80, "Metrics": {"memory": 8589934592}}]"#,
    );
    let client = machine.connect(&text);
    let held = wait_for("the pod and its memory", || {
        let held = machine.held();
        let whole = held.len() == 1 && held[0].ends_with(" 8192");
        whole.then(|| held[0].clone())
    });
    for label in [
        "gpu=\"1\"",
        "container=\"main\"",
        "namespace=\"ml\"",
        "pod=\"train-0\"",
    ] {
        assert!(held.contains(label), "{held}");
    }
    // A pod list that says the same changes nothing; one that knows more adds to it.
    let list = r#"[{"name": "train-0", "namespace": "ml", "container": "main", "gpu_list": [1]},
                   {"name": "other", "namespace": "ml", "container": "c", "gpu_list": [0]}]"#;
    let next = machine.list.with_extension("next");
    std::fs::write(&next, list).expect("written");
    std::fs::rename(&next, &machine.list).expect("renamed");
    wait_for("both pods, each once", || {
        let held = machine.held();
        let of = |pod: &str| held.iter().filter(|line| line.contains(pod)).count();
        (of("pod=\"other\"") == 1).then(|| {
            assert_eq!(of("pod=\"train-0\""), 1, "{held:?}");
            assert!(held.iter().any(|line| line.ends_with(" 8192")), "{held:?}");
        })
    });
    // Whoever leaves takes what it did with it.
    drop(client);
    wait_for("an idle GPU", || {
        let page = machine.up.page("/metrics");
        let busy = page.lines().any(|line| {
            line.starts_with("DCGM_FI_DEV_GPU_UTIL{gpu=\"1\"") && !line.ends_with(" 0")
        });
        (!busy).then_some(())
    });
}

/// A pod knows its name and namespace, and nobody tells it what its container is called.
#[test]
fn a_workload_that_names_its_pod_alone_is_the_container_that_a_source_names() {
    let machine = Machine::start(&["--kubernetes-virtual-gpus"]);
    let text = spec(
        r#""Devices": ["nvidia1"], "Labels": {"namespace": "ml", "pod": "train-0"},
           "Profile": [{"Load": 80, "Metrics": {"memory": 8589934592}}]"#,
    );
    let _client = machine.connect(&text);
    let shown = |container: &str| {
        let container = format!(",container=\"{container}\",namespace=\"ml\",pod=\"train-0\"");
        wait_for("the pod, once", || {
            let held = machine.held();
            let one = held.len() == 1 && held[0].contains(&container) && held[0].ends_with(" 8192");
            one.then_some(())
        });
    };
    // For want of a better name.
    shown("train-0");
    let list = r#"[{"name": "train-0", "namespace": "ml", "container": "cuda", "gpu_list": [1]}]"#;
    std::fs::write(&machine.list, list).expect("written");
    shown("cuda");
    std::fs::write(&machine.list, "[]").expect("written");
    shown("train-0");
}

#[test]
fn workloads_end_with_the_codes_their_clients_expect() {
    let machine = Machine::start(&["--speed", "60"]);
    let finished = machine.connect(&spec(
        r#""Devices": ["nvidia0"], "Repeat": 2, "Profile": [{"Load": 50, "Seconds": 5}]"#,
    ));
    let limited = machine.connect(&spec(
        r#""Devices": ["card1"], "Limits": {"runtime": 7}, "Profile": [{"Load": 50}]"#,
    ));
    let stays = machine.connect(&spec(
        r#""Devices": ["nvidia0", "nvidia1"], "Profile": [{"Load": 1}]"#,
    ));
    // Bad ones are refused, and disturb nobody.
    for (bad, code) in [
        ("nonsense".to_owned(), "1"),
        (
            spec(r#""Devices": ["nvidia9"], "Profile": [{"Load": 1}]"#),
            "1\nWorkload refused: ",
        ),
        (
            spec(r#""Devices": ["nvidia0"], "Profile": [{"Load": 200}]"#),
            "1\nWorkload refused: ",
        ),
    ] {
        let answer = reply(machine.connect(&bad));
        assert!(answer.starts_with(code), "{bad}: {answer}");
    }
    assert_eq!(reply(finished), "0\nWorkload finished\n");
    assert_eq!(reply(limited), "1\nLimit runtime reached, terminated\n");
    let running = machine.up.json("/api/v1/workloads");
    let running = running.as_array().expect("a list");
    assert_eq!(
        running.len(),
        1,
        "the ended ones are forgotten: {running:?}"
    );
    // Our own client, over the same socket.
    let socket = machine.socket.to_str().expect("plain");
    let client = mirage()
        .args(["workload", "-socket", socket, "-devnames", "nvidia0"])
        .args(["-activity", "50:5:3"])
        .output()
        .expect("it starts");
    assert!(client.status.success(), "{}", stderr(&client));
    drop(stays);
}

#[test]
fn hundreds_of_workloads_come_and_go() {
    let machine = Machine::start(&[]);
    // Each takes the memory of a context: on one GPU there would be room for some ninety.
    let text = |gpu: u32| {
        spec(&format!(
            r#""Devices": ["nvidia{gpu}"], "Profile": [{{"Load": 1}}]"#
        ))
    };
    let clients: Vec<_> = (0..300).map(|n| machine.connect(&text(n % 8))).collect();
    let count = || {
        let list = machine.up.json("/api/v1/workloads");
        list.as_array().expect("a list").len()
    };
    wait_for("all of them", || (count() == 300).then_some(()));
    drop(clients);
    wait_for("none of them", || (count() == 0).then_some(()));
}

#[test]
fn a_socket_that_cannot_be_is_refused_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("notes");
    std::fs::write(&file, "mine").expect("written");
    let output = mirage()
        .args(["up", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(dir.path().join("state"))
        .arg("--workload-socket")
        .arg(&file)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no socket"), "{}", stderr(&output));
    assert_eq!(std::fs::read(&file).expect("still there"), b"mine");
}
