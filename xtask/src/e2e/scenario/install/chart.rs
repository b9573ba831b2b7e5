//! The chart as helm's users have it: installed, upgraded and uninstalled by helm itself.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{GPU, NODE, OURS, POOL, Stage, import, nothing_left, nvml, rolled_out, root, used};
use crate::e2e::process::until;

/// What stands in every namespace.
const USUAL: &[&str] = &["configmap/kube-root-ca.crt", "serviceaccount/default"];
/// What mirage could leave in its namespace.
const KINDS: &str = "pods,services,daemonsets,deployments,jobs,configmaps,secrets,serviceaccounts,leases,roles,rolebindings,networkpolicies";

/// Nodes of others are kept alive too, which leaves leases.
const KEEPS: &str = "--set=controller.options={--keep-kwok-nodes}";

/// Installed by helm, used, upgraded to fewer GPUs while one is in use, and uninstalled.
pub(in crate::e2e::scenario) fn helm(stage: &mut Stage) -> Result<()> {
    let names = &OURS;
    import(stage)?;
    let cluster = &stage.cluster;
    let chart = root().join("deploy/chart").display().to_string();
    helped(
        stage,
        &[
            "install",
            "mirage",
            &chart,
            "--create-namespace",
            "--wait",
            KEEPS,
        ],
    )?;
    let uuid = used(stage, names)?;

    // What there is to be changes, and nothing that runs: the agents follow their document.
    let before = cluster
        .find(&names.path(&names.set()))?
        .context("no agents")?;
    let topology = r#"topology={"pools":{"default":{"model":"a100-sxm4-40gb","gpus":4}}}"#;
    helped(
        stage,
        &[
            "upgrade",
            "mirage",
            &chart,
            "--wait",
            KEEPS,
            "--set-json",
            topology,
        ],
    )?;
    // The tenant's GPU may be one of those that go when it does.
    until("node with fewer GPUs", || {
        let (_, allocatable) = cluster.resource(GPU)?;
        Ok(match allocatable {
            4 | 5 => Ok(()),
            count => Err(format!("{count} of them")),
        })
    })?;
    let after = nvml(stage, "tenant", "main")?.gpus;
    ensure!(
        after == [uuid.as_str()],
        "the pod saw {uuid}, now {after:?}"
    );
    names.scraped(cluster, &uuid)?;
    cluster.delete("tenant")?;
    cluster.allocatable(GPU, 4)?;
    let set = cluster
        .find(&names.path(&names.set()))?
        .context("no agents")?;
    ensure!(
        rolled_out(&set) && set["metadata"]["generation"] == before["metadata"]["generation"],
        "another topology rolled the agents out again"
    );

    helped(stage, &["uninstall", "mirage", "--wait"])?;
    // The namespace is helm's user's; nothing but what every namespace has is in it.
    let namespace = names.namespace;
    until("end of everything in the namespace", || {
        let all = cluster.kubectl(&["get", KINDS, "-n", namespace, "-o", "name"])?;
        let left: Vec<&str> = all.lines().filter(|one| !USUAL.contains(one)).collect();
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(", "))
        })
    })?;
    cluster.kubectl(&["delete", "namespace", namespace])?;
    nothing_left(cluster, names)?;
    cluster.kubectl(&["label", "node", NODE, &format!("{POOL}-")])?;
    Ok(())
}

/// helm with these words, as the cluster's administrator, in mirage's namespace.
fn helped(stage: &Stage, words: &[&str]) -> Result<()> {
    let own = stage.scratch.join("helm");
    let output = Command::new(&stage.helm)
        .args(words)
        .args(["--namespace", OURS.namespace, "--timeout", "240s"])
        .arg("--kubeconfig")
        .arg(stage.admin())
        // Whatever the user keeps for helm is the user's.
        .env("HELM_CACHE_HOME", &own)
        .env("HELM_CONFIG_HOME", &own)
        .env("HELM_DATA_HOME", &own)
        .stdin(Stdio::null())
        .output()
        .context("starting helm")?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "helm {}: {}; {}",
            words.join(" "),
            why.trim(),
            OURS.troubles(&stage.cluster)?
        );
    }
    Ok(())
}
