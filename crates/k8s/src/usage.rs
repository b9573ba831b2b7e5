//! Which container keeps which device busy, and how: what the kubelet gave to whom, joined with what the API
//! server says of the pods.
//!
//! Only containers that run are busy. A plain init container is not in the kubelet's answer: the kubelet gives its devices
//! on to the containers after it, so it has the first of theirs. Containers that share a device share its memory: who
//! names no amount gets an equal part of what is left, so that nobody is turned out for want of it. A pod whose scheduler names a
//! MIG device has that one, if the kubelet gave it none; a pod of a group that shares a GPU has the one that the group's
//! reservation was given.

pub mod groups;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use mirage_model::plan::Owner;
use mirage_state::Image;
use mirage_state::layout::{flags, text};

use self::groups::Classes;
use crate::activity::{self, Activity};
use crate::claims::{Claims, IdType, overlay};
use crate::cluster::pod::{Pod, Role};
use crate::cluster::tell::Complaint;
use crate::inference::Rates;
use crate::migconfig;
use crate::podresources::Filter;

/// A container that is at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Busy {
    /// Which.
    pub owner: Owner,
    /// Since when it runs, where that is known: its schedule counts from then.
    pub since: Option<SystemTime>,
    /// How often it has been started again.
    pub restarts: u32,
    /// Its devices, in order.
    pub devices: Vec<Device>,
    /// What it does with each of them.
    pub activity: Activity,
    /// Requests keep it busy.
    pub by_requests: bool,
}

/// A GPU, or a MIG device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// GPU index on the node.
    pub gpu: u32,
    /// Which MIG device of the GPU.
    pub index: Option<u32>,
    /// Its UUID.
    pub uuid: String,
}

/// What the containers of a node do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Usage {
    /// Those at work, by namespace, pod and container.
    pub busy: Vec<Busy>,
    /// What is wrong with pods.
    pub complaints: Vec<(Arc<Pod>, Complaint)>,
}

/// What is known about the pods.
#[derive(Debug, Clone, Copy)]
pub enum Known<'a> {
    /// These there are, the priority classes of their groups, and the requests they serve.
    Pods(&'a [Arc<Pod>], &'a Classes, &'a Rates),
    /// There is no API server to ask: whoever was given a device runs.
    Nothing,
}

/// Claims with what the API server knows: the pods' UIDs, and a running init container in the place of those that will
/// have its devices after it.
pub fn refined(claims: &Claims, pods: &[Arc<Pod>], filter: &Filter) -> Claims {
    let pods = by_name(pods);
    // Devices of running init containers, still to be found.
    let mut early: HashMap<&str, Vec<(&str, usize)>> = HashMap::new();
    for pod in pods.values() {
        let init = pod.containers.iter().filter(|c| c.role == Role::Init);
        let running = init.filter(|c| c.is_running);
        let list = running.map(|c| (c.name.as_str(), c.count(filter)));
        early.insert(&pod.uid, list.collect());
    }
    let mut refined = Claims::default();
    for claim in claims.iter() {
        let mut holder = claim.holder().clone();
        let Some(pod) = pods.get(&(holder.namespace.as_str(), holder.pod.as_str())) else {
            refined.push(claim.clone());
            continue;
        };
        if holder.uid.is_none() {
            holder.uid = Some(pod.uid.clone());
        }
        let waits = pod.containers.iter().any(|container| {
            container.name == holder.container
                && container.role == Role::App
                && !container.is_running
        });
        let mut early = early.get_mut(pod.uid.as_str()).into_iter().flatten();
        if waits && let Some((name, left)) = early.find(|(_, left)| *left > 0) {
            holder.container = (*name).to_owned();
            *left -= 1;
        }
        refined.push(claim.held_by(Arc::new(holder)));
    }
    for ((namespace, pod), facts) in claims.pods() {
        refined.describe(namespace, pod, facts.clone());
    }
    refined.skip(claims.skipped());
    refined
}

