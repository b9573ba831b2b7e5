//! Every number an exporter can ask of a device, by name.
//!
//! Field tables and identity files name these; a quantity that a device does not have is `None` and its
//! series is left out, as a blank value is by the real exporters.

use mirage_state::layout::{C2C_LINK_MBS, C2C_LINKS, Instance, board_flags, flags, valid};

use crate::decimal::Decimal;
use crate::device::{Device, Slice};

/// `nvmlDeviceArchitecture_t` of Turing.
const TURING: u32 = 6;

/// The same of Ampere.
const AMPERE: u32 = 7;

/// Reads a quantity; the number is the one after `:` in its name (a link, an engine), 0 without.
pub(crate) type Read = fn(&Device<'_>, u32) -> Option<Decimal>;

/// A named quantity.
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Still answered when the GPU has fallen off the bus.
    pub(crate) outlives: bool,
    pub(crate) read: Read,
}

/// The quantity of a name.
pub(crate) fn find(name: &str) -> Option<&'static Quantity> {
    QUANTITIES.iter().find(|q| q.name == name)
}

fn int(value: impl Into<u64>) -> Option<Decimal> {
    Some(Decimal::whole(value.into()))
}

fn milli(value: impl Into<u64>) -> Option<Decimal> {
    Some(Decimal::of(value.into(), 3))
}

fn ppm(value: u32) -> Option<Decimal> {
    Some(Decimal::of(u64::from(value), 6))
}

fn celsius(value: i32) -> Option<Decimal> {
    Some(Decimal::signed(value))
}

fn some(value: u32) -> Option<Decimal> {
    (value != 0).then(|| Decimal::whole(u64::from(value)))
}

fn flag(d: &Device<'_>, bit: u64) -> Option<Decimal> {
    int(d.has(bit))
}

fn given(d: &Device<'_>, group: u64, value: impl Into<u64>) -> Option<Decimal> {
    d.knows(group).then(|| Decimal::whole(value.into()))
}

/// A profiling ratio: of the instance where there is one.
macro_rules! profiled {
    ($d:ident, $field:ident) => {
        profiled!($d, $field, true)
    };
    // What compute instances share is told as a part of the whole already.
    (shared $d:ident, $field:ident) => {
        profiled!($d, $field, false)
    };
    ($d:ident, $field:ident, $by_share:literal) => {
        if !$d.knows(valid::PROFILING) {
            None
        } else {
            let together = |s: Slice<'_>| together($d, &s, |i| i.$field, $by_share);
            ppm($d.slice.map_or($d.live.$field, together))
        }
    };
}

/// A ratio of a GPU instance: those of its compute instances, each by its share of the multiprocessors.
fn together(d: &Device<'_>, s: &Slice<'_>, of: fn(&Instance) -> u32, by_share: bool) -> u32 {
    let sms = |i: &Instance| {
        let profile = d.node.compute_profiles.get(i.compute_profile as usize)?;
        (profile.whole == 0 && s.profile.sm_count > 0).then_some(profile.sm_count)
    };
    if sms(s.instance).is_none() {
        return of(s.instance);
    }
    let part = |i: &Instance| match sms(i) {
        Some(sms) if by_share => u64::from(of(i)) * u64::from(sms) / u64::from(s.profile.sm_count),
        _ => u64::from(of(i)),
    };
    let mine = d
        .node
        .instances
        .iter()
        .filter(|i| (i.gpu, i.gi) == (s.instance.gpu, s.instance.gi) && i.ci != u32::MAX);
    mine.map(part).sum::<u64>().min(1_000_000) as u32
}

/// Memory of the device: total, reserved, used.
fn memory(d: &Device<'_>) -> (u64, u64, u64) {
    match d.slice {
        Some(s) => (s.profile.memory, 0, s.instance.memory_used),
        None => (
            d.card.memory_total,
            d.board.memory_reserved.min(d.card.memory_total),
            d.live.memory_used,
        ),
    }
}

