//! Confidential computing: GPUs from Hopper on could, but the machine does not.

use crate::abi::{
    ConfidentialCaps, ConfidentialMemory, ConfidentialSettings, ConfidentialState, Memory,
};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::Gpu;
use crate::session::Session;

const HOPPER: u32 = 9;

fn capable(s: &Session) -> bool {
    s.visible()
        .iter()
        .any(|&gpu| s.at(gpu as usize).board().architecture >= HOPPER)
}

/// `nvmlSystemGetConfComputeCapabilities`.
pub fn capabilities(s: &Session, out: Out<ConfidentialCaps>) -> Answer {
    out.set(ConfidentialCaps {
        cpu: 0,
        gpus: capable(s).into(),
    });
    Ok(())
}

/// `nvmlSystemGetConfComputeState`: unavailable, off.
pub fn state(_: &Session, out: Out<ConfidentialState>) -> Answer {
    out.set(ConfidentialState::default());
    Ok(())
}

/// `nvmlSystemGetConfComputeGpusReadyState`: without the mode, work is always accepted.
pub fn gpus_ready_state(s: &Session, out: Out<u32>) -> Answer {
    if !capable(s) {
        return Err(Fault::NotSupported);
    }
    out.set(1);
    Ok(())
}

/// `nvmlSystemGetConfComputeSettings`.
pub fn settings(_: &Session, out: Out<ConfidentialSettings>) -> Answer {
    let version = out.get().version;
    out.set(ConfidentialSettings {
        version,
        ..ConfidentialSettings::default()
    });
    Ok(())
}

fn hopper(gpu: &Gpu) -> Answer {
    if gpu.board().architecture >= HOPPER {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// `nvmlDeviceGetConfComputeMemSizeInfo`: none is protected.
pub fn mem_size_info(gpu: Gpu, out: Out<ConfidentialMemory>) -> Answer {
    hopper(&gpu)?;
    out.set(ConfidentialMemory {
        protected_kib: 0,
        plain_kib: gpu.card().memory_total >> 10,
    });
    Ok(())
}

/// `nvmlDeviceGetConfComputeProtectedMemoryUsage`: zero on boards that have no such mode, too.
pub fn protected_memory_usage(_: Gpu, out: Out<Memory>) -> Answer {
    out.set(Memory::default());
    Ok(())
}
