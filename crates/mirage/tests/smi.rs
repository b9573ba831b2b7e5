//! `nvidia-smi` as mirage plays it, from outside: transcripts over the built-in node, which never changes, and a
//! running node whose values are compared with the API's.

#[allow(
    dead_code,
    reason = "the helpers of all outer tests, of which these need some"
)]
#[path = "it/support.rs"]
mod support;

#[path = "smi/branches.rs"]
mod branches;
#[path = "smi/live.rs"]
mod live;
#[path = "smi/transcripts.rs"]
mod transcripts;

use std::path::Path;
use std::process::{Command, Output};

/// `mirage smi` on a state, with nothing else of this machine's settings.
fn smi(state: &Path, arguments: &str) -> Command {
    let mut command = support::mirage();
    command
        .env_clear()
        .env("TZ", "UTC")
        .env("MIRAGE_STATE", state)
        .env("MIRAGE_VISIBLE_DEVICES", "all")
        .arg("smi")
        .args(arguments.split_whitespace());
    command
}

/// Runs it to its end.
fn run(state: &Path, arguments: &str) -> Output {
    smi(state, arguments).output().expect("mirage starts")
}

/// What it prints when all goes well.
fn shown(state: &Path, arguments: &str) -> String {
    let output = run(state, arguments);
    let text = support::stdout(&output);
    assert!(output.status.success(), "{arguments}: {text}");
    text
}
