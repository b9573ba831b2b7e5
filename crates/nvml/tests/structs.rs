//! The structs against a table of the vendor's sizes and version words (64-bit).

use std::collections::HashMap;

use nvidia_ml::abi::*;
use nvidia_ml::arg::Versioned;

/// Size and version word by the vendor's name.
fn table() -> HashMap<String, (usize, Option<u32>)> {
    let text = include_str!("structs.csv");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let word = cells[4].trim().strip_prefix("0x");
        let word = word.map(|digits| u32::from_str_radix(digits, 16).expect("hexadecimal"));
        (
            cells[0].to_owned(),
            (cells[3].parse().expect("a size"), word),
        )
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn structs_are_as_large_as_the_vendors() {
    let table = table();
    macro_rules! plain {
        ($($name:literal $kind:ty),* $(,)?) => { $(
            assert_eq!(table[$name].0, size_of::<$kind>(), $name);
        )* };
    }
    plain!(
        "nvmlProcessInfo_v1_t" ProcessV1,
        "nvmlProcessInfo_v2_t" Process,
        "nvmlProcessInfo_t" Process,
        "nvmlPciInfo_t" PciInfo,
        "nvmlMemory_t" Memory,
        "nvmlUtilization_t" Utilization,
        "nvmlBAR1Memory_t" Bar1Memory,
        "nvmlFieldValue_t" FieldValue,
        "nvmlEventData_t" EventData,
        "nvmlDeviceAttributes_t" DeviceAttributes,
        "nvmlGpuInstanceProfileInfo_t" GpuProfileInfo,
        "nvmlGpuInstanceInfo_t" GpuInstanceInfo,
        "nvmlGpuInstancePlacement_t" Placement,
        "nvmlComputeInstanceProfileInfo_t" ComputeProfileInfo,
        "nvmlComputeInstanceInfo_t" ComputeInstanceInfo,
        "nvmlProcessUtilizationSample_t" ProcessUtilization,
        "nvmlSample_t" Sample,
        "nvmlEccErrorCounts_t" EccErrorCounts,
        "nvmlViolationTime_t" ViolationTime,
        "nvmlAccountingStats_t" AccountingStats,
        "nvmlGpuFabricInfo_t" FabricInfo,
        "nvmlRowRemapperHistogramValues_t" RowRemapperHistogram,
        "nvmlExcludedDeviceInfo_t" ExcludedDevice,
        "nvmlGpuThermalSettings_t" ThermalSettings,
        "nvmlGridLicensableFeatures_t" GridFeatures,
        "nvmlFBCStats_t" FbcStats,
        "nvmlBridgeChipHierarchy_t" BridgeChips,
        "nvmlHwbcEntry_t" [u32; 9],
        "nvmlEncoderSessionInfo_t" [u32; 8],
    );
}

#[test]
fn version_words_are_the_vendors() {
    let table = table();
    macro_rules! versioned {
        ($($name:literal $kind:ty),* $(,)?) => { $(
            assert_eq!(table[$name], (size_of::<$kind>(), Some(<$kind>::WORD)), $name);
        )* };
    }
    versioned!(
        "nvmlPciInfoExt_v1" PciInfoExt,
        "nvmlMemory_v2" MemoryV2,
        "nvmlProcessDetailList_v1" ProcessDetailList,
        "nvmlDeviceAddressingMode_v1" AddressingMode,
        "nvmlRepairStatus_v1" RepairStatus,
        "nvmlCoolerInfo_v1" CoolerInfo,
        "nvmlUUID_v1" Uuid,
        "nvmlPdi_v1" Pdi,
        "nvmlMarginTemperature_v1" MarginTemperature,
        "nvmlFanSpeedInfo_v1" FanSpeedInfo,
        "nvmlDevicePerfModes_v1" LongText,
        "nvmlDeviceCurrentClockFreqs_v1" LongText,
        "nvmlProcessesUtilizationInfo_v1" ProcessesUtilization,
        "nvmlEccSramErrorStatus_v1" EccSramStatus,
        "nvmlPlatformInfo_v1" PlatformInfoV1,
        "nvmlPlatformInfo_v2" PlatformInfo,
        "nvmlEccSramUniqueUncorrectedErrorCounts_v1" EccSramUnique,
        "nvmlPowerValue_v2" PowerValue,
        "nvmlSystemEventSetCreateRequest_v1" SystemSetRequest,
        "nvmlSystemEventSetFreeRequest_v1" SystemSetRequest,
        "nvmlSystemRegisterEventRequest_v1" SystemRegisterRequest,
        "nvmlSystemEventSetWaitRequest_v1" SystemWaitRequest,
        "nvmlSystemConfComputeSettings_v1" ConfidentialSettings,
        "nvmlGpuFabricInfo_v2" FabricInfoV2,
        "nvmlGpuFabricInfo_v3" FabricInfoV3,
        "nvmlSystemDriverBranchInfo_v1" DriverBranch,
        "nvmlTemperature_v1" Temperature,
        "nvmlNvlinkSupportedBwModes_v1" NvlinkBwModes,
        "nvmlNvlinkGetBwMode_v1" NvlinkBwMode,
        "nvmlNvLinkInfo_v1" NvlinkInfo,
        "nvmlGpuInstanceProfileInfo_v2" GpuProfileInfoV2,
        "nvmlGpuInstanceProfileInfo_v3" GpuProfileInfoV3,
        "nvmlComputeInstanceProfileInfo_v2" ComputeProfileInfoV2,
        "nvmlComputeInstanceProfileInfo_v3" ComputeProfileInfoV3,
        "nvmlDeviceCapabilities_v1" DeviceCapabilities,
        "nvmlWorkloadPowerProfileProfilesInfo_v1" ProfilesInfo,
        "nvmlWorkloadPowerProfileCurrentProfiles_v1" CurrentProfiles,
        "nvmlWorkloadPowerProfileRequestedProfiles_v1" RequestedProfiles,
        "nvmlPowerSmoothingProfile_v1" SmoothingProfile,
        "nvmlPowerSmoothingState_v1" SmoothingState,
    );
}
