//! NVML's C structs as they lie in the caller's memory, and the few constants that go with them.
//! Every size is asserted; versioned structs know their version word.

use std::ffi::c_char;

use crate::arg::Versioned;
use crate::handle::Handle;

/// Declares C structs with their size and, where they begin with one, their version.
macro_rules! c_structs {
    ($( $(#[$meta:meta])* $name:ident [$size:literal $(v $version:literal)?] { $( $field:ident : $ty:ty, )* } )*) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        #[allow(missing_docs, reason = "fields as in NVML's documentation")]
        pub struct $name { $( pub $field: $ty, )* }
        const _: () = assert!(size_of::<$name>() == $size);
        $( impl Versioned for $name { const WORD: u32 = $version << 24 | $size; } )?
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: integers, arrays of them and raw pointers only: zero is a value of each.
                unsafe { std::mem::zeroed() }
            }
        }
    )* };
}

c_structs! {
    /// The first form of PCI information.
    PciInfoV1 [32] { bus_id: [u8; 16], domain: u32, bus: u32, device: u32, device_id: u32, }
    /// The second form.
    PciInfoV2 [36] { bus_id: [u8; 16], domain: u32, bus: u32, device: u32, device_id: u32, subsystem_id: u32, }
    /// PCI information of today.
    PciInfo [68] { bus_id_legacy: [u8; 16], domain: u32, bus: u32, device: u32, device_id: u32, subsystem_id: u32, bus_id: [u8; 32], }
    /// PCI information with class codes.
    PciInfoExt [64 v 1] { version: u32, domain: u32, bus: u32, device: u32, device_id: u32, subsystem_id: u32, base_class: u32, sub_class: u32, bus_id: [u8; 32], }
    /// Memory, first form: the driver's reserve counts as used.
    Memory [24] { total: u64, free: u64, used: u64, }
    /// Memory with the reserve apart.
    MemoryV2 [40 v 2] { version: u32, pad: u32, total: u64, reserved: u64, free: u64, used: u64, }
    /// BAR1 aperture.
    Bar1Memory [24] { total: u64, free: u64, used: u64, }
    /// Utilisation in percent.
    Utilization [8] { gpu: u32, memory: u32, }
    /// A process, first form.
    ProcessV1 [16] { pid: u32, pad: u32, memory: u64, }
    /// A process with its instance.
    Process [24] { pid: u32, pad: u32, memory: u64, gi: u32, ci: u32, }
    /// A process with protected memory.
    ProcessDetail [32] { pid: u32, pad: u32, memory: u64, gi: u32, ci: u32, protected: u64, }
    /// A list of the latter.
    ProcessDetailList [24 v 1] { version: u32, mode: u32, count: u32, pad: u32, entries: *mut ProcessDetail, }
    /// What a MIG device has.
    DeviceAttributes [40] { sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, gi_slices: u32, ci_slices: u32, memory_mib: u64, }
    /// How full the row remapper's banks are.
    RowRemapperHistogram [20] { max: u32, high: u32, partial: u32, low: u32, none: u32, }
    /// Remapped rows, second form.
    RemappedRows [24] { corrected_active: u32, corrected_inactive: u32, uncorrected_active: u32, uncorrected_inactive: u32, pending: u32, failed: u32, }
    /// A sample; the value is a union of eight bytes.
    Sample [16] { time_us: u64, value: u64, }
    /// Time spent throttled.
    ViolationTime [16] { reference_us: u64, violation_ns: u64, }
    /// One thermal sensor.
    ThermalSensor [20] { controller: i32, default_min: i32, default_max: i32, current: i32, target: i32, }
    /// Thermal sensors.
    ThermalSettings [64] { count: u32, sensors: [ThermalSensor; 3], }
    /// A cooler.
    CoolerInfo [16 v 1] { version: u32, index: u32, signal: u32, target: u32, }
    /// A UUID to look up.
    Uuid [52 v 1] { version: u32, kind: u32, value: [u8; 41], pad: [u8; 3], }
    /// Per-device identifier.
    Pdi [16 v 1] { version: u32, pad: u32, value: u64, }
    /// T.Limit margin.
    MarginTemperature [8 v 1] { version: u32, margin: i32, }
    /// Temperature by sensor.
    Temperature [12 v 1] { version: u32, sensor: u32, temperature: i32, }
    /// Fan speed in RPM.
    FanSpeedInfo [12 v 1] { version: u32, fan: u32, speed: u32, }
    /// A long text with a version: performance modes, clock frequencies.
    LongText [2052 v 1] { version: u32, text: [u8; 2048], }
    /// Clock monitor faults.
    ClkMonStatus [264] { global: u32, count: u32, list: [[u32; 2]; 32], }
    /// Utilisation of a process.
    ProcessUtilization [32] { pid: u32, pad: u32, time_us: u64, sm: u32, memory: u32, encoder: u32, decoder: u32, }
    /// Utilisation of a process, newer form.
    ProcessUtilizationInfo [40] { time_us: u64, pid: u32, sm: u32, memory: u32, encoder: u32, decoder: u32, jpeg: u32, ofa: u32, pad: u32, }
    /// A list of the latter.
    ProcessesUtilization [24 v 1] { version: u32, count: u32, last_seen_us: u64, entries: *mut ProcessUtilizationInfo, }
    /// ECC counters by place.
    EccErrorCounts [32] { l1: u64, l2: u64, device_memory: u64, register_file: u64, }
    /// SRAM errors.
    EccSramStatus [104 v 1] { version: u32, pad: u32, aggregate_parity: u64, aggregate_secded: u64, aggregate_corrected: u64, volatile_parity: u64, volatile_secded: u64, volatile_corrected: u64, bucket_l2: u64, bucket_sm: u64, bucket_pcie: u64, bucket_mcu: u64, bucket_other: u64, threshold_exceeded: u32, pad2: u32, }
    /// Where SRAM errors sit.
    EccSramUnique [16 v 1] { version: u32, count: u32, entries: *mut [u32; 7], }
    /// Where a GPU sits in a rack.
    PlatformInfo [44 v 2] { version: u32, ib_guid: [u8; 16], chassis_serial: [u8; 16], slot: u8, tray: u8, host: u8, peer_type: u8, module: u8, pad: [u8; 3], }
    /// Where a GPU sits in a rack, first form.
    PlatformInfoV1 [44 v 1] { version: u32, ib_guid: [u8; 16], rack_guid: [u8; 16], slot: u8, compute_slot: u8, node: u8, peer_type: u8, module: u8, pad: [u8; 3], }
    /// Utilisation domains.
    DynamicPstates [132] { flags: u32, domains: [[u32; 4]; 8], }
    /// A power value with its scope.
    PowerValue [12 v 2] { version: u32, scope: u32, milliwatts: u32, }
    /// One asked-for field.
    FieldValue [40] { id: u32, scope: u32, time_us: i64, latency_us: i64, kind: u32, code: u32, value: u64, }
    /// A device event as before MIG.
    EventDataV1 [24] { device: Handle, kind: u64, data: u64, }
    /// A device event.
    EventData [32] { device: Handle, kind: u64, data: u64, gi: u32, ci: u32, }
    /// Making a system event set.
    SystemSetRequest [16 v 1] { version: u32, pad: u32, set: Handle, }
    /// Registering for system events.
    SystemRegisterRequest [24 v 1] { version: u32, pad: u32, kinds: u64, set: Handle, }
    /// A system event.
    SystemEventData [16] { kind: u64, gpu: u32, pad: u32, }
    /// Waiting for system events.
    SystemWaitRequest [32 v 1] { version: u32, timeout_ms: u32, set: Handle, data: *mut SystemEventData, room: u32, count: u32, }
    /// What a process used.
    AccountingStats [56] { gpu_percent: u32, memory_percent: u32, max_memory: u64, time_ms: u64, start_us: u64, running: u32, reserved: [u32; 5], }
    /// What a process used, newer form.
    AccountingStatsV2 [64] { pid: u32, running: u32, gpu_percent: u32, memory_percent: u32, max_memory: u64, samples: u32, pad: u32, gpu_sum: u64, memory_sum: u64, time_ms: u64, start_us: u64, }
    /// Frame-buffer capture.
    FbcStats [12] { sessions: u32, fps: u32, latency: u32, }
    /// Confidential-computing abilities.
    ConfidentialCaps [8] { cpu: u32, gpus: u32, }
    /// Confidential-computing state.
    ConfidentialState [12] { environment: u32, feature: u32, dev_tools: u32, }
    /// Confidential-computing settings.
    ConfidentialSettings [20 v 1] { version: u32, environment: u32, feature: u32, dev_tools: u32, multi_gpu: u32, }
    /// Protected and plain memory.
    ConfidentialMemory [16] { protected_kib: u64, plain_kib: u64, }
    /// Fabric, first form.
    FabricInfo [28] { cluster: [u8; 16], status: u32, clique: u32, state: u32, }
    /// Fabric, second form.
    FabricInfoV2 [36 v 2] { version: u32, cluster: [u8; 16], status: u32, clique: u32, state: u32, health: u32, }
    /// Fabric, third form.
    FabricInfoV3 [40 v 3] { version: u32, cluster: [u8; 16], status: u32, clique: u32, state: u32, health: u32, summary: u8, pad: [u8; 3], }
    /// Fabric, fourth form: several cliques.
    FabricInfoV4 [548] { cluster: [u8; 16], status: u32, cliques: [[u32; 2]; 64], count: u32, state: u32, health: u32, summary: u8, pad: [u8; 3], }
    /// Driver branch.
    DriverBranch [84 v 1] { version: u32, branch: [u8; 80], }
    /// A size of NVLink bandwidth modes.
    NvlinkBwModes [28 v 1] { version: u32, modes: [u8; 23], count: u8, }
    /// NVLink bandwidth mode.
    NvlinkBwMode [12 v 1] { version: u32, best: u32, mode: u8, pad: [u8; 3], }
    /// NVLink, first form.
    NvlinkInfo [8 v 1] { version: u32, encryption: u32, }
    /// An excluded device.
    ExcludedDevice [148] { pci: PciInfo, uuid: [u8; 80], }
    /// Where an instance may lie.
    Placement [8] { start: u32, size: u32, }
    /// GPU-instance profile.
    GpuProfileInfo [48] { id: u32, p2p: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, memory_mib: u64, }
    /// GPU-instance profile, second form.
    GpuProfileInfoV2 [152 v 2] { version: u32, id: u32, p2p: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, pad: u32, memory_mib: u64, name: [u8; 96], }
    /// GPU-instance profile, third form.
    GpuProfileInfoV3 [152 v 3] { version: u32, id: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, memory_mib: u64, name: [u8; 96], capabilities: u32, pad: u32, }
    /// A GPU instance.
    GpuInstanceInfo [24] { device: Handle, id: u32, profile_id: u32, placement: Placement, }
    /// Compute-instance profile.
    ComputeProfileInfo [36] { id: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, }
    /// Compute-instance profile, second form.
    ComputeProfileInfoV2 [136 v 2] { version: u32, id: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, name: [u8; 96], }
    /// Compute-instance profile, third form.
    ComputeProfileInfoV3 [140 v 3] { version: u32, id: u32, slices: u32, instances: u32, sm_count: u32, copy_engines: u32, decoders: u32, encoders: u32, jpegs: u32, ofas: u32, name: [u8; 96], capabilities: u32, }
    /// A compute instance.
    ComputeInstanceInfo [32] { device: Handle, gpu_instance: Handle, id: u32, profile_id: u32, placement: Placement, }
    /// One GPM metric.
    GpmMetric [40] { id: u32, code: u32, value: f64, short_name: *const c_char, long_name: *const c_char, unit: *const c_char, }
    /// The head of a GPM request; the metrics follow it.
    GpmRequest [24] { version: u32, count: u32, first: Handle, second: Handle, }
    /// Whether GPM works.
    GpmSupport [8] { version: u32, supported: u32, }
    /// What a device can do.
    DeviceCapabilities [8 v 1] { version: u32, mask: u32, }
    /// Address translation.
    AddressingMode [8 v 1] { version: u32, mode: u32, }
    /// Repairs that wait.
    RepairStatus [12 v 1] { version: u32, channel: u32, tpc: u32, }
    /// Workload power profiles: each with its version word, number, priority and conflicts.
    ProfilesInfo [11256 v 1] { version: u32, offered: [u32; 8], profiles: [[u32; 11]; 255], }
    /// Workload power profiles of now.
    CurrentProfiles [100 v 1] { version: u32, offered: [u32; 8], requested: [u32; 8], enforced: [u32; 8], }
    /// Workload power profiles to ask for.
    RequestedProfiles [36 v 1] { version: u32, mask: [u32; 8], }
    /// Workload power profiles to ask for, and how.
    UpdateProfiles [36] { operation: u32, mask: [u32; 8], }
    /// A parameter of a power-smoothing profile.
    SmoothingProfile [24 v 1] { version: u32, profile: u32, parameter: u32, pad: u32, value: f64, }
    /// Power smoothing on or off.
    SmoothingState [8 v 1] { version: u32, on: u32, }
    /// Bridge chips between a board's GPUs: how many, and of each its type and firmware.
    BridgeChips [1028] { count: u8, pad: [u8; 3], chips: [[u32; 2]; 128], }
    /// License features; none are licensable on a machine that is not virtualised.
    GridFeatures [860] { supported: u32, count: u32, features: [[u32; 71]; 3], }
    /// One PRM counter.
    PrmCounter [24] { id: u32, port: u32, code: u32, kind: u32, value: u64, }
    /// PRM counters.
    PrmCounterList [16] { count: u32, pad: u32, counters: *mut PrmCounter, }
    /// The newest event wait.
    EventWaitV3 [224] { timeout_ms: u32, data_type: u32, uuid: [u8; 96], source: [u8; 16], kind: u64, data: u64, cursor: u64, instance: u64, time_us: u64, trace: u64, gi: u32, ci: u32, severity: u32, category: u32, module_code: u32, scope: u32, originator: u32, module_instance: u32, chiplet: u32, log_level: u32, attributes: u32, cper_size: u32, group_attributes: u32, group_size: u8, group_index: u8, pad: [u8; 2], }
}

/// A field of an NVML text: the bytes of `text`, NUL-padded.
pub use mirage_state::layout::fixed;
