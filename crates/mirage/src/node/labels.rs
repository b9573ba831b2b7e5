//! Node labels as GPU Feature Discovery writes them, and a condition for lost GPUs.
//!
//! They follow from what is published. The node is written only when something differs from what stands there; once a
//! minute that is looked at again, as somebody else may have changed it.

mod file;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use clap::builder::BoolishValueParser;
use mirage_k8s::cluster::node::{self as object, Condition, Labels};
use mirage_k8s::cluster::{Client, connect};
use mirage_k8s::gfd::{self, Options, Sharing};
use mirage_model::plan::MigStrategy;
use mirage_state::Image;
use mirage_state::layout::{flags, text};

use super::Node;
use super::cluster::ClusterArgs;
use super::plugin::PluginArgs;
use crate::cli::say;

/// Its name in `/health`.
pub(super) const PART: &str = "labels";
/// Time between two looks at what stands on the node; GPU Feature Discovery's.
const EVERY: Duration = Duration::from_secs(60);
/// Shortest and longest pause after something went wrong.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The condition of a node whose GPUs have fallen off the bus.
const LOST: &str = "GPULost";

/// Options.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Labels")]
pub(super) struct LabelArgs {
    /// Write no labels
    #[arg(long)]
    no_labels: bool,
    /// Write the labels into this directory of Node Feature Discovery instead of onto the node
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        default_missing_value = file::DIRECTORY
    )]
    nfd_features_dir: Option<PathBuf>,
    /// Leave out the label that says when the labels were made
    #[arg(long, env = "GFD_NO_TIMESTAMP", value_parser = BoolishValueParser::new())]
    no_timestamp: bool,
    /// Where the machine's name is read
    #[arg(
        long,
        value_name = "FILE",
        env = "GFD_MACHINE_TYPE_FILE",
        default_value = "/sys/class/dmi/id/product_name"
    )]
    machine_type_file: PathBuf,
    /// Add nvidia.com/gpu.present=true, as the GPU operator does, and run.ai/fake.gpu=true, as fake-gpu-operator does
    #[arg(long)]
    label_present: bool,
    /// Add the labels by which the GPU operator's parts are sent to nodes, nvidia.com/gpu.deploy.…=true
    #[arg(long)]
    deploy_labels: bool,
    /// Give the node the condition GPULost: true while a GPU has fallen off the bus
    #[arg(long)]
    condition: bool,
}

/// That there are GPUs, and that they are simulated; nodes without a kubelet have both from the controller.
const PRESENT: &[&str] = &["nvidia.com/gpu.present", "run.ai/fake.gpu"];
/// Parts of the GPU operator that are sent to nodes by label.
const DEPLOYED: &[&str] = &[
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
];
/// The part that is sent only to nodes with this label.
const SPLITTER: &str = "mig-manager";
const CAPABLE: &str = "nvidia.com/mig.capable";

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &LabelArgs, plugin: &PluginArgs) {
    if args.no_labels && !args.condition {
        return;
    }
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = work(&node, args, plugin) => {}
    }
}

async fn work(node: &Node, args: &LabelArgs, plugin: &PluginArgs) {
    let made = Made::new(args, plugin).await;
    if args.nfd_features_dir.is_none() {
        node.cluster.settle().await;
    }
    let mut ticks = node.inside.fleet.changes();
    let mut pause = PAUSES.0;
    // What was written last, and when.
    let mut written: Option<(Wanted, Instant)> = None;
    loop {
        ticks.borrow_and_update();
        if let Some(image) = node.image() {
            let wanted = made.wanted(&node.given_away(&image), args);
            let stands = written
                .as_ref()
                .is_some_and(|(before, when)| *before == wanted && when.elapsed() < EVERY);
            if !stands {
                match write(node, args, &wanted).await {
                    Ok(()) => {
                        node.inside.health.good(PART);
                        written = Some((wanted, Instant::now()));
                        pause = PAUSES.0;
                    }
                    Err(why) => {
                        node.inside.health.trouble(PART, why);
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(PAUSES.1);
                    }
                }
            }
        }
        if ticks.changed().await.is_err() {
            return;
        }
    }
}

/// What shall stand on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    labels: Labels,
    condition: Option<Condition>,
}

/// What labels depend on beside the GPUs.
struct Made {
    strategy: Option<MigStrategy>,
    sharing: Sharing,
    machine: String,
    timestamp: Option<u64>,
}

