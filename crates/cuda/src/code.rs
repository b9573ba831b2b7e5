//! The driver's result codes: those given here, and the names and texts of all.

use std::ffi::CStr;

include!(concat!(env!("OUT_DIR"), "/results.rs"));

/// `CUDA_SUCCESS`.
pub const SUCCESS: u32 = 0;
/// `CUDA_ERROR_NOT_SUPPORTED`: what everything answers that would need hardware.
pub const NOT_SUPPORTED: u32 = 801;

/// What may go wrong here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    InvalidValue,
    NotInitialized,
    NoDevice,
    InvalidDevice,
    InvalidContext,
    NotFound,
    DriverMismatch,
    Unknown,
}

/// How an answer ends.
pub(crate) type Answer = Result<(), Fault>;

impl Fault {
    /// Its `CUresult`.
    pub(crate) fn code(self) -> u32 {
        match self {
            Fault::InvalidValue => 1,
            Fault::NotInitialized => 3,
            Fault::NoDevice => 100,
            Fault::InvalidDevice => 101,
            Fault::InvalidContext => 201,
            Fault::NotFound => 500,
            Fault::DriverMismatch => 803,
            Fault::Unknown => 999,
        }
    }
}

fn find(code: u32) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
    let at = RESULTS.binary_search_by_key(&code, |(known, ..)| *known);
    at.ok().map(|at| &RESULTS[at])
}

/// The name of a code.
pub(crate) fn name(code: u32) -> Option<&'static CStr> {
    find(code).map(|(_, name, _)| *name)
}

/// What a code means.
pub(crate) fn text(code: u32) -> Option<&'static CStr> {
    find(code).map(|(.., text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_texts() {
        assert!(RESULTS.is_sorted_by_key(|(code, ..)| *code));
        assert_eq!(name(SUCCESS), Some(c"CUDA_SUCCESS"));
        assert_eq!(name(NOT_SUPPORTED), Some(c"CUDA_ERROR_NOT_SUPPORTED"));
        assert_eq!(text(100), Some(c"no CUDA-capable device is detected"));
        assert_eq!(name(12345), None);
        for fault in [
            Fault::InvalidValue,
            Fault::NotInitialized,
            Fault::NoDevice,
            Fault::InvalidDevice,
            Fault::InvalidContext,
            Fault::NotFound,
            Fault::DriverMismatch,
            Fault::Unknown,
        ] {
            assert!(name(fault.code()).is_some(), "{fault:?}");
        }
    }
}
