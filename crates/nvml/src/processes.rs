//! Processes on a device, by list and with their utilisation.

use mirage_state::layout::{Process as Record, process_kinds};

use crate::abi::{
    Process, ProcessDetail, ProcessDetailList, ProcessUtilization, ProcessUtilizationInfo,
    ProcessV1, ProcessesUtilization,
};
use crate::arg::{List, Out};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, Target};

/// Whether a process lives on the device.
fn is_on(target: &Target, process: &Record) -> bool {
    let instance = match target {
        Target::Gpu(_) => true,
        Target::Mig(device) => (process.gi, process.ci) == (device.instance.gi, device.instance.ci),
    };
    let gpu = target.gpu();
    let lives = process.end_ms == 0 && !gpu.session.is_idle();
    instance && lives && process.gpu as usize == gpu.index
}

/// Runs `fill` over the living processes of a device; it begins anew with `start` when a tick comes in between.
fn scan<R>(target: &Target, start: impl Fn() -> R, mut fill: impl FnMut(&mut R, &Record)) -> R {
    let gpu = target.gpu();
    let here = |process: &Record| is_on(target, process);
    let scanned = gpu.session.reader().tables(|tables| {
        let mut result = start();
        tables
            .processes()
            .filter(here)
            .for_each(|process| fill(&mut result, &process));
        result
    });
    scanned.unwrap_or_else(start)
}

/// The entries of one list, in the caller's form.
fn list<T: Copy>(
    target: &Target,
    kind: u32,
    count: Out<u32>,
    entries: *mut T,
    form: impl Fn(&Record) -> T,
) -> Answer {
    let empty = List::new(count, entries)?;
    let filled = scan(
        target,
        || empty,
        |list, process| {
            if process.kind == kind {
                list.push(form(process));
            }
        },
    );
    filled.finish()
}

fn first_form(process: &Record) -> ProcessV1 {
    ProcessV1 {
        pid: process.pid,
        pad: 0,
        memory: process.memory,
    }
}

fn form(process: &Record) -> Process {
    let Record {
        pid,
        memory,
        gi,
        ci,
        ..
    } = *process;
    Process {
        pid,
        pad: 0,
        memory,
        gi,
        ci,
    }
}

/// `nvmlDeviceGetComputeRunningProcesses`.
pub fn compute_running_processes(target: Target, count: Out<u32>, to: *mut ProcessV1) -> Answer {
    list(&target, process_kinds::COMPUTE, count, to, first_form)
}

/// `nvmlDeviceGetComputeRunningProcesses_v2` and `_v3`.
pub fn compute_running_processes_v3(target: Target, count: Out<u32>, to: *mut Process) -> Answer {
    list(&target, process_kinds::COMPUTE, count, to, form)
}

/// `nvmlDeviceGetGraphicsRunningProcesses`.
pub fn graphics_running_processes(target: Target, count: Out<u32>, to: *mut ProcessV1) -> Answer {
    list(&target, process_kinds::GRAPHICS, count, to, first_form)
}

/// `nvmlDeviceGetGraphicsRunningProcesses_v2` and `_v3`.
pub fn graphics_running_processes_v3(target: Target, count: Out<u32>, to: *mut Process) -> Answer {
    list(&target, process_kinds::GRAPHICS, count, to, form)
}

/// `nvmlDeviceGetMPSComputeRunningProcesses`.
pub fn mps_running_processes(target: Target, count: Out<u32>, to: *mut ProcessV1) -> Answer {
    list(&target, process_kinds::MPS, count, to, first_form)
}

/// `nvmlDeviceGetMPSComputeRunningProcesses_v2` and `_v3`.
pub fn mps_running_processes_v3(target: Target, count: Out<u32>, to: *mut Process) -> Answer {
    list(&target, process_kinds::MPS, count, to, form)
}

