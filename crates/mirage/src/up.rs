//! `mirage up`: everything on this machine, without Kubernetes.

use std::time::Duration;

use anyhow::Result;

use crate::cli::say;
use crate::fakedev::GuestArgs;
use crate::machine::{self, Machine, MachineArgs, Options};
use crate::source::Source;

/// Arguments of `mirage up`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    mirage up                                    8 × A100, a lively demo load\n  \
    mirage up --model h100-sxm5-80gb --gpus 4    another model\n  \
    mirage up --nodes 1000 --speed 60            a fleet, a minute per second\n  \
    mirage up --config mirage.yaml --for 1h      a scenario, then the end")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    guests: GuestArgs,
    /// Write a state file for every node even if there are more than 64
    #[arg(long)]
    state_files: bool,
    /// Begin with time standing still, until `mirage ctl resume` or `mirage ctl step`
    #[arg(long)]
    paused: bool,
    /// End by itself after this much simulated time, as in 90s or 1h30m
    #[arg(long = "for", value_name = "TIME", value_parser = machine::duration)]
    until: Option<Duration>,
}

/// Runs until told to end.
pub fn run(args: Args) -> Result<()> {
    let options = Options {
        state_files: args.state_files,
        no_state_files: false,
        paused: args.paused,
        until: args.until,
    };
    let guests = args.guests.listen(args.machine.pods.pod_node.clone())?;
    if let Some(guests) = &guests {
        say(&format!("workloads at {}", guests.path().display()));
    }
    Machine::new(args.source, args.machine, options)?.run(|inside| async move {
        if let Some(guests) = guests {
            guests.serve(inside).await;
        }
    })
}
