//! `mirage up`: what it shows, and how it begins and ends.

use std::net::TcpListener;

use crate::support::{STILL, Up, mirage, stderr, wait_for};

#[test]
fn one_command_shows_eight_live_gpus() {
    let up = Up::start(&[]);
    let page = up.page("/metrics");
    for gpu in 0..8 {
        let series = format!("DCGM_FI_DEV_GPU_TEMP{{gpu=\"{gpu}\",UUID=\"GPU-");
        assert!(page.contains(&series), "{series} is missing in\n{page}");
    }
    assert!(!page.contains("gpu=\"8\""));
    assert!(page.contains("modelName=\"NVIDIA A100-SXM4-40GB\""));
    assert_eq!(up.page("/health"), "OK");

    // Values move: energy is counted in every tick.
    let energy = || up.series("/metrics", &["TOTAL_ENERGY_CONSUMPTION{gpu=\"0\""]);
    let before = energy().unwrap();
    wait_for("energy to be used", || (energy()? > before).then_some(()));
}

#[test]
fn the_start_page_says_where_to_look() {
    let up = Up::start(&["--gpus", "2", "--model", "h100-sxm5-80gb"]);
    let address = &up.address;
    assert!(up.page.contains("2 × NVIDIA H100 80GB HBM3"), "{}", up.page);
    assert!(up.page.contains(&format!("http://{address}/metrics")));
    assert!(up.page.contains(&format!("http://{address}/api/v1/gpus")));
    let state = up.state_dir();
    let state = state.display();
    let break_it = format!("mirage ctl --state-dir {state} fault inject xid=79 --device 1");
    assert!(up.page.contains(&break_it), "{}", up.page);
    let names_library =
        up.page.contains("LD_LIBRARY_PATH=") || up.page.contains("cargo build -p mirage-nvml");
    assert!(names_library, "{}", up.page);
}

#[test]
fn the_start_page_speaks_of_nvml_only_where_it_is_of_use() {
    let up = Up::start(&["--gpus", "2", "--model", "mi300x"]);
    assert!(up.page.contains("2 × "), "{}", up.page);
    for word in ["NVML", "LD_LIBRARY_PATH", "mirage-nvml"] {
        assert!(!up.page.contains(word), "{word} in {}", up.page);
    }
    // What it advises works on such a board.
    assert!(
        up.page.contains("fault inject lost --device 1"),
        "{}",
        up.page
    );
}

#[test]
fn a_config_is_shown_as_written() {
    let up = Up::with_config(STILL, &[]);
    let nodes = up.json("/api/v1/nodes");
    assert_eq!(nodes[0]["name"], "node-a");
    assert_eq!(nodes[0]["gpus"], 4);
    assert_eq!(nodes[1]["models"][0], "tesla-k80");
    assert_eq!(up.json("/api/v1/gpus").as_array().unwrap().len(), 6);
    let page = up.page("/nodes/node-b/metrics");
    assert!(page.contains("modelName=\"Tesla K80\""), "{page}");
    assert!(!page.contains("A100"), "{page}");
    // The library's way in: a file per node.
    assert!(up.state_dir().join("node-a/state").is_file());
    assert!(up.state_dir().join("node-b/state").is_file());
    let reader = mirage_state::Reader::open(&up.state_dir().join("node-a/state")).unwrap();
    let image = wait_for("a whole tick", || reader.snapshot());
    assert_eq!(image.node().name, "node-a");
    assert_eq!(image.cards.len(), 4);
}

