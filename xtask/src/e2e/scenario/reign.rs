//! Controllers in hard times: the API server crashes or falls silent, and of two controllers the acting one freezes and comes back. Whatever
//! happened meanwhile, each GPU ends up with the pod that has it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::look::{attributed, only_gpu};
use super::{GPU, Stage};
use crate::e2e::cluster::{Cluster, PODS, Pod};
use crate::e2e::controller::{
    Controller, FIRST, NAMESPACE, SECOND, topology, uninstall, until_held,
};
use crate::e2e::process::until;

/// Nodes without a kubelet.
pub(super) const DOCUMENT: &str = "pools:\n  gpu: { model: t4, gpus: 4, virtual-nodes: 2 }\n";
pub(super) const NODE: &str = "gpu-0";
/// How long nothing is written by a controller that has nothing to write.
const CALM: Duration = Duration::from_secs(2);

/// A pod on a node without a kubelet.
pub(super) fn bind(cluster: &Cluster, name: &str, gpus: u32) -> Result<()> {
    let limits = json!({ GPU: gpus.to_string() });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "nodeName": NODE,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none", "resources": { "limits": limits } }],
        },
    });
    cluster.send("POST", PODS, "application/json", &pod)
}

/// The API server crashes, and another time says nothing for a while; node agent and controller catch up.
pub(super) fn server_away(stage: &mut Stage) -> Result<()> {
    topology(&stage.cluster, DOCUMENT)?;
    let controller = stage.controller(FIRST)?;
    let mirage = stage.mirage(&[])?;
    stage.cluster.allocatable(GPU, 8)?;
    bind(&stage.cluster, "before", 1)?;
    until_held(&stage.cluster, NODE, &["before", "", "", ""])?;

    stage.plane.restart()?;
    bind(&stage.cluster, "after", 2)?;
    until_held(&stage.cluster, NODE, &["before", "after", "after", ""])?;
    stage.cluster.run(&Pod::with("real", GPU, 1))?;
    let uuid = only_gpu(stage, "real", "main")?;
    attributed(&mirage, "real", "main", std::slice::from_ref(&uuid))?;

    stage.plane.hush()?;
    let noticed = until("trouble with a silent API server", || {
        let health = controller.health()?;
        Ok(if health.contains("lease: ") {
            Ok(())
        } else {
            Err(health)
        })
    });
    // What is known goes on being served meanwhile.
    let served = noticed.and_then(|()| controller.metrics(NODE));
    let named = attributed(&mirage, "real", "main", &[uuid]);
    stage.plane.speak()?;
    ensure!(
        served?.contains("DCGM_FI_DEV_GPU_UTIL"),
        "no metrics of {NODE}"
    );
    named?;
    stage.cluster.delete("before")?;
    stage.cluster.delete("real")?;
    bind(&stage.cluster, "late", 2)?;
    until_held(&stage.cluster, NODE, &["late", "after", "after", "late"])?;
    attributed(&mirage, "real", "main", &[])?;
    until("controller without trouble", || {
        let health = controller.health()?;
        Ok(if health.trim() == "OK" {
            Ok(())
        } else {
            Err(health)
        })
    })?;
    mirage.stop()?;
    end(stage, controller)
}

/// The acting controller freezes: the other takes over. It wakes, and does not undo what the other did.
pub(super) fn two_controllers(stage: &mut Stage) -> Result<()> {
    let cluster = &stage.cluster;
    topology(cluster, DOCUMENT)?;
    let first = stage.controller(FIRST)?;
    leads(cluster, FIRST.identity)?;
    let second = stage.controller(SECOND)?;
    bind(cluster, "a", 1)?;
    until_held(cluster, NODE, &["a", "", "", ""])?;
    ensure!(
        second.deeds()? == 0,
        "the second controller writes while the first acts"
    );

    let before = calm(&first)?;
    first.freeze()?;
    bind(cluster, "b", 1)?;
    leads(cluster, SECOND.identity)?;
    until_held(cluster, NODE, &["a", "b", "", ""])?;
    cluster.delete("a")?;
    until_held(cluster, NODE, &["", "b", "", ""])?;
    first.wake()?;
    bind(cluster, "c", 2)?;
    until_held(cluster, NODE, &["c", "b", "c", ""])?;
    // It sees all that, and does nothing of what it was about to do when it froze.
    until("sight of the second's deeds", || {
        let seen = first.topology(NODE)?;
        Ok(if seen.matches("\"c\"").count() == 2 {
            Ok(())
        } else {
            Err(seen)
        })
    })?;
    leads(cluster, SECOND.identity)?;
    let after = first.deeds()?;
    ensure!(
        after == before,
        "a controller that lost its lease wrote {} times",
        after - before
    );
    until_held(cluster, NODE, &["c", "b", "c", ""])?;

    // The second dies for good: the first acts again.
    second.kill()?;
    leads(cluster, FIRST.identity)?;
    cluster.delete("b")?;
    until_held(cluster, NODE, &["c", "", "c", ""])?;
    end(stage, first)
}

/// Waits until a controller has said what it has to say about its nodes; returns how often it wrote.
pub(super) fn calm(controller: &Controller) -> Result<u64> {
    let mut last = None;
    until("a controller with nothing to write", || {
        let now = controller.deeds()?;
        let is_calm = last
            .replace((now, Instant::now()))
            .is_some_and(|(before, since)| {
                if before == now {
                    last = Some((now, since));
                }
                before == now && since.elapsed() > CALM
            });
        Ok(if is_calm {
            Ok(now)
        } else {
            Err(format!("{now} writes"))
        })
    })
}

/// Waits until a controller holds the lease.
pub(super) fn leads(cluster: &Cluster, identity: &str) -> Result<()> {
    let lease =
        format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mirage-controller");
    until(&format!("lease of {identity}"), || {
        let lease = cluster.find(&lease)?.unwrap_or_default();
        Ok(if lease["spec"]["holderIdentity"] == identity {
            Ok(())
        } else {
            Err(lease["spec"].to_string())
        })
    })
}

/// Takes everything back.
pub(super) fn end(stage: &Stage, controller: Controller) -> Result<()> {
    stage.cluster.clear()?;
    controller.kill()?;
    uninstall(&stage.program, &stage.admin())
}
