//! The document of a node that has a kubelet, from what its own agent knows exactly: devices as they are published, who
//! was given which of them, and what runs there.

use std::collections::BTreeMap;
use std::sync::Arc;

use mirage_model::mig::name::canonical;
use mirage_model::plan::Amount;
use mirage_state::Image;
use mirage_state::layout::{Instance, flags, text};

use super::{Container, Gpu, Mig, Node, Other, Status, Usage};
use crate::activity::RESERVATIONS;
use crate::claims::{Claims, IdType, overlay};
use crate::cluster::pod::{Pod, Role};
use crate::migconfig;
use crate::usage::Busy;

/// A device in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Index of the GPU.
    pub gpu: u32,
    /// First memory slice of a MIG device.
    pub start: Option<u32>,
    /// Whose.
    pub by: Container,
    /// UID of the pod; empty if nobody knows.
    pub uid: String,
}

/// Everything on a node that is in the hands of a living pod: given by the kubelet, or chosen by a scheduler that names a MIG device.
/// Without an API server, `pods` is `None` and whoever was given something lives.
pub fn held(claims: &Claims, pods: Option<&[Arc<Pod>]>, image: &Image) -> Vec<Held> {
    let lives = |pod: &&Arc<Pod>| !matches!(&*pod.phase, "Succeeded" | "Failed");
    let mut all = Vec::new();
    for meant in overlay::places(claims, image, IdType::Any, true) {
        let Some(holder) = claims.at(meant.claim).map(|claim| claim.holder()) else {
            continue;
        };
        let same = |pod: &&Arc<Pod>| pod.namespace == holder.namespace && pod.name == holder.pod;
        let uid = match pods.unwrap_or_default().iter().find(same) {
            Some(pod) if lives(&pod) => pod.uid.clone(),
            Some(_) => continue,
            // The kubelet may know it before the server has told of it.
            None => holder.uid.clone().unwrap_or_default(),
        };
        let on = |instance: &&Instance| {
            instance.gpu == meant.gpu() && Some(instance.index) == meant.index
        };
        all.push(Held {
            gpu: meant.gpu(),
            start: image.instances.iter().find(on).map(|found| found.start),
            by: Container {
                namespace: holder.namespace.clone(),
                pod: holder.pod.clone(),
                container: holder.container.clone(),
            },
            uid,
        });
    }
    for pod in pods.unwrap_or_default().iter().filter(lives) {
        let given = all
            .iter()
            .any(|held| held.by.namespace == pod.namespace && held.by.pod == pod.name);
        if !given && let Some(held) = chosen(pod, image) {
            all.push(held);
        }
    }
    all.sort();
    all.dedup();
    all
}

/// The MIG device that a pod's scheduler names, if the node has it: its first container's.
fn chosen(pod: &Pod, image: &Image) -> Option<Held> {
    let instance = migconfig::chosen(pod, image)?;
    let mut containers = pod.containers.iter();
    let first = containers.find(|container| container.role == Role::App)?;
    Some(Held {
        gpu: instance.gpu,
        start: Some(instance.start),
        by: Container {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: first.name.clone(),
        },
        uid: pod.uid.clone(),
    })
}

/// What a report is made from, beside the devices.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Who has what.
    pub held: &'a [Held],
    /// What the containers that run do.
    pub busy: &'a [Busy],
    /// How MIG devices are offered, in a word.
    pub strategy: &'a str,
    /// MIG devices come and go as the scheduler asks.
    pub dynamic_mig: bool,
    /// Further resources.
    pub others: &'a [(String, u32)],
}

