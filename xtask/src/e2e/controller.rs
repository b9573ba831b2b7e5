//! `mirage controller` as a user starts it, beside the control plane; and what it counts of itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::http;
use super::process::{Daemon, until};

/// Where a controller listens, and what it is called: several may run at once.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its name among several.
    pub(super) identity: &'static str,
    /// Where it serves the topology.
    topology: &'static str,
    /// Where it serves metrics.
    metrics: &'static str,
}

/// The usual one.
pub(super) const FIRST: Place = Place {
    identity: "first",
    topology: "127.0.0.1:8090",
    metrics: "127.0.0.1:9490",
};
/// One beside it.
pub(super) const SECOND: Place = Place {
    identity: "second",
    topology: "127.0.0.1:8091",
    metrics: "127.0.0.1:9491",
};
/// Namespace of its documents.
pub(super) const NAMESPACE: &str = "gpu-operator";

/// A running `mirage controller`; killed when dropped.
pub(super) struct Controller {
    place: Place,
    daemon: Daemon,
}

impl Controller {
    /// Starts it, and waits until it serves.
    pub(super) fn start(
        place: Place,
        program: &Path,
        kubeconfig: &Path,
        scratch: &Path,
    ) -> Result<Controller> {
        let name = format!("controller-{}", place.identity);
        let mut command = Command::new(program);
        command
            .args(["controller", "--namespace", NAMESPACE])
            .args(["--lease-identity", place.identity])
            .args(["--topology-listen", place.topology])
            .args(["--listen", place.metrics, "--state-dir"])
            .arg(scratch.join(&name))
            .env("KUBECONFIG", kubeconfig);
        let mut daemon = Daemon::start(&name, &mut command, &scratch.join("logs"))?;
        daemon.ready(|| http::get(place.topology, "/topology").is_ok())?;
        Ok(Controller { place, daemon })
    }

    /// Ends it as a crash would.
    pub(super) fn kill(mut self) -> Result<()> {
        self.daemon.kill()
    }

    /// Stops it in its tracks, until `wake`.
    pub(super) fn freeze(&self) -> Result<()> {
        self.daemon.signal("STOP")
    }

    /// Lets it go on where it was.
    pub(super) fn wake(&self) -> Result<()> {
        self.daemon.signal("CONT")
    }

    /// Its `/health`.
    pub(super) fn health(&self) -> Result<String> {
        Ok(http::request(self.place.metrics, "GET", "/health", None)?.body)
    }

    /// The exporter's text of a node.
    pub(super) fn metrics(&self, node: &str) -> Result<String> {
        http::get(self.place.metrics, &format!("/nodes/{node}/metrics"))
    }

    /// Its resident memory in bytes.
    pub(super) fn memory(&self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.daemon.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Ok(kib.context("no VmHWM")? * 1024)
    }

    /// Requests so far that write, by what they write, as it counts them itself.
    pub(super) fn writes(&self) -> Result<BTreeMap<String, u64>> {
        let text = http::get(self.place.topology, "/self/metrics")?;
        let mut writes = BTreeMap::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("mirage_api_writes_total{kind=\"") else {
                continue;
            };
            let (kind, count) = rest.split_once("\"} ").context("a line of writes")?;
            writes.insert(kind.to_owned(), count.trim().parse()?);
        }
        Ok(writes)
    }

    /// What it says over HTTP of a node.
    pub(super) fn topology(&self, node: &str) -> Result<String> {
        http::get(self.place.topology, &format!("/topology/nodes/{node}"))
    }

    /// Requests so far that write, signs of life left out.
    pub(super) fn deeds(&self) -> Result<u64> {
        let writes = self.writes()?;
        let writes = writes.iter().filter(|(kind, _)| *kind != "leases");
        Ok(writes.map(|(_, count)| count).sum())
    }
}

/// Makes the namespace, and puts a topology there or another in its place.
pub(super) fn topology(cluster: &Cluster, text: &str) -> Result<()> {
    let apply = |path: &str, body: &Value| {
        let path = format!("{path}?fieldManager=e2e&force=true");
        cluster.send("PATCH", &path, "application/apply-patch+yaml", body)
    };
    apply(
        &format!("/api/v1/namespaces/{NAMESPACE}"),
        &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
    )?;
    apply(
        &format!("/api/v1/namespaces/{NAMESPACE}/configmaps/topology"),
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "topology", "namespace": NAMESPACE },
            "data": { "topology.yml": text },
        }),
    )
}

/// The path of a node's document.
pub(super) fn document(node: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps/topology-{node}")
}

/// The pods of each GPU of a node, by its document: one `- id` per GPU, and the pod of its `allocated-by`.
pub(super) fn holders(cluster: &Cluster, node: &str) -> Result<Option<Vec<String>>> {
    let map = cluster.find(&document(node))?;
    Ok(map.map(|map| read(map["data"]["topology.yml"].as_str().unwrap_or_default())))
}

/// Waits until a node's document says that these pods have its GPUs.
pub(super) fn until_held(cluster: &Cluster, node: &str, pods: &[&str]) -> Result<()> {
    until(&format!("document of {node} with {pods:?}"), || {
        Ok(match holders(cluster, node)? {
            Some(held) if held == pods => Ok(()),
            seen => Err(format!("{seen:?}")),
        })
    })
}

fn read(document: &str) -> Vec<String> {
    let mut holders = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("- id:") {
            holders.push(String::new());
        } else if let Some(pod) = line.trim_start().strip_prefix("pod: ")
            && let Some(last) = holders.last_mut()
        {
            pod.trim_matches(|quote| quote == '"' || quote == '\'')
                .clone_into(last);
        }
    }
    holders
}

/// Takes back whatever controllers wrote.
pub(super) fn uninstall(program: &Path, kubeconfig: &Path) -> Result<()> {
    let mut command = Command::new(program);
    command
        .args(["controller", "--uninstall", "--namespace", NAMESPACE])
        .env("KUBECONFIG", kubeconfig);
    crate::shell::output(&mut command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_tells_who_has_which_gpu() {
        let text = "gpus:\n- id: GPU-a\n  status:\n    allocated-by:\n      namespace: n\n      pod: p\n      container: c\n- id: GPU-b\n";
        assert_eq!(read(text), ["p", ""]);
    }
}
