//! What processes used, the ended ones included, while accounting is on.

use mirage_state::layout::{Process, flags};

use crate::abi::{AccountingStats, AccountingStatsV2};
use crate::arg::{List, Out};
use crate::code::{Answer, Fault};
use crate::device::Gpu;

/// Processes the driver remembers.
const BUFFER: u32 = 4000;

/// `nvmlDeviceGetAccountingMode`.
pub fn accounting_mode(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.flag(flags::ACCOUNTING).into());
    Ok(())
}

/// `nvmlDeviceGetAccountingBufferSize`.
pub fn accounting_buffer_size(_: Gpu, out: Out<u32>) -> Answer {
    out.set(BUFFER);
    Ok(())
}

fn on(gpu: &Gpu) -> Answer {
    if gpu.flag(flags::ACCOUNTING) {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// `nvmlDeviceGetAccountingPids`.
pub fn accounting_pids(gpu: Gpu, count: Out<u32>, pids: *mut u32) -> Answer {
    on(&gpu)?;
    let empty = List::new(count, pids)?;
    let filled = gpu.session.reader().tables(|tables| {
        let mut list = empty;
        tables
            .processes()
            .filter(|process| process.gpu as usize == gpu.index)
            .for_each(|process| list.push(process.pid));
        list
    });
    filled.unwrap_or(empty).finish()
}

/// The latest process of that number.
fn find(gpu: &Gpu, pid: u32) -> Result<Process, Fault> {
    on(gpu)?;
    let here = |process: &Process| process.gpu as usize == gpu.index && process.pid == pid;
    let found = gpu.session.tables(|tables| {
        tables
            .processes()
            .filter(here)
            .max_by_key(|process| process.start_ms)
    });
    found.ok_or(Fault::NotFound)
}

/// Milliseconds it ran, told only once it has ended.
fn ran_ms(process: &Process) -> u64 {
    process.end_ms.saturating_sub(process.start_ms)
}

/// `nvmlDeviceGetAccountingStats`.
pub fn accounting_stats(gpu: Gpu, pid: u32, out: Out<AccountingStats>) -> Answer {
    let process = find(&gpu, pid)?;
    out.set(AccountingStats {
        gpu_percent: process.average_percent,
        memory_percent: process.memory_percent,
        max_memory: u64::from(process.peak_mib) << 20,
        time_ms: ran_ms(&process),
        start_us: process.start_ms * 1000,
        running: (process.end_ms == 0).into(),
        reserved: [0; 5],
    });
    Ok(())
}

/// `nvmlDeviceGetAccountingStats_v2`: the pid is in the struct.
pub fn accounting_stats_v2(gpu: Gpu, out: Out<AccountingStatsV2>) -> Answer {
    let pid = out.get().pid;
    let process = find(&gpu, pid)?;
    let end_ms = if process.end_ms == 0 {
        gpu.session.now_us() / 1000
    } else {
        process.end_ms
    };
    let samples = (end_ms.saturating_sub(process.start_ms) / 1000).min(u32::MAX.into()) as u32;
    out.set(AccountingStatsV2 {
        pid,
        running: (process.end_ms == 0).into(),
        gpu_percent: process.average_percent,
        memory_percent: process.memory_percent,
        max_memory: u64::from(process.peak_mib) << 20,
        samples,
        pad: 0,
        gpu_sum: u64::from(samples) * u64::from(process.average_percent),
        memory_sum: u64::from(samples) * u64::from(process.memory_percent),
        time_ms: ran_ms(&process),
        start_us: process.start_ms * 1000,
    });
    Ok(())
}
