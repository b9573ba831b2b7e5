//! `mirage node`: one Kubernetes node's GPUs. The same machine as `mirage up`, with companions that talk to the
//! kubelet, the container runtime and the API server.
//!
//! | Part | What it does |
//! |---|---|
//! | `driver` | driver root: libraries, programs and device nodes that containers are given from |
//! | `plugin` | device plugin: advertises the simulated GPUs to the kubelet, and hands them to containers |
//! | `cluster` | the way to the API server, and a watch on the pods of this node |
//! | `pods` | what the node's pods do with their GPUs, from pod-resources and pod annotations |
//! | `labels` | node labels as GPU Feature Discovery writes them |
//! | `asked` | what the cluster asks of the node: its options, and a watch on the node's own object |
//! | `topology` | the node as its pool in the cluster's document says, also when that is edited |
//! | `repartition` | GPUs cut into MIG devices as the node's labels ask |
//! | `report` | `topology-<node>`: who has which GPU |
//! | `leave` | what is left on the node when mirage is taken out of the cluster: nothing |
//! | `hook` | runtime hook (NRI): pods allocated centrally, and `podlist.json` |
//!
//! Every part runs by itself: one that cannot do its work tries again, says so in `/health`, and disturbs no other. So
//! does one that panics: `keep` begins it anew.

mod asked;
mod cluster;
mod driver;
mod edits;
mod hook;
mod keep;
mod labels;
mod leave;
mod plugin;
mod pods;
mod repartition;
mod report;
mod socket;
mod topology;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use mirage_k8s::cluster::own::Own;
use mirage_state::Image;
use tokio::sync::watch;

use self::cluster::Cluster;
use crate::cli::usage;
use crate::machine::{Inside, Machine, MachineArgs, Options};
use crate::source::{Alone, Source};
use crate::statedir;
use driver::Root;

/// Arguments of `mirage node`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  \
    mirage node --model h100-sxm5-80gb --gpus 8    this node has 8 × H100\n  \
    mirage node --config mirage.yaml --pool gpu    as the pool `gpu` says")]
pub struct Args {
    /// Name of this node in the cluster [default: the host's name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Pool of the config or topology that this node belongs to [default: as the node's label or the config says]
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// The kubelet's directory; its sockets are found below it
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_dir: PathBuf,
    /// Take away what `mirage node` leaves on a machine (driver root, CDI specification, labels), and end
    #[arg(long)]
    uninstall: bool,
    #[command(flatten)]
    leave: leave::LeaveArgs,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    driver: driver::DriverArgs,
    #[command(flatten)]
    plugin: plugin::PluginArgs,
    #[command(flatten)]
    cluster: cluster::ClusterArgs,
    #[command(flatten)]
    pods: pods::PodArgs,
    #[command(flatten)]
    labels: labels::LabelArgs,
    #[command(flatten)]
    hook: hook::HookArgs,
    #[command(flatten)]
    asked: asked::AskedArgs,
}

/// Runs until told to end.
pub fn run(args: Args) -> Result<()> {
    if args.source.nodes != 1 {
        return Err(usage(
            "--nodes: a node is one; `mirage up --nodes` simulates many",
        ));
    }
    if args.pool.is_some() && args.source.config.is_none() && args.asked.topology.is_none() {
        return Err(usage(
            "--pool: name what has the pools, with --config or --topology",
        ));
    }
    let name = args.node_name.clone().unwrap_or_else(statedir::host);
    let mut machine = args.machine.clone();
    let state_dir = machine.state_dir.get_or_insert_with(statedir::preferred);
    let own = state_dir.join(&name);
    if args.uninstall {
        return uninstall(&args, &name, &own);
    }
    args.plugin.check(args.driver.is_made())?;
    if statedir::is_plain(&name) {
        // Containers have it mounted: what this process did not make it does not take along when it ends, and they
        // see the next one's state. Whether it can be used is found out by whoever uses it.
        let _ = DirBuilder::new().mode(0o755).recursive(true).create(&own);
    }
    let mut source = args.source.clone();
    source.alone = Some(Alone {
        node: name.clone(),
        pool: args.pool.clone(),
    });
    if args.asked.topology.is_some() {
        // The cluster says what the node is, once it is asked.
        source = Source::nothing();
    }
    machine.pods.pod_node = Some(name.clone());
    machine.pods.pod_resources.get_or_insert_with(|| {
        let directory = args.kubelet_dir.join("pod-resources");
        directory.join("kubelet.sock")
    });
    // Whatever our own plugin offers is a GPU.
    let names = &mut machine.pods.nvidia_resource_names;
    names.extend(args.plugin.names());
    args.hook.prepare(&args.kubelet_dir);
    let list = args.hook.pod_list(&args.kubelet_dir);
    machine.pods.pod_list = machine.pods.pod_list.or(list);
    let machine = Machine::new(source, machine, Options::default())?;
    let kubelet_dir = args.kubelet_dir.clone();
    let args = Arc::new(args);
    let (shared, of) = (args.clone(), name.clone());
    machine.run(|inside| {
        let (root, follows) = watch::channel(Root::default());
        let (own, seen) = watch::channel(None);
        let (limit, offered) = watch::channel(None);
        let node = Node {
            name: of,
            kubelet_dir,
            root: follows,
            own: seen,
            offered,
            cluster: Cluster::new(&shared.cluster),
            inside,
        };
        companions(node, Makers { root, own, limit }, shared)
    })?;
    if args.leave.is_over(&name, &args.cluster) {
        return uninstall(&args, &name, &own);
    }
    Ok(())
}

