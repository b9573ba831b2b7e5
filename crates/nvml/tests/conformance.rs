//! Every exported function, called as no honest program would: before init, with NULL, with wild and stale handles, numbers
//! outside their range, wrong versions and short buffers. None may crash, none may answer 999 (which is a caught
//! panic), and the refusal must be the one NVML gives.

#[path = "support/caller.rs"]
mod caller;
#[path = "support/list.rs"]
mod list;
#[path = "support/node.rs"]
mod node;
#[path = "support/object.rs"]
mod object;

use caller::{Arg, Buffers, Handles, Library, good, own_version, values, walks};
use list::Symbol;
use mirage_state::NodeDir;

const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const VERSION_MISMATCH: u32 = 25;
const UNKNOWN: u32 = 999;

fn is_versioned(symbol: &Symbol, arg: &Arg) -> bool {
    let own = own_version(&symbol.name).is_some() && arg.buffer.is_some();
    arg.word.starts_with("v:") || arg.word.starts_with("v=") || own
}

#[test]
fn every_function_withstands_every_misuse() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut image = node::idle("h100-sxm5-80gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.10gb", 1, 0, 0);
    node::cut(&mut image, 1, "2g.20gb", 2, 2, 1);
    node::start(&mut image, 0, 4242, "/usr/bin/train", None);
    let mut writer = NodeDir::open(dir.path()).expect("the directory is ours");
    writer.publish(&image).expect("room for a state");
    node::see(&dir.path().join("state"));

    let library = Library::open();
    let symbols = list::symbols();
    uninitialized(&library, &symbols);

    assert_eq!(
        library.call("nvmlInitWithFlags", &[0x100]),
        INVALID_ARGUMENT
    );
    assert_eq!(library.call("nvmlInit_v2", &[]), 0);
    let handles = Handles::get(&library);
    for symbol in symbols.iter().filter(|symbol| walks(symbol)) {
        misuse(&library, symbol, &handles);
        if takes_a_list(symbol) {
            short_list(&library, symbol, &handles);
        }
    }

    // What was cut is cut no more: its handles are stale.
    image.instances.pop();
    writer.update(&image).expect("the state is ours");
    for symbol in symbols.iter().filter(|symbol| walks(symbol)) {
        stale(&library, symbol, &handles);
    }
    assert_eq!(library.call("nvmlEventSetFree", &[handles.set]), 0);
    assert_eq!(
        library.call("nvmlEventSetFree", &[handles.set]),
        INVALID_ARGUMENT
    );
    assert_eq!(library.call("nvmlGpmSampleFree", &[handles.sample]), 0);
    assert_eq!(
        library.call("nvmlGpmSampleFree", &[handles.sample]),
        INVALID_ARGUMENT
    );

    // Counted: one init, one shutdown, and more of these change nothing.
    assert_eq!(library.call("nvmlInit", &[]), 0);
    assert_eq!(library.call("nvmlShutdown", &[]), 0);
    let mut count = 0_u32;
    assert_eq!(
        library.call("nvmlDeviceGetCount_v2", &[&raw mut count as usize]),
        0
    );
    assert_eq!(count, 2);
    assert_eq!(library.call("nvmlShutdown", &[]), 0);
    uninitialized(&library, &symbols);
}

/// Before init everything is refused as such, whatever its arguments; what works anyway does.
fn uninitialized(library: &Library, symbols: &[Symbol]) {
    let nobody = Handles {
        gpu: 0,
        cut: 0,
        mig: 0,
        gi: 0,
        ci: 0,
        set: 0,
        sample: 0,
    };
    let mut buffers = Buffers::new();
    for symbol in symbols.iter().filter(|symbol| symbol.when != "always") {
        assert_eq!(
            library.call(&symbol.name, &[]),
            UNINITIALIZED,
            "{} with NULL",
            symbol.name
        );
        let args = good(symbol, &nobody, &mut buffers);
        assert_eq!(
            library.call(&symbol.name, &values(&args)),
            UNINITIALIZED,
            "{}",
            symbol.name
        );
    }
    assert_eq!(library.call("nvmlShutdown", &[]), 0);
    assert_eq!(
        library.call("nvmlSystemGetNVMLVersion", &[buffers.address(0), 80]),
        0
    );
    assert_eq!(
        library.call("nvmlSystemGetNVMLVersion", &[buffers.address(0), 1]),
        INSUFFICIENT_SIZE
    );
    assert_eq!(
        library.call("nvmlSystemGetNVMLVersion", &[0, 80]),
        INVALID_ARGUMENT
    );
    assert_eq!(
        library.call("nvmlInternalGetExportTable", &[0, 0]),
        INVALID_ARGUMENT
    );
}