impl Made {
    async fn new(args: &LabelArgs, plugin: &PluginArgs) -> Made {
        let (strategy, sharing) = plugin.offered();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Made {
            strategy,
            sharing,
            machine: machine(&args.machine_type_file).await,
            timestamp: now
                .ok()
                .filter(|_| !args.no_timestamp)
                .map(|now| now.as_secs()),
        }
    }

    fn wanted(&self, image: &Image, args: &LabelArgs) -> Wanted {
        let strategy = self.strategy.unwrap_or(match image.header.mig_strategy {
            1 => MigStrategy::Single,
            2 => MigStrategy::Mixed,
            _ => MigStrategy::None,
        });
        let options = Options {
            strategy,
            sharing: self.sharing.clone(),
            machine: self.machine.clone(),
            timestamp: self.timestamp,
        };
        let mut labels = gfd::labels(image, &options);
        if !labels.is_empty() {
            let can_split = labels.get(CAPABLE).is_some_and(|it| it == "true");
            let mut add = |key: String| labels.insert(key, "true".into());
            if args.label_present {
                for key in PRESENT {
                    add((*key).to_owned());
                }
            }
            if args.deploy_labels {
                let split = can_split.then_some(&SPLITTER);
                for part in DEPLOYED.iter().chain(split) {
                    add(format!("nvidia.com/gpu.deploy.{part}"));
                }
            }
        }
        Wanted {
            labels,
            condition: args.condition.then(|| lost(image)),
        }
    }
}

/// The machine's name; empty if it cannot be read.
async fn machine(path: &Path) -> String {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let name = read.ok().and_then(Result::ok).unwrap_or_default();
    name.trim().to_owned()
}

/// The condition of the node's GPUs.
fn lost(image: &Image) -> Condition {
    let cards = image.cards.iter().zip(image.lives.iter());
    let lost = cards.filter(|(_, live)| live.flags & flags::LOST != 0);
    let lost: Vec<&str> = lost.map(|(card, _)| text(&card.uuid)).collect();
    if lost.is_empty() {
        return Condition {
            kind: LOST,
            is_true: false,
            reason: "GPUsPresent",
            message: "all GPUs are on the bus".into(),
        };
    }
    Condition {
        kind: LOST,
        is_true: true,
        reason: "GPUFallenOffBus",
        message: format!("fallen off the bus: {}", lost.join(", ")),
    }
}

async fn write(node: &Node, args: &LabelArgs, wanted: &Wanted) -> Result<(), String> {
    if let (false, Some(directory)) = (args.no_labels, &args.nfd_features_dir) {
        file::write(directory, &wanted.labels).await?;
    }
    let on_node = !args.no_labels && args.nfd_features_dir.is_none();
    if !on_node && wanted.condition.is_none() {
        return Ok(());
    }
    if !node.cluster.is_wanted() {
        return Err("labels need an API server, or --nfd-features-dir".into());
    }
    let client = node.cluster.client();
    let client = client.ok_or_else(|| "waiting for the API server".to_owned())?;
    if on_node {
        apply(&client, &node.name, &wanted.labels).await?;
    }
    if let Some(condition) = &wanted.condition {
        object::condition(&client, &node.name, condition).await?;
    }
    Ok(())
}

/// Writes labels that do not stand there already.
async fn apply(client: &Client, node: &str, labels: &Labels) -> Result<(), String> {
    let standing = object::standing(client, node).await?;
    if standing.differs(labels, gfd::TIMESTAMP) {
        object::apply(client, node, labels).await?;
    }
    Ok(())
}

/// Takes everything off again that this part may have written.
pub(super) fn uninstall(name: &str, args: &LabelArgs, cluster: &ClusterArgs) -> Result<()> {
    if let Some(directory) = &args.nfd_features_dir {
        file::remove(directory).map_err(|why| anyhow!(why))?;
    }
    if cluster.no_api_server {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let client = connect(&cluster.access()).await;
        let client = client.map_err(|error| error.to_string())?;
        let standing = object::standing(&client, name).await?;
        if !standing.ours.is_empty() {
            object::apply(&client, name, &Labels::new()).await?;
        }
        object::remove_condition(&client, name, LOST).await
    });
    match outcome {
        Ok(()) => Ok(()),
        // Without a cluster at hand there is nothing to take off.
        Err(why) if cluster.kubeconfig.is_none() => {
            say(&format!("labels are left as they are: {why}"));
            Ok(())
        }
        Err(why) => Err(anyhow!(why)),
    }
}

#[cfg(test)]
mod tests;
