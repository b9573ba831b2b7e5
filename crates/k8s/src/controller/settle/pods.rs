//! Pods as their node is settled: what they ask for, what they are told of their devices, and what is wrong with what they say.

use std::collections::BTreeSet;
use std::sync::Arc;

use mirage_model::quantity;

use super::{Controller, Kept};
use crate::activity;
use crate::allocate::{self, Asked, Load, Pod, Role};
use crate::cluster::node::Labels;
use crate::cluster::pod;
use crate::cluster::tell::Complaint;
use crate::controller::body::{self, Write};
use crate::controller::phase::RUN_FOR;
use crate::controller::seen::Bound;
use crate::migconfig;

/// Written on pods that reserve a GPU: which.
pub(in crate::controller) const RESERVED: &str = "run.ai/reserve_for_gpu_index";

impl Controller {
    /// A pod as far as devices matter.
    pub(super) fn pod(&self, bound: &Bound) -> Pod {
        let pod = &bound.pod;
        let class = self.seen.class(pod);
        let load = |container: Option<&pod::Container>| {
            let name = container.map_or("", |container| &container.name);
            let (activity, _, inference) = activity::of(pod, name, class);
            let busy = activity.steps.first().map(|step| step.utilization);
            let percent = |share: f64| share.clamp(0.0, 100.0).round() as u32;
            Load {
                running: pod.phase == "Running" && container.is_some_and(|one| one.is_running),
                min: busy.map_or(100, |busy| percent(busy.low)),
                max: busy.map_or(100, |busy| percent(busy.high)),
                fraction: activity.fraction.unwrap_or(1.0),
                inference,
            }
        };
        let asked = pod.containers.iter().map(|container| Asked {
            container: container.name.clone(),
            role: match container.role {
                pod::Role::Init => Role::Init,
                pod::Role::Sidecar => Role::Sidecar,
                pod::Role::App => Role::Main,
            },
            devices: container
                .resources
                .iter()
                .filter(|(name, _)| *name == allocate::GPU || name.starts_with(allocate::MIG))
                .map(|(name, count)| (name.clone(), *count))
                .collect(),
            load: load(Some(container)),
        });
        let asked: Vec<Asked> = asked.collect();
        let mut demands = allocate::demands(&asked);
        let pin = pinned(pod).and_then(|text| migconfig::pin(text).ok());
        if pin.is_some() && demands.is_empty() {
            // Its scheduler gave it the device without a resource; its first container has it.
            let first = asked.iter().find(|asked| asked.role == Role::Main);
            demands.extend(first.map(|asked| allocate::Demand {
                container: asked.container.clone(),
                resource: allocate::GPU.into(),
                count: 0,
                load: asked.load,
            }));
        }
        let group = pod
            .labels
            .get("runai-gpu-group")
            .or_else(|| pod.annotations.get("runai-gpu"));
        Pod {
            uid: pod.uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            since: bound.since,
            ended: bound.ended,
            demands,
            pin,
            held: pod
                .annotations
                .get(allocate::HELD)
                .map_or_else(Vec::new, |text| allocate::held(text, &pod.uid)),
            reserves: pod.namespace == self.settings.reservations,
            group: group.cloned(),
            share: load(sharing(pod)),
        }
    }

    /// What a pod is to be told of its devices and is not yet.
    pub(in crate::controller) fn notes(&self, kept: &Kept, bound: &Bound) -> Labels {
        let mut notes = Labels::new();
        let Some(note) = allocate::note(&kept.ledger, &bound.pod.uid) else {
            return notes;
        };
        notes.insert(allocate::HELD.to_owned(), note);
        if bound.pod.namespace == self.settings.reservations {
            let mut places = kept.ledger.iter();
            let place = places.find(|(_, hold)| hold.uid == bound.pod.uid);
            let gpu = place.and_then(|(place, _)| kept.document.gpus.get(place.gpu as usize));
            notes.extend(gpu.map(|gpu| (RESERVED.to_owned(), gpu.id.clone())));
        }
        notes.retain(|key, value| bound.pod.annotations.get(key) != Some(value));
        notes
    }