fn misuse(library: &Library, symbol: &Symbol, handles: &Handles) {
    let name = &symbol.name;
    let mut buffers = Buffers::new();
    let args = good(symbol, handles, &mut buffers);
    let call = |args: &[Arg]| {
        let code = library.call(name, &values(args));
        assert_ne!(code, UNKNOWN, "{name}{:?}", values(args));
        code
    };
    let code = call(&args);
    if symbol.call == "-" {
        let refused = match symbol
            .shape
            .iter()
            .find(|word| ["unit", "vgpu", "vtype"].contains(&word.as_str()))
        {
            Some(word) if word == "vgpu" => NOT_FOUND,
            Some(_) => INVALID_ARGUMENT,
            None => NOT_SUPPORTED,
        };
        assert_eq!(code, refused, "{name}");
    }
    for (index, arg) in args.iter().enumerate() {
        let mut keep = Buffers::new();
        let mut changed = good(symbol, handles, &mut keep);
        let word = arg.word.as_str();
        let mut refuse = |value: usize, wanted: u32, what: &str| {
            changed[index].value = value;
            assert_eq!(call(&changed), wanted, "{name}: {what} as argument {index}");
        };
        match word {
            "dev" | "card" | "any" | "anycard" | "gi" | "ci" | "set" => {
                let local = 0_u64;
                for wild in [
                    0,
                    1,
                    0xdead_beef,
                    &raw const local as usize,
                    usize::MAX,
                    arg.value ^ 1 << 40,
                ] {
                    refuse(wild, INVALID_ARGUMENT, "a wild handle");
                }
            }
            "str" => refuse(0, INVALID_ARGUMENT, "NULL"),
            "text" if arg.buffer.is_some() => refuse(0, INVALID_ARGUMENT, "NULL"),
            "text" => short_text(library, symbol, handles, index),
            word if word.starts_with('*') || is_versioned(symbol, arg) => {
                refuse(0, INVALID_ARGUMENT, "NULL");
            }
            word if word.starts_with('e') => {
                refuse(
                    0x7fff_ffff,
                    INVALID_ARGUMENT,
                    "a number outside the enumeration",
                );
            }
            "u32" | "u64" | "i32" => {
                changed[index].value = u32::MAX as usize;
                if !name.contains("Wait") {
                    call(&changed);
                }
            }
            _ => {}
        }
        if is_versioned(symbol, arg) {
            for version in [0, 0x7f00_0001, u32::MAX] {
                let mut buffers = Buffers::new();
                let args = good(symbol, handles, &mut buffers);
                buffers.set_word(index, version);
                assert_eq!(
                    call(&args),
                    VERSION_MISMATCH,
                    "{name}: version {version:#x}"
                );
            }
        }
    }
}

/// A text buffer of no or one byte: refused, and not a byte past it is touched.
fn short_text(library: &Library, symbol: &Symbol, handles: &Handles, length: usize) {
    let name = &symbol.name;
    for room in [0, 1] {
        let mut buffers = Buffers::new();
        let mut args = good(symbol, handles, &mut buffers);
        let text = args[length - 1]
            .buffer
            .expect("a text has a buffer before its length");
        buffers.fill(text, 0xAA);
        args[length].value = room;
        let code = library.call(name, &values(&args));
        let fits = matches!(
            code,
            INVALID_ARGUMENT | NOT_SUPPORTED | NOT_FOUND | INSUFFICIENT_SIZE
        );
        assert!(fits, "{name} with room for {room}: {code}");
        assert!(
            buffers.bytes(text).iter().all(|&byte| byte == 0xAA),
            "{name} wrote {room}"
        );
    }
}

/// Whether a function fills a list of as much room as it is told. Of placements it is not told: callers size those by the profile.
fn takes_a_list(symbol: &Symbol) -> bool {
    let is_list = |word: &String| word.starts_with('?') && word != "?Placement";
    symbol.shape.iter().any(is_list) && symbol.shape.iter().any(|word| word == "*u32")
}

/// A list with no room or room for one: no entry goes past it, and what does not fit is counted.
fn short_list(library: &Library, symbol: &Symbol, handles: &Handles) {
    // No entry of a list is longer.
    const LONGEST: usize = 256;
    let name = &symbol.name;
    for room in [0, 1] {
        let mut buffers = Buffers::new();
        let args = good(symbol, handles, &mut buffers);
        let of = |kind: fn(&str) -> bool| {
            let mine = args.iter().filter(move |arg| kind(&arg.word));
            mine.filter_map(|arg| arg.buffer).collect::<Vec<_>>()
        };
        let (counts, lists) = (of(|word| word == "*u32"), of(|word| word.starts_with('?')));
        counts
            .iter()
            .for_each(|&count| buffers.set_word(count, room));
        lists.iter().for_each(|&list| buffers.fill(list, 0xAA));
        let code = library.call(name, &values(&args));
        let known = matches!(
            code,
            0 | INVALID_ARGUMENT | NOT_SUPPORTED | NOT_FOUND | INSUFFICIENT_SIZE
        );
        assert!(known, "{name} with room for {room}: {code}");
        for list in lists {
            let kept = &buffers.bytes(list)[room as usize * LONGEST..];
            assert!(
                kept.iter().all(|&byte| byte == 0xAA),
                "{name} wrote past {room}"
            );
        }
        let needed = counts.iter().map(|&count| buffers.bytes(count));
        let needed = needed.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        assert!(
            code != INSUFFICIENT_SIZE || needed.into_iter().any(|count| count > room),
            "{name} does not say how much room it needs"
        );
    }
}

/// Handles of what is gone: refused as invalid.
fn stale(library: &Library, symbol: &Symbol, handles: &Handles) {
    let mut buffers = Buffers::new();
    let args = good(symbol, handles, &mut buffers);
    for (index, arg) in args.iter().enumerate() {
        let mut args = args.clone();
        args[index].value = match arg.word.as_str() {
            "dev" | "card" | "any" | "anycard" => handles.mig,
            "gi" => handles.gi,
            "ci" => handles.ci,
            _ => continue,
        };
        let code = library.call(&symbol.name, &values(&args));
        assert_eq!(code, INVALID_ARGUMENT, "{}: a stale handle", symbol.name);
    }
}
