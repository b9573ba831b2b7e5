//! `mirage models`: the catalogue.

use std::io::Write;

use anyhow::Result;
use mirage_model::board::Board;
use mirage_model::catalogue;

use crate::cli::usage;

/// Arguments of `mirage models`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  mirage models\n  mirage models h100-sxm5-80gb\n  \
                        mirage models Tesla-K80"
)]
pub struct Args {
    /// Show this model: its key, NVML name or product label
    key: Option<String>,
}

/// Lists all models, or shows one.
pub fn run(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match &args.key {
        None => list(&mut out),
        Some(key) => show(key, &mut out),
    }
}

fn list(out: &mut impl Write) -> Result<()> {
    let boards: Vec<_> = catalogue::keys().filter_map(catalogue::board).collect();
    let width = boards.iter().map(|board| board.key.len()).max();
    let width = width.unwrap_or(0).max("KEY".len());
    writeln!(
        out,
        "{:width$}  {:>7}  {:>6}  {:>3}  {:>4}  NAME",
        "KEY", "MEMORY", "POWER", "MIG", "GPUS"
    )?;
    for board in boards {
        let Board {
            key,
            name,
            memory_total_mib,
            power,
            mig,
            gpus_per_node,
            ..
        } = board.as_ref();
        let instances = mig
            .as_ref()
            .map_or("-".into(), |mig| mig.max_instances.to_string());
        writeln!(
            out,
            "{key:width$}  {:>3} GiB  {:>4} W  {instances:>3}  {gpus_per_node:>4}  {name}",
            memory_total_mib.div_ceil(1024),
            power.default_w,
        )?;
    }
    Ok(())
}

fn show(key: &str, out: &mut impl Write) -> Result<()> {
    let found = catalogue::find(key);
    let Some(text) = found.and_then(|board| catalogue::describe(&board.key)) else {
        let hint = match catalogue::nearest(key) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`mirage models` lists those there are".into(),
        };
        return Err(usage(format!("unknown model `{key}`; {hint}")));
    };
    write!(out, "{text}")?;
    Ok(())
}
