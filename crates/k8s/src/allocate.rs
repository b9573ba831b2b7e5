//! Which device each container has, on nodes where no kubelet decides it.
//!
//! One function of what is true now: devices, pods, and who held what. Nothing depends on which events were
//! seen or missed, so a pod that ended while nobody watched, a restart, or the same event twice lead to the same place.
//! What a living pod holds it keeps; what is free goes to the pods in the order they came, lowest device first, and a pod gets
//! all it asks for or nothing.

mod fill;
mod held;
#[cfg(test)]
mod tests;

pub use fill::{Slot, fill, recall, slots};
pub use held::{HELD, held, note};

use std::collections::{BTreeMap, BTreeSet};

/// The resource of whole GPUs.
pub const GPU: &str = "nvidia.com/gpu";
/// What names of MIG resources begin with.
pub const MIG: &str = "nvidia.com/mig-";

/// A pod bound to the node, as far as devices matter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pod {
    /// UID: a pod made again under its old name is another pod.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// When it came, in seconds of any clock.
    pub since: i64,
    /// It has succeeded or failed, and holds nothing.
    pub ended: bool,
    /// What its containers hold.
    pub demands: Vec<Demand>,
    /// The MIG device its scheduler chose for it.
    pub pin: Option<Place>,
    /// Devices by container that it held, as it says itself.
    pub held: Vec<(Place, String)>,
    /// It holds its GPU for the others of its group and does nothing itself.
    pub reserves: bool,
    /// Pods of one group share the GPU that one of them reserves.
    pub group: Option<String>,
    /// What it does with a GPU that it shares and does not hold.
    pub share: Load,
}

/// Devices of one container.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// Its name.
    pub container: String,
    /// Which devices.
    pub resource: String,
    /// How many.
    pub count: u32,
    /// How busy it makes each of them.
    pub load: Load,
}

/// How busy a container makes each of its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Whether it runs; others hold their devices and leave them idle.
    pub running: bool,
    /// Least busy share, percent.
    pub min: u32,
    /// Largest busy share, percent.
    pub max: u32,
    /// Share of the memory, 0 to 1.
    pub fraction: f64,
    /// Busy as requests come in.
    pub inference: bool,
}

impl Default for Load {
    /// All of it, all the time.
    fn default() -> Self {
        Self {
            running: true,
            min: 100,
            max: 100,
            fraction: 1.0,
            inference: false,
        }
    }
}

/// A device of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Index of the GPU.
    pub gpu: u32,
    /// First memory slice of a MIG device.
    pub start: Option<u32>,
}

/// Who holds a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// UID of the pod.
    pub uid: String,
    /// Its container.
    pub container: String,
}

/// Who holds what on a node.
pub type Ledger = BTreeMap<Place, Hold>;

/// What a pod cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// As many devices of a resource as it asks for.
    Resource(String),
    /// The MIG device that its scheduler chose.
    Device(Place),
}

/// What follows from the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocation {
    /// Who holds what. Devices that are gone stay in it while a living pod holds them.
    pub ledger: Ledger,
    /// UIDs of pods that cannot have what they ask for.
    pub refused: Vec<(String, Lack)>,
}

