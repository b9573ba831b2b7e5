//! The first bytes of a state file: what it is, how fresh, and where its sections lie.

use super::records;

/// First eight bytes of every state file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MIRAGE\x01\x00");
/// Readers refuse another major version.
pub const MAJOR: u32 = 1;
/// Grows whenever a field or section is appended, or a reserved field gets a meaning.
pub const MINOR: u32 = 2;

/// Bits of [`Header::flags`].
pub mod header_flags {
    /// A newer file has taken this one's place: open the path again.
    pub const RETIRED: u64 = 1 << 0;
    /// When the heartbeat is stale, answer with the last values instead of an idle board's.
    pub const HOLD_WHEN_STALE: u64 = 1 << 1;
    /// The node's MIG series follow the dynamic-MIG design.
    pub const DYNAMIC_MIG: u64 = 1 << 2;
    /// Written once, with no engine behind it.
    pub const STATIC: u64 = 1 << 3;
}

/// Index of a section in [`Header::sections`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "each is the plural of its record")]
pub enum SectionKind {
    Boards,
    GpuProfiles,
    ComputeProfiles,
    Cards,
    Lives,
    Instances,
    Processes,
    Containers,
    Holdings,
    Events,
    Text,
}

records! {
    /// Where a section lies and how its records are spaced.
    pub struct Section {
        /// Bytes from the start of the file; a multiple of 8.
        pub offset: u64,
        /// Bytes from one record to the next.
        pub stride: u32,
        /// Records that are true now. The events section is a ring: always its capacity.
        pub count: u32,
        /// Records there is room for.
        pub capacity: u32,
        /// Always zero.
        pub reserved: u32,
    }

    /// Header of a node.
    pub struct Header {
        /// [`MAGIC`].
        pub magic: u64,
        /// [`MAJOR`].
        pub major: u32,
        /// [`MINOR`] of the writer.
        pub minor: u32,
        /// Bytes of this header, sections included.
        pub header_len: u32,
        /// Sections the writer knows.
        pub section_count: u32,
        /// Bytes of the whole file.
        pub file_len: u64,
        /// Odd while a tick is being written: guards every section at once.
        pub seq: u64,
        /// Differs each time an engine starts anew.
        pub epoch: u64,
        /// Kernel boot the heartbeat belongs to.
        pub boot_id: [u8; 16],
        /// `CLOCK_BOOTTIME` of the last tick in ns; 0 in a static file.
        pub heartbeat_ns: u64,
        /// Wall-clock milliseconds between ticks.
        pub period_ms: u64,
        /// See [`header_flags`].
        pub flags: u64,
        /// Ticks so far.
        pub tick: u64,
        /// Simulated milliseconds since the start.
        pub sim_ms: u64,
        /// Unix time of the last tick in ms, simulated clock.
        pub unix_ms: u64,
        /// Events ever written; the next goes to this number modulo the ring's size.
        pub event_head: u64,
        /// CUDA version as NVML encodes it, 12040.
        pub cuda_version: u32,
        /// 0 none, 1 single, 2 mixed.
        pub mig_strategy: u32,
        /// Node name.
        pub node: [u8; 256],
        /// Driver version.
        pub driver: [u8; 80],
        /// Sections in the order of [`SectionKind`], with room for later ones.
        pub sections: [Section; 16],
    }
}

impl Header {
    /// The section of a kind.
    pub fn section(&self, kind: SectionKind) -> &Section {
        &self.sections[kind as usize]
    }
}
