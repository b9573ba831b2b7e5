//! `mirage controller` under load, against a real API server: what `cargo xtask bench cluster` measures. The API server's own counters
//! say how often was written, and mirage's own must say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, PODS, PROXY};
use super::controller::{Controller, FIRST, topology};
use super::http;

/// File in the scratch directory with the figures.
pub(super) const FIGURES: &str = "figures";
const NODES: usize = 1000;
const GPUS: usize = 8;
const PODS_IN_ALL: usize = 5000;
const MANY_NODES: usize = 10_000;
/// Requests at a time of those who make pods.
const THREADS: usize = 8;
/// How long nothing may be written until it counts as settled.
const QUIET: Duration = Duration::from_secs(3);
/// How long it is watched that nothing is written.
const STEADY: Duration = Duration::from_secs(30);
/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(1800);

/// Measures, and leaves the figures.
pub(super) fn run(
    program: &Path,
    kubeconfig: &Path,
    cluster: &Cluster,
    scratch: &Path,
) -> Result<()> {
    let mut figures = String::new();
    topology(cluster, &wanted(NODES, GPUS))?;
    let begin = Instant::now();
    let controller = Controller::start(FIRST, program, kubeconfig, scratch)?;
    wait("nodes that are ready", || ready(cluster, NODES))?;
    told(&mut figures, "cluster-nodes", begin.elapsed().as_secs_f64())?;

    // The control plane is long busy with new nodes; pods come when it is done with them.
    quiet(&controller)?;

    // Making pods takes longer than seeing to them, so they are made while nobody does.
    controller.kill()?;
    create_pods()?;
    let (begin, worked) = (Instant::now(), work()?);
    let controller = Controller::start(FIRST, program, kubeconfig, scratch)?;
    // Asking the server how far it is would keep it from its work.
    wait("pods that are told to run", || {
        Ok(controller.writes()?.get("pods").copied().unwrap_or(0) >= PODS_IN_ALL as u64)
    })?;
    wait("pods that run", no_pod_waits)?;
    tell_work(&worked, &controller.writes()?)?;
    let took = quiet(&controller)?.duration_since(begin).as_secs_f64();
    told(&mut figures, "cluster-events", PODS_IN_ALL as f64 / took)?;

    let (own, server) = (controller.deeds()?, served()?);
    std::thread::sleep(STEADY);
    let steady = (controller.deeds()? - own).max(served()? - server);
    told(&mut figures, "cluster-steady", steady as f64)?;

    let (own, server) = (controller.deeds()?, served()?);
    topology(cluster, &wanted(NODES, GPUS - 1))?;
    let fewer = (GPUS - 1).to_string();
    wait("nodes with fewer GPUs", || allocatable(cluster, &fewer))?;
    quiet(&controller)?;
    let (own, server) = (controller.deeds()? - own, served()? - server);
    // The edit itself is one that mirage did not write.
    ensure!(
        own + 1 >= server && server >= own,
        "mirage counts {own} writes, the API server {server}"
    );
    // Nor is what mirage keeps of the topology a write for a node.
    let each = server.saturating_sub(2) as f64 / NODES as f64;
    told(&mut figures, "cluster-change", each)?;

    topology(cluster, &wanted(MANY_NODES, GPUS))?;
    let last = format!("gpu-{}", MANY_NODES - 1);
    wait("topology of 10,000 nodes", || {
        Ok(controller.topology(&last).is_ok() && ready(cluster, MANY_NODES)?)
    })?;
    let memory = controller.memory()? as f64 / 1e6;
    told(&mut figures, "cluster-memory", memory)?;
    fs::write(scratch.join(FIGURES), figures).context("writing the figures")
}

fn told(figures: &mut String, key: &str, value: f64) -> Result<()> {
    eprintln!("xtask bench: {key}: {value:.2}");
    writeln!(figures, "{key}\t{value}")?;
    Ok(())
}

/// Seconds of a core that each program has had so far.
fn work() -> Result<BTreeMap<String, f64>> {
    /// What the kernel counts in, on every machine there is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let mut work = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("listing processes")? {
        let path = entry?.path();
        // A process may end while it is looked at.
        let read = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        let (name, stat) = (read("comm"), read("stat"));
        let tail = stat.rsplit_once(')').map_or("", |(_, tail)| tail);
        let ticks = tail.split_whitespace().skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
        *work.entry(name.trim().to_owned()).or_default() += ticks / TICKS_PER_SECOND;
    }
    Ok(work)
}

