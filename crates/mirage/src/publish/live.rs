//! A GPU's readings as its live record.

use mirage_model::board::{Board, LimitStyle, Vendor};
use mirage_sim::{Gpu, Readings, ReasonTimes};
use mirage_state::layout::{Ecc, Live, Violations, flags, valid};

use super::Clock;

/// `nvmlDeviceArchitecture_t` from which boards have an energy counter.
const VOLTA: u32 = 5;
/// ... report average power.
const AMPERE: u32 = 7;
/// Compute capability of the one Ampere chip that does not.
const GA100: (u32, u32) = (8, 0);
/// ... report memory power.
const HOPPER: u32 = 9;
/// Nanoseconds in a millisecond.
const NS_PER_MS: u64 = 1_000_000;

/// The live record of a GPU.
pub(super) fn live(
    board: &Board,
    readings: &Readings,
    module_mw: Option<u32>,
    clock: Clock,
) -> Live {
    let &Readings {
        memory_used,
        bar1_used,
        energy_mj,
        pcie_tx_bps,
        pcie_rx_bps,
        pcie_tx_bytes,
        pcie_rx_bytes,
        nvlink_tx_bps,
        nvlink_rx_bps,
        nvlink_tx_bytes,
        nvlink_rx_bytes,
        violations,
        reason_times: ReasonTimes {
            sw_thermal_ns,
            hw_thermal_ns,
        },
        xid_ns,
        ecc_volatile,
        ecc_aggregate,
        nvlink_crc_errors,
        nvlink_replays,
        nvlink_recoveries,
        nvlink_up,
        pcie_replays,
        xid,
        xid_count,
        reasons,
        gr_engine_ppm,
        sm_active_ppm,
        sm_occupancy_ppm,
        tensor_ppm,
        dram_ppm,
        fp64_ppm,
        fp32_ppm,
        fp16_ppm,
        int_ppm,
        power_mw,
        power_average_mw,
        memory_power_mw,
        power_limit_mw,
        enforced_limit_mw,
        remapped_correctable,
        remapped_uncorrectable,
        retired_single,
        retired_double,
        profiles_requested,
        profiles_enforced,
        api_delay_ms,
        api_code,
        sm_mhz,
        mem_mhz,
        video_mhz,
        app_sm_mhz,
        app_mem_mhz,
        lock_sm_min_mhz,
        lock_sm_max_mhz,
        lock_mem_min_mhz,
        lock_mem_max_mhz,
        temperature_c,
        memory_temperature_c,
        margin_c,
        pstate,
        gpu_percent,
        memory_percent,
        encoder_percent,
        decoder_percent,
        jpeg_percent,
        ofa_percent,
        fan_percent,
        pcie_gen,
        pcie_width,
        recovery_action,
        compute_mode,
        lost,
        hung,
        mig,
        mig_pending,
        persistence,
        ecc,
        ecc_pending,
        accounting,
        reset_required,
        remap_pending,
        remap_failed,
        retire_pending,
        fan_manual,
        auto_boost,
        auto_boost_default,
    } = readings;
    let flags = bits(&[
        (lost, flags::LOST),
        (hung, flags::HUNG),
        (mig, flags::MIG),
        (mig_pending, flags::MIG_PENDING),
        (persistence, flags::PERSISTENCE),
        (ecc, flags::ECC),
        (ecc_pending, flags::ECC_PENDING),
        (accounting, flags::ACCOUNTING),
        (reset_required, flags::RESET_REQUIRED),
        (remap_pending, flags::REMAP_PENDING),
        (remap_failed, flags::REMAP_FAILED),
        (retire_pending, flags::RETIRE_PENDING),
        (fan_manual, flags::FAN_MANUAL),
        (board.auto_boost() && auto_boost, flags::AUTO_BOOST),
        (
            board.auto_boost() && auto_boost_default,
            flags::AUTO_BOOST_DEFAULT,
        ),
    ]);
    Live {
        // The file's writer numbers its records itself.
        seq: 0,
        valid: validity(board, mig, xid),
        flags,
        reasons: reasons.into(),
        memory_used,
        bar1_used,
        energy_mj,
        pcie_tx_bps,
        pcie_rx_bps,
        pcie_tx_bytes,
        pcie_rx_bytes,
        nvlink_tx_bps,
        nvlink_rx_bps,
        nvlink_tx_bytes,
        nvlink_rx_bytes,
        violations: throttled(violations),
        ecc_volatile: errors(ecc_volatile),
        ecc_aggregate: errors(ecc_aggregate),
        nvlink_crc_errors: nvlink_crc_errors.into(),
        nvlink_replays: nvlink_replays.into(),
        nvlink_recoveries: nvlink_recoveries.into(),
        xid_unix_ms: if xid == 0 {
            0
        } else {
            clock.start_unix_ms.saturating_add(xid_ns / NS_PER_MS)
        },
        xid_count: xid_count.into(),
        pcie_replays: pcie_replays.into(),
        xid,
        pstate: pstate.into(),
        gpu_percent: gpu_percent.into(),
        memory_percent: memory_percent.into(),
        encoder_percent: encoder_percent.into(),
        decoder_percent: decoder_percent.into(),
        jpeg_percent: jpeg_percent.into(),
        ofa_percent: ofa_percent.into(),
        gr_engine_ppm,
        sm_active_ppm,
        sm_occupancy_ppm,
        tensor_ppm,
        dram_ppm,
        fp64_ppm,
        fp32_ppm,
        fp16_ppm,
        int_ppm,
        sm_mhz: sm_mhz.into(),
        mem_mhz: mem_mhz.into(),
        video_mhz: video_mhz.into(),
        app_sm_mhz: app_sm_mhz.into(),
        app_mem_mhz: app_mem_mhz.into(),
        lock_sm_min_mhz: lock_sm_min_mhz.into(),
        lock_sm_max_mhz: lock_sm_max_mhz.into(),
        lock_mem_min_mhz: lock_mem_min_mhz.into(),
        lock_mem_max_mhz: lock_mem_max_mhz.into(),
        power_mw,
        power_average_mw,
        memory_power_mw,
        module_power_mw: module_mw.unwrap_or(0),
        power_limit_mw,
        enforced_limit_mw,
        temperature_c: temperature_c.into(),
        memory_temperature_c: memory_temperature_c.into(),
        margin_c: margin_c.into(),
        fan_percent: fan_percent.into(),
        pcie_gen: pcie_gen.into(),
        pcie_width: pcie_width.into(),
        nvlink_up,
        remapped_correctable,
        remapped_uncorrectable,
        retired_single,
        retired_double,
        recovery_action: recovery_action.into(),
        compute_mode: compute_mode.into(),
        api_delay_ms,
        api_code,
        // Exporters derive health from the Xid and the flags above.
        health: 0,
        profiles_requested,
        profiles_enforced,
        sw_thermal_ns,
        hw_thermal_ns,
    }
}