/// Decides who holds what.
pub fn allocate(slots: &[Slot], before: &Ledger, pods: &[Pod]) -> Allocation {
    let mut order: Vec<&Pod> = pods.iter().filter(|pod| !pod.ended).collect();
    order.sort_by(|a, b| {
        let key = |pod: &'_ Pod| {
            (
                pod.since,
                pod.namespace.clone(),
                pod.name.clone(),
                pod.uid.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    let mut allocation = Allocation {
        ledger: kept(before, &order, slots),
        refused: Vec::new(),
    };
    let mut free: BTreeMap<&str, BTreeSet<Place>> = BTreeMap::new();
    for slot in slots {
        if !allocation.ledger.contains_key(&slot.place) {
            free.entry(&slot.resource).or_default().insert(slot.place);
        }
    }
    for pod in order {
        let held = |container: &str, resource: &str, ledger: &Ledger| {
            let mine = |(place, hold): &(&Place, &Hold)| {
                hold.uid == pod.uid
                    && hold.container == container
                    && is_of(**place, resource, slots)
            };
            ledger.iter().filter(mine).count()
        };
        if let Some(pin) = pod.pin {
            let container = pod.demands.first().map_or("", |demand| &demand.container);
            let mine = |hold: &Hold| hold.uid == pod.uid;
            if allocation.ledger.get(&pin).is_some_and(mine) {
                continue;
            }
            let resource = free.iter_mut().find(|(_, places)| places.contains(&pin));
            match resource {
                Some((_, places)) => {
                    places.remove(&pin);
                    allocation.ledger.insert(pin, Hold::new(pod, container));
                }
                None => allocation
                    .refused
                    .push((pod.uid.clone(), Lack::Device(pin))),
            }
            continue;
        }
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        let mut wanted = Vec::new();
        for demand in &pod.demands {
            let has = held(&demand.container, &demand.resource, &allocation.ledger);
            let lacks = (demand.count as usize).saturating_sub(has);
            *missing.entry(&demand.resource).or_default() += lacks;
            wanted.push((demand, lacks));
        }
        let rest = |resource: &str| free.get(resource).map_or(0, BTreeSet::len);
        if let Some((resource, _)) = missing
            .iter()
            .find(|&(resource, lacks)| *lacks > rest(resource))
        {
            allocation
                .refused
                .push((pod.uid.clone(), Lack::Resource((*resource).to_owned())));
            continue;
        }
        for (demand, lacks) in wanted {
            for _ in 0..lacks {
                let places = free.get_mut(&*demand.resource);
                // There are enough: they were counted above.
                if let Some(place) = places.and_then(BTreeSet::pop_first) {
                    let hold = Hold::new(pod, &demand.container);
                    allocation.ledger.insert(place, hold);
                }
            }
        }
    }
    allocation
}

impl Hold {
    fn new(pod: &Pod, container: &str) -> Self {
        Self {
            uid: pod.uid.clone(),
            container: container.to_owned(),
        }
    }
}

/// Whether a place holds devices of a resource. One that is gone is of whatever its holder asked for.
fn is_of(place: Place, resource: &str, slots: &[Slot]) -> bool {
    let slot = slots.iter().find(|slot| slot.place == place);
    match slot {
        Some(slot) => slot.resource == resource,
        None => resource == GPU || place.start.is_some(),
    }
}

/// Of what was held, what pods that live still ask for.
fn kept(before: &Ledger, pods: &[&Pod], slots: &[Slot]) -> Ledger {
    let mut counted: BTreeMap<(&str, &str, &str), u32> = BTreeMap::new();
    let mut ledger = Ledger::new();
    for (place, hold) in before {
        let Some(pod) = pods.iter().find(|pod| pod.uid == hold.uid) else {
            continue;
        };
        if let Some(pin) = pod.pin {
            if pin == *place {
                ledger.insert(*place, hold.clone());
            }
            continue;
        }
        let of = |demand: &&Demand| {
            demand.container == hold.container && is_of(*place, &demand.resource, slots)
        };
        let Some(demand) = pod.demands.iter().find(of) else {
            continue;
        };
        let has = counted
            .entry((&pod.uid, &demand.container, &demand.resource))
            .or_default();
        if *has < demand.count {
            *has += 1;
            ledger.insert(*place, hold.clone());
        }
    }
    ledger
}

/// How a container of a pod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Beside the others, until the pod ends.
    Main,
    /// Before the others, to its end.
    Init,
    /// Before the others, and on beside them.
    Sidecar,
}

/// A container as its pod asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its name.
    pub container: String,
    /// How it runs.
    pub role: Role,
    /// Devices by resource.
    pub devices: Vec<(String, u32)>,
    /// How busy it makes each of them.
    pub load: Load,
}

/// What a pod's containers hold in the end. Containers that run before the others hand their devices on; only what nobody
/// takes over stays theirs.
pub fn demands(containers: &[Asked]) -> Vec<Demand> {
    let mut demands = Vec::new();
    let resources: BTreeSet<&str> = containers
        .iter()
        .flat_map(|asked| asked.devices.iter().map(|(resource, _)| &**resource))
        .collect();
    for resource in resources {
        let mut lasting = 0u32;
        let mut most: (u32, Option<&Asked>) = (0, None);
        for asked in containers {
            let of = asked.devices.iter().filter(|(name, _)| name == resource);
            let count = of.map(|(_, count)| *count).fold(0, u32::saturating_add);
            if asked.role == Role::Init {
                // Sidecars before it are running already.
                let peak = count.saturating_add(lasting);
                if peak > most.0 {
                    most = (peak, Some(asked));
                }
            } else if count > 0 {
                lasting = lasting.saturating_add(count);
                demands.push(demand(asked, resource, count));
            }
        }
        if let (peak, Some(asked)) = most
            && peak > lasting
        {
            demands.push(demand(asked, resource, peak - lasting));
        }
    }
    demands
}

fn demand(asked: &Asked, resource: &str, count: u32) -> Demand {
    Demand {
        container: asked.container.clone(),
        resource: resource.to_owned(),
        count,
        load: asked.load,
    }
}
