//! Field values: one call for many quantities, each answered or refused on its own.

use mirage_state::layout::{C2C_LINK_MBS, C2C_LINKS, Live, board_flags, flags, valid};

use crate::abi::FieldValue;
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::Gpu;
use crate::{ecc, nvlink, pcie};

/// One more than the highest field NVML defines.
const FIELDS: u32 = 308;
/// Most fields of one call: each is known at most once, and a hostile count must end somewhere.
const MOST: i32 = 1 << 20;
/// As a link number: all of them.
const ALL_LINKS: u32 = u32::MAX;
const AMPERE: u32 = 7;
const ADA: u32 = 8;
const HOPPER: u32 = 9;
const BLACKWELL: u32 = 10;

/// A value with NVML's number for its type.
enum Value {
    U32(u32),
    U64(u64),
    I32(i32),
}

type Found = Result<Value, Fault>;

/// `nvmlDeviceGetFieldValues`.
pub fn field_values(gpu: Gpu, count: i32, values: Out<FieldValue>) -> Answer {
    if !(1..=MOST).contains(&count) {
        return Err(Fault::InvalidArgument);
    }
    let live = gpu.live();
    let time_us = gpu.session.now_us() as i64;
    for at in 0..count as usize {
        let mut entry = values.nth(at).get();
        let found = find(&gpu, &live, entry.id, entry.scope);
        entry.time_us = time_us;
        entry.latency_us = 0;
        entry.code = 0;
        match found {
            Ok(Value::U32(value)) => (entry.kind, entry.value) = (1, value.into()),
            Ok(Value::U64(value)) => (entry.kind, entry.value) = (3, value),
            Ok(Value::I32(value)) => (entry.kind, entry.value) = (5, u64::from(value as u32)),
            Err(fault) => entry.code = fault.code(),
        }
        values.nth(at).set(entry);
    }
    Ok(())
}

/// `nvmlDeviceClearFieldValues`: for root, entry by entry.
pub fn clear_field_values(_: Gpu, count: i32, values: Out<FieldValue>) -> Answer {
    if !(1..=MOST).contains(&count) {
        return Err(Fault::InvalidArgument);
    }
    for at in 0..count as usize {
        let mut entry = values.nth(at).get();
        let known = (1..FIELDS).contains(&entry.id);
        entry.code = if known {
            Fault::NoPermission
        } else {
            Fault::InvalidArgument
        }
        .code();
        values.nth(at).set(entry);
    }
    Err(Fault::NoPermission)
}

/// The value of a field; `scope` is a link or a power scope, as the field says.
fn find(gpu: &Gpu, live: &Live, id: u32, scope: u32) -> Found {
    match id {
        1..=31 | 92 | 93 | 142..=145 | 301 | 302 => errors(gpu, live, id),
        32..=73 | 84..=91 | 96..=141 | 146..=168 | 200..=225 | 235..=250 | 289..=296 => {
            links(gpu, live, id, scope)
        }
        74..=81 | 269..=271 => throttling(live, id),
        83 | 185..=192 => power(gpu, live, id, scope),
        82 | 193..=196 => heat(gpu, live, id),
        94 | 95 | 169 | 173..=183 | 197 | 198 => bus(gpu, live, id),
        170..=172 | 231..=234 => chip_to_chip(gpu, id, scope),
        184 if gpu.board().max_mig_instances > 0 => {
            Ok(Value::U32((gpu.board().architecture >= HOPPER).into()))
        }
        199 => Ok(Value::U32((gpu.board().max_mig_instances > 0).into())),
        226 => Ok(Value::U32((live.flags & flags::RESET_REQUIRED != 0).into())),
        227 if gpu.board().architecture >= AMPERE => {
            Ok(Value::U32((live.recovery_action == 4).into()))
        }
        230 => Ok(Value::U32(live.recovery_action)),
        // Power smoothing exists on Blackwell, for root.
        251..=268 | 275..=288 | 300 if gpu.board().architecture >= BLACKWELL => {
            Err(Fault::NoPermission)
        }
        0 | FIELDS.. => Err(Fault::InvalidArgument),
        _ => Err(Fault::NotSupported),
    }
}

