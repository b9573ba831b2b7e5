//! `mirage check`: validates config files, or prints their JSON Schema.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use mirage_model::config::{self, Defaults};
use mirage_model::schema;

use crate::cli::usage;
use crate::page::summary;
use crate::source;

/// Arguments of `mirage check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mirage check mirage.yaml\n  \
                        mirage check --schema > mirage.schema.json\n\n\
                        Exit codes: 0 all files are good, 2 some are not.")]
pub struct Args {
    /// Files to check
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the JSON Schema of mirage.yaml, for editors
    #[arg(long)]
    schema: bool,
}

/// Checks every file; all errors of all files are told.
pub fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.schema {
        writeln!(out, "{}", schema::schema().trim_end())?;
    }
    let mut bad = 0;
    for path in &args.files {
        let name = path.display().to_string();
        let read = source::read(path).map_err(|error| error.to_string());
        let loaded = read.and_then(|text| {
            config::load(&text, &name, &Defaults::default()).map_err(|e| e.to_string())
        });
        match loaded {
            Ok(loaded) => {
                if !loaded.warnings.is_empty() {
                    eprintln!("{}", loaded.warnings.to_string().trim_end());
                }
                let plan = &loaded.plan;
                let extras = format!(
                    "{} workloads, {} faults",
                    plan.workloads.len(),
                    plan.faults.len()
                );
                writeln!(out, "{name}: good ({}, {extras})", summary(plan))?;
            }
            Err(message) => {
                bad += 1;
                eprintln!("{}", message.trim_end());
            }
        }
    }
    if bad > 0 {
        let count = args.files.len();
        return Err(usage(format!("{bad} of {count} files cannot be used")));
    }
    Ok(())
}
