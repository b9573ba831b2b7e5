//! `cargo xtask ci`: the stages in order of how soon they find trouble. The first failure ends it.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::shell::{self, cargo};
use crate::{bench, clients, deploy, docs, driver, e2e, exporter};

type Stage = (&'static str, fn() -> Result<()>);

const STAGES: &[Stage] = &[
    ("format", || {
        shell::run(cargo().args(["fmt", "--all", "--check"]))
    }),
    ("lints", || {
        let lints = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ];
        shell::run(cargo().args(lints))
    }),
    ("tests", || {
        shell::run(cargo().args(["test", "--workspace", "--locked"]))
    }),
    ("driver", || driver::run(None)),
    ("documents", || docs::run(false)),
    ("clients", || clients::run(None)),
    ("exporter", exporter::run),
    ("deploy", deploy::check),
    ("e2e", e2e::all),
    ("benchmarks", || bench::run(None, false, true, None)),
];

fn run_stage((name, stage): &Stage) -> Result<()> {
    let start = Instant::now();
    eprintln!("xtask ci: {name}");
    stage().with_context(|| (*name).to_owned())?;
    eprintln!(
        "xtask ci: {name}: done in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs every stage.
pub(crate) fn run() -> Result<()> {
    STAGES.iter().try_for_each(run_stage)
}
