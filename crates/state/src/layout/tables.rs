//! What changes in number: MIG instances, processes, containers and who holds what, and the event ring.
//! All are guarded by the header's sequence.

use super::records;

/// Values of [`Process::kind`].
#[allow(missing_docs, reason = "NVML's three lists")]
pub mod process_kinds {
    pub const COMPUTE: u32 = 0;
    pub const GRAPHICS: u32 = 1;
    pub const MPS: u32 = 2;
}

/// Values of [`Event::kind`]: NVML's event bits.
pub mod event_kinds {
    /// Single-bit ECC error.
    pub const ECC_SINGLE: u64 = 0x1;
    /// Double-bit ECC error.
    pub const ECC_DOUBLE: u64 = 0x2;
    /// P-state change.
    pub const PSTATE: u64 = 0x4;
    /// Xid.
    pub const XID: u64 = 0x8;
    /// Clock change.
    pub const CLOCK: u64 = 0x10;
    /// A storm of single-bit errors.
    pub const ECC_STORM: u64 = 0x200;
    /// Pages retired or rows remapped.
    pub const RETIREMENT: u64 = 0x400;
    /// Retiring or remapping failed.
    pub const RETIREMENT_FAILED: u64 = 0x800;
    /// A contained memory error.
    pub const CONTAINED: u64 = 0x1000;
    /// An uncontained memory error.
    pub const UNCONTAINED: u64 = 0x2000;
    /// The GPU became unavailable.
    pub const UNAVAILABLE: u64 = 0x4000;
    /// The recovery action changed.
    pub const RECOVERY: u64 = 0x8000;
    /// MIG layout changed (not NVML's).
    pub const MIG: u64 = 1 << 40;
}

records! {
    /// A piece of the text section; zero length for none.
    pub struct TextRef {
        /// Byte offset in the text section.
        pub offset: u32,
        /// Bytes.
        pub len: u32,
    }

    /// One MIG device: a compute instance in its GPU instance. A GPU instance without compute instance has one record with
    /// `ci` = `u32::MAX`.
    pub struct Instance {
        /// `MIG-…`.
        pub uuid: [u8; 48],
        /// Memory in use by the GPU instance.
        pub memory_used: u64,
        /// GPU index on the node.
        pub gpu: u32,
        /// GPU instance id.
        pub gi: u32,
        /// Compute instance id, `u32::MAX` for none.
        pub ci: u32,
        /// GPU-instance profile, index into its section.
        pub gpu_profile: u32,
        /// Compute-instance profile, index into its section.
        pub compute_profile: u32,
        /// First memory slice.
        pub start: u32,
        /// First compute slice of the compute instance inside its GPU instance.
        pub compute_start: u32,
        /// MIG device index on its GPU, `u32::MAX` for a GPU instance without compute instance.
        pub index: u32,
        /// Graphics engine active, ppm of the instance (so are all `_ppm`).
        pub gr_engine_ppm: u32,
        /// An SM has a warp.
        pub sm_active_ppm: u32,
        /// Warps resident.
        pub sm_occupancy_ppm: u32,
        /// Tensor pipe active.
        pub tensor_ppm: u32,
        /// Memory interface active.
        pub dram_ppm: u32,
        /// FP64 pipe active.
        pub fp64_ppm: u32,
        /// FP32 pipe active.
        pub fp32_ppm: u32,
        /// FP16 pipe active.
        pub fp16_ppm: u32,
    }

    /// A process on a GPU; ended ones stay for a while, for accounting.
    pub struct Process {
        /// Memory in bytes (the peak, once ended).
        pub memory: u64,
        /// Simulated Unix ms of its start.
        pub start_ms: u64,
        /// Simulated Unix ms of its end, 0 while it lives.
        pub end_ms: u64,
        /// Name.
        pub name: TextRef,
        /// Process id.
        pub pid: u32,
        /// GPU index on the node.
        pub gpu: u32,
        /// GPU instance id, `u32::MAX` without MIG.
        pub gi: u32,
        /// Compute instance id, `u32::MAX` without MIG.
        pub ci: u32,
        /// See [`process_kinds`].
        pub kind: u32,
        /// SM use, percent.
        pub sm_percent: u32,
        /// Memory-controller use, percent.
        pub memory_percent: u32,
        /// Encoder use, percent.
        pub encoder_percent: u32,
        /// Decoder use, percent.
        pub decoder_percent: u32,
        /// Index into the containers section, `u32::MAX` for none.
        pub container: u32,
        /// Highest memory so far, MiB.
        pub peak_mib: u32,
        /// Time average of SM use, percent.
        pub average_percent: u32,
    }

    /// A container that holds GPUs.
    pub struct Container {
        /// Namespace.
        pub namespace: TextRef,
        /// Pod name.
        pub pod: TextRef,
        /// Container name.
        pub name: TextRef,
        /// Pod UID.
        pub uid: TextRef,
    }

    /// One container holds (a share of) one GPU or MIG device.
    pub struct Holding {
        /// Index into the containers section.
        pub container: u32,
        /// GPU index on the node.
        pub gpu: u32,
        /// GPU instance id, `u32::MAX` for the whole GPU.
        pub gi: u32,
        /// Its share of the utilisation, percent of the GPU.
        pub gpu_percent: u32,
        /// Its memory in bytes.
        pub memory: u64,
    }

    /// An event in the ring.
    pub struct Event {
        /// Its number from 1; 0 in an empty slot. Written last.
        pub number: u64,
        /// See [`event_kinds`].
        pub kind: u64,
        /// Xid and the like.
        pub data: u64,
        /// Simulated Unix ms.
        pub unix_ms: u64,
        /// GPU index on the node.
        pub gpu: u32,
        /// GPU instance id or `u32::MAX`.
        pub gi: u32,
        /// Compute instance id or `u32::MAX`.
        pub ci: u32,
        /// Always zero.
        pub reserved: u32,
    }
}
