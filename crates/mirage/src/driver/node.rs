//! The node this machine shall look like: the plan of `mirage up`, at rest.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use mirage_model::board::Vendor;
use mirage_model::plan::{Driver, NodePlan, Plan};
use mirage_sim::World;
use mirage_state::layout::header_flags;
use mirage_state::{Freshness, Image, Reader, clock};

use super::options::Args;
use crate::cli::usage;
use crate::publish::{self, Clock};
use crate::source::{self, Source};
use crate::statedir::is_plain;

/// A node that nobody drives.
#[derive(Debug)]
pub(super) struct Still {
    pub(super) name: Arc<str>,
    pub(super) driver: String,
    pub(super) image: Image,
    /// A config that describes it.
    pub(super) config: String,
}

/// The node the options describe.
pub(super) fn still(args: &Args, host: &str) -> Result<Still> {
    let source = Source {
        config: args.config.clone(),
        model: args.model.clone(),
        gpus: args.gpus,
        nodes: 1,
        seed: None,
        alone: None,
        is_nothing: false,
    };
    let mut plan = source.plan(host)?;
    let mut node = choose(&plan, args.node.as_deref(), host)?.clone();
    if let Some(version) = &args.driver_version {
        node.driver = Arc::new(Driver {
            version: version.clone(),
            cuda: node.driver.cuda,
        });
    }
    check(&node)?;
    let config = match &args.config {
        Some(path) => source::read(path)?,
        None => describe(&node),
    };
    plan.nodes = vec![node];
    // At rest: nothing runs and nothing breaks.
    plan.workloads.clear();
    plan.faults.clear();
    let node = &plan.nodes[0];
    Ok(Still {
        name: node.name.clone(),
        driver: node.driver.version.clone(),
        image: image(&plan)?,
        config,
    })
}

/// The first node of a plan as a state without an engine.
fn image(plan: &Plan) -> Result<Image> {
    let clock = Clock {
        start_unix_ms: 0,
        period: Duration::ZERO,
        epoch: 0,
    };
    let images = publish::images(plan, clock);
    let Some(first) = images.into_iter().next() else {
        bail!("the plan has no nodes");
    };
    let mut image = Arc::unwrap_or_clone(first);
    publish::refresh(&mut image, plan, &World::new(plan), 0, clock);
    image.header.flags |= header_flags::STATIC;
    image.header.unix_ms = 0;
    Ok(image)
}

/// Which node of the plan this machine is.
fn choose<'a>(plan: &'a Plan, asked: Option<&str>, host: &str) -> Result<&'a NodePlan> {
    let find = |name: &str| plan.nodes.iter().find(|node| &*node.name == name);
    let names = || {
        let names: Vec<&str> = plan.nodes.iter().map(|node| &*node.name).collect();
        names.join(", ")
    };
    match (asked, &plan.nodes[..]) {
        (_, []) => Err(usage(
            "the config describes no nodes; add one, or leave --config out",
        )),
        (Some(name), _) => find(name).ok_or_else(|| {
            usage(format!(
                "--node {name}: no such node; there are {}",
                names()
            ))
        }),
        (None, [only]) => Ok(only),
        (None, _) => find(host).ok_or_else(|| {
            usage(format!(
                "none of the nodes is called {host}, like this machine; choose one with --node: {}",
                names()
            ))
        }),
    }
}

/// Refuses what cannot become files.
fn check(node: &NodePlan) -> Result<()> {
    if !is_plain(&node.name) {
        return Err(usage(format!("node `{}`: no plain file name", node.name)));
    }
    let version = &node.driver.version;
    let numbers = version.split('.').all(|part| {
        !part.is_empty() && part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit())
    });
    if !numbers || !(2..=4).contains(&version.split('.').count()) {
        return Err(usage(format!(
            "driver version `{version}`: write numbers and dots, as in 550.163.01"
        )));
    }
    if node.gpus.is_empty() {
        return Err(usage(
            "a driver without GPUs shows nothing; give at least one with --gpus",
        ));
    }
    match node
        .gpus
        .iter()
        .find(|gpu| gpu.board.vendor != Vendor::Nvidia)
    {
        Some(gpu) => Err(usage(format!(
            "{} is no NVIDIA GPU, and this is NVIDIA's driver; `mirage models` lists others",
            gpu.board.name
        ))),
        None => Ok(()),
    }
}

/// A config that gives this node.
fn describe(node: &NodePlan) -> String {
    let (major, minor) = node.driver.cuda;
    let model = node.gpus.first().map_or("", |gpu| gpu.board.key.as_ref());
    format!(
        "# The node this driver root was made for: mirage up --config this-file brings it to life.\n\
         driver: {{ version: {}, cuda: \"{major}.{minor}\" }}\n\
         nodes:\n  {}: {{ model: {model}, gpus: {} }}\n",
        node.driver.version,
        node.name,
        node.gpus.len()
    )
}

/// Whether an engine writes this state now.
pub(super) fn is_live(state: &Path) -> bool {
    Reader::open(state).is_ok_and(|state| state.freshness(clock::boottime_ns()) == Freshness::Fresh)
}
