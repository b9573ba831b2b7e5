//! The series dcgm-exporter computes itself: Xids and clock events in a window, health, peer-to-peer status.

use mirage_state::Node;
use mirage_state::layout::{event_kinds, flags, valid};

use crate::clock::{CLOCK_EVENT_NAMES, CLOCK_EVENTS};
use crate::dcgm::labels::{Entry, Labelled};
use crate::dcgm::plan::Family;
use crate::dcgm::xid;
use crate::decimal::push_uint;
use crate::device::Device;

/// The health watches in DCGM's order, and what is said of one that `Live::health` marks.
const WATCHES: [(&str, &str); 11] = [
    ("PCIE", "DCGM_FR_PCI_REPLAY_RATE"),
    ("NVLINK", "DCGM_FR_NVLINK_DOWN"),
    ("PMU", "DCGM_FR_XID_ERROR"),
    ("MCU", "DCGM_FR_XID_ERROR"),
    ("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"),
    ("SM", "DCGM_FR_XID_ERROR"),
    ("INFOROM", "DCGM_FR_CORRUPT_INFOROM"),
    ("THERMAL", "DCGM_FR_CLOCKS_EVENT_THERMAL"),
    ("POWER", "DCGM_FR_CLOCKS_EVENT_POWER"),
    ("DRIVER", "DCGM_FR_XID_ERROR"),
    ("ALL", "DCGM_FR_XID_ERROR"),
];

const NVLINK: usize = 1;
const MEM: usize = 4;
const THERMAL: usize = 7;
const POWER: usize = 8;
const DRIVER: usize = 9;
const ALL: usize = 10;

const WARN: u64 = 10;
const FAIL: u64 = 20;

/// NVML's clock-event reasons that DCGM's thermal and power watches complain about.
const HOT: u64 = 0x20 | 0x40;
const STARVED: u64 = 0x4 | 0x80;

/// What DCGM's health checks read from the fields of a GPU, apart from Xids: watch, severity, code.
fn troubles(device: &Device<'_>) -> impl Iterator<Item = (usize, u64, &'static str)> {
    let live = device.live;
    let links = device.board.nvlink_links.min(32);
    let all_links = u32::try_from((1u64 << links) - 1).unwrap_or(u32::MAX);
    let recovery = match live.recovery_action {
        0 => None,
        1 => Some("DCGM_FR_GPU_RECOVERY_RESET"),
        2 => Some("DCGM_FR_GPU_RECOVERY_REBOOT"),
        3 => Some("DCGM_FR_GPU_RECOVERY_DRAIN_P2P"),
        _ => Some("DCGM_FR_GPU_RECOVERY_DRAIN_RESET"),
    };
    let found = [
        (
            device.has(flags::LOST),
            (ALL, FAIL, "DCGM_FR_FALLEN_OFF_BUS"),
        ),
        (
            device.knows(valid::NVLINK) && live.nvlink_up & all_links != all_links,
            (NVLINK, FAIL, "DCGM_FR_NVLINK_DOWN"),
        ),
        (
            device.knows(valid::ECC)
                && device.has(flags::ECC)
                && live.ecc_volatile.uncorrected_dram != 0,
            (MEM, FAIL, "DCGM_FR_VOLATILE_DBE_DETECTED"),
        ),
        (
            device.knows(valid::REMAP) && device.has(flags::REMAP_FAILED),
            (MEM, FAIL, "DCGM_FR_ROW_REMAP_FAILURE"),
        ),
        (
            device.knows(valid::REMAP) && device.has(flags::REMAP_PENDING),
            (MEM, WARN, "DCGM_FR_PENDING_ROW_REMAP"),
        ),
        (
            device.knows(valid::RETIRED) && device.has(flags::RETIRE_PENDING),
            (MEM, WARN, "DCGM_FR_PENDING_PAGE_RETIREMENTS"),
        ),
        (
            live.reasons & HOT != 0,
            (THERMAL, WARN, "DCGM_FR_CLOCKS_EVENT_THERMAL"),
        ),
        (
            live.reasons & STARVED != 0,
            (POWER, WARN, "DCGM_FR_CLOCKS_EVENT_POWER"),
        ),
        (
            recovery.is_some(),
            (DRIVER, FAIL, recovery.unwrap_or_default()),
        ),
    ];
    found.into_iter().filter(|(is, _)| *is).map(|(_, t)| t)
}

/// Xids of a device's GPU that are at most `window` milliseconds old.
fn recent_xids<'a>(device: &Device<'a>, window: u64) -> impl Iterator<Item = u64> + use<'a> {
    let now = device.node.facts.unix_ms;
    let gpu = device.index;
    device
        .node
        .events
        .iter()
        .filter(move |e| {
            e.number != 0
                && e.kind == event_kinds::XID
                && e.gpu == gpu
                && e.unix_ms <= now
                && now - e.unix_ms < window
        })
        .map(|e| e.data)
}

