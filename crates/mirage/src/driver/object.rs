//! Shared objects that are nothing but a name: the driver's companion libraries, which tools look for and mount, and in which programs
//! find no function. The loader and `ldconfig` accept them.

/// Where a segment is loaded; offsets in the file and in memory are the same.
const ALIGN: u64 = 0x1000;
/// `e_machine` of this build.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

/// The bytes of an empty shared object.
pub(super) fn empty(soname: &str) -> Vec<u8> {
    let (header, programs) = (64_u64, 3 * 56_u64);
    // One string before the name: the empty one.
    let strings: Vec<u8> = [b"\0", soname.as_bytes(), b"\0"].concat();
    let strings_len = (strings.len() as u64).next_multiple_of(8);
    let at_strings = header + programs;
    let at_symbols = at_strings + strings_len;
    // The null symbol, then a hash table with one bucket and that symbol.
    let at_hash = at_symbols + 24;
    let at_dynamic = at_hash + 16;
    let dynamic: [(u64, u64); 7] = [
        (14, 1),
        (5, at_strings),
        (6, at_symbols),
        (4, at_hash),
        (10, strings.len() as u64),
        (11, 24),
        (0, 0),
    ];
    let dynamic_len = dynamic.len() as u64 * 16;
    let whole = at_dynamic + dynamic_len;

    let mut out: Vec<u8> = Vec::new();
    out.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [3_u16, MACHINE] {
        out.extend(half.to_le_bytes());
    }
    out.extend(1_u32.to_le_bytes());
    // Entry, program headers, section headers.
    for word in [0, header, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 3, 64, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    let mut program = |kind: u32, flags: u32, at: u64, len: u64, align: u64| {
        out.extend(kind.to_le_bytes());
        out.extend(flags.to_le_bytes());
        for word in [at, at, at, len, len, align] {
            out.extend(word.to_le_bytes());
        }
    };
    // Writable, since the loader adjusts the addresses in the dynamic section in place.
    program(1, 6, 0, whole, ALIGN);
    program(2, 6, at_dynamic, dynamic_len, 8);
    // A stack that is not executable.
    program(0x6474_e551, 6, 0, 0, 16);
    out.extend(&strings);
    out.resize(usize::try_from(at_symbols).unwrap_or(0), 0);
    out.extend([0; 24]);
    for word in [1_u32, 1, 0, 0] {
        out.extend(word.to_le_bytes());
    }
    for (tag, value) in dynamic {
        out.extend(tag.to_le_bytes());
        out.extend(value.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_small_and_carries_its_name() {
        let bytes = empty("libnvcuvid.so.1");
        assert!(bytes.len() < 512, "{}", bytes.len());
        assert!(
            bytes
                .windows(16)
                .any(|window| window == b"libnvcuvid.so.1\0")
        );
        assert_eq!(bytes.len() % 8, 0);
    }
}
