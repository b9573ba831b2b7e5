//! What happened: the events NVML clients wait for and the lines a kernel log would show.

use std::collections::VecDeque;
use std::time::Duration;

/// Events kept when nobody drains them; the oldest go first.
const KEPT: usize = 65_536;

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
pub(crate) struct Log(VecDeque<Event>);

impl Log {
    pub(crate) fn push(&mut self, event: Event) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// Drops P-state and clock changes.
    pub(crate) fn forget_changes(&mut self) {
        self.0
            .retain(|e| !matches!(e.kind, EventKind::Pstate | EventKind::Clock));
    }

    pub(crate) fn drain(&mut self) -> Vec<Event> {
        self.0.drain(..).collect()
    }
}
