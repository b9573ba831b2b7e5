//! One list drives the exports, the reference and this test.

#[path = "support/list.rs"]
mod list;
#[path = "support/object.rs"]
mod object;

use std::collections::BTreeSet;

/// Compares a generated file with the one in the tree, or writes it when blessed.
fn in_step(path: &str, wanted: &str) {
    let path = list::root().join(path);
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        std::fs::write(&path, wanted).expect("writing a generated file");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{} is out of step with symbols.csv: run MIRAGE_BLESS=1 cargo test -p mirage-nvml --test symbols",
        path.display()
    );
}

#[test]
fn the_exports_follow_the_list() {
    in_step("src/exports.rs", &list::exports(&list::symbols()));
}

#[test]
fn the_reference_follows_the_list() {
    in_step(
        "../../docs/reference/nvml.md",
        &list::coverage(&list::symbols()),
    );
}

#[test]
fn the_list_is_whole() {
    let symbols = list::symbols();
    let names: BTreeSet<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!(names.len(), symbols.len(), "a name is there twice");
    assert_eq!(names.len(), 434);
    let real = symbols
        .iter()
        .filter(|symbol| ["state", "set"].contains(&symbol.status.as_str()));
    assert!(real.count() >= 250);
    for symbol in &symbols {
        assert_eq!(
            symbol.call == "-",
            symbol.status == "unsupported"
                || symbol
                    .shape
                    .iter()
                    .any(|word| ["vgpu", "vtype", "unit"].contains(&word.as_str())),
            "{}",
            symbol.name
        );
    }
}

#[test]
fn what_no_board_answers_has_its_reason() {
    for symbol in list::symbols() {
        assert!(
            symbol.status != "unsupported" || !symbol.note.is_empty(),
            "{} (called by {:?}) is answered by no board: say why in its note",
            symbol.name,
            symbol.callers
        );
    }
}

#[test]
fn the_object_exports_the_list_and_nothing_else() {
    let wanted: BTreeSet<String> = list::symbols()
        .into_iter()
        .map(|symbol| symbol.name)
        .collect();
    let object = object::Object::read();
    assert_eq!(object.exports(), wanted);
    assert!(!object.defines_versions());
}

#[test]
fn the_object_has_the_name_programs_look_for_and_stays_mapped() {
    const NEEDED: u64 = 1;
    const SONAME: u64 = 14;
    const FLAGS_1: u64 = 0x6fff_fffb;
    const NODELETE: u64 = 8;
    let object = object::Object::read();
    assert_eq!(object.dynamic_text(SONAME), ["libnvidia-ml.so.1"]);
    assert!(
        object
            .dynamic(FLAGS_1)
            .iter()
            .any(|flags| flags & NODELETE != 0)
    );
    // Every image with a C library has these; nothing else may be needed.
    let usual = [
        "libc.so.6",
        "libgcc_s.so.1",
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
    ];
    for needed in object.dynamic_text(NEEDED) {
        assert!(
            usual.contains(&needed.as_str()) || needed.starts_with("ld-linux"),
            "needs {needed}"
        );
    }
}

/// Built with the platform's own toolchain; a build against an older C library lowers this.
#[test]
fn the_object_needs_no_newer_c_library_than_stated() {
    let needed = object::Object::read().needed_glibc();
    let newest = needed.last().expect("it uses the C library");
    assert!(*newest <= (2, 34), "needs GLIBC_{}.{}", newest.0, newest.1);
}
