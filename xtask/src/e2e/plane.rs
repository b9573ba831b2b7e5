//! The control plane as plain processes on loopback: etcd, API server, controller manager and scheduler, with TLS, the Node authorizer
//! and RBAC, as a cluster has them.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::fetch::Programs;
use super::http;
use super::pki::Pki;
use super::process::Daemon;
use super::{NODE_IP, cluster::PROXY};

/// The API server, in its own network namespace.
pub(super) const API: &str = "127.0.0.1:6443";
/// The first address of the service range, which is the API server's.
pub(super) const SERVICE_IP: &str = "10.96.0.1";
const SERVICES: &str = "10.96.0.0/16";
const ETCD: &str = "127.0.0.1:2379";

/// Its programs; they end when it is dropped, in this order.
pub(super) struct Plane {
    _others: Vec<Daemon>,
    apiserver: Daemon,
    _etcd: Daemon,
    programs: Programs,
    pki: Pki,
    logs: PathBuf,
}

impl Plane {
    /// Starts all of it and waits until pods could be scheduled.
    pub(super) fn start(programs: &Programs, pki: &Pki, data: &Path, logs: &Path) -> Result<Plane> {
        let etcd = etcd(programs, data, logs)?;
        let mut apiserver = apiserver(programs, pki, logs)?;
        let mut proxy = programs.kube("kubectl");
        proxy.args(["proxy", "--address=127.0.0.1", "--kubeconfig"]);
        proxy.arg(pki.file("admin.kubeconfig"));
        let (_, port) = PROXY.split_once(':').context("the proxy's port")?;
        proxy.arg(format!("--port={port}"));
        let proxy = Daemon::start("kubectl-proxy", &mut proxy, logs)?;
        apiserver.ready(|| http::get(PROXY, "/readyz").is_ok())?;

        let mut manager = programs.kube("kube-controller-manager");
        manager.args(["--bind-address=127.0.0.1", "--leader-elect=false"]);
        manager.args([
            "--use-service-account-credentials=true",
            "--profiling=false",
        ]);
        // A node that says nothing for a while is a kubelet being restarted, not a lost node.
        manager.arg("--node-monitor-grace-period=120s");
        kubeconfig(&mut manager, pki, "controller-manager");
        file(&mut manager, pki, "root-ca-file", "ca.crt");
        file(
            &mut manager,
            pki,
            "service-account-private-key-file",
            "serviceaccount.key",
        );
        let mut manager = Daemon::start("kube-controller-manager", &mut manager, logs)?;
        let mut scheduler = programs.kube("kube-scheduler");
        scheduler.args(["--bind-address=127.0.0.1", "--leader-elect=false"]);
        scheduler.arg("--profiling=false");
        kubeconfig(&mut scheduler, pki, "scheduler");
        let scheduler = Daemon::start("kube-scheduler", &mut scheduler, logs)?;
        // Pods are refused until their service account is there.
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        manager.ready(|| http::get(PROXY, account).is_ok())?;
        Ok(Plane {
            _others: vec![scheduler, manager, proxy],
            apiserver,
            _etcd: etcd,
            programs: programs.clone(),
            pki: pki.clone(),
            logs: logs.to_path_buf(),
        })
    }

    /// Ends the API server as a crash would, and starts another.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.apiserver.kill()?;
        self.apiserver = apiserver(&self.programs, &self.pki, &self.logs)?;
        self.apiserver.ready(|| http::get(PROXY, "/readyz").is_ok())
    }

    /// Makes the API server say nothing until `speak`: whoever is connected stays so, as behind a network that loses everything.
    pub(super) fn hush(&self) -> Result<()> {
        self.apiserver.signal("STOP")
    }

    /// Lets the API server go on.
    pub(super) fn speak(&self) -> Result<()> {
        self.apiserver.signal("CONT")
    }
}

fn etcd(programs: &Programs, data: &Path, logs: &Path) -> Result<Daemon> {
    let peer = "http://127.0.0.1:2380";
    let mut command = Command::new(programs.usr("bin/etcd"));
    command.args(["--name=e2e", "--unsafe-no-fsync", "--log-level=warn"]);
    command.arg(format!("--data-dir={}", data.join("etcd").display()));
    command.arg(format!("--listen-client-urls=http://{ETCD}"));
    command.arg(format!("--advertise-client-urls=http://{ETCD}"));
    command.arg(format!("--listen-peer-urls={peer}"));
    command.arg(format!("--initial-advertise-peer-urls={peer}"));
    command.arg(format!("--initial-cluster=e2e={peer}"));
    let mut daemon = Daemon::start("etcd", &mut command, logs)?;
    daemon.ready(|| TcpStream::connect(ETCD).is_ok() && http::get(ETCD, "/health").is_ok())?;
    Ok(daemon)
}

fn apiserver(programs: &Programs, pki: &Pki, logs: &Path) -> Result<Daemon> {
    let mut command = programs.kube("kube-apiserver");
    command.arg(format!("--etcd-servers=http://{ETCD}"));
    let (address, port) = API.split_once(':').context("the API server's port")?;
    command.arg(format!("--bind-address={address}"));
    command.arg(format!("--secure-port={port}"));
    command.arg(format!("--advertise-address={NODE_IP}"));
    command.arg(format!("--service-cluster-ip-range={SERVICES}"));
    command.args([
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    ]);
    for (flag, name) in [
        ("tls-cert-file", "apiserver.crt"),
        ("tls-private-key-file", "apiserver.key"),
        ("client-ca-file", "ca.crt"),
        ("service-account-key-file", "serviceaccount.pub"),
        ("service-account-signing-key-file", "serviceaccount.key"),
        ("kubelet-certificate-authority", "ca.crt"),
        ("kubelet-client-certificate", "apiserver-client.crt"),
        ("kubelet-client-key", "apiserver-client.key"),
    ] {
        file(&mut command, pki, flag, name);
    }
    Daemon::start("kube-apiserver", &mut command, logs)
}

fn file(command: &mut Command, pki: &Pki, flag: &str, name: &str) {
    command.arg(format!("--{flag}={}", pki.file(name).display()));
}

fn kubeconfig(command: &mut Command, pki: &Pki, name: &str) {
    let name = format!("{name}.kubeconfig");
    for flag in [
        "kubeconfig",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
    ] {
        file(command, pki, flag, &name);
    }
}