fn by_name(pods: &[Arc<Pod>]) -> HashMap<(&str, &str), &Arc<Pod>> {
    pods.iter()
        .map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod))
        .collect()
}

type Key = (String, String);
type Given = BTreeMap<String, Vec<Device>>;

/// Who does what on a node.
pub fn read(claims: &Claims, known: Known<'_>, image: &Image, filter: &Filter) -> Usage {
    let mut given = given(claims, image);
    let mut usage = Usage::default();
    match known {
        Known::Pods(pods, classes, rates) => {
            for pod in pods {
                choose(pod, image, &mut given);
            }
            join(pods, &mut given);
            let pods = by_name(pods);
            for ((namespace, name), containers) in &given {
                if let Some(pod) = pods.get(&(namespace.as_str(), name.as_str())) {
                    let class = groups::class(pod, classes);
                    of_pod(pod, containers, class, rates, filter, &mut usage);
                }
            }
        }
        Known::Nothing => {
            for ((namespace, pod), containers) in given {
                for (container, devices) in containers {
                    usage.busy.push(Busy {
                        owner: Owner {
                            namespace: namespace.clone(),
                            pod: pod.clone(),
                            container,
                            pod_uid: String::new(),
                        },
                        since: None,
                        restarts: 0,
                        devices,
                        activity: Activity::usual(),
                        by_requests: false,
                    });
                }
            }
        }
    }
    share_memory(&mut usage.busy);
    usage
}

/// Devices by pod and container; those that nothing can run on are left out.
fn given(claims: &Claims, image: &Image) -> BTreeMap<Key, Given> {
    let mut given: BTreeMap<Key, Given> = BTreeMap::new();
    for meant in overlay::places(claims, image, IdType::Any, true) {
        let Some(claim) = claims.at(meant.claim) else {
            continue;
        };
        let Some(device) = device(image, meant.gpu(), meant.index) else {
            continue;
        };
        let holder = claim.holder();
        let pod = (holder.namespace.clone(), holder.pod.clone());
        let devices = given.entry(pod).or_default();
        let devices = devices.entry(holder.container.clone()).or_default();
        if let Err(at) = devices.binary_search(&device) {
            devices.insert(at, device);
        }
    }
    given
}

/// A pod that was given nothing has the MIG device that its scheduler names; its first container does.
fn choose(pod: &Pod, image: &Image, given: &mut BTreeMap<Key, Given>) {
    let key = (pod.namespace.clone(), pod.name.clone());
    if given.contains_key(&key) {
        return;
    }
    let chosen = migconfig::chosen(pod, image);
    let chosen = chosen.and_then(|chosen| device(image, chosen.gpu, Some(chosen.index)));
    let mut containers = pod.containers.iter();
    let first = containers.find(|container| container.role == Role::App);
    if let (Some(device), Some(first)) = (chosen, first) {
        given.insert(key, BTreeMap::from([(first.name.clone(), vec![device])]));
    }
}

/// Pods that share a GPU and were given nothing have what the reservation of their group was given; their first containers do.
fn join(pods: &[Arc<Pod>], given: &mut BTreeMap<Key, Given>) {
    let key = |pod: &Pod| (pod.namespace.clone(), pod.name.clone());
    let mut reserved: HashMap<&str, Vec<Device>> = HashMap::new();
    for pod in pods.iter().filter(|pod| groups::reserves(pod)) {
        if let (Some(group), Some(containers)) = (groups::sharing(pod), given.get(&key(pod))) {
            let devices = containers.values().flatten().cloned();
            reserved.entry(group).or_default().extend(devices);
        }
    }
    if reserved.is_empty() {
        return;
    }
    for pod in pods.iter().filter(|pod| !groups::reserves(pod)) {
        let Some(devices) = groups::sharing(pod).and_then(|group| reserved.get(group)) else {
            continue;
        };
        let mut containers = pod.containers.iter();
        if let Some(first) = containers.find(|container| container.role == Role::App) {
            let shared = || BTreeMap::from([(first.name.clone(), devices.clone())]);
            given.entry(key(pod)).or_insert_with(shared);
        }
    }
}

