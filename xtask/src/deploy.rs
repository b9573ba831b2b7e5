//! `cargo xtask deploy`: the chart, rendered by a real helm into the plain manifests of `deploy/manifests`, linted, and asked for what
//! it must refuse. With `--check` nothing is written; a manifest that is not what the chart renders is an error.

pub(crate) mod helm;
mod values;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::root;

/// What is rendered: file, namespace, and words for helm more.
const RENDERED: &[(&str, &str, &[&str])] = &[
    (
        "mirage.yaml",
        "mirage",
        &["--no-hooks", "--set=namespace.create=true"],
    ),
    (
        "fake-gpu-operator.yaml",
        "gpu-operator",
        &[
            "--no-hooks",
            "--set=namespace.create=true,compat=fake-gpu-operator",
        ],
    ),
    (
        "gpu-operator.yaml",
        "gpu-operator",
        &[
            "--no-hooks",
            "--set=namespace.create=true,compat=gpu-operator",
        ],
    ),
    ("uninstall.yaml", "mirage", UNINSTALL),
    ("uninstall-gpu-operator.yaml", "gpu-operator", UNINSTALL),
];
const UNINSTALL: &[&str] = &["--show-only=templates/uninstall.yaml"];

/// The release manifests are rendered for; without a cluster to ask, helm must be told.
const KUBERNETES: &str = "--kube-version=1.34.0";

/// What must be refused, and what the refusal must name.
const REFUSED: &[(&str, &str)] = &[
    ("compat=nvidia-gpu-operator", "compat"),
    ("controller.replicas=-1", "replicas"),
    ("node.kubeletDir=var/lib/kubelet", "kubeletDir"),
    ("node.privileged=true", "privileged"),
    ("image.pullPolicy=Sometimes", "pullPolicy"),
    ("serviceMonitor.interval=often", "interval"),
    ("topology.pool=default", "pools"),
    ("topology.nodes.a=8", "nodes"),
    ("typo=1", "typo"),
];

/// Ways to render that must work together, beside those that are kept.
const ACCEPTED: &[&str] = &[
    "controller.replicas=2,serviceMonitor.enabled=true,networkPolicy.enabled=false",
    "node.nri=true,node.migManager=false,node.deviceNodes=false,node.admissionPolicy=false,uninstall.enabled=false",
    "compat=fake-gpu-operator,topology.nodePools.default.gpuCount=2,topology.nodePools.default.gpuProduct=Tesla-K80",
];

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; end with an error when a manifest is not what the chart renders
    #[arg(long)]
    check: bool,
}

/// Looks whether the manifests are what the chart renders.
pub(crate) fn check() -> Result<()> {
    run(&Args { check: true })
}

/// Renders, lints, and asks for what must be refused.
pub(crate) fn run(args: &Args) -> Result<()> {
    let helm = helm::prepare()?;
    let chart = root().join("deploy/chart");
    let (good, words) = ask(&helm, &["lint", "--strict"], &chart, &[])?;
    ensure!(good, "helm lint:\n{words}");
    for (file, namespace, more) in RENDERED {
        let namespace = format!("--namespace={namespace}");
        let mut options = vec![KUBERNETES, namespace.as_str()];
        options.extend(*more);
        let (good, text) = ask(&helm, &["template", "mirage"], &chart, &options)?;
        ensure!(good, "rendering {file}:\n{text}");
        keep(file, &text, args.check)?;
    }
    for values in ACCEPTED {
        let set = format!("--set={values}");
        let (good, text) = ask(&helm, &["template", "mirage"], &chart, &[KUBERNETES, &set])?;
        ensure!(good, "the chart refuses {values}:\n{text}");
    }
    for (values, named) in REFUSED {
        let set = format!("--set={values}");
        let (good, text) = ask(&helm, &["template", "mirage"], &chart, &[KUBERNETES, &set])?;
        ensure!(!good, "the chart takes {values}");
        ensure!(
            text.contains(named),
            "the refusal of {values} does not name {named}:\n{text}"
        );
    }
    let schema = chart.join("values.schema.json");
    let schema =
        fs::read_to_string(&schema).with_context(|| format!("reading {}", schema.display()))?;
    let settings = values::check(&schema, |setting| {
        let set = format!("--set={setting}");
        let (good, text) = ask(&helm, &["template", "mirage"], &chart, &[KUBERNETES, &set])?;
        ensure!(good, "the chart refuses {setting}:\n{text}");
        Ok(text)
    })?;
    println!(
        "{} manifests, {} sets of values taken, {} refused, {settings} settings that do something",
        RENDERED.len(),
        ACCEPTED.len(),
        REFUSED.len()
    );
    Ok(())
}

/// Runs helm on the chart: whether it ended well, and what it printed.
fn ask(helm: &Path, words: &[&str], chart: &Path, options: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(helm)
        .args(words)
        .arg(chart)
        .args(options)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .context("starting helm")?;
    let good = output.status.success();
    let mut text = String::from_utf8(output.stdout).context("what helm prints")?;
    if !good {
        text += &String::from_utf8_lossy(&output.stderr);
    }
    Ok((good, text))
}

/// Writes a manifest, or compares it with what is there.
fn keep(file: &str, text: &str, check: bool) -> Result<()> {
    let path = root().join("deploy/manifests").join(file);
    if !check {
        return fs::write(&path, text).with_context(|| format!("writing {}", path.display()));
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    if there != text {
        let line = there.lines().zip(text.lines()).position(|(a, b)| a != b);
        bail!(
            "deploy/manifests/{file} is not what the chart renders, from line {} on; run `cargo xtask deploy`",
            line.unwrap_or_else(|| there.lines().count()) + 1
        );
    }
    Ok(())
}
