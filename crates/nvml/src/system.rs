//! The library's own life, the machine, and how a client comes to a device handle.

use std::ffi::c_char;

use mirage_state::layout::text;

use crate::abi::{DriverBranch, ExcludedDevice, Uuid};
use crate::arg::{Line, List, Out, Text};
use crate::code::{Answer, Fault, sentence};
use crate::handle::Handle;
use crate::session::{self, Session};
use crate::{device::Gpu, events, gpm, pcie};

/// `nvmlInit`, `nvmlInit_v2`.
pub fn init() -> Answer {
    session::init(0)
}

/// `nvmlInitWithFlags`.
pub fn init_with_flags(flags: u32) -> Answer {
    session::init(flags)
}

/// `nvmlShutdown`: succeeds however often it is called. The last one takes with it what the caller did not free.
pub fn shutdown() -> Answer {
    if session::shutdown() {
        events::free_all();
        gpm::free_all();
    }
    Ok(())
}

/// `nvmlErrorString`.
pub fn error_string(code: u32) -> *const c_char {
    sentence(code).as_ptr()
}

/// `nvmlSystemGetDriverVersion`.
pub fn driver_version(s: &Session, out: Text) -> Answer {
    out.write(&[s.driver()])
}

/// `nvmlSystemGetDriverBranch`: the first part of the version, as branches are called.
pub fn driver_branch(s: &Session, out: Out<DriverBranch>, room: u32) -> Answer {
    let branch = s.driver().split('.').next().unwrap_or_default();
    let name = Line::<96>::of(format_args!("r{branch}_00"));
    let name = name.as_str();
    if name.len() >= (room as usize).min(80) {
        return Err(Fault::InsufficientSize);
    }
    let mut info = out.get();
    info.branch = crate::abi::fixed(name);
    out.set(info);
    Ok(())
}

/// `nvmlSystemGetNVMLVersion`: works before init; the API's major version and the driver's.
pub fn nvml_version(out: Text) -> Answer {
    session::peek(|s| {
        let major = Line::<16>::of(format_args!("{}", s.cuda_version() / 1000));
        out.write(&[major.as_str(), ".", s.driver()])
    })
}

/// `nvmlSystemGetCudaDriverVersion` and its second form.
pub fn cuda_driver_version(s: &Session, out: Out<i32>) -> Answer {
    out.set(s.cuda_version() as i32);
    Ok(())
}

/// `nvmlSystemGetHicVersion`: only S-class systems have host interface cards.
pub fn hic_version(_: &Session, count: Out<u32>, entries: *mut [u32; 9]) -> Answer {
    List::new(count, entries)?.finish()
}

/// `nvmlSystemGetProcessName`: a simulated process first, then one of this machine.
pub fn process_name(s: &Session, pid: u32, out: Text) -> Answer {
    if out.room() == 0 {
        return Err(Fault::InvalidArgument);
    }
    let mut name = [0; 4096];
    if s.process_name(pid, &mut name) {
        return out.write_cut(text(&name));
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| Fault::NotFound)?;
    let first = line.split(|&byte| byte == 0).next().unwrap_or_default();
    match str::from_utf8(first) {
        Ok(name) if !name.is_empty() => out.write_cut(name),
        _ => Err(Fault::NotFound),
    }
}

/// `nvmlDeviceGetCount` and its second form.
pub fn count(s: &Session, out: Out<u32>) -> Answer {
    out.set(s.visible().len() as u32);
    Ok(())
}

/// `nvmlDeviceGetHandleByIndex` and its second form.
pub fn handle_by_index(s: &Session, index: u32, out: Out<Handle>) -> Answer {
    let gpu = s
        .visible()
        .get(index as usize)
        .ok_or(Fault::InvalidArgument)?;
    hand(s, *gpu as usize, out)
}

