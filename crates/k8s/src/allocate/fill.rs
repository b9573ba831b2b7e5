//! Between the ledger and the topology document: which devices a node has, who holds them as its document says it,
//! and what was held according to a document that an earlier process left.

use mirage_model::board::Board;
use mirage_model::mig::name::{canonical, resource};

use super::{GPU, Hold, Ledger, Load, MIG, Place, Pod};
use crate::topology::{Container, Node, Status, Usage};

/// A device that can be given away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Which.
    pub place: Place,
    /// Under which resource.
    pub resource: String,
}

/// The devices of a node's first `count` GPUs. With `single`, MIG devices are whole GPUs to whoever asks.
pub fn slots(node: &Node, count: usize, single: bool) -> Vec<Slot> {
    let mut slots = Vec::new();
    for (gpu, number) in node.gpus.iter().take(count).zip(0u32..) {
        let Some(instances) = &gpu.mig else {
            let place = Place {
                gpu: number,
                start: None,
            };
            slots.push(Slot {
                place,
                resource: GPU.into(),
            });
            continue;
        };
        for (instance, at) in instances.iter().zip(0u32..) {
            let place = Place {
                gpu: number,
                start: Some(instance.position.unwrap_or(at)),
            };
            let resource = if single {
                GPU.into()
            } else {
                format!("{MIG}{}", resource(&canonical(&instance.name)))
            };
            slots.push(Slot { place, resource });
        }
    }
    slots.sort_by_key(|slot| slot.place);
    slots
}

/// Writes who holds what into a node's document, and nothing of what was there before.
pub fn fill(node: &mut Node, board: Option<&Board>, ledger: &Ledger, pods: &[Pod]) {
    let memory = node.memory_mib;
    let profile = |name: &str| {
        let geometry = board?.mig.as_ref()?;
        Some(geometry.profile_by_name(name)?.memory_mib)
    };
    for (gpu, number) in node.gpus.iter_mut().zip(0u32..) {
        let whole = Place {
            gpu: number,
            start: None,
        };
        gpu.status = status(whole, memory, ledger, pods);
        for (instance, at) in gpu.mig.iter_mut().flatten().zip(0u32..) {
            let place = Place {
                gpu: number,
                start: Some(instance.position.unwrap_or(at)),
            };
            let memory = profile(&instance.name).unwrap_or(memory);
            instance.status = status(place, memory, ledger, pods);
        }
    }
}

fn status(place: Place, memory: u64, ledger: &Ledger, pods: &[Pod]) -> Status {
    let held = ledger.get(&place);
    let holder = held.and_then(|hold| Some((hold, pods.iter().find(|pod| pod.uid == hold.uid)?)));
    let Some((hold, pod)) = holder else {
        return Status::default();
    };
    let mut status = Status {
        allocated_by: Some(Container {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: hold.container.clone(),
        }),
        ..Status::default()
    };
    if !pod.reserves {
        let of = |demand: &&super::Demand| demand.container == hold.container;
        let demand = pod.demands.iter().find(of);
        let load = demand.map_or(&pod.share, |demand| &demand.load);
        status.usage.insert(pod.uid.clone(), usage(load, memory));
    } else if pod.group.is_some() {
        let sharing = |other: &&Pod| !other.ended && !other.reserves && other.group == pod.group;
        for other in pods.iter().filter(sharing) {
            let usage = usage(&other.share, memory);
            status.usage.insert(other.uid.clone(), usage);
        }
    }
    status
}

fn usage(load: &Load, memory: u64) -> Usage {
    let runs = load.running;
    // Memory is held from the start, and whole MiB of it.
    let share = (memory as f64 * load.fraction.clamp(0.0, 1.0)).trunc();
    Usage {
        min: if runs { load.min } else { 0 },
        max: if runs { load.max } else { 0 },
        memory_mib: share as u64,
        inference: runs && load.inference,
    }
}

/// Who held what, as far as the pods say it themselves and a document of an earlier time tells it of them.
pub fn recall(node: Option<&Node>, pods: &[Pod]) -> Ledger {
    let mut ledger = Ledger::new();
    // What an ended one says it had may be another's by now.
    let living = || pods.iter().filter(|pod| !pod.ended);
    for pod in living() {
        for (place, container) in &pod.held {
            ledger
                .entry(*place)
                .or_insert_with(|| Hold::new(pod, container));
        }
    }
    let mut remember = |place: Place, status: &Status| {
        let Some(owner) = &status.allocated_by else {
            return;
        };
        let named = |pod: &&Pod| pod.namespace == owner.namespace && pod.name == owner.pod;
        let Some(pod) = living().find(named) else {
            return;
        };
        if !pod.held.is_empty() {
            return;
        }
        // The name may have been given to another pod since; those that reserve leave no UID behind.
        if pod.reserves || status.usage.contains_key(&pod.uid) {
            ledger
                .entry(place)
                .or_insert_with(|| Hold::new(pod, &owner.container));
        }
    };
    let gpus = node.map_or(&[][..], |node| &node.gpus);
    for (gpu, number) in gpus.iter().zip(0u32..) {
        let whole = Place {
            gpu: number,
            start: None,
        };
        remember(whole, &gpu.status);
        for (instance, at) in gpu.mig.iter().flatten().zip(0u32..) {
            let place = Place {
                gpu: number,
                start: Some(instance.position.unwrap_or(at)),
            };
            remember(place, &instance.status);
        }
    }
    ledger
}
