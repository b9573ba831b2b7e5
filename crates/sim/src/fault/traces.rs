//! What a strike leaves behind: counters, events, a line in the kernel log, ended workloads.

use std::time::Duration;

use mirage_model::identity::Identity;
use mirage_model::plan::{DeviceRef, Fault};
use mirage_model::xid::{self, Effect};

use super::{ANNOUNCEMENT, reported_xid, row};
use crate::event::{Event, EventKind};
use crate::gpu::Gpu;
use crate::world::World;

/// Corrected errors that make a storm.
const STORM: u32 = 64;
/// NVML's extra event bits, besides the Xid itself.
const EXTRA: [EventKind; 7] = [
    EventKind::EccDouble,
    EventKind::EccStorm,
    EventKind::Retirement,
    EventKind::RetirementFailed,
    EventKind::ContainedError,
    EventKind::UncontainedError,
    EventKind::Unavailable,
];

impl World {
    /// Counters, events and casualties of one strike.
    pub(super) fn leave_traces(&mut self, device: DeviceRef, fault: &Fault, now: Duration) {
        let Some(gpu) = self.gpu(device) else { return };
        let board = gpu.board.clone();
        let shared = gpu.tasks.len() > 1;
        let number = reported_xid(fault, &board);
        if let Some(number) = number {
            self.report_xid(device, number, now, None);
        }
        let effects = row(fault, &board).map_or(&[][..], |row| &row.effects);
        let (mut kills, mut kills_all) = (false, *fault == Fault::Lost && number.is_none());
        for effect in effects {
            match effect {
                // Not yet: the Xids that follow name the same process.
                Effect::KillOne => kills = true,
                Effect::KillAll | Effect::Lost | Effect::Missing => kills_all = true,
                // Announced when the action has changed, with the old and the new one.
                Effect::Follow(154) => {}
                Effect::Follow(xid) => self.report_xid(device, *xid, now, None),
                Effect::FollowIfShared(xid) if shared => self.report_xid(device, *xid, now, None),
                Effect::FollowIfRemapping(xid) if board.row_remap_banks.is_some() => {
                    self.report_xid(device, *xid, now, None);
                }
                _ => {
                    if let Some(gpu) = self.gpu_mut(device) {
                        mark(gpu, fault, *effect);
                    }
                }
            }
        }
        if kills || kills_all {
            self.kill(device, number, now, kills_all);
        }
        if let Fault::Ecc {
            uncorrected: false,
            sram,
            count,
        } = *fault
        {
            if let Some(gpu) = self.gpu_mut(device) {
                add_ecc(gpu, false, sram, count);
            }
            self.log_event(device, EventKind::EccSingle, count, now, String::new());
        }
    }

    /// Notes an Xid in the readings and the log, with the events that come with it.
    /// `what` replaces the table's words.
    pub(super) fn report_xid(
        &mut self,
        device: DeviceRef,
        number: u32,
        now: Duration,
        what: Option<&str>,
    ) {
        let device = DeviceRef {
            instance: device.instance.filter(|_| !is_of_the_board(number)),
            ..device
        };
        let message = self.xid_line(device, number, what);
        let Some(gpu) = self.gpu_mut(device) else {
            return;
        };
        let r = &mut gpu.readings;
        // An announcement follows its cause; whoever asks for the last Xid means the cause.
        if number != ANNOUNCEMENT || r.xid == 0 {
            r.xid = number;
            r.xid_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        }
        r.xid_count = r.xid_count.saturating_add(1);
        self.log_event(device, EventKind::Xid, u64::from(number), now, message);
        let extra = xid::xid(number).map_or(0, |row| row.extra_events);
        for kind in EXTRA {
            if extra & kind.bit() != 0 {
                self.log_event(device, kind, u64::from(number), now, String::new());
            }
        }
    }

    /// What the kernel would log.
    fn xid_line(&self, device: DeviceRef, number: u32, what: Option<&str>) -> String {
        let (Some(node), Some(gpu)) = (self.nodes.get(device.node as usize), self.gpu(device))
        else {
            return String::new();
        };
        let count = u32::try_from(node.gpus.len()).unwrap_or(u32::MAX);
        let pci = Identity::of(&node.name, device.gpu, count, &gpu.board, gpu.given()).pci;
        let what = what.unwrap_or(match number {
            79 => "GPU has fallen off the bus.",
            _ => xid::xid(number).map_or("unknown error", |row| row.meaning),
        });
        let at = self.instance_ids(device);
        let who = gpu
            .tasks
            .iter()
            .find(|task| at.is_none() || task.instance == at)
            .and_then(|task| Some((task.pid, &self.slot(task.slot)?.shape.process)))
            .map_or_else(
                || "pid='<unknown>', name=<unknown>".to_owned(),
                |(pid, name)| format!("pid={pid}, name={name}"),
            );
        format!(
            "NVRM: Xid (PCI:{:04x}:{:02x}:{:02x}): {number}, {who}, {what}",
            pci.domain, pci.bus, pci.device
        )
    }

