//! What the node has to give: its GPUs and MIG devices by resource, each perhaps several times over.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use mirage_k8s::deviceplugin::is_resource_name;
use mirage_model::plan::MigStrategy;
use mirage_state::Image;
use mirage_state::layout::{Instance, flags, text, vendors};

use super::settings::Sharing;

/// Resources of whole GPUs, by who made them.
const NVIDIA: &str = "nvidia.com/gpu";
const AMD: &str = "amd.com/gpu";
const INTEL: &str = "gpu.intel.com/i915";
/// All of them.
pub(super) const WHOLE: [&str; 3] = [NVIDIA, AMD, INTEL];
/// Longest file name of a socket: its whole path has 107 characters.
const LONGEST_SOCKET: usize = 60;
/// Most devices of one resource; the kubelet keeps every one in its checkpoint.
const MOST: usize = 4096;

/// A GPU or a MIG device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its UUID.
    pub(super) uuid: String,
    /// Its number: `0`, or `0:1` for a MIG device.
    pub(super) number: String,
    /// The GPU's index.
    pub(super) gpu: u32,
    /// Ids of GPU instance and compute instance.
    pub(super) instance: Option<(u32, u32)>,
    /// The NUMA node it is near to.
    pub(super) numa: Option<i64>,
}

/// A resource with its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// `nvidia.com/gpu`.
    pub(super) name: String,
    /// File name of its socket.
    pub(super) socket: String,
    /// What its devices are; empty for a resource that is only counted.
    pub(super) units: Vec<Unit>,
    /// Ids of its devices, and which unit each is (or is a share of).
    pub(super) ids: Vec<(String, Option<usize>)>,
    /// Several containers may have one unit.
    pub(super) shared: bool,
    /// Its units are NVIDIA's, and found by NVIDIA's names.
    pub(super) nvidia: bool,
}

impl Kind {
    /// The unit of a device.
    pub(super) fn unit(&self, id: &str) -> Option<&Unit> {
        let (_, at) = self.ids.iter().find(|(known, _)| known == id)?;
        self.units.get((*at)?)
    }

    /// Whether its units are MIG devices.
    pub(super) fn is_mig(&self) -> bool {
        self.units.iter().any(|unit| unit.instance.is_some())
    }
}

/// Everything there is, and what could not be offered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Inventory {
    pub(super) kinds: Vec<Kind>,
    /// Why something is missing.
    pub(super) trouble: Option<String>,
}

impl Inventory {
    /// A resource by name.
    pub(super) fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// Takes stock of a node.
pub(super) fn take(
    image: &Image,
    strategy: MigStrategy,
    sharing: &Sharing,
    extras: &[(String, u32)],
) -> Inventory {
    let mut stock = Stock::default();
    stock.gpus(image, strategy);
    let mut inventory = Inventory {
        trouble: stock.trouble,
        ..Inventory::default()
    };
    for (name, units) in stock.found {
        let kind = kind(name, units, sharing);
        match inventory.kind(&kind.name) {
            None => inventory.kinds.push(kind),
            // A rename that meets another resource.
            Some(_) => inventory.trouble = Some(format!("{} is there twice", kind.name)),
        }
    }
    for (name, count) in extras {
        let problem = if !is_resource_name(name) {
            "is no name of an extended resource; write domain/name"
        } else if inventory.kind(name).is_some() {
            "is there already; an extra resource needs a name of its own"
        } else {
            inventory.kinds.push(counted(name, *count));
            continue;
        };
        inventory.trouble = Some(format!("resource {name} {problem}"));
    }
    inventory
}

/// Units by resource, in the order found.
#[derive(Default)]
struct Stock {
    found: Vec<(String, Vec<Unit>)>,
    trouble: Option<String>,
}

impl Stock {
    fn add(&mut self, name: &str, unit: Unit) {
        match self.found.iter_mut().find(|(known, _)| known == name) {
            Some((_, units)) if units.iter().any(|known| known.uuid == unit.uuid) => {}
            Some((_, units)) => units.push(unit),
            None => self.found.push((name.to_owned(), vec![unit])),
        }
    }

    fn gpus(&mut self, image: &Image, strategy: MigStrategy) {
        let split = |gpu: u32| {
            let live = image.lives.get(gpu as usize);
            live.is_some_and(|live| live.flags & flags::MIG != 0)
        };
        let count = u32::try_from(image.cards.len()).unwrap_or(0);
        let any_split = (0..count).any(split);
        let strategy = match strategy {
            MigStrategy::Single if !any_split => MigStrategy::None,
            strategy => strategy,
        };
        if strategy == MigStrategy::Single {
            self.single(image, (0..count).map(|gpu| (gpu, split(gpu))));
            return;
        }
        for gpu in 0..count {
            if strategy == MigStrategy::None || !split(gpu) {
                self.add(name_of(image, gpu), whole(image, gpu));
                continue;
            }
            for instance in parts(image, gpu) {
                if let Some(profile) = profile(image, instance) {
                    let name = format!("nvidia.com/mig-{}", profile.replace('+', "."));
                    self.add(&name, part(image, instance));
                }
            }
        }
    }

