//! The internal table, as `nvidia-smi` walks it.

use std::ffi::{c_char, c_void};

use nvidia_ml::abi::PciInfo;

use super::*;

const GUID: [u8; 16] = [
    0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4,
];
/// Bytes of a process entry.
const ENTRY: usize = 4128;

/// The table's words, by the rule its readers follow: only as many as the first one claims.
fn words_of_table() -> Vec<usize> {
    let mut table: *const c_void = std::ptr::null();
    let mut guid = GUID;
    assert_eq!(nvmlInternalGetExportTable(&mut table, &mut guid), 0);
    // SAFETY: the table begins with its own size and lives as long as the process.
    let size = unsafe { table.cast::<usize>().read() };
    assert_eq!(size % 8, 0);
    // SAFETY: as many words as the first one says.
    unsafe { std::slice::from_raw_parts(table.cast::<usize>(), size / 8) }.to_vec()
}

/// Calls a slot with words, as many as it takes.
fn call(slot: usize, args: [usize; 5]) -> u32 {
    let function = words_of_table()[slot];
    assert_ne!(function, 0, "slot {slot} is there");
    // SAFETY: a filled slot holds a C function of at most five integer or pointer arguments.
    let function: extern "C" fn(usize, usize, usize, usize, usize) -> u32 =
        unsafe { std::mem::transmute(function) };
    function(args[0], args[1], args[2], args[3], args[4])
}

#[test]
fn only_the_proven_slots_are_filled() {
    let filled: Vec<usize> = (1..)
        .zip(&words_of_table()[1..])
        .filter(|(_, word)| **word != 0)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(
        filled,
        [12, 23, 72, 75, 81, 213, 214, 215, 230, 231, 240, 242]
    );
    let mut other = [0; 16];
    assert_eq!(
        nvmlInternalGetExportTable(&mut std::ptr::null(), &mut other),
        2
    );
}

#[test]
fn slots_answer_what_nvidia_smi_asks() {
    let mut image = node::idle("h100-sxm5-80gb", 2);
    node::start(&mut image, 1, 4242, "/usr/bin/python3", None);
    let _client = Client::of(&image);
    let device = gpu(1).0 as usize;
    // Processes: room in, number out, and the name inline.
    let mut entries = vec![0xAA_u8; ENTRY * 2];
    let mut count = 2_u32;
    let args = [
        device,
        &raw mut count as usize,
        entries.as_mut_ptr() as usize,
        0,
        0,
    ];
    assert_eq!(call(213, args), 0);
    assert_eq!(count, 1);
    assert_eq!(entries[..4], 4242_u32.to_le_bytes());
    assert_eq!(entries[16..24], [0xFF; 8]);
    assert_eq!(
        mirage_state::layout::text(&entries[32..ENTRY]),
        "/usr/bin/python3"
    );
    assert!(
        entries[ENTRY..].iter().all(|&byte| byte == 0xAA),
        "nothing past the last entry"
    );
    count = 2;
    assert_eq!(call(215, args), 0);
    assert_eq!(count, 0);
    // The bus id of a number, and back into its parts.
    let mut id: [c_char; 34] = [0; 34];
    assert_eq!(call(81, [1, id.as_mut_ptr() as usize, 34, 0, 0]), 0);
    let mut parts = [0_u32; 4];
    let places = [0, 1, 2, 3].map(|at| &raw mut parts[at] as usize);
    let [domain, bus, place, function] = places;
    assert_eq!(
        call(12, [id.as_ptr() as usize, domain, bus, place, function]),
        0
    );
    assert_eq!(parts[1], image.cards[1].pci_bus);
    // Two GPUs behind the same switches: 4 + 18 links.
    let mut pair = [PciInfo::default(); 2];
    assert_eq!(nvmlDeviceGetPciInfo_v3(gpu(0), &mut pair[0]), 0);
    assert_eq!(nvmlDeviceGetPciInfo_v3(gpu(1), &mut pair[1]), 0);
    let mut level = 0_u32;
    let [one, other] = [0, 1].map(|at| &raw mut pair[at] as usize);
    assert_eq!(call(23, [one, other, &raw mut level as usize, 0, 0]), 0);
    assert_eq!(level, 4 + 18);
    // An H100 tells margins; monitoring works.
    let mut value = 0_u32;
    let to = &raw mut value as usize;
    assert_eq!(call(240, [device, to, 0, 0, 0]), 0);
    assert_eq!(value as i32, image.lives[1].margin_c);
    assert_eq!(call(72, [device, to, 0, 0, 0]), 0);
    assert_eq!(value, 1);
}