/// Appends how often each Xid came in the window; one zero without `xid` when none did.
pub(crate) fn xid_window(
    family: &Family,
    labelled: &Labelled,
    entry: &Entry,
    device: &Device<'_>,
    window: u64,
    out: &mut Vec<u8>,
) {
    let mut xids: Vec<u64> = recent_xids(device, window).collect();
    xids.sort_unstable();
    let size = number(window);
    if xids.is_empty() {
        let more = [("window_size_in_ms", &*size)];
        family.with_labels(labelled, entry, &more, 0, out);
    }
    for same in xids.chunk_by(|a, b| a == b) {
        let xid = number(same[0]);
        let more = [("window_size_in_ms", &*size), ("xid", &*xid)];
        family.with_labels(labelled, entry, &more, same.len() as u64, out);
    }
}

/// Appends how many samples of the window had each clock event; one zero without `clock_event` when nobody
/// noted any.
pub(crate) fn clock_events(
    family: &Family,
    labelled: &Labelled,
    entry: &Entry,
    counts: Option<&[u32; CLOCK_EVENTS]>,
    window: u64,
    out: &mut Vec<u8>,
) {
    let size = number(window);
    let seen = counts
        .into_iter()
        .flat_map(|counts| counts.iter().zip(CLOCK_EVENT_NAMES))
        .filter(|(count, _)| **count > 0);
    let mut any = false;
    for (count, name) in seen {
        any = true;
        let more = [
            ("clock_event", name.as_bytes()),
            ("window_size_in_ms", &*size),
        ];
        family.with_labels(labelled, entry, &more, u64::from(*count), out);
    }
    if !any {
        let more = [("window_size_in_ms", &*size)];
        family.with_labels(labelled, entry, &more, 0, out);
    }
}

fn number(value: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(20);
    push_uint(&mut text, value);
    text
}

/// Appends the eleven watches: 0 passes, 10 warns, 20 fails.
pub(crate) fn health(
    family: &Family,
    labelled: &Labelled,
    entry: &Entry,
    device: &Device<'_>,
    window: u64,
    out: &mut Vec<u8>,
) {
    let mut found: [(u64, &str); WATCHES.len()] = [(0, "DCGM_FR_OK"); WATCHES.len()];
    let mut trip = |watch: usize, severity: u64, code| {
        if found[watch].0 < severity {
            found[watch] = (severity, code);
        }
    };
    for (watch, (_, code)) in WATCHES.iter().enumerate() {
        if device.live.health & (1 << watch) != 0 {
            trip(watch, WARN, code);
        }
    }
    for number in recent_xids(device, window) {
        if let Some(t) = xid::find(number).and_then(|x| x.trips.as_ref())
            && let Some(watch) = WATCHES.iter().position(|(name, _)| *name == t.watch)
        {
            trip(watch, t.severity, &t.code);
        }
    }
    for (watch, severity, code) in troubles(device) {
        trip(watch, severity, code);
    }
    for ((severity, code), (watch, _)) in found.into_iter().zip(WATCHES) {
        let more = [
            ("health_error_code", code.as_bytes()),
            ("health_watch", watch.as_bytes()),
        ];
        family.with_labels(labelled, entry, &more, severity, out);
    }
}

/// Appends the NVLink status of each GPU towards each other.
pub(crate) fn peer_to_peer(family: &Family, gpus: &Labelled, node: &Node<'_>, out: &mut Vec<u8>) {
    let devices: Vec<_> = gpus
        .entries
        .iter()
        .filter_map(|entry| Some((entry, entry.device(node)?)))
        .collect();
    for (entry, device) in &devices {
        for (_, peer) in &devices {
            if device.index == peer.index {
                continue;
            }
            let (status, text) = link_status(device, peer);
            let peer = number(peer.index.into());
            let more = [("link_status", text.as_bytes()), ("peer_gpu", &*peer)];
            family.with_labels(gpus, entry, &more, status, out);
        }
    }
}

fn link_status(a: &Device<'_>, b: &Device<'_>) -> (u64, &'static str) {
    let gone = |d: &Device<'_>| d.has(flags::LOST) || d.live.nvlink_up == 0;
    if !a.knows(valid::NVLINK) || !b.knows(valid::NVLINK) {
        (5, "NotSupported")
    } else if gone(a) || gone(b) {
        (6, "Unknown")
    } else {
        (0, "OK")
    }
}
