//! The functions that are answered. Each only names its answer; the rest of the public headers is generated beside the table of
//! [`entry`](crate::entry).
#![allow(missing_docs, non_snake_case, reason = "the driver API's own names")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use mirage_state::links::Path;

use crate::code::{self, Fault};
use crate::guard::{guard, put, put_if, put_text, take_text};
use crate::session::{current, device, init, version};
use crate::{attribute, device, entry};

/// Everything `cuDeviceGetProperties` tells, `CUdevprop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Properties {
    pub max_threads_per_block: c_int,
    pub max_threads_dim: [c_int; 3],
    pub max_grid_size: [c_int; 3],
    pub shared_mem_per_block: c_int,
    pub total_constant_memory: c_int,
    pub simd_width: c_int,
    pub mem_pitch: c_int,
    pub regs_per_block: c_int,
    pub clock_rate: c_int,
    pub texture_align: c_int,
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> u32 {
    guard(|| match flags {
        0 => init(),
        _ => Err(Fault::InvalidValue),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(to: *mut c_int) -> u32 {
    guard(|| put(to, version()?))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    guard(|| put(count, current()?.count()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(to: *mut c_int, ordinal: c_int) -> u32 {
    guard(|| put(to, device(ordinal)?.number))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: c_int) -> u32 {
    guard(|| put_text(name, len, &device(dev)?.name()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], dev: c_int) -> u32 {
    guard(|| put(uuid, device(dev)?.gpu_uuid()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], dev: c_int) -> u32 {
    guard(|| put(uuid, device(dev)?.uuid()))
}

/// The form of CUDA 2, which counts in 32 bits.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem(bytes: *mut c_uint, dev: c_int) -> u32 {
    guard(|| {
        put(
            bytes,
            c_uint::try_from(device(dev)?.memory()).unwrap_or(c_uint::MAX),
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: c_int) -> u32 {
    guard(|| {
        put(
            bytes,
            usize::try_from(device(dev)?.memory()).unwrap_or(usize::MAX),
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: *mut c_int, id: c_int, dev: c_int) -> u32 {
    guard(|| {
        let found = attribute::get(&device(dev)?, id).ok_or(Fault::InvalidValue)?;
        put(value, found)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, dev: c_int) -> u32 {
    guard(|| put_text(id, len, &device(dev)?.bus_id()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetByPCIBusId(dev: *mut c_int, id: *const c_char) -> u32 {
    guard(|| {
        let session = current()?;
        let id = take_text(id)?.to_str().map_err(|_| Fault::InvalidValue)?;
        let wanted = device::parse_bus_id(id).ok_or(Fault::InvalidValue)?;
        let number = (0..session.count()).find(|number| {
            let card = session.device(*number).ok().map(|device| device.card);
            card.is_some_and(|c| (c.pci_domain, c.pci_bus, c.pci_device) == wanted)
        });
        put(dev, number.ok_or(Fault::InvalidDevice)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    dev: c_int,
) -> u32 {
    guard(|| {
        let get = |id| attribute::get(&device(dev)?, id).ok_or(Fault::Unknown);
        put(major, get(75)?)?;
        put(minor, get(76)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetProperties(to: *mut Properties, dev: c_int) -> u32 {
    guard(|| {
        let device = device(dev)?;
        let get = |id| attribute::get(&device, id).ok_or(Fault::Unknown);
        let properties = Properties {
            max_threads_per_block: get(1)?,
            max_threads_dim: [get(2)?, get(3)?, get(4)?],
            max_grid_size: [get(5)?, get(6)?, get(7)?],
            shared_mem_per_block: get(8)?,
            total_constant_memory: get(9)?,
            simd_width: get(10)?,
            mem_pitch: get(11)?,
            regs_per_block: get(12)?,
            clock_rate: get(13)?,
            texture_align: get(14)?,
        };
        put(to, properties)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, dev: c_int, peer: c_int) -> u32 {
    guard(|| put(can, device(dev)?.path_to(&device(peer)?).is_some().into()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetP2PAttribute(
    value: *mut c_int,
    id: c_uint,
    from: c_int,
    to: c_int,
) -> u32 {
    guard(|| {
        let (from, to) = (device(from)?, device(to)?);
        if from.gpu == to.gpu {
            return Err(Fault::InvalidDevice);
        }
        let path = from.path_to(&to);
        let links = matches!(path, Some(Path::Links(_)));
        let found = match id {
            // Rank: 0 is the best.
            1 => !links,
            2 | 4 => path.is_some(),
            3 => links,
            5 => false,
            _ => return Err(Fault::InvalidValue),
        };
        put(value, found.into())
    })
}

/// Nothing ever runs, so no primary context is active.
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxGetState(
    dev: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> u32 {
    guard(|| {
        device(dev)?;
        put(flags, 0)?;
        put(active, 0)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> u32 {
    guard(|| {
        current()?;
        put(context, null_mut())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetDevice(dev: *mut c_int) -> u32 {
    guard(|| {
        current()?;
        match dev.is_null() {
            true => Err(Fault::InvalidValue),
            false => Err(Fault::InvalidContext),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: c_uint, to: *mut *const c_char) -> u32 {
    guard(|| describe(code::name(error), to))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: c_uint, to: *mut *const c_char) -> u32 {
    guard(|| describe(code::text(error), to))
}

fn describe(text: Option<&'static std::ffi::CStr>, to: *mut *const c_char) -> code::Answer {
    put(to, text.map_or(std::ptr::null(), std::ffi::CStr::as_ptr))?;
    text.map(|_| ()).ok_or(Fault::InvalidValue)
}

/// The form of CUDA 11.3: a name that is not there is an error.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress(
    name: *const c_char,
    to: *mut *mut c_void,
    cuda: c_int,
    flags: u64,
) -> u32 {
    guard(|| {
        let (address, found) = entry::find(take_text(name)?, cuda, flags, version()?)?;
        put(to, address)?;
        match found {
            entry::Found::Yes => Ok(()),
            _ => Err(Fault::NotFound),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    to: *mut *mut c_void,
    cuda: c_int,
    flags: u64,
    status: *mut u32,
) -> u32 {
    guard(|| {
        let (address, found) = entry::find(take_text(name)?, cuda, flags, version()?)?;
        put(to, address)?;
        put_if(status, found as u32);
        Ok(())
    })
}

/// For programs built for the thread's own default stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress_v2_ptsz(
    name: *const c_char,
    to: *mut *mut c_void,
    cuda: c_int,
    flags: u64,
    status: *mut u32,
) -> u32 {
    let flags = if flags == 0 { 2 } else { flags };
    cuGetProcAddress_v2(name, to, cuda, flags, status)
}