/// `nvmlDeviceGetHandleByUUID`: a GPU's or a MIG device's.
pub fn handle_by_uuid(s: &Session, uuid: &str, out: Out<Handle>) -> Answer {
    if uuid.is_empty() {
        return Err(Fault::InvalidArgument);
    }
    if uuid.starts_with("MIG-") {
        let found = s.find_instance(|instance| {
            instance.ci != u32::MAX && text(&instance.uuid).eq_ignore_ascii_case(uuid)
        });
        let instance = found.ok_or(Fault::NotFound)?;
        let gpu = s.usable(instance.gpu as usize)?;
        out.set(gpu.mig_handle(&instance));
        return Ok(());
    }
    find(s, out, |gpu| {
        text(&gpu.card().uuid).eq_ignore_ascii_case(uuid)
    })
}

/// `nvmlDeviceGetHandleByUUIDV`: as text or as sixteen bytes.
pub fn handle_by_uuid_v(s: &Session, uuid: Out<Uuid>, out: Out<Handle>) -> Answer {
    let asked = uuid.get();
    match asked.kind {
        1 => {
            let end = asked.value.iter().position(|&byte| byte == 0).unwrap_or(41);
            let name = str::from_utf8(&asked.value[..end]).map_err(|_| Fault::InvalidArgument)?;
            handle_by_uuid(s, name, out)
        }
        2 => {
            let wanted = &asked.value[..16];
            let found = s.find_instance(|instance| {
                instance.ci != u32::MAX && binary(text(&instance.uuid)) == wanted
            });
            if let Some(instance) = found {
                out.set(s.usable(instance.gpu as usize)?.mig_handle(&instance));
                return Ok(());
            }
            find(s, out, |gpu| binary(text(&gpu.card().uuid)) == wanted)
        }
        _ => Err(Fault::InvalidArgument),
    }
}

/// The sixteen bytes a UUID's hexadecimal digits write.
pub fn binary(uuid: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let digits = uuid.split_once('-').map_or("", |(_, digits)| digits);
    let digits = digits.chars().filter_map(|c| c.to_digit(16));
    for (at, digit) in digits.take(32).enumerate() {
        bytes[at / 2] |= (digit as u8) << (4 * (1 - at % 2));
    }
    bytes
}

/// `nvmlDeviceGetHandleBySerial`.
pub fn handle_by_serial(s: &Session, serial: &str, out: Out<Handle>) -> Answer {
    if serial.is_empty() {
        return Err(Fault::InvalidArgument);
    }
    find(s, out, |gpu| text(&gpu.card().serial) == serial)
}

/// `nvmlDeviceGetHandleByPciBusId` and its second form: the domain has four or eight digits, or is left out.
pub fn handle_by_pci_bus_id(s: &Session, id: &str, out: Out<Handle>) -> Answer {
    let (domain, bus, device, function) = pcie::parse(id).ok_or(Fault::InvalidArgument)?;
    if function != 0 {
        return Err(Fault::NotFound);
    }
    find(s, out, |gpu| {
        let card = gpu.card();
        (card.pci_domain, card.pci_bus, card.pci_device) == (domain, bus, device)
    })
}

fn find(s: &Session, out: Out<Handle>, wanted: impl Fn(&Gpu) -> bool) -> Answer {
    let found = s.visible().iter().find(|&&gpu| wanted(&s.at(gpu as usize)));
    hand(s, *found.ok_or(Fault::NotFound)? as usize, out)
}

fn hand(s: &Session, gpu: usize, out: Out<Handle>) -> Answer {
    out.set(s.usable(gpu)?.handle());
    Ok(())
}

/// `nvmlGetExcludedDeviceCount` and its older name: no device is kept from use.
pub fn excluded_device_count(_: &Session, out: Out<u32>) -> Answer {
    out.set(0);
    Ok(())
}

/// `nvmlGetExcludedDeviceInfoByIndex` and its older name: every index is past the end.
pub fn excluded_device_info(_: &Session, _: u32, _: Out<ExcludedDevice>) -> Answer {
    Err(Fault::InvalidArgument)
}
