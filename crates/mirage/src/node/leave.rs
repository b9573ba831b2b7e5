//! The end of mirage in a cluster. A node agent that ends leaves everything where it is, since the next one goes on with it; one whose
//! DaemonSet was deleted, or whose node is no longer of it, has no next one, and takes everything along.

use anyhow::{Context, Result};
use mirage_k8s::cluster::{connect, workloads};

use super::cluster::ClusterArgs;
use crate::cli::say;

/// Options.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct LeaveArgs {
    /// When told to end while this DaemonSet is gone, do what --uninstall does
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = daemonset)]
    leave_with: Option<DaemonSet>,
    /// The same while the node has no such label
    #[arg(long, value_name = "LABEL", requires = "leave_with")]
    leave_without: Option<String>,
}

/// A DaemonSet by name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DaemonSet {
    namespace: String,
    name: String,
}

fn daemonset(text: &str) -> Result<DaemonSet, String> {
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(DaemonSet {
                namespace: namespace.into(),
                name: name.into(),
            })
        }
        _ => Err("a namespace and a name are wanted, as in mirage/mirage-node".into()),
    }
}

impl LeaveArgs {
    /// Whether the DaemonSet that runs this agent is gone, or not for this node any more. Whoever cannot be asked has not said so.
    pub(super) fn is_over(&self, node: &str, cluster: &ClusterArgs) -> bool {
        let Some(daemonset) = &self.leave_with else {
            return false;
        };
        match self.ask(daemonset, node, cluster) {
            Ok(gone) => gone,
            Err(error) => {
                say(&format!(
                    "{error:#}; everything stays where it is, and `mirage node --uninstall` takes it away"
                ));
                false
            }
        }
    }

    fn ask(&self, daemonset: &DaemonSet, node: &str, cluster: &ClusterArgs) -> Result<bool> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        let asked = runtime.block_on(async {
            let client = connect(&cluster.access()).await;
            let client = client.map_err(|error| error.to_string())?;
            let DaemonSet { namespace, name } = daemonset;
            if workloads::is_gone(&client, namespace, name).await? {
                return Ok(true);
            }
            match &self.leave_without {
                Some(label) => Ok(!workloads::is_labelled(&client, node, label).await?),
                None => Ok(false),
            }
        });
        asked.map_err(|why: String| anyhow::Error::msg(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemonset_has_a_namespace_and_a_name() {
        let wanted = DaemonSet {
            namespace: "mirage".into(),
            name: "mirage-node".into(),
        };
        assert_eq!(daemonset("mirage/mirage-node"), Ok(wanted));
        for text in ["", "a", "/a", "a/", "a/b/c"] {
            assert!(daemonset(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nobody_leaves_unasked_or_unanswered() {
        let cluster = ClusterArgs::default();
        assert!(!LeaveArgs::default().is_over("n", &cluster));
        let cluster = ClusterArgs {
            kubeconfig: Some("/nonexistent/kubeconfig".into()),
            ..cluster
        };
        let args = LeaveArgs {
            leave_with: daemonset("a/b").ok(),
            leave_without: Some("c".into()),
        };
        assert!(!args.is_over("n", &cluster));
    }
}
