//! fakedev-exporter and its workload client, compatible to the flag, the file and the byte.
//!
//! Devices are defined by three JSON files: a device type (metric limits, labels), a device
//! list (one row of labels per device) and an identity (which metrics and labels are shown,
//! under which names). Workloads connect over a Unix socket, state what they do to which
//! devices, and block until told to exit. This role has its own small simulation, since metric
//! names are free; it knows nothing of GPUs and nothing of the rest of mirage. `guests` alone does: it lets the same
//! workload clients connect to a machine of simulated GPUs.
//!
//! ```text
//!  devtype, devlist ──► Fleet ──┐
//!  identity ──► Identity ───────┼─► World ──► text ──► GET /metrics
//!  workload JSON ──► Spec ──────┘    ▲
//!       (socket, base loads)      Clock (a thread of its own)
//! ```
//!
//! The world steps on its own clock, whether or not anybody scrapes. A scrape returns the text
//! the last step prepared: it never waits for a workload, and never touches one.

mod activity;
mod clock;
mod device;
mod duration;
mod exporter;
mod flags;
mod glob;
mod guest;
mod guests;
mod http;
mod identity;
mod json;
mod lease;
mod noise;
mod number;
mod relation;
mod socket;
mod spec;
mod text;
mod workload;
mod world;

#[cfg(test)]
mod hostile;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

pub use device::{DeviceType, Fleet};
pub use guests::{GuestArgs, Guests};
pub use identity::Identity;
pub use json::Invalid;
pub use spec::Spec;
pub use world::{Ending, World};

/// What went wrong, and on what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line cannot be understood.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read.
    #[error("reading {what} {}", path.display())]
    Read {
        /// What the file was to be.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file was read, and what it says cannot be used.
    #[error("using {what} {}", path.display())]
    File {
        /// What the file was to be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Invalid,
    },
    /// The files agree with themselves but not with each other or the command line.
    #[error("{0}")]
    Config(String),
    /// The system refused something.
    #[error("{attempt} {place}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// On which address, path or part.
        place: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server went away, or answered what is no exit code.
    #[error("{0}")]
    Reply(String),
}

/// Runs the exporter with the arguments after its name, until a signal ends it.
pub fn run_exporter(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit("fakedev-exporter", exporter::run(args))
}

/// Runs one workload with the arguments after its name, until the exporter tells it to exit.
pub fn run_workload(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    exit("fakedev-workload", workload::run(args))
}

/// What either program is given; it reads its own flags, with one dash or two.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Flags of the program; -help lists them
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "FLAGS"
    )]
    pub flags: Vec<OsString>,
}

/// Runs the program this process was started as, if it is one of the two.
pub fn run_as_named() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let program = PathBuf::from(args.next()?);
    match program.file_name()?.to_str()? {
        "fakedev-exporter" => Some(run_exporter(args)),
        "fakedev-workload" => Some(run_workload(args)),
        _ => None,
    }
}

fn exit(program: &str, outcome: Result<ExitCode, Error>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("ERROR: {}", with_causes(&error)));
            if let Error::Usage(_) = error {
                say(format!("see {program} -help"));
                return ExitCode::from(2);
            }
            ExitCode::FAILURE
        }
    }
}

/// An error and everything behind it, in one line.
fn with_causes(error: &Error) -> String {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        line.push_str(&format!(": {next}"));
        cause = next.source();
    }
    line
}

/// Every connection is a file: as many as the system allows.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there is room for fewer workloads, and accepting says so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// One line to whoever runs this: to standard error, which may be closed. What comes from
/// outside is written by its callers with `{:?}`, so that it cannot forge a line.
fn say(line: impl Display) {
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
