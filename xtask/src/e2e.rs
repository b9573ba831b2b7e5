//! `cargo xtask e2e`: `mirage node` under a real kubelet. A whole cluster — etcd, control plane, kubelet and containerd — runs as plain
//! processes in namespaces of its own, and scenarios named after what a user would do assert on API objects, on the exporter's text
//! and on what NVML says inside containers. See docs/guide/e2e.md.

mod cage;
mod cluster;
mod controller;
mod door;
pub(crate) mod fetch;
mod http;
mod image;
mod inside;
mod measure;
mod mirage;
mod node;
mod pki;
mod plane;
mod process;
mod scenario;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{self, cargo, target};
use cage::Cage;
use fetch::Programs;
use inside::Plan;

/// The node's name in the cluster.
const NODE: &str = "e2e-node";
/// Its address, on the cage's loopback; a kubelet refuses 127.0.0.0/8.
const NODE_IP: &str = "198.18.0.1";

/// What to play.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Scenarios to play, by the beginning of their names [default: all]
    scenarios: Vec<String>,
    /// List the scenarios and end
    #[arg(long)]
    list: bool,
    /// Leave the cluster up when the scenarios have ended, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Play the others too when one has failed
    #[arg(long)]
    no_fail_fast: bool,
    /// Use this mirage, with its libraries beside it, instead of building one
    #[arg(long, value_name = "PATH")]
    mirage: Option<PathBuf>,
    /// What runs in the namespaces
    #[arg(long, hide = true, value_name = "SCRATCH")]
    inside: Option<PathBuf>,
}

/// Plays every scenario.
pub(crate) fn all() -> Result<()> {
    run(&Args {
        scenarios: Vec::new(),
        list: false,
        keep: false,
        no_fail_fast: false,
        mirage: None,
        inside: None,
    })
}

/// Measures a controller at scale; the figures, as benchmarks print them.
pub(crate) fn measure(mirage: PathBuf) -> Result<String> {
    ground()?;
    let programs = Programs::prepare()?;
    let cage = Cage::new()?;
    let plan = Plan {
        programs,
        mirage: fs::canonicalize(&mirage)
            .with_context(|| format!("finding the program {}", mirage.display()))?,
        cgroup: cage.name().to_owned(),
        scenarios: Vec::new(),
        keep: false,
        fail_fast: true,
        measures: true,
    };
    enter(&cage, &plan)?;
    let path = cage.scratch().join(measure::FIGURES);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// What has to be so on this machine.
fn ground() -> Result<()> {
    if shell::output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("a kubelet needs root; run `cargo xtask e2e` as root");
    }
    shell::ensure(&["openssl"], "openssl")
}

/// Runs a plan in the cage.
fn enter(cage: &Cage, plan: &Plan) -> Result<()> {
    plan.write(cage.scratch())?;
    let mut inside = Command::new(own_copy(cage.scratch())?);
    inside.args(["e2e", "--inside"]).arg(cage.scratch());
    let status = cage.run(&inside)?;
    if !status.success() {
        let kept = keep_logs(cage.scratch())?;
        bail!("it ended badly; all logs are in {}", kept.display());
    }
    Ok(())
}

/// Plays what is asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(scratch) = &args.inside {
        return inside::run(scratch);
    }
    if args.list {
        scenario::list();
        return Ok(());
    }
    scenario::choose(&args.scenarios)?;
    ground()?;
    let mirage = match &args.mirage {
        Some(mirage) => fs::canonicalize(mirage)
            .with_context(|| format!("finding the program {}", mirage.display()))?,
        None => {
            shell::run(cargo().args(["build", "--locked", "-p", "mirage", "-p", "mirage-smi"]))?;
            target().join("debug/mirage")
        }
    };
    let programs = Programs::prepare()?;
    let begin = Instant::now();
    let cage = Cage::new()?;
    let plan = Plan {
        programs,
        mirage,
        cgroup: cage.name().to_owned(),
        scenarios: args.scenarios.clone(),
        keep: args.keep,
        fail_fast: !args.no_fail_fast,
        measures: false,
    };
    enter(&cage, &plan)?;
    eprintln!("xtask e2e: {:.0} s", begin.elapsed().as_secs_f64());
    Ok(())
}

/// Copies the running program. Its own path will not do: builds of other stages may have replaced the file since it was started.
fn own_copy(scratch: &Path) -> Result<PathBuf> {
    let copy = scratch.join("xtask");
    fs::copy("/proc/self/exe", &copy)
        .with_context(|| format!("copying this program to {}", copy.display()))?;
    Ok(copy)
}

/// Saves the logs of a run that went wrong.
fn keep_logs(scratch: &Path) -> Result<PathBuf> {
    let kept = target().join("e2e-logs");
    let _ = fs::remove_dir_all(&kept);
    fs::create_dir_all(&kept).with_context(|| format!("making {}", kept.display()))?;
    let logs = fs::read_dir(scratch.join("logs")).into_iter().flatten();
    for log in logs.flatten() {
        let _ = fs::copy(log.path(), kept.join(log.file_name()));
    }
    Ok(kept)
}
