//! Calls that fill a list: processes, clocks, processors.

use super::{Device, Nvml, Result, check};
use crate::abi::{Process, ProcessUtilization};
use crate::exports;

const INSUFFICIENT_SIZE: u32 = 7;

/// A process on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Process number.
    pub pid: u32,
    /// Memory it holds, bytes.
    pub memory: u64,
    /// GPU instance, if it is on one.
    pub gi: Option<u32>,
    /// Compute instance, if it is on one.
    pub ci: Option<u32>,
    /// Whether it computes.
    pub compute: bool,
    /// Whether it draws.
    pub graphics: bool,
    /// Whether it goes through the multi-process service.
    pub mps: bool,
}

/// Asks with more and more room until all fits; the list may grow in between.
pub(super) fn grow<T: Copy + Default>(
    mut call: impl FnMut(&mut u32, *mut T) -> u32,
) -> Result<Vec<T>> {
    let mut room = 32;
    loop {
        let mut list = vec![T::default(); room];
        let mut count = room as u32;
        match call(&mut count, list.as_mut_ptr()) {
            INSUFFICIENT_SIZE if room < 1 << 20 => room = (count as usize).max(room) * 2,
            code => {
                check(code)?;
                list.truncate(count as usize);
                return Ok(list);
            }
        }
    }
}

impl Device {
    /// The processes on a device, in the order they are listed, each once.
    pub fn processes(self) -> Result<Vec<Running>> {
        type Call = extern "C" fn(crate::handle::Handle, *mut u32, *mut Process) -> u32;
        type Mark = fn(&mut Running);
        let lists: [(Call, Mark); 3] = [
            (exports::nvmlDeviceGetComputeRunningProcesses_v3, |r| {
                r.compute = true
            }),
            (exports::nvmlDeviceGetMPSComputeRunningProcesses_v3, |r| {
                r.mps = true
            }),
            (exports::nvmlDeviceGetGraphicsRunningProcesses_v3, |r| {
                r.graphics = true
            }),
        ];
        let mut found: Vec<Running> = Vec::new();
        for (call, mark) in lists {
            for entry in grow(|count, to| call(self.0, count, to))? {
                let known = |r: &&mut Running| {
                    r.pid == entry.pid && r.gi == id(entry.gi) && r.ci == id(entry.ci)
                };
                if let Some(running) = found.iter_mut().find(known) {
                    mark(running);
                    continue;
                }
                let mut running = Running {
                    pid: entry.pid,
                    memory: entry.memory,
                    gi: id(entry.gi),
                    ci: id(entry.ci),
                    compute: false,
                    graphics: false,
                    mps: false,
                };
                mark(&mut running);
                found.push(running);
            }
        }
        Ok(found)
    }

    /// What the processes of a GPU use of it, of those that did something in the last tick.
    pub fn process_utilization(self) -> Result<Vec<ProcessUtilization>> {
        grow(|count, to| exports::nvmlDeviceGetProcessUtilization(self.0, to, count, 0))
    }

    /// Memory clocks to choose from, MHz, highest first.
    pub fn supported_memory_clocks(self) -> Result<Vec<u32>> {
        grow(|count, to| exports::nvmlDeviceGetSupportedMemoryClocks(self.0, count, to))
    }

    /// Graphics clocks that go with a memory clock.
    pub fn supported_graphics_clocks(self, memory: u32) -> Result<Vec<u32>> {
        grow(|count, to| exports::nvmlDeviceGetSupportedGraphicsClocks(self.0, memory, count, to))
    }

    /// The processors near a GPU, as bits.
    pub fn cpu_affinity(self) -> Result<Vec<u64>> {
        let mut set = [0; 64];
        check(exports::nvmlDeviceGetCpuAffinity(
            self.0,
            set.len() as u32,
            set.as_mut_ptr(),
        ))?;
        Ok(set.to_vec())
    }

    /// The NUMA nodes near a GPU, as bits.
    pub fn memory_affinity(self) -> Result<Vec<u64>> {
        let mut set = [0; 16];
        check(exports::nvmlDeviceGetMemoryAffinity(
            self.0,
            set.len() as u32,
            set.as_mut_ptr(),
            0,
        ))?;
        Ok(set.to_vec())
    }
}

/// An instance's number; the highest stands for none.
fn id(number: u32) -> Option<u32> {
    (number != u32::MAX).then_some(number)
}

impl Nvml {
    /// All GPUs this process sees, or why one of them has no handle.
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..self.count()?).map(|index| self.device(index)).collect()
    }
}
