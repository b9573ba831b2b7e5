//! The API server: the node's own pods, words about them, and what stands on the node object.
//!
//! | Module | What it does |
//! |---|---|
//! | [`pod`] | a pod as far as it matters here |
//! | [`follow`] | a watch on one node's pods, and what it has seen |
//! | [`tell`] | Events about pods |
//! | [`node`] | labels and conditions of the node |
//! | [`own`] | what the cluster asks of the node, and the node's answers |
//! | [`watching`] | watches that last, and tell of trouble and its end |
//! | [`configmap`] | a text that somebody keeps in a ConfigMap |
//! | [`workloads`] | mirage's own DaemonSets and Deployments, and their end |
//!
//! Only this node's pods are asked for, and only what is needed of them is kept. An API server that is away is
//! asked again, ever more seldom; what was seen last stands meanwhile.

pub mod configmap;
pub mod follow;
pub mod node;
pub mod own;
pub mod pod;
pub mod tell;
pub mod watching;
pub mod workloads;

use std::path::PathBuf;
use std::time::Duration;

pub use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::error::{Error, Result, chain};

/// Name under which mirage writes into the API server.
pub const MANAGER: &str = "mirage";

/// Most time to reach the server.
const CONNECT: Duration = Duration::from_secs(10);
/// Most time without a word from the server: longer than a watch lasts.
const SILENCE: Duration = Duration::from_secs(75);
/// How long a watch lasts, in seconds; then it is begun again where it was. One whose server has vanished is noticed by then.
const WATCH: u32 = 60;
/// Most time for a question with one answer.
const ANSWER: Duration = Duration::from_secs(20);

/// How the API server is found.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A kubeconfig; without one, the account of the pod that mirage runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; without one, its current.
    pub context: Option<String>,
}

/// A client for the API server. It has not been spoken to yet.
///
/// Reads files, so call it where that may take time.
pub async fn connect(access: &Access) -> Result<Client> {
    let mut config = config(access).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    Client::try_from(config).map_err(|error| Error::Access {
        problem: chain(&error),
    })
}

async fn config(access: &Access) -> Result<kube::Config> {
    let Some(path) = access.kubeconfig.clone() else {
        return kube::Config::incluster().map_err(|error| Error::Access {
            problem: format!(
                "{}; run in a pod with a service account, or name a kubeconfig with --kubeconfig",
                chain(&error)
            ),
        });
    };
    let unfit = |problem: String| Error::Kubeconfig {
        path: path.clone(),
        problem,
    };
    let file = path.clone();
    let kubeconfig = tokio::task::spawn_blocking(move || Kubeconfig::read_from(file))
        .await
        .map_err(|error| unfit(error.to_string()))?
        .map_err(|error| unfit(chain(&error)))?;
    let options = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| unfit(chain(&error)))
}

/// Asks with a limit of time; what went wrong comes with `what` was attempted.
pub(crate) async fn answered<T>(
    what: impl FnOnce() -> String,
    question: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{}: {}", what(), chain(&error))),
        Err(_) => Err(format!("{}: no answer within {ANSWER:?}", what())),
    }
}
