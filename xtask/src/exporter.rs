//! `cargo xtask exporter`: what Prometheus makes of our pages. Every identity passes `promtool`; a real Prometheus
//! discovers and scrapes 200 nodes, and the questions of the usual dashboards are answered without a failed
//! scrape, a gap or a duplicate.

pub(crate) mod programs;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::programs::{Scratch, Server, get, query};
use crate::shell::{self, cargo, root, target};

/// Nodes that answer with GPUs of NVIDIA, and all of them.
const NODES: usize = 200;
/// Times every target has to be scraped before we ask.
const SCRAPES: f64 = 5.0;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs all of it.
pub(crate) fn run() -> Result<()> {
    shell::ensure(&["promtool", "prometheus"], "prometheus")?;
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    lint()?;
    let scratch = Scratch::new("exporter")?;
    scrape(&scratch)
}

fn mirage() -> Command {
    let mut command = Command::new(target().join("release/mirage"));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// `promtool check metrics` on a page of every identity.
fn lint() -> Result<()> {
    let names = identities()?;
    for name in &names {
        let page = shell::output(mirage().args([
            "simulate",
            "--config",
            "xtask/exporter/fleet.yaml",
            "--for",
            "30s",
            "--print",
            "metrics",
            "--identity",
            name,
        ]))?;
        if page.lines().all(|line| line.starts_with('#')) {
            bail!("identity {name} shows nothing of xtask/exporter/fleet.yaml");
        }
        check(name, &page)?;
    }
    eprintln!("xtask exporter: promtool reads {} identities", names.len());
    Ok(())
}

/// The identities there are: an unknown name lists them.
fn identities() -> Result<Vec<String>> {
    let output = mirage()
        .args(["simulate", "--for", "1s", "--identity", "?"])
        .output()
        .context("starting mirage simulate")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let names = said
        .split_once("there are: ")
        .context("mirage did not list its identities")?
        .1;
    Ok(names.trim().split(", ").map(str::to_owned).collect())
}

fn check(name: &str, page: &str) -> Result<()> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting promtool")?;
    let mut stdin = child.stdin.take().context("promtool's input")?;
    let text = page.to_owned();
    // Fed from a thread of its own: promtool may talk before it has read everything.
    let feeding = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().context("waiting for promtool")?;
    let fed = feeding.join().ok().context("feeding promtool")?;
    // 3 is for habits of the originals that promtool dislikes, such as counters without _total.
    if !matches!(output.status.code(), Some(0 | 3)) {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("promtool check metrics refuses identity {name}: {said}");
    }
    fed.context("feeding promtool")
}

/// A real Prometheus over 200 nodes.
fn scrape(scratch: &Scratch) -> Result<()> {
    let up = Server::mirage(
        mirage()
            .args(["up", "--listen", "127.0.0.1:0"])
            .args(["--config", "xtask/exporter/fleet.yaml", "--state-dir"])
            .arg(scratch.path().join("state")),
    )?;
    let config = scratch.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 5s\n  scrape_timeout: 5s\nscrape_configs:\n  \
         - job_name: mirage\n    http_sd_configs:\n      - url: http://{}/sd\n        \
         refresh_interval: 5s\n",
        up.address
    );
    fs::write(&config, text).context("writing prometheus.yml")?;
    let prometheus = Server::prometheus(&config, &scratch.path().join("data"))?;
    // It listens before it answers.
    wait("Prometheus to be ready", || {
        Ok(get(&prometheus.address, "/-/ready").is_ok())
    })?;
    let begin = Instant::now();
    wait("every node to be scraped often enough", || {
        let all = value(&prometheus, "count(up)")? == Some(NODES as f64);
        let least = value(&prometheus, "min(count_over_time(up[10m]))")?;
        Ok(all && least.is_some_and(|least| least >= SCRAPES))
    })?;
    eprintln!(
        "xtask exporter: {NODES} nodes scraped {SCRAPES} times each in {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    sound(&prometheus)?;
    let asked = ask(&prometheus, &root().join("xtask/exporter/queries.txt"))?;
    eprintln!("xtask exporter: {asked} questions of dashboards answered");
    Ok(())
}

/// No failed scrape, no gap, nothing Prometheus had to drop.
fn sound(prometheus: &Server) -> Result<()> {
    if let Some(failed) = value(prometheus, "count(min_over_time(up[10m]) < 1)")? {
        bail!("{failed} nodes had a failed scrape");
    }
    let temperature = "count_over_time(DCGM_FI_DEV_GPU_TEMP[10m])";
    // One scrape may lie between the two counts.
    let gaps =
        format!("count({temperature} < on(instance) group_left() count_over_time(up[10m]) - 1)");
    if let Some(gaps) = value(prometheus, &gaps)? {
        bail!("{gaps} series have gaps");
    }
    let own = get(&prometheus.address, "/metrics")?;
    for name in [
        "prometheus_target_scrapes_sample_duplicate_timestamp_total",
        "prometheus_target_scrapes_sample_out_of_order_total",
        "prometheus_target_scrapes_sample_out_of_bounds_total",
        "prometheus_sd_http_failures_total",
    ] {
        let line = own.lines().find(|line| line.starts_with(name));
        let count = line.and_then(|line| line.rsplit(' ').next());
        if count != Some("0") {
            bail!("Prometheus counts {name} {count:?}");
        }
    }
    Ok(())
}

/// Asks what dashboards ask; returns how many questions that were.
fn ask(prometheus: &Server, path: &Path) -> Result<usize> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    let mut asked = 0;
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (least, question) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("{}: {line:?} has no question", path.display()))?;
        let least: usize = least
            .parse()
            .with_context(|| format!("{}: {line:?}", path.display()))?;
        let series = query(prometheus, question.trim())?.len();
        if series < least {
            bail!("{series} series answer {question:?}, and at least {least} should");
        }
        asked += 1;
    }
    Ok(asked)
}

/// The one number that answers a question; `None` if nothing does.
fn value(prometheus: &Server, question: &str) -> Result<Option<f64>> {
    let answer = query(prometheus, question)?;
    let Some(first) = answer.first() else {
        return Ok(None);
    };
    let number = first["value"][1].as_str().map(str::parse);
    Ok(Some(number.context("an answer without a value")??))
}

fn wait(what: &str, mut look: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !look()? {
        if begin.elapsed() > PATIENCE {
            bail!("waited {PATIENCE:?} in vain for {what}");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}
