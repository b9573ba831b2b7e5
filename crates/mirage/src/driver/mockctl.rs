//! The command line of `gpu-mockctl`: that of `mirage driver`, and what the program of that name had besides. What
//! means nothing here is refused with the way out, so that an old manifest never does something else in silence.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::options::Args;
use super::report::Level;
use crate::cli::{exit, usage};

/// The only machine the program knew: 8 × A100-SXM4-40GB.
const MACHINE: &str = "dgxa100";
const MACHINE_MODEL: (&str, u32) = ("a100-sxm4-40gb", 8);

/// What it once took, and what to say instead.
const GONE: [(&str, &str); 6] = [
    (
        "cdi",
        "`driver` and `all` write the specification; --cdi-dir says where",
    ),
    ("--mode", "say the command itself: fs, driver or all"),
    ("--cdi-output", "--cdi-dir names the directory"),
    (
        "--with-dri",
        "compute nodes have no DRI nodes; leave it out",
    ),
    (
        "--with-hook",
        "the specification needs no hook; leave it out",
    ),
    (
        "--toolkit-root",
        "the specification needs no hook and no toolkit; leave it out",
    ),
];

/// The program under its other name.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-mockctl",
    version,
    about = "Make a machine look as if NVIDIA's driver were installed, and take it back"
)]
pub(super) struct Mockctl {
    #[command(flatten)]
    pub(super) args: Args,
    /// Machine type: dgxa100; for others say --model and --gpus [env: MACHINE_TYPE]
    #[arg(long, value_name = "TYPE", global = true, conflicts_with_all = ["model", "config"])]
    machine: Option<String>,
    /// Bring a library that answers, which is what libraries here do
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true"
    )]
    with_compiled_nvml: bool,
    /// Tell more, as --log-level debug
    #[arg(short, long, global = true)]
    verbose: bool,
}

/// What the environment of the program said.
#[derive(Debug, Default)]
struct Surroundings {
    /// `MACHINE_TYPE`.
    machine: Option<String>,
    /// `ALLOW_UNSUPPORTED`: another machine's name is taken, and gives the same machine.
    is_lenient: bool,
}

impl Mockctl {
    /// What is meant by it.
    fn meant(self, around: Surroundings) -> Result<Args> {
        let mut args = self.args;
        if !self.with_compiled_nvml {
            return Err(usage(
                "--with-compiled-nvml=false: an empty library helps nobody; `fs` makes nodes and files without libraries",
            ));
        }
        let is_chosen = args.model.is_some() || args.config.is_some();
        let around_machine = around.machine.filter(|name| !name.is_empty() && !is_chosen);
        if let Some(machine) = self.machine.or(around_machine) {
            if machine != MACHINE && !around.is_lenient {
                return Err(usage(format!(
                    "unknown machine type {machine}: only {MACHINE} has a name; choose with --model KEY and --gpus N \
                     (`mirage models` lists the keys)"
                )));
            }
            let (model, gpus) = MACHINE_MODEL;
            args.model = Some(model.into());
            args.gpus = args.gpus.or(Some(gpus));
        }
        if self.verbose {
            args.log_level = args.log_level.max(Level::Debug);
        }
        Ok(args)
    }
}

/// Runs as `gpu-mockctl` if this process was started under that name.
pub fn run_as_named() -> Option<ExitCode> {
    let program = std::env::args_os().next()?;
    let name = std::path::Path::new(&program).file_name()?;
    if name != "gpu-mockctl" {
        return None;
    }
    let parsed = Mockctl::try_parse().unwrap_or_else(|error| match way_out(&error) {
        Some((word, instead)) => Mockctl::refuse(word, instead),
        None => error.exit(),
    });
    Some(exit(run(parsed)))
}

fn run(parsed: Mockctl) -> Result<()> {
    let args = parsed.meant(Surroundings {
        machine: std::env::var("MACHINE_TYPE").ok(),
        is_lenient: std::env::var_os("ALLOW_UNSUPPORTED").is_some_and(|value| value == "true"),
    })?;
    super::run(&args)
}

