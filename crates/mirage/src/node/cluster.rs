//! The node's way to the API server: one client and one watch on its pods, for every part that needs them.

mod groups;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::cluster::follow::{Pods, follow};
use mirage_k8s::cluster::{Access, Client, connect};
use mirage_k8s::inference::{Prometheus, Rates};
use mirage_k8s::usage::groups::Classes;
use tokio::sync::watch;

use super::Node;

/// Its name in `/health`.
pub(super) const PART: &str = "api-server";
/// Shortest and longest time between two attempts to find a server.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How long it may take at the start before others say that they wait for it.
const GRACE: Duration = Duration::from_secs(5);

/// Options.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// How to reach the API server [default: by the account of the pod mirage runs in]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub(super) context: Option<String>,
    /// Go without an API server: whoever was given a GPU keeps it busy
    #[arg(long)]
    pub(super) no_api_server: bool,
    /// Prometheus that knows how many requests inference pods serve (Knative's revision_app_request_count); without one they are
    /// 1 % busy
    #[arg(long, value_name = "URL", env = "PROMETHEUS_URL")]
    pub(super) prometheus: Option<Prometheus>,
}

impl ClusterArgs {
    /// How a server is found.
    pub(super) fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}

/// What is known of the cluster.
pub(super) struct Cluster {
    access: Option<Access>,
    client: watch::Sender<Option<Client>>,
    pods: Pods,
    /// Priority classes of the pods' groups.
    classes: watch::Sender<Arc<Classes>>,
    prometheus: Option<Prometheus>,
    /// Requests that inference pods serve.
    rates: watch::Sender<Arc<Rates>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A client has nothing to show.
        f.debug_struct("Cluster")
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Nothing has been asked yet.
    pub(super) fn new(args: &ClusterArgs) -> Arc<Cluster> {
        Arc::new(Cluster {
            access: (!args.no_api_server).then(|| args.access()),
            client: watch::Sender::new(None),
            pods: Pods::default(),
            classes: watch::Sender::default(),
            prometheus: args.prometheus.clone(),
            rates: watch::Sender::default(),
        })
    }

    /// Whether there is a server to wait for.
    pub(super) fn is_wanted(&self) -> bool {
        self.access.is_some()
    }

    /// A client, once a server was found.
    pub(super) fn client(&self) -> Option<Client> {
        self.client.borrow().clone()
    }

    /// Waits for a client.
    pub(super) async fn reached(&self) -> Client {
        let mut client = self.client.subscribe();
        loop {
            if let Some(client) = client.borrow_and_update().clone() {
                return client;
            }
            if client.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Whether the watch on the pods works.
    pub(super) fn is_followed(&self, node: &Node) -> bool {
        let parts = node.inside.health.parts_now();
        let mut own = parts.iter().filter(|(part, _)| *part == PART);
        own.any(|(_, trouble)| trouble.is_none())
    }

    /// Waits for a server at the start, for a while: being about to find one is no trouble.
    pub(super) async fn settle(&self) {
        if !self.is_wanted() {
            return;
        }
        let mut changes = self.pods.changes();
        let listed = async { while !self.pods.is_complete() && changes.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(GRACE, listed).await;
    }

    /// The node's pods.
    pub(super) fn pods(&self) -> &Pods {
        &self.pods
    }

    /// Priority classes of the pods' groups, as far as they are known.
    pub(super) fn classes(&self) -> Arc<Classes> {
        self.classes.borrow().clone()
    }

    /// Their changes.
    pub(super) fn class_changes(&self) -> watch::Receiver<Arc<Classes>> {
        self.classes.subscribe()
    }

    /// Requests that inference pods serve, as far as they are counted.
    pub(super) fn rates(&self) -> Arc<Rates> {
        self.rates.borrow().clone()
    }
}

/// Finds the server and follows the pods, until the machine ends.
pub(super) async fn run(node: Node) {
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = work(&node) => {}
    }
}

async fn work(node: &Node) {
    let cluster = &node.cluster;
    let Some(access) = &cluster.access else {
        return;
    };
    let health = &node.inside.health;
    let mut pause = PAUSES.0;
    let client = loop {
        match connect(access).await {
            Ok(client) => break client,
            Err(error) => health.trouble(PART, error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    };
    cluster.client.send_replace(Some(client.clone()));
    let tell = |part| {
        move |outcome: Result<(), String>| match outcome {
            Ok(()) => health.good(part),
            Err(why) => health.trouble(part, why),
        }
    };
    let requests = async {
        if let Some(prometheus) = &cluster.prometheus {
            let put = |rates| drop(cluster.rates.send_replace(Arc::new(rates)));
            prometheus.follow(put, tell("prometheus")).await;
        }
    };
    tokio::join!(
        groups::learn(node, &client),
        follow(client.clone(), &node.name, &cluster.pods, tell(PART)),
        requests,
    );
}
