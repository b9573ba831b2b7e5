//! The internal table through which `nvidia-smi` asks for what has no public function. Only slots whose meaning was
//! seen from outside are filled; the others are NULL, which it takes as "not there".

use std::ffi::{c_char, c_void};

use mirage_state::layout::{process_kinds, text, valid};

use crate::abi::PciInfo;
use crate::arg::{Out, Text, out, text_in};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::guard::{enter, guard};
use crate::handle::Handle;
use crate::session::Session;
use crate::{identity, pcie, processes, topology};

/// The one table there is.
const GUID: [u8; 16] = [
    0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4,
];

/// Words of the table, the first of which is its size in bytes.
const WORDS: usize = 251;

/// A word: a size, a function, or nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Word(*const c_void);

// SAFETY: the words are constants that point to functions or nowhere.
unsafe impl Sync for Word {}

static TABLE: [Word; WORDS] = {
    let mut table = [Word(std::ptr::null()); WORDS];
    table[0] = Word((WORDS * size_of::<Word>()) as *const c_void);
    table[12] = Word(parse_bus_id as *const c_void);
    table[23] = Word(matrix_level as *const c_void);
    table[72] = Word(monitoring as *const c_void);
    table[75] = Word(place as *const c_void);
    table[81] = Word(printable as *const c_void);
    table[213] = Word(compute_processes as *const c_void);
    table[214] = Word(mps_processes as *const c_void);
    table[215] = Word(graphics_processes as *const c_void);
    table[230] = Word(host_generation as *const c_void);
    table[231] = Word(gpu_part_number as *const c_void);
    table[240] = Word(margin as *const c_void);
    table[242] = Word(addressing as *const c_void);
    table
};

/// `nvmlInternalGetExportTable`: works before init.
pub fn export_table(to: Out<*const c_void>, guid: Out<[u8; 16]>) -> Answer {
    if guid.get() != GUID {
        return Err(Fault::InvalidArgument);
    }
    to.set((&raw const TABLE).cast());
    Ok(())
}

/// The visible GPU with this number.
fn numbered(s: &Session, index: u32) -> Result<Gpu<'_>, Fault> {
    let gpu = s
        .visible()
        .get(index as usize)
        .ok_or(Fault::InvalidArgument)?;
    Ok(s.at(*gpu as usize))
}

extern "C" fn parse_bus_id(
    id: *const c_char,
    domain: *mut u32,
    bus: *mut u32,
    device: *mut u32,
    function: *mut u32,
) -> u32 {
    guard(|| {
        let parts = pcie::parse(text_in(id)?).ok_or(Fault::InvalidArgument)?;
        out(domain)?.set(parts.0);
        out(bus)?.set(parts.1);
        out(device)?.set(parts.2);
        out(function)?.set(parts.3);
        Ok(())
    })
}

extern "C" fn matrix_level(one: *mut PciInfo, other: *mut PciInfo, to: *mut u32) -> u32 {
    enter(|s| {
        let find = |place: Out<PciInfo>| {
            let PciInfo {
                domain,
                bus,
                device,
                ..
            } = place.get();
            let here = |gpu: &Gpu| {
                let card = gpu.card();
                (card.pci_domain, card.pci_bus, card.pci_device) == (domain, bus, device)
            };
            s.visible()
                .iter()
                .map(|&gpu| s.at(gpu as usize))
                .find(here)
                .ok_or(Fault::NotFound)
        };
        let (one, other) = (find(out(one)?)?, find(out(other)?)?);
        out(to)?.set(topology::matrix_level(&one, &other));
        Ok(())
    })
}

extern "C" fn monitoring(device: Handle, to: *mut u32) -> u32 {
    enter(|s| {
        s.gpu(device)?;
        out(to)?.set(1);
        Ok(())
    })
}

extern "C" fn place(index: u32, domain: *mut u32, bus: *mut u32, device: *mut u32) -> u32 {
    enter(|s| {
        let card = numbered(s, index)?.card();
        out(domain)?.set(card.pci_domain);
        out(bus)?.set(card.pci_bus);
        out(device)?.set(card.pci_device);
        Ok(())
    })
}

extern "C" fn printable(index: u32, to: *mut c_char, room: u32) -> u32 {
    enter(|s| pcie::printable(&numbered(s, index)?, Text::new(to, room)?))
}

fn list(device: Handle, kind: u32, count: *mut u32, entries: *mut c_void) -> u32 {
    enter(|s| processes::internal(&s.target(device)?, kind, out(count)?, entries.cast()))
}

extern "C" fn compute_processes(device: Handle, count: *mut u32, entries: *mut c_void) -> u32 {
    list(device, process_kinds::COMPUTE, count, entries)
}

extern "C" fn mps_processes(device: Handle, count: *mut u32, entries: *mut c_void) -> u32 {
    list(device, process_kinds::MPS, count, entries)
}

extern "C" fn graphics_processes(device: Handle, count: *mut u32, entries: *mut c_void) -> u32 {
    list(device, process_kinds::GRAPHICS, count, entries)
}

extern "C" fn host_generation(device: Handle, to: *mut u32) -> u32 {
    enter(|s| match s.gpu(device)?.board().pcie_host_gen_max {
        0 => Err(Fault::NotSupported),
        generation => {
            out(to)?.set(generation);
            Ok(())
        }
    })
}

extern "C" fn gpu_part_number(device: Handle, to: *mut c_char, room: u32) -> u32 {
    enter(|s| match text(&s.gpu(device)?.board().gpu_part_number) {
        "" => Err(Fault::NotSupported),
        number => Text::new(to, room)?.write(&[number]),
    })
}

extern "C" fn margin(device: Handle, to: *mut u32) -> u32 {
    enter(|s| {
        let gpu = s.gpu(device)?;
        gpu.require(valid::MARGIN)?;
        out(to)?.set(live!(gpu, margin_c) as u32);
        Ok(())
    })
}

extern "C" fn addressing(device: Handle, to: *mut u32) -> u32 {
    enter(|s| {
        out(to)?.set(identity::addressing(&s.gpu(device)?));
        Ok(())
    })
}
