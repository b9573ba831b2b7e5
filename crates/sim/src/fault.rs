//! Faults: when they strike, what they do to a device, and how they heal.
//!
//! A fault that only leaves traces (an application's Xid, corrected ECC errors, a remapped row) is over as soon as it
//! has struck; one that lasts is active until it heals by itself, by input, or by a reset
//! where a reset helps.

use std::time::Duration;

use mirage_model::board::{Board, C2c, Vendor};
use mirage_model::plan::{DeviceRef, Fault, FaultPlan, When};
use mirage_model::xid::{self, Effect, Only, Recovery, Xid};

use crate::chance::{Seed, mix, stream};

mod ailing;
mod ledger;
mod strike;
mod traces;

pub(crate) use ledger::Ledger;

/// Strikes of one chance fault on one device in one short stretch, at most.
const STRIKES_AT_ONCE: usize = 16;
/// From this architecture on a hang is Xid 109; before, 8.
const AMPERE: u32 = 7;
const BLACKWELL: u32 = 10;
/// The Xid by which newer drivers announce a changed recovery action.
const ANNOUNCEMENT: u32 = 154;

/// A fault that has struck one device.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultState {
    /// Its id, never used twice in a world.
    pub id: u64,
    /// Where.
    pub device: DeviceRef,
    /// What.
    pub fault: Fault,
    /// Since when, simulated.
    pub since: Duration,
    /// When it heals by itself.
    pub heals_at: Option<Duration>,
    /// Still there; `false` once healed.
    pub active: bool,
    /// Named by the plan rather than injected or brought about by heat.
    pub planned: bool,
}

/// A fault still to come, as others see it.
#[derive(Debug, Clone, Copy)]
pub struct PendingFault<'w> {
    /// Its id, never used twice in a world; what strikes gets one of its own.
    pub id: u64,
    /// As written.
    pub plan: &'w FaultPlan,
    /// Those of its devices that nobody healed.
    pub devices: &'w [DeviceRef],
    /// When it strikes next, simulated; by chance, the first of its devices.
    pub next: Duration,
    /// Named by the plan rather than injected.
    pub planned: bool,
}

/// A fault still to come.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// As written: a reload knows it by this.
    pub(crate) plan: FaultPlan,
    /// Those of its devices that nobody healed.
    pub(crate) devices: Vec<DeviceRef>,
    /// Named by the plan rather than injected.
    pub(crate) planned: bool,
    due: Due,
}

#[derive(Debug, Clone)]
enum Due {
    At(Duration),
    Every {
        next: Duration,
        period: Duration,
    },
    /// Next strike and number of draws, for each device.
    Chance(Vec<(Duration, u32)>),
    Over,
}

impl Schedule {
    /// A fault whose times count from `origin`. `number` tells its chances from other faults'.
    pub(crate) fn new(
        plan: &FaultPlan,
        origin: Duration,
        planned: bool,
        seed: &Seed,
        number: u64,
        name_of: impl Fn(DeviceRef) -> Option<u64>,
    ) -> Self {
        let due = match plan.when {
            When::At(at) => Due::At(origin.saturating_add(at)),
            When::Every { period, first } => Due::Every {
                next: origin.saturating_add(first),
                period,
            },
            When::Rate(per_hour) if per_hour > 0.0 => Due::Chance(
                plan.devices
                    .iter()
                    .map(|device| {
                        let stream = mix(name_of(*device).unwrap_or(0) ^ number);
                        (origin.saturating_add(seed.gap(stream, 0, per_hour)), 1)
                    })
                    .collect(),
            ),
            When::Rate(_) => Due::Over,
        };
        Self {
            plan: plan.clone(),
            devices: plan.devices.clone(),
            planned,
            due,
        }
    }

    /// Takes devices out of it.
    pub(crate) fn spare(&mut self, which: impl Fn(&DeviceRef) -> bool) {
        if let Due::Chance(next) = &mut self.due {
            let mut spared = self.devices.iter().map(&which);
            next.retain(|_| !spared.next().unwrap_or(false));
        }
        self.devices.retain(|d| !which(d));
        if self.devices.is_empty() {
            self.due = Due::Over;
        }
    }

