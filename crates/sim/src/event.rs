//! What happened: the events NVML clients wait for and the lines a kernel log would show.

use std::collections::VecDeque;
use std::time::Duration;

/// Events kept when nobody drains them, however small the fleet; the oldest go first.
const KEPT: usize = 65_536;
/// Events one GPU may bring about at once: an Xid with what follows it, and the clocks that change.
const AT_ONCE: usize = 8;

/// What an event is about. The values are NVML's event bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum EventKind {
    /// Single-bit ECC error; data is the count.
    EccSingle = 0x1,
    /// Double-bit ECC error; data is the count.
    EccDouble = 0x2,
    /// P-state change; data is the new state.
    Pstate = 0x4,
    /// Xid; data is its number.
    Xid = 0x8,
    /// SM clock change by a limit; data is the new clock in MHz.
    Clock = 0x10,
    /// A storm of single-bit errors.
    EccStorm = 0x200,
    /// Pages retired or rows remapped.
    Retirement = 0x400,
    /// Retiring or remapping failed.
    RetirementFailed = 0x800,
    /// A contained memory error.
    ContainedError = 0x1000,
    /// An uncontained memory error.
    UncontainedError = 0x2000,
    /// The GPU became unavailable.
    Unavailable = 0x4000,
    /// The recovery action changed; data is the new one.
    Recovery = 0x8000,
    /// The MIG layout changed (not NVML's).
    Mig = 1 << 40,
}

impl EventKind {
    /// NVML's event bit.
    pub fn bit(self) -> u64 {
        self as u64
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Simulated time.
    pub time: Duration,
    /// Index of the node.
    pub node: u32,
    /// GPU on the node.
    pub gpu: u32,
    /// What it is about.
    pub kind: EventKind,
    /// Xid number and the like.
    pub data: u64,
    /// GPU instance it concerns.
    pub gi: Option<u32>,
    /// Compute instance it concerns.
    pub ci: Option<u32>,
    /// Kernel-log style line; empty where a kernel would log nothing.
    pub message: String,
}

/// Events not yet drained.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    events: VecDeque<Event>,
    /// Most that are kept.
    room: usize,
}

impl Log {
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() >= self.room.max(KEPT) {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Keeps what may happen at once in a fleet of so many GPUs.
    pub(crate) fn make_room(&mut self, gpus: usize) {
        self.room = gpus.saturating_mul(AT_ONCE);
    }

    /// Drops P-state and clock changes.
    pub(crate) fn forget_changes(&mut self) {
        self.events
            .retain(|e| !matches!(e.kind, EventKind::Pstate | EventKind::Clock));
    }

    pub(crate) fn drain(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` events a log for so many GPUs keeps.
    fn kept(gpus: usize, count: u64) -> usize {
        let mut log = Log::default();
        log.make_room(gpus);
        for data in 0..count {
            log.push(Event {
                time: Duration::ZERO,
                node: 0,
                gpu: 0,
                kind: EventKind::Xid,
                data,
                gi: None,
                ci: None,
                message: String::new(),
            });
        }
        let events = log.drain();
        assert_eq!(events.last().map(|event| event.data), Some(count - 1));
        events.len()
    }

    #[test]
    fn a_log_is_as_long_as_its_fleet_needs() {
        assert_eq!(kept(8, 70_000), KEPT);
        assert_eq!(kept(80_000, 80_000), 80_000);
        assert_eq!(kept(10_000, 90_000), 80_000);
    }
}
