//! What is refused, kept, undone and told.

use std::fs;
use std::os::unix::fs::symlink;

use crate::stage::Stage;

#[test]
fn a_real_driver_is_left_alone_unless_forced() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("host/sys/module/nvidia")).unwrap();
    let refused = stage.run(&["all"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("real NVIDIA driver"), "{refused:?}");
    assert_eq!(stage.below(&stage.path("new")), []);
    stage.good(&["all", "--force"]);
}

#[test]
fn files_of_others_are_refused_and_nothing_else_is_made() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root("usr/lib64")).unwrap();
    let theirs = stage.root("usr/lib64/libcuda.so.1");
    fs::write(&theirs, "theirs").unwrap();
    let before = stage.below(&stage.path("new"));
    let refused = stage.run(&["all"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("libcuda.so.1") && refused.err.contains("--force"),
        "{refused:?}"
    );
    assert_eq!(stage.below(&stage.path("new")), before);
    stage.good(&["all", "--force"]);
    assert!(fs::symlink_metadata(&theirs).unwrap().is_symlink());
    // Directories that were there before stay.
    stage.good(&["remove"]);
    assert!(stage.root("usr/lib64").is_dir());
    assert!(!theirs.exists());
}

#[test]
fn real_nodes_in_dev_are_refused() {
    let stage = Stage::new();
    fs::create_dir_all(stage.path("machine/dev")).unwrap();
    fs::write(stage.path("machine/dev/nvidia0"), "").unwrap();
    let machine = stage.path("machine");
    let refused = stage.run(&["all", "--dev-root", machine.to_str().unwrap()]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("machine/dev/nvidia0"), "{refused:?}");
    assert_eq!(stage.below(&stage.path("new")), []);
    assert_eq!(stage.below(&machine).len(), 2);
}

#[test]
fn nodes_that_a_real_driver_took_over_stay() {
    let stage = Stage::new();
    let host = stage.path("host");
    fs::create_dir(host.join("dev")).unwrap();
    stage.good(&["all", "--dev-root", host.to_str().unwrap()]);
    // As its module does once it is loaded.
    fs::create_dir_all(host.join("sys/module/nvidia")).unwrap();
    let removed = stage.good(&["remove"]);
    assert!(removed.err.contains("a real driver uses it"), "{removed:?}");
    assert!(host.join("dev/nvidia0").exists());
    assert!(!stage.root("version").exists());
}

#[test]
fn no_symbolic_link_leads_out_of_the_root() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root("")).unwrap();
    fs::create_dir(stage.path("elsewhere")).unwrap();
    symlink(stage.path("elsewhere"), stage.root("usr")).unwrap();
    for force in [&["all"][..], &["all", "--force"]] {
        let refused = stage.run(force);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert_eq!(stage.below(&stage.path("elsewhere")), []);
    }
    fs::remove_file(stage.root("usr")).unwrap();
    fs::remove_dir(stage.root("")).unwrap();
    symlink(stage.path("elsewhere"), stage.root("")).unwrap();
    let refused = stage.run(&["all"]);
    assert!(refused.err.contains("symbolic link"), "{refused:?}");
    assert_eq!(stage.below(&stage.path("elsewhere")), []);
}

