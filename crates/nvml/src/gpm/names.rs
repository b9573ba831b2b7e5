//! What GPM metrics are called: short name, long name, unit; in static storage.

use std::ffi::CStr;

type Names = (&'static CStr, &'static CStr, &'static CStr);

const PERCENT: &CStr = c"%";
const RATE: &CStr = c"MiB/s";

/// The names of a metric that is simulated by name.
pub(super) fn of(id: u32) -> Option<Names> {
    Some(match id {
        1 => (c"GRACT", c"Graphics Engine Activity", PERCENT),
        2 => (c"SMACT", c"SM Activity", PERCENT),
        3 => (c"SMOCC", c"SM Occupancy", PERCENT),
        4 => (c"INTACT", c"Integer Activity", PERCENT),
        5 => (c"TNSRACT", c"Tensor Activity", PERCENT),
        6 => (c"DFMAACT", c"DFMA Tensor Activity", PERCENT),
        7 => (c"HMMAACT", c"HMMA Tensor Activity", PERCENT),
        8 => (c"DMMAACT", c"DMMA Tensor Activity", PERCENT),
        9 => (c"IMMAACT", c"IMMA Tensor Activity", PERCENT),
        10 => (c"DRAMBW", c"DRAM Bandwidth Use", PERCENT),
        11 => (c"FP64ACT", c"FP64 Activity", PERCENT),
        12 => (c"FP32ACT", c"FP32 Activity", PERCENT),
        13 => (c"FP16ACT", c"FP16 Activity", PERCENT),
        20 => (c"PCITX", c"PCIe Sent", RATE),
        21 => (c"PCIRX", c"PCIe Received", RATE),
        30..=37 => (c"NVDEC", c"Decoder Activity", PERCENT),
        40..=47 => (c"NVJPG", c"JPEG Engine Activity", PERCENT),
        50..=51 => (c"NVOFA", c"Optical Flow Activity", PERCENT),
        60 => (c"NVLRX", c"NVLink Received", RATE),
        61 => (c"NVLTX", c"NVLink Sent", RATE),
        62..=97 if id.is_multiple_of(2) => (c"NVLRX", c"NVLink Received, One Link", RATE),
        62..=97 => (c"NVLTX", c"NVLink Sent, One Link", RATE),
        _ => return None,
    })
}
