//! Topology documents, in any spelling, as values.
//!
//! Keys match without regard to case, `-` and `_`. Unknown keys are passed over, for other programs add some; a
//! known key with a value of the wrong kind is a problem that names its line.

use std::collections::BTreeMap;

use mirage_model::yaml::{self, Node as Yaml, Problem};

use super::{Cluster, Container, Gpu, Mig, Node, Other, Pool, Status, Usage};
use crate::{Error, Result};

/// Most GPUs of a node, and MIG devices of a GPU, that a document may list.
const MOST: usize = 1024;

/// Reads a cluster's document. Pools are read in fake-gpu-operator's old form.
pub fn read_cluster(text: &str, name: &str) -> Result<Cluster> {
    parse(text, name, |root, problems| {
        let root = ["cluster", "topology"]
            .iter()
            .find_map(|key| find(root, key).filter(|inner| find(inner, "nodepools").is_some()))
            .unwrap_or(root);
        let mut cluster = Cluster {
            mig_strategy: string(root, "migstrategy", problems).unwrap_or_default(),
            pool_label: string(root, "nodepoollabelkey", problems).unwrap_or_default(),
            ..Cluster::default()
        };
        for (name, body) in entries(root, "nodepools", problems) {
            cluster.pools.insert(name, pool(body, problems));
        }
        for (name, body) in entries(root, "nodes", problems) {
            cluster.nodes.insert(name, node(body, problems));
        }
        cluster
    })
}

/// Reads a node's document.
pub fn read_node(text: &str, name: &str) -> Result<Node> {
    parse(text, name, node)
}

type Problems = Vec<Problem>;

fn parse<T>(text: &str, name: &str, read: impl FnOnce(&Yaml, &mut Problems) -> T) -> Result<T> {
    let bad = |problems: Problems| Error::Topology {
        document: name.to_owned(),
        problem: problems
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    let root = yaml::parse(text).map_err(bad)?;
    let mut problems = Vec::new();
    if root.entries().is_none() {
        problems.push(Problem::new(root.span, "a topology is a mapping"));
    }
    let value = read(&root, &mut problems);
    if problems.is_empty() {
        Ok(value)
    } else {
        Err(bad(problems))
    }
}

fn pool(body: &Yaml, problems: &mut Problems) -> Pool {
    Pool {
        product: string(body, "gpuproduct", problems).unwrap_or_default(),
        count: number(body, "gpucount", problems).unwrap_or(0),
        memory_mib: number(body, "gpumemory", problems).unwrap_or(0).into(),
        others: others(body, problems),
    }
}

fn node(body: &Yaml, problems: &mut Problems) -> Node {
    let gpus = items(body, "gpus", problems).iter();
    Node {
        gpus: gpus.map(|item| gpu(item, problems)).collect(),
        memory_mib: number(body, "gpumemory", problems).unwrap_or(0).into(),
        product: string(body, "gpuproduct", problems).unwrap_or_default(),
        driver: string(body, "driverversion", problems),
        cuda: string(body, "cudaversion", problems),
        mig_strategy: string(body, "migstrategy", problems),
        dynamic_mig: flag(body, "isdynamicmigenabled", problems),
        others: others(body, problems),
    }
}

fn others(body: &Yaml, problems: &mut Problems) -> Vec<Other> {
    let devices = items(body, "otherdevices", problems).iter();
    let read = |device: &Yaml| Other {
        name: string(device, "name", problems).unwrap_or_default(),
        count: number(device, "count", problems).unwrap_or(0),
    };
    devices.map(read).collect()
}

fn gpu(body: &Yaml, problems: &mut Problems) -> Gpu {
    let mig = find(body, "migdevices").map(|_| {
        let instances = items(body, "migdevices", problems).iter();
        instances.map(|item| mig(item, problems)).collect()
    });
    Gpu {
        id: string(body, "id", problems).unwrap_or_default(),
        status: status(body, problems),
        mig,
    }
}

fn mig(body: &Yaml, problems: &mut Problems) -> Mig {
    Mig {
        id: string(body, "id", problems),
        name: string(body, "name", problems).unwrap_or_default(),
        position: number(body, "position", problems),
        status: status(body, problems),
    }
}

/// `status`, or `metrics` of the first design, which knows one container and no UID.
fn status(body: &Yaml, problems: &mut Problems) -> Status {
    if let Some(metrics) = find(body, "metrics") {
        let container = find(metrics, "metadata").and_then(|body| container(body, problems));
        let usage = usage(metrics, problems);
        return Status {
            allocated_by: container,
            usage: BTreeMap::from([(String::new(), usage)]),
        };
    }
    let Some(body) = find(body, "status") else {
        return Status::default();
    };
    let uses = entries(body, "podgpuusagestatus", problems);
    Status {
        allocated_by: find(body, "allocatedby").and_then(|body| container(body, problems)),
        usage: uses
            .into_iter()
            .map(|(uid, body)| (uid, usage(body, problems)))
            .collect(),
    }
}

/// A container, unless all its names are empty, which is how Go writes nobody.
fn container(body: &Yaml, problems: &mut Problems) -> Option<Container> {
    let mut part = |key| string(body, key, problems).unwrap_or_default();
    let container = Container {
        namespace: part("namespace"),
        pod: part("pod"),
        container: part("container"),
    };
    (container != Container::default()).then_some(container)
}

fn usage(body: &Yaml, problems: &mut Problems) -> Usage {
    let busy = find(body, "utilization");
    let (min, max) = match busy {
        Some(range) if range.scalar().is_none() => {
            let min = percent(range, "min", problems);
            (min, percent(range, "max", problems).max(min))
        }
        _ => {
            let value = percent(body, "utilization", problems);
            (value, value)
        }
    };
    Usage {
        min,
        max,
        memory_mib: number(body, "fbused", problems).unwrap_or(0).into(),
        inference: flag(body, "isinferencepod", problems)
            || flag(body, "useknativeutilization", problems),
    }
}

fn percent(body: &Yaml, key: &str, problems: &mut Problems) -> u32 {
    number(body, key, problems).unwrap_or(0).min(100)
}

fn find<'n>(body: &'n Yaml, key: &str) -> Option<&'n Yaml> {
    let same = |written: &str| {
        let letters = written
            .chars()
            .filter(|letter| !matches!(letter, '-' | '_'));
        letters
            .map(|letter| letter.to_ascii_lowercase())
            .eq(key.chars())
    };
    let entry = body
        .entries()?
        .iter()
        .find(|(written, _)| same(&written.text));
    entry
        .map(|(_, value)| value)
        .filter(|value| !value.is_null())
}