/// The document.
pub fn report(image: &Image, facts: Facts<'_>) -> Node {
    let first = image.cards.first();
    let board = first.and_then(|card| image.statics.boards.get(card.board as usize));
    let cuda = image.header.cuda_version;
    let others = facts.others.iter().map(|(name, count)| Other {
        name: name.clone(),
        count: *count,
    });
    let gpus = image.cards.iter().zip(&image.lives).zip(0u32..);
    Node {
        memory_mib: first.map_or(0, |card| card.memory_total >> 20),
        product: board.map_or_else(String::new, |board| text(&board.product).to_owned()),
        driver: Some(text(&image.header.driver).to_owned()),
        cuda: Some(format!("{}.{}", cuda / 1000, cuda % 1000 / 10)),
        mig_strategy: Some(facts.strategy.to_owned()),
        dynamic_mig: facts.dynamic_mig,
        others: others.collect(),
        gpus: gpus
            .map(|((card, live), index)| Gpu {
                id: text(&card.uuid).to_owned(),
                status: status(facts, (index, None), text(&card.uuid), card.memory_total),
                mig: (live.flags & flags::MIG != 0).then(|| instances(image, index, facts)),
            })
            .collect(),
    }
}

/// The MIG devices of a GPU.
fn instances(image: &Image, gpu: u32, facts: Facts<'_>) -> Vec<Mig> {
    let statics = &image.statics;
    let own = image.instances.iter();
    let own = own.filter(|one| one.gpu == gpu && one.index != u32::MAX);
    let listed = own.filter_map(|one| {
        let whole = statics.gpu_profiles.get(one.gpu_profile as usize)?;
        let part = statics.compute_profiles.get(one.compute_profile as usize)?;
        let name = if part.slices == whole.slices {
            text(&whole.name)
        } else {
            text(&part.name)
        };
        Some(Mig {
            id: Some(text(&one.uuid).to_owned()),
            name: canonical(name).into_owned(),
            position: Some(one.start),
            status: status(facts, (gpu, Some(one.start)), text(&one.uuid), whole.memory),
        })
    });
    listed.collect()
}

/// Who has a device of so many bytes, and what they do with it.
fn status(facts: Facts<'_>, place: (u32, Option<u32>), uuid: &str, memory: u64) -> Status {
    let here = facts.held.iter();
    let here: Vec<&Held> = here
        .filter(|held| (held.gpu, held.start) == place)
        .collect();
    let mut uses: BTreeMap<String, Usage> = BTreeMap::new();
    for held in &here {
        // A reservation holds it, and uses nothing.
        if !held.uid.is_empty() && held.by.namespace != RESERVATIONS {
            uses.entry(held.uid.clone()).or_default();
        }
    }
    let on = |busy: &&Busy| busy.devices.iter().any(|device| device.uuid == uuid);
    for busy in facts.busy.iter().filter(on) {
        if busy.owner.pod_uid.is_empty() || busy.owner.namespace == RESERVATIONS {
            continue;
        }
        let now = usage(busy, memory);
        let usage = uses.entry(busy.owner.pod_uid.clone()).or_default();
        usage.min = (usage.min + now.min).min(100);
        usage.max = (usage.max + now.max).min(100);
        usage.memory_mib = (usage.memory_mib + now.memory_mib).min(memory >> 20);
        usage.inference |= now.inference;
    }
    Status {
        allocated_by: here.first().map(|held| held.by.clone()),
        usage: uses,
    }
}

/// What a container does with a device of so many bytes; of a schedule, how it begins.
fn usage(busy: &Busy, memory: u64) -> Usage {
    let percent = |share: f64| share.clamp(0.0, 100.0).round() as u32;
    let Some(step) = busy.activity.steps.first() else {
        return Usage::default();
    };
    let bytes = match step.memory {
        Some(Amount::Bytes(range)) => range.high.min(memory as f64),
        Some(Amount::Share(range)) => memory as f64 * range.high.clamp(0.0, 100.0) / 100.0,
        None => 0.0,
    };
    Usage {
        min: percent(step.utilization.low),
        max: percent(step.utilization.high),
        memory_mib: (bytes.max(0.0) as u64) >> 20,
        inference: busy.by_requests,
    }
}

#[cfg(test)]
mod tests;
