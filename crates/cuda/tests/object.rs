//! The shared object itself: what it is called, what it exports, what it needs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "object/elf.rs"]
mod elf;

use std::collections::BTreeSet;

fn listed() -> BTreeSet<String> {
    let rows = include_str!("../symbols.csv").lines().skip(1);
    rows.map(|row| row.split(',').next().unwrap().to_owned())
        .collect()
}

#[test]
fn it_exports_the_list_and_nothing_else() {
    let object = elf::Object::read(&elf::library());
    let listed = listed();
    assert_eq!(
        listed.len(),
        include_str!("../symbols.csv").lines().count() - 1
    );
    assert!(listed.len() > 700, "{}", listed.len());
    let missing: Vec<_> = listed.difference(&object.exports).collect();
    let stray: Vec<_> = object.exports.difference(&listed).collect();
    assert!(missing.is_empty(), "listed and not exported: {missing:?}");
    assert!(stray.is_empty(), "exported and not listed: {stray:?}");
}

#[test]
fn it_has_the_name_programs_look_for_and_needs_only_the_c_library() {
    let object = elf::Object::read(&elf::library());
    assert_eq!(object.name.as_deref(), Some("libcuda.so.1"));
    let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-"];
    for needed in &object.needed {
        assert!(
            known.iter().any(|known| needed.starts_with(known)),
            "needs {needed}"
        );
    }
}
