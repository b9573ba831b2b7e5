//! Controllers in a storm: cut off from the API server alone, back when it has forgotten what they saw last, and among others who write to
//! the same objects without end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Stage;
use super::reign::{DOCUMENT, NODE, bind, calm, end, leads};
use crate::e2e::cluster::{PODS, PROXY};
use crate::e2e::controller::{FIRST, NAMESPACE, SECOND, document, topology, until_held};
use crate::e2e::http;
use crate::e2e::process::until;

/// How often each rival writes at least.
const WRITES: u64 = 200;

/// The acting controller alone loses the API server: the other takes over, and the first undoes nothing when it is back.
pub(super) fn cut_off(stage: &mut Stage) -> Result<()> {
    let cluster = &stage.cluster;
    topology(cluster, DOCUMENT)?;
    let (first, gate) = stage.gated(FIRST)?;
    leads(cluster, FIRST.identity)?;
    let second = stage.controller(SECOND)?;
    bind(cluster, "a", 1)?;
    until_held(cluster, NODE, &["a", "", "", ""])?;
    let before = calm(&first)?;

    gate.shut();
    leads(cluster, SECOND.identity)?;
    bind(cluster, "b", 2)?;
    cluster.delete("a")?;
    until_held(cluster, NODE, &["", "b", "b", ""])?;
    gate.open();
    until("sight of the second's deeds", || {
        let seen = first.topology(NODE)?;
        Ok(if seen.matches("\"b\"").count() == 2 {
            Ok(())
        } else {
            Err(seen)
        })
    })?;
    // Cut off, it cannot know that another acts; now it does, and leaves the showing to it.
    until("silence of the first's metrics", || {
        Ok(match first.metrics(NODE) {
            Ok(text) if text.contains("DCGM_FI_DEV_GPU_UTIL") => Err("a page".to_owned()),
            _ => Ok(()),
        })
    })?;
    let after = first.deeds()?;
    ensure!(
        after == before,
        "a controller that was cut off wrote {} times",
        after - before
    );
    until_held(cluster, NODE, &["", "b", "b", ""])?;
    second.kill()?;
    end(stage, first)
}

/// Back from a long absence, a controller asks for what came after its last word. The API server has forgotten it (410 Gone), so all must
/// be looked at anew: what came, what went, and what was edited.
pub(super) fn forgotten(stage: &mut Stage) -> Result<()> {
    topology(&stage.cluster, DOCUMENT)?;
    let (controller, gate) = stage.gated(FIRST)?;
    for name in ["kept", "lost"] {
        bind(&stage.cluster, name, 1)?;
    }
    until_held(&stage.cluster, NODE, &["kept", "lost", "", ""])?;
    calm(&controller)?;
    let list = stage.cluster.find(PODS)?.context("no list of pods")?;
    let version = list["metadata"]["resourceVersion"].as_str();
    let version = version.context("a list without a version")?.to_owned();

    gate.shut();
    // Nobody lets the pod go, so by force; and what the controller wrote is lost too.
    for path in [
        format!("{PODS}/lost?gracePeriodSeconds=0"),
        document("gpu-1"),
    ] {
        http::request(PROXY, "DELETE", &path, None)?;
    }
    bind(&stage.cluster, "new", 2)?;
    topology(&stage.cluster, &DOCUMENT.replace("gpus: 4", "gpus: 3"))?;
    // A new API server remembers nothing of before.
    stage.plane.restart()?;
    let since = format!("{PODS}?watch=1&timeoutSeconds=5&resourceVersion={version}");
    let answer = http::request(PROXY, "GET", &since, None)?.body;
    ensure!(
        answer.contains("\"code\":410"),
        "the API server remembers {version}: {answer}"
    );
    gate.open();
    until_held(&stage.cluster, NODE, &["kept", "new", "new"])?;
    until_held(&stage.cluster, "gpu-1", &["", "", ""])?;
    end(stage, controller)
}

/// Others write to the same nodes, documents, pods and lease as fast as they can. All is as it should be in the end, the lease stays, and
/// what does not concern the controller makes it write nothing.
pub(super) fn rivals(stage: &mut Stage) -> Result<()> {
    let cluster = &stage.cluster;
    topology(cluster, DOCUMENT)?;
    let controller = stage.controller(FIRST)?;
    bind(cluster, "anchor", 1)?;
    until_held(cluster, NODE, &["anchor", "", "", ""])?;
    let before = calm(&controller)?;
    storm(None, || Ok(()))?;
    let after = calm(&controller)?;
    ensure!(
        after == before,
        "others' writes made the controller write {} times",
        after - before
    );

    // Pods come and go in the middle of it, and somebody overwrites the document.
    storm(Some("spoilt: true\n"), || {
        for round in 0..10 {
            let name = format!("guest-{round}");
            bind(cluster, &name, 3)?;
            until_held(cluster, NODE, &["anchor", &name, &name, &name])?;
            cluster.delete(&name)?;
        }
        Ok(())
    })?;
    until_held(cluster, NODE, &["anchor", "", "", ""])?;
    leads(cluster, FIRST.identity)?;
    let health = controller.health()?;
    ensure!(health.trim() == "OK", "{health}");
    end(stage, controller)
}

/// Has rivals write annotations to what the controller writes to, and `spoiler` over the node's document, until `meanwhile` is over
/// and each has written often.
fn storm(spoiler: Option<&str>, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    let is_over = AtomicBool::new(false);
    let lease =
        format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mirage-controller");
    let paths = [
        format!("/api/v1/nodes/{NODE}"),
        document(NODE),
        format!("{PODS}/anchor"),
        lease,
    ];
    let counts = [const { AtomicU64::new(0) }; 4];
    thread::scope(|scope| {
        let rivals: Vec<_> = paths
            .iter()
            .zip(&counts)
            .map(|(path, count)| {
                let is_over = &is_over;
                scope.spawn(move || rival(path, spoiler, count, is_over))
            })
            .collect();
        let done = meanwhile().and_then(|()| {
            until("storm", || {
                let least = counts.iter().map(|count| count.load(Ordering::Relaxed));
                let least = least.min().unwrap_or_default();
                let alive = rivals.iter().all(|rival| !rival.is_finished());
                Ok(if least >= WRITES || !alive {
                    Ok(())
                } else {
                    Err(format!("{least} writes"))
                })
            })
        });
        is_over.store(true, Ordering::Relaxed);
        for rival in rivals {
            let ended = rival.join();
            ended.map_err(|_| anyhow::anyhow!("a rival panicked"))??;
        }
        done
    })
}

fn rival(path: &str, spoiler: Option<&str>, count: &AtomicU64, is_over: &AtomicBool) -> Result<()> {
    let kind = "application/merge-patch+json";
    while !is_over.load(Ordering::Relaxed) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let mut patch = json!({ "metadata": { "annotations": { "rival": number.to_string() } } });
        let is_document = path.contains("/configmaps/");
        if let Some(text) = spoiler
            && is_document
            && number.is_multiple_of(50)
        {
            patch["data"] = json!({ "topology.yml": text });
        }
        let answer = http::request(PROXY, "PATCH", path, Some((kind, &patch.to_string())))?;
        ensure!(
            answer.status == 200,
            "PATCH {path}: {} {}",
            answer.status,
            answer.body
        );
    }
    Ok(())
}
