//! Memory errors: ECC counters, SRAM, remapped rows and retired pages.

use mirage_state::layout::{Ecc, Instance, Live, board_flags, flags, valid};

use crate::abi::{
    EccErrorCounts, EccSramStatus, EccSramUnique, RemappedRows, RowRemapperHistogram,
};
use crate::arg::{List, Out};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::handle::hash;

/// Ampere, the first architecture that counts by SRAM and DRAM only.
const AMPERE: u32 = 7;

/// `nvmlDeviceGetEccMode`.
pub fn ecc_mode(gpu: Gpu, current: Out<u32>, pending: Out<u32>) -> Answer {
    capable(&gpu)?;
    current.set(gpu.flag(flags::ECC).into());
    pending.set(gpu.flag(flags::ECC_PENDING).into());
    Ok(())
}

/// Refuses boards without ECC memory.
pub fn capable(gpu: &Gpu) -> Answer {
    if gpu.board_has(board_flags::ECC) {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// `nvmlDeviceGetDefaultEccMode`.
pub fn default_ecc_mode(gpu: Gpu, out: Out<u32>) -> Answer {
    capable(&gpu)?;
    out.set(gpu.board_has(board_flags::ECC_DEFAULT).into());
    Ok(())
}

/// Counters of a lifetime, while ECC is on.
pub fn counters(gpu: &Gpu, aggregate: bool) -> Result<Ecc, Fault> {
    let live = gpu.live();
    if live.valid & valid::ECC == 0 || live.flags & flags::ECC == 0 {
        return Err(Fault::NotSupported);
    }
    Ok(if aggregate {
        live.ecc_aggregate
    } else {
        live.ecc_volatile
    })
}

/// SRAM and DRAM counts of one kind of error.
fn pair(ecc: &Ecc, uncorrected: bool) -> (u64, u64) {
    if uncorrected {
        (ecc.uncorrected_sram, ecc.uncorrected_dram)
    } else {
        (ecc.corrected_sram, ecc.corrected_dram)
    }
}

/// `nvmlDeviceGetTotalEccErrors`.
pub fn total_ecc_errors(gpu: Gpu, error: u32, lifetime: u32, out: Out<u64>) -> Answer {
    let (sram, dram) = pair(&counters(&gpu, lifetime == 1)?, error == 1);
    out.set(sram + dram);
    Ok(())
}

/// `nvmlDeviceGetDetailedEccErrors`: SRAM is told as level-2 cache.
pub fn detailed_ecc_errors(
    gpu: Gpu,
    error: u32,
    lifetime: u32,
    out: Out<EccErrorCounts>,
) -> Answer {
    let (l2, device_memory) = pair(&counters(&gpu, lifetime == 1)?, error == 1);
    out.set(EccErrorCounts {
        l1: 0,
        l2,
        device_memory,
        register_file: 0,
    });
    Ok(())
}

/// `nvmlDeviceGetMemoryErrorCounter`: since Ampere by SRAM and DRAM only, before by unit.
pub fn memory_error_counter(
    gpu: Gpu,
    error: u32,
    lifetime: u32,
    place: u32,
    out: Out<u64>,
) -> Answer {
    let (sram, dram) = pair(&counters(&gpu, lifetime == 1)?, error == 1);
    let by_unit = gpu.board().architecture < AMPERE;
    out.set(match place {
        2 => dram,
        7 if !by_unit => sram,
        1 if by_unit => sram,
        0 | 3 | 4 | 5 | 6 if by_unit => 0,
        _ => return Err(Fault::NotSupported),
    });
    Ok(())
}

/// `nvmlDeviceGetSramEccErrorStatus`: uncorrected errors are told as found by SEC-DED, in the level-2 bucket.
pub fn sram_ecc_error_status(gpu: Gpu, out: Out<EccSramStatus>) -> Answer {
    if gpu.board().architecture < AMPERE {
        return Err(Fault::NotSupported);
    }
    let now = counters(&gpu, false)?;
    let ever = counters(&gpu, true)?;
    let version = out.get().version;
    out.set(EccSramStatus {
        version,
        aggregate_secded: ever.uncorrected_sram,
        aggregate_corrected: ever.corrected_sram,
        volatile_secded: now.uncorrected_sram,
        volatile_corrected: now.corrected_sram,
        bucket_l2: ever.uncorrected_sram,
        threshold_exceeded: gpu.flag(flags::SRAM_THRESHOLD).into(),
        ..EccSramStatus::default()
    });
    Ok(())
}

/// `nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts`: one entry for the level-2 cache, if it has any.
pub fn sram_unique_errors(gpu: Gpu, out: Out<EccSramUnique>) -> Answer {
    if gpu.board().architecture < AMPERE + 2 {
        return Err(Fault::NotSupported);
    }
    let errors = counters(&gpu, true)?.uncorrected_sram;
    let info = out.get();
    let mut list = List::sizing(out.field(4), info.entries);
    if errors > 0 {
        let address = hash(&gpu.card().uuid) as u32;
        list.push([
            0,
            0,
            0,
            0,
            address,
            0,
            u32::try_from(errors).unwrap_or(u32::MAX),
        ]);
    }
    list.finish()
}

/// Refuses boards that do not remap rows.
fn remaps(gpu: &Gpu) -> Answer {
    if gpu.board_has(board_flags::ROW_REMAP) {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// As `remaps`, for what is not told of a GPU with instances either.
fn remaps_whole(gpu: &Gpu) -> Answer {
    remaps(gpu)?;
    let here = |i: &Instance| i.gpu as usize == gpu.index;
    if gpu.mig() && gpu.session.find_instance(here).is_some() {
        return Err(Fault::NotSupported);
    }
    Ok(())
}

/// `nvmlDeviceGetRemappedRows`.
pub fn remapped_rows(
    gpu: Gpu,
    corrected: Out<u32>,
    uncorrected: Out<u32>,
    pending: Out<u32>,
    failed: Out<u32>,
) -> Answer {
    remaps_whole(&gpu)?;
    corrected.set(live!(gpu, remapped_correctable));
    uncorrected.set(live!(gpu, remapped_uncorrectable));
    pending.set(gpu.flag(flags::REMAP_PENDING).into());
    failed.set(gpu.flag(flags::REMAP_FAILED).into());
    Ok(())
}

/// Remapped rows that wait for a reset, correctable and uncorrectable. The state knows that one waits, not how many, so
/// it is the last one; most come from uncorrectable errors.
pub fn inactive_rows(live: &Live) -> (u32, u32) {
    let pending = live.flags & flags::REMAP_PENDING != 0;
    match (
        pending,
        live.remapped_correctable,
        live.remapped_uncorrectable,
    ) {
        (true, _, 1..) => (0, 1),
        (true, 1.., 0) => (1, 0),
        _ => (0, 0),
    }
}

/// `nvmlDeviceGetRemappedRows_v2`: what waits for a reset is not active yet.
pub fn remapped_rows_v2(gpu: Gpu, out: Out<RemappedRows>) -> Answer {
    remaps_whole(&gpu)?;
    let live = gpu.live();
    let (corrected, uncorrected) = inactive_rows(&live);
    out.set(RemappedRows {
        corrected_active: live.remapped_correctable - corrected,
        corrected_inactive: corrected,
        uncorrected_active: live.remapped_uncorrectable - uncorrected,
        uncorrected_inactive: uncorrected,
        pending: (live.flags & flags::REMAP_PENDING != 0).into(),
        failed: (live.flags & flags::REMAP_FAILED != 0).into(),
    });
    Ok(())
}

/// `nvmlDeviceGetRowRemapperHistogram`: each remapped row takes from a bank of its own.
pub fn row_remapper_histogram(gpu: Gpu, out: Out<RowRemapperHistogram>) -> Answer {
    remaps(&gpu)?;
    let live = gpu.live();
    let banks = gpu.board().row_remap_banks;
    let none = u32::from(live.flags & flags::REMAP_FAILED != 0).min(banks);
    let rows = live.remapped_correctable + live.remapped_uncorrectable;
    let high = rows.min(banks - none);
    out.set(RowRemapperHistogram {
        max: banks - none - high,
        high,
        partial: 0,
        low: 0,
        none,
    });
    Ok(())
}

/// `nvmlDeviceGetRetiredPages`.
pub fn retired_pages(gpu: Gpu, cause: u32, count: Out<u32>, pages: *mut u64) -> Answer {
    retired_pages_v2(gpu, cause, count, pages, std::ptr::null_mut())
}

/// `nvmlDeviceGetRetiredPages_v2`: addresses are made up, but stay with the board; times are those of the last Xid.
pub fn retired_pages_v2(
    gpu: Gpu,
    cause: u32,
    count: Out<u32>,
    pages: *mut u64,
    times: *mut u64,
) -> Answer {
    const PAGE: u64 = 64 << 10;
    gpu.require(valid::RETIRED)?;
    let live = gpu.live();
    let retired = if cause == 0 {
        live.retired_single
    } else {
        live.retired_double
    };
    let in_memory = (gpu.card().memory_total / PAGE).max(1);
    let room = count.get();
    let mut list = List::new(count, pages)?;
    let seed = hash(&gpu.card().uuid) ^ u64::from(cause);
    for page in 0..retired {
        let place = seed.wrapping_add(u64::from(page).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        list.push(place % in_memory * PAGE);
        if !times.is_null() && page < room {
            crate::arg::out(times)?
                .nth(page as usize)
                .set(live.xid_unix_ms * 1000);
        }
    }
    list.finish()
}

/// `nvmlDeviceGetRetiredPagesPendingStatus`.
pub fn retired_pages_pending_status(gpu: Gpu, out: Out<u32>) -> Answer {
    gpu.require(valid::RETIRED)?;
    out.set(gpu.flag(flags::RETIRE_PENDING).into());
    Ok(())
}