    /// What there is to see of it, if anything will come of it.
    pub(crate) fn pending(&self, id: u64) -> Option<PendingFault<'_>> {
        let next = match &self.due {
            Due::At(next) | Due::Every { next, .. } => *next,
            Due::Chance(devices) => devices.iter().map(|(next, _)| *next).min()?,
            Due::Over => return None,
        };
        Some(PendingFault {
            id,
            plan: &self.plan,
            devices: &self.devices,
            next,
            planned: self.planned,
        })
    }

    /// Nothing more will come of it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.due, Due::Over)
    }

    /// Calls `strike` for every device struck up to and including `until`.
    pub(crate) fn poll(
        &mut self,
        until: Duration,
        seed: &Seed,
        number: u64,
        name_of: impl Fn(DeviceRef) -> Option<u64>,
        mut strike: impl FnMut(DeviceRef),
    ) {
        match &mut self.due {
            Due::Over => {}
            Due::At(at) => {
                if *at <= until {
                    self.devices.iter().for_each(|d| strike(*d));
                    self.due = Due::Over;
                }
            }
            Due::Every { next, period } => {
                if *next <= until {
                    self.devices.iter().for_each(|d| strike(*d));
                    // Periods shorter than a stretch strike once per stretch.
                    let behind = until.saturating_sub(*next).as_nanos();
                    let periods = behind / period.as_nanos().max(1) + 1;
                    let periods = u32::try_from(periods).unwrap_or(u32::MAX);
                    *next = next.saturating_add(period.saturating_mul(periods));
                }
            }
            Due::Chance(devices) => {
                let When::Rate(per_hour) = self.plan.when else {
                    return;
                };
                for (device, (next, draws)) in self.devices.iter().zip(devices) {
                    for _ in 0..STRIKES_AT_ONCE {
                        if *next > until {
                            break;
                        }
                        strike(*device);
                        let stream = mix(name_of(*device).unwrap_or(0) ^ number);
                        *next = next.saturating_add(seed.gap(stream, *draws, per_hour));
                        *draws = draws.wrapping_add(1);
                    }
                }
            }
        }
    }
}

/// The Xid a fault reports on this board, if it reports one.
pub(crate) fn reported_xid(fault: &Fault, board: &Board) -> Option<u32> {
    if board.vendor != Vendor::Nvidia {
        return None;
    }
    let number = match fault {
        Fault::Xid(number) => *number,
        Fault::Lost => 79,
        Fault::Hang if board.architecture_code >= AMPERE => 109,
        Fault::Hang => 8,
        Fault::LinkDown(_) if board.architecture_code >= BLACKWELL => 149,
        Fault::LinkDown(_) => 74,
        Fault::Ecc {
            uncorrected: true, ..
        } => 48,
        Fault::RowRemap { failed: true, .. } => 64,
        Fault::RowRemap { .. } => 63,
        _ => return None,
    };
    Some(number)
}

/// The Xid's row in the table.
pub(crate) fn row(fault: &Fault, board: &Board) -> Option<&'static Xid> {
    xid::xid(reported_xid(fault, board)?)
}

/// Why `fault` cannot happen on `board`, if it cannot.
pub(crate) fn impossible(fault: &Fault, board: &Board) -> Option<String> {
    let name = &board.name;
    match fault {
        Fault::Xid(_) if board.vendor != Vendor::Nvidia => Some(format!("{name} reports no Xids")),
        Fault::Xid(number) => match xid::xid(*number)?.only {
            Only::Any => None,
            Only::Blackwell => (board.architecture_code < BLACKWELL)
                .then(|| format!("{name} comes before Xid {number}")),
            Only::BeforeBlackwell => (board.architecture_code >= BLACKWELL)
                .then(|| format!("{name} reports link errors by later Xids than {number}")),
            Only::ChipToChip => {
                (board.c2c == C2c::Absent).then(|| format!("{name} has no chip-to-chip link"))
            }
        },
        Fault::LinkDown(_) => board
            .nvlink
            .is_none()
            .then(|| format!("{name} has no NVLink")),
        Fault::Ecc { .. } => board.ecc.is_none().then(|| format!("{name} has no ECC")),
        Fault::Cooling(factor) => {
            (!factor.is_finite() || *factor <= 0.0).then(|| format!("{factor} is no factor"))
        }
        _ => None,
    }
}

/// Whether the fault stays after it has struck.
pub(crate) fn lasts(fault: &Fault, board: &Board) -> bool {
    match fault {
        Fault::Xid(_) | Fault::Ecc { .. } | Fault::RowRemap { .. } => row(fault, board)
            .is_some_and(|row| {
                row.recovery != Recovery::None
                    || row.effects.iter().any(|effect| {
                        matches!(
                            effect,
                            Effect::Hang
                                | Effect::Lost
                                | Effect::Missing
                                | Effect::LinkDown
                                | Effect::PowerBrake
                                | Effect::ClocksStuck
                                | Effect::SlowApi
                                | Effect::RefuseWork
                                | Effect::RemapFailed
                                | Effect::RepairFailed
                        )
                    })
            }),
        _ => true,
    }
}

/// Whether a reset of the device mends the fault.
pub(crate) fn reset_mends(fault: &Fault, board: &Board) -> bool {
    match fault {
        Fault::Hang | Fault::Ecc { .. } | Fault::RowRemap { .. } => true,
        Fault::Xid(_) => row(fault, board).is_none_or(|row| {
            row.recovery != Recovery::NodeReboot && !row.effects.contains(&Effect::PowerBrake)
        }),
        _ => false,
    }
}

/// Whether the fault leaves a board on which remapping rows has failed, which no reset mends.
pub(crate) fn fails_remapping(fault: &Fault, board: &Board) -> bool {
    let fails = |effect: &Effect| matches!(effect, Effect::RemapFailed | Effect::RepairFailed);
    row(fault, board).is_some_and(|row| row.effects.iter().any(fails))
}

/// The stream of a device for chances, from its place in the plan.
pub(crate) fn device_stream(node: &str, device: DeviceRef) -> u64 {
    stream(node, device.gpu as usize)
}