/// ECC, retired pages, remapped rows.
fn errors(gpu: &Gpu, live: &Live, id: u32) -> Found {
    let flag = |flag| Ok(Value::U32((live.flags & flag != 0).into()));
    match id {
        1 | 2 => {
            ecc::capable(gpu)?;
            flag(if id == 1 {
                flags::ECC
            } else {
                flags::ECC_PENDING
            })
        }
        3..=28 => ecc_count(gpu, live, id).map(Value::U64),
        29 | 30 | 31 | 92 | 93 => {
            if live.valid & valid::RETIRED == 0 {
                return Err(Fault::NotSupported);
            }
            match id {
                29 => Ok(Value::U32(live.retired_single)),
                30 => Ok(Value::U32(live.retired_double)),
                92 => Ok(Value::U32(0)),
                _ => flag(flags::RETIRE_PENDING),
            }
        }
        _ => {
            if !gpu.board_has(board_flags::ROW_REMAP) {
                return Err(Fault::NotSupported);
            }
            match id {
                142 => Ok(Value::U32(live.remapped_correctable)),
                143 => Ok(Value::U32(live.remapped_uncorrectable)),
                144 => flag(flags::REMAP_PENDING),
                145 => flag(flags::REMAP_FAILED),
                301 => Ok(Value::U32(ecc::inactive_rows(live).0)),
                _ => Ok(Value::U32(ecc::inactive_rows(live).1)),
            }
        }
    }
}

fn ecc_count(gpu: &Gpu, live: &Live, id: u32) -> Result<u64, Fault> {
    if live.valid & valid::ECC == 0 || live.flags & flags::ECC == 0 {
        return Err(Fault::NotSupported);
    }
    let (now, ever) = (&live.ecc_volatile, &live.ecc_aggregate);
    let by_unit = gpu.board().architecture < AMPERE;
    Ok(match id {
        3 => now.corrected_sram + now.corrected_dram,
        4 => now.uncorrected_sram + now.uncorrected_dram,
        5 => ever.corrected_sram + ever.corrected_dram,
        6 => ever.uncorrected_sram + ever.uncorrected_dram,
        11 => now.corrected_dram,
        12 => now.uncorrected_dram,
        22 => ever.corrected_dram,
        23 => ever.uncorrected_dram,
        _ if !by_unit => return Err(Fault::NotSupported),
        // Before Ampere, SRAM errors are told as those of the level-2 cache.
        9 => now.corrected_sram,
        10 => now.uncorrected_sram,
        20 => ever.corrected_sram,
        21 => ever.uncorrected_sram,
        _ => 0,
    })
}

/// The link a lane-numbered field speaks of: `first` for 0–5, `later` for 6–11.
fn lane(id: u32, first: u32, later: u32) -> Option<u32> {
    match id {
        id if (first..first + 6).contains(&id) => Some(id - first),
        id if (later..later + 6).contains(&id) => Some(id - later + 6),
        _ => None,
    }
}