/// The device, unless it is lost or not to be used in this way.
fn device(image: &Image, gpu: u32, index: Option<u32>) -> Option<Device> {
    let live = image.lives.get(gpu as usize)?;
    let has_mig = live.flags & flags::MIG != 0;
    if live.flags & flags::LOST != 0 || has_mig != index.is_some() {
        return None;
    }
    let uuid = match index {
        None => text(&image.cards.get(gpu as usize)?.uuid).to_owned(),
        Some(_) => {
            let mut instances = image.instances.iter();
            let found = instances.find(|i| i.gpu == gpu && Some(i.index) == index)?;
            text(&found.uuid).to_owned()
        }
    };
    Some(Device { gpu, index, uuid })
}

fn of_pod(
    pod: &Arc<Pod>,
    given: &Given,
    class: Option<&str>,
    rates: &Rates,
    filter: &Filter,
    usage: &mut Usage,
) {
    for container in pod.containers.iter().filter(|c| c.is_running) {
        let devices = match container.role {
            Role::App | Role::Sidecar => given.get(&container.name).cloned(),
            // Refined claims name it already.
            Role::Init if given.contains_key(&container.name) => {
                given.get(&container.name).cloned()
            }
            Role::Init => {
                let later = pod.containers.iter().filter(|c| c.role == Role::App);
                let devices = later.filter_map(|c| given.get(&c.name)).flatten();
                Some(devices.take(container.count(filter)).cloned().collect())
            }
        };
        let Some(devices) = devices.filter(|devices: &Vec<Device>| !devices.is_empty()) else {
            continue;
        };
        let (mut activity, complaints, by_requests) = activity::of(pod, &container.name, class);
        if by_requests {
            rates.keep_busy(&pod.namespace, &pod.name, &mut activity);
        }
        for complaint in complaints {
            let said = (Arc::clone(pod), complaint);
            if !usage.complaints.contains(&said) {
                usage.complaints.push(said);
            }
        }
        usage.busy.push(Busy {
            owner: Owner {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
                pod_uid: pod.uid.clone(),
            },
            since: container.since,
            restarts: container.restarts,
            devices,
            activity,
            by_requests,
        });
    }
}

/// What is taken of a device's memory.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    /// Fractions that were asked for, in all.
    asked: f64,
    /// Containers that asked for none.
    others: u32,
}

fn share_memory(busy: &mut [Busy]) {
    let mut taken: HashMap<String, Taken> = HashMap::new();
    // A reservation leaves all of it to those it is for.
    let takes = |one: &&Busy| one.owner.namespace != activity::RESERVATIONS;
    for one in busy.iter().filter(takes) {
        for device in &one.devices {
            let taken = taken.entry(device.uuid.clone()).or_default();
            match one.activity.fraction {
                Some(fraction) => taken.asked += fraction,
                None => taken.others += 1,
            }
        }
    }
    for one in busy {
        let fraction = one.activity.fraction;
        let part = |device: &Device| {
            let taken = taken.get(&device.uuid).copied().unwrap_or_default();
            match fraction {
                Some(fraction) if taken.asked <= 1.0 => fraction,
                Some(fraction) => rounded(fraction / taken.asked),
                None if taken.others <= 1 && taken.asked == 0.0 => 1.0,
                None => rounded((1.0 - taken.asked).max(0.0) / f64::from(taken.others.max(1))),
            }
        };
        // The same on each of its devices, as its activity is.
        let share = one.devices.iter().map(part).fold(1.0, f64::min);
        one.activity.fill_memory(share);
    }
}

/// Down to a hundredth of a percent, so that parts never add up to more than there is.
fn rounded(share: f64) -> f64 {
    (share * 10_000.0).floor() / 10_000.0
}

#[cfg(test)]
mod tests;