/// Says what was written since a controller began, and who worked for it.
fn tell_work(before: &BTreeMap<String, f64>, writes: &BTreeMap<String, u64>) -> Result<()> {
    let writes: Vec<String> = writes
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    let busy = work()?.into_iter().filter_map(|(name, now)| {
        let spent = now - before.get(&name).copied().unwrap_or_default();
        (spent >= 1.0).then(|| format!("{name} {spent:.0} s"))
    });
    let busy: Vec<String> = busy.collect();
    eprintln!(
        "xtask bench: writes: {}; work: {}",
        writes.join(", "),
        busy.join(", ")
    );
    Ok(())
}

fn wanted(nodes: usize, gpus: usize) -> String {
    format!("pools:\n  gpu: {{ model: h100-sxm5-80gb, gpus: {gpus}, virtual-nodes: {nodes} }}\n")
}

fn wait(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    loop {
        // A server under load may be slow to answer once.
        let seen = look();
        if matches!(seen, Ok(true)) {
            return Ok(());
        }
        if begin.elapsed() > LIMIT {
            seen?;
            bail!("no {what} within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Objects of a list, page by page.
fn each(cluster: &Cluster, path: &str, mut see: impl FnMut(&Value)) -> Result<()> {
    let mut token = String::new();
    loop {
        let list = cluster.find(&format!("{path}?limit=1000&continue={token}"))?;
        let list = list.with_context(|| format!("no list at {path}"))?;
        list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(&mut see);
        match list["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => return Ok(()),
        }
    }
}

fn ready(cluster: &Cluster, wanted: usize) -> Result<bool> {
    let mut count = 0;
    each(cluster, "/api/v1/nodes", |node| {
        let conditions = node["status"]["conditions"].as_array();
        let is = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        count += usize::from(conditions.is_some_and(|all| all.iter().any(is)));
    })?;
    Ok(count == wanted)
}

fn allocatable(cluster: &Cluster, wanted: &str) -> Result<bool> {
    let mut all = true;
    each(cluster, "/api/v1/nodes", |node| {
        all &= node["status"]["allocatable"]["nvidia.com/gpu"] == wanted;
    })?;
    Ok(all)
}

fn create_pods() -> Result<()> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= PODS_IN_ALL {
                    return Ok(());
                }
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("load-{number}") },
                    "spec": {
                        "nodeName": format!("gpu-{}", number % NODES),
                        "containers": [{ "name": "main", "image": "none", "resources": { "limits": { "nvidia.com/gpu": "1" } } }],
                    },
                });
                let body = pod.to_string();
                let sent = http::request(PROXY, "POST", PODS, Some(("application/json", &body)))?;
                ensure!(sent.status == 201, "making a pod: {}", sent.body);
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}

fn no_pod_waits() -> Result<bool> {
    let path = format!("{PODS}?limit=1&fieldSelector=status.phase%21%3DRunning");
    let list: Value = serde_json::from_str(&http::get(PROXY, &path)?)?;
    Ok(list["items"].as_array().is_some_and(Vec::is_empty))
}

/// Writes of anybody to what mirage writes, as the API server counts them.
fn served() -> Result<u64> {
    let text = http::get(PROXY, "/metrics")?;
    let mut sum = 0.0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("apiserver_request_total{") else {
            continue;
        };
        let (labels, value) = rest.rsplit_once("} ").context("a line of the server's")?;
        let is = |name: &str, words: &[&str]| {
            words
                .iter()
                .any(|word| labels.contains(&format!("{name}=\"{word}\"")))
        };
        let writes = [
            "POST",
            "PUT",
            "PATCH",
            "APPLY",
            "DELETE",
            "DELETECOLLECTION",
        ];
        if is("verb", &writes) && is("resource", &["nodes", "pods", "configmaps"]) {
            sum += value.parse::<f64>().context("a count of the server's")?;
        }
    }
    Ok(sum as u64)
}

/// Waits until nobody writes any more: mirage, nor the control plane, which has its own words about new nodes. Since when mirage does not.
fn quiet(controller: &Controller) -> Result<Instant> {
    let mut own = (controller.deeds()?, Instant::now());
    let mut all = (served()?, Instant::now());
    wait("end of writes", || {
        let now = (controller.deeds()?, served()?);
        if now.0 != own.0 {
            own = (now.0, Instant::now());
        }
        if now.1 != all.0 {
            all = (now.1, Instant::now());
        }
        Ok(own.1.elapsed() > QUIET && all.1.elapsed() > QUIET)
    })?;
    Ok(own.1)
}
