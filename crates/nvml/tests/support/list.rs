//! The list of NVML's functions: `symbols.csv`, read for the tests that keep the rest in step with it.
//!
//! A row says what the function is called, when it works (`init`: after init; `always`; `raw`: checks for itself), the shape of
//! its arguments, which function answers, what the answer is worth, and which clients call it. Shapes:
//!
//! | Word | C argument |
//! |---|---|
//! | `dev`, `card`, `any`, `anycard` | device handle: a GPU, also a lost one, also a MIG device, both |
//! | `gi`, `ci`, `set`, `unit` | other handles |
//! | `vgpu`, `vtype` | vGPU instance, vGPU type |
//! | `u32`, `i32`, `u64`, `e4` | numbers; an enumeration of four values |
//! | `str`, `text` | text in; a buffer and its length |
//! | `*T`, `?T` | pointer that must not, that may be NULL |
//! | `v:T`, `v=W` | struct that begins with the version word of T, with the word W |
#![allow(dead_code, reason = "each test uses a part")]

use std::fmt::Write;
use std::path::Path;

#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) when: String,
    pub(crate) shape: Vec<String>,
    pub(crate) call: String,
    pub(crate) status: String,
    /// Clients known to call it.
    pub(crate) callers: Vec<String>,
    pub(crate) note: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn symbols() -> Vec<Symbol> {
    let text = std::fs::read_to_string(root().join("symbols.csv")).expect("the list is there");
    let rows = text.lines().skip(1).map(|line| {
        let mut cells = line
            .splitn(7, ',')
            .map(|cell| cell.trim_matches('"').to_owned());
        let mut cell = || cells.next().expect("seven cells");
        Symbol {
            name: cell(),
            when: cell(),
            shape: cell().split_whitespace().map(str::to_owned).collect(),
            call: cell(),
            status: cell(),
            callers: cell().split_whitespace().map(str::to_owned).collect(),
            note: cell(),
        }
    });
    rows.collect()
}

impl Symbol {
    /// Whether an argument leads to the session by itself.
    fn has_device(&self) -> bool {
        let devices = ["dev", "card", "any", "anycard", "gi", "ci"];
        self.shape
            .iter()
            .any(|word| devices.contains(&word.as_str()))
    }
}

/// Arguments of the C function: their Rust types.
fn types(word: &str) -> Vec<String> {
    let pointer = |of: &str| {
        let of = if of == "GuidTable" {
            "*const c_void"
        } else {
            of
        };
        vec![format!("*mut {}", of.replace(';', "; "))]
    };
    match word {
        "dev" | "card" | "any" | "anycard" | "gi" | "ci" | "set" | "unit" => vec!["Handle".into()],
        "vgpu" | "vtype" => vec!["u32".into()],
        "str" => vec!["*const c_char".into()],
        "text" => vec!["*mut c_char".into(), "u32".into()],
        word if word.starts_with("v=") => pointer("u32"),
        word if word.starts_with("v:") => pointer(&word[2..]),
        word if word.starts_with(['*', '?']) => pointer(&word[1..]),
        word if word.starts_with('e') => vec!["u32".into()],
        number => vec![number.to_owned()],
    }
}

/// How an argument is checked and given its type.
fn conversion(word: &str, names: &[String]) -> String {
    let name = &names[0];
    match word {
        "dev" => format!("s.gpu({name})?"),
        "card" => format!("s.card({name})?"),
        "any" => format!("s.target({name})?"),
        "anycard" => format!("s.target_card({name})?"),
        "gi" => format!("s.gpu_instance({name})?"),
        "ci" => format!("s.compute_instance({name})?"),
        "unit" => format!("units::unit({name})?"),
        "vgpu" => format!("vgpu({name})?"),
        "vtype" => format!("vgpu_type({name})?"),
        "str" => format!("text_in({name})?"),
        "text" => format!("Text::new({name}, {})?", names[1]),
        word if word.starts_with("v=") => format!("version({name}, {})?", &word[2..]),
        word if word.starts_with("v:") => format!("versioned({name})?"),
        word if word.starts_with('*') => format!("out({name})?"),
        word if word.starts_with('e') => format!("limit({name}, {})?", &word[1..]),
        _ => name.clone(),
    }
}

