//! NVML for Rust code in the same program: the exported functions without pointers, so that what is shown through
//! them is what any C client would see. Nothing is loaded, and nothing is answered here.

mod change;
mod clock;
mod device;
mod history;
mod lists;
mod mig;

use std::ffi::c_char;
use std::fmt;

pub use clock::{LocalTime, local_time};
pub use device::Device;
pub use lists::Running;
pub use mig::{ComputeInstance, GpuInstance};

pub use crate::abi::{
    AccountingStats, Bar1Memory, ComputeInstanceInfo, ComputeProfileInfoV2, ConfidentialCaps,
    ConfidentialState, DeviceAttributes, EccSramStatus, FabricInfoV3, FbcStats, GpuInstanceInfo,
    GpuProfileInfoV2, Memory, MemoryV2, PciInfo, PciInfoExt, Placement, PlatformInfo,
    ProcessUtilization, RowRemapperHistogram, Sample, Utilization, ViolationTime,
};
use crate::arg::Text;
use crate::code::{Answer, Fault, sentence};
use crate::device::Gpu;
use crate::exports;
use crate::guard::enter;
use crate::handle::Handle;
use crate::session::Session;

/// NVML's code for a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// The device, or the simulation, has no such thing.
    pub const NOT_SUPPORTED: Code = Code(3);
    /// Not allowed to this process.
    pub const NO_PERMISSION: Code = Code(4);
    /// There is no such object.
    pub const NOT_FOUND: Code = Code(6);
    /// There is no driver.
    pub const DRIVER_NOT_LOADED: Code = Code(9);
    /// The GPU has fallen off the bus.
    pub const GPU_IS_LOST: Code = Code(15);
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence(self.0).to_string_lossy())
    }
}

impl std::error::Error for Code {}

/// What a call comes to.
pub type Result<T> = std::result::Result<T, Code>;

/// A code as a result.
fn check(code: u32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

/// Runs `read` on the session, as exported functions do.
fn ask<T>(read: impl FnOnce(&Session) -> std::result::Result<T, Fault>) -> Result<T> {
    let mut found = None;
    check(enter(|session| -> Answer {
        found = Some(read(session)?);
        Ok(())
    }))?;
    found.ok_or(Code(999))
}

/// The visible GPU with this number, however it is doing.
fn visible(session: &Session, index: u32) -> std::result::Result<Gpu<'_>, Fault> {
    let gpu = session.visible().get(index as usize);
    Ok(session.at(*gpu.ok_or(Fault::InvalidArgument)? as usize))
}

/// What a GPU is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Place on the bus.
    pub bus_id: String,
    /// UUID.
    pub uuid: String,
    /// Serial number; empty if it has none.
    pub serial: String,
}

/// The text that a function writes into a buffer.
fn text(call: impl FnOnce(*mut c_char, u32) -> u32) -> Result<String> {
    let mut buffer = [0_u8; 256];
    check(call(buffer.as_mut_ptr().cast(), buffer.len() as u32))?;
    Ok(chars(&buffer))
}

/// The text of a NUL-padded field.
pub fn chars(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// An initialised library; shut down when dropped.
#[derive(Debug)]
pub struct Nvml(());

impl Nvml {
    /// `nvmlInit`.
    pub fn open() -> Result<Nvml> {
        check(exports::nvmlInitWithFlags(0))?;
        Ok(Nvml(()))
    }

    /// The driver's version.
    pub fn driver_version(&self) -> Result<String> {
        text(|to, room| exports::nvmlSystemGetDriverVersion(to, room))
    }

    /// The library's version.
    pub fn nvml_version(&self) -> Result<String> {
        text(|to, room| exports::nvmlSystemGetNVMLVersion(to, room))
    }

    /// CUDA's version, 1000 times the major number and 10 times the minor.
    pub fn cuda_version(&self) -> Result<i32> {
        let mut version = 0;
        check(exports::nvmlSystemGetCudaDriverVersion_v2(&raw mut version))?;
        Ok(version)
    }

    /// How many GPUs this process sees.
    pub fn count(&self) -> Result<u32> {
        let mut count = 0;
        check(exports::nvmlDeviceGetCount_v2(&raw mut count))?;
        Ok(count)
    }

    /// A GPU by number.
    pub fn device(&self, index: u32) -> Result<Device> {
        let mut handle = Handle(std::ptr::null_mut());
        check(exports::nvmlDeviceGetHandleByIndex_v2(
            index,
            &raw mut handle,
        ))?;
        Ok(Device(handle))
    }

    /// What a GPU is known by, even when it answers nothing.
    pub fn label(&self, index: u32) -> Result<Label> {
        ask(|session| {
            let gpu = visible(session, index)?;
            let mut bus_id = [0_u8; 34];
            let room = bus_id.len() as u32;
            let place = Text::new(bus_id.as_mut_ptr().cast(), room)?;
            crate::pcie::printable(&gpu, place)?;
            Ok(Label {
                bus_id: chars(&bus_id),
                uuid: chars(&gpu.card().uuid),
                serial: chars(&gpu.card().serial),
            })
        })
    }

    /// The name of a process.
    pub fn process_name(&self, pid: u32) -> Result<String> {
        let mut buffer = [0_u8; 4096];
        check(exports::nvmlSystemGetProcessName(
            pid,
            buffer.as_mut_ptr().cast(),
            buffer.len() as u32,
        ))?;
        Ok(chars(&buffer))
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // Cannot fail in a way anyone could act on.
        exports::nvmlShutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_speak_nvmls_sentences() {
        assert_eq!(Code::NOT_SUPPORTED.to_string(), "Not Supported");
        assert_eq!(Code(4711).to_string(), "Unknown Error");
    }

    #[test]
    fn padded_text_ends_at_its_first_nul() {
        assert_eq!(chars(b"ab\0cd"), "ab");
        assert_eq!(chars(b"abc"), "abc");
        assert_eq!(chars(b""), "");
    }
}