fn memory_free(d: &Device<'_>) -> u64 {
    let (total, reserved, used) = memory(d);
    total.saturating_sub(reserved).saturating_sub(used)
}

/// One link's share of what all links carry now; links that are down carry nothing.
fn link(d: &Device<'_>, n: u32, all: u64) -> Option<Decimal> {
    if !d.knows(valid::NVLINK) || n >= d.board.nvlink_links.min(32) {
        return None;
    }
    let up = d.live.nvlink_up;
    let share = if up & (1 << n) == 0 {
        0
    } else {
        all / u64::from(up.count_ones())
    };
    int(share)
}

/// Bytes of a link since the start, of those of all links: an equal part, as NVML tells it too, whoever is up, so that
/// a link that fails makes no other counter jump. Itself it has no counter until it is back.
fn link_bytes(d: &Device<'_>, n: u32, all: u64) -> Option<Decimal> {
    let is_up = d.links_up().any(|link| link == n);
    int(is_up.then(|| d.link_share(n, all))?)
}

/// One link's part of a count of all links, from NVLink 5 on; the parts add up to the whole.
fn link_part(d: &Device<'_>, n: u32, all: u64) -> Option<Decimal> {
    let links = u64::from(d.board.nvlink_links.min(32));
    if links <= u64::from(n) {
        return None;
    }
    fifth_generation(d, all / links + u64::from(u64::from(n) < all % links))
}

/// Gigatransfers per second and lane of a PCIe generation.
fn gigatransfers(generation: u32) -> Option<Decimal> {
    let tenths = [25, 50, 80, 160, 320, 640];
    let at = generation.checked_sub(1)?;
    tenths.get(at as usize).map(|&gts| Decimal::of(gts, 1))
}

/// An engine's use as a ratio, of a board that has so many of them.
fn engine(d: &Device<'_>, n: u32, group: u64, count: u32, percent: u32) -> Option<Decimal> {
    (d.knows(valid::PROFILING) && d.knows(group) && n < count)
        .then(|| Decimal::of(u64::from(percent), 2))
}

fn utilization(d: &Device<'_>, percent: u32) -> Option<Decimal> {
    if d.slice.is_some() {
        return None;
    }
    given(d, valid::UTILIZATION, percent)
}

fn average_mw(d: &Device<'_>) -> u32 {
    if d.knows(valid::AVERAGE_POWER) {
        d.live.power_average_mw
    } else {
        d.live.power_mw
    }
}

fn remapped(d: &Device<'_>) -> u32 {
    let live = d.live;
    live.remapped_correctable
        .saturating_add(live.remapped_uncorrectable)
}

fn fifth_generation(d: &Device<'_>, value: u64) -> Option<Decimal> {
    if d.board.nvlink_version < 5 {
        return None;
    }
    given(d, valid::NVLINK, value)
}

/// A number of the chip-to-chip links, 0 while they are off.
fn c2c(d: &Device<'_>, on: u32) -> Option<Decimal> {
    let has = |flag| d.board.flags & flag != 0;
    has(board_flags::C2C).then(|| {
        Decimal::whole(if has(board_flags::C2C_ENABLED) {
            on.into()
        } else {
            0
        })
    })
}

/// A count of memory errors: nobody counts them while ECC is off.
fn ecc(d: &Device<'_>, count: u64) -> Option<Decimal> {
    (d.knows(valid::ECC) && d.has(flags::ECC)).then(|| Decimal::whole(count))
}

/// A count of one unit's: from Ampere on they are told by SRAM and device memory only, before that SRAM is the
/// level-2 cache.
fn ecc_unit(d: &Device<'_>, count: u64) -> Option<Decimal> {
    if d.board.architecture >= AMPERE {
        return None;
    }
    ecc(d, count)
}