/// NVLink.
fn links(gpu: &Gpu, live: &Live, id: u32, scope: u32) -> Found {
    let board = gpu.board();
    if id == 91 {
        return Ok(Value::U32(board.nvlink_links));
    }
    if board.nvlink_links == 0 || live.valid & valid::NVLINK == 0 {
        return Err(Fault::NotSupported);
    }
    let within = |link: u32| {
        if link < board.nvlink_links {
            Ok(link)
        } else {
            Err(Fault::InvalidArgument)
        }
    };
    let up = |link: u32| live.nvlink_up.checked_shr(link).unwrap_or(0) & 1 != 0;
    let speed = |link: u32| if up(link) { board.nvlink_mbs } else { 0 };
    let total = |total: u64| match scope {
        ALL_LINKS => Ok(Value::U64(total)),
        link => Ok(Value::U64(nvlink::share(gpu, total, within(link)?))),
    };
    // Numbered by lane: errors by kind, and speeds.
    let crc = live.nvlink_crc_errors;
    let kinds = [
        (32, 96, 38, crc),
        (39, 102, 45, 0),
        (46, 108, 52, live.nvlink_replays),
        (53, 114, 59, live.nvlink_recoveries),
    ];
    for (first, later, sum, errors) in kinds {
        if id == sum {
            return Ok(Value::U64(errors));
        }
        if let Some(link) = lane(id, first, later) {
            return Ok(Value::U64(nvlink::share(gpu, errors, within(link)?)));
        }
    }
    // Counter sets, both counting all bytes: gone since Ampere, as `nvmlDeviceGetNvLinkUtilizationCounter` is.
    if board.architecture < AMPERE {
        let bytes = live.nvlink_tx_bytes.saturating_add(live.nvlink_rx_bytes);
        for (first, later, sum) in [(60, 120, 66), (67, 126, 73)] {
            if id == sum {
                return Ok(Value::U64(bytes));
            }
            if let Some(link) = lane(id, first, later) {
                return Ok(Value::U64(nvlink::share(gpu, bytes, within(link)?)));
            }
        }
    }
    if let Some(link) = lane(id, 84, 132) {
        return Ok(Value::U32(speed(within(link)?)));
    }
    let newest = board.architecture >= BLACKWELL;
    match id {
        90 => Ok(Value::U32(if live.nvlink_up != 0 {
            board.nvlink_mbs
        } else {
            0
        })),
        138 | 140 => total(live.nvlink_tx_bytes >> 10),
        139 | 141 => total(live.nvlink_rx_bytes >> 10),
        146 => Ok(Value::U32(within(scope)?)),
        147 => Ok(Value::U32(if board.flags & board_flags::SWITCHED != 0 {
            live.nvlink_up.count_ones()
        } else {
            0
        })),
        148..=160 if board.nvlink_version >= 3 => Ok(Value::U64(0)),
        161 => total(live.nvlink_replays),
        162 => total(live.nvlink_recoveries),
        163 => total(crc),
        164 => Ok(Value::U32(speed(within(scope)?))),
        165 => Ok(Value::U32(up(within(scope)?).into())),
        166 => {
            within(scope)?;
            Ok(Value::U32(nvlink::version_number(board.nvlink_version)))
        }
        167 if board.architecture >= HOPPER => {
            within(scope)?;
            Ok(Value::U32(0))
        }
        168 | 200 if board.architecture >= HOPPER => Ok(Value::U32(0x1FFF)),
        223 | 225 if board.architecture >= HOPPER => Ok(Value::U32(1)),
        224 if board.architecture >= HOPPER => Ok(Value::U32(0)),
        201 if newest => total(live.nvlink_tx_bytes / 256),
        202 if newest => total(live.nvlink_tx_bytes),
        203 if newest => total(live.nvlink_rx_bytes / 256),
        204 if newest => total(live.nvlink_rx_bytes),
        206 | 207 | 209..=212 | 214 if newest => total(0),
        208 | 219 | 221 if newest => total(crc),
        213 | 215 if newest => total(live.nvlink_recoveries),
        220 | 222 if newest => total(0),
        235..=250 if newest => total(0),
        296 if newest => Ok(Value::U32(speed(within(scope)?))),
        _ => Err(Fault::NotSupported),
    }
}

/// Time spent throttled, ns.
fn throttling(live: &Live, id: u32) -> Found {
    let times = &live.violations;
    Ok(Value::U64(match id {
        74 => times.power_ns,
        75 => times.thermal_ns,
        76 => times.sync_boost_ns,
        269 => live.sw_thermal_ns,
        270 => live.hw_thermal_ns,
        77 | 271 => times.board_limit_ns,
        78 => times.low_utilization_ns,
        79 => times.reliability_ns,
        80 => times.app_clocks_ns,
        81 => times.base_clocks_ns,
        _ => 0,
    }))
}

