//! `cuGetProcAddress`: which function a program means by a name and the CUDA version it was built for.

use std::ffi::{CStr, c_void};

use crate::code::Fault;
use crate::exports::*;

/// A function's address, which any thread may know.
#[derive(Clone, Copy)]
pub(crate) struct Address(*const ());

// SAFETY: the address of a function, never written through.
unsafe impl Sync for Address {}

/// One exported function.
pub(crate) struct Entry {
    #[allow(dead_code, reason = "read by tests")]
    pub(crate) name: &'static CStr,
    /// The name programs ask for.
    asked: &'static CStr,
    /// CUDA version it came with.
    since: i32,
    /// Uses the thread's own default stream.
    per_thread: bool,
    address: Address,
}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

/// Only the legacy default stream.
const LEGACY: u64 = 1;
/// The thread's own default stream where there is such a function.
const PER_THREAD: u64 = 2;

/// How a search ended: `CUdriverProcAddressQueryResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Found {
    Yes = 0,
    Unknown = 1,
    TooNew = 2,
}

/// The address of the newest form of a function that a CUDA version knows; NULL when there is none.
pub(crate) fn find(
    asked: &CStr,
    version: i32,
    flags: u64,
    driver: i32,
) -> Result<(*mut c_void, Found), Fault> {
    if flags & !(LEGACY | PER_THREAD) != 0 || flags == LEGACY | PER_THREAD || version > driver {
        return Err(Fault::InvalidValue);
    }
    let mut known = ENTRIES
        .iter()
        .filter(|entry| entry.asked == asked)
        .peekable();
    if known.peek().is_none() {
        return Ok((std::ptr::null_mut(), Found::Unknown));
    }
    let wants_thread = flags == PER_THREAD;
    let newest = known
        .filter(|entry| entry.since <= version && (wants_thread || !entry.per_thread))
        .max_by_key(|entry| (entry.per_thread, entry.since, entry.name));
    Ok(match newest {
        Some(entry) => (entry.address.0.cast_mut().cast(), Found::Yes),
        None => (std::ptr::null_mut(), Found::TooNew),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: i32 = 13_000;

    fn named(asked: &CStr, version: i32, flags: u64) -> (Option<&'static CStr>, Found) {
        let (address, found) = find(asked, version, flags, DRIVER).unwrap();
        let entry = ENTRIES
            .iter()
            .find(|entry| !address.is_null() && entry.address.0 == address.cast_const().cast());
        (entry.map(|entry| entry.name), found)
    }

    #[test]
    fn the_version_chooses_the_form() {
        let total = |version| named(c"cuDeviceTotalMem", version, 0);
        assert_eq!(total(2000), (Some(c"cuDeviceTotalMem"), Found::Yes));
        assert_eq!(total(3020), (Some(c"cuDeviceTotalMem_v2"), Found::Yes));
        assert_eq!(total(1000), (None, Found::TooNew));
        assert_eq!(
            named(c"cuDeviceGetUuid", 12_000, 0),
            (Some(c"cuDeviceGetUuid_v2"), Found::Yes)
        );
        assert_eq!(named(c"cuNoSuchThing", 12_000, 0), (None, Found::Unknown));
        // The name of a form is no name to ask for.
        assert_eq!(
            named(c"cuDeviceGetUuid_v2", 12_000, 0),
            (None, Found::Unknown)
        );
    }

    #[test]
    fn streams_are_told_apart_where_it_matters() {
        let (legacy, _) = find(c"cuGetProcAddress", 12_000, LEGACY, DRIVER).unwrap();
        let (thread, _) = find(c"cuGetProcAddress", 12_000, PER_THREAD, DRIVER).unwrap();
        assert_eq!(legacy, cuGetProcAddress_v2 as *mut c_void);
        assert_eq!(thread, cuGetProcAddress_v2_ptsz as *mut c_void);
        let (same, _) = find(c"cuInit", 12_000, PER_THREAD, DRIVER).unwrap();
        assert_eq!(same, cuInit as *mut c_void);
    }

    #[test]
    fn nonsense_is_refused() {
        for (version, flags) in [(DRIVER + 10, 0), (12_000, 3), (12_000, 4)] {
            assert_eq!(
                find(c"cuInit", version, flags, DRIVER),
                Err(Fault::InvalidValue)
            );
        }
    }
}