/// What the module draws that a superchip's GPU sits in: its GPUs, and the rest of it. `None` where there is no module.
pub(super) fn module_mw(gpus: &[Gpu], at: usize) -> Option<u32> {
    let board = gpus.get(at)?.board();
    let rest_mw = board.power.module?.rest_w * 1e3;
    let share = board.gpus_per_serial.max(1) as usize;
    let mates = gpus.iter().skip(at / share * share).take(share);
    let drawn = mates.map(|gpu| gpu.readings().power_mw);
    Some(drawn.fold(rest_mw as u32, u32::saturating_add))
}

/// Which groups of quantities this board has, in its present mode.
fn validity(board: &Board, mig: bool, xid: u32) -> u64 {
    let since = |first| board.vendor != Vendor::Nvidia || board.architecture_code >= first;
    let ecc = board.ecc.is_some();
    let remaps = board.row_remap_banks.is_some();
    bits(&[
        (!mig, valid::UTILIZATION),
        (board.thermal.has_memory_sensor, valid::MEMORY_TEMPERATURE),
        (board.profiling, valid::PROFILING),
        (!mig && board.nvlink.is_some(), valid::NVLINK),
        (board.fans > 0, valid::FAN),
        (ecc, valid::ECC),
        (remaps, valid::REMAP),
        (ecc && !remaps, valid::RETIRED),
        (xid != 0, valid::XID),
        // NVIDIA's boards without encoders tell that these are idle.
        (
            !mig && (board.encoders > 0 || board.vendor == Vendor::Nvidia),
            valid::ENCODER,
        ),
        (!mig && board.decoders > 0, valid::DECODER),
        (
            since(AMPERE) && board.compute_capability != GA100,
            valid::AVERAGE_POWER,
        ),
        (board.hbm && since(HOPPER), valid::MEMORY_POWER),
        (board.power.module.is_some(), valid::MODULE_POWER),
        (board.thermal.style == LimitStyle::Margin, valid::MARGIN),
        (since(VOLTA), valid::ENERGY),
        (!mig && board.jpeg_engines > 0, valid::JPEG),
        (!mig && board.ofa_engines > 0, valid::OFA),
    ])
}

fn bits(set: &[(bool, u64)]) -> u64 {
    set.iter()
        .filter(|(is, _)| *is)
        .fold(0, |all, (_, bit)| all | bit)
}

fn throttled(times: mirage_sim::Violations) -> Violations {
    let mirage_sim::Violations {
        power_ns,
        thermal_ns,
        sync_boost_ns,
        board_limit_ns,
        low_utilization_ns,
        reliability_ns,
        app_clocks_ns,
        base_clocks_ns,
    } = times;
    Violations {
        power_ns,
        thermal_ns,
        sync_boost_ns,
        board_limit_ns,
        low_utilization_ns,
        reliability_ns,
        app_clocks_ns,
        base_clocks_ns,
    }
}

fn errors(counts: mirage_sim::Ecc) -> Ecc {
    let mirage_sim::Ecc {
        corrected_sram,
        corrected_dram,
        uncorrected_sram,
        uncorrected_dram,
    } = counts;
    Ecc {
        corrected_sram: corrected_sram.into(),
        corrected_dram: corrected_dram.into(),
        uncorrected_sram: uncorrected_sram.into(),
        uncorrected_dram: uncorrected_dram.into(),
    }
}
