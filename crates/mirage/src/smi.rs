//! `mirage smi`, and this program under the name `nvidia-smi`. What they do is in the crate `mirage-smi`, which is also a program.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The name under which this program is its `nvidia-smi`.
const NAME: &str = "nvidia-smi";

/// `mirage smi`: everything after it is read as `nvidia-smi` reads its arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Options of nvidia-smi; `mirage smi -h` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    pub arguments: Vec<OsString>,
}

/// Plays `nvidia-smi` if that is the name this program was started under.
pub fn run_as_named() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next()?;
    let name = Path::new(&name).file_name()?;
    (name == NAME).then(|| mirage_smi::run(arguments.collect()))
}

/// Plays `nvidia-smi` with these arguments.
pub fn run(args: Args) -> ExitCode {
    mirage_smi::run(args.arguments)
}
