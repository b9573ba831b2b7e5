//! Node labels as GPU Feature Discovery writes them.
//!
//! Which labels there are follows from the node's GPUs, the MIG strategy and how devices are shared:
//!
//! - every NVIDIA node has the versions, the machine, and what its whole GPUs are;
//! - strategy `single` puts what its MIG devices are in the place of the GPUs, if all are alike;
//! - strategy `mixed` adds `mig-<profile>.…` for each profile.
//!
//! Values are made fit for labels as GPU Feature Discovery does: letters that may not stand there go, blanks become hyphens.

mod mig;

use std::collections::BTreeMap;

use mirage_model::plan::MigStrategy;
use mirage_state::Image;
use mirage_state::layout::{Board, Card, flags, text, vendors};

use crate::cluster::node::Labels;

/// What comes before every label.
const PREFIX: &str = "nvidia.com/";
/// The resource whole GPUs are.
const GPU: &str = "nvidia.com/gpu";
/// Longest value of a label.
const LONGEST: usize = 63;
/// `nvmlGpuFabricState_t`: the node is part of a fabric.
const FABRIC_COMPLETED: u32 = 3;

/// The label that says when the labels were made.
pub const TIMESTAMP: &str = "nvidia.com/gfd.timestamp";

/// What the labels depend on beside the GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How MIG devices are offered.
    pub strategy: MigStrategy,
    /// How devices are shared.
    pub sharing: Sharing,
    /// The machine's name; empty if it has none.
    pub machine: String,
    /// When the labels were made, Unix seconds; `None` for no such label.
    pub timestamp: Option<u64>,
}

/// How devices are shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sharing {
    /// How often the devices of every resource are offered.
    pub every: Option<u32>,
    /// How often those of one resource are.
    pub by_name: Vec<(String, u32)>,
    /// Shared resources have another name.
    pub is_renamed: bool,
}

impl Sharing {
    fn replicas(&self, resource: &str) -> u32 {
        let named = self.by_name.iter().find(|(name, _)| name == resource);
        let replicas = named.map(|(_, replicas)| *replicas).or(self.every);
        replicas.unwrap_or(1).max(1)
    }
}

/// The labels of a node; none if it has no GPU of NVIDIA.
pub fn labels(image: &Image, options: &Options) -> Labels {
    let gpus = gpus(image);
    let mut labels = Labels::new();
    if gpus.is_empty() {
        return labels;
    }
    let mut put = |key: &str, value: String| {
        labels.insert(format!("{PREFIX}{key}"), value);
    };
    if let Some(timestamp) = options.timestamp {
        put("gfd.timestamp", timestamp.to_string());
    }
    let machine = sanitised(&options.machine);
    let machine = if machine.is_empty() {
        "unknown".to_owned()
    } else {
        machine
    };
    put("gpu.machine", machine);
    versions(image, &mut put);
    let capable = gpus.iter().any(|gpu| gpu.board.max_mig_instances > 0);
    put("mig.capable", capable.to_string());
    // Only sharing by MPS would make it so.
    put("mps.capable", "false".into());
    // These GPUs are the machine's own, not a virtual machine's part of one.
    put("vgpu.present", "false".into());
    // By the class of the PCI device: these are 3D controllers, without a display.
    put("gpu.mode", "compute".into());
    if let Some(clique) = clique(&gpus) {
        put("gpu.clique", clique);
    }
    whole(&gpus, options, &mut put);
    mig::labels(image, &gpus, options, &mut put);
    labels
}

/// A GPU of the node.
struct Gpu<'a> {
    index: u32,
    card: &'a Card,
    board: &'a Board,
    has_mig: bool,
}

fn gpus(image: &Image) -> Vec<Gpu<'_>> {
    let all = image.cards.iter().zip(&image.lives).enumerate();
    let gpus = all.filter_map(|(index, (card, live))| {
        let board = image.statics.boards.get(card.board as usize)?;
        Some(Gpu {
            index: index as u32,
            card,
            board,
            has_mig: live.flags & flags::MIG != 0,
        })
    });
    gpus.filter(|gpu| gpu.board.vendor == vendors::NVIDIA)
        .collect()
}