macro_rules! quantities {
    ($( $kind:ident $name:literal $about:literal |$d:ident, $n:pat_param| $body:expr ; )*) => {
        /// All quantities, in the order the reference lists them.
        pub(crate) static QUANTITIES: &[Quantity] = &[ $( Quantity {
            name: $name,
            about: $about,
            outlives: quantities!(@$kind),
            read: |$d, $n| $body,
        }, )* ];
    };
    (@live) => { false };
    (@fixed) => { true };
}

quantities! {
    fixed "one" "always 1" |_d, _| int(1u32);
    fixed "zero" "always 0" |_d, _| int(0u32);
    fixed "gpu_count" "GPUs on the node" |d, _| int(d.node.cards.len() as u64);
    fixed "index" "GPU index" |d, _| int(d.index);
    fixed "minor" "minor number of the device node" |d, _| int(d.card.minor);
    live "gpu_percent" "busy, %; not of MIG instances" |d, _| utilization(d, d.live.gpu_percent);
    live "memory_percent" "memory controller busy, %; not of MIG instances" |d, _| utilization(d, d.live.memory_percent);
    live "encoder_percent" "encoder busy, %" |d, _| given(d, valid::ENCODER, d.live.encoder_percent);
    live "decoder_percent" "decoder busy, %" |d, _| given(d, valid::DECODER, d.live.decoder_percent);
    live "jpeg_percent" "JPEG engines busy, %" |d, _| given(d, valid::JPEG, d.live.jpeg_percent);
    live "ofa_percent" "optical-flow engine busy, %" |d, _| given(d, valid::OFA, d.live.ofa_percent);
    live "gr_engine_ratio" "graphics engine active, 0–1" |d, _| profiled!(d, gr_engine_ppm);
    live "sm_active_ratio" "an SM has a warp, 0–1" |d, _| profiled!(d, sm_active_ppm);
    live "sm_idle_ratio" "no SM has a warp, 0–1" |d, _| {
        let active = profiled!(d, sm_active_ppm)?.digits.clamp(0, 1_000_000);
        Some(Decimal::of((1_000_000 - active) as u64, 6))
    };
    live "sm_occupancy_ratio" "warps resident, 0–1" |d, _| profiled!(d, sm_occupancy_ppm);
    live "tensor_ratio" "tensor pipe active, 0–1" |d, _| profiled!(d, tensor_ppm);
    live "dram_ratio" "memory interface active, 0–1" |d, _| profiled!(shared d, dram_ppm);
    live "fp64_ratio" "FP64 pipe active, 0–1" |d, _| profiled!(d, fp64_ppm);
    live "fp32_ratio" "FP32 pipe active, 0–1" |d, _| profiled!(d, fp32_ppm);
    live "fp16_ratio" "FP16 pipe active, 0–1" |d, _| profiled!(d, fp16_ppm);
    live "int_ratio" "integer pipe active, 0–1; not of MIG instances" |d, _| {
        if d.slice.is_some() || !d.knows(valid::PROFILING) { None } else { ppm(d.live.int_ppm) }
    };
    live "decoder_ratio" "decoder :n active, 0–1" |d, n| engine(d, n, valid::DECODER, d.board.decoders, d.live.decoder_percent);
    live "jpeg_ratio" "JPEG engine :n active, 0–1" |d, n| engine(d, n, valid::JPEG, d.board.jpeg_engines, d.live.jpeg_percent);
    live "ofa_ratio" "optical-flow engine :n active, 0–1" |d, n| engine(d, n, valid::OFA, d.board.ofa_engines, d.live.ofa_percent);
    live "sm_mhz" "SM clock" |d, _| int(d.live.sm_mhz);
    live "mem_mhz" "memory clock" |d, _| int(d.live.mem_mhz);
    live "video_mhz" "video clock" |d, _| int(d.live.video_mhz);
    live "app_sm_mhz" "application SM clock" |d, _| some(d.live.app_sm_mhz);
    live "app_mem_mhz" "application memory clock" |d, _| some(d.live.app_mem_mhz);
    fixed "sm_min_mhz" "lowest SM clock" |d, _| some(d.board.sm_min_mhz);
    fixed "sm_max_mhz" "highest SM clock" |d, _| some(d.board.sm_max_mhz);
    fixed "mem_max_mhz" "highest memory clock" |d, _| some(d.board.mem_max_mhz);
    fixed "video_max_mhz" "highest video clock" |d, _| some(d.board.video_max_mhz);
    live "sm_ratio" "SM clock over the highest" |d, _| Some(Decimal::ratio(d.live.sm_mhz.into(), d.board.sm_max_mhz.into()));
    live "power_w" "power now" |d, _| milli(d.live.power_mw);
    live "power_average_w" "power averaged over a second; power now on boards without" |d, _| milli(average_mw(d));
    live "memory_power_w" "memory power" |d, _| if d.knows(valid::MEMORY_POWER) { milli(d.live.memory_power_mw) } else { None };
    live "module_power_w" "module power" |d, _| if d.knows(valid::MODULE_POWER) { milli(d.live.module_power_mw) } else { None };
    live "power_limit_w" "power limit asked for" |d, _| milli(d.live.power_limit_mw);
    live "enforced_limit_w" "power limit in force" |d, _| milli(d.live.enforced_limit_mw);
    fixed "power_min_w" "lowest power limit" |d, _| milli(d.board.power_min_mw);
    fixed "power_max_w" "highest power limit" |d, _| milli(d.board.power_max_mw);
    fixed "power_default_w" "default power limit" |d, _| milli(d.board.power_default_mw);
    live "power_ratio" "power over the limit in force" |d, _| Some(Decimal::ratio(d.live.power_mw.into(), d.live.enforced_limit_mw.into()));
    live "energy_j" "energy since start" |d, _| if d.knows(valid::ENERGY) { milli(d.live.energy_mj) } else { None };
    live "temperature_c" "GPU temperature" |d, _| celsius(d.live.temperature_c);
    live "memory_temperature_c" "memory temperature" |d, _| if d.knows(valid::MEMORY_TEMPERATURE) { celsius(d.live.memory_temperature_c) } else { None };
    live "memory_temperature_or_zero_c" "as memory_temperature_c; 0 on boards without a sensor, from Turing on" |d, _| {
        if d.knows(valid::MEMORY_TEMPERATURE) {
            celsius(d.live.memory_temperature_c)
        } else {
            (d.board.architecture >= TURING).then(|| Decimal::whole(0))
        }
    };
    live "margin_c" "degrees left before throttling" |d, _| if d.knows(valid::MARGIN) { celsius(d.live.margin_c) } else { None };
    live "temperature_ratio" "GPU temperature over the slowdown threshold" |d, _| {
        Some(Decimal::ratio(d.live.temperature_c.max(0) as u64, d.board.slowdown_c.max(0) as u64))
    };
    fixed "slowdown_c" "slowdown threshold" |d, _| if d.board.slowdown_c == 0 { None } else { celsius(d.board.slowdown_c) };
    fixed "shutdown_c" "shutdown threshold" |d, _| if d.board.shutdown_c == 0 { None } else { celsius(d.board.shutdown_c) };
    fixed "max_operating_c" "highest operating temperature" |d, _| if d.board.max_operating_c == 0 { None } else { celsius(d.board.max_operating_c) };
    fixed "memory_max_c" "highest memory temperature" |d, _| if d.board.memory_max_c == 0 { None } else { celsius(d.board.memory_max_c) };
    fixed "memory_total" "memory, bytes" |d, _| int(memory(d).0);
    live "memory_reserved" "memory kept by the driver, bytes" |d, _| int(memory(d).1);
    live "memory_used" "memory in use without the driver's, bytes" |d, _| int(memory(d).2);
    live "memory_free" "memory free, bytes" |d, _| int(memory_free(d));
    live "memory_used_ratio" "memory in use over what the driver leaves, 0–1" |d, _| {
        let (total, reserved, used) = memory(d);
        Some(Decimal::ratio(used, total.saturating_sub(reserved)))
    };
    live "memory_busy_ratio" "memory bandwidth in use, 0–1" |d, _| {
        if d.knows(valid::PROFILING) { profiled!(shared d, dram_ppm) } else { Some(Decimal::of(d.live.memory_percent.into(), 2)) }
    };
    live "memory_bps" "memory traffic, bytes per second" |d, _| {
        let busy = if d.knows(valid::PROFILING) { u64::from(d.live.dram_ppm) } else { u64::from(d.live.memory_percent) * 10_000 };
        int(u64::from(d.board.memory_bandwidth_mbs).saturating_mul(busy))
    };
    fixed "memory_bandwidth_bps" "peak memory traffic, bytes per second" |d, _| int(u64::from(d.board.memory_bandwidth_mbs) * 1_000_000);
    fixed "bar1_total" "BAR1, bytes" |d, _| (d.board.bar1_total != 0).then(|| Decimal::whole(d.board.bar1_total));
    live "bar1_used" "BAR1 in use, bytes" |d, _| (d.board.bar1_total != 0).then(|| Decimal::whole(d.live.bar1_used));
    live "bar1_free" "BAR1 free, bytes" |d, _| (d.board.bar1_total != 0).then(|| Decimal::whole(d.board.bar1_total.saturating_sub(d.live.bar1_used)));
    live "pcie_tx_bps" "PCIe bytes sent per second" |d, _| int(d.live.pcie_tx_bps);
    live "pcie_rx_bps" "PCIe bytes received per second" |d, _| int(d.live.pcie_rx_bps);
    live "pcie_tx_profiled_bps" "as pcie_tx_bps, on boards with profiling" |d, _| given(d, valid::PROFILING, d.live.pcie_tx_bps);
    live "pcie_rx_profiled_bps" "as pcie_rx_bps, on boards with profiling" |d, _| given(d, valid::PROFILING, d.live.pcie_rx_bps);
    live "pcie_bps" "PCIe bytes per second, both ways" |d, _| int(d.live.pcie_tx_bps.saturating_add(d.live.pcie_rx_bps));
    live "pcie_tx_bytes" "PCIe bytes sent" |d, _| int(d.live.pcie_tx_bytes);
    live "pcie_rx_bytes" "PCIe bytes received" |d, _| int(d.live.pcie_rx_bytes);
    live "pcie_replays" "PCIe replays" |d, _| int(d.live.pcie_replays);
    live "pcie_gts" "PCIe speed now, GT/s" |d, _| gigatransfers(d.live.pcie_gen);
    fixed "pcie_gts_max" "highest PCIe speed of board and host, GT/s" |d, _| {
        let host = d.board.pcie_host_gen_max;
        gigatransfers(if host == 0 { d.board.pcie_gen_max } else { d.board.pcie_gen_max.min(host) })
    };
    live "pcie_gen" "PCIe generation now" |d, _| some(d.live.pcie_gen);
    live "pcie_width" "PCIe width now" |d, _| some(d.live.pcie_width);
    fixed "pcie_gen_max" "highest PCIe generation of board and host" |d, _| {
        let host = d.board.pcie_host_gen_max;
        some(if host == 0 { d.board.pcie_gen_max } else { d.board.pcie_gen_max.min(host) })
    };
    fixed "pcie_width_max" "highest PCIe width" |d, _| some(d.board.pcie_width_max);
    live "nvlink_bps" "link bytes per second, both ways, all links" |d, _| given(d, valid::NVLINK, d.live.nvlink_tx_bps.saturating_add(d.live.nvlink_rx_bps));
    live "nvlink_tx_bps" "link bytes sent per second, all links" |d, _| given(d, valid::NVLINK, d.live.nvlink_tx_bps);
    live "nvlink_rx_bps" "link bytes received per second, all links" |d, _| given(d, valid::NVLINK, d.live.nvlink_rx_bps);
    live "nvlink_tx_bytes" "link bytes sent, all links" |d, _| given(d, valid::NVLINK, d.live.nvlink_tx_bytes);
    live "nvlink_rx_bytes" "link bytes received, all links" |d, _| given(d, valid::NVLINK, d.live.nvlink_rx_bytes);
    live "nvlink5_tx_bytes" "as nvlink_tx_bytes, from NVLink 5 on" |d, _| fifth_generation(d, d.live.nvlink_tx_bytes);
    live "nvlink5_rx_bytes" "as nvlink_rx_bytes, from NVLink 5 on" |d, _| fifth_generation(d, d.live.nvlink_rx_bytes);
    live "nvlink5_recoveries" "as nvlink_recoveries, from NVLink 5 on" |d, _| fifth_generation(d, d.live.nvlink_recoveries);
    live "nvlink5_crc_errors" "as nvlink_crc_errors, from NVLink 5 on" |d, _| fifth_generation(d, d.live.nvlink_crc_errors);
    live "nvlink5_unseen" "as nvlink_unseen, from NVLink 5 on" |d, _| fifth_generation(d, 0);
    live "link_bps" "bytes per second of link :n, both ways" |d, n| link(d, n, d.live.nvlink_tx_bps.saturating_add(d.live.nvlink_rx_bps));
    live "link_tx_bps" "bytes sent per second on link :n" |d, n| link(d, n, d.live.nvlink_tx_bps);
    live "link_rx_bps" "bytes received per second on link :n" |d, n| link(d, n, d.live.nvlink_rx_bps);
    live "link_tx_bytes" "bytes sent on link :n" |d, n| link_bytes(d, n, d.live.nvlink_tx_bytes);
    live "link_rx_bytes" "bytes received on link :n" |d, n| link_bytes(d, n, d.live.nvlink_rx_bytes);
    live "link5_crc_errors" "link :n's part of the CRC errors, from NVLink 5 on" |d, n| link_part(d, n, d.live.nvlink_crc_errors);
    live "link5_replays" "link :n's part of the replays, from NVLink 5 on" |d, n| link_part(d, n, d.live.nvlink_replays);
    live "link5_recoveries" "link :n's part of the recoveries, from NVLink 5 on" |d, n| link_part(d, n, d.live.nvlink_recoveries);
    live "link_up" "1 while link :n is up" |d, n| {
        (d.knows(valid::NVLINK) && n < d.board.nvlink_links.min(32)).then(|| Decimal::whole(u64::from(d.live.nvlink_up >> n & 1)))
    };
    live "nvlink_crc_errors" "link CRC errors" |d, _| given(d, valid::NVLINK, d.live.nvlink_crc_errors);
    live "nvlink_replays" "link replays" |d, _| given(d, valid::NVLINK, d.live.nvlink_replays);
    live "nvlink_recoveries" "link recoveries" |d, _| given(d, valid::NVLINK, d.live.nvlink_recoveries);
    live "nvlink_unseen" "link errors of other kinds (none in a simulated board)" |d, _| given(d, valid::NVLINK, 0u32);
    live "throttled_power_ns" "time throttled for power" |d, _| int(d.live.violations.power_ns);
    live "throttled_thermal_ns" "time throttled for heat" |d, _| int(d.live.violations.thermal_ns);
    live "sw_thermal_ns" "of those, slowed down by software" |d, _| int(d.live.sw_thermal_ns);
    live "hw_thermal_ns" "of those, slowed down by hardware" |d, _| int(d.live.hw_thermal_ns);
    live "throttled_sync_boost_ns" "time throttled by sync boost" |d, _| int(d.live.violations.sync_boost_ns);
    live "throttled_board_limit_ns" "time throttled by the board" |d, _| int(d.live.violations.board_limit_ns);
    live "throttled_low_utilization_ns" "time slow for want of work" |d, _| int(d.live.violations.low_utilization_ns);
    live "throttled_reliability_ns" "time throttled for reliability" |d, _| int(d.live.violations.reliability_ns);
    live "throttled_app_clocks_ns" "time below application clocks" |d, _| int(d.live.violations.app_clocks_ns);
    live "throttled_base_clocks_ns" "time below base clocks" |d, _| int(d.live.violations.base_clocks_ns);
    live "reasons" "clock-event reasons, NVML's bits" |d, _| int(d.live.reasons);
    live "reason" "1 while clock-event reason bit :n is set" |d, n| int(d.live.reasons.checked_shr(n).unwrap_or(0) & 1);
    live "ecc_corrected_volatile" "corrected errors since reset" |d, _| ecc(d, d.live.ecc_volatile.corrected_sram.saturating_add(d.live.ecc_volatile.corrected_dram));
    live "ecc_uncorrected_volatile" "uncorrected errors since reset" |d, _| ecc(d, d.live.ecc_volatile.uncorrected_sram.saturating_add(d.live.ecc_volatile.uncorrected_dram));
    live "ecc_corrected_aggregate" "corrected errors in the board's life" |d, _| ecc(d, d.live.ecc_aggregate.corrected_sram.saturating_add(d.live.ecc_aggregate.corrected_dram));
    live "ecc_uncorrected_aggregate" "uncorrected errors in the board's life" |d, _| ecc(d, d.live.ecc_aggregate.uncorrected_sram.saturating_add(d.live.ecc_aggregate.uncorrected_dram));
    live "ecc_corrected_volatile_sram" "of those, SRAM" |d, _| ecc(d, d.live.ecc_volatile.corrected_sram);
    live "ecc_corrected_volatile_dram" "of those, device memory" |d, _| ecc(d, d.live.ecc_volatile.corrected_dram);
    live "ecc_uncorrected_volatile_sram" "of those, SRAM" |d, _| ecc(d, d.live.ecc_volatile.uncorrected_sram);
    live "ecc_uncorrected_volatile_dram" "of those, device memory" |d, _| ecc(d, d.live.ecc_volatile.uncorrected_dram);
    live "ecc_corrected_aggregate_sram" "of those, SRAM" |d, _| ecc(d, d.live.ecc_aggregate.corrected_sram);
    live "ecc_corrected_aggregate_dram" "of those, device memory" |d, _| ecc(d, d.live.ecc_aggregate.corrected_dram);
    live "ecc_uncorrected_aggregate_sram" "of those, SRAM" |d, _| ecc(d, d.live.ecc_aggregate.uncorrected_sram);
    live "ecc_uncorrected_aggregate_dram" "of those, device memory" |d, _| ecc(d, d.live.ecc_aggregate.uncorrected_dram);
    live "ecc_corrected_volatile_l2" "of those, level-2 cache, before Ampere" |d, _| ecc_unit(d, d.live.ecc_volatile.corrected_sram);
    live "ecc_uncorrected_volatile_l2" "of those, level-2 cache, before Ampere" |d, _| ecc_unit(d, d.live.ecc_volatile.uncorrected_sram);
    live "ecc_corrected_aggregate_l2" "of those, level-2 cache, before Ampere" |d, _| ecc_unit(d, d.live.ecc_aggregate.corrected_sram);
    live "ecc_uncorrected_aggregate_l2" "of those, level-2 cache, before Ampere" |d, _| ecc_unit(d, d.live.ecc_aggregate.uncorrected_sram);
    live "ecc_unit_unseen" "errors of other units, before Ampere (none in a simulated board)" |d, _| ecc_unit(d, 0);
    live "ecc_mode" "1 while ECC is on" |d, _| (d.board.flags & board_flags::ECC != 0).then(|| Decimal::whole(d.has(flags::ECC).into()));
    live "ecc_pending" "1 if ECC is on after a reset" |d, _| (d.board.flags & board_flags::ECC != 0).then(|| Decimal::whole(d.has(flags::ECC_PENDING).into()));
    live "remapped_correctable" "rows remapped after correctable errors" |d, _| given(d, valid::REMAP, d.live.remapped_correctable);
    live "remapped_uncorrectable" "rows remapped after uncorrectable errors" |d, _| given(d, valid::REMAP, d.live.remapped_uncorrectable);
    live "remap_pending" "1 while a row remap waits for a reset" |d, _| given(d, valid::REMAP, d.has(flags::REMAP_PENDING));
    live "remap_failed" "1 once a row remap failed" |d, _| given(d, valid::REMAP, d.has(flags::REMAP_FAILED));
    live "banks_untouched" "banks with all spare rows" |d, _| given(d, valid::REMAP, d.board.row_remap_banks.saturating_sub(remapped(d)));
    live "banks_high" "banks with most spare rows" |d, _| given(d, valid::REMAP, remapped(d).min(d.board.row_remap_banks));
    live "banks_spent" "banks with few or no spare rows (none in a simulated board)" |d, _| given(d, valid::REMAP, 0u32);
    live "retired_single" "pages retired after single-bit errors" |d, _| given(d, valid::RETIRED, d.live.retired_single);
    live "retired_double" "pages retired after double-bit errors" |d, _| given(d, valid::RETIRED, d.live.retired_double);
    live "retire_pending" "1 while a page retirement waits for a reset" |d, _| given(d, valid::RETIRED, d.has(flags::RETIRE_PENDING));
    live "sram_threshold" "1 once the SRAM error threshold was passed" |d, _| ecc(d, d.has(flags::SRAM_THRESHOLD).into());
    fixed "xid" "last Xid" |d, _| given(d, valid::XID, d.live.xid);
    fixed "xid_count" "Xids so far" |d, _| int(d.live.xid_count);
    live "pstate" "performance state" |d, _| int(d.live.pstate);
    live "fan_percent" "fan speed, %" |d, _| given(d, valid::FAN, d.live.fan_percent);
    live "compute_mode" "NVML compute mode" |d, _| int(d.live.compute_mode);
    live "persistence" "1 in persistence mode" |d, _| flag(d, flags::PERSISTENCE);
    live "mig_mode" "1 while MIG is on, of boards with MIG" |d, _| (d.board.max_mig_instances != 0).then(|| Decimal::whole(d.has(flags::MIG).into()));
    fixed "recovery_action" "NVML recovery action" |d, _| int(d.live.recovery_action);
    fixed "compute_capability" "CUDA compute capability, 16 bits each" |d, _| int(u64::from(d.board.cc_major) << 16 | u64::from(d.board.cc_minor & 0xffff));
    fixed "fabric_state" "fabric registration state" |d, _| some(d.card.fabric_state);
    fixed "fabric_clique" "fabric clique" |d, _| if d.card.fabric_state == 0 { None } else { int(d.card.clique) };
    fixed "fabric_error" "fabric registration error (none)" |d, _| if d.card.fabric_state == 0 { None } else { int(0u32) };
    fixed "c2c_links" "chip-to-chip links that are on" |d, _| c2c(d, C2C_LINKS);
    fixed "c2c_up" "1 while the chip-to-chip links are on" |d, _| c2c(d, 1);
    fixed "c2c_link_mbs" "speed of a chip-to-chip link that is on, MB/s" |d, _| c2c(d, C2C_LINK_MBS).filter(|mbs| mbs.digits != 0);
    fixed "lost" "1 once fallen off the bus" |d, _| flag(d, flags::LOST);
    fixed "healthy" "1 unless lost, hung or in need of a reset" |d, _| int(!d.has(flags::LOST | flags::HUNG | flags::RESET_REQUIRED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        for (at, q) in QUANTITIES.iter().enumerate() {
            assert!(
                q.name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                q.name
            );
            assert!(
                QUANTITIES[..at].iter().all(|other| other.name != q.name),
                "{}",
                q.name
            );
        }
    }
}
