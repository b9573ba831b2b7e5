//! MIG layouts that a cluster asks for: read, placed on a board, and answered.
//!
//! Asked for in the `run.ai/mig.config` annotation or label (a document, in two generations of its form), or by name in the
//! `nvidia.com/mig.config` label, whose names are those of mig-parted's usual configuration. The answer is the
//! `run.ai/mig-mapping` annotation, by which a scheduler learns the devices' ids, and
//! `nvidia.com/mig.config.state`. A pod names its device in `runai-mig-device`.

mod mapping;
mod named;
mod read;
#[cfg(test)]
mod tests;

pub use mapping::{Ids, Mapped, Mapping, pin};
pub use named::named;
pub use read::{pick, read};

use std::collections::BTreeMap;

use mirage_model::board::Board;
use mirage_model::identity::instance_uuid;
use mirage_model::mig::Placed;
use mirage_model::mig::name::canonical;
use mirage_state::Image;
use mirage_state::layout::Instance;

use crate::cluster::pod::Pod;
use crate::topology::{Mig, Status};
use crate::{Error, Result};

/// The layout a node is asked to have, as a document.
pub const CONFIG: &str = "run.ai/mig.config";
/// The devices a node has, as the answer.
pub const MAPPING: &str = "run.ai/mig-mapping";
/// The layout a node is asked to have, by name.
pub const NAMED: &str = "nvidia.com/mig.config";
/// How far the node is: `pending`, `success` or `failed`.
pub const STATE: &str = "nvidia.com/mig.config.state";
/// The device a scheduler chose for a pod.
pub const DEVICE: &str = "runai-mig-device";
/// Node roles that say a node's MIG devices come and go; both must be `true`.
pub const ROLES: [&str; 2] = [
    "node-role.kubernetes.io/runai-dynamic-mig",
    "node-role.kubernetes.io/runai-mig-enabled",
];

/// Whether a node's MIG devices come and go as its scheduler asks, by its labels.
pub fn is_dynamic(labels: &BTreeMap<String, String>) -> bool {
    let has = |role: &&str| labels.get(*role).is_some_and(|value| value == "true");
    ROLES.iter().all(has)
}

/// The MIG device of a node that a pod's scheduler names, by annotation or label.
pub fn chosen<'a>(pod: &Pod, image: &'a Image) -> Option<&'a Instance> {
    let named = pod
        .annotations
        .get(DEVICE)
        .or_else(|| pod.labels.get(DEVICE))?;
    let place = pin(named).ok()?;
    let mut instances = image.instances.iter();
    instances
        .find(|one| one.gpu == place.gpu && Some(one.start) == place.start && one.index != u32::MAX)
}

/// What every GPU of a node is asked to be like; those it does not name stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// For all GPUs that are not named below.
    pub all: Option<Cut>,
    /// By index.
    pub gpus: BTreeMap<u32, Cut>,
}

/// What one GPU is asked to be like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cut {
    /// MIG mode.
    pub enabled: bool,
    /// Devices, in the order they are made.
    pub devices: Vec<Wanted>,
}

/// A MIG device that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Profile, `1g.5gb`.
    pub profile: String,
    /// First memory slice; chosen as the driver would when absent.
    pub position: Option<u32>,
}

/// A MIG device that has its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Profile as the driver names it.
    pub profile: String,
    /// The id `nvidia-smi mig -lgip` prints for it.
    pub profile_id: u32,
    /// First memory slice.
    pub start: u32,
    /// Id of the GPU instance.
    pub instance: u32,
}

impl Layout {
    /// What is asked of one GPU.
    pub fn of(&self, gpu: u32) -> Option<&Cut> {
        self.gpus.get(&gpu).or(self.all.as_ref())
    }
}

impl Cut {
    /// Places the devices on a board, in order, as its driver would. Refused as a whole if one does not fit.
    pub fn place(&self, board: &Board) -> Result<Vec<Device>> {
        let refuse = |why: String| Error::Mig {
            board: board.key.clone(),
            why,
        };
        if !self.enabled {
            return Ok(Vec::new());
        }
        let Some(geometry) = &board.mig else {
            return Err(refuse("it cannot do MIG".into()));
        };
        let mut placed = Vec::new();
        let mut devices = Vec::new();
        for wanted in &self.devices {
            let profile = geometry.profile_by_name(&wanted.profile).ok_or_else(|| {
                let known: Vec<&str> = geometry
                    .profiles
                    .iter()
                    .map(|profile| &*profile.name)
                    .collect();
                let name = crate::error::printable(&wanted.profile);
                refuse(format!(
                    "it has no profile `{name}`, only {}",
                    known.join(", ")
                ))
            })?;
            let start = match wanted.position {
                Some(start) => {
                    let possible = geometry.possible_placements(&placed, profile);
                    possible.contains(&start).then_some(start).ok_or_else(|| {
                        refuse(format!("`{}` cannot begin at slice {start}", profile.name))
                    })?
                }
                None => geometry
                    .place(&placed, profile)
                    .ok_or_else(|| refuse(format!("no room is left for `{}`", profile.name)))?,
            };
            placed.push(Placed {
                profile_id: profile.id,
                start,
            });
            devices.push(Device {
                profile: profile.name.clone(),
                profile_id: profile.id,
                start,
                instance: geometry.instance_id(profile, start),
            });
        }
        Ok(devices)
    }
}

impl Device {
    /// The id the device has on this GPU.
    pub fn uuid(&self, gpu: &str) -> String {
        instance_uuid(gpu, self.instance, 0)
    }
}

/// The topology's list of a GPU's MIG devices: named by the layout, with ids once the mapping tells them, matched by position.
pub fn topology(devices: &[Device], mapping: Option<&[Mapped]>) -> Vec<Mig> {
    let listed = devices.iter().map(|device| Mig {
        id: mapping.and_then(|mapped| {
            let same = mapped
                .iter()
                .find(|mapped| mapped.position == device.start)?;
            Some(same.uuid.clone())
        }),
        name: canonical(&device.profile).into_owned(),
        position: Some(device.start),
        status: Status::default(),
    });
    listed.collect()
}
