//! mirage as a cluster's user has it: an image in the container runtime and the plain manifests of `deploy/manifests`, which are what
//! the chart renders. Everything then runs in pods, with no rights but those the manifests give.

mod chart;
mod left;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::look::{BUSY, nvml, only_gpu};
use super::{GPU, Stage};
use crate::e2e::NODE;
use crate::e2e::cluster::{Cluster, PROXY, Pod};
use crate::e2e::http;
use crate::e2e::mirage::Sample;
use crate::e2e::process::until;
use crate::image::{self, Layer};
use crate::shell::root;
pub(super) use chart::helm;
use left::{kept_by_others, nothing_left};

/// What the manifests call things.
struct Names {
    manifest: &'static str,
    uninstall: &'static str,
    namespace: &'static str,
    agents: &'static str,
    controller: &'static str,
    topology: &'static str,
    /// What is there only to be found, and never runs.
    placeholders: &'static [&'static str],
    /// What a node's document calls the number of its GPUs' memory.
    memory: &'static str,
}

const OURS: Names = Names {
    manifest: "mirage.yaml",
    uninstall: "uninstall.yaml",
    namespace: "mirage",
    agents: "mirage-node",
    controller: "mirage-controller",
    topology: "mirage-topology",
    placeholders: &[],
    memory: "gpu-memory:",
};
const FAKE_GPU_OPERATOR: Names = Names {
    manifest: "fake-gpu-operator.yaml",
    uninstall: "uninstall-gpu-operator.yaml",
    namespace: "gpu-operator",
    agents: "nvidia-dcgm-exporter",
    controller: "status-updater",
    topology: "topology-server",
    placeholders: &["daemonsets/device-plugin", "deployments/gpu-operator"],
    memory: "gpuMemory:",
};
const GPU_OPERATOR: Names = Names {
    manifest: "gpu-operator.yaml",
    controller: "gpu-operator",
    placeholders: &["daemonsets/nvidia-device-plugin-daemonset"],
    memory: "gpu-memory:",
    ..FAKE_GPU_OPERATOR
};

const POOL: &str = "run.ai/simulated-gpu-node-pool";

/// Installed from the manifests, used, changed and taken back.
pub(super) fn install(stage: &mut Stage) -> Result<()> {
    let names = &OURS;
    import(stage)?;
    let cluster = &stage.cluster;
    let installed = manifest(names.manifest)?;
    apply(stage, "install.yaml", &installed)?;
    let uuid = used(stage, names)?;
    ensure_narrow(cluster, names)?;

    // Another option for the agents, and a pool of nodes without a kubelet.
    let (option, pool) = ("            - --listen=:9400\n", "    pools:\n");
    ensure!(
        installed.contains(option) && installed.contains(pool),
        "deploy/manifests/{} has changed; the scenario must follow",
        names.manifest
    );
    let virtual_pool = format!("{pool}      cloud: {{ model: l4, gpus: 4, virtual-nodes: 2 }}\n");
    let upgraded = installed
        .replacen(option, &format!("{option}            - --condition\n"), 1)
        .replacen(pool, &virtual_pool, 1);
    let everything = apply(stage, "upgrade.yaml", &upgraded)?;
    names.told(cluster, &names.set(), rolled_out)?;
    names.told(cluster, "nodes/cloud-1", ready)?;
    names.told(cluster, "configmaps/topology-cloud-1", |_| true)?;
    names.topology(cluster, "cloud-1")?;
    cluster.allocatable(GPU, 8)?;
    names.scraped(cluster, &uuid)?;
    let after = nvml(stage, "tenant", "main")?.gpus;
    ensure!(
        after == [uuid.as_str()],
        "the pod saw {uuid}, now {after:?}"
    );
    cluster.delete("tenant")?;

    // Out of its pool, a node is a plain one again; back in it, a GPU node.
    cluster.kubectl(&["label", "node", NODE, &format!("{POOL}-")])?;
    names.told(cluster, &format!("nodes/{NODE}"), |node| {
        mark(node).is_none()
    })?;
    cluster.kubectl(&["label", "node", NODE, &format!("{POOL}=default")])?;
    names.told(cluster, &names.set(), rolled_out)?;
    names.told(cluster, &format!("nodes/{NODE}"), labelled)?;
    cluster.allocatable(GPU, 8)?;
    taken_back(stage, names, &everything)
}

/// Under fake-gpu-operator's names: what looks for it finds it, and its documents are spelled as it spells them.
pub(super) fn as_fake_gpu_operator(stage: &mut Stage) -> Result<()> {
    under_other_names(stage, &FAKE_GPU_OPERATOR)
}

/// Under the GPU operator's names.
pub(super) fn as_gpu_operator(stage: &mut Stage) -> Result<()> {
    under_other_names(stage, &GPU_OPERATOR)
}

