//! `mirage driver` (and `gpu-mockctl`): makes a plain machine look as if NVIDIA's driver were installed, and takes it back.
//!
//! What shall be there is a list of [`item::Item`]s, worked out from a node's state alone: libraries, device nodes,
//! `/proc/driver/nvidia`, the PCI tree, the state file, a CDI specification. [`install`] compares it with what is there and makes the
//! difference true; a manifest with a digest of everything made lets [`remove`] take exactly that away again.
//!
//! Promises: nothing is half done (staged, then renamed; undone on failure; a killed run is cleaned up by the next), no symbolic
//! link is followed below the directories given, nobody else's file is touched unless forced, and a second run changes nothing.

mod area;
pub(crate) mod attend;
mod cdi;
mod devices;
pub(crate) mod edits;
mod host;
mod install;
mod item;
mod layout;
mod libraries;
mod manifest;
mod mockctl;
mod node;
mod object;
mod options;
mod procfs;
mod remove;
mod report;
mod status;
mod sysfs;

use anyhow::Result;

pub(crate) use cdi::CHANNEL_CLASS;
pub use mockctl::run_as_named;
pub use options::Args;
use options::Command;

/// Does what the command line asks. What goes wrong is told in the format that was asked for.
pub fn run(args: &Args) -> Result<()> {
    let mut report = args.report();
    perform(args, &mut report).map_err(|error| report.failure(error))
}

fn perform(args: &Args, report: &mut report::Report) -> Result<()> {
    match &args.command {
        Command::Fs => install::run(args, &[item::Part::Nodes, item::Part::Files], report),
        Command::Driver => install::run(args, &[item::Part::Nodes, item::Part::Driver], report),
        Command::All => install::run(args, &item::Part::ALL, report),
        Command::Remove => remove::run(args, report),
        Command::Status => status::run(args, report),
        Command::Version => mockctl::tell_version(),
    }
}
