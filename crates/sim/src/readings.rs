//! Everything a surface could ask about one GPU, as integers with their unit in the name.
//! Narrow types on purpose: a fleet holds 80,000 of these.

/// Clock-event (throttle) reasons, NVML's bits.
pub mod reasons {
    /// Nothing to do.
    pub const IDLE: u32 = 0x1;
    /// Held down by application or locked clocks.
    pub const APPLICATION_CLOCKS: u32 = 0x2;
    /// Power cap.
    pub const SW_POWER_CAP: u32 = 0x4;
    /// Hardware slowdown, of either kind.
    pub const HW_SLOWDOWN: u32 = 0x8;
    /// Held to the slowest of a sync-boost group.
    pub const SYNC_BOOST: u32 = 0x10;
    /// Above the maximum operating temperature.
    pub const SW_THERMAL: u32 = 0x20;
    /// Above the slowdown temperature.
    pub const HW_THERMAL: u32 = 0x40;
    /// External power brake.
    pub const POWER_BRAKE: u32 = 0x80;
}

/// ECC errors of one lifetime, by kind and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Ecc {
    pub corrected_sram: u32,
    pub corrected_dram: u32,
    pub uncorrected_sram: u32,
    pub uncorrected_dram: u32,
}

/// Time throttled, by NVML's performance policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Violations {
    /// Power cap.
    pub power_ns: u64,
    /// Either thermal reason.
    pub thermal_ns: u64,
    /// Sync boost.
    pub sync_boost_ns: u64,
    /// Board limit (power brake).
    pub board_limit_ns: u64,
    /// Idle clocks.
    pub low_utilization_ns: u64,
    /// Reliability.
    pub reliability_ns: u64,
    /// Below application clocks, for whatever reason.
    pub app_clocks_ns: u64,
    /// Below base clocks, for whatever reason.
    pub base_clocks_ns: u64,
}

/// Time each clock-event reason was active, where the policies above do not already say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReasonTimes {
    /// Above the maximum operating temperature.
    pub sw_thermal_ns: u64,
    /// Above the slowdown temperature.
    pub hw_thermal_ns: u64,
}

/// One GPU at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readings {
    /// Memory in use in bytes, driver reserve not included.
    pub memory_used: u64,
    /// BAR1 in use in bytes.
    pub bar1_used: u64,
    /// Energy since start.
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
    /// Throttle times by policy.
    pub violations: Violations,
    /// Throttle times by reason. SW power cap, sync boost and power brake are
    /// [`Violations::power_ns`], [`Violations::sync_boost_ns`] and [`Violations::board_limit_ns`].
    pub reason_times: ReasonTimes,
    /// Simulated ns of the last Xid.
    pub xid_ns: u64,
    /// Errors since the last reset.
    pub ecc_volatile: Ecc,
    /// Errors over the board's life.
    pub ecc_aggregate: Ecc,
    /// NVLink CRC errors.
    pub nvlink_crc_errors: u32,
    /// NVLink replays.
    pub nvlink_replays: u32,
    /// NVLink recoveries.
    pub nvlink_recoveries: u32,
    /// A bit per NVLink that is up.
    pub nvlink_up: u32,
    /// PCIe replays.
    pub pcie_replays: u32,
    /// Last Xid, 0 for none yet.
    pub xid: u32,
    /// Xids so far.
    pub xid_count: u32,
    /// Clock-event reasons, see [`reasons`].
    pub reasons: u32,
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
    /// Power now.
    pub power_mw: u32,
    /// Power averaged over about a second.
    pub power_average_mw: u32,
    /// The memory's part of the power.
    pub memory_power_mw: u32,
    /// Power limit asked for.
    pub power_limit_mw: u32,
    /// Power limit in force.
    pub enforced_limit_mw: u32,
    /// Rows remapped after correctable errors.
    pub remapped_correctable: u32,
    /// Rows remapped after uncorrectable errors.
    pub remapped_uncorrectable: u32,
    /// Pages retired after single-bit errors.
    pub retired_single: u32,
    /// Pages retired after double-bit errors.
    pub retired_double: u32,
    /// Workload power profiles asked for, a bit each.
    pub profiles_requested: u32,
    /// Those of them in force.
    pub profiles_enforced: u32,
    /// NVML calls on this GPU take this much longer.
    pub api_delay_ms: u32,
    /// NVML calls on this GPU return this code; 0 for none.
    pub api_code: u32,
    /// SM clock.
    pub sm_mhz: u16,
    /// Memory clock.
    pub mem_mhz: u16,
    /// Video clock.
    pub video_mhz: u16,
    /// Application SM clock.
    pub app_sm_mhz: u16,
    /// Application memory clock.
    pub app_mem_mhz: u16,
    /// Locked SM clock, low; both 0 when not locked.
    pub lock_sm_min_mhz: u16,
    /// Locked SM clock, high.
    pub lock_sm_max_mhz: u16,
    /// Locked memory clock, low; both 0 when not locked.
    pub lock_mem_min_mhz: u16,
    /// Locked memory clock, high.
    pub lock_mem_max_mhz: u16,
    /// GPU temperature.
    pub temperature_c: i16,
    /// Memory temperature (meaningful on boards with the sensor).
    pub memory_temperature_c: i16,
    /// Degrees left before throttling ("T.Limit").
    pub margin_c: i16,
    /// Performance state, 0–15.
    pub pstate: u8,
    /// Busy, percent.
    pub gpu_percent: u8,
    /// Memory controller busy, percent.
    pub memory_percent: u8,
    /// Encoders busy, percent.
    pub encoder_percent: u8,
    /// Decoders busy, percent.
    pub decoder_percent: u8,
    /// JPEG engines busy, percent.
    pub jpeg_percent: u8,
    /// Optical-flow engines busy, percent.
    pub ofa_percent: u8,
    /// Fan speed in percent (meaningful on boards with fans).
    pub fan_percent: u8,
    /// PCIe generation now.
    pub pcie_gen: u8,
    /// PCIe width now.
    pub pcie_width: u8,
    /// `nvmlDeviceGpuRecoveryAction_t`.
    pub recovery_action: u8,
    /// `nvmlComputeMode_t`.
    pub compute_mode: u8,
    /// Fallen off the bus.
    pub lost: bool,
    /// Busy without progress.
    pub hung: bool,
    /// MIG mode is on.
    pub mig: bool,
    /// MIG mode after the next reset.
    pub mig_pending: bool,
    /// Persistence mode.
    pub persistence: bool,
    /// ECC is on.
    pub ecc: bool,
    /// ECC after the next reset.
    pub ecc_pending: bool,
    /// Accounting mode.
    pub accounting: bool,
    /// The driver asks for a reset.
    pub reset_required: bool,
    /// A row remap waits for a reset.
    pub remap_pending: bool,
    /// A row remap failed.
    pub remap_failed: bool,
    /// A page retirement waits for a reset.
    pub retire_pending: bool,
    /// The fan is set by hand.
    pub fan_manual: bool,
    /// The clock may rise above the application clock by itself (meaningful on boards where this is a setting).
    pub auto_boost: bool,
    /// The same after a reset.
    pub auto_boost_default: bool,
}
