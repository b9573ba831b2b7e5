//! Where a fleet comes from: a config file, or a few flags and a demo load.

use std::path::{Path, PathBuf};

use anyhow::Result;
use mirage_model::config::{self, Defaults, Loaded};
use mirage_model::plan::Plan;

use crate::cli::{say, usage};

/// The model of a fleet nobody described.
const MODEL: &str = "a100-sxm4-40gb";
/// Largest config file read.
const LARGEST: u64 = 64 << 20;

/// Which fleet.
#[derive(Debug, Clone, clap::Args)]
pub struct Source {
    /// Config file: mirage.yaml, a topology document, or fake-gpu-operator's node pools
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// GPU model of every node; `mirage models` lists them [default: a100-sxm4-40gb]
    #[arg(long, value_name = "KEY", conflicts_with = "config")]
    pub model: Option<String>,
    /// GPUs per node [default: as many as nodes of the model usually have]
    #[arg(long, value_name = "N", conflicts_with = "config")]
    pub gpus: Option<u32>,
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "config")]
    pub nodes: u32,
    /// Seed of all chance; the same seed gives the same run [default: the config's, or 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The one node this machine is, for a role that is a node.
    #[arg(skip)]
    pub alone: Option<Alone>,
    /// No fleet yet, for a role that is told later.
    #[arg(skip)]
    pub is_nothing: bool,
}

/// Which node of a fleet a machine is.
#[derive(Debug, Clone)]
pub struct Alone {
    /// The node's name.
    pub node: String,
    /// The pool it is made from, whatever the config says of the node.
    pub pool: Option<String>,
}

impl Source {
    /// No fleet.
    pub fn nothing() -> Source {
        Source {
            config: None,
            model: None,
            gpus: None,
            nodes: 0,
            seed: None,
            alone: None,
            is_nothing: true,
        }
    }

    /// The fleet, its first node called `host` where nobody names one.
    pub fn plan(&self, host: &str) -> Result<Plan> {
        if self.is_nothing {
            return Ok(Plan::empty(0));
        }
        match &self.config {
            Some(path) => {
                let loaded = self.load(path, host)?;
                if !loaded.warnings.is_empty() {
                    say(&format!("{}", loaded.warnings));
                }
                Ok(loaded.plan)
            }
            None => self.demo(host),
        }
    }

    /// Reads the config file.
    pub fn load(&self, path: &Path, host: &str) -> Result<Loaded> {
        let text = read(path)?;
        let defaults = Defaults {
            host: host.into(),
            seed: self.seed.unwrap_or(0),
            ..Defaults::default()
        };
        let mut loaded =
            config::load(&text, &path.display().to_string(), &defaults).map_err(usage)?;
        if let Some(seed) = self.seed {
            loaded.plan.seed = seed;
        }
        if let Some(Alone { node, pool }) = &self.alone {
            let alone = loaded.plan.alone(node, pool.as_deref());
            loaded.plan = alone.map_err(|why| usage(format!("{}: {why}", path.display())))?;
        }
        Ok(loaded)
    }

    fn demo(&self, host: &str) -> Result<Plan> {
        let model = self.model.as_deref().unwrap_or(MODEL);
        let gpus = match self.gpus {
            Some(gpus) => gpus,
            None => mirage_model::catalogue::find(model).map_or(8, |board| board.gpus_per_node),
        };
        let host = self.alone.as_ref().map_or(host, |alone| &*alone.node);
        let seed = self.seed.unwrap_or(0);
        let mut plan = config::demo(host, model, gpus, self.nodes, seed).map_err(usage)?;
        if self.alone.is_some() {
            // What runs on a node is what its cluster runs there.
            plan.workloads.clear();
        }
        Ok(plan)
    }
}

/// A config file's text, within reason.
pub fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let trouble = |error: std::io::Error| usage(format!("reading {shown}: {error}"));
    let length = std::fs::metadata(path).map_err(trouble)?.len();
    if length > LARGEST {
        return Err(usage(format!(
            "reading {shown}: {length} bytes are more than the limit of {LARGEST}"
        )));
    }
    let bytes = std::fs::read(path).map_err(trouble)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        usage(format!(
            "reading {shown}: byte {at} (line {line}) is not UTF-8; save the file in UTF-8"
        ))
    })
}
