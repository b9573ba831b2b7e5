//! `-h`, `--version`, `--help-query-…`.

use std::io::Write;

use nvidia_ml::client::Nvml;

use super::args::Command;
use super::{Stop, query, summary};

/// Prints what a command asks to be told about the program; false if it asks for something else.
pub(super) fn print(command: &Command, out: &mut dyn Write) -> Result<bool, Stop> {
    match command {
        Command::Help => write!(out, "{}", include_str!("help.txt"))?,
        Command::Version => version(out)?,
        Command::HelpQuery(table) => fields(*table, out)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn version(out: &mut dyn Write) -> Result<(), Stop> {
    // Without a driver there is still this program.
    let Ok(nvml) = Nvml::open() else {
        writeln!(out, "NVIDIA-SMI version  : N/A")?;
        writeln!(out, "mirage version      : {}", env!("CARGO_PKG_VERSION"))?;
        return Ok(());
    };
    let driver = nvml.driver_version()?;
    let library = nvml.nvml_version()?;
    // Without the API's number before the driver's, and without the last part of that.
    let library: Vec<&str> = library.split('.').skip(1).take(2).collect();
    let library = library.join(".");
    writeln!(out, "NVIDIA-SMI version  : {driver}")?;
    writeln!(out, "NVML version        : {library}")?;
    writeln!(out, "DRIVER version      : {driver}")?;
    writeln!(out, "CUDA Version        : {}", summary::cuda(&nvml)?)?;
    Ok(())
}

/// All fields of a table, each in quotes as scripts look for them, with their other names.
fn fields(table: query::Table, out: &mut dyn Write) -> Result<(), Stop> {
    writeln!(
        out,
        "List of valid properties to query for the switch \"{}\":\n",
        table.switch()
    )?;
    for field in query::fields(table) {
        write!(out, "\"{}\"", field.name)?;
        for alias in &field.aliases {
            write!(out, " or \"{alias}\"")?;
        }
        writeln!(out, "\n{}.\n", field.help)?;
    }
    Ok(())
}
