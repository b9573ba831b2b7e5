//! What runs on the nodes that no kubelet keeps, for whoever simulates their GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use mirage_model::plan::{NodePlan, Owner};

use super::Controller;
use super::pods::sharing;
use crate::activity::{self, Activity};
use crate::allocate::Place;
use crate::controller::seen::Bound;

/// A container at work on devices of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Which.
    pub owner: Owner,
    /// When its pod began to run, in seconds since 1970.
    pub since: Option<i64>,
    /// Index of the GPU, and of the MIG device on it.
    pub devices: Vec<(u32, Option<u32>)>,
    /// What it does with each of them, memory included.
    pub activity: Activity,
}

impl Controller {
    /// Nodes that no kubelet keeps, with what runs on each, and what tells the node's shape from others that it had.
    pub fn fleet(&self) -> Vec<(NodePlan, Vec<Work>, u64)> {
        let kept = self.kept.iter();
        kept.map(|(name, kept)| (kept.plan.clone(), self.work(name), kept.shape))
            .collect()
    }

    fn work(&self, node: &str) -> Vec<Work> {
        let Some(kept) = self.kept.get(node) else {
            return Vec::new();
        };
        let pods = self.seen.pods_of(node);
        let mut work: BTreeMap<(String, String), (Arc<Bound>, Vec<Place>)> = BTreeMap::new();
        let mut add = |bound: &Arc<Bound>, container: &str, place: Place| {
            let key = (bound.pod.uid.clone(), container.to_owned());
            let entry = work
                .entry(key)
                .or_insert_with(|| (Arc::clone(bound), Vec::new()));
            entry.1.push(place);
        };
        for (place, hold) in &kept.ledger {
            let Some(bound) = pods.iter().find(|bound| bound.pod.uid == hold.uid) else {
                continue;
            };
            if bound.pod.namespace != self.settings.reservations {
                add(bound, &hold.container, *place);
                continue;
            }
            let group = self.pod(bound).group;
            for other in pods
                .iter()
                .filter(|other| other.pod.uid != bound.pod.uid && !other.ended)
            {
                if group.is_some() && self.pod(other).group == group {
                    let first = sharing(&other.pod);
                    add(other, first.map_or("", |container| &container.name), *place);
                }
            }
        }
        let works = work
            .into_iter()
            .filter_map(|((uid, container), (bound, places))| {
                let runs =
                    |one: &&crate::cluster::pod::Container| one.name == container && one.is_running;
                let running = bound.pod.containers.iter().find(runs)?;
                let class = self.seen.class(&bound.pod);
                let (mut activity, _, by_requests) = activity::of(&bound.pod, &running.name, class);
                let (namespace, name) = (&bound.pod.namespace, &bound.pod.name);
                if by_requests {
                    self.rates.keep_busy(namespace, name, &mut activity);
                }
                let fraction = activity.fraction.unwrap_or(1.0);
                activity.fill_memory(fraction);
                let devices = places.iter().filter_map(|place| {
                    let Some(start) = place.start else {
                        return Some((place.gpu, None));
                    };
                    let list = kept.document.gpus.get(place.gpu as usize)?.mig.as_ref()?;
                    let at = list
                        .iter()
                        .position(|device| device.position == Some(start))?;
                    Some((place.gpu, u32::try_from(at).ok()))
                });
                Some(Work {
                    since: bound.started,
                    devices: devices.collect(),
                    owner: Owner {
                        namespace: bound.pod.namespace.clone(),
                        pod: bound.pod.name.clone(),
                        container,
                        pod_uid: uid,
                    },
                    activity,
                })
            });
        works.filter(|work| !work.devices.is_empty()).collect()
    }
}