#[test]
fn a_link_that_appears_later_is_not_followed_by_removal() {
    let stage = Stage::new();
    stage.good(&["all"]);
    fs::create_dir(stage.path("elsewhere")).unwrap();
    fs::rename(stage.root("config"), stage.path("elsewhere/config")).unwrap();
    symlink(stage.path("elsewhere/config"), stage.root("config")).unwrap();
    let refused = stage.run(&["remove"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(stage.path("elsewhere/config/mirage.yaml").exists());
}

#[test]
fn what_others_changed_is_kept_and_told() {
    let stage = Stage::new();
    stage.good(&["all"]);
    let smi = stage.root("usr/bin/nvidia-smi");
    fs::write(&smi, "their own").unwrap();
    fs::write(stage.root("usr/lib64/libtheirs.so"), "").unwrap();
    let again = stage.good(&["all"]);
    assert!(again.err.contains("changed by others"), "{again:?}");
    assert_eq!(fs::read_to_string(&smi).unwrap(), "their own");
    assert_eq!(stage.run(&["status"]).code, 1);
    let removed = stage.good(&["remove"]);
    assert!(removed.err.contains("nvidia-smi"), "{removed:?}");
    let left: Vec<_> = stage
        .below(&stage.root(""))
        .into_iter()
        .filter(|(_, what)| what.starts_with("file"))
        .map(|(path, _)| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(left, ["nvidia-smi", "libtheirs.so"]);
}

/// Files that were renamed into place before the disk had what is in them come back empty after a power cut.
#[test]
fn what_a_power_cut_left_empty_is_made_again() {
    let stage = Stage::new();
    let state = |stage: &Stage| mirage_state::lookup::nodes_in(&stage.root("run/mirage")).remove(0);
    stage.good(&["all", "--gpus", "2"]);
    let files = [
        stage.root("version"),
        stage.root("usr/bin/nvidia-smi"),
        stage.root("var/run/cdi/nvidia.yaml"),
        state(&stage),
    ];
    for then in ["all", "remove"] {
        for file in &files {
            fs::remove_file(file).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(stage.run(&["status"]).code, 1);
        let done = stage.good(&[then, "--gpus", "2"]);
        assert!(!done.err.contains("changed by others"), "{done:?}");
        if then == "all" {
            assert!(done.out.contains("4 replaced"), "{done:?}");
            stage.good(&["status"]);
        }
    }
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn a_manifest_that_a_power_cut_left_empty_listed_nothing() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root("dev")).unwrap();
    fs::write(stage.root(".mirage.json"), "").unwrap();
    assert!(stage.good(&["remove"]).out.starts_with("nothing to do"));
    stage.good(&["all", "--gpus", "1"]);
    stage.good(&["status"]);
}

#[test]
fn a_run_that_was_cut_short_is_finished_by_the_next() {
    let stage = Stage::new();
    stage.good(&["all"]);
    let manifest = stage.root(".mirage.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replace("\"complete\":true", "\"complete\":false"),
    )
    .unwrap();
    fs::remove_file(stage.root("version")).unwrap();
    for dir in [stage.root(""), stage.root("dev")] {
        fs::create_dir(dir.join(".mirage.new")).unwrap();
        fs::write(dir.join(".mirage.new/7"), "half").unwrap();
    }
    assert_eq!(stage.run(&["status"]).code, 1);
    let next = stage.good(&["all"]);
    assert!(next.err.contains("cut short"), "{next:?}");
    stage.good(&["status"]);
    assert!(stage.root("version").exists() && !stage.root(".mirage.new").exists());
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn removal_after_a_run_that_was_cut_short_leaves_nothing() {
    let stage = Stage::new();
    stage.good(&["all"]);
    let manifest = stage.root(".mirage.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replace("\"complete\":true", "\"complete\":false"),
    )
    .unwrap();
    fs::create_dir(stage.root(".mirage.new")).unwrap();
    fs::write(stage.root(".mirage.new/7"), "half").unwrap();
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn a_run_that_only_began_leaves_nothing_once_removed() {
    let stage = Stage::new();
    stage.good(&["all"]);
    // As a first run leaves it that was killed right after it had written down what it was about to make.
    let manifest = stage.root(".mirage.json");
    let mut text: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&manifest).unwrap()).unwrap();
    stage.good(&["remove"]);
    text["complete"] = false.into();
    text["entries"] = serde_json::json!([]);
    fs::create_dir_all(stage.root("dev/.mirage.new")).unwrap();
    fs::write(&manifest, text.to_string()).unwrap();
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn a_staging_directory_that_cannot_be_cleared_is_named() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root(".mirage.new/theirs")).unwrap();
    let refused = stage.run(&["all"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("driver/.mirage.new"), "{refused:?}");
    assert!(!stage.root(".mirage.json").exists());
}

#[test]
fn two_runs_do_not_mix() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root("")).unwrap();
    let held = fs::File::open(stage.root("")).unwrap();
    held.lock().unwrap();
    let refused = stage.run(&["all"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("another run"), "{refused:?}");
    assert_eq!(stage.below(&stage.root("")), []);
    drop(held);
    stage.good(&["all"]);
}

#[test]
fn a_manifest_that_leads_elsewhere_is_not_believed() {
    let stage = Stage::new();
    stage.good(&["all"]);
    fs::write(stage.path("precious"), "").unwrap();
    let manifest = stage.root(".mirage.json");
    let good = fs::read_to_string(&manifest).unwrap();
    let bad = good.replace("\"path\":\"version\"", "\"path\":\"../../precious\"");
    assert_ne!(good, bad);
    for text in [bad.as_str(), "{}", "\0", "[]"] {
        fs::write(&manifest, text).unwrap();
        for verb in ["remove", "all", "status"] {
            let refused = stage.run(&[verb]);
            assert_eq!(refused.code, 1, "{text} {refused:?}");
        }
        assert!(stage.path("precious").exists() && stage.root("version").exists());
    }
}

#[test]
fn a_rehearsal_touches_nothing() {
    let stage = Stage::new();
    let told = stage.good(&["all", "--dry-run"]);
    assert!(
        told.out.contains("would create") && told.out.contains("nvidia.yaml"),
        "{told:?}"
    );
    assert_eq!(stage.below(&stage.path("new")), []);
    stage.good(&["all"]);
    let before = stage.below(&stage.path("new"));
    assert_eq!(stage.good(&["all", "--dry-run"]).out, "nothing to do\n");
    stage.good(&["remove", "--dry-run"]);
    assert_eq!(stage.below(&stage.path("new")), before);
}