/// Power and energy; scope 0 is the GPU, 1 the module, 2 the memory.
fn power(gpu: &Gpu, live: &Live, id: u32, scope: u32) -> Found {
    let board = gpu.board();
    let has = |group| live.valid & group != 0;
    match (id, scope) {
        (83 | 191, _) if has(valid::ENERGY) => return Ok(Value::U64(live.energy_mj)),
        (83 | 191, _) => return Err(Fault::NotSupported),
        (_, 4..) => return Err(Fault::InvalidArgument),
        _ => {}
    }
    let module = has(valid::MODULE_POWER);
    let milliwatts = match (id, scope) {
        (185, 0) if has(valid::AVERAGE_POWER) => live.power_average_mw,
        (186, 0) => live.power_mw,
        (185, 2) if has(valid::MEMORY_POWER) => live.memory_power_mw,
        (185 | 186, 1) if module => live.module_power_mw,
        (187, 0) => board.power_min_mw,
        (188, 0) => board.power_max_mw,
        (189, 0) => board.power_default_mw,
        (190, 0) => live.enforced_limit_mw,
        (192, 0) => live.power_limit_mw,
        (187, 1) if module => board.module_min_mw,
        (188..=190 | 192, 1) if module => board.module_power_mw,
        _ => 0,
    };
    if milliwatts == 0 {
        Err(Fault::NotSupported)
    } else {
        Ok(Value::U32(milliwatts))
    }
}

/// Temperatures and margins.
fn heat(gpu: &Gpu, live: &Live, id: u32) -> Found {
    let board = gpu.board();
    let memory = live.valid & valid::MEMORY_TEMPERATURE != 0;
    if id == 82 {
        return if memory {
            Ok(Value::U32(live.memory_temperature_c.max(0) as u32))
        } else {
            Err(Fault::NotSupported)
        };
    }
    if board.flags & board_flags::MARGIN_LIMITS == 0 {
        return Err(Fault::NotSupported);
    }
    match id {
        193 => Ok(Value::I32(board.margin_shutdown_c)),
        194 => Ok(Value::I32(board.margin_slowdown_c)),
        195 if memory => Ok(Value::I32(0)),
        196 => Ok(Value::I32(0)),
        _ => Err(Fault::NotSupported),
    }
}

/// PCI Express.
fn bus(gpu: &Gpu, live: &Live, id: u32) -> Found {
    let replays = live.pcie_replays as u32;
    let counts = gpu.board().architecture >= ADA;
    match id {
        94 => Ok(Value::U32(replays)),
        95 => Ok(Value::U32((live.pcie_replays >> 32) as u32)),
        197 => Ok(Value::U64(live.pcie_tx_bytes)),
        198 => Ok(Value::U64(live.pcie_rx_bytes)),
        // A replay is what a NAK of the other side asks for, and a correctable error.
        173 | 174 if counts => Ok(Value::U32(replays)),
        169 | 175..=183 if counts && pcie::link_gen_max(gpu) > 0 => Ok(Value::U32(0)),
        _ => Err(Fault::NotSupported),
    }
}

/// The link between a superchip's halves.
fn chip_to_chip(gpu: &Gpu, id: u32, scope: u32) -> Found {
    if !gpu.board_has(board_flags::C2C) {
        return Err(Fault::NotSupported);
    }
    let on = gpu.board_has(board_flags::C2C_ENABLED);
    if id == 170 {
        return Ok(Value::U32(if on { C2C_LINKS } else { 0 }));
    }
    if !on {
        return Err(Fault::NotSupported);
    }
    if scope >= C2C_LINKS {
        return Err(Fault::InvalidArgument);
    }
    Ok(Value::U32(match id {
        171 => 1,
        172 => C2C_LINK_MBS,
        _ => 0,
    }))
}
