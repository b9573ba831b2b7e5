//! The built shared object: where it lies, and what its ELF tables say.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Cargo puts it beside the test.
pub(crate) fn path() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows itself");
    exe.parent()
        .expect("in a directory")
        .join("libnvidia_ml.so")
}

pub(crate) struct Object {
    bytes: Vec<u8>,
}

impl Object {
    pub(crate) fn read() -> Object {
        let path = path();
        let bytes =
            std::fs::read(&path).unwrap_or_else(|e| panic!("reading {}: {e}", path.display()));
        assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64 bit, little endian");
        Object { bytes }
    }

    fn number<const N: usize>(&self, at: usize) -> u64 {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.bytes[at..at + N]);
        u64::from_le_bytes(wide)
    }

    /// Type, offset, size, link of every section.
    fn sections(&self) -> Vec<(u64, usize, usize, usize)> {
        let table = self.number::<8>(0x28) as usize;
        let count = self.number::<2>(0x3C) as usize;
        let section = |index: usize| {
            let at = table + index * 64;
            (
                self.number::<4>(at + 4),
                self.number::<8>(at + 24) as usize,
                self.number::<8>(at + 32) as usize,
                self.number::<4>(at + 40) as usize,
            )
        };
        (0..count).map(section).collect()
    }

    fn text(&self, strings: usize, at: u64) -> String {
        let bytes = &self.bytes[strings + at as usize..];
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .expect("ended text");
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Names it defines for others.
    pub(crate) fn exports(&self) -> BTreeSet<String> {
        let sections = self.sections();
        let table = sections
            .iter()
            .find(|section| section.0 == 11)
            .expect("dynamic symbols");
        let strings = sections[table.3].1;
        let symbols = (table.1..table.1 + table.2).step_by(24);
        let defined = symbols.filter(|&at| self.number::<2>(at + 6) != 0);
        defined
            .map(|at| self.text(strings, self.number::<4>(at)))
            .collect()
    }

    /// Versions of the C library it needs, as (major, minor).
    pub(crate) fn needed_glibc(&self) -> BTreeSet<(u32, u32)> {
        let sections = self.sections();
        let Some(table) = sections.iter().find(|section| section.0 == 0x6fff_fffe) else {
            return BTreeSet::new();
        };
        let strings = sections[table.3].1;
        let mut found = BTreeSet::new();
        let mut need = table.1;
        loop {
            let mut aux = need + self.number::<4>(need + 8) as usize;
            for _ in 0..self.number::<2>(need + 2) {
                let name = self.text(strings, self.number::<4>(aux + 8));
                let parts = name
                    .strip_prefix("GLIBC_")
                    .and_then(|version| version.split_once('.'));
                if let Some((major, minor)) = parts {
                    let minor = minor.split('.').next().unwrap_or_default();
                    found.extend(major.parse().ok().zip(minor.parse().ok()));
                }
                aux += self.number::<4>(aux + 12) as usize;
            }
            match self.number::<4>(need + 12) {
                0 => return found,
                next => need += next as usize,
            }
        }
    }

    /// Whether it defines symbol versions.
    pub(crate) fn defines_versions(&self) -> bool {
        self.sections()
            .iter()
            .any(|section| section.0 == 0x6fff_fffd)
    }

    /// Values of a tag of the dynamic section.
    pub(crate) fn dynamic(&self, tag: u64) -> Vec<u64> {
        let sections = self.sections();
        let table = sections
            .iter()
            .find(|section| section.0 == 6)
            .expect("dynamic section");
        let entries = (table.1..table.1 + table.2).step_by(16);
        entries
            .filter(|&at| self.number::<8>(at) == tag)
            .map(|at| self.number::<8>(at + 8))
            .collect()
    }

    /// Texts of a tag of the dynamic section.
    pub(crate) fn dynamic_text(&self, tag: u64) -> Vec<String> {
        let sections = self.sections();
        let table = sections
            .iter()
            .find(|section| section.0 == 6)
            .expect("dynamic section");
        let strings = sections[table.3].1;
        self.dynamic(tag)
            .into_iter()
            .map(|at| self.text(strings, at))
            .collect()
    }
}
