//! Faults of the device plugin, from the engine's list of faults: which devices are struck, and how their resource
//! misbehaves for it.
//!
//! | Fault | What happens |
//! |---|---|
//! | `unhealthy` | the device is told as unhealthy |
//! | `missing`, `vanish` | the device is not told at all |
//! | `flap` | the device is unhealthy and healthy in turn |
//! | `allocate-error`, `allocate-slow`, `allocate-wrong` | containers that are given the device suffer |
//! | `die`, `hang`, `disconnect`, `late`, `wrong-version`, `socket-removed` | the whole resource of the device suffers |

use std::collections::HashSet;
use std::time::Duration;

use mirage_k8s::deviceplugin::Mischief;
use mirage_model::plan::Fault;
use mirage_sim::FaultState;
use mirage_state::Image;

use super::inventory::{Kind, Unit};

/// How late a late plugin registers.
pub(super) const LATE: Duration = Duration::from_secs(10);
/// How slow a slow answer is.
pub(super) const SLOW: Duration = Duration::from_secs(10);
/// How often a device that flaps turns.
pub(super) const FLAP: Duration = Duration::from_secs(1);

/// One fault of the plugin on one device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Strike {
    gpu: u32,
    /// GPU instance id; the whole GPU with all its instances without.
    gi: Option<u32>,
    what: String,
}

/// All active faults of the plugin, and which GPUs are broken in any other way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Faults {
    strikes: HashSet<Strike>,
    /// GPUs with a fault that an Xid may have told of.
    pub(super) broken: Vec<u32>,
}

impl Faults {
    /// Those of node number `node`.
    pub(super) fn of<'a>(
        faults: impl IntoIterator<Item = &'a FaultState>,
        node: u32,
        image: &Image,
    ) -> Self {
        let mut all = Self::default();
        for fault in faults {
            if !fault.active || fault.device.node != node {
                continue;
            }
            let gpu = fault.device.gpu;
            match &fault.fault {
                Fault::DevicePlugin(what) => {
                    let gi = fault.device.instance.map(|at| instance(image, gpu, at));
                    let what = what.clone();
                    all.strikes.insert(Strike { gpu, gi, what });
                }
                Fault::Xid(_)
                | Fault::Ecc { .. }
                | Fault::Lost
                | Fault::Hang
                | Fault::LinkDown(_)
                | Fault::RowRemap { .. } => all.broken.push(gpu),
                Fault::Cooling(_) | Fault::PowerBrake | Fault::SlowApi(_) | Fault::FailApi(_) => {}
            }
        }
        all
    }

    /// Whether a device is struck by a fault of this name.
    pub(super) fn strikes(&self, unit: &Unit, what: &str) -> bool {
        self.strikes.iter().any(|strike| {
            strike.what == what
                && strike.gpu == unit.gpu
                && strike
                    .gi
                    .is_none_or(|gi| unit.instance.is_some_and(|it| it.0 == gi))
        })
    }

    /// Whether any device flaps.
    pub(super) fn flaps(&self) -> bool {
        self.strikes.iter().any(|strike| strike.what == "flap")
    }

    /// How a resource misbehaves: as its devices are struck. One without devices of its own suffers with any.
    pub(super) fn mischief(&self, kind: &Kind) -> Mischief {
        let any = |what: &str| match kind.units.is_empty() {
            true => self.strikes.iter().any(|strike| strike.what == what),
            false => kind.units.iter().any(|unit| self.strikes(unit, what)),
        };
        Mischief {
            dies: any("die"),
            hangs: any("hang"),
            late: any("late").then_some(LATE),
            wrong_version: any("wrong-version"),
            disconnects: any("disconnect"),
            unlinked: any("socket-removed"),
        }
    }
}

/// The id of a GPU's instance, by its position among them.
fn instance(image: &Image, gpu: u32, position: u32) -> u32 {
    let mut seen = Vec::new();
    for instance in image.instances.iter().filter(|it| it.gpu == gpu) {
        if !seen.contains(&instance.gi) {
            seen.push(instance.gi);
        }
    }
    // One that is not there strikes nothing.
    seen.get(position as usize).copied().unwrap_or(u32::MAX)
}