fn under_other_names(stage: &mut Stage, names: &Names) -> Result<()> {
    import(stage)?;
    let cluster = &stage.cluster;
    let text = manifest(names.manifest)?;
    apply(stage, "install.yaml", &text)?;
    used(stage, names)?;
    for placeholder in names.placeholders {
        names.told(cluster, placeholder, |_| true)?;
    }
    cluster.kubectl(&["get", "clusterpolicies.nvidia.com"])?;
    let runtimes = "/apis/node.k8s.io/v1/runtimeclasses/nvidia";
    ensure!(cluster.find(runtimes)?.is_some(), "no RuntimeClass nvidia");
    let deploy = |node: &Value| {
        let labels = &node["metadata"]["labels"];
        labels["nvidia.com/gpu.deploy.device-plugin"] == "true"
    };
    names.told(cluster, &format!("nodes/{NODE}"), deploy)?;
    let spelled = |map: &Value| {
        let text = map["data"]["topology.yml"].as_str();
        text.is_some_and(|text| text.contains(names.memory))
    };
    names.told(cluster, &format!("configmaps/topology-{NODE}"), spelled)?;
    cluster.delete("tenant")?;
    let everything = stage.scratch.join("install.yaml").display().to_string();
    taken_back(stage, names, &everything)
}

/// Puts the image where the container runtime finds it; it is made once.
fn import(stage: &mut Stage) -> Result<()> {
    let archive = match &stage.image {
        Some(archive) => archive.clone(),
        None => {
            let scratch = stage.scratch.join("mirage-image");
            let name = format!("{}:{}", image::NAME, image::TAG);
            image::make(&stage.program, &scratch, &name, Layer::Plain)?.archive
        }
    };
    stage.node.import(&archive)?;
    stage.image = Some(archive);
    Ok(())
}

/// Has a tenant use a GPU of what was installed, and somebody else's node be in a pool; returns which GPU.
fn used(stage: &Stage, names: &Names) -> Result<String> {
    let cluster = &stage.cluster;
    cluster.kubectl(&["label", "node", NODE, &format!("{POOL}=default")])?;
    names.told(cluster, &names.set(), rolled_out)?;
    let controller = format!("deployments/{}", names.controller);
    names.told(cluster, &controller, available)?;
    cluster.allocatable(GPU, 8)?;
    cluster.run(&Pod::with("tenant", GPU, 1))?;
    let uuid = only_gpu(stage, "tenant", "main")?;
    names.scraped(cluster, &uuid)?;
    names.told(cluster, &format!("nodes/{NODE}"), labelled)?;
    names.topology(cluster, NODE)?;
    kept_by_others(stage)?;
    Ok(uuid)
}

/// As docs/guide/install.md has it: the job first, then everything.
fn taken_back(stage: &Stage, names: &Names, everything: &str) -> Result<()> {
    let cluster = &stage.cluster;
    let uninstall = apply(stage, "uninstall.yaml", &manifest(names.uninstall)?)?;
    names.told(cluster, "jobs/mirage-uninstall", succeeded)?;
    // The job has deleted some of it already.
    let mut delete = vec!["delete", "--ignore-not-found"];
    delete.extend(["-f", &uninstall, "-f", everything]);
    cluster.kubectl(&delete)?;
    nothing_left(cluster, names)?;
    cluster.kubectl(&["label", "node", NODE, &format!("{POOL}-")])?;
    Ok(())
}