    pub(crate) fn log_event(
        &mut self,
        device: DeviceRef,
        kind: EventKind,
        data: u64,
        now: Duration,
        message: String,
    ) {
        let at = self.instance_ids(device);
        self.log.push(Event {
            time: now,
            node: device.node,
            gpu: device.gpu,
            kind,
            data,
            gi: at.map(|(gi, _)| u32::from(gi)),
            ci: at.map(|(_, ci)| u32::from(ci)),
            message,
        });
    }

    /// Ends workloads on the device: all, or the one that came first (in its instance, if it names one).
    fn kill(&mut self, device: DeviceRef, number: Option<u32>, now: Duration, all: bool) {
        let instance = self.instance_ids(device);
        let Some(gpu) = self.gpu(device) else { return };
        let mut slots: Vec<u32> = gpu
            .tasks
            .iter()
            .filter(|task| all || instance.is_none() || task.instance == instance)
            .map(|task| task.slot)
            .collect();
        if !all {
            slots.truncate(1);
        }
        let place = self.label(device);
        let reason = match number {
            Some(number) => format!("Xid {number} on {place}, terminated"),
            None => format!("device {place} lost, terminated"),
        };
        for slot in slots {
            self.end(slot, reason.clone(), 1, now);
        }
    }
}

/// Whether this Xid is about the whole board, whichever of its instances it was reported for.
fn is_of_the_board(number: u32) -> bool {
    let is = |effect: &Effect| {
        matches!(
            effect,
            Effect::KillAll
                | Effect::Lost
                | Effect::Missing
                | Effect::LinkDown
                | Effect::PowerBrake
        )
    };
    xid::xid(number).is_some_and(|row| row.effects.iter().any(is))
}

/// Counters and pending flags an effect leaves behind.
fn mark(gpu: &mut Gpu, fault: &Fault, effect: Effect) {
    let remaps = gpu.board.row_remap_banks.is_some();
    match effect {
        Effect::EccDram | Effect::EccSram => {
            let (sram, count) = match *fault {
                Fault::Ecc { sram, count, .. } => (sram, count),
                _ => (effect == Effect::EccSram, 1),
            };
            add_ecc(gpu, true, sram, count);
        }
        Effect::EccCorrected => add_ecc(gpu, false, false, u64::from(STORM)),
        Effect::RemapRow => {
            // SRAM has no spare rows.
            if matches!(fault, Fault::Ecc { sram: true, .. }) {
                return;
            }
            let correctable = matches!(
                fault,
                Fault::RowRemap {
                    uncorrectable: false,
                    ..
                }
            );
            let r = &mut gpu.readings;
            let counter = match (remaps, correctable) {
                (true, true) => &mut r.remapped_correctable,
                (true, false) => &mut r.remapped_uncorrectable,
                (false, true) => &mut r.retired_single,
                (false, false) => &mut r.retired_double,
            };
            *counter = counter.saturating_add(1);
            *(if remaps {
                &mut r.remap_pending
            } else {
                &mut r.retire_pending
            }) = true;
        }
        Effect::RemapFailed | Effect::RepairFailed if remaps => gpu.readings.remap_failed = true,
        Effect::RepairPending if remaps => gpu.readings.remap_pending = true,
        Effect::LinkErrors => {
            let r = &mut gpu.readings;
            r.nvlink_crc_errors = r.nvlink_crc_errors.saturating_add(8);
            r.nvlink_replays = r.nvlink_replays.saturating_add(4);
            r.nvlink_recoveries = r.nvlink_recoveries.saturating_add(1);
        }
        _ => {}
    }
}

/// Counts ECC errors in both lifetimes; a board with ECC off counts none.
fn add_ecc(gpu: &mut Gpu, uncorrected: bool, sram: bool, count: u64) {
    if !gpu.readings.ecc {
        return;
    }
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let r = &mut gpu.readings;
    for ecc in [&mut r.ecc_volatile, &mut r.ecc_aggregate] {
        let counter = match (uncorrected, sram) {
            (false, true) => &mut ecc.corrected_sram,
            (false, false) => &mut ecc.corrected_dram,
            (true, true) => &mut ecc.uncorrected_sram,
            (true, false) => &mut ecc.uncorrected_dram,
        };
        *counter = counter.saturating_add(count);
    }
}
