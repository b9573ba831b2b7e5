//! As much of an ELF file as the tests ask about.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const DYNAMIC: u32 = 6;
const DYNAMIC_SYMBOLS: u32 = 11;
const NEEDED: u64 = 1;
const SONAME: u64 = 14;

/// A shared object.
pub(crate) struct Object {
    /// Functions and data others can use.
    pub(crate) exports: BTreeSet<String>,
    /// Its own name.
    pub(crate) name: Option<String>,
    /// Objects it needs.
    pub(crate) needed: Vec<String>,
}

/// The library under test, which cargo puts beside the test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libcuda.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

fn number(bytes: &[u8], at: u64, len: usize) -> u64 {
    let at = usize::try_from(at).unwrap();
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}

fn text(bytes: &[u8], at: u64) -> String {
    let from = &bytes[usize::try_from(at).unwrap()..];
    let end = from.iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8(from[..end].to_vec()).unwrap()
}

impl Object {
    /// Reads a 64-bit little-endian object.
    pub(crate) fn read(path: &Path) -> Object {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(&bytes[..6], b"\x7fELF\x02\x01");
        let (table, size, count) = (
            number(&bytes, 0x28, 8),
            number(&bytes, 0x3a, 2),
            number(&bytes, 0x3c, 2),
        );
        let mut object = Object {
            exports: BTreeSet::new(),
            name: None,
            needed: Vec::new(),
        };
        let section = |index: u64| table + index * size;
        let place = |at: u64| (number(&bytes, at + 0x18, 8), number(&bytes, at + 0x20, 8));
        for at in (0..count).map(section) {
            let kind = u32::try_from(number(&bytes, at + 4, 4)).unwrap();
            let (start, len) = place(at);
            let (strings, _) = place(section(number(&bytes, at + 0x28, 4)));
            match kind {
                DYNAMIC_SYMBOLS => {
                    for symbol in (start..start + len).step_by(24) {
                        // A symbol with a section is defined here; one without is wanted from others.
                        if number(&bytes, symbol + 6, 2) != 0 {
                            let name = text(&bytes, strings + number(&bytes, symbol, 4));
                            object.exports.insert(name);
                        }
                    }
                }
                DYNAMIC => {
                    for entry in (start..start + len).step_by(16) {
                        let value = number(&bytes, entry + 8, 8);
                        match number(&bytes, entry, 8) {
                            NEEDED => object.needed.push(text(&bytes, strings + value)),
                            SONAME => object.name = Some(text(&bytes, strings + value)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        object
    }
}
