//! What a device tells about itself, one method per function.

use super::{Code, Result, ask, check, text};
use crate::abi::*;
use crate::arg::Versioned;
use crate::exports;
use crate::handle::Handle;
use crate::topology;

/// A GPU or a MIG device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device(pub(crate) Handle);

/// Methods for functions that write one value.
macro_rules! values {
    ($( $(#[$doc:meta])* $name:ident($($arg:ident),*) -> $out:ty = $function:ident; )*) => { impl Device { $(
        $(#[$doc])*
        pub fn $name(self, $($arg: u32),*) -> Result<$out> {
            let mut value = <$out>::default();
            check(exports::$function(self.0, $($arg,)* &raw mut value))?;
            Ok(value)
        }
    )* } };
}

/// Methods for functions that fill in a struct with a version word.
macro_rules! structs {
    ($( $(#[$doc:meta])* $name:ident -> $out:ty = $function:ident; )*) => { impl Device { $(
        $(#[$doc])*
        pub fn $name(self) -> Result<$out> {
            let mut value = <$out>::default();
            value.version = <$out>::WORD;
            check(exports::$function(self.0, (&raw mut value).cast()))?;
            Ok(value)
        }
    )* } };
}

/// Methods for functions that write two values.
macro_rules! pairs {
    ($( $(#[$doc:meta])* $name:ident -> $out:ty = $function:ident; )*) => { impl Device { $(
        $(#[$doc])*
        pub fn $name(self) -> Result<($out, $out)> {
            let mut pair = (<$out>::default(), <$out>::default());
            check(exports::$function(self.0, &raw mut pair.0, &raw mut pair.1))?;
            Ok(pair)
        }
    )* } };
}

/// Methods for functions that write a text.
macro_rules! texts {
    ($( $(#[$doc:meta])* $name:ident = $function:ident; )*) => { impl Device { $(
        $(#[$doc])*
        pub fn $name(self) -> Result<String> {
            text(|to, room| exports::$function(self.0, to, room))
        }
    )* } };
}

texts! {
    /// Name of the product; of a MIG device with its profile.
    name = nvmlDeviceGetName;
    /// UUID.
    uuid = nvmlDeviceGetUUID;
    /// Serial number.
    serial = nvmlDeviceGetSerial;
    /// Board part number.
    board_part_number = nvmlDeviceGetBoardPartNumber;
    /// VBIOS version.
    vbios_version = nvmlDeviceGetVbiosVersion;
    /// Version of the InfoROM as a whole.
    inforom_image = nvmlDeviceGetInforomImageVersion;
}

values! {
    /// Number among the GPUs, or of a MIG device among those of its GPU.
    index() -> u32 = nvmlDeviceGetIndex;
    /// Minor number of the device node.
    minor_number() -> u32 = nvmlDeviceGetMinorNumber;
    /// Number of the board.
    board_id() -> u32 = nvmlDeviceGetBoardId;
    /// Whether several GPUs share the board.
    multi_gpu_board() -> u32 = nvmlDeviceGetMultiGpuBoard;
    /// Number of the module in its baseboard.
    module_id() -> u32 = nvmlDeviceGetModuleId;
    /// Brand, by number.
    brand() -> u32 = nvmlDeviceGetBrand;
    /// Architecture, by number.
    architecture() -> u32 = nvmlDeviceGetArchitecture;
    /// Whether a display could be attached.
    display_mode() -> u32 = nvmlDeviceGetDisplayMode;
    /// Whether a display is in use.
    display_active() -> u32 = nvmlDeviceGetDisplayActive;
    /// Persistence mode.
    persistence_mode() -> u32 = nvmlDeviceGetPersistenceMode;
    /// Compute mode, by number.
    compute_mode() -> u32 = nvmlDeviceGetComputeMode;
    /// Virtualisation mode, by number.
    virtualization_mode() -> u32 = nvmlDeviceGetVirtualizationMode;
    /// Fan speed, percent.
    fan_speed() -> u32 = nvmlDeviceGetFanSpeed;
    /// Performance state.
    performance_state() -> u32 = nvmlDeviceGetPerformanceState;
    /// Temperature of a sensor, °C.
    temperature(sensor) -> u32 = nvmlDeviceGetTemperature;
    /// A temperature limit, °C.
    threshold(kind) -> u32 = nvmlDeviceGetTemperatureThreshold;
    /// Power draw, mW.
    power_usage() -> u32 = nvmlDeviceGetPowerUsage;
    /// Power limit asked for, mW.
    power_limit() -> u32 = nvmlDeviceGetPowerManagementLimit;
    /// Power limit in force, mW.
    enforced_power_limit() -> u32 = nvmlDeviceGetEnforcedPowerLimit;
    /// Power limit of a board as it comes, mW.
    default_power_limit() -> u32 = nvmlDeviceGetPowerManagementDefaultLimit;
    /// Whether power can be managed.
    power_management() -> u32 = nvmlDeviceGetPowerManagementMode;
    /// A clock, MHz: 0 graphics, 1 SM, 2 memory, 3 video.
    clock(kind) -> u32 = nvmlDeviceGetClockInfo;
    /// The highest such clock.
    max_clock(kind) -> u32 = nvmlDeviceGetMaxClockInfo;
    /// The application clock.
    application_clock(kind) -> u32 = nvmlDeviceGetApplicationsClock;
    /// The application clock of a board as it comes.
    default_application_clock(kind) -> u32 = nvmlDeviceGetDefaultApplicationsClock;
    /// The highest clock a customer may set.
    max_boost_clock(kind) -> u32 = nvmlDeviceGetMaxCustomerBoostClock;
    /// PCI Express generation in use.
    pcie_generation() -> u32 = nvmlDeviceGetCurrPcieLinkGeneration;
    /// PCI Express lanes in use.
    pcie_width() -> u32 = nvmlDeviceGetCurrPcieLinkWidth;
    /// The highest generation of GPU and host.
    max_pcie_generation() -> u32 = nvmlDeviceGetMaxPcieLinkGeneration;
    /// The highest generation of the GPU.
    gpu_max_pcie_generation() -> u32 = nvmlDeviceGetGpuMaxPcieLinkGeneration;
    /// The highest number of lanes.
    max_pcie_width() -> u32 = nvmlDeviceGetMaxPcieLinkWidth;
    /// Traffic, KB/s: 0 sent, 1 received.
    pcie_throughput(direction) -> u32 = nvmlDeviceGetPcieThroughput;
    /// Replays on the bus.
    pcie_replays() -> u32 = nvmlDeviceGetPcieReplayCounter;
    /// Accounting mode.
    accounting_mode() -> u32 = nvmlDeviceGetAccountingMode;
    /// Processes the accounting remembers.
    accounting_buffer_size() -> u32 = nvmlDeviceGetAccountingBufferSize;
    /// Whether the link to the processor is on.
    c2c_mode() -> u32 = nvmlDeviceGetC2cModeInfoV;
    /// NUMA node of the GPU's own memory.
    numa_node() -> u32 = nvmlDeviceGetNumaNodeId;
    /// MIG devices there can be.
    max_mig_devices() -> u32 = nvmlDeviceGetMaxMigDeviceCount;
    /// GPU instance of a MIG device.
    gpu_instance_id() -> u32 = nvmlDeviceGetGpuInstanceId;
    /// Compute instance of a MIG device.
    compute_instance_id() -> u32 = nvmlDeviceGetComputeInstanceId;
    /// Why the clock is not higher, as bits.
    clock_reasons() -> u64 = nvmlDeviceGetCurrentClocksEventReasons;
    /// Which of these reasons can be told.
    supported_clock_reasons() -> u64 = nvmlDeviceGetSupportedClocksEventReasons;
    /// Errors of a kind (0 corrected, 1 not) and life time (0 since load, 1 ever).
    total_ecc_errors(kind, lifetime) -> u64 = nvmlDeviceGetTotalEccErrors;
    /// The same at one place.
    ecc_errors_at(kind, lifetime, place) -> u64 = nvmlDeviceGetMemoryErrorCounter;
    /// Energy since the driver was loaded, mJ.
    energy() -> u64 = nvmlDeviceGetTotalEnergyConsumption;
    /// Utilisation, percent.
    utilization() -> Utilization = nvmlDeviceGetUtilizationRates;
    /// BAR1 aperture.
    bar1() -> Bar1Memory = nvmlDeviceGetBAR1MemoryInfo;
    /// Place on the bus.
    pci() -> PciInfo = nvmlDeviceGetPciInfo_v3;
    /// What a MIG device has.
    attributes() -> DeviceAttributes = nvmlDeviceGetAttributes_v2;
    /// Frame-buffer capture.
    fbc_stats() -> FbcStats = nvmlDeviceGetFBCStats;
    /// How full the row remapper's banks are.
    remapper_histogram() -> RowRemapperHistogram = nvmlDeviceGetRowRemapperHistogram;
    /// Memory under confidential computing.
    protected_memory() -> Memory = nvmlDeviceGetConfComputeProtectedMemoryUsage;
    /// Time spent below the wanted clock for a reason.
    violation(policy) -> ViolationTime = nvmlDeviceGetViolationStatus;
}

structs! {
    /// Memory with the driver's reserve apart.
    memory -> MemoryV2 = nvmlDeviceGetMemoryInfo_v2;
    /// Place on the bus with class codes.
    pci_ext -> PciInfoExt = nvmlDeviceGetPciInfoExt;
    /// SRAM errors by origin.
    sram_status -> EccSramStatus = nvmlDeviceGetSramEccErrorStatus;
    /// Membership of an NVLink fabric.
    fabric -> FabricInfoV3 = nvmlDeviceGetGpuFabricInfoV;
    /// Place in a rack.
    platform -> PlatformInfo = nvmlDeviceGetPlatformInfo;
    /// Address translation, by number.
    addressing -> AddressingMode = nvmlDeviceGetAddressingMode;
    /// Degrees left to the limit.
    margin_temperature -> MarginTemperature = nvmlDeviceGetMarginTemperature;
}

pairs! {
    /// ECC mode now and after a reset.
    ecc_mode -> u32 = nvmlDeviceGetEccMode;
    /// MIG mode now and after a reset.
    mig_mode -> u32 = nvmlDeviceGetMigMode;
    /// The lowest and highest power limit, mW.
    power_limits -> u32 = nvmlDeviceGetPowerManagementLimitConstraints;
    /// Whether the GPU system processor runs, and does by default.
    gsp_mode -> u32 = nvmlDeviceGetGspFirmwareMode;
    /// Driver model now and after a reset.
    driver_model -> u32 = nvmlDeviceGetDriverModel_v2;
    /// GPU operation mode now and after a reset.
    operation_mode -> u32 = nvmlDeviceGetGpuOperationMode;
    /// Encoder utilisation, percent, and over how long, µs.
    encoder_utilization -> u32 = nvmlDeviceGetEncoderUtilization;
    /// Decoder utilisation.
    decoder_utilization -> u32 = nvmlDeviceGetDecoderUtilization;
    /// JPEG engine utilisation.
    jpeg_utilization -> u32 = nvmlDeviceGetJpgUtilization;
    /// Optical flow utilisation.
    ofa_utilization -> u32 = nvmlDeviceGetOfaUtilization;
    /// CUDA compute capability.
    compute_capability -> i32 = nvmlDeviceGetCudaComputeCapability;
    /// Auto boost now and by default.
    auto_boost -> u32 = nvmlDeviceGetAutoBoostedClocksEnabled;
}

impl Device {
    /// Version of an object of the InfoROM: 0 OEM, 1 ECC, 2 power.
    pub fn inforom_version(self, object: u32) -> Result<String> {
        text(|to, room| exports::nvmlDeviceGetInforomVersion(self.0, object, to, room))
    }

    /// Version of the firmware of the GPU system processor.
    pub fn gsp_version(self) -> Result<String> {
        text(|to, _| exports::nvmlDeviceGetGspFirmwareVersion(self.0, to))
    }

    /// Whether the InfoROM is intact.
    pub fn validate_inforom(self) -> Result<()> {
        check(exports::nvmlDeviceValidateInforom(self.0))
    }

    /// A field by number; `scope` is a link or a power scope.
    pub fn field(self, id: u32, scope: u32) -> Result<i64> {
        const SIGNED: u32 = 5;
        let mut field = FieldValue {
            id,
            scope,
            ..FieldValue::default()
        };
        check(exports::nvmlDeviceGetFieldValues(self.0, 1, &raw mut field))?;
        check(field.code)?;
        Ok(if field.kind == SIGNED {
            i64::from(field.value as u32 as i32)
        } else {
            i64::try_from(field.value).unwrap_or(i64::MAX)
        })
    }

    /// DRAM encryption now and after a restart; each is a struct of a version word and the mode.
    pub fn dram_encryption(self) -> Result<(u32, u32)> {
        const WORD: u32 = 1 << 24 | 8;
        let [mut now, mut then] = [[WORD, 0]; 2];
        check(exports::nvmlDeviceGetDramEncryptionMode(
            self.0,
            now.as_mut_ptr(),
            then.as_mut_ptr(),
        ))?;
        Ok((now[1], then[1]))
    }

    /// Encoder sessions, frames per second and latency.
    pub fn encoder_stats(self) -> Result<[u32; 3]> {
        let [mut sessions, mut fps, mut latency] = [0; 3];
        check(exports::nvmlDeviceGetEncoderStats(
            self.0,
            &raw mut sessions,
            &raw mut fps,
            &raw mut latency,
        ))?;
        Ok([sessions, fps, latency])
    }

    /// Firmware of the first bridge between the GPUs of its board.
    pub fn bridge_firmware(self) -> Result<u32> {
        let mut bridges = BridgeChips {
            count: 0,
            pad: [0; 3],
            chips: [[0; 2]; 128],
        };
        check(exports::nvmlDeviceGetBridgeChipInfo(
            self.0,
            &raw mut bridges,
        ))?;
        Ok(bridges.chips[0][1])
    }

    /// Remapped rows: corrected, uncorrected, pending, failed.
    pub fn remapped_rows(self) -> Result<[u32; 4]> {
        let [mut corrected, mut uncorrected, mut pending, mut failed] = [0; 4];
        check(exports::nvmlDeviceGetRemappedRows(
            self.0,
            &raw mut corrected,
            &raw mut uncorrected,
            &raw mut pending,
            &raw mut failed,
        ))?;
        Ok([corrected, uncorrected, pending, failed])
    }

    /// The highest PCI Express generation of the host.
    pub fn host_max_pcie_generation(self) -> Result<u32> {
        let found = ask(|session| Ok(session.gpu(self.0)?.board().pcie_host_gen_max))?;
        if found == 0 {
            Err(Code::NOT_SUPPORTED)
        } else {
            Ok(found)
        }
    }

    /// Part number of the chip.
    pub fn gpu_part_number(self) -> Result<String> {
        let found = ask(|session| Ok(super::chars(&session.gpu(self.0)?.board().gpu_part_number)))?;
        if found.is_empty() {
            Err(Code::NOT_SUPPORTED)
        } else {
            Ok(found)
        }
    }

    /// What lies between two GPUs: 0 PIX, 1 PXB, 2 PHB, 3 NODE, 4 SYS, then 4 more than the number of NVLinks.
    pub fn distance(self, other: Device) -> Result<u32> {
        ask(|session| {
            let (one, other) = (session.card(self.0)?, session.card(other.0)?);
            Ok(topology::matrix_level(&one, &other))
        })
    }

    /// Whether two GPUs reach each other's memory in a way, by number.
    pub fn peer_status(self, other: Device, way: u32) -> Result<u32> {
        let mut status = 0;
        check(exports::nvmlDeviceGetP2PStatus(
            self.0,
            other.0,
            way,
            &raw mut status,
        ))?;
        Ok(status)
    }

    /// Links to other GPUs and switches: how many.
    pub fn links(self) -> Result<u32> {
        Ok(self.field(91, 0)?.try_into().unwrap_or(0))
    }
}