/// Takes away what is left on the machine and on the node.
fn uninstall(args: &Args, name: &str, own: &Path) -> Result<()> {
    let labels = labels::uninstall(name, &args.labels, &args.cluster);
    let asked = asked::uninstall(name, &args.asked, &args.cluster);
    let hook = hook::uninstall(&args.hook, &args.kubelet_dir);
    plugin::uninstall(&args.plugin, &args.kubelet_dir);
    let driver = args.driver.uninstall();
    if let Some(state_dir) = own.parent() {
        // Whatever runs there keeps its own.
        statedir::clear(state_dir, name);
    }
    driver.and(labels).and(asked).and(hook)
}

/// What a part knows of the node it serves.
#[derive(Debug, Clone)]
struct Node {
    /// Its name in the cluster.
    name: String,
    /// The kubelet's directory.
    kubelet_dir: PathBuf,
    /// How far its driver root is.
    root: watch::Receiver<Root>,
    /// Its object in the API server, for parts that asked for it.
    own: watch::Receiver<Option<Own>>,
    /// How many of its GPUs may be given away, where the others are to go.
    offered: watch::Receiver<Option<u32>>,
    /// The API server.
    cluster: Arc<Cluster>,
    /// The machine.
    inside: Inside,
}

impl Node {
    /// What is published of it; nothing if the config has it no longer.
    fn image(&self) -> Option<Arc<Image>> {
        self.inside.fleet.one(&self.name)?.nodes.pop()
    }

    /// The part of it that may be given away.
    fn given_away(&self, image: &Arc<Image>) -> Arc<Image> {
        let limit = *self.offered.borrow();
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        if image.cards.len() <= most {
            return image.clone();
        }
        let mut part = (**image).clone();
        part.cards = part.cards.iter().take(most).cloned().collect();
        part.lives.truncate(most);
        part.instances.retain(|one| (one.gpu as usize) < most);
        Arc::new(part)
    }

    /// How far its driver root is.
    fn root(&self) -> Root {
        self.root.borrow().clone()
    }
}

/// Where some parts tell the others what they find.
struct Makers {
    root: watch::Sender<Root>,
    own: watch::Sender<Option<Own>>,
    limit: watch::Sender<Option<u32>>,
}

/// Every part, until the machine ends.
async fn companions(node: Node, makers: Makers, args: Arc<Args>) {
    let Makers { root, own, limit } = makers;
    // Each has all it needs for itself, as often as it begins.
    macro_rules! part {
        ($module:ident, |$node:ident, $args:ident $(, $maker:ident)?| $run:expr) => {
            keep::keep(
                node.inside.health.clone(),
                node.inside.ending.clone(),
                $module::PART,
                || {
                    let ($node, $args) = (node.clone(), args.clone());
                    $(let $maker = $maker.clone();)?
                    async move { $run.await }
                },
            )
        };
    }
    tokio::join!(
        part!(driver, |node, args, root| {
            let channels = args.plugin.imex_channels();
            driver::run(node, &args.driver, channels, root)
        }),
        part!(plugin, |node, args| {
            plugin::run(node, &args.plugin, &args.driver.cdi_kind)
        }),
        part!(cluster, |node, _args| cluster::run(node)),
        part!(pods, |node, args| pods::run(node, &args.pods)),
        part!(labels, |node, args| {
            labels::run(node, &args.labels, &args.plugin)
        }),
        part!(asked, |node, args, own| asked::run(node, &args.asked, own)),
        part!(topology, |node, args, limit| {
            let (pool, seed) = (args.pool.as_deref(), args.source.seed);
            topology::run(node, &args.asked, pool, seed, limit)
        }),
        part!(repartition, |node, args| {
            repartition::run(node, &args.asked)
        }),
        part!(report, |node, args| {
            report::run(node, &args.asked, &args.plugin)
        }),
        part!(hook, |node, args| hook::run(node, &args.hook)),
    );
}
