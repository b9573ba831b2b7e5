//! Our own `nvidia-smi`, for machines and images that lack the real one: the same options, tables, columns and
//! exit codes, so that people and parsers find what they know.
//!
//! Every value comes from NVML's functions in [`nvidia_ml::client`], which makes it the value that any other NVML
//! client reads at that moment. As with the real program, results *and* complaints go to standard output, and the
//! exit code is NVML's.

mod args;
mod change;
mod confidential;
mod drain;
mod gpus;
mod help;
mod list;
mod mig;
mod monitor;
mod nvlink;
mod policy;
mod query;
mod report;
mod stamp;
mod stats;
mod summary;
mod topology;
mod vgpu;
mod words;

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::thread::sleep;

use nvidia_ml::client::{Code, Nvml};

use args::{Command, Invocation};
use stamp::Stamp;

/// Why the program ends before it is done: what to print and what to exit with.
#[derive(Debug)]
struct Stop {
    code: u32,
    message: String,
}

impl Stop {
    /// A command line that cannot be understood.
    fn usage(message: impl Into<String>) -> Stop {
        const INVALID_ARGUMENT: u32 = 2;
        let message = message.into();
        Stop {
            code: INVALID_ARGUMENT,
            message,
        }
    }

    /// A call that was refused.
    fn refused(code: Code, message: impl Into<String>) -> Stop {
        Stop {
            code: code.0,
            message: message.into(),
        }
    }

    /// No GPU is there, or none of those asked for.
    fn no_devices() -> Stop {
        Stop::refused(Code::NOT_FOUND, "No devices were found")
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        // Whoever read the output has seen enough.
        if error.kind() == ErrorKind::BrokenPipe {
            return Stop {
                code: 0,
                message: String::new(),
            };
        }
        const UNKNOWN: u32 = 999;
        Stop {
            code: UNKNOWN,
            message: format!("Writing the output: {error}"),
        }
    }
}

impl From<Code> for Stop {
    fn from(code: Code) -> Stop {
        Stop::refused(code, format!("NVML: {code}"))
    }
}

/// Runs with these arguments.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let words = arguments.into_iter();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    match start(words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop { code, message }) => {
            if !message.is_empty() {
                // A closed output leaves nobody to tell.
                let _ = writeln!(std::io::stdout(), "{message}");
            }
            // 999 is NVML's unknown error.
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}

fn start(words: Vec<String>) -> Result<(), Stop> {
    let invocation = args::parse(words)?;
    let mut out: Box<dyn Write> = match &invocation.file {
        None => Box::new(std::io::stdout()),
        Some(path) => {
            let open = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .open(path);
            Box::new(open.map_err(|error| {
                Stop::usage(format!(
                    "Could not open {} for writing: {error}",
                    path.display()
                ))
            })?)
        }
    };
    if help::print(&invocation.command, &mut out)? {
        return Ok(());
    }
    let nvml = Nvml::open().map_err(no_driver)?;
    let mut round = Round::default();
    loop {
        let mut page = Vec::new();
        let answer = once(&nvml, &invocation, &mut round, &mut page);
        // What was found out before a refusal is still worth reading.
        out.write_all(&page)?;
        out.flush()?;
        answer?;
        round.done += 1;
        let Some(pause) = invocation.every else {
            return Ok(());
        };
        if invocation.rounds == Some(round.done) {
            return Ok(());
        }
        sleep(pause);
    }
}

/// How far a repeated command has come.
#[derive(Debug, Default)]
struct Round {
    done: u32,
    seen: monitor::Seen,
}

/// One round of a command.
fn once(
    nvml: &Nvml,
    invocation: &Invocation,
    round: &mut Round,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let first = round.done == 0;
    let wanted = &invocation.ids;
    match &invocation.command {
        Command::Summary => summary::print(nvml, &gpus::choose(nvml, wanted)?, Stamp::now(), out),
        Command::List => list::print(&gpus::choose(nvml, wanted)?, out),
        Command::Report { xml, sections } => {
            let gpus = gpus::choose(nvml, wanted)?;
            report::print(nvml, &gpus, Stamp::now(), *xml, sections, out)
        }
        Command::Query {
            table,
            fields,
            format,
        } => {
            let gpus = gpus::choose(nvml, wanted)?;
            query::print(
                nvml,
                &gpus,
                Stamp::now(),
                *table,
                fields,
                *format,
                first,
                out,
            )
        }
        Command::Change(changes) => change::apply(nvml, wanted, changes, out),
        Command::Mig(action) => mig::run(&gpus::choose(nvml, wanted)?, action, out),
        Command::Topology(view) => topology::print(&gpus::choose(nvml, wanted)?, *view, out),
        Command::Nvlink(what) => nvlink::print(&gpus::choose(nvml, wanted)?, *what, out),
        Command::Policy(action) => policy::run(&gpus::choose(nvml, wanted)?, *action, out),
        Command::Drain(action) => drain::run(&gpus::choose(nvml, wanted)?, *action, out),
        Command::Stats(what) => stats::print(&gpus::choose(nvml, wanted)?, what, out),
        Command::Confidential(question) => confidential::print(nvml, *question, out),
        Command::Vgpu => {
            gpus::choose(nvml, wanted)?;
            vgpu::run()
        }
        Command::Monitor(how) => {
            let gpus = gpus::choose(nvml, wanted)?;
            monitor::print(nvml, &gpus, how, first, &mut round.seen, out)
        }
        Command::Help | Command::Version | Command::HelpQuery(_) => Ok(()),
    }
}

fn no_driver(code: Code) -> Stop {
    let message = match code {
        Code::DRIVER_NOT_LOADED => String::from(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. \
             There is no simulated node with NVIDIA boards to read: start `mirage up`, or name a state in MIRAGE_STATE.",
        ),
        code => format!("Failed to initialize NVML: {code}"),
    };
    Stop::refused(code, message)
}