impl Mockctl {
    fn refuse(word: &str, instead: &str) -> ! {
        use clap::CommandFactory;
        let message = format!("gpu-mockctl no longer has {word}: {instead}");
        Mockctl::command()
            .error(ErrorKind::UnknownArgument, message)
            .exit()
    }
}

/// The word that is gone, and what to say instead.
fn way_out(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let context = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let words = context.into_iter().filter_map(|kind| error.get(kind));
    words.into_iter().find_map(|word| match word {
        ContextValue::String(word) => {
            let name = word.split(['=', ' ']).next()?;
            GONE.into_iter().find(|(gone, _)| *gone == name)
        }
        _ => None,
    })
}

/// `version`.
pub(super) fn tell_version() -> Result<()> {
    use std::io::Write;
    writeln!(
        std::io::stdout(),
        "gpu-mockctl version {}",
        env!("CARGO_PKG_VERSION")
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::options::Command;
    use super::*;

    fn meant(words: &[&str], around: Surroundings) -> Result<Args> {
        let words = ["gpu-mockctl"].iter().chain(words);
        Mockctl::try_parse_from(words)?.meant(around)
    }

    fn machine(name: &str) -> Surroundings {
        Surroundings {
            machine: Some(name.into()),
            is_lenient: false,
        }
    }

    #[test]
    fn the_old_flags_mean_something() {
        for words in [
            ["--machine", "dgxa100", "driver"].as_slice(),
            &["all", "--machine=dgxa100", "--with-compiled-nvml"],
            &["all", "--machine=dgxa100", "--with-compiled-nvml=true"],
        ] {
            let args = meant(words, Surroundings::default()).expect("accepted");
            assert_eq!(args.model.as_deref(), Some("a100-sxm4-40gb"), "{words:?}");
            assert_eq!(args.gpus, Some(8));
        }
        let args = meant(&["-v", "fs"], Surroundings::default()).expect("accepted");
        assert_eq!((args.log_level, args.command), (Level::Debug, Command::Fs));
        let args = meant(&["version", "--log-level=trace", "-v"], machine("")).expect("accepted");
        assert_eq!(
            (args.log_level, args.command),
            (Level::Trace, Command::Version)
        );
    }

    #[test]
    fn what_has_no_meaning_names_the_way_out() {
        let told = |words: &[&str], around| {
            let error = meant(words, around).expect_err("refused");
            format!("{error:#}")
        };
        assert!(
            told(&["all", "--machine", "dgxh100"], Surroundings::default()).contains("--model")
        );
        assert!(told(&["all"], machine("dgxh100")).contains("--model"));
        assert!(told(&["all", "--with-compiled-nvml=false"], machine("")).contains("`fs`"));
        // A model says more than what the surroundings call the machine.
        assert!(meant(&["all", "--model", "tesla-t4"], machine("dgxh100")).is_ok());
        let lenient = Surroundings {
            is_lenient: true,
            ..machine("dgxh100")
        };
        assert!(meant(&["all"], lenient).is_ok());
    }

    #[test]
    fn words_that_are_gone_name_the_way_out() {
        for (words, instead) in [
            (["cdi", "--spec=x"], "--cdi-dir"),
            (["--mode=fs", "all"], "fs, driver or all"),
            (["all", "--cdi-output=/x"], "--cdi-dir"),
            (["all", "--with-hook"], "leave it out"),
            (["--toolkit-root", "/x"], "leave it out"),
        ] {
            let words = ["gpu-mockctl"].into_iter().chain(words);
            let error = Mockctl::try_parse_from(words).expect_err("refused");
            let (_, told) = way_out(&error).unwrap_or_else(|| panic!("{error}"));
            assert!(told.contains(instead), "{told}");
        }
    }
}
