//! What a board is: all that NVML, CUDA or an exporter can be asked about a GPU model. Nodes of one
//! model share these records in memory.

use super::records;

/// Values of [`Board::vendor`].
#[allow(missing_docs, reason = "makers")]
pub mod vendors {
    pub const NVIDIA: u32 = 0;
    pub const AMD: u32 = 1;
    pub const INTEL: u32 = 2;
}

/// Bits of [`Board::flags`].
pub mod board_flags {
    /// Temperature limits are margins (T.Limit), not absolute.
    pub const MARGIN_LIMITS: u64 = 1 << 0;
    /// Has a memory temperature sensor.
    pub const MEMORY_SENSOR: u64 = 1 << 1;
    /// Has ECC memory.
    pub const ECC: u64 = 1 << 2;
    /// ECC is on by default.
    pub const ECC_DEFAULT: u64 = 1 << 3;
    /// Remaps rows; without it pages are retired.
    pub const ROW_REMAP: u64 = 1 << 4;
    /// NVLinks end at switches.
    pub const SWITCHED: u64 = 1 << 5;
    /// Memory clock never drops.
    pub const HBM: u64 = 1 << 6;
    /// DCGM profiling series exist.
    pub const PROFILING: u64 = 1 << 7;
    /// Has a chip-to-chip link.
    pub const C2C: u64 = 1 << 8;
    /// The chip-to-chip link is on.
    pub const C2C_ENABLED: u64 = 1 << 9;
    /// Two GPUs share one board (K80).
    pub const MULTI_GPU_BOARD: u64 = 1 << 10;
    /// A rack system: platform information exists.
    pub const PLATFORM: u64 = 1 << 11;
}

/// Chip-to-chip links of a superchip.
pub const C2C_LINKS: u32 = 10;
/// Speed of each, MB/s.
pub const C2C_LINK_MBS: u32 = 44_712;

