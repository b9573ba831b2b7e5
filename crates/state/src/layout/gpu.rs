//! One GPU: who it is (`Card`, fixed while the file lives) and what it is doing (`Live`, written each
//! tick under the record's own seqlock).

use super::records;

/// Bits of [`Live::flags`].
pub mod flags {
    /// Fallen off the bus.
    pub const LOST: u64 = 1 << 0;
    /// Busy without progress.
    pub const HUNG: u64 = 1 << 1;
    /// MIG mode is on.
    pub const MIG: u64 = 1 << 2;
    /// MIG mode after the next reset.
    pub const MIG_PENDING: u64 = 1 << 3;
    /// Persistence mode.
    pub const PERSISTENCE: u64 = 1 << 4;
    /// ECC is on.
    pub const ECC: u64 = 1 << 5;
    /// ECC after the next reset.
    pub const ECC_PENDING: u64 = 1 << 6;
    /// Accounting mode.
    pub const ACCOUNTING: u64 = 1 << 7;
    /// Needs a reset.
    pub const RESET_REQUIRED: u64 = 1 << 8;
    /// A row remap waits for a reset.
    pub const REMAP_PENDING: u64 = 1 << 9;
    /// A row remap failed.
    pub const REMAP_FAILED: u64 = 1 << 10;
    /// A page retirement waits for a reset.
    pub const RETIRE_PENDING: u64 = 1 << 11;
    /// The SRAM error threshold was passed.
    pub const SRAM_THRESHOLD: u64 = 1 << 12;
    /// The fan is set by hand.
    pub const FAN_MANUAL: u64 = 1 << 13;
    /// The clock may rise above the application clock by itself (Kepler).
    pub const AUTO_BOOST: u64 = 1 << 14;
    /// ... and will after a reset.
    pub const AUTO_BOOST_DEFAULT: u64 = 1 << 15;
}

/// Bits of [`Live::valid`]: groups of quantities this board has. A clear bit reads as "not supported" in
/// NVML and as an absent series in exporters.
pub mod valid {
    /// GPU and memory utilisation (not under MIG).
    pub const UTILIZATION: u64 = 1 << 0;
    /// Memory temperature.
    pub const MEMORY_TEMPERATURE: u64 = 1 << 1;
    /// Profiling ratios.
    pub const PROFILING: u64 = 1 << 2;
    /// NVLink traffic and errors.
    pub const NVLINK: u64 = 1 << 3;
    /// Fan speed.
    pub const FAN: u64 = 1 << 4;
    /// ECC counters.
    pub const ECC: u64 = 1 << 5;
    /// Remapped rows.
    pub const REMAP: u64 = 1 << 6;
    /// Retired pages.
    pub const RETIRED: u64 = 1 << 7;
    /// An Xid has happened.
    pub const XID: u64 = 1 << 8;
    /// Encoder utilisation.
    pub const ENCODER: u64 = 1 << 9;
    /// Decoder utilisation.
    pub const DECODER: u64 = 1 << 10;
    /// Average power.
    pub const AVERAGE_POWER: u64 = 1 << 11;
    /// Memory power.
    pub const MEMORY_POWER: u64 = 1 << 12;
    /// Module power.
    pub const MODULE_POWER: u64 = 1 << 13;
    /// T.Limit margin.
    pub const MARGIN: u64 = 1 << 14;
    /// Energy counter.
    pub const ENERGY: u64 = 1 << 15;
    /// JPEG engine utilisation.
    pub const JPEG: u64 = 1 << 16;
    /// Optical-flow engine utilisation.
    pub const OFA: u64 = 1 << 17;
}