#[test]
fn the_same_seed_gives_the_same_identities() {
    let ids = |up: &Up| -> Vec<String> {
        let gpus = up.json("/api/v1/gpus");
        let gpus = gpus.as_array().unwrap().iter();
        gpus.map(|gpu| gpu["uuid"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = Up::with_config(STILL, &[]);
    let second = Up::with_config(STILL, &[]);
    assert_eq!(ids(&first), ids(&second));
}

#[test]
fn sigterm_ends_it_and_removes_what_it_made() {
    for signal in ["TERM", "INT"] {
        let mut up = Up::start(&["--gpus", "1"]);
        assert!(up.state_dir().join("control.sock").exists());
        up.signal(signal);
        let status = up.wait();
        assert!(status.success(), "{signal}: {status}, {}", up.told());
        assert!(!up.state_dir().exists(), "{signal}");
    }
}

#[test]
fn a_signal_while_it_starts_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let state = root.path().join("state");
    let mut child = mirage()
        .args(["up", "--nodes", "60", "--listen", "127.0.0.1:0"])
        .arg("--state-dir")
        .arg(&state)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !state.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill").arg(&pid).status();
    assert!(sent.unwrap().success());
    let status = wait_for("the end", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    assert!(!state.exists());
}

#[test]
fn a_second_one_in_the_same_place_is_refused() {
    let up = Up::start(&["--gpus", "1"]);
    let output = mirage()
        .args([
            "up",
            "--gpus",
            "1",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
        ])
        .arg(up.state_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    let holder = format!("in use by process {}", up.child.id());
    assert!(error.contains(&holder), "{error}");
    assert!(error.contains("--state-dir"), "{error}");
    // The first goes on.
    assert_eq!(up.page("/health"), "OK");
    up.ctl_ok(&["status"]);
}

#[test]
fn a_leftover_of_a_killed_one_is_taken_over() {
    // Its second node is none of the next one's.
    let mut killed = Up::start(&["--gpus", "1", "--nodes", "2"]);
    killed.child.kill().unwrap();
    killed.wait();
    let state = killed.state_dir();
    assert!(state.join("control.sock").exists());
    let mut child = mirage()
        .args([
            "up",
            "--gpus",
            "1",
            "--listen",
            "127.0.0.1:0",
            "--for",
            "1s",
        ])
        .args(["--speed", "60", "--state-dir"])
        .arg(&state)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let status = wait_for("the end", || child.try_wait().unwrap());
    assert!(status.success());
    assert!(!state.exists(), "the killed one had made it");
}

#[test]
fn a_port_in_use_is_refused_before_anything_is_made() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let root = tempfile::tempdir().unwrap();
    let state = root.path().join("state");
    let output = mirage()
        .args(["up", "--listen", &address, "--state-dir"])
        .arg(&state)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("port is in use"), "{error}");
    assert!(error.contains("--listen"), "{error}");
    assert!(!state.exists());
}

#[test]
fn it_ends_by_itself_when_told_how_long() {
    let mut up = Up::start(&["--gpus", "1", "--speed", "600", "--for", "2m"]);
    let status = up.wait();
    assert!(status.success(), "{}", up.told());
    assert!(!up.state_dir().exists());
}

#[test]
fn impossible_wishes_are_refused_with_the_limit() {
    let cases: &[(&[&str], &str)] = &[
        (&["--model", "a100-sxm4-40g"], "did you mean"),
        (&["--gpus", "1000000000"], "limit"),
        (&["--nodes", "1000000000"], "limit"),
        (&["--speed", "NaN"], "outside 0.01 to 3600"),
        (&["--speed", "1e300"], "outside 0.01 to 3600"),
        (&["--for=-1s"], "duration"),
        (&["--listen", "nonsense"], "127.0.0.1:9400"),
        (&["--identity", "nobody"], "there are"),
        (
            &["--config", "/nowhere/mirage.yaml"],
            "/nowhere/mirage.yaml",
        ),
        (&["--collectors", "/nowhere/list.csv"], "/nowhere/list.csv"),
    ];
    for (args, wanted) in cases {
        let root = tempfile::tempdir().unwrap();
        let mut command = mirage();
        command
            .args(["up", "--state-dir"])
            .arg(root.path().join("state"))
            .args(*args);
        // One that is wrongly taken disturbs nobody and ends by itself.
        for (option, value) in [("--listen", "127.0.0.1:0"), ("--for", "1s")] {
            if !args[0].starts_with(option) {
                command.args([option, value]);
            }
        }
        let output = command.output().unwrap();
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(wanted), "{args:?}: {error}");
    }
}

#[test]
fn another_exporter_and_another_list_can_be_shown() {
    let root = tempfile::tempdir().unwrap();
    let list = root.path().join("list.csv");
    std::fs::write(&list, "DCGM_FI_DEV_GPU_TEMP, gauge, How warm it is.\n").unwrap();
    let up = Up::start(&["--gpus", "1", "-f", list.to_str().unwrap()]);
    let page = up.page("/metrics");
    assert!(
        page.starts_with("# HELP DCGM_FI_DEV_GPU_TEMP How warm it is."),
        "{page}"
    );
    assert!(!page.contains("POWER_USAGE"), "{page}");
}
