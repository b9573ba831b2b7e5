//! The command line: which role, with which options, and what the process exits with.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Parser, Subcommand};

use crate::{check, controller, ctl, driver, exporter, fakedev, models, node, simulate, smi, up};

/// Simulated GPUs that software around GPUs cannot tell from real ones.
#[derive(Debug, Parser)]
#[command(
    name = "mirage",
    version,
    after_help = "Try it:\n  mirage up                        8 GPUs on this machine\n  \
                  curl localhost:9400/metrics      what they are doing\n  \
                  mirage ctl fault inject xid=79 --device 3\n\n\
                  Exit codes: 0 good, 1 failure, 2 usage or config."
)]
pub struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Run simulated GPUs on this machine: engine, state files, exporter, API, control socket
    Up(Box<up::Args>),
    /// Turn this Kubernetes node into a GPU node: device plugin, labels, pods, runtime hook
    Node(Box<node::Args>),
    /// Keep a cluster's topology, nodes without a kubelet, and which pod has which GPU there
    Controller(Box<controller::Args>),
    /// Run the same simulation offline, as fast as the CPU goes, and print what happened
    Simulate(simulate::Args),
    /// Check config files; all errors at once, each with its place and the fix
    Check(check::Args),
    /// List the GPU models there are, or show one with the source of every figure
    Models(models::Args),
    /// Steer a running `mirage up`: faults, settings, workloads, MIG
    Ctl(ctl::Args),
    /// Make this machine look as if NVIDIA's driver were installed, and take it back (gpu-mockctl)
    Driver(driver::Args),
    /// Serve dcgm-exporter's metrics of a running mirage, with its flags and variables
    #[command(disable_help_flag = true)]
    DcgmExporter(fakedev::Args),
    /// Show and set GPUs as nvidia-smi does, which this program also is under that name
    #[command(disable_help_flag = true)]
    Smi(smi::Args),
    /// Serve metrics of devices defined in JSON files, as fakedev-exporter does
    #[command(disable_help_flag = true)]
    FakedevExporter(fakedev::Args),
    /// Run a workload on the devices of a fakedev-exporter, as fakedev-workload does
    #[command(disable_help_flag = true, visible_alias = "fakedev-workload")]
    Workload(fakedev::Args),
}

/// A mistake of whoever typed the command or wrote the config: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A [`Usage`] error as `anyhow` carries it.
pub fn usage(message: impl std::fmt::Display) -> anyhow::Error {
    anyhow::Error::new(Usage(message.to_string()))
}

/// An error that was told already: only its exit code is left.
#[derive(Debug)]
pub struct Told(u8);

impl Told {
    /// Stands for an error from here on.
    pub fn of(error: &anyhow::Error) -> anyhow::Error {
        anyhow::Error::new(Told(code(error)))
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("see above")
    }
}

impl std::error::Error for Told {}

/// The exit code of an error.
fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() { 2 } else { 1 }
}

/// Parses the command line, plays the role, and turns the outcome into an exit code.
pub fn main() -> ExitCode {
    if let Some(code) = fakedev::run_as_named().or_else(smi::run_as_named) {
        return code;
    }
    if let Some(code) = exporter::run_as_named() {
        return code;
    }
    if let Some(code) = driver::run_as_named() {
        return code;
    }
    let cli: Cli = parse(std::env::args_os());
    let outcome = match cli.role {
        Role::Up(args) => up::run(*args),
        Role::Node(args) => node::run(*args),
        Role::Controller(args) => controller::run(*args),
        Role::Simulate(args) => simulate::run(&args),
        Role::Check(args) => check::run(&args),
        Role::Models(args) => models::run(&args),
        Role::Ctl(args) => ctl::run(args),
        Role::Driver(args) => driver::run(&args),
        Role::DcgmExporter(args) => exporter::run(args.flags),
        Role::Smi(args) => return smi::run(args),
        Role::FakedevExporter(args) => return fakedev::run_exporter(args.flags),
        Role::Workload(args) => return fakedev::run_workload(args.flags),
    };
    exit(outcome)
}

/// Reads a command line. A variable that is set to nothing counts as not set, as it does to the programs whose variables
/// these are: charts and scripts leave them so.
pub fn parse<P: Parser>(args: impl IntoIterator<Item = OsString>) -> P {
    let mut command = without_empty_variables(P::command());
    let mut matches = command
        .try_get_matches_from_mut(args)
        .unwrap_or_else(|error| error.exit());
    P::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    command
        .mut_args(|argument| match argument.get_env() {
            Some(name) if is_empty(name) => argument.env(Resettable::Reset),
            _ => argument,
        })
        .mut_subcommands(without_empty_variables)
}

/// The exit code of an outcome, told if it is an error.
pub fn exit(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // `mirage simulate | head` is no failure.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(Told(code)) = error.downcast_ref() {
                return ExitCode::from(*code);
            }
            say(&format!("error: {error:#}"));
            ExitCode::from(code(&error))
        }
    }
}

/// Tells the operator something: one line on standard error, which may be closed.
pub fn say(line: &str) {
    let mut stderr = std::io::stderr().lock();
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(stderr, "mirage: {line}");
}

/// Whether results go to a person rather than a pipe.
pub fn is_interactive() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether somebody stopped reading the output.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_first_line_says_what_mirage_is() {
        let about = Cli::command().get_about().map(ToString::to_string);
        let about = about.expect("a line");
        assert!(about.starts_with("Simulated GPUs"), "{about}");
    }

    /// The commands of `sh` blocks that begin with `mirage`, as words.
    fn shown(guide: &str) -> Vec<Vec<String>> {
        let mut blocks = guide.split("\n```");
        let mut commands = Vec::new();
        while let Some(block) = blocks.find(|block| block.starts_with("sh\n")) {
            let joined = block.replace("\\\n", " ");
            for part in joined.lines().flat_map(|line| line.split("&&")) {
                // What follows is for the shell or for the reader.
                let end = [" #", " |", " &", " >"]
                    .iter()
                    .filter_map(|end| part.find(end));
                let command = &part[..end.min().unwrap_or(part.len())];
                let words = command.split_whitespace();
                let words: Vec<_> = words
                    .map(|word| word.trim_matches('\'').to_owned())
                    .collect();
                if words.first().is_some_and(|word| word == "mirage") {
                    commands.push(words);
                }
            }
        }
        commands
    }

    #[test]
    fn the_guides_show_commands_that_are_taken() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guides = std::fs::read_dir(root.join("docs/guide")).expect("the guides");
        let mut files: Vec<_> = guides.map(|guide| guide.expect("one").path()).collect();
        files.extend([root.join("README.md"), root.join("docs/compat.md")]);
        let mut seen = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a guide");
            for command in shown(&text) {
                let parsed = Cli::try_parse_from(&command);
                let why = parsed.err().filter(clap::Error::use_stderr);
                assert!(why.is_none(), "{}: {command:?}: {why:?}", file.display());
                seen += 1;
            }
        }
        assert!(seen > 20, "only {seen} commands were found");
    }

    #[test]
    fn every_option_is_documented() {
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} of {} has no help",
                    argument.get_id(),
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }
}
