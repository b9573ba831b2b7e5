//! Developer commands: `cargo xtask ci` is all that CI runs; the rest are its parts.
#![forbid(unsafe_code)]

mod bench;
mod ci;
mod clients;
mod deny;
mod deploy;
mod docs;
mod driver;
mod e2e;
mod exporter;
mod image;
mod shell;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of mirage")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything CI runs: format, lints, tests, then what the other commands here look at
    Ci,
    /// Measure the numbers docs/spec.md promises
    Bench {
        /// Only this part
        part: Option<bench::Part>,
        /// Write the table of docs/spec.md
        #[arg(long)]
        write: bool,
        /// End with an error when a size is over its promise, or a time over three times its promise
        #[arg(long)]
        check: bool,
        /// Also measure another libnvidia-ml.so beside ours
        #[arg(long, value_name = "PATH")]
        against: Option<PathBuf>,
    },
    /// Run real NVML clients against a live `mirage up` and against the built-in node
    Clients {
        /// Also run this nvidia-smi (never bundled, never downloaded)
        #[arg(long, value_name = "PATH")]
        nvidia_smi: Option<PathBuf>,
    },
    /// Make a mock driver root and use it from C and Python
    Driver {
        /// Start the container with this runc instead of the one on the path
        #[arg(long, value_name = "PATH")]
        runc: Option<PathBuf>,
    },
    /// Run the commands shown in README.md and docs/ and compare what they print
    Docs {
        /// Write what they print instead
        #[arg(long)]
        write: bool,
    },
    /// Play `mirage node` under a real kubelet (builds Kubernetes once, which takes minutes)
    E2e(e2e::Args),
    /// Let promtool and a real Prometheus read the exporters (installs Debian's prometheus)
    Exporter,
    /// Render the chart into plain manifests with a real helm (builds it once, which takes minutes)
    Deploy(deploy::Args),
    /// Make an OCI image without a container engine
    Image(image::Args),
    /// Advisories, licences and sources with cargo-deny (installs it; takes minutes)
    Deny,
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Ci => ci::run(),
        Task::Bench {
            part,
            write,
            check,
            against,
        } => bench::run(part, write, check, against.as_deref()),
        Task::Clients { nvidia_smi } => clients::run(nvidia_smi.as_deref()),
        Task::Driver { runc } => driver::run(runc.as_deref()),
        Task::Docs { write } => docs::run(write),
        Task::E2e(args) => e2e::run(&args),
        Task::Exporter => exporter::run(),
        Task::Deploy(args) => deploy::run(&args),
        Task::Image(args) => image::run(&args),
        Task::Deny => deny::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
