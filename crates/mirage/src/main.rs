//! The one binary. Everything it does is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    mirage::cli::main()
}