    pub(super) fn note(&self, kept: &Kept, bound: &Bound) -> Option<Write> {
        let notes = self.notes(kept, bound);
        (!notes.is_empty()).then(|| Write::Pod {
            namespace: bound.pod.namespace.clone(),
            name: bound.pod.name.clone(),
            body: body::annotations(bound, &notes),
        })
    }

    /// What is wrong with what a pod says about its GPUs, as far as it was not told yet.
    pub(super) fn warnings(&self, kept: &Kept, bound: &Arc<Bound>, pod: &Pod) -> Vec<Write> {
        let is_plain = bound
            .pod
            .annotations
            .keys()
            .all(|key| key == allocate::HELD);
        if bound.ended || bound.pod.is_ending || (is_plain && pinned(&bound.pod).is_none()) {
            return Vec::new();
        }
        let containers: BTreeSet<&str> = pod
            .demands
            .iter()
            .map(|demand| &*demand.container)
            .collect();
        let class = self.seen.class(&bound.pod);
        let said = containers
            .into_iter()
            .flat_map(|container| activity::of(&bound.pod, container, class).1);
        let mut complaints: Vec<Complaint> = said.collect();
        if let Some(text) = pinned(&bound.pod)
            && let Err(why) = migconfig::pin(text)
        {
            let key = migconfig::DEVICE;
            complaints.push(activity::complain(
                key,
                text,
                &why.to_string(),
                "it is left out",
            ));
        }
        if let Some(text) = bound.pod.annotations.get(RUN_FOR)
            && let Err(why) = quantity::duration(text)
        {
            complaints.push(activity::complain(
                RUN_FOR,
                text,
                &why.to_string(),
                "it runs on",
            ));
        }
        // Several containers go by the same annotation.
        let complaints: BTreeSet<Complaint> = complaints.into_iter().collect();
        let warn = |complaint| kept.warning(&bound.node, &bound.pod.uid, Some(bound), complaint);
        complaints.into_iter().filter_map(warn).collect()
    }
}

/// The container that a pod's part of a shared GPU is put down to: the first that is there to stay.
pub(super) fn sharing(pod: &pod::Pod) -> Option<&pod::Container> {
    let mut containers = pod.containers.iter();
    containers.find(|container| container.role == pod::Role::App)
}

/// Which MIG device a pod was given, as its scheduler wrote it down.
fn pinned(pod: &pod::Pod) -> Option<&str> {
    let text = pod.annotations.get(migconfig::DEVICE);
    let text = text.or_else(|| pod.labels.get(migconfig::DEVICE));
    text.map(String::as_str)
}

impl Kept {
    /// What is wrong with what a node asks for, unless it was told.
    pub(super) fn node_warning(&self, node: &str, uid: &str, message: String) -> Option<Write> {
        let complaint = Complaint {
            reason: "MigConfigFailed",
            message,
        };
        self.warning(node, uid, None, complaint)
    }

    fn warning(
        &self,
        node: &str,
        uid: &str,
        bound: Option<&Arc<Bound>>,
        complaint: Complaint,
    ) -> Option<Write> {
        let warning = (uid.to_owned(), complaint);
        (!self.warned.contains(&warning)).then(|| Write::Warning {
            node: node.to_owned(),
            uid: warning.0,
            bound: bound.cloned(),
            complaint: warning.1,
        })
    }

    /// Whether a pod that has devices is about to be told that it runs.
    pub(super) fn starts(&self, bound: &Bound) -> bool {
        let pod = &bound.pod;
        let is_new = !bound.ended && !pod.is_ending && pod.phase != "Running";
        is_new
            && !self.told.contains(&pod.uid)
            && !self.failed.contains(&pod.uid)
            && self.ledger.values().any(|hold| hold.uid == pod.uid)
    }
}