fn manifest(name: &str) -> Result<String> {
    let path = root().join("deploy/manifests").join(name);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// Applies a manifest and returns where it was written.
fn apply(stage: &Stage, name: &str, text: &str) -> Result<String> {
    let path = stage.file(name, text)?;
    stage.cluster.apply(Path::new(&path))?;
    Ok(path)
}

impl Names {
    /// The agents' set.
    fn set(&self) -> String {
        format!("daemonsets/{}", self.agents)
    }

    /// The path of an object in the API server, from `kind/name`.
    fn path(&self, object: &str) -> String {
        let namespace = self.namespace;
        let kind = object.split('/').next().unwrap_or_default();
        match kind {
            "nodes" => format!("/api/v1/{object}"),
            "configmaps" => format!("/api/v1/namespaces/{namespace}/{object}"),
            "jobs" => format!("/apis/batch/v1/namespaces/{namespace}/{object}"),
            _ => format!("/apis/apps/v1/namespaces/{namespace}/{object}"),
        }
    }

    /// Waits until an object is as wanted.
    fn told(&self, cluster: &Cluster, object: &str, wanted: impl Fn(&Value) -> bool) -> Result<()> {
        until(&format!("wanted state of {object}"), || {
            let Some(found) = cluster.find(&self.path(object))? else {
                return Ok(Err("it is not there".to_owned()));
            };
            Ok(if wanted(&found) {
                Ok(())
            } else {
                Err(format!("{} {}", found["status"], self.troubles(cluster)?))
            })
        })
    }

    /// What keeps mirage's pods from running.
    fn troubles(&self, cluster: &Cluster) -> Result<String> {
        let namespace = self.namespace;
        let pods = cluster.find(&format!("/api/v1/namespaces/{namespace}/pods"))?;
        let pods = pods.unwrap_or_default();
        let all = pods["items"].as_array().into_iter().flatten();
        let statuses = all.map(|pod| pod["status"]["containerStatuses"].to_string());
        Ok(statuses.collect::<Vec<_>>().join(" "))
    }

    /// A page of a service, asked for through the API server: it is answered by a pod that the service selects.
    fn page(&self, service: &str, path: &str) -> Result<String> {
        let namespace = self.namespace;
        http::get(
            PROXY,
            &format!("/api/v1/namespaces/{namespace}/services/{service}/proxy{path}"),
        )
    }

    /// Waits until the exporter's service shows the tenant busy on its GPU.
    fn scraped(&self, cluster: &Cluster, uuid: &str) -> Result<()> {
        until("busy GPU of the tenant behind the service", || {
            let text = self.page(&format!("{}:9400", self.agents), "/metrics")?;
            let lines = text.lines().filter(|line| line.starts_with(BUSY));
            let mut of = lines
                .filter_map(Sample::parse)
                .filter(|sample| sample.label("UUID") == uuid && sample.label("pod") == "tenant");
            Ok(match of.next() {
                Some(sample) if sample.value >= 95.0 => Ok(()),
                Some(sample) => Err(sample.to_string()),
                None => Err(format!("not there; {}", self.troubles(cluster)?)),
            })
        })
    }

    /// Waits until the topology's service knows a node.
    fn topology(&self, cluster: &Cluster, node: &str) -> Result<()> {
        until(&format!("topology of {node} behind the service"), || {
            let text = self.page(
                &format!("{}:80", self.topology),
                &format!("/topology/nodes/{node}"),
            );
            Ok(match text {
                Ok(text) if text.contains("\"Gpus\"") => Ok(()),
                Ok(text) => Err(text),
                Err(error) => Err(format!("{error:#}; {}", self.troubles(cluster)?)),
            })
        })
    }
}

fn rolled_out(set: &Value) -> bool {
    let status = &set["status"];
    status["observedGeneration"] == set["metadata"]["generation"]
        && status["updatedNumberScheduled"] == 1
        && status["numberReady"] == 1
        && status["desiredNumberScheduled"] == 1
}

fn available(deployment: &Value) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && status["updatedReplicas"] == 1
        && status["availableReplicas"] == 1
}

fn ready(node: &Value) -> bool {
    let all = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    all.into_iter()
        .any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn labelled(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    labels["nvidia.com/gpu.count"] == "8"
        && labels["nvidia.com/gpu.present"] == "true"
        && labels["run.ai/fake.gpu"] == "true"
}

/// A label that GPUs leave on a node.
fn mark(node: &Value) -> Option<&str> {
    let labels = node["metadata"]["labels"].as_object();
    let mut keys = labels.into_iter().flatten().map(|(key, _)| key.as_str());
    keys.find(|key| key.starts_with("nvidia.com/") || *key == "run.ai/fake.gpu")
}

fn succeeded(job: &Value) -> bool {
    job["status"]["succeeded"] == 1
}

/// The agents' account may not do more than it needs, and not to a node that it is not on.
fn ensure_narrow(cluster: &Cluster, names: &Names) -> Result<()> {
    let account = format!("--as=system:serviceaccount:{}:mirage-node", names.namespace);
    for (verb, what) in [
        ("delete", "nodes"),
        ("create", "nodes"),
        ("patch", "pods"),
        ("get", "secrets"),
        ("create", "pods"),
    ] {
        let asked = cluster.kubectl(&["auth", "can-i", verb, what, "-A", &account]);
        ensure!(asked.is_err(), "the node agent may {verb} {what}");
    }
    // That a question is refused does not mean that the account is; so one that is granted.
    cluster.kubectl(&["auth", "can-i", "list", "pods", "-A", &account])?;
    // Whoever has the account but not a token of a pod on that node.
    for words in [
        ["label", "node", NODE, "stolen=true"],
        ["label", "configmap", "topology", "stolen=true"],
    ] {
        let mut asked = words.to_vec();
        asked.extend(["-n", names.namespace, &account]);
        let Err(refused) = cluster.kubectl(&asked) else {
            bail!("the node agent's account may {words:?}");
        };
        let refused = format!("{refused:#}");
        ensure!(
            refused.contains("may only write to the node it runs on"),
            "{refused}"
        );
    }
    Ok(())
}
