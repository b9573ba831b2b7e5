//! `nvidia-smi` as a program of its own: what a driver root and containers get, a twentieth of the size of the one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    mirage_smi::run(std::env::args_os().skip(1).collect())
}
