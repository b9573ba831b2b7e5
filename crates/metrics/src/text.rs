//! Every label text an exporter can ask of a device, by name, and how texts are written.

use std::ffi::CStr;

use mirage_state::layout::{TextRef, board_flags};

use crate::decimal::push_uint;
use crate::device::Device;
use crate::sha1;

/// Appends a label's text, escaped; nothing for one the device does not have.
pub(crate) type Write = fn(&Device<'_>, &mut Vec<u8>);

/// A named text.
pub(crate) struct Text {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) write: Write,
}

/// The text of a name.
pub(crate) fn find(name: &str) -> Option<&'static Text> {
    TEXTS.iter().find(|t| t.name == name)
}

/// Appends text as the inside of a quoted label value. dcgm-exporter escapes nothing, so that a name with
/// a quote in it breaks its whole page; names without such characters read the same either way.
pub(crate) fn push_escaped(out: &mut Vec<u8>, value: &str) {
    let bytes = value.as_bytes();
    if !needs_escape(bytes) {
        out.extend_from_slice(bytes);
        return;
    }
    for &b in bytes {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            _ => out.push(b),
        }
    }
}

/// Whether any byte has to be escaped, eight at a time: this is asked of every label of every series.
fn needs_escape(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // Marks the bytes of a word that are zero; may mark one too many above a true mark, never one in vain.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut words = bytes.chunks_exact(8);
    let found = words.by_ref().any(|eight| {
        let word = u64::from_ne_bytes(eight.try_into().unwrap_or_default());
        let marks = zeros(word ^ (ONES * u64::from(b'"')))
            | zeros(word ^ (ONES * u64::from(b'\\')))
            | zeros(word ^ (ONES * u64::from(b'\n')));
        marks != 0
    });
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'\n');
    found || words.remainder().iter().any(special)
}

/// The text in a fixed, NUL-padded field. The same as the layout's, faster on long fields.
fn text(bytes: &[u8]) -> &str {
    let bytes = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    str::from_utf8(bytes).unwrap_or("")
}

/// Appends hexadecimal digits, at least `width` of them.
fn push_hex(out: &mut Vec<u8>, value: u64, width: u32, upper: bool) {
    let digits = if upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
    let needed = (u64::BITS - value.leading_zeros()).div_ceil(4).max(1);
    for place in (0..width.max(needed)).rev() {
        let nibble = value.checked_shr(place * 4).unwrap_or(0) & 0xf;
        out.push(digits[nibble as usize]);
    }
}

/// Appends `00000000:07:00.0`, with as many digits for the domain as asked.
pub(crate) fn push_pci(out: &mut Vec<u8>, d: &Device<'_>, domain: u32, upper: bool) {
    push_hex(out, d.card.pci_domain.into(), domain, upper);
    out.push(b':');
    push_hex(out, d.card.pci_bus.into(), 2, upper);
    out.push(b':');
    push_hex(out, d.card.pci_device.into(), 2, upper);
    out.extend_from_slice(b".0");
}

/// Appends the model name, its words joined by `-` if asked.
pub(crate) fn push_model(out: &mut Vec<u8>, d: &Device<'_>, joined: bool) {
    let name = text(&d.board.name);
    if joined {
        for (at, word) in name.split_whitespace().enumerate() {
            if at > 0 {
                out.push(b'-');
            }
            push_escaped(out, word);
        }
    } else {
        push_escaped(out, name);
    }
}

/// Appends 16 bytes as a UUID; nothing when all are zero.
fn push_uuid(out: &mut Vec<u8>, bytes: &[u8; 16]) {
    if bytes.iter().all(|b| *b == 0) {
        return;
    }
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        push_hex(out, (*byte).into(), 2, false);
    }
}

/// A text of whoever holds the device last; nothing when it is free.
fn push_holder(
    d: &Device<'_>,
    out: &mut Vec<u8>,
    which: fn(&mirage_state::layout::Container) -> TextRef,
) {
    let holder = d
        .holdings()
        .filter_map(|(_, h)| d.node.containers.get(h.container as usize))
        .last();
    if let Some(container) = holder {
        push_escaped(out, d.node.text(which(container)));
    }
}

macro_rules! texts {
    ($( $name:literal $about:literal |$d:ident, $out:ident| $body:expr ; )*) => {
        /// All texts, in the order the reference lists them.
        pub(crate) static TEXTS: &[Text] = &[ $( Text {
            name: $name,
            about: $about,
            write: |$d, $out| { $body; },
        }, )* ];
    };
}

