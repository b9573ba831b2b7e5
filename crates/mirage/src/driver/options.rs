//! The options of `mirage driver`, and the places they mean.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

use super::area::Area;
use super::devices::IMEX_CHANNELS;
use super::item::Place;
use super::report::{Format, Level, Report};
use crate::cli::usage;

/// Where the driver root goes unless told otherwise.
const ROOT: &str = "/var/lib/nvidia-mock/driver";
/// Where container runtimes look for specifications.
const CDI: &str = "/var/run/cdi";

/// Arguments of `mirage driver`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  \
    mirage driver all                             8 × A100 on this machine\n  \
    mirage driver all --model h100-sxm5-80gb --gpus 4\n  \
    mirage driver status                          what is there, and whether it is whole\n  \
    mirage driver remove                          as if it had never been there\n\n\
    Exit codes: 0 good, 1 failure (or, for status, not whole), 2 usage or config.")]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// Driver root: libraries, programs, proc and sys [default: /var/lib/nvidia-mock/driver]
    #[arg(long, value_name = "DIR", global = true, visible_alias = "driver-root")]
    pub root: Option<PathBuf>,
    /// Device nodes go to dev/ in here; / means the machine's own /dev [default: the driver root]
    #[arg(long, value_name = "DIR", global = true, visible_alias = "base")]
    pub dev_root: Option<PathBuf>,
    /// Where nvidia.yaml goes [default: /var/run/cdi; with --root, var/run/cdi in the root]
    #[arg(long, value_name = "DIR", global = true)]
    pub cdi_dir: Option<PathBuf>,
    /// Where the node's state goes [default: /run/mirage; with --root, run/mirage in the root]
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// Also make PATH a link to the driver root: /run/nvidia/driver is where the GPU Operator looks
    #[arg(long, value_name = "PATH", global = true)]
    pub link: Option<PathBuf>,
    /// Channels of the memory exchange between machines (IMEX) to make nodes for
    #[arg(
        long,
        value_name = "N",
        global = true,
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(IMEX_CHANNELS))
    )]
    pub imex_channels: u32,
    /// GPU model; `mirage models` lists them [default: a100-sxm4-40gb]
    #[arg(long, value_name = "KEY", global = true, conflicts_with = "config")]
    pub model: Option<String>,
    /// GPUs [default: as many as nodes of the model usually have]
    #[arg(long, value_name = "N", global = true, conflicts_with = "config")]
    pub gpus: Option<u32>,
    /// Config file that describes the node
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Which node of the config this machine is [default: the one named like it, or the only one]
    #[arg(long, value_name = "NAME", global = true)]
    pub node: Option<String>,
    /// Driver version to show everywhere [default: the config's, or the model's]
    #[arg(long, value_name = "VERSION", global = true)]
    pub driver_version: Option<String>,
    /// Kind of the devices in nvidia.yaml
    #[arg(
        long,
        value_name = "VENDOR/CLASS",
        global = true,
        default_value = "nvidia.com/gpu"
    )]
    pub cdi_kind: String,
    /// Where libnvidia-ml.so and libcuda.so are [default: beside this program]
    #[arg(long, value_name = "DIR", global = true)]
    pub library_dir: Option<PathBuf>,
    /// Program to install as nvidia-smi [default: mirage-smi where the libraries are or beside this one, else this one, which answers to that name]
    #[arg(long, value_name = "FILE", global = true)]
    pub smi: Option<PathBuf>,
    /// Where the machine's own /proc and /sys are, as seen from a container
    #[arg(long, value_name = "DIR", global = true, default_value = "/")]
    pub host: PathBuf,
    /// Show what would be done, and do nothing
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Go on beside a real driver, and replace or remove what others made or changed
    #[arg(long, global = true)]
    pub force: bool,
    /// How much to tell
    #[arg(long, value_name = "LEVEL", global = true, default_value = "info")]
    pub log_level: Level,
    /// Lines for people or JSON
    #[arg(long, value_name = "FORMAT", global = true, default_value = "text")]
    pub log_format: Format,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Make the filesystem: device nodes, proc and sys trees
    Fs,
    /// Make the driver: libraries, programs, device nodes, state, CDI specification
    Driver,
    /// Make both
    All,
    /// Take away exactly what was made
    Remove,
    /// Show what is there, and whether it is whole
    Status,
    /// Show the version
    #[command(hide = true)]
    Version,
}

impl Args {
    /// Where to tell things.
    pub(super) fn report(&self) -> Report {
        Report::new(self.log_level, self.log_format)
    }

    /// The driver root.
    pub(super) fn root(&self) -> Result<PathBuf> {
        absolute(self.root.as_deref().unwrap_or(Path::new(ROOT)))
    }

    /// A place. What nobody chose stays inside a root that somebody chose, so that trying things out touches nothing else.
    pub(super) fn place(&self, place: Place) -> Result<PathBuf> {
        let inside = |usual: &str| -> Result<PathBuf> {
            Ok(match self.root {
                Some(_) => self.root()?.join(usual.trim_start_matches('/')),
                None => PathBuf::from(usual),
            })
        };
        match place {
            Place::Root => self.root(),
            Place::Dev => match &self.dev_root {
                Some(dir) => Ok(absolute(dir)?.join("dev")),
                None => Ok(self.root()?.join("dev")),
            },
            Place::Link => match self.linked()? {
                Some((directory, _)) => Ok(directory),
                None => Err(usage("there is no link without --link")),
            },
            Place::Cdi => self
                .cdi_dir
                .as_deref()
                .map_or_else(|| inside(CDI), absolute),
            Place::State => self
                .state_dir
                .as_deref()
                .map_or_else(|| inside(crate::statedir::SYSTEM), absolute),
        }
    }

    /// Directory and name of the link to the root, if there shall be one.
    pub(super) fn linked(&self) -> Result<Option<(PathBuf, PathBuf)>> {
        let Some(link) = &self.link else {
            return Ok(None);
        };
        let link = absolute(link)?;
        match (link.parent(), link.file_name()) {
            (Some(directory), Some(name)) => Ok(Some((directory.to_path_buf(), name.into()))),
            _ => Err(usage(format!("--link {}: no file name", link.display()))),
        }
    }

    /// All places.
    pub(super) fn areas(&self) -> Result<Vec<Area>> {
        let link = self.link.as_ref().map(|_| &Place::Link);
        let places = Place::ALWAYS.iter().chain(link);
        let areas = places.map(|place| Ok(Area::new(*place, self.place(*place)?)));
        areas.collect()
    }
}

/// A path that means the same wherever the process stands: it will be written down.
fn absolute(path: &Path) -> Result<PathBuf> {
    if path.as_os_str().is_empty() {
        return Err(usage("an empty path names no directory"));
    }
    std::path::absolute(path).map_err(|e| usage(format!("{}: {e}", path.display())))
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::Fs => "fs",
            Command::Driver => "driver",
            Command::All => "all",
            Command::Remove => "remove",
            Command::Status => "status",
            Command::Version => "version",
        })
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}
