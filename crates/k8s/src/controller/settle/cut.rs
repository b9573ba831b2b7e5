//! How a node's GPUs are cut: as its cluster asks for it, or as its pool says. A GPU in use keeps its cut until it is free.

use std::sync::Arc;

use mirage_model::plan::{GivenGpu, GivenInstance, NodePlan};

use crate::controller::seen::Node;
use crate::migconfig::{self, Cut, Device, Ids, Mapped, Mapping, Wanted};
use crate::topology;

/// What is said back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The devices' ids.
    pub(super) mapping: Option<String>,
    /// How far it is.
    pub(super) state: Option<&'static str>,
    /// Why it cannot be done.
    pub(super) problem: Option<String>,
}

/// Whether a node's roles say that its MIG devices come and go.
pub(super) fn is_dynamic(node: &Node) -> bool {
    let is = |role: &str| node.labels.get(role).is_some_and(|value| value == "true");
    migconfig::ROLES.into_iter().all(is)
}

/// How the GPUs of a node were cut, and which of them are in use.
pub(super) struct Before<'a> {
    pub(super) document: Option<&'a topology::Node>,
    pub(super) in_use: &'a dyn Fn(u32) -> bool,
}

/// How the GPUs of a node are to be cut.
pub(super) struct Layout {
    asked: Option<Result<migconfig::Layout, String>>,
    /// As it stands on the node.
    shown: String,
    /// The answer has ids in it, for the scheduler that asked.
    maps: bool,
}

impl Layout {
    /// As the node's annotations and labels ask for it.
    pub(super) fn of(node: &Node, plan: &NodePlan) -> Layout {
        let either = |key: &str| node.annotations.get(key).or_else(|| node.labels.get(key));
        if is_dynamic(node)
            && let Some(text) = either(migconfig::CONFIG)
        {
            return Layout {
                asked: Some(migconfig::read(text).map_err(|error| error.to_string())),
                shown: migconfig::CONFIG.to_owned(),
                maps: true,
            };
        }
        let board = plan.gpus.first().map(|gpu| &gpu.board);
        let asked = node.labels.get(migconfig::NAMED).zip(board);
        let shown = asked.map_or_else(String::new, |(name, _)| {
            format!("{}={name}", migconfig::NAMED)
        });
        let asked = asked
            .map(|(name, board)| migconfig::named(name, board).map_err(|error| error.to_string()));
        Layout {
            asked,
            shown,
            maps: false,
        }
    }

    /// Cuts the node's GPUs: in its plan, and in its document.
    pub(super) fn cut(
        &self,
        mut plan: NodePlan,
        document: &mut topology::Node,
        before: &Before<'_>,
        node: &Node,
        ids: Ids,
    ) -> (NodePlan, Answer) {
        let told = node.annotations.get(migconfig::MAPPING);
        let told = told.or_else(|| node.labels.get(migconfig::MAPPING));
        let told = told
            .and_then(|text| Mapping::read(text).ok())
            .unwrap_or_default();
        let mut mapping = Mapping::default();
        let mut problem = match &self.asked {
            Some(Err(why)) => Some(why.clone()),
            _ => None,
        };
        let mut waits = false;
        for (index, gpu) in (0u32..).zip(&mut plan.gpus) {
            let Some(shown) = document.gpus.get_mut(index as usize) else {
                break;
            };
            let asked = match &self.asked {
                Some(Ok(layout)) => layout.of(index).cloned(),
                _ => None,
            };
            let asked = asked.or_else(|| given(gpu.given.as_deref()));
            let old = before.document.and_then(|old| old.gpus.get(index as usize));
            let standing = || given_by(old?.mig.as_ref()?).place(&gpu.board).ok();
            let devices = match asked
                .as_ref()
                .map(|cut| (cut.enabled, cut.place(&gpu.board)))
            {
                // What cannot be understood changes nothing.
                _ if matches!(self.asked, Some(Err(_))) => standing(),
                None | Some((false, _)) => None,
                Some((true, Ok(devices))) => Some(devices),
                Some((true, Err(why))) => {
                    problem.get_or_insert_with(|| format!("GPU {index}: {why}"));
                    standing()
                }
            };
            let cut = devices.as_ref().map(|devices| {
                let told = told.0.get(&index).map(Vec::as_slice);
                let told = told.filter(|told| self.maps && speaks_of(told, devices, &shown.id));
                let mut listed = migconfig::topology(devices, told);
                if !self.maps {
                    for (device, listed) in devices.iter().zip(&mut listed) {
                        listed.id = Some(device.uuid(&shown.id));
                    }
                }
                listed
            });
            let shape = |mig: &Option<Vec<topology::Mig>>| -> Option<Vec<(String, Option<u32>)>> {
                let list = mig.as_ref()?.iter();
                Some(
                    list.map(|device| (device.name.clone(), device.position))
                        .collect(),
                )
            };
            if let Some(old) = old
                && shape(&old.mig) != shape(&cut)
                && (before.in_use)(index)
            {
                // It is drained first.
                waits = true;
                shown.mig.clone_from(&old.mig);
            } else {
                shown.mig = cut;
                if let (true, Some(devices)) = (self.maps, &devices) {
                    mapping.add(index, &shown.id, devices, ids);
                }
            }
            let instances = shown.mig.as_ref().map(|list| {
                let list = list.iter().map(|device| GivenInstance {
                    profile: device.name.clone(),
                    start: device.position,
                    uuid: None,
                });
                list.collect::<Vec<_>>()
            });
            let mut facts = gpu.given.as_deref().cloned().unwrap_or_default();
            facts.mig = instances;
            gpu.given = (facts != GivenGpu::default()).then(|| Arc::new(facts));
        }
        let state = if self.asked.is_none() {
            None
        } else if problem.is_some() {
            Some("failed")
        } else if waits {
            Some("pending")
        } else {
            Some("success")
        };
        // Devices that stayed because nothing could be made of what is asked have their ids still.
        let is_told = problem.is_none() || !mapping.0.is_empty();
        let answer = Answer {
            mapping: (self.maps && is_told).then(|| mapping.write()),
            state,
            problem: problem.map(|why| format!("{}: {why}", self.shown)),
        };
        (plan, answer)
    }
}

/// Whether a mapping is one of these devices of a GPU, and not of those that were there before.
fn speaks_of(told: &[Mapped], devices: &[Device], gpu: &str) -> bool {
    let same = |(told, device): (&Mapped, &Device)| {
        told.position == device.start && told.uuid == device.uuid(gpu)
    };
    told.len() == devices.len() && told.iter().zip(devices).all(same)
}

/// The cut that a GPU has.
fn given_by(devices: &[topology::Mig]) -> Cut {
    let devices = devices.iter().map(|device| Wanted {
        profile: device.name.clone(),
        position: device.position,
    });
    Cut {
        enabled: true,
        devices: devices.collect(),
    }
}

/// The cut that a config gives a GPU.
fn given(given: Option<&GivenGpu>) -> Option<Cut> {
    let instances = given?.mig.as_ref()?.iter();
    let devices = instances.map(|instance| Wanted {
        profile: instance.profile.clone(),
        position: instance.start,
    });
    Some(Cut {
        enabled: true,
        devices: devices.collect(),
    })
}
