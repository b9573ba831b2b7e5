//! The records of a node's state, exactly as they lie in the file and in memory.
//!
//! Every record is `repr(C)`, a whole number of 8-byte words without padding, and valid for any
//! bit pattern, so that a reader can copy it word by word from a mapping another process
//! writes. A minor version only appends fields; a reader treats what a shorter, older record lacks as
//! zero, and zero always means "not known", "none" or "off".

mod board;
mod gpu;
mod header;
mod tables;

pub use board::{Board, C2C_LINK_MBS, C2C_LINKS, ComputeProfile, GpuProfile, board_flags, vendors};
pub use gpu::{Card, Ecc, Live, Violations, flags, valid};
pub use header::{Header, MAGIC, MAJOR, MINOR, Section, SectionKind, header_flags};
pub use tables::{
    Container, Event, Holding, Instance, Process, TextRef, event_kinds, process_kinds,
};

/// A type that can be copied as raw words.
///
/// # Safety
/// The type is `repr(C)`, has no padding, its size is a multiple of 8, its alignment is at most 8, and
/// every bit pattern is a valid value.
pub unsafe trait Record: Copy + 'static {}

/// Declares records: `repr(C)`, zeroable, checked for padding and word size at compile time.
macro_rules! records {
    ($( $(#[$meta:meta])* pub struct $name:ident { $( $(#[$fmeta:meta])* pub $field:ident : $ty:ty, )* } )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name { $( $(#[$fmeta])* pub $field: $ty, )* }

        const _: () = {
            let fields = 0 $( + size_of::<$ty>() )*;
            assert!(fields == size_of::<$name>(), "a record has padding");
            assert!(size_of::<$name>() % 8 == 0, "a record is not a whole number of words");
            assert!(align_of::<$name>() <= 8, "a record is over-aligned");
        };

        // SAFETY: repr(C) integers and arrays of integers only; padding, size and alignment were
        // asserted above.
        unsafe impl $crate::layout::Record for $name {}

        impl Default for $name {
            fn default() -> Self {
                // SAFETY: every bit pattern of a record is valid, zero included.
                unsafe { std::mem::zeroed() }
            }
        }
    )* };
}
pub(crate) use records;

/// The text in a fixed, NUL-padded field; empty when it is not UTF-8.
pub fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    str::from_utf8(&bytes[..end]).unwrap_or("")
}

/// A fixed, NUL-padded field holding as much of `text` as fits with its NUL, cut at a character.
pub fn fixed<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    let mut end = text.len().min(N.saturating_sub(1));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out[..end].copy_from_slice(&text.as_bytes()[..end]);
    out
}
