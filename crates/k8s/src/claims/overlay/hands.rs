//! Whose hands a device is in: the containers of a node and what they hold, found by name.
//!
//! There may be as many containers as sources have claims, so nothing here looks through all of them.

use std::collections::{HashMap, HashSet};

use mirage_state::Image;
use mirage_state::layout::{Container, Holding, TextRef};

use super::Place;
use crate::claims::Holder;

/// Namespace and name.
type Name<'a> = (&'a str, &'a str);

/// Records of one container name that are looked at, the latest ones: each is of a pod that had the name before the next.
const MOST_RECORDS: usize = 64;

/// A pod that claims name.
#[derive(Debug, Default)]
struct Pod {
    /// Its containers, by name, in the image's order. Several are of pods of the same name.
    containers: HashMap<String, Vec<usize>>,
    /// Which container holds a place.
    at: HashMap<Place, usize>,
}

impl Pod {
    /// The containers of a name, the latest first.
    fn named(&self, name: &str) -> impl Iterator<Item = usize> {
        let list = self.containers.get(name).map_or(&[][..], Vec::as_slice);
        list.iter().rev().take(MOST_RECORDS).copied()
    }
}

/// What is known of a node's containers, as far as claims name their pods.
#[derive(Debug)]
pub(super) struct Hands<'a> {
    pods: Vec<Pod>,
    by_name: HashMap<Name<'a>, usize>,
    /// The pod of a container, by its place in the image.
    pod_of: Vec<Option<usize>>,
    /// Whether it holds anything.
    holds: Vec<bool>,
    /// Holdings by container and place.
    holdings: HashMap<(usize, Place), usize>,
    /// Places on which claims name a container that is called after its pod.
    named: HashSet<(Name<'a>, Place)>,
}

impl<'a> Hands<'a> {
    /// Looks at a node, for these holders.
    pub(super) fn new(
        image: &Image,
        holders: impl Iterator<Item = (Place, &'a Holder)>,
    ) -> Hands<'a> {
        let mut hands = Hands {
            pods: Vec::new(),
            by_name: HashMap::new(),
            pod_of: Vec::with_capacity(image.containers.len()),
            holds: vec![false; image.containers.len()],
            holdings: HashMap::with_capacity(image.holdings.len()),
            named: HashSet::new(),
        };
        for (place, holder) in holders {
            let name = (holder.namespace.as_str(), holder.pod.as_str());
            let next = hands.by_name.len();
            hands.by_name.entry(name).or_insert(next);
            if holder.container == holder.pod {
                hands.named.insert((name, place));
            }
        }
        hands
            .pods
            .resize_with(hands.by_name.len(), Default::default);
        let node = image.node();
        for (at, container) in node.containers.iter().enumerate() {
            let name = (node.text(container.namespace), node.text(container.pod));
            let pod = hands.by_name.get(&name).copied();
            hands.pod_of.push(pod);
            if let Some(pod) = pod {
                hands.enter(pod, node.text(container.name), at);
            }
        }
        for (at, holding) in image.holdings.iter().enumerate() {
            let place = Place {
                gpu: holding.gpu,
                gi: holding.gi,
            };
            hands.hold(holding.container as usize, place, at);
        }
        hands
    }

    fn enter(&mut self, pod: usize, name: &str, at: usize) {
        let containers = &mut self.pods[pod].containers;
        match containers.get_mut(name) {
            Some(list) => list.push(at),
            None => drop(containers.insert(name.to_owned(), vec![at])),
        }
    }

    fn hold(&mut self, container: usize, place: Place, holding: usize) {
        self.holdings.entry((container, place)).or_insert(holding);
        if let Some(holds) = self.holds.get_mut(container) {
            *holds = true;
        }
        if let Some(&Some(pod)) = self.pod_of.get(container) {
            self.pods[pod].at.insert(place, container);
        }
    }

