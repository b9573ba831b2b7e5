//! `mirage controller`: the cluster. It keeps the topology, makes nodes that have no kubelet, gives their GPUs to pods, and
//! simulates those GPUs: one machine that is all of them.
//!
//! | Part | What it does |
//! |---|---|
//! | [`mirage_k8s::controller`] | decides, and writes into the API server |
//! | `simulate` | lays what was decided over the engine, and takes labels from it |
//! | `server` | the topology over HTTP |

mod server;
mod simulate;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use mirage_k8s::cluster::{Access, Client, connect, workloads};
use mirage_k8s::controller::Settings;
use mirage_k8s::controller::run::{Shared, Tell, remove, resign, run as act};
use mirage_k8s::inference::Prometheus;
use mirage_k8s::migconfig::Ids;
use mirage_k8s::topology::Style;

use crate::cli::say;
use crate::health::Health;
use crate::machine::{Inside, Machine, MachineArgs, Options, listen};
use crate::source::Source;
use crate::statedir;

/// Shortest and longest time between two attempts to find a server.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long the server may take to hear that this controller ends.
const GOODBYE: Duration = Duration::from_secs(2);

/// Arguments of `mirage controller`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:\n  \
    mirage controller --kubeconfig ~/.kube/config    a cluster from outside\n  \
    mirage controller --style camel                  documents as fake-gpu-operator writes them\n\n\
    What there is to be stands in the ConfigMap `topology`, under the key `topology.yml`.")]
pub struct Args {
    /// How to reach the API server [default: by the account of the pod mirage runs in]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// Namespace of the topology's ConfigMaps and of the lease
    #[arg(
        long,
        value_name = "NAME",
        env = "TOPOLOGY_CM_NAMESPACE",
        default_value = "gpu-operator"
    )]
    namespace: String,
    /// ConfigMap that says which pools and nodes there are to be
    #[arg(
        long,
        value_name = "NAME",
        env = "TOPOLOGY_CM_NAME",
        default_value = "topology"
    )]
    topology: String,
    /// How keys of the documents are spelled; every spelling is read
    #[arg(long, value_enum, default_value = "kebab")]
    style: Spelling,
    /// Namespace of pods that reserve a GPU for others
    #[arg(
        long,
        value_name = "NAME",
        env = "RESOURCE_RESERVATION_NAMESPACE",
        default_value = "runai-reservation"
    )]
    reservation_namespace: String,
    /// Number that stands for a MIG device in run.ai/mig-mapping
    #[arg(long, value_enum, default_value = "instance")]
    mig_ids: MigIds,
    /// Keep nodes with KWOK's annotation alive too, where KWOK itself does not run
    #[arg(long)]
    keep_kwok_nodes: bool,
    /// Put no taint on nodes that mirage makes: any pod may then be sent there, and only seems to run
    #[arg(long)]
    no_virtual_taint: bool,
    /// Write no GPU labels on nodes
    #[arg(long)]
    no_labels: bool,
    /// Where to serve the topology: ADDRESS:PORT or :PORT; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    topology_listen: String,
    /// Name of this controller among several, of which one acts [default: the host's name]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    lease_identity: Option<String>,
    /// Prometheus that knows how many requests inference pods serve (Knative's revision_app_request_count); without one they are
    /// 1 % busy
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    prometheus: Option<Prometheus>,
    /// Take back everything a controller wrote, nodes that it made included, and end
    #[arg(long)]
    uninstall: bool,
    /// Delete the Deployments and DaemonSets with these labels first, and wait until their pods have ended
    #[arg(long, value_name = "SELECTOR", requires = "uninstall")]
    end_first: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
}

/// How keys are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Spelling {
    /// gpu-memory
    Kebab,
    /// gpuMemory, as fake-gpu-operator
    Camel,
}

/// Numbers of MIG devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MigIds {
    /// The GPU instance's own, as on real nodes
    Instance,
    /// Its profile's, as fake-gpu-operator has them
    Profile,
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            document: self.topology.clone(),
            style: match self.style {
                Spelling::Kebab => Style::Kebab,
                Spelling::Camel => Style::Camel,
            },
            reservations: self.reservation_namespace.clone(),
            ids: match self.mig_ids {
                MigIds::Instance => Ids::Instance,
                MigIds::Profile => Ids::Profile,
            },
            keeps_kwok: self.keep_kwok_nodes,
            taints: !self.no_virtual_taint,
            labels: !self.no_labels,
            awaits_labels: !self.no_labels,
            identity: self.lease_identity.clone().unwrap_or_else(statedir::host),
        }
    }

    fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}

/// Runs until told to end.
pub fn run(args: Args) -> Result<()> {
    if args.uninstall {
        return uninstall(&args);
    }
    let listener = listen("--topology-listen", &args.topology_listen)?;
    // Its nodes are elsewhere, or nowhere: no NVML client of theirs is on this machine.
    let options = Options {
        no_state_files: true,
        ..Options::default()
    };
    let machine = Machine::new(Source::nothing(), args.machine.clone(), options)?;
    let shared = Shared::new(args.settings());
    machine.run(move |inside| companions(inside, shared, args, listener))
}

fn uninstall(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(async {
        let client = connect(&args.access()).await?;
        if let Some(selector) = &args.end_first {
            let ended = workloads::end(&client, &args.namespace, selector).await;
            say(&ended.map_err(anyhow::Error::msg)?);
        }
        let done = remove(&client, &args.namespace).await;
        say(&done.map_err(anyhow::Error::msg)?);
        Ok(())
    })
}

async fn companions(
    inside: Inside,
    shared: Arc<Shared>,
    args: Args,
    listener: std::net::TcpListener,
) {
    let (access, prometheus) = (args.access(), args.prometheus);
    let serves = async {
        tokio::select! {
            () = simulate::follow(inside.clone(), shared.clone()) => {}
            () = requests(inside.clone(), shared.clone(), prometheus) => {}
            () = server::serve(listener, shared.clone(), inside.clone()) => {}
        }
    };
    // Whoever only serves ends at once; who acts still has the lease to give back then.
    tokio::join!(cluster(inside.clone(), shared.clone(), access), serves);
}

/// Finds the API server and acts on it until it is time to end.
async fn cluster(inside: Inside, shared: Arc<Shared>, access: Access) {
    let mut ending = inside.ending.clone();
    let client = tokio::select! {
        _ = ending.wait_for(|ending| *ending) => return,
        client = find(&inside, &access) => client,
    };
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = act(client.clone(), shared.clone(), teller(inside.health.clone())) => {}
    }
    match tokio::time::timeout(GOODBYE, resign(&client, &shared)).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => say(&why),
        Err(_) => say("giving the lease back: the server does not answer"),
    }
}

async fn find(inside: &Inside, access: &Access) -> Client {
    let mut pause = PAUSES.0;
    let client = loop {
        match connect(access).await {
            Ok(client) => break client,
            Err(error) => inside.health.trouble("api-server", error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    };
    inside.health.good("api-server");
    client
}

/// Follows how many requests inference pods serve, for ever; nothing without a Prometheus.
async fn requests(inside: Inside, shared: Arc<Shared>, prometheus: Option<Prometheus>) {
    let Some(prometheus) = prometheus else {
        return std::future::pending().await;
    };
    let tell = teller(inside.health.clone());
    prometheus
        .follow(
            |rates| shared.requests(rates),
            |outcome| tell("prometheus", outcome),
        )
        .await;
}

fn teller(health: Arc<Health>) -> Tell {
    Arc::new(move |part, outcome| match outcome {
        Ok(()) => health.good(part),
        Err(why) => health.trouble(part, why),
    })
}
