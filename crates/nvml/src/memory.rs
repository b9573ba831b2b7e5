//! Memory of a device.

use crate::abi::{Bar1Memory, Memory, MemoryV2};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::{Target, live};

/// Total, kept by the driver, used by programs; in bytes.
struct Use {
    total: u64,
    reserved: u64,
    used: u64,
}

impl Use {
    #[inline(always)]
    fn of(target: &Target) -> Result<Use, Fault> {
        Ok(match target {
            Target::Gpu(gpu) => {
                let total = gpu.card().memory_total;
                let reserved = gpu.board().memory_reserved.min(total);
                let used = live!(gpu, memory_used).min(total - reserved);
                Use {
                    total,
                    reserved,
                    used,
                }
            }
            Target::Mig(device) => {
                let total = device.profile()?.memory;
                let used = if device.gpu.session.is_idle() {
                    0
                } else {
                    device.instance.memory_used.min(total)
                };
                Use {
                    total,
                    reserved: 0,
                    used,
                }
            }
        })
    }

    fn free(&self) -> u64 {
        self.total - self.reserved - self.used
    }
}

/// `nvmlDeviceGetMemoryInfo`: the driver's reserve counts as used.
#[inline(always)]
pub fn memory_info(target: Target, out: Out<Memory>) -> Answer {
    let memory = Use::of(&target)?;
    out.set(Memory {
        total: memory.total,
        free: memory.free(),
        used: memory.reserved + memory.used,
    });
    Ok(())
}

/// `nvmlDeviceGetMemoryInfo_v2`.
#[inline(always)]
pub fn memory_info_v2(target: Target, out: Out<MemoryV2>) -> Answer {
    let memory = Use::of(&target)?;
    let mut info = out.get();
    info.total = memory.total;
    info.reserved = memory.reserved;
    info.free = memory.free();
    info.used = memory.used;
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetBAR1MemoryInfo`: a MIG device has its share of the aperture.
pub fn bar1_memory_info(target: Target, out: Out<Bar1Memory>) -> Answer {
    let gpu = target.gpu();
    let whole = gpu.board().bar1_total;
    if whole == 0 {
        return Err(Fault::NotSupported);
    }
    let (total, used) = match &target {
        Target::Gpu(gpu) => (whole, live!(gpu, bar1_used).min(whole)),
        Target::Mig(device) => {
            let slices = u64::from(gpu.board().memory_slices.max(1));
            (
                whole / slices * u64::from(device.profile()?.placement_size),
                0,
            )
        }
    };
    out.set(Bar1Memory {
        total,
        free: total - used,
        used,
    });
    Ok(())
}
