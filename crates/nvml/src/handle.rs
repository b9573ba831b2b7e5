//! Handles: opaque numbers that say what they mean and are checked, never followed.
//!
//! A handle is no address: its upper bits hold a mark that no mapped page can have, so a wild
//! pointer, a handle of another kind and a handle whose object is gone are all recognised.

use std::ffi::c_void;

/// A handle as C passes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(pub *mut c_void);

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A GPU.
    Gpu = 1,
    /// A MIG device.
    MigDevice = 2,
    /// A GPU instance.
    GpuInstance = 3,
    /// A compute instance.
    ComputeInstance = 4,
    /// A set of device events.
    EventSet = 5,
    /// A set of system events.
    SystemEventSet = 6,
    /// A GPM sample.
    Sample = 7,
}

/// A decoded handle: for GPU kinds `index` is the GPU on the node, for the others a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// GPU on the node, or slot.
    pub index: u16,
    /// GPU instance.
    pub gi: u8,
    /// Compute instance.
    pub ci: u8,
    /// Tells apart objects that had the same place one after another.
    pub tag: u16,
}

const MARK: u64 = 0x9E;

impl Handle {
    /// The handle of a GPU, an instance or a slot.
    pub fn new(kind: Kind, key: Key) -> Handle {
        let bits = MARK << 56
            | (kind as u64) << 48
            | u64::from(key.tag) << 32
            | u64::from(key.gi) << 24
            | u64::from(key.ci) << 16
            | u64::from(key.index);
        Handle(bits as *mut c_void)
    }

    /// What the handle says if it is of this kind.
    pub fn key(self, kind: Kind) -> Option<Key> {
        let bits = self.0 as u64;
        if bits >> 48 != MARK << 8 | kind as u64 {
            return None;
        }
        Some(Key {
            index: bits as u16,
            gi: (bits >> 24) as u8,
            ci: (bits >> 16) as u8,
            tag: (bits >> 32) as u16,
        })
    }
}

/// A short hash of bytes, for tags and for values that only need to differ from board to board.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The tag of something known by these bytes.
pub fn tag(bytes: &[u8]) -> u16 {
    let hash = hash(bytes);
    (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_back_as_its_own_kind_only() {
        let key = Key {
            index: 71,
            gi: 13,
            ci: 2,
            tag: 0xBEEF,
        };
        let handle = Handle::new(Kind::MigDevice, key);
        assert_eq!(handle.key(Kind::MigDevice), Some(key));
        assert_eq!(handle.key(Kind::Gpu), None);
    }

    #[test]
    fn pointers_and_small_numbers_are_no_handles() {
        let local = 0u8;
        for bits in [
            0,
            1,
            0xdead_beef,
            &raw const local as u64,
            u64::MAX,
            1 << 63,
        ] {
            assert_eq!(
                Handle(bits as *mut c_void).key(Kind::Gpu),
                None,
                "{bits:#x}"
            );
        }
    }
}