fn export(symbol: &Symbol) -> String {
    let mut names = (b'a'..).map(|letter| char::from(letter).to_string());
    let mut params = Vec::new();
    let mut converted = Vec::new();
    for word in &symbol.shape {
        let mine: Vec<String> = types(word)
            .into_iter()
            .map(|kind| {
                let name = names.next().expect("no function has so many arguments");
                params.push(format!("{name}: {kind}"));
                name
            })
            .collect();
        let raw = symbol.when == "raw";
        converted.push((
            word,
            if raw {
                mine.join(", ")
            } else {
                conversion(word, &mine)
            },
        ));
    }
    let args: Vec<&str> = converted.iter().map(|(_, code)| code.as_str()).collect();
    let args = args.join(", ");
    let (kind, body) = match (symbol.when.as_str(), symbol.call.as_str()) {
        ("always", "system::error_string") => {
            ("*const c_char", format!("system::error_string({args})"))
        }
        ("always", call) if args.is_empty() => ("u32", format!("guard({call})")),
        ("always" | "raw", call) => ("u32", format!("guard(|| {call}({args}))")),
        (_, "-") => {
            // Pointers before ids, so that NULL is refused as such.
            let is_pointer = |word: &str| {
                word == "text" || word.starts_with(['*', 'v']) && word != "vgpu" && word != "vtype"
            };
            converted.sort_by_key(|(word, _)| !is_pointer(word));
            let checks = converted.iter().filter(|(_, code)| code.ends_with('?'));
            let checks: String = checks.map(|(_, code)| format!("{code}; ")).collect();
            let s = if checks.contains("s.") { "s" } else { "_" };
            ("u32", format!("enter(|{s}| {{ {checks}unsupported() }})"))
        }
        (_, call) if symbol.has_device() && !call.ends_with("register_operational") => {
            ("u32", format!("enter(|s| {call}({args}))"))
        }
        (_, call) => {
            let comma = if args.is_empty() { "" } else { ", " };
            ("u32", format!("enter(|s| {call}(s{comma}{args}))"))
        }
    };
    format!(
        "#[unsafe(no_mangle)] pub extern \"C\" fn {}({}) -> {kind} {{ {body} }}",
        symbol.name,
        params.join(", ")
    )
}

/// The source of `exports.rs`.
pub(crate) fn exports(symbols: &[Symbol]) -> String {
    let mut text = String::from(
        "//! NVML's functions, generated from `symbols.csv`: `MIRAGE_BLESS=1 cargo test -p mirage-nvml --test symbols`.\n\
         #![allow(missing_docs, non_snake_case, unused_variables, reason = \"C's names, documented where they are answered\")]\n\n\
         use std::ffi::{c_char, c_ulong, c_void};\n\n\
         use crate::abi::*;\n\
         use crate::arg::*;\n\
         use crate::code::{Answer, Fault};\n\
         use crate::guard::{enter, guard};\n\
         use crate::handle::Handle;\n\
         use crate::{accounting, clocks, confidential, ecc, events, fabric, fields, gpm, identity, memory, mig, nvlink, pcie, power, processes, profiles, settings, system, table, thermal, topology, units, utilization};\n\n\
         /// What a function says that is exported but not simulated.\n\
         fn unsupported() -> Answer {\n    Err(Fault::NotSupported)\n}\n\n",
    );
    for symbol in symbols {
        writeln!(text, "{}", export(symbol)).expect("writing to a string");
    }
    text
}

/// The coverage table of the reference.
pub(crate) fn coverage(symbols: &[Symbol]) -> String {
    let count = |status: &str| {
        symbols
            .iter()
            .filter(|symbol| symbol.status == status)
            .count()
    };
    let mut text = format!(
        "# NVML functions\n\n\
         Generated from `crates/nvml/symbols.csv` by `MIRAGE_BLESS=1 cargo test -p mirage-nvml --test symbols`.\n\n\
         `libnvidia-ml.so.1` exports {} functions and nothing else.\n\n\
         | Answer | Functions | What it means |\n|---|---|---|\n\
         | state | {} | comes from the simulated state, or from what the board is |\n\
         | set | {} | changes the state through the engine; without one: `NO_PERMISSION` |\n\
         | fixed | {} | decided by what the machine is: not virtualised, no units, no confidential computing |\n\
         | unsupported | {} | checks its arguments, then `NOT_SUPPORTED` |\n\n\
         | Function | Answer | Topic | Called by | Note |\n|---|---|---|---|---|\n",
        symbols.len(),
        count("state"),
        count("set"),
        count("fixed"),
        count("unsupported"),
    );
    for symbol in symbols {
        let topic = symbol
            .call
            .split("::")
            .next()
            .unwrap_or_default()
            .trim_matches('-');
        writeln!(
            text,
            "| `{}` | {} | {topic} | {} | {} |",
            symbol.name,
            symbol.status,
            symbol.callers.join(", "),
            symbol.note
        )
        .expect("writing to a string");
    }
    text
}