texts! {
    "index" "GPU index" |d, out| push_uint(out, d.index.into());
    "minor" "minor number of the device node" |d, out| push_uint(out, d.card.minor.into());
    "device" "`nvidia` and the GPU index" |d, out| {
        out.extend_from_slice(b"nvidia");
        push_uint(out, d.index.into());
    };
    "card" "`card` and the GPU index" |d, out| {
        out.extend_from_slice(b"card");
        push_uint(out, d.index.into());
    };
    "card_file" "`/dev/dri/card` and the GPU index" |d, out| {
        out.extend_from_slice(b"/dev/dri/card");
        push_uint(out, d.index.into());
    };
    "accel" "`accel` and the GPU index" |d, out| {
        out.extend_from_slice(b"accel");
        push_uint(out, d.index.into());
    };
    "uuid" "GPU UUID" |d, out| push_escaped(out, text(&d.card.uuid));
    "uuid_bare" "GPU UUID without `GPU-`" |d, out| {
        let uuid = text(&d.card.uuid);
        push_escaped(out, uuid.strip_prefix("GPU-").unwrap_or(uuid));
    };
    "serial" "serial number" |d, out| push_escaped(out, text(&d.card.serial));
    "pci_bus_id" "PCI address, domain of eight digits, upper case" |d, out| push_pci(out, d, 8, true);
    "pci_bdf" "PCI address, domain of four digits, lower case" |d, out| push_pci(out, d, 4, false);
    "pci_device_id" "PCI device id, `0x0bd5`" |d, out| {
        out.extend_from_slice(b"0x");
        push_hex(out, (d.board.pci_device_id >> 16).into(), 4, false);
    };
    "pci_device_vendor_id" "PCI device and vendor id, `0x20B010DE`" |d, out| {
        out.extend_from_slice(b"0x");
        push_hex(out, d.board.pci_device_id.into(), 8, true);
    };
    "pci_subsystem_id" "PCI subsystem ids, `0x134F10DE`" |d, out| {
        out.extend_from_slice(b"0x");
        push_hex(out, d.board.pci_subsystem_id.into(), 8, true);
    };
    "model" "model name" |d, out| push_model(out, d, false);
    "product" "product as node labels spell it" |d, out| push_escaped(out, text(&d.board.product));
    "model_key" "key in the catalogue" |d, out| push_escaped(out, text(&d.board.key));
    "brand" "brand" |d, out| push_escaped(out, text(&d.board.brand_name));
    "architecture" "architecture" |d, out| push_escaped(out, text(&d.board.architecture_name));
    "vbios" "VBIOS version" |d, out| push_escaped(out, text(&d.board.vbios));
    "part_number" "board part number" |d, out| push_escaped(out, text(&d.board.part_number));
    "inforom_image" "InfoROM image version" |d, out| push_escaped(out, text(&d.board.inforom_image));
    "inforom_oem" "InfoROM OEM object version" |d, out| push_escaped(out, text(&d.board.inforom_oem));
    "inforom_ecc" "InfoROM ECC object version, of boards with ECC" |d, out| {
        if d.board.flags & board_flags::ECC != 0 {
            push_escaped(out, text(&d.board.inforom_ecc));
        }
    };
    "inforom_power" "InfoROM power object version" |d, out| push_escaped(out, text(&d.board.inforom_power));
    "compute_capability" "CUDA compute capability, `8.0`" |d, out| {
        push_uint(out, d.board.cc_major.into());
        out.push(b'.');
        push_uint(out, d.board.cc_minor.into());
    };
    "driver" "driver version" |d, out| push_escaped(out, d.node.driver);
    "cuda" "CUDA version, `12.4`" |d, out| {
        push_uint(out, (d.node.facts.cuda_version / 1000).into());
        out.push(b'.');
        push_uint(out, (d.node.facts.cuda_version % 1000 / 10).into());
    };
    "nvml" "NVML version" |d, out| {
        push_uint(out, (d.node.facts.cuda_version / 1000).into());
        out.push(b'.');
        push_escaped(out, d.node.driver);
    };
    "node" "node name" |d, out| push_escaped(out, d.node.name);
    "exporter_pod" "`nvidia-dcgm-exporter-` and a short hash of the node name" |d, out| {
        out.extend_from_slice(b"nvidia-dcgm-exporter-");
        for byte in &sha1::digest(d.node.name.as_bytes())[..3] {
            push_hex(out, (*byte).into(), 2, false);
        }
    };
    "container" "container that holds the device" |d, out| push_holder(d, out, |c| c.name);
    "namespace" "namespace of the pod that holds the device" |d, out| push_holder(d, out, |c| c.namespace);
    "pod" "pod that holds the device" |d, out| push_holder(d, out, |c| c.pod);
    "pod_uid" "UID of the pod that holds the device" |d, out| push_holder(d, out, |c| c.uid);
    "fabric_cluster" "fabric cluster UUID" |d, out| push_uuid(out, &d.card.cluster);
    "mig_profile" "MIG profile, of instances" |d, out| if let Some(s) = d.slice {
        push_escaped(out, text(&s.profile.name));
    };
    "mig_id" "GPU instance id, of instances" |d, out| if let Some(s) = d.slice {
        push_uint(out, s.instance.gi.into());
    };
    "mig_profile_id" "id of the MIG profile, of instances" |d, out| if let Some(s) = d.slice {
        push_uint(out, s.profile.id.into());
    };
    "mig_uuid" "UUID of the MIG device, of instances" |d, out| if let Some(s) = d.slice {
        push_escaped(out, text(&s.instance.uuid));
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_only_what_would_break_the_page() {
        let mut out = Vec::new();
        push_escaped(&mut out, "a\"b\\c\nd=é,{}");
        assert_eq!(out, "a\\\"b\\\\c\\nd=é,{}".as_bytes());
    }

    #[test]
    fn finds_what_to_escape_wherever_it_stands() {
        for special in [b'"', b'\\', b'\n'] {
            for length in 0..40 {
                let mut bytes = vec![b'a'; length];
                assert!(!needs_escape(&bytes));
                for at in 0..length {
                    bytes[at] = special;
                    assert!(needs_escape(&bytes), "{length} {at}");
                    bytes[at] = 0xff;
                }
                assert!(!needs_escape(&bytes));
            }
        }
    }

    #[test]
    fn hexadecimal_keeps_its_width() {
        let mut out = Vec::new();
        push_hex(&mut out, 0x7, 8, true);
        push_hex(&mut out, 0xAB_CDEF, 2, false);
        push_hex(&mut out, 0, 1, false);
        assert_eq!(out, b"00000007abcdef0");
    }
}