fn versions(image: &Image, put: &mut dyn FnMut(&str, String)) {
    let full = text(&image.header.driver);
    let mut parts = full.split('.');
    for (name, old) in [("major", "major"), ("minor", "minor"), ("revision", "rev")] {
        let part = sanitised(parts.next().unwrap_or(""));
        put(&format!("cuda.driver-version.{name}"), part.clone());
        put(&format!("cuda.driver.{old}"), part);
    }
    put("cuda.driver-version.full", sanitised(full));
    let cuda = image.header.cuda_version;
    let (major, minor) = (cuda / 1000, cuda % 1000 / 10);
    for (name, part) in [("major", major), ("minor", minor)] {
        put(&format!("cuda.runtime-version.{name}"), part.to_string());
        put(&format!("cuda.runtime.{name}"), part.to_string());
    }
    put("cuda.runtime-version.full", format!("{major}.{minor}"));
}

/// The part of a fabric that all GPUs are in.
fn clique(gpus: &[Gpu<'_>]) -> Option<String> {
    let of = |gpu: &Gpu<'_>| {
        let is_in = gpu.card.fabric_state == FABRIC_COMPLETED && gpu.card.cluster != [0; 16];
        is_in.then_some((gpu.card.cluster, gpu.card.clique))
    };
    let first = of(gpus.first()?)?;
    let (cluster, clique) = gpus
        .iter()
        .all(|gpu| of(gpu) == Some(first))
        .then_some(first)?;
    let hex: String = cluster.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    Some(format!("{a}-{b}-{c}-{d}-{e}.{clique}"))
}

/// What the whole GPUs are. Of several models the last one shows, as it does there.
fn whole(gpus: &[Gpu<'_>], options: &Options, put: &mut dyn FnMut(&str, String)) {
    let mut models: BTreeMap<u32, Vec<&Gpu<'_>>> = BTreeMap::new();
    for gpu in gpus {
        models.entry(gpu.card.board).or_default().push(gpu);
    }
    for alike in models.values() {
        let Some(gpu) = alike.last() else { continue };
        let all_mig = alike.iter().all(|gpu| gpu.has_mig);
        let shared = Shared::of(&options.sharing, GPU, all_mig);
        put("gpu.product", shared.product(&[product(gpu.board)]));
        put("gpu.count", alike.len().to_string());
        put("gpu.replicas", shared.replicas.to_string());
        put("gpu.sharing-strategy", shared.strategy().into());
        put("gpu.memory", (gpu.card.memory_total >> 20).to_string());
        let (major, minor) = (gpu.board.cc_major, gpu.board.cc_minor);
        put("gpu.family", family(major, minor).into());
        put("gpu.compute.major", major.to_string());
        put("gpu.compute.minor", minor.to_string());
    }
}

/// A model by name.
fn product(board: &Board) -> &str {
    text(&board.product)
}

fn family(major: u32, minor: u32) -> &'static str {
    match (major, minor) {
        (1, _) => "tesla",
        (2, _) => "fermi",
        (3, _) => "kepler",
        (5, _) => "maxwell",
        (6, _) => "pascal",
        (7, 0..5) => "volta",
        (7, _) => "turing",
        (8, 0..9) => "ampere",
        (8, _) => "ada-lovelace",
        (9, _) => "hopper",
        (10..=12, _) => "blackwell",
        _ => "undefined",
    }
}

/// How the devices of a resource are shared.
struct Shared {
    replicas: u32,
    is_shown: bool,
}

impl Shared {
    fn of(sharing: &Sharing, resource: &str, is_unavailable: bool) -> Shared {
        let replicas = sharing.replicas(resource);
        if is_unavailable {
            return Shared {
                replicas: 0,
                is_shown: false,
            };
        }
        Shared {
            replicas,
            is_shown: replicas > 1 && !sharing.is_renamed,
        }
    }

    fn strategy(&self) -> &'static str {
        if self.replicas > 1 {
            "time-slicing"
        } else {
            "none"
        }
    }

    /// The product's name; one that is shared under its own name says so.
    fn product(&self, parts: &[&str]) -> String {
        let mut name = parts.join("-");
        if self.is_shown {
            name.push_str("-SHARED");
        }
        sanitised(&name)
    }
}

/// Text as it may stand in a label.
fn sanitised(text: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    let kept: String = text.chars().filter(fits).collect();
    let words: Vec<&str> = kept.split_whitespace().collect();
    let mut value = words.join("-");
    value.truncate(LONGEST);
    value
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

#[cfg(test)]
mod tests;