/// `nvmlDeviceGetRunningProcessDetailList`: mode 0 compute, 1 graphics, 2 MPS, 3 all.
pub fn running_process_detail_list(target: Target, out: Out<ProcessDetailList>) -> Answer {
    let asked = out.get();
    if asked.mode > 3 {
        return Err(Fault::InvalidArgument);
    }
    let empty = List::new(out.field(8), asked.entries)?;
    let filled = scan(
        &target,
        || empty,
        |list, process| {
            let Record {
                pid,
                memory,
                gi,
                ci,
                kind,
                ..
            } = *process;
            if asked.mode == 3 || asked.mode == kind {
                list.push(ProcessDetail {
                    pid,
                    pad: 0,
                    memory,
                    gi,
                    ci,
                    protected: 0,
                });
            }
        },
    );
    filled.finish()
}

/// Whether a process did anything in the last tick.
fn busy(process: &Record) -> bool {
    process.sm_percent + process.memory_percent + process.encoder_percent + process.decoder_percent
        > 0
}

/// `nvmlDeviceGetProcessUtilization`: a NULL buffer asks for the size; nothing new is 6.
pub fn process_utilization(
    gpu: Gpu,
    entries: *mut ProcessUtilization,
    count: Out<u32>,
    seen_us: u64,
) -> Answer {
    if gpu.mig() {
        return Err(Fault::NotSupported);
    }
    let time_us = gpu.session.sampled_us();
    let empty = List::sizing(count, entries);
    let start = || (0_u32, empty);
    let (found, filled) = scan(&Target::Gpu(gpu), start, |(found, list), process| {
        if busy(process) {
            *found += 1;
            list.push(ProcessUtilization {
                pid: process.pid,
                pad: 0,
                time_us,
                sm: process.sm_percent,
                memory: process.memory_percent,
                encoder: process.encoder_percent,
                decoder: process.decoder_percent,
            });
        }
    });
    if found == 0 || time_us <= seen_us {
        if entries.is_null() {
            count.set(0);
        }
        return Err(Fault::NotFound);
    }
    filled.finish()
}

/// `nvmlDeviceGetProcessesUtilizationInfo`.
pub fn processes_utilization_info(gpu: Gpu, out: Out<ProcessesUtilization>) -> Answer {
    if gpu.mig() {
        return Err(Fault::NotSupported);
    }
    let asked = out.get();
    let time_us = gpu.session.sampled_us();
    let empty = List::sizing(out.field(4), asked.entries);
    let start = || (0_u32, empty);
    let (found, filled) = scan(&Target::Gpu(gpu), start, |(found, list), process| {
        if busy(process) {
            *found += 1;
            list.push(ProcessUtilizationInfo {
                time_us,
                pid: process.pid,
                sm: process.sm_percent,
                memory: process.memory_percent,
                encoder: process.encoder_percent,
                decoder: process.decoder_percent,
                jpeg: 0,
                ofa: 0,
                pad: 0,
            });
        }
    });
    if found == 0 || time_us <= asked.last_seen_us {
        return Err(Fault::NotFound);
    }
    filled.finish()
}

/// Bytes of an entry of the internal process lists: a fixed head and an inline name.
const ENTRY: usize = 4128;
const NAME: usize = 32;

/// The internal process lists: the count the caller passes is its room, and becomes the number of entries.
pub fn internal(target: &Target, kind: u32, count: Out<u32>, entries: *mut u8) -> Answer {
    let room = count.get() as usize;
    let gpu = target.gpu();
    let written = gpu.session.tables(|tables| {
        let here = |process: &Record| is_on(target, process) && process.kind == kind;
        let mut written = 0;
        for process in tables.processes().filter(here).take(room) {
            if entries.is_null() {
                break;
            }
            let mut name = [0; ENTRY - NAME];
            let last = name.len() - 1;
            tables.text(process.name, &mut name[..last]);
            let Ok(entry) = crate::arg::out(entries.wrapping_add(written * ENTRY)) else {
                break;
            };
            entry.field::<u32>(0).set(process.pid);
            entry.field::<u64>(8).set(process.memory);
            entry.field::<u32>(16).set(process.gi);
            entry.field::<u32>(20).set(process.ci);
            entry.field::<u64>(24).set(0);
            entry.field::<[u8; ENTRY - NAME]>(NAME).set(name);
            written += 1;
        }
        written as u32
    });
    count.set(written);
    Ok(())
}
