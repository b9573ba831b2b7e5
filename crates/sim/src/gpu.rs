//! One GPU: its board, its readings, and the little state that has to outlive a step.
//! Kept compact on purpose: a fleet has 80,000 of them.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::board::Board;
use mirage_model::plan::{GivenGpu, GpuPlan};

use crate::activity::Position;
use crate::mig::{Compute, Instance, Mig};
use crate::readings::Readings;

/// One simulated GPU.
#[derive(Debug, Clone)]
pub struct Gpu {
    pub(crate) board: Arc<Board>,
    pub(crate) given: Option<Arc<GivenGpu>>,
    pub(crate) readings: Readings,
    /// What runs on it, in order of arrival.
    pub(crate) tasks: Vec<Task>,
    pub(crate) mig: Option<Box<Mig>>,
    /// Its random stream.
    pub(crate) stream: u64,
    pub(crate) heat: Heat,
    pub(crate) ailments: Ailments,
    /// Cooling factor set by hand.
    pub(crate) cooling: f32,
    /// Application clocks were set, so they bind.
    pub(crate) app_clocks_set: bool,
}

/// One workload's presence on one device.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// Slot of its workload.
    pub(crate) slot: u32,
    pub(crate) pid: u32,
    pub(crate) memory: u64,
    pub(crate) peak_memory: u64,
    pub(crate) started: Duration,
    /// Shares 0–1 it got, of the device or of its instance.
    pub(crate) busy: f32,
    pub(crate) band: f32,
    pub(crate) link: f32,
    /// Share of the device's load that is its own, for what the board only measures as a whole.
    pub(crate) part: f32,
    /// Time integrals of `busy` and `band`, seconds.
    pub(crate) busy_s: f32,
    pub(crate) band_s: f32,
    pub(crate) position: Position,
    /// GPU and compute instance it runs in.
    pub(crate) instance: Option<(u8, u8)>,
}

/// Clock and temperature state between steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heat {
    pub(crate) die_c: f64,
    pub(crate) memory_c: f32,
    /// Highest SM clock the thermal governor allows now.
    pub(crate) cap_mhz: f32,
    /// Seconds the clock stays up without load.
    pub(crate) hold_s: f32,
    pub(crate) average_w: f32,
    /// How far this slot sits above the others.
    pub(crate) offset_c: f32,
    /// Above the slowdown temperature, and not yet cool enough again.
    pub(crate) slowed: bool,
}

/// What active faults do to a device, beside what readings show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ailments {
    pub(crate) cooling: f32,
    pub(crate) links_down: u32,
    pub(crate) brake: bool,
    pub(crate) clocks_stuck: bool,
    /// New work is refused.
    pub(crate) refuses: bool,
}

impl Default for Ailments {
    fn default() -> Self {
        Self {
            cooling: 1.0,
            links_down: 0,
            brake: false,
            clocks_stuck: false,
            refuses: false,
        }
    }
}

/// Whole number from a board's figure, whatever the figure.
pub(crate) fn milli(value: f64) -> u32 {
    (value * 1000.0).round() as u32
}

/// A clock as readings carry it.
pub(crate) fn mhz(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

impl Gpu {
    /// GPU `index` of node `node`, idle since long ago.
    pub(crate) fn new(node: &str, index: usize, plan: &GpuPlan) -> Self {
        let board = plan.board.clone();
        let offset = if index % 2 == 1 {
            board.slot_offset_c
        } else {
            0.0
        };
        let rest =
            board.thermal.inlet_c + offset + board.thermal.resistance_c_per_w * board.power.idle_w;
        let ecc = board.ecc.unwrap_or(false);
        let readings = Readings {
            power_limit_mw: milli(board.power.default_w),
            enforced_limit_mw: milli(board.power.default_w),
            app_sm_mhz: mhz(board.clocks.sm_default_mhz),
            app_mem_mhz: mhz(board.clocks.mem_max_mhz),
            persistence: true,
            auto_boost: true,
            auto_boost_default: true,
            ecc,
            ecc_pending: ecc,
            ..Readings::default()
        };
        Self {
            readings,
            given: plan.given.clone(),
            tasks: Vec::new(),
            mig: None,
            stream: crate::chance::stream(node, index),
            heat: Heat {
                die_c: rest,
                memory_c: rest as f32,
                cap_mhz: board.clocks.sm_max_mhz as f32,
                average_w: board.power.idle_w as f32,
                offset_c: offset as f32,
                ..Heat::default()
            },
            ailments: Ailments::default(),
            cooling: 1.0,
            app_clocks_set: false,
            board,
        }
    }

    /// Its model.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// What the config gives instead of derived identity.
    pub fn given(&self) -> Option<&GivenGpu> {
        self.given.as_deref()
    }

    /// Everything a surface could be asked about it.
    pub fn readings(&self) -> &Readings {
        &self.readings
    }

    /// Its GPU instances in order of creation; empty without MIG.
    pub fn instances(&self) -> &[Instance] {
        self.mig.as_ref().map_or(&[], |mig| &mig.instances)
    }

    /// Its MIG devices (compute instances with their GPU instance) in the order NVML numbers them:
    /// the position here is what `DeviceRef::instance` means.
    pub fn mig_devices(&self) -> impl Iterator<Item = (&Instance, &Compute)> {
        self.instances()
            .iter()
            .flat_map(|gi| gi.compute.iter().map(move |ci| (gi, ci)))
    }

    /// Bytes workloads may hold: what the driver does not keep back.
    pub fn memory_capacity(&self) -> u64 {
        self.board.memory_usable_mib().saturating_mul(1 << 20)
    }

    /// Adds a task without the slack a growing vector would take.
    pub(crate) fn push_task(&mut self, task: Task) {
        self.tasks.reserve_exact(1);
        self.tasks.push(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadState;

    /// Fleets are promised at most 700 bytes per GPU with a workload on it; a workload of its own for
    /// every GPU comes on top.
    #[test]
    fn a_gpu_with_a_task_stays_small() {
        assert!(size_of::<Gpu>() + size_of::<Task>() <= 600);
        assert!(size_of::<WorkloadState>() <= 160);
    }
}
