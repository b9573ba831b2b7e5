//! The cluster as its users see it: objects of the API server, reached through `kubectl proxy`, and commands in containers, through
//! `kubectl exec`.

mod pod;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::fetch::Programs;
use super::process::until;
use super::{NODE, http};
pub(super) use pod::Pod;

/// Where `kubectl proxy` listens.
pub(super) const PROXY: &str = "127.0.0.1:8001";
/// The pods of the namespace that is played in.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster's administrator.
pub(super) struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// An administrator with this kubeconfig.
    pub(super) fn new(programs: &Programs, kubeconfig: PathBuf) -> Cluster {
        Cluster {
            kubectl: programs.kubernetes.join("kubectl"),
            kubeconfig,
        }
    }

    /// `kubectl` with these words; returns what it prints.
    pub(super) fn kubectl(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .context("starting kubectl")?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                words.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        String::from_utf8(output.stdout).context("what kubectl prints")
    }

    /// `kubectl apply` of a file.
    pub(super) fn apply(&self, file: &Path) -> Result<()> {
        let file = file.to_str().context("a path that is not UTF-8")?;
        self.kubectl(&["apply", "-f", file]).map(drop)
    }

    /// An object, if it is there.
    pub(super) fn find(&self, path: &str) -> Result<Option<Value>> {
        let answer = http::request(PROXY, "GET", path, None)?;
        match answer.status {
            200 => serde_json::from_str(&answer.body)
                .map(Some)
                .with_context(|| format!("reading {path}")),
            404 => Ok(None),
            status => bail!("GET {path}: {status} {}", answer.body),
        }
    }

    /// A request with a body.
    pub(super) fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<()> {
        let text = body.to_string();
        let answer = http::request(PROXY, method, path, Some((kind, &text)))?;
        if !(200..300).contains(&answer.status) {
            bail!("{method} {path}: {} {}", answer.status, answer.body);
        }
        Ok(())
    }

    /// The node object.
    pub(super) fn node(&self) -> Result<Value> {
        self.find(&format!("/api/v1/nodes/{NODE}"))?
            .context("the node is gone")
    }

    /// How many of a resource the node has and may give: capacity and allocatable.
    pub(super) fn resource(&self, name: &str) -> Result<(u64, u64)> {
        let node = self.node()?;
        let read = |of: &str| {
            let text = node["status"][of][name].as_str().unwrap_or("0");
            text.parse::<u64>()
                .with_context(|| format!("{of} of {name}: {text}"))
        };
        Ok((read("capacity")?, read("allocatable")?))
    }

    /// Waits until the node has no GPUs to give, under whatever name.
    pub(super) fn no_gpus(&self) -> Result<()> {
        until("node without GPUs", || {
            let node = self.node()?;
            let all = node["status"]["allocatable"].as_object();
            let left: Vec<String> = all
                .into_iter()
                .flatten()
                .filter(|(name, count)| name.starts_with("nvidia.com/") && *count != "0")
                .map(|(name, count)| format!("{name}: {count}"))
                .collect();
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            })
        })
    }

    /// Waits until the node may give so many of a resource.
    pub(super) fn allocatable(&self, name: &str, wanted: u64) -> Result<()> {
        until(&format!("allocatable {name} of {wanted}"), || {
            let (capacity, allocatable) = self.resource(name)?;
            Ok(if allocatable == wanted {
                Ok(())
            } else {
                Err(format!("{allocatable} of {capacity}"))
            })
        })
    }

    /// Creates a pod.
    pub(super) fn create(&self, pod: &Pod) -> Result<()> {
        self.send("POST", PODS, "application/json", &pod.json())
    }

    /// A pod, if it is there.
    pub(super) fn pod(&self, name: &str) -> Result<Option<Value>> {
        self.find(&format!("{PODS}/{name}"))
    }

    /// Changes a pod's annotations.
    pub(super) fn annotate(&self, name: &str, key: &str, value: &str) -> Result<()> {
        let patch = serde_json::json!({"metadata": {"annotations": {key: value}}});
        let kind = "application/merge-patch+json";
        self.send("PATCH", &format!("{PODS}/{name}"), kind, &patch)
    }

    /// Waits until a look at a pod is satisfied; `look` says what it sees otherwise.
    pub(super) fn until_pod<T>(
        &self,
        name: &str,
        what: &str,
        look: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        until(&format!("{what} of pod {name}"), || {
            let Some(pod) = self.pod(name)? else {
                return Ok(Err("no such pod".to_owned()));
            };
            Ok(look(&pod).ok_or_else(|| pod["status"].to_string()))
        })
    }

    /// Creates a pod and waits until all its containers run.
    pub(super) fn run(&self, pod: &Pod) -> Result<()> {
        self.create(pod)?;
        self.started(pod.name())
    }

    /// Waits until all containers of a pod run; a pod that the kubelet turned away never will.
    pub(super) fn started(&self, name: &str) -> Result<()> {
        let ended = self.until_pod(name, "ready containers", |pod| {
            if pod["status"]["phase"] == "Failed" {
                return Some(Some(pod["status"].to_string()));
            }
            let ready = pod["status"]["containerStatuses"].as_array()?;
            let all = ready.iter().all(|container| container["ready"] == true);
            (pod["status"]["phase"] == "Running" && all).then_some(None)
        })?;
        match ended {
            Some(status) => bail!("pod {name} ended: {status}"),
            None => Ok(()),
        }
    }

    /// Creates a pod, and again when the kubelet turned it away, as a controller would: the scheduler may think of the node as it was
    /// a moment ago.
    pub(super) fn run_stubbornly(&self, pod: &Pod) -> Result<()> {
        until(&format!("place for pod {}", pod.name()), || {
            let Err(refusal) = self.run(pod) else {
                return Ok(Ok(()));
            };
            self.delete(pod.name())?;
            Ok(Err(format!("{refusal:#}")))
        })
    }

    /// Deletes a pod and waits until it is gone.
    pub(super) fn delete(&self, name: &str) -> Result<()> {
        let path = format!("{PODS}/{name}");
        let answer = http::request(PROXY, "DELETE", &path, None)?;
        if answer.status != 200 && answer.status != 404 {
            bail!("DELETE {path}: {} {}", answer.status, answer.body);
        }
        until(&format!("end of pod {name}"), || {
            Ok(self
                .pod(name)?
                .map_or(Ok(()), |pod| Err(pod["status"].to_string())))
        })
    }

    /// Deletes every pod.
    pub(super) fn clear(&self) -> Result<()> {
        let pods = self.find(PODS)?.context("no list of pods")?;
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        for pod in items {
            if let Some(name) = pod["metadata"]["name"].as_str() {
                self.delete(name)?;
            }
        }
        Ok(())
    }

    /// Runs a command in a container and returns what it prints.
    pub(super) fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Result<String> {
        let mut words = vec!["exec", pod, "-c", container, "--"];
        words.extend(command);
        self.kubectl(&words)
    }

    /// Events about a pod: reason and message.
    pub(super) fn events(&self, pod: &str) -> Result<Vec<(String, String)>> {
        let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D";
        let list = self.find(&format!("{path}{pod}"))?.context("no events")?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        Ok(items
            .iter()
            .map(|event| (text(event, "reason"), text(event, "message")))
            .collect())
    }
}