    /// The holding that gives a device to a container, and whether it is new.
    pub(super) fn give(
        &mut self,
        image: &mut Image,
        holder: &'a Holder,
        place: Place,
    ) -> (usize, bool) {
        let pod = self.by_name[&(holder.namespace.as_str(), holder.pod.as_str())];
        let known = self.known(image, pod, holder);
        let mut at = known;
        let mut holding = known.and_then(|at| self.holdings.get(&(at, place)).copied());
        if holding.is_none()
            && let Some(other) = self.other(image, pod, holder, place)
        {
            holding = self.holdings.get(&(other, place)).copied();
            at = Some(other);
            if let Some(holding) = holding
                && !holder.container.is_empty()
            {
                let own = known.unwrap_or_else(|| self.add(image, pod, holder));
                self.pass_on(image, place, holding, own);
                at = Some(own);
            }
        }
        let at = at.unwrap_or_else(|| self.add(image, pod, holder));
        let uid = holder.uid.as_deref().unwrap_or("");
        if image.containers[at].uid.len == 0 && !uid.is_empty() {
            image.containers[at].uid = keep(&mut image.heap, uid);
        }
        if let Some(holding) = holding {
            return (holding, false);
        }
        image.holdings.push(Holding {
            container: at as u32,
            gpu: place.gpu,
            gi: place.gi,
            ..Holding::default()
        });
        let holding = image.holdings.len() - 1;
        self.hold(at, place, holding);
        (holding, true)
    }

    /// The container's record. Of several, one that still holds something: the others are of pods that had the name
    /// before.
    fn known(&self, image: &Image, pod: usize, holder: &Holder) -> Option<usize> {
        let mut latest = None;
        for at in self.pods[pod].named(&holder.container) {
            if !may_be(image, at, holder) {
                continue;
            }
            if self.holds[at] {
                return Some(at);
            }
            latest = latest.or(Some(at));
        }
        latest
    }

    /// Another container of the pod that has the device and must be the one that is meant: because the claim does not
    /// say which, or because that other one has no name of its own. A workload that names its pod alone is called
    /// after it; if some source names such a container on the device, it is that one.
    fn other(&self, image: &Image, pod: usize, holder: &Holder, place: Place) -> Option<usize> {
        let meant =
            |at: &usize| self.holdings.contains_key(&(*at, place)) && may_be(image, *at, holder);
        let of = &self.pods[pod];
        if holder.container.is_empty() {
            return of.at.get(&place).copied().filter(meant);
        }
        let name = (holder.namespace.as_str(), holder.pod.as_str());
        let own = if self.named.contains(&(name, place)) {
            ""
        } else {
            &holder.pod
        };
        of.named("")
            .find(meant)
            .or_else(|| of.named(own).find(meant))
    }

    /// Moves what a container does on a device to another one.
    fn pass_on(&mut self, image: &mut Image, place: Place, holding: usize, to: usize) {
        let record = &mut image.holdings[holding].container;
        let from = std::mem::replace(record, to as u32);
        for process in &mut image.processes {
            if process.container == from && (process.gpu, process.gi) == (place.gpu, place.gi) {
                process.container = to as u32;
            }
        }
        self.holdings.remove(&(from as usize, place));
        self.hold(to, place, holding);
    }

    fn add(&mut self, image: &mut Image, pod: usize, holder: &Holder) -> usize {
        let heap = &mut image.heap;
        let record = Container {
            namespace: keep(heap, &holder.namespace),
            pod: keep(heap, &holder.pod),
            name: keep(heap, &holder.container),
            uid: TextRef::default(),
        };
        image.containers.push(record);
        let at = image.containers.len() - 1;
        self.pod_of.push(Some(pod));
        self.holds.push(false);
        self.enter(pod, &holder.container, at);
        at
    }
}

/// Whether a record may be of this pod, and not of another one of its name.
fn may_be(image: &Image, container: usize, holder: &Holder) -> bool {
    let node = image.node();
    let known = node.text(node.containers[container].uid);
    let uid = holder.uid.as_deref().unwrap_or("");
    uid.is_empty() || known.is_empty() || uid == known
}

fn keep(heap: &mut Vec<u8>, text: &str) -> TextRef {
    let offset = heap.len() as u32;
    heap.extend_from_slice(text.as_bytes());
    TextRef {
        offset,
        len: text.len() as u32,
    }
}