fn wrong(key: &str, value: &Yaml, wanted: &str, problems: &mut Problems) {
    if problems.is_empty() {
        let message = format!("`{key}` must be {wanted}, not {}", value.shape());
        problems.push(Problem::new(value.span, message));
    }
}

/// Text that is not empty.
fn string(body: &Yaml, key: &str, problems: &mut Problems) -> Option<String> {
    let value = find(body, key)?;
    match value.text() {
        Some(text) => Some(text.to_owned()).filter(|text| !text.is_empty()),
        None => {
            wrong(key, value, "text", problems);
            None
        }
    }
}

fn number(body: &Yaml, key: &str, problems: &mut Problems) -> Option<u32> {
    let value = find(body, key)?;
    // Quoted too: values out of templates often are.
    let text = value.text().unwrap_or_default();
    let number = value.u64().and_then(|number| u32::try_from(number).ok());
    let number = number.or_else(|| text.parse().ok());
    if number.is_none() {
        wrong(key, value, "a whole number", problems);
    }
    number
}

fn flag(body: &Yaml, key: &str, problems: &mut Problems) -> bool {
    let Some(value) = find(body, key) else {
        return false;
    };
    if value.bool().is_none() {
        wrong(key, value, "`true` or `false`", problems);
    }
    value.bool().unwrap_or(false)
}

fn items<'n>(body: &'n Yaml, key: &str, problems: &mut Problems) -> &'n [Yaml] {
    let Some(value) = find(body, key) else {
        return &[];
    };
    match value.items() {
        Some(items) if items.len() <= MOST => items,
        Some(_) => {
            problems.push(Problem::new(
                value.span,
                format!("`{key}` lists more than {MOST}"),
            ));
            &[]
        }
        None => {
            wrong(key, value, "a list", problems);
            &[]
        }
    }
}

fn entries<'n>(body: &'n Yaml, key: &str, problems: &mut Problems) -> Vec<(String, &'n Yaml)> {
    let Some(value) = find(body, key) else {
        return Vec::new();
    };
    match value.entries() {
        Some(entries) => entries
            .iter()
            .map(|(key, value)| (key.text.clone(), value))
            .collect(),
        None => {
            wrong(key, value, "a mapping", problems);
            Vec::new()
        }
    }
}