records! {
    /// A GPU model.
    pub struct Board {
        /// NVML name.
        pub name: [u8; 64],
        /// GPU Feature Discovery product.
        pub product: [u8; 64],
        /// Catalogue key.
        pub key: [u8; 32],
        /// Brand text.
        pub brand_name: [u8; 32],
        /// Architecture text.
        pub architecture_name: [u8; 32],
        /// VBIOS version.
        pub vbios: [u8; 32],
        /// Board part number.
        pub part_number: [u8; 32],
        /// GPU part number.
        pub gpu_part_number: [u8; 32],
        /// InfoROM image version.
        pub inforom_image: [u8; 16],
        /// InfoROM OEM object version.
        pub inforom_oem: [u8; 16],
        /// InfoROM ECC object version.
        pub inforom_ecc: [u8; 16],
        /// InfoROM power object version.
        pub inforom_power: [u8; 16],
        /// See [`vendors`].
        pub vendor: u32,
        /// `nvmlBrandType_t`.
        pub brand: u32,
        /// `nvmlDeviceArchitecture_t`.
        pub architecture: u32,
        /// Compute capability, major.
        pub cc_major: u32,
        /// Compute capability, minor.
        pub cc_minor: u32,
        /// Streaming multiprocessors.
        pub sm_count: u32,
        /// CUDA cores.
        pub core_count: u32,
        /// Memory bus width.
        pub memory_bus_bits: u32,
        /// Device id in the upper, vendor id in the lower half.
        pub pci_device_id: u32,
        /// Subsystem ids likewise.
        pub pci_subsystem_id: u32,
        /// Highest PCIe generation.
        pub pcie_gen_max: u32,
        /// Highest PCIe width.
        pub pcie_width_max: u32,
        /// NVLink generation, 0 without NVLink.
        pub nvlink_version: u32,
        /// Links per GPU.
        pub nvlink_links: u32,
        /// One direction, per link, MB/s.
        pub nvlink_mbs: u32,
        /// L2 cache in KiB, 0 if unknown.
        pub l2_kib: u32,
        /// Idle power.
        pub power_idle_mw: u32,
        /// Lowest settable limit.
        pub power_min_mw: u32,
        /// Default limit.
        pub power_default_mw: u32,
        /// Highest settable limit.
        pub power_max_mw: u32,
        /// Module limit on superchips, 0 elsewhere.
        pub module_power_mw: u32,
        /// Graphics/SM clocks.
        pub sm_idle_mhz: u32,
        /// Highest SM clock.
        pub sm_max_mhz: u32,
        /// Default application SM clock.
        pub sm_default_mhz: u32,
        /// Step between supported SM clocks.
        pub sm_step_mhz: u32,
        /// Lowest supported SM clock.
        pub sm_min_mhz: u32,
        /// Memory clock when idle.
        pub mem_idle_mhz: u32,
        /// Memory clock under load.
        pub mem_max_mhz: u32,
        /// Highest video clock.
        pub video_max_mhz: u32,
        /// Slowdown threshold, °C.
        pub slowdown_c: i32,
        /// Shutdown threshold, °C.
        pub shutdown_c: i32,
        /// Highest operating temperature, °C.
        pub max_operating_c: i32,
        /// Highest memory temperature, °C, 0 if unknown.
        pub memory_max_c: i32,
        /// Margin at which the board slows down (negative).
        pub margin_slowdown_c: i32,
        /// Margin at which it shuts down (negative).
        pub margin_shutdown_c: i32,
        /// Banks for row remapping.
        pub row_remap_banks: u32,
        /// Most MIG devices, 0 without MIG.
        pub max_mig_instances: u32,
        /// Memory slices MIG placements count in.
        pub memory_slices: u32,
        /// First of its GPU-instance profiles in their section.
        pub gpu_profile_first: u32,
        /// Number of its GPU-instance profiles.
        pub gpu_profile_count: u32,
        /// Fans on the board.
        pub fans: u32,
        /// Video encoders.
        pub encoders: u32,
        /// Video decoders.
        pub decoders: u32,
        /// JPEG engines.
        pub jpeg_engines: u32,
        /// Optical-flow engines.
        pub ofa_engines: u32,
        /// Copy engines.
        pub copy_engines: u32,
        /// Peak memory bandwidth, MB/s.
        pub memory_bandwidth_mbs: u32,
        /// Highest PCIe generation of the host it sits in.
        pub pcie_host_gen_max: u32,
        /// Memory kept by the driver.
        pub memory_reserved: u64,
        /// BAR1 aperture in bytes, 0 without.
        pub bar1_total: u64,
        /// See [`board_flags`].
        pub flags: u64,
        /// Workload power profiles it offers, a bit each.
        pub workload_profiles: u32,
        /// Firmware of the bridge between its GPUs, 0 without a bridge.
        pub bridge_firmware: u32,
        /// Lowest settable limit of the module on superchips, 0 elsewhere.
        pub module_min_mw: u32,
        /// NVSwitches its links are dealt out over, link by link; 0 where links end at GPUs, and in files before 1.2.
        pub nvlink_switches: u32,
        /// Priority of each workload power profile; the lower one wins.
        pub workload_priority: [u8; 32],
        /// What each workload power profile cannot go with, a bit each.
        pub workload_conflicts: [u32; 32],
    }

    /// A GPU-instance profile.
    pub struct GpuProfile {
        /// `1g.5gb+me`.
        pub name: [u8; 32],
        /// Memory in bytes.
        pub memory: u64,
        /// Bit per memory slice it may begin at.
        pub placements: u64,
        /// NVML profile index.
        pub index: u32,
        /// Id that `nvidia-smi mig -lgip` prints.
        pub id: u32,
        /// Compute slices.
        pub slices: u32,
        /// Streaming multiprocessors.
        pub sm_count: u32,
        /// Memory slices it covers.
        pub placement_size: u32,
        /// Most of it at once.
        pub max_instances: u32,
        /// Copy engines.
        pub copy_engines: u32,
        /// Decoders.
        pub decoders: u32,
        /// Encoders.
        pub encoders: u32,
        /// JPEG engines.
        pub jpeg_engines: u32,
        /// Optical-flow engines.
        pub ofa_engines: u32,
        /// 1 if peer-to-peer works.
        pub p2p: u32,
        /// First of its compute profiles in their section.
        pub compute_first: u32,
        /// Number of its compute profiles.
        pub compute_count: u32,
    }

    /// A compute-instance profile of a GPU-instance profile.
    pub struct ComputeProfile {
        /// `1c.2g.10gb`.
        pub name: [u8; 32],
        /// Bit per compute slice it may begin at.
        pub placements: u64,
        /// NVML profile index.
        pub index: u32,
        /// Profile id.
        pub id: u32,
        /// Compute slices.
        pub slices: u32,
        /// Streaming multiprocessors.
        pub sm_count: u32,
        /// Compute slices it covers.
        pub placement_size: u32,
        /// Most of it at once.
        pub max_instances: u32,
        /// Shared copy engines.
        pub shared_copy_engines: u32,
        /// Shared decoders.
        pub shared_decoders: u32,
        /// Shared encoders.
        pub shared_encoders: u32,
        /// Shared JPEG engines.
        pub shared_jpeg_engines: u32,
        /// Shared optical-flow engines.
        pub shared_ofa_engines: u32,
        /// 1 if it fills its GPU instance.
        pub whole: u32,
    }
}

impl Board {
    /// Whether a processor of its own runs firmware that the driver brings: since Turing.
    pub fn has_firmware(&self) -> bool {
        const TURING: u32 = 6;
        self.architecture >= TURING
    }
}