    /// MIG devices as if they were GPUs: only if all are alike.
    fn single(&mut self, image: &Image, gpus: impl Iterator<Item = (u32, bool)>) {
        let mut profiles = BTreeSet::new();
        let mut units = Vec::new();
        for (gpu, split) in gpus {
            if !split {
                self.trouble = Some(format!(
                    "MIG strategy `single`: GPU {gpu} is not in MIG mode, others are; choose `mixed`, or make them alike"
                ));
                return;
            }
            let before = units.len();
            for instance in parts(image, gpu) {
                profiles.insert((instance.gpu_profile, instance.compute_profile));
                units.push(part(image, instance));
            }
            if units.len() == before {
                self.trouble = Some(format!(
                    "MIG strategy `single`: GPU {gpu} is in MIG mode and has no MIG devices; create some"
                ));
                return;
            }
        }
        if profiles.len() > 1 {
            self.trouble = Some(
                "MIG strategy `single`: MIG devices of several profiles; choose `mixed`, or make them alike"
                    .into(),
            );
            return;
        }
        for unit in units {
            self.add(NVIDIA, unit);
        }
    }
}

/// The resource of whole GPUs, by who made them.
fn name_of(image: &Image, gpu: u32) -> &'static str {
    let card = image.cards.get(gpu as usize);
    let board = card.and_then(|card| image.statics.boards.get(card.board as usize));
    match board.map_or(vendors::NVIDIA, |board| board.vendor) {
        vendors::AMD => AMD,
        vendors::INTEL => INTEL,
        _ => NVIDIA,
    }
}

fn whole(image: &Image, gpu: u32) -> Unit {
    Unit {
        uuid: image
            .cards
            .get(gpu as usize)
            .map_or("", |card| text(&card.uuid))
            .to_owned(),
        number: gpu.to_string(),
        gpu,
        instance: None,
        numa: numa(image, gpu),
    }
}

fn part(image: &Image, instance: &Instance) -> Unit {
    Unit {
        uuid: text(&instance.uuid).to_owned(),
        number: format!("{}:{}", instance.gpu, instance.index),
        gpu: instance.gpu,
        instance: Some((instance.gi, instance.ci)),
        numa: numa(image, instance.gpu),
    }
}

fn numa(image: &Image, gpu: u32) -> Option<i64> {
    let card = image.cards.get(gpu as usize)?;
    (card.numa >= 0).then_some(card.numa.into())
}

/// MIG devices of a GPU: instances that can compute.
fn parts(image: &Image, gpu: u32) -> impl Iterator<Item = &Instance> {
    let all = image.instances.iter();
    all.filter(move |instance| instance.gpu == gpu && instance.ci != u32::MAX)
}

/// The profile a MIG device is offered under; only one that fills its GPU instance is.
fn profile<'a>(image: &'a Image, instance: &Instance) -> Option<&'a str> {
    let of_gpu = image
        .statics
        .gpu_profiles
        .get(instance.gpu_profile as usize)?;
    let compute = image
        .statics
        .compute_profiles
        .get(instance.compute_profile as usize)?;
    (compute.slices == of_gpu.slices).then(|| text(&of_gpu.name))
}

/// A resource of units, shared if it shall be.
fn kind(name: String, units: Vec<Unit>, sharing: &Sharing) -> Kind {
    let nvidia = name.starts_with("nvidia.com/");
    let replicas = sharing.replicas(&name);
    let shared = replicas.is_some();
    let mut ids = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        match replicas {
            Some(count) => {
                let count = (count as usize).min(MOST / units.len().max(1));
                ids.extend((0..count).map(|n| (format!("{}::{n}", unit.uuid), Some(at))));
            }
            None => ids.push((unit.uuid.clone(), Some(at))),
        }
    }
    let name = sharing.name(&name);
    Kind {
        socket: socket(&name),
        name,
        units,
        ids,
        shared,
        nvidia,
    }
}

/// A resource that is only a number.
fn counted(name: &str, count: u32) -> Kind {
    let stem = name.rsplit('/').next().unwrap_or(name);
    let count = (count as usize).min(MOST);
    Kind {
        name: name.to_owned(),
        socket: socket(name),
        units: Vec::new(),
        ids: (0..count).map(|n| (short(stem, n), None)).collect(),
        shared: false,
        nvidia: false,
    }
}

/// An id that the kubelet takes.
fn short(stem: &str, n: usize) -> String {
    let stem: String = stem.chars().take(56).collect();
    format!("{stem}-{n}")
}

/// The socket of a resource, as NVIDIA calls it or like it.
pub(super) fn socket(resource: &str) -> String {
    let name = match resource.strip_prefix("nvidia.com/") {
        Some(stem) => format!("nvidia-{stem}"),
        None => resource.replace(['/', '.', '-'], "_"),
    };
    if name.len() <= LONGEST_SOCKET {
        return format!("{name}.sock");
    }
    let mut hash = DefaultHasher::new();
    resource.hash(&mut hash);
    let stem: String = name.chars().take(LONGEST_SOCKET - 17).collect();
    format!("{stem}-{:016x}.sock", hash.finish())
}

/// Whether a socket is that of some kind of MIG devices; which there were is not known afterwards.
pub(super) fn is_slice(socket: &str) -> bool {
    socket.starts_with("nvidia-mig-") && socket.ends_with(".sock")
}

#[cfg(test)]
mod tests;