records! {
    /// Who a GPU is.
    pub struct Card {
        /// `GPU-…`, as the config gave it or derived.
        pub uuid: [u8; 48],
        /// Serial number.
        pub serial: [u8; 16],
        /// Chassis serial on rack systems.
        pub chassis: [u8; 16],
        /// Total memory in bytes.
        pub memory_total: u64,
        /// Index into the boards section.
        pub board: u32,
        /// Minor number of its device node.
        pub minor: u32,
        /// PCI domain.
        pub pci_domain: u32,
        /// PCI bus.
        pub pci_bus: u32,
        /// PCI device.
        pub pci_device: u32,
        /// NUMA node, -1 if unknown.
        pub numa: i32,
        /// NVML board id, shared by GPUs of one board.
        pub board_id: u32,
        /// Module id.
        pub module_id: u32,
        /// Slot number on rack systems.
        pub slot: u32,
        /// Tray index on rack systems.
        pub tray: u32,
        /// Fabric clique.
        pub clique: u32,
        /// `nvmlGpuFabricState_t`, 0 unsupported.
        pub fabric_state: u32,
        /// Fabric cluster UUID.
        pub cluster: [u8; 16],
    }

    /// Time spent throttled, ns, by NVML's performance policies.
    pub struct Violations {
        /// Power cap.
        pub power_ns: u64,
        /// Thermal.
        pub thermal_ns: u64,
        /// Sync boost.
        pub sync_boost_ns: u64,
        /// Board limit (power brake included).
        pub board_limit_ns: u64,
        /// Low utilisation.
        pub low_utilization_ns: u64,
        /// Reliability.
        pub reliability_ns: u64,
        /// Below application clocks.
        pub app_clocks_ns: u64,
        /// Below base clocks.
        pub base_clocks_ns: u64,
    }

    /// ECC counters of one lifetime.
    pub struct Ecc {
        /// Corrected, SRAM.
        pub corrected_sram: u64,
        /// Corrected, device memory.
        pub corrected_dram: u64,
        /// Uncorrected, SRAM.
        pub uncorrected_sram: u64,
        /// Uncorrected, device memory.
        pub uncorrected_dram: u64,
    }

    /// What a GPU is doing.
    pub struct Live {
        /// Odd while the record is being written.
        pub seq: u64,
        /// See [`valid`].
        pub valid: u64,
        /// See [`flags`].
        pub flags: u64,
        /// Clock-event (throttle) reasons, NVML's bits.
        pub reasons: u64,
        /// Memory in use, driver reserve not included.
        pub memory_used: u64,
        /// BAR1 in use.
        pub bar1_used: u64,
        /// Energy since start, mJ.
        pub energy_mj: u64,
        /// PCIe bytes sent per second.
        pub pcie_tx_bps: u64,
        /// PCIe bytes received per second.
        pub pcie_rx_bps: u64,
        /// PCIe bytes sent since start.
        pub pcie_tx_bytes: u64,
        /// PCIe bytes received since start.
        pub pcie_rx_bytes: u64,
        /// NVLink bytes sent per second, all links.
        pub nvlink_tx_bps: u64,
        /// NVLink bytes received per second, all links.
        pub nvlink_rx_bps: u64,
        /// NVLink bytes sent since start, all links.
        pub nvlink_tx_bytes: u64,
        /// NVLink bytes received since start, all links.
        pub nvlink_rx_bytes: u64,
        /// Throttle times.
        pub violations: Violations,
        /// Errors since the last reset.
        pub ecc_volatile: Ecc,
        /// Errors over the board's life.
        pub ecc_aggregate: Ecc,
        /// NVLink CRC errors.
        pub nvlink_crc_errors: u64,
        /// NVLink replays.
        pub nvlink_replays: u64,
        /// NVLink recoveries.
        pub nvlink_recoveries: u64,
        /// Simulated Unix ms of the last Xid.
        pub xid_unix_ms: u64,
        /// Xids so far.
        pub xid_count: u64,
        /// PCIe replays.
        pub pcie_replays: u64,
        /// Last Xid.
        pub xid: u32,
        /// Performance state, 0–15.
        pub pstate: u32,
        /// Busy, percent.
        pub gpu_percent: u32,
        /// Memory controller busy, percent.
        pub memory_percent: u32,
        /// Encoder busy, percent.
        pub encoder_percent: u32,
        /// Decoder busy, percent.
        pub decoder_percent: u32,
        /// JPEG engines busy, percent.
        pub jpeg_percent: u32,
        /// Optical-flow engine busy, percent.
        pub ofa_percent: u32,
        /// Graphics engine active, parts per million (so are all `_ppm`).
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
        /// Integer pipe active.
        pub int_ppm: u32,
        /// SM clock.
        pub sm_mhz: u32,
        /// Memory clock.
        pub mem_mhz: u32,
        /// Video clock.
        pub video_mhz: u32,
        /// Application SM clock.
        pub app_sm_mhz: u32,
        /// Application memory clock.
        pub app_mem_mhz: u32,
        /// Locked SM clock, low; 0 when not locked.
        pub lock_sm_min_mhz: u32,
        /// Locked SM clock, high.
        pub lock_sm_max_mhz: u32,
        /// Locked memory clock, low; 0 when not locked.
        pub lock_mem_min_mhz: u32,
        /// Locked memory clock, high.
        pub lock_mem_max_mhz: u32,
        /// Power now, mW.
        pub power_mw: u32,
        /// Power averaged over a second, mW.
        pub power_average_mw: u32,
        /// Memory power, mW.
        pub memory_power_mw: u32,
        /// Module power, mW.
        pub module_power_mw: u32,
        /// Power limit asked for, mW.
        pub power_limit_mw: u32,
        /// Power limit in force, mW.
        pub enforced_limit_mw: u32,
        /// GPU temperature, °C.
        pub temperature_c: i32,
        /// Memory temperature, °C.
        pub memory_temperature_c: i32,
        /// Degrees left before throttling.
        pub margin_c: i32,
        /// Fan speed, percent.
        pub fan_percent: u32,
        /// PCIe generation now.
        pub pcie_gen: u32,
        /// PCIe width now.
        pub pcie_width: u32,
        /// Bit per NVLink that is up.
        pub nvlink_up: u32,
        /// Rows remapped after correctable errors.
        pub remapped_correctable: u32,
        /// Rows remapped after uncorrectable errors.
        pub remapped_uncorrectable: u32,
        /// Pages retired after single-bit errors.
        pub retired_single: u32,
        /// Pages retired after double-bit errors.
        pub retired_double: u32,
        /// `nvmlDeviceGpuRecoveryAction_t`.
        pub recovery_action: u32,
        /// `nvmlComputeMode_t`.
        pub compute_mode: u32,
        /// NVML calls on this GPU take this much longer, ms.
        pub api_delay_ms: u32,
        /// NVML calls on this GPU return this code; 0 for none.
        pub api_code: u32,
        /// Health trouble beyond Xids, a bit per DCGM watch.
        pub health: u32,
        /// Workload power profiles asked for, a bit each.
        pub profiles_requested: u32,
        /// Those of them in force.
        pub profiles_enforced: u32,
        /// Time slowed down by software for heat, ns; with the next, [`Violations::thermal_ns`] by reason.
        pub sw_thermal_ns: u64,
        /// Time slowed down by hardware for heat, ns.
        pub hw_thermal_ns: u64,
    }
}

impl Card {
    /// Its interrupt line: one per minor number, past those a machine keeps for itself.
    pub fn irq(&self) -> u32 {
        self.minor.saturating_add(96)
    }
}
