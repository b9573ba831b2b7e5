//! NVML's return codes: the one place where a refusal becomes a number, and a number becomes text.

use std::ffi::CStr;

/// Why a call is refused. [`Fault::code`] is the only way to an `nvmlReturn_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after NVML's codes")]
pub enum Fault {
    Uninitialized,
    InvalidArgument,
    NotSupported,
    NoPermission,
    NotFound,
    InsufficientSize,
    DriverNotLoaded,
    Timeout,
    GpuIsLost,
    InUse,
    NoData,
    NotReady,
    InsufficientResources,
    VersionMismatch,
    /// A code decided elsewhere: by the engine, or by an injected fault.
    Code(u32),
    Unknown,
}

/// What every call comes to.
pub type Answer = Result<(), Fault>;

impl Fault {
    /// The number a C caller sees.
    pub fn code(self) -> u32 {
        match self {
            Fault::Uninitialized => 1,
            Fault::InvalidArgument => 2,
            Fault::NotSupported => 3,
            Fault::NoPermission => 4,
            Fault::NotFound => 6,
            Fault::InsufficientSize => 7,
            Fault::DriverNotLoaded => 9,
            Fault::Timeout => 10,
            Fault::GpuIsLost => 15,
            Fault::InUse => 19,
            Fault::NoData => 21,
            Fault::InsufficientResources => 23,
            Fault::NotReady => 27,
            Fault::VersionMismatch => 25,
            Fault::Code(code) => code,
            Fault::Unknown => 999,
        }
    }
}

/// The sentence for a code, in static storage; unknown codes share one.
pub fn sentence(code: u32) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"The requested vgpu operation is not available on target device, because ECC is enabled",
        23 => c"Insufficient Resources",
        24 => c"Frequency Not Supported",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not Ready",
        28 => c"GPU not found",
        29 => c"Invalid state",
        30 => c"Reset type not supported",
        _ => c"Unknown Error",
    }
}
