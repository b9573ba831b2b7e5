//! What the cluster asks of this node: options, and a watch on the node's own object for the parts that need one.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use mirage_k8s::cluster::connect;
use mirage_k8s::cluster::node::Labels;
use mirage_k8s::cluster::own::{self, Own, follow_node};
use mirage_k8s::topology::{CLUSTER, Style, object_name};
use tokio::sync::watch;

use super::cluster::ClusterArgs;
use super::{Node, repartition};

/// Its name in `/health`.
pub(super) const PART: &str = "own-node";

/// Options.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Topology")]
pub(super) struct AskedArgs {
    /// ConfigMap that says what the nodes of each pool are like: this node follows it, and reports who has which of its GPUs in
    /// `topology-<node>` beside it
    #[arg(long, value_name = "NAMESPACE[/NAME]", conflicts_with_all = ["config", "model", "gpus"])]
    pub(super) topology: Option<Place>,
    /// Write no `topology-<node>`
    #[arg(long, requires = "topology")]
    pub(super) no_report: bool,
    /// How keys of that document are spelled
    #[arg(long, value_enum, default_value = "kebab")]
    pub(super) topology_style: Spelling,
    /// Cut the GPUs as the node's label nvidia.com/mig.config asks, or run.ai/mig.config on nodes with dynamic MIG
    #[arg(long)]
    pub(super) mig_manager: bool,
    /// Layouts by name, as NVIDIA's MIG manager has them, beside all-disabled, all-enabled, all-balanced and all-PROFILE
    #[arg(long, value_name = "FILE", requires = "mig_manager")]
    pub(super) mig_config_file: Option<PathBuf>,
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((text, CLUSTER));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err("write NAMESPACE, or NAMESPACE/NAME".into());
        }
        Ok(Place {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// How keys are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Spelling {
    /// gpu-memory
    Kebab,
    /// gpuMemory, as fake-gpu-operator
    Camel,
}

impl Spelling {
    pub(super) fn style(self) -> Style {
        match self {
            Spelling::Kebab => Style::Kebab,
            Spelling::Camel => Style::Camel,
        }
    }
}

impl AskedArgs {
    /// Whether anybody wants to know what stands on the node's object.
    fn wants_node(&self) -> bool {
        self.topology.is_some() || self.mig_manager
    }
}

/// Follows the node's object, until the machine ends.
pub(super) async fn run(node: Node, args: &AskedArgs, own: watch::Sender<Option<Own>>) {
    if !args.wants_node() {
        return;
    }
    let mut ending = node.inside.ending.clone();
    let health = &node.inside.health;
    if !node.cluster.is_wanted() {
        health.trouble(PART, "--topology and --mig-manager need an API server");
        return;
    }
    let follow = async {
        let client = node.cluster.reached().await;
        let tell = |outcome: Result<(), String>| match outcome {
            Ok(()) => health.good(PART),
            Err(why) => health.trouble(PART, why),
        };
        let hear = |now: Own| {
            // The kubelet writes its node every few seconds; most of that is of no interest.
            own.send_if_modified(|known| {
                let is_new = known.as_ref() != Some(&now);
                *known = Some(now);
                is_new
            });
        };
        follow_node(client, &node.name, tell, hear).await;
    };
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = follow => {}
    }
}

/// Takes off again what this node may have written about itself.
pub(super) fn uninstall(name: &str, args: &AskedArgs, cluster: &ClusterArgs) -> Result<()> {
    if cluster.no_api_server || !args.wants_node() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let client = connect(&cluster.access()).await;
        let client = client.map_err(|error| error.to_string())?;
        if let Some(place) = &args.topology {
            own::remove(&client, &place.namespace, &object_name(name)).await?;
        }
        let nothing = Labels::new();
        own::answer(&client, name, repartition::MANAGER, &nothing, &nothing).await
    });
    outcome.map_err(|why: String| anyhow!(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_namespace_and_usually_the_usual_name() {
        let place = |text: &str| text.parse::<Place>();
        let usual = Place {
            namespace: "gpu-operator".into(),
            name: "topology".into(),
        };
        assert_eq!(place("gpu-operator"), Ok(usual.clone()));
        assert_eq!(place("gpu-operator/topology"), Ok(usual));
        for bad in ["", "/", "a/", "/b", "a/b/c"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }
}