#[test]
fn mistakes_are_told_with_the_way_out() {
    let stage = Stage::new();
    for (words, told) in [
        (&["all", "--driver-version", "../../etc"][..], "550.163.01"),
        (&["all", "--driver-version", "550"], "550.163.01"),
        (&["all", "--model", "mi300x"], "no NVIDIA GPU"),
        (&["all", "--model", "nonsense"], "nonsense"),
        (&["all", "--cdi-kind", "gpu"], "vendor/class"),
        (&["all", "--gpus", "100000"], "128"),
        (&["everything"], "unrecognized"),
    ] {
        let refused = stage.run(words);
        assert_eq!(refused.code, 2, "{words:?} {refused:?}");
        assert!(refused.err.contains(told), "{words:?} {refused:?}");
    }
    assert_eq!(stage.below(&stage.path("new")), []);
    stage.good(&["all"]);
    let elsewhere = stage.path("cdi");
    let refused = stage.run(&["all", "--cdi-dir", elsewhere.to_str().unwrap()]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("remove"), "{refused:?}");
}

/// A limit on the size of files stands for a full disk: it needs no mount, and stops a run at the same place every time.
#[test]
fn a_disk_that_takes_no_more_leaves_everything_as_it_was() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", "1"]);
    let before = stage.below(&stage.path("new"));
    let manifest = fs::read(stage.root(".mirage.json")).unwrap();
    fs::write(stage.path("libraries/libcuda.so"), vec![0; 3 << 20]).unwrap();
    // First while writing down what shall be, then while preparing it.
    for (blocks, gpus) in [("128", "128"), ("4096", "2")] {
        let mut run = std::process::Command::new("sh");
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        run.args(["-c", &limited])
            .arg(stage.command().get_program());
        run.arg("driver").args(stage.command().get_args());
        let output = run.args(["all", "--gpus", gpus]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("File too large"), "{told}");
        assert_eq!(fs::read(stage.root(".mirage.json")).unwrap(), manifest);
        let after = stage.below(&stage.path("new"));
        let changed: Vec<_> = after.iter().filter(|it| !before.contains(it)).collect();
        assert_eq!(changed, Vec::<&(std::path::PathBuf, String)>::new());
        assert_eq!(after.len(), before.len());
        stage.good(&["status"]);
    }
}

#[test]
fn failures_are_json_lines_too() {
    let stage = Stage::new();
    for (words, code) in [(&["all", "--model", "nonsense"][..], 2), (&["status"], 1)] {
        let failed = stage.run(&[words, &["--log-format", "json"]].concat());
        assert_eq!(failed.code, code, "{failed:?}");
        let last = failed.err.lines().last().expect("a line");
        let last: serde_json::Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["level"], "error");
        assert!(last["message"].is_string(), "{last}");
    }
}

#[test]
fn lines_are_json_when_asked_and_as_many_as_asked() {
    let stage = Stage::new();
    let quiet = stage.good(&["--log-level=error", "all"]);
    assert_eq!(quiet.err, "");
    stage.good(&["remove"]);
    let loud = stage.good(&[
        "--log-level=trace",
        "--log-format=json",
        "all",
        "--gpus",
        "1",
    ]);
    assert_eq!(loud.json()["gpus"], 1);
    let mut levels = std::collections::BTreeSet::new();
    for line in loud.err.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        levels.insert(line["level"].as_str().unwrap().to_owned());
        assert!(line["message"].is_string());
    }
    assert!(levels.contains("info") && levels.contains("debug") && levels.contains("trace"));
}

#[test]
fn a_running_engine_keeps_its_state() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", "2"]);
    let state = mirage_state::lookup::nodes_in(&stage.root("run/mirage")).remove(0);
    let image = mirage_state::Reader::open(&state)
        .unwrap()
        .snapshot()
        .unwrap();
    // An engine takes the directory over, as `mirage up` does. Its ticks are an hour apart, so it counts as alive however slow this test is.
    let mut engine = mirage_state::NodeDir::open(state.parent().unwrap()).unwrap();
    let mut live = image.clone();
    live.header.flags = 0;
    live.header.period_ms = 3_600_000;
    engine.publish(&live).unwrap();
    let bytes = fs::read(&state).unwrap();
    let again = stage.good(&["all", "--gpus", "2"]);
    assert!(
        again.err.contains("a running engine writes it"),
        "{again:?}"
    );
    assert!(fs::read(&state).unwrap() == bytes, "the state was touched");
    stage.good(&["status"]);
    engine.remove().unwrap();
    assert_eq!(stage.run(&["status"]).code, 1);
    stage.good(&["all", "--gpus", "2"]);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}
