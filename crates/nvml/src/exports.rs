//! NVML's functions, generated from `symbols.csv`: `MIRAGE_BLESS=1 cargo test -p mirage-nvml --test symbols`.
#![allow(missing_docs, non_snake_case, unused_variables, reason = "C's names, documented where they are answered")]

use std::ffi::{c_char, c_ulong, c_void};

use crate::abi::*;
use crate::arg::*;
use crate::code::{Answer, Fault};
use crate::guard::{enter, guard};
use crate::handle::Handle;
use crate::{accounting, clocks, confidential, ecc, events, fabric, fields, gpm, identity, memory, mig, nvlink, pcie, power, processes, profiles, settings, system, table, thermal, topology, units, utilization};

/// What a function says that is exported but not simulated.
fn unsupported() -> Answer {
    Err(Fault::NotSupported)
}

#[unsafe(no_mangle)] pub extern "C" fn nvmlComputeInstanceDestroy(a: Handle) -> u32 { enter(|s| mig::destroy_compute_instance(s.compute_instance(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlComputeInstanceGetInfo(a: Handle, b: *mut ComputeInstanceInfo) -> u32 { enter(|s| mig::compute_instance_info(s.compute_instance(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlComputeInstanceGetInfo_v2(a: Handle, b: *mut ComputeInstanceInfo) -> u32 { enter(|s| mig::compute_instance_info_v2(s.compute_instance(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceClearAccountingPids(a: Handle) -> u32 { enter(|s| settings::clear_accounting_pids(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceClearCpuAffinity(a: Handle) -> u32 { enter(|s| topology::clear_cpu_affinity(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceClearEccErrorCounts(a: Handle, b: u32) -> u32 { enter(|s| settings::clear_ecc_error_counts(s.gpu(a)?, limit(b, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceClearFieldValues(a: Handle, b: i32, c: *mut FieldValue) -> u32 { enter(|s| fields::clear_field_values(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceCreateGpuInstance(a: Handle, b: u32, c: *mut Handle) -> u32 { enter(|s| mig::create_gpu_instance(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceCreateGpuInstanceWithPlacement(a: Handle, b: u32, c: *mut Placement, d: *mut Handle) -> u32 { enter(|s| mig::create_gpu_instance_with_placement(s.gpu(a)?, b, out(c)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceDiscoverGpus(a: *mut PciInfo) -> u32 { enter(|_| { out(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceFreezeNvLinkUtilizationCounter(a: Handle, b: u32, c: u32, d: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(d, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAPIRestriction(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| identity::api_restriction(s.gpu(a)?, limit(b, 2)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAccountingBufferSize(a: Handle, b: *mut u32) -> u32 { enter(|s| accounting::accounting_buffer_size(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAccountingMode(a: Handle, b: *mut u32) -> u32 { enter(|s| accounting::accounting_mode(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAccountingPids(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| accounting::accounting_pids(s.gpu(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAccountingStats(a: Handle, b: u32, c: *mut AccountingStats) -> u32 { enter(|s| accounting::accounting_stats(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAccountingStats_v2(a: Handle, b: *mut AccountingStatsV2) -> u32 { enter(|s| accounting::accounting_stats_v2(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetActiveVgpus(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAdaptiveClockInfoStatus(a: Handle, b: *mut u32) -> u32 { enter(|s| clocks::adaptive_clock_info_status(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAdaptiveTgpModeInfo_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAddressingMode(a: Handle, b: *mut AddressingMode) -> u32 { enter(|s| identity::addressing_mode(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetApplicationsClock(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| clocks::applications_clock(s.gpu(a)?, limit(b, 4)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetArchitecture(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::architecture(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAttributes(a: Handle, b: *mut [u32; 6]) -> u32 { enter(|s| mig::attributes(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAttributes_v2(a: Handle, b: *mut DeviceAttributes) -> u32 { enter(|s| mig::attributes_v2(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetAutoBoostedClocksEnabled(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| clocks::auto_boosted_clocks_enabled(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBAR1MemoryInfo(a: Handle, b: *mut Bar1Memory) -> u32 { enter(|s| memory::bar1_memory_info(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBBXTimeData_v1(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::bbx_time_data(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBankRemapperStatus_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBoardId(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::board_id(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBoardPartNumber(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::board_part_number(s.card(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBrand(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::brand(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBridgeChipInfo(a: Handle, b: *mut BridgeChips) -> u32 { enter(|s| pcie::bridge_chip_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetBusType(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::bus_type(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetC2cModeInfoV(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::c2c_mode_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCapabilities(a: Handle, b: *mut DeviceCapabilities) -> u32 { enter(|s| identity::capabilities(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetClkMonStatus(a: Handle, b: *mut ClkMonStatus) -> u32 { enter(|s| clocks::clk_mon_status(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetClock(a: Handle, b: u32, c: u32, d: *mut u32) -> u32 { enter(|s| clocks::clock(s.gpu(a)?, limit(b, 4)?, limit(c, 4)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetClockInfo(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| clocks::clock_info(s.gpu(a)?, limit(b, 4)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetClockOffsets(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000018)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetComputeInstanceId(a: Handle, b: *mut u32) -> u32 { enter(|s| mig::compute_instance_id(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetComputeMode(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::compute_mode(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetComputeRunningProcesses(a: Handle, b: *mut u32, c: *mut ProcessV1) -> u32 { enter(|s| processes::compute_running_processes(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::compute_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::compute_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetConfComputeGpuAttestationReport(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetConfComputeGpuCertificate(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetConfComputeMemSizeInfo(a: Handle, b: *mut ConfidentialMemory) -> u32 { enter(|s| confidential::mem_size_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetConfComputeProtectedMemoryUsage(a: Handle, b: *mut Memory) -> u32 { enter(|s| confidential::protected_memory_usage(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCoolerInfo(a: Handle, b: *mut CoolerInfo) -> u32 { enter(|s| thermal::cooler_info(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCount(a: *mut u32) -> u32 { enter(|s| system::count(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCount_v2(a: *mut u32) -> u32 { enter(|s| system::count(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCpuAffinity(a: Handle, b: u32, c: *mut c_ulong) -> u32 { enter(|s| topology::cpu_affinity(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCpuAffinityWithinScope(a: Handle, b: u32, c: *mut c_ulong, d: u32) -> u32 { enter(|s| topology::cpu_affinity_within_scope(s.gpu(a)?, b, out(c)?, limit(d, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCreatableVgpus(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCudaComputeCapability(a: Handle, b: *mut i32, c: *mut i32) -> u32 { enter(|s| identity::cuda_compute_capability(s.target_card(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::curr_pcie_link_generation(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::curr_pcie_link_width(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCurrentClockFreqs(a: Handle, b: *mut LongText) -> u32 { enter(|s| clocks::current_clock_freqs(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(a: Handle, b: *mut u64) -> u32 { enter(|s| clocks::current_clocks_event_reasons(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(a: Handle, b: *mut u64) -> u32 { enter(|s| clocks::current_clocks_event_reasons(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDecoderUtilization(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| utilization::decoder_utilization(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDefaultApplicationsClock(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| clocks::default_applications_clock(s.gpu(a)?, limit(b, 4)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDefaultEccMode(a: Handle, b: *mut u32) -> u32 { enter(|s| ecc::default_ecc_mode(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDetailedEccErrors(a: Handle, b: u32, c: u32, d: *mut EccErrorCounts) -> u32 { enter(|s| ecc::detailed_ecc_errors(s.gpu(a)?, limit(b, 2)?, limit(c, 2)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(a: Handle, b: *mut Handle) -> u32 { enter(|s| mig::device_handle_from_mig_device_handle(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDisplayActive(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::display(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDisplayMode(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::display(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDramEncryptionMode(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; version(c, 0x01000008)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDriverModel(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDriverModel_v2(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetDynamicPstatesInfo(a: Handle, b: *mut DynamicPstates) -> u32 { enter(|s| utilization::dynamic_pstates_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEccMode(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| ecc::ecc_mode(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEncoderCapacity(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| utilization::encoder_capacity(s.gpu(a)?, limit(b, 3)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEncoderSessions(a: Handle, b: *mut u32, c: *mut [u32; 8]) -> u32 { enter(|s| utilization::encoder_sessions(s.gpu(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEncoderStats(a: Handle, b: *mut u32, c: *mut u32, d: *mut u32) -> u32 { enter(|s| utilization::encoder_stats(s.gpu(a)?, out(b)?, out(c)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEncoderUtilization(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| utilization::encoder_utilization(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetEnforcedPowerLimit(a: Handle, b: *mut u32) -> u32 { enter(|s| power::enforced_power_limit(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFBCSessions(a: Handle, b: *mut u32, c: *mut [u32; 12]) -> u32 { enter(|s| utilization::fbc_sessions(s.gpu(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFBCStats(a: Handle, b: *mut FbcStats) -> u32 { enter(|s| utilization::fbc_stats(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFanControlPolicy_v2(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| thermal::fan_control_policy(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFanSpeed(a: Handle, b: *mut u32) -> u32 { enter(|s| thermal::fan_speed(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFanSpeedRPM(a: Handle, b: *mut FanSpeedInfo) -> u32 { enter(|s| thermal::fan_speed_rpm(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFanSpeed_v2(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| thermal::fan_speed_v2(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetFieldValues(a: Handle, b: i32, c: *mut FieldValue) -> u32 { enter(|s| fields::field_values(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpcClkMinMaxVfOffset(a: Handle, b: *mut i32, c: *mut i32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpcClkVfOffset(a: Handle, b: *mut i32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuFabricInfo(a: Handle, b: *mut FabricInfo) -> u32 { enter(|s| fabric::gpu_fabric_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuFabricInfoV(a: Handle, b: *mut u32) -> u32 { enter(|s| fabric::gpu_fabric_info_v(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuFabricInfo_v4(a: Handle, b: *mut FabricInfoV4) -> u32 { enter(|s| fabric::gpu_fabric_info_v4(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceById(a: Handle, b: u32, c: *mut Handle) -> u32 { enter(|s| mig::gpu_instance_by_id(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceId(a: Handle, b: *mut u32) -> u32 { enter(|s| mig::gpu_instance_id(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements(a: Handle, b: u32, c: *mut Placement, d: *mut u32) -> u32 { enter(|s| mig::possible_placements(s.gpu(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(a: Handle, b: u32, c: *mut Placement, d: *mut u32) -> u32 { enter(|s| mig::possible_placements(s.gpu(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceProfileInfo(a: Handle, b: u32, c: *mut GpuProfileInfo) -> u32 { enter(|s| mig::gpu_instance_profile_info(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| mig::gpu_instance_profile_info_by_id(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| mig::gpu_instance_profile_info_v(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstanceRemainingCapacity(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| mig::remaining_capacity(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuInstances(a: Handle, b: u32, c: *mut Handle, d: *mut u32) -> u32 { enter(|s| mig::gpu_instances(s.gpu(a)?, b, out(c)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuMaxPcieLinkGeneration(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::gpu_max_pcie_link_generation(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGpuOperationMode(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses(a: Handle, b: *mut u32, c: *mut ProcessV1) -> u32 { enter(|s| processes::graphics_running_processes(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v2(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::graphics_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::graphics_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGridLicensableFeatures(a: Handle, b: *mut GridFeatures) -> u32 { enter(|s| identity::grid_licensable_features(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGridLicensableFeatures_v2(a: Handle, b: *mut GridFeatures) -> u32 { enter(|s| identity::grid_licensable_features(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGridLicensableFeatures_v3(a: Handle, b: *mut GridFeatures) -> u32 { enter(|s| identity::grid_licensable_features(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGridLicensableFeatures_v4(a: Handle, b: *mut GridFeatures) -> u32 { enter(|s| identity::grid_licensable_features(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGspFirmwareMode(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| identity::gsp_firmware_mode(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetGspFirmwareVersion(a: Handle, b: *mut c_char) -> u32 { enter(|s| identity::gsp_firmware_version(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByIndex(a: u32, b: *mut Handle) -> u32 { enter(|s| system::handle_by_index(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(a: u32, b: *mut Handle) -> u32 { enter(|s| system::handle_by_index(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByPciBusId(a: *const c_char, b: *mut Handle) -> u32 { enter(|s| system::handle_by_pci_bus_id(s, text_in(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(a: *const c_char, b: *mut Handle) -> u32 { enter(|s| system::handle_by_pci_bus_id(s, text_in(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleBySerial(a: *const c_char, b: *mut Handle) -> u32 { enter(|s| system::handle_by_serial(s, text_in(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByUUID(a: *const c_char, b: *mut Handle) -> u32 { enter(|s| system::handle_by_uuid(s, text_in(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHandleByUUIDV(a: *mut Uuid, b: *mut Handle) -> u32 { enter(|s| system::handle_by_uuid_v(s, versioned(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHostVgpuMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetHostname_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetIndex(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::index(s.target_card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetInforomConfigurationChecksum(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::inforom_configuration_checksum(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetInforomImageVersion(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::inforom_image_version(s.gpu(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetInforomVersion(a: Handle, b: u32, c: *mut c_char, d: u32) -> u32 { enter(|s| identity::inforom_version(s.gpu(a)?, limit(b, 4)?, Text::new(c, d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetIrqNum(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::irq_num(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetJpgUtilization(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| utilization::jpg_utilization(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetLastBBXFlushTime(a: Handle, b: *mut u64, c: *mut c_ulong) -> u32 { enter(|s| identity::last_bbx_flush_time(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses(a: Handle, b: *mut u32, c: *mut ProcessV1) -> u32 { enter(|s| processes::mps_running_processes(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v2(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::mps_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(a: Handle, b: *mut u32, c: *mut Process) -> u32 { enter(|s| processes::mps_running_processes_v3(s.target(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMarginTemperature(a: Handle, b: *mut MarginTemperature) -> u32 { enter(|s| thermal::margin_temperature(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMaxClockInfo(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| clocks::max_clock_info(s.gpu(a)?, limit(b, 4)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMaxCustomerBoostClock(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| clocks::max_customer_boost_clock(s.gpu(a)?, limit(b, 4)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(a: Handle, b: *mut u32) -> u32 { enter(|s| mig::max_mig_device_count(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::max_pcie_link_generation(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::max_pcie_link_width(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemClkMinMaxVfOffset(a: Handle, b: *mut i32, c: *mut i32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemClkVfOffset(a: Handle, b: *mut i32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryAffinity(a: Handle, b: u32, c: *mut c_ulong, d: u32) -> u32 { enter(|s| topology::memory_affinity(s.gpu(a)?, b, out(c)?, limit(d, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryBusWidth(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::memory_bus_width(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryErrorCounter(a: Handle, b: u32, c: u32, d: u32, e: *mut u64) -> u32 { enter(|s| ecc::memory_error_counter(s.gpu(a)?, limit(b, 2)?, limit(c, 2)?, limit(d, 8)?, out(e)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryInfo(a: Handle, b: *mut Memory) -> u32 { enter(|s| memory::memory_info(s.target(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(a: Handle, b: *mut MemoryV2) -> u32 { enter(|s| memory::memory_info_v2(s.target(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMemoryLimits_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(a: Handle, b: u32, c: *mut Handle) -> u32 { enter(|s| mig::mig_device_handle_by_index(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMigMode(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| mig::mig_mode(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMinMaxClockOfPState(a: Handle, b: u32, c: u32, d: *mut u32, e: *mut u32) -> u32 { enter(|s| clocks::min_max_clock_of_pstate(s.gpu(a)?, limit(b, 4)?, limit(c, 16)?, out(d)?, out(e)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMinMaxFanSpeed(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| thermal::min_max_fan_speed(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMinorNumber(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::minor_number(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetModuleId(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::module_id(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetMultiGpuBoard(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::multi_gpu_board(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetName(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::name(s.target_card(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNumFans(a: Handle, b: *mut u32) -> u32 { enter(|s| thermal::num_fans(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNumGpuCores(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::num_gpu_cores(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNumaNodeId(a: Handle, b: *mut u32) -> u32 { enter(|s| topology::numa_node_id(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkCapability(a: Handle, b: u32, c: u32, d: *mut u32) -> u32 { enter(|s| nvlink::nvlink_capability(s.gpu(a)?, b, limit(c, 6)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkErrorCounter(a: Handle, b: u32, c: u32, d: *mut u64) -> u32 { enter(|s| nvlink::nvlink_error_counter(s.gpu(a)?, b, limit(c, 5)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkInfo(a: Handle, b: *mut u32) -> u32 { enter(|s| nvlink::nvlink_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkRemoteDeviceType(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| nvlink::nvlink_remote_device_type(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo(a: Handle, b: u32, c: *mut PciInfoV2) -> u32 { enter(|s| nvlink::nvlink_remote_pci_info(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(a: Handle, b: u32, c: *mut PciInfo) -> u32 { enter(|s| nvlink::nvlink_remote_pci_info_v2(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkState(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| nvlink::nvlink_state(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkTelemetrySamples_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkUtilizationControl(a: Handle, b: u32, c: u32, d: *mut [u32; 2]) -> u32 { enter(|s| nvlink::nvlink_utilization_control(s.gpu(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkUtilizationCounter(a: Handle, b: u32, c: u32, d: *mut u64, e: *mut u64) -> u32 { enter(|s| nvlink::nvlink_utilization_counter(s.gpu(a)?, b, c, out(d)?, out(e)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvLinkVersion(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| nvlink::nvlink_version(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvlinkBwMode(a: Handle, b: *mut NvlinkBwMode) -> u32 { enter(|s| nvlink::nvlink_bw_mode(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetNvlinkSupportedBwModes(a: Handle, b: *mut NvlinkBwModes) -> u32 { enter(|s| nvlink::nvlink_supported_bw_modes(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetOfaUtilization(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| utilization::ofa_utilization(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetP2PStatus(a: Handle, b: Handle, c: u32, d: *mut u32) -> u32 { enter(|s| topology::p2p_status(s.gpu(a)?, s.gpu(b)?, limit(c, 6)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPciInfo(a: Handle, b: *mut PciInfoV1) -> u32 { enter(|s| pcie::pci_info(s.target_card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPciInfoExt(a: Handle, b: *mut PciInfoExt) -> u32 { enter(|s| pcie::pci_info_ext(s.target_card(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPciInfo_v2(a: Handle, b: *mut PciInfoV2) -> u32 { enter(|s| pcie::pci_info_v2(s.target_card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPciInfo_v3(a: Handle, b: *mut PciInfo) -> u32 { enter(|s| pcie::pci_info_v3(s.target_card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPcieLinkMaxSpeed(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::pcie_link_max_speed(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPcieReplayCounter(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::pcie_replay_counter(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPcieSpeed(a: Handle, b: *mut u32) -> u32 { enter(|s| pcie::pcie_speed(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPcieThroughput(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| pcie::pcie_throughput(s.gpu(a)?, limit(b, 2)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPdi(a: Handle, b: *mut Pdi) -> u32 { enter(|s| identity::pdi(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPerformanceModes(a: Handle, b: *mut LongText) -> u32 { enter(|s| clocks::performance_modes(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPerformanceState(a: Handle, b: *mut u32) -> u32 { enter(|s| clocks::performance_state(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPersistenceMode(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::persistence_mode(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPgpuMetadataString(a: Handle, b: *mut c_char, c: *mut u32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPlatformInfo(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::platform_info(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(a: Handle, b: *mut u32) -> u32 { enter(|s| power::power_management_default_limit(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerManagementLimit(a: Handle, b: *mut u32) -> u32 { enter(|s| power::power_management_limit(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| power::power_management_limit_constraints(s.gpu(a)?, out(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerManagementMode(a: Handle, b: *mut u32) -> u32 { enter(|s| power::power_management_mode(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerMizerMode_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerSource(a: Handle, b: *mut u32) -> u32 { enter(|s| power::power_source(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerState(a: Handle, b: *mut u32) -> u32 { enter(|s| clocks::performance_state(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetPowerUsage(a: Handle, b: *mut u32) -> u32 { enter(|s| power::power_usage(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetProcessUtilization(a: Handle, b: *mut ProcessUtilization, c: *mut u32, d: u64) -> u32 { enter(|s| processes::process_utilization(s.gpu(a)?, b, out(c)?, d)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetProcessesUtilizationInfo(a: Handle, b: *mut ProcessesUtilization) -> u32 { enter(|s| processes::processes_utilization_info(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRemappedRows(a: Handle, b: *mut u32, c: *mut u32, d: *mut u32, e: *mut u32) -> u32 { enter(|s| ecc::remapped_rows(s.gpu(a)?, out(b)?, out(c)?, out(d)?, out(e)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRemappedRows_v2(a: Handle, b: *mut RemappedRows) -> u32 { enter(|s| ecc::remapped_rows_v2(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRepairStatus(a: Handle, b: *mut RepairStatus) -> u32 { enter(|s| identity::repair_status(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRetiredPages(a: Handle, b: u32, c: *mut u32, d: *mut u64) -> u32 { enter(|s| ecc::retired_pages(s.gpu(a)?, limit(b, 2)?, out(c)?, d)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRetiredPagesPendingStatus(a: Handle, b: *mut u32) -> u32 { enter(|s| ecc::retired_pages_pending_status(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRetiredPages_v2(a: Handle, b: u32, c: *mut u32, d: *mut u64, e: *mut u64) -> u32 { enter(|s| ecc::retired_pages_v2(s.gpu(a)?, limit(b, 2)?, out(c)?, d, e)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRowRemapperHistogram(a: Handle, b: *mut RowRemapperHistogram) -> u32 { enter(|s| ecc::row_remapper_histogram(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetRunningProcessDetailList(a: Handle, b: *mut ProcessDetailList) -> u32 { enter(|s| processes::running_process_detail_list(s.target(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSamples(a: Handle, b: u32, c: u64, d: *mut u32, e: *mut u32, f: *mut Sample) -> u32 { enter(|s| utilization::samples(s.gpu(a)?, limit(b, 10)?, c, out(d)?, out(e)?, f)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSerial(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::serial(s.card(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSramEccErrorStatus(a: Handle, b: *mut EccSramStatus) -> u32 { enter(|s| ecc::sram_ecc_error_status(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(a: Handle, b: *mut EccSramUnique) -> u32 { enter(|s| ecc::sram_unique_errors(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedClocksEventReasons(a: Handle, b: *mut u64) -> u32 { enter(|s| clocks::supported_clocks_event_reasons(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedClocksThrottleReasons(a: Handle, b: *mut u64) -> u32 { enter(|s| clocks::supported_clocks_event_reasons(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedEventTypes(a: Handle, b: *mut u64) -> u32 { enter(|s| events::supported_event_types(s.card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedGraphicsClocks(a: Handle, b: u32, c: *mut u32, d: *mut u32) -> u32 { enter(|s| clocks::supported_graphics_clocks(s.gpu(a)?, b, out(c)?, d)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedMemoryClocks(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| clocks::supported_memory_clocks(s.gpu(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedPerformanceStates(a: Handle, b: *mut u32, c: u32) -> u32 { enter(|s| clocks::supported_performance_states(s.gpu(a)?, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedPowerModes(a: Handle, b: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetSupportedVgpus(a: Handle, b: *mut u32, c: *mut u32) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTargetFanSpeed(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| thermal::fan_speed_v2(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTemperature(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| thermal::temperature(s.gpu(a)?, limit(b, 2)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTemperatureThreshold(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| thermal::temperature_threshold(s.gpu(a)?, limit(b, 8)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTemperatureV(a: Handle, b: *mut Temperature) -> u32 { enter(|s| thermal::temperature_v(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetThermalSettings(a: Handle, b: u32, c: *mut ThermalSettings) -> u32 { enter(|s| thermal::thermal_settings(s.gpu(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTopologyCommonAncestor(a: Handle, b: Handle, c: *mut u32) -> u32 { enter(|s| topology::topology_common_ancestor(s.card(a)?, s.card(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTopologyNearestGpus(a: Handle, b: u32, c: *mut u32, d: *mut Handle) -> u32 { enter(|s| topology::topology_nearest_gpus(s.card(a)?, b, out(c)?, d)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTotalEccErrors(a: Handle, b: u32, c: u32, d: *mut u64) -> u32 { enter(|s| ecc::total_ecc_errors(s.gpu(a)?, limit(b, 2)?, limit(c, 2)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(a: Handle, b: *mut u64) -> u32 { enter(|s| power::total_energy_consumption(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetUUID(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::uuid(s.target_card(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetUnrepairableMemoryFlag_v1(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::unrepairable_memory_flag(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetUtilizationRates(a: Handle, b: *mut Utilization) -> u32 { enter(|s| utilization::utilization_rates(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVbiosVersion(a: Handle, b: *mut c_char, c: u32) -> u32 { enter(|s| identity::vbios_version(s.gpu(a)?, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuCapabilities(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| { out(c)?; s.gpu(a)?; limit(b, 12)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuHeterogeneousMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuInstancesUtilizationInfo(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000020)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuMetadata(a: Handle, b: *mut u8, c: *mut u32) -> u32 { enter(|s| { out(b)?; out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuProcessUtilization(a: Handle, b: u64, c: *mut u32, d: *mut u8) -> u32 { enter(|s| { out(c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuProcessesUtilizationInfo(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000018)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuSchedulerCapabilities(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuSchedulerLog(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuSchedulerLog_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuSchedulerState(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuSchedulerState_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuTypeCreatablePlacements(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| { version(c, 0x02000020)?; s.gpu(a)?; vgpu_type(b)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuTypeSupportedPlacements(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| { version(c, 0x02000020)?; s.gpu(a)?; vgpu_type(b)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVgpuUtilization(a: Handle, b: u64, c: *mut u32, d: *mut u32, e: *mut u8) -> u32 { enter(|s| { out(c)?; out(d)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetViolationStatus(a: Handle, b: u32, c: *mut ViolationTime) -> u32 { enter(|s| utilization::violation_status(s.gpu(a)?, limit(b, 12)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceGetVirtualizationMode(a: Handle, b: *mut u32) -> u32 { enter(|s| identity::virtualization_mode(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceIsMigDeviceHandle(a: Handle, b: *mut u32) -> u32 { enter(|s| mig::is_mig_device_handle(s.target_card(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceModifyDrainState(a: *mut PciInfo, b: u32) -> u32 { enter(|_| { out(a)?; limit(b, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceOnSameBoard(a: Handle, b: Handle, c: *mut i32) -> u32 { enter(|s| identity::on_same_board(s.card(a)?, s.card(b)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDevicePerfMetricsGetSamples_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDevicePowerSmoothingActivatePresetProfile(a: Handle, b: *mut SmoothingProfile) -> u32 { enter(|s| profiles::smoothing_activate(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDevicePowerSmoothingSetState(a: Handle, b: *mut SmoothingState) -> u32 { enter(|s| profiles::smoothing_set_state(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDevicePowerSmoothingUpdatePresetProfileParam(a: Handle, b: *mut SmoothingProfile) -> u32 { enter(|s| profiles::smoothing_update(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceQueryDrainState(a: *mut PciInfo, b: *mut u32) -> u32 { enter(|s| pcie::drain_state(s, out(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceReadPRMCounters_v1(a: Handle, b: *mut PrmCounterList) -> u32 { enter(|s| nvlink::prm_counters(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceReadWritePRM_v1(a: Handle, b: *mut u32) -> u32 { enter(|s| nvlink::read_write_prm(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceRegisterEvents(a: Handle, b: u64, c: Handle) -> u32 { enter(|s| events::register_events(s.card(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceRemoveGpu(a: *mut PciInfo) -> u32 { enter(|_| { out(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceRemoveGpu_v2(a: *mut PciInfo, b: u32, c: u32) -> u32 { enter(|_| { out(a)?; limit(b, 2)?; limit(c, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceResetApplicationsClocks(a: Handle) -> u32 { enter(|s| settings::reset_applications_clocks(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceResetGpuLockedClocks(a: Handle) -> u32 { enter(|s| settings::reset_gpu_locked_clocks(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceResetMemoryLockedClocks(a: Handle) -> u32 { enter(|s| settings::reset_memory_locked_clocks(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceResetNvLinkErrorCounters(a: Handle, b: u32) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceResetNvLinkUtilizationCounter(a: Handle, b: u32, c: u32) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetAPIRestriction(a: Handle, b: u32, c: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 2)?; limit(c, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetAccountingMode(a: Handle, b: u32) -> u32 { enter(|s| settings::set_accounting_mode(s.gpu(a)?, limit(b, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetAdaptiveTgpMode_v1(a: Handle, b: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetApplicationsClocks(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_applications_clocks(s.gpu(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetAutoBoostedClocksEnabled(a: Handle, b: u32) -> u32 { enter(|s| settings::set_auto_boosted_clocks(s.gpu(a)?, limit(b, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetClockOffsets(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000018)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetComputeMode(a: Handle, b: u32) -> u32 { enter(|s| settings::set_compute_mode(s.target(a)?, limit(b, 4)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetConfComputeUnprotectedMemSize(a: Handle, b: u64) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetCpuAffinity(a: Handle) -> u32 { enter(|s| topology::set_cpu_affinity(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetDefaultAutoBoostedClocksEnabled(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_default_auto_boosted_clocks(s.gpu(a)?, limit(b, 2)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetDefaultFanSpeed_v2(a: Handle, b: u32) -> u32 { enter(|s| settings::set_default_fan_speed(s.gpu(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetDramEncryptionMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetDriverModel(a: Handle, b: u32, c: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 3)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetEccMode(a: Handle, b: u32) -> u32 { enter(|s| settings::set_ecc_mode(s.gpu(a)?, limit(b, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetFanControlPolicy(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_fan_control_policy(s.gpu(a)?, b, limit(c, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetFanSpeed_v2(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_fan_speed(s.gpu(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetGpcClkVfOffset(a: Handle, b: i32) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetGpuLockedClocks(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_gpu_locked_clocks(s.gpu(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetGpuOperationMode(a: Handle, b: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 3)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetHostname_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetMemClkVfOffset(a: Handle, b: i32) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetMemoryLimits_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetMemoryLockedClocks(a: Handle, b: u32, c: u32) -> u32 { enter(|s| settings::set_memory_locked_clocks(s.gpu(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetMigMode(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| mig::set_mig_mode(s.gpu(a)?, limit(b, 2)?, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetNvLinkDeviceLowPowerThreshold(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetNvLinkUtilizationControl(a: Handle, b: u32, c: u32, d: *mut [u32; 2], e: u32) -> u32 { enter(|s| { out(d)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetNvlinkBwMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x0100000c)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetNvlinkBwModeAsync_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetPersistenceMode(a: Handle, b: u32) -> u32 { enter(|s| settings::set_persistence_mode(s.gpu(a)?, limit(b, 2)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetPowerManagementLimit(a: Handle, b: u32) -> u32 { enter(|s| settings::set_power_management_limit(s.gpu(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetPowerManagementLimit_v2(a: Handle, b: *mut PowerValue) -> u32 { enter(|s| settings::set_power_management_limit_v2(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetPowerMizerMode_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetPowerMode(a: Handle, b: u32) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetRusdSettings_v1(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000010)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetTemperatureThreshold(a: Handle, b: u32, c: *mut i32) -> u32 { enter(|s| { out(c)?; s.gpu(a)?; limit(b, 8)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetVgpuCapabilities(a: Handle, b: u32, c: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 12)?; limit(c, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetVgpuHeterogeneousMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetVgpuSchedulerState(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetVgpuSchedulerState_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceSetVirtualizationMode(a: Handle, b: u32) -> u32 { enter(|s| { s.gpu(a)?; limit(b, 5)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceValidateInforom(a: Handle) -> u32 { enter(|s| identity::validate_inforom(s.gpu(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceVgpuForceGspUnload(a: Handle) -> u32 { enter(|s| { s.gpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(a: Handle, b: *mut RequestedProfiles) -> u32 { enter(|s| profiles::clear_requested_profiles(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(a: Handle, b: *mut CurrentProfiles) -> u32 { enter(|s| profiles::current_profiles(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceWorkloadPowerProfileGetProfilesInfo(a: Handle, b: *mut ProfilesInfo) -> u32 { enter(|s| profiles::profiles_info(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(a: Handle, b: *mut RequestedProfiles) -> u32 { enter(|s| profiles::set_requested_profiles(s.gpu(a)?, versioned(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(a: Handle, b: *mut UpdateProfiles) -> u32 { enter(|s| profiles::update_profiles(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlErrorString(a: u32) -> *const c_char { system::error_string(a) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetCreate(a: *mut Handle) -> u32 { enter(|s| events::event_set_create(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetFree(a: Handle) -> u32 { enter(|s| events::event_set_free(s, a)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetGetContextCount_v1(a: Handle, b: *mut u32) -> u32 { enter(|s| events::context_count(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetGetContextData_v1(a: Handle, b: *mut u8) -> u32 { enter(|s| events::context_data(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetGetContextInfo_v1(a: Handle, b: *mut [u32; 5]) -> u32 { enter(|s| events::context_info(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1(a: Handle, b: *mut [u32; 2]) -> u32 { enter(|s| events::context_xid(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetRegisterGpuOperationalEvents_v1(a: Handle, b: *mut [u8; 104]) -> u32 { enter(|s| events::register_operational(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetWait(a: Handle, b: *mut EventDataV1, c: u32) -> u32 { guard(|| events::event_set_wait(a, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetWait_v2(a: Handle, b: *mut EventData, c: u32) -> u32 { guard(|| events::event_set_wait_v2(a, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlEventSetWait_v3(a: Handle, b: *mut EventWaitV3) -> u32 { guard(|| events::event_set_wait_v3(a, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetBlacklistDeviceCount(a: *mut u32) -> u32 { enter(|s| system::excluded_device_count(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetBlacklistDeviceInfoByIndex(a: u32, b: *mut ExcludedDevice) -> u32 { enter(|s| system::excluded_device_info(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetExcludedDeviceCount(a: *mut u32) -> u32 { enter(|s| system::excluded_device_count(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetExcludedDeviceInfoByIndex(a: u32, b: *mut ExcludedDevice) -> u32 { enter(|s| system::excluded_device_info(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetVgpuCompatibility(a: *mut u8, b: *mut u8, c: *mut u8) -> u32 { enter(|_| { out(a)?; out(b)?; out(c)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetVgpuDriverCapabilities(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; limit(a, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGetVgpuVersion(a: *mut u8, b: *mut u8) -> u32 { enter(|_| { out(a)?; out(b)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmMetricsGet(a: *mut GpmRequest) -> u32 { enter(|s| gpm::gpm_metrics_get(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmMigSampleGet(a: Handle, b: u32, c: Handle) -> u32 { enter(|s| gpm::gpm_mig_sample_get(s.gpu(a)?, b, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmQueryDeviceSupport(a: Handle, b: *mut GpmSupport) -> u32 { enter(|s| gpm::gpm_query_device_support(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmQueryIfStreamingEnabled(a: Handle, b: *mut u32) -> u32 { enter(|s| gpm::gpm_query_if_streaming_enabled(s.gpu(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmSampleAlloc(a: *mut Handle) -> u32 { enter(|s| gpm::gpm_sample_alloc(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmSampleFree(a: Handle) -> u32 { enter(|s| gpm::gpm_sample_free(s, a)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmSampleGet(a: Handle, b: Handle) -> u32 { enter(|s| gpm::gpm_sample_get(s.gpu(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpmSetStreamingEnabled(a: Handle, b: u32) -> u32 { enter(|s| gpm::gpm_set_streaming_enabled(s.gpu(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceCreateComputeInstance(a: Handle, b: u32, c: *mut Handle) -> u32 { enter(|s| mig::create_compute_instance(s.gpu_instance(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(a: Handle, b: u32, c: *mut Placement, d: *mut Handle) -> u32 { enter(|s| mig::create_compute_instance_with_placement(s.gpu_instance(a)?, b, out(c)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceDestroy(a: Handle) -> u32 { enter(|s| mig::destroy_gpu_instance(s.gpu_instance(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetActiveVgpus(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000010)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstanceById(a: Handle, b: u32, c: *mut Handle) -> u32 { enter(|s| mig::compute_instance_by_id(s.gpu_instance(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(a: Handle, b: u32, c: *mut Placement, d: *mut u32) -> u32 { enter(|s| mig::compute_possible_placements(s.gpu_instance(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(a: Handle, b: u32, c: u32, d: *mut ComputeProfileInfo) -> u32 { enter(|s| mig::compute_profile_info(s.gpu_instance(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(a: Handle, b: u32, c: u32, d: *mut u32) -> u32 { enter(|s| mig::compute_profile_info_v(s.gpu_instance(a)?, b, c, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| mig::compute_remaining_capacity(s.gpu_instance(a)?, b, out(c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetComputeInstances(a: Handle, b: u32, c: *mut Handle, d: *mut u32) -> u32 { enter(|s| mig::compute_instances(s.gpu_instance(a)?, b, out(c)?, out(d)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetCreatableVgpus(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000010)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetInfo(a: Handle, b: *mut GpuInstanceInfo) -> u32 { enter(|s| mig::gpu_instance_info(s.gpu_instance(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuHeterogeneousMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuSchedulerLog(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x010025a0)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuSchedulerLog_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuSchedulerState(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000018)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuSchedulerState_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceGetVgpuTypeCreatablePlacements(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000020)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceSetVgpuHeterogeneousMode(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000008)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceSetVgpuSchedulerState(a: Handle, b: *mut u32) -> u32 { enter(|s| { version(b, 0x01000018)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlGpuInstanceSetVgpuSchedulerState_v2(a: Handle, b: *mut u8) -> u32 { enter(|s| { out(b)?; s.gpu_instance(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlInit() -> u32 { guard(system::init) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlInitWithFlags(a: u32) -> u32 { guard(|| system::init_with_flags(a)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlInit_v2() -> u32 { guard(system::init) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlInternalGetExportTable(a: *mut *const c_void, b: *mut [u8; 16]) -> u32 { guard(|| table::export_table(out(a)?, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSetVgpuVersion(a: *mut u8) -> u32 { enter(|_| { out(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlShutdown() -> u32 { guard(system::shutdown) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemEventSetCreate(a: *mut SystemSetRequest) -> u32 { enter(|s| events::system_event_set_create(s, versioned(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemEventSetFree(a: *mut SystemSetRequest) -> u32 { enter(|s| events::system_event_set_free(s, versioned(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemEventSetWait(a: *mut SystemWaitRequest) -> u32 { guard(|| events::system_event_set_wait(a)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetCPER_v1(a: *mut u8) -> u32 { enter(|_| { out(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetConfComputeCapabilities(a: *mut ConfidentialCaps) -> u32 { enter(|s| confidential::capabilities(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetConfComputeGpusReadyState(a: *mut u32) -> u32 { enter(|s| confidential::gpus_ready_state(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetConfComputeKeyRotationThresholdInfo(a: *mut u32) -> u32 { enter(|_| { version(a, 0x01000010)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetConfComputeSettings(a: *mut ConfidentialSettings) -> u32 { enter(|s| confidential::settings(s, versioned(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetConfComputeState(a: *mut ConfidentialState) -> u32 { enter(|s| confidential::state(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetCudaDriverVersion(a: *mut i32) -> u32 { enter(|s| system::cuda_driver_version(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(a: *mut i32) -> u32 { enter(|s| system::cuda_driver_version(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetDriverBranch(a: *mut DriverBranch, b: u32) -> u32 { enter(|s| system::driver_branch(s, versioned(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetDriverVersion(a: *mut c_char, b: u32) -> u32 { enter(|s| system::driver_version(s, Text::new(a, b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetHicVersion(a: *mut u32, b: *mut [u32; 9]) -> u32 { enter(|s| system::hic_version(s, out(a)?, b)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetNVMLVersion(a: *mut c_char, b: u32) -> u32 { guard(|| system::nvml_version(Text::new(a, b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetNvlinkBwMode(a: *mut u32) -> u32 { enter(|s| nvlink::system_nvlink_bw_mode(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetProcessName(a: u32, b: *mut c_char, c: u32) -> u32 { enter(|s| system::process_name(s, a, Text::new(b, c)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemGetTopologyGpuSet(a: u32, b: *mut u32, c: *mut Handle) -> u32 { enter(|s| topology::topology_gpu_set(s, a, out(b)?, c)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemRegisterEvents(a: *mut SystemRegisterRequest) -> u32 { enter(|s| events::system_register_events(s, versioned(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemSetConfComputeGpusReadyState(a: u32) -> u32 { enter(|_| { unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemSetConfComputeKeyRotationThresholdInfo(a: *mut u32) -> u32 { enter(|_| { version(a, 0x01000010)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlSystemSetNvlinkBwMode(a: u32) -> u32 { enter(|_| { unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetCount(a: *mut u32) -> u32 { enter(|s| units::unit_count(s, out(a)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetDevices(a: Handle, b: *mut u32, c: *mut Handle) -> u32 { enter(|_| { out(b)?; out(c)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetFanSpeedInfo(a: Handle, b: *mut u8) -> u32 { enter(|_| { out(b)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetHandleByIndex(a: u32, b: *mut Handle) -> u32 { enter(|s| units::unit_handle_by_index(s, a, out(b)?)) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetLedState(a: Handle, b: *mut u8) -> u32 { enter(|_| { out(b)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetPsuInfo(a: Handle, b: *mut u8) -> u32 { enter(|_| { out(b)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetTemperature(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|_| { out(c)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitGetUnitInfo(a: Handle, b: *mut u8) -> u32 { enter(|_| { out(b)?; units::unit(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlUnitSetLedState(a: Handle, b: u32) -> u32 { enter(|_| { units::unit(a)?; limit(b, 2)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceClearAccountingPids(a: u32) -> u32 { enter(|_| { vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetAccountingMode(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetAccountingPids(a: u32, b: *mut u32, c: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetAccountingStats(a: u32, b: u32, c: *mut AccountingStats) -> u32 { enter(|_| { out(c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetEccMode(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetEncoderCapacity(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetEncoderSessions(a: u32, b: *mut u32, c: *mut [u32; 8]) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetEncoderStats(a: u32, b: *mut u32, c: *mut u32, d: *mut u32) -> u32 { enter(|_| { out(b)?; out(c)?; out(d)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetFBCSessions(a: u32, b: *mut u32, c: *mut [u32; 12]) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetFBCStats(a: u32, b: *mut FbcStats) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetFbUsage(a: u32, b: *mut u64) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetFrameRateLimit(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetGpuInstanceId(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetGpuPciId(a: u32, b: *mut c_char, c: *mut u32) -> u32 { enter(|_| { out(b)?; out(c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetLicenseInfo(a: u32, b: *mut u8) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetLicenseInfo_v2(a: u32, b: *mut u8) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetLicenseStatus(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetMdevUUID(a: u32, b: *mut c_char, c: u32) -> u32 { enter(|_| { Text::new(b, c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetMetadata(a: u32, b: *mut u8, c: *mut u32) -> u32 { enter(|_| { out(b)?; out(c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetPlacementId(a: u32, b: *mut u32) -> u32 { enter(|_| { version(b, 0x01000008)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetRuntimeStateSize(a: u32, b: *mut u32) -> u32 { enter(|_| { version(b, 0x01000010)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetType(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetUUID(a: u32, b: *mut c_char, c: u32) -> u32 { enter(|_| { Text::new(b, c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetVmDriverVersion(a: u32, b: *mut c_char, c: u32) -> u32 { enter(|_| { Text::new(b, c)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceGetVmID(a: u32, b: *mut c_char, c: u32, d: *mut u32) -> u32 { enter(|_| { Text::new(b, c)?; out(d)?; vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuInstanceSetEncoderCapacity(a: u32, b: u32) -> u32 { enter(|_| { vgpu(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetBAR1Info(a: u32, b: *mut u32) -> u32 { enter(|_| { version(b, 0x01000010)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetCapabilities(a: u32, b: u32, c: *mut u32) -> u32 { enter(|_| { out(c)?; vgpu_type(a)?; limit(b, 5)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetClass(a: u32, b: *mut c_char, c: *mut u32) -> u32 { enter(|_| { out(b)?; out(c)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetDeviceID(a: u32, b: *mut u64, c: *mut u64) -> u32 { enter(|_| { out(b)?; out(c)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetFbReservation(a: u32, b: *mut u64) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetFrameRateLimit(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetFramebufferSize(a: u32, b: *mut u64) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetGpuInstanceProfileId(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetGspHeapSize(a: u32, b: *mut u64) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetLicense(a: u32, b: *mut c_char, c: u32) -> u32 { enter(|_| { Text::new(b, c)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetMaxInstances(a: Handle, b: u32, c: *mut u32) -> u32 { enter(|s| { out(c)?; s.gpu(a)?; vgpu_type(b)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetMaxInstancesPerGpuInstance(a: *mut u32) -> u32 { enter(|_| { version(a, 0x0100000c)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetMaxInstancesPerVm(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetName(a: u32, b: *mut c_char, c: *mut u32) -> u32 { enter(|_| { out(b)?; out(c)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetNumDisplayHeads(a: u32, b: *mut u32) -> u32 { enter(|_| { out(b)?; vgpu_type(a)?; unsupported() }) }
#[unsafe(no_mangle)] pub extern "C" fn nvmlVgpuTypeGetResolution(a: u32, b: u32, c: *mut u32, d: *mut u32) -> u32 { enter(|_| { out(c)?; out(d)?; vgpu_type(a)?; unsupported() }) }
