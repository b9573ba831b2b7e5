//! Runs that are killed half-way, for real. A run that tells every step to a pipe which nobody reads any more cannot get further than the
//! pipe is long, so where it is when the kill comes does not depend on who is faster.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use crate::stage::Stage;

/// GPUs enough for several times what a pipe holds of lines.
const GPUS: &str = "48";
const SIGKILL: i32 = 9;

/// Starts a run, and kills it once it has told of the n-th step of a kind.
fn kill(stage: &Stage, words: &[&str], step: &str, nth: usize) {
    let mut run = stage
        .command()
        .args(["--log-level", "trace"])
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::with_capacity(1 << 10, run.stderr.take().unwrap()).lines();
    let mut seen = 0;
    while seen < nth {
        let line = lines.next().expect("the run ended too early").unwrap();
        seen += usize::from(line.split_whitespace().nth(1) == Some(step));
    }
    run.kill().unwrap();
    let status = run.wait().unwrap();
    assert_eq!(
        status.signal(),
        Some(SIGKILL),
        "it ended before it was killed"
    );
}

/// Not whole; made whole by the next run; gone after the last.
fn heals(stage: &Stage, words: &[&str]) {
    let broken = stage.run(&["status"]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(broken.err.contains("not whole"), "{broken:?}");
    let next = stage.good(words);
    assert!(next.err.contains("cut short"), "{next:?}");
    stage.good(&["status"]);
    let again = stage.good(words);
    assert!(again.out.starts_with("nothing to do"), "{again:?}");
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn a_first_run_that_was_killed_while_preparing_heals() {
    let stage = Stage::new();
    let words = ["all", "--gpus", GPUS];
    kill(&stage, &words, "prepare", 40);
    assert!(!stage.root("version").exists());
    heals(&stage, &words);
}

#[test]
fn a_first_run_that_was_killed_while_putting_in_place_heals() {
    let stage = Stage::new();
    let words = ["all", "--gpus", GPUS];
    kill(&stage, &words, "create", 40);
    // What names the rest comes last.
    assert!(!stage.root("var/run/cdi/nvidia.yaml").exists());
    heals(&stage, &words);
}

#[test]
fn a_first_run_that_was_killed_can_be_removed() {
    let stage = Stage::new();
    kill(&stage, &["all", "--gpus", GPUS], "create", 400);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn a_change_that_was_killed_heals() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", GPUS]);
    let words = ["all", "--gpus", GPUS, "--model", "h100-sxm5-80gb"];
    kill(&stage, &words, "replace", 1);
    heals(&stage, &words);
}

#[test]
fn a_removal_that_was_killed_is_finished_by_the_next() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", GPUS]);
    kill(&stage, &["remove"], "remove", 40);
    assert_eq!(stage.run(&["status"]).code, 1);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}
