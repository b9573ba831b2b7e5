//! The node: containerd and a real kubelet, both restartable, as they are on a machine that lives. There are two containerds, of which
//! one runs at a time: Debian's stable one, and one of the next generation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cluster::Cluster;
use super::fetch::Programs;
use super::image::IMAGE;
use super::pki::Pki;
use super::process::{Daemon, until};
use super::{NODE, NODE_IP, http};
use crate::shell;

const CONTAINERD: &str = include_str!("../../e2e/containerd.toml");
const CONTAINERD_2: &str = include_str!("../../e2e/containerd-2.toml");
const KUBELET: &str = include_str!("../../e2e/kubelet.yaml");
const NETWORK: &str = include_str!("../../e2e/network.conflist");
const SOCKET: &str = "/run/containerd/containerd.sock";
const HEALTH: &str = "127.0.0.1:10248";

/// A containerd, by the name of its settings and its log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    /// Debian's stable one.
    Usual,
    /// The next generation; NRI and CDI are on by default.
    Second,
}

impl Runtime {
    fn name(self) -> &'static str {
        match self {
            Runtime::Usual => "containerd",
            Runtime::Second => "containerd-2",
        }
    }

    /// How its versions begin in a node's status.
    fn version(self) -> &'static str {
        match self {
            Runtime::Usual => "containerd://1.",
            Runtime::Second => "containerd://2.",
        }
    }
}

/// containerd and kubelet, and what is needed to start them again.
pub(super) struct Node {
    runtime: Runtime,
    /// Where the programs of each containerd lie.
    usual: PathBuf,
    second: PathBuf,
    image: PathBuf,
    kubelet_program: PathBuf,
    kubeconfig: PathBuf,
    config: PathBuf,
    logs: PathBuf,
    containerd: Option<Daemon>,
    kubelet: Option<Daemon>,
}

impl Node {
    /// Writes the settings and starts containerd, with the image in it.
    pub(super) fn start(
        programs: &Programs,
        pki: &Pki,
        image: &Path,
        cgroup: &str,
        scratch: &Path,
        logs: &Path,
    ) -> Result<Node> {
        let config = scratch.join("config");
        fs::create_dir_all(config.join("cni")).context("making directories for settings")?;
        let shown = |path: &Path| path.display().to_string();
        let fill = |template: &str| {
            template
                .replace("@DATA@", &shown(scratch))
                .replace("@CONFIG@", &shown(&config))
                .replace("@DEBIAN@", &shown(&programs.debian))
                .replace("@PKI@", &shown(pki.as_ref()))
                .replace("@IMAGE@", IMAGE)
                .replace("@NODE_IP@", NODE_IP)
                .replace("@CGROUP@", cgroup)
        };
        for (name, template) in [
            ("containerd.toml", CONTAINERD),
            ("containerd-2.toml", CONTAINERD_2),
            ("kubelet.yaml", KUBELET),
            ("cni/10-e2e.conflist", NETWORK),
        ] {
            fs::write(config.join(name), fill(template))
                .with_context(|| format!("writing {name}"))?;
        }
        let mut node = Node {
            runtime: Runtime::Usual,
            usual: programs.usr("bin"),
            second: programs.containerd.clone(),
            image: image.to_path_buf(),
            kubelet_program: programs.kubernetes.join("kubelet"),
            kubeconfig: pki.file("kubelet.kubeconfig"),
            config,
            logs: logs.to_path_buf(),
            containerd: None,
            kubelet: None,
        };
        node.start_containerd()?;
        node.import(image)?;
        Ok(node)
    }

    /// Goes on with another containerd, which knows nothing of the first one's containers; there should be none.
    pub(super) fn use_runtime(&mut self, runtime: Runtime, cluster: &Cluster) -> Result<()> {
        if self.runtime == runtime {
            return Ok(());
        }
        self.stop_kubelet()?;
        self.stop_containerd()?;
        self.runtime = runtime;
        self.start_containerd()?;
        self.import(&self.image)?;
        self.start_kubelet()?;
        let version = runtime.version();
        until(&format!("node with {version}"), || {
            let node = cluster.node()?;
            let found = &node["status"]["nodeInfo"]["containerRuntimeVersion"];
            let is_it = found.as_str().is_some_and(|text| text.starts_with(version));
            Ok(if is_it {
                Ok(())
            } else {
                Err(found.to_string())
            })
        })?;
        self.ready(cluster)
    }

    fn program(&self, name: &str) -> PathBuf {
        match self.runtime {
            Runtime::Usual => self.usual.join(name),
            Runtime::Second => self.second.join(name),
        }
    }

    /// Puts the images of an archive into containerd.
    pub(super) fn import(&self, archive: &Path) -> Result<()> {
        let mut import = self.ctr();
        import
            .args(["-n", "k8s.io", "images", "import"])
            .arg(archive);
        shell::output(&mut import).map(drop)
    }

    fn ctr(&self) -> Command {
        let mut command = Command::new(self.program("ctr"));
        command.args(["--address", SOCKET]);
        command
    }

    /// Starts containerd and waits until it answers.
    pub(super) fn start_containerd(&mut self) -> Result<()> {
        let mut command = Command::new(self.program("containerd"));
        let name = self.runtime.name();
        let config = self.config.join(format!("{name}.toml"));
        let mut daemon = Daemon::start(name, command.arg("-c").arg(config), &self.logs)?;
        daemon.ready(|| {
            let version = self.ctr().arg("version").output();
            version.is_ok_and(|output| output.status.success())
        })?;
        self.containerd = Some(daemon);
        Ok(())
    }

    /// Starts the kubelet and waits until it is healthy.
    pub(super) fn start_kubelet(&mut self) -> Result<()> {
        let mut command = Command::new(&self.kubelet_program);
        command
            .arg(format!(
                "--config={}",
                self.config.join("kubelet.yaml").display()
            ))
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--hostname-override={NODE}"))
            .arg(format!("--node-ip={NODE_IP}"))
            .arg("--v=2");
        let mut daemon = Daemon::start("kubelet", &mut command, &self.logs)?;
        daemon.ready(|| http::get(HEALTH, "/healthz").is_ok())?;
        self.kubelet = Some(daemon);
        Ok(())
    }

    /// Ends the kubelet; its pods run on.
    pub(super) fn stop_kubelet(&mut self) -> Result<()> {
        let kubelet = self.kubelet.take().context("the kubelet does not run")?;
        kubelet.stop().map(drop)
    }

    /// Ends containerd; its containers run on.
    pub(super) fn stop_containerd(&mut self) -> Result<()> {
        let containerd = self.containerd.take().context("containerd does not run")?;
        containerd.stop().map(drop)
    }

    /// Starts what does not run.
    pub(super) fn complete(&mut self) -> Result<()> {
        if self.containerd.is_none() {
            self.start_containerd()?;
        }
        if self.kubelet.is_none() {
            self.start_kubelet()?;
        }
        Ok(())
    }

    /// Waits until the API server has the node as ready, and schedulable.
    pub(super) fn ready(&self, cluster: &Cluster) -> Result<()> {
        until("ready node", || {
            let Some(node) = cluster.find(&format!("/api/v1/nodes/{NODE}"))? else {
                return Ok(Err("no node".to_owned()));
            };
            let ready = node["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter()
                    .any(|one| one["type"] == "Ready" && one["status"] == "True")
            });
            let tainted = matches!(&node["spec"]["taints"], Value::Array(all) if !all.is_empty());
            Ok(if ready && !tainted {
                Ok(())
            } else {
                Err(format!("{} {}", node["status"]["conditions"], node["spec"]))
            })
        })
    }
}
