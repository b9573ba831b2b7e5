//! Turns the tables (`symbols.csv`, `data/*.csv`) into Rust, and gives the shared object the name programs look for.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    let symbols = rows("symbols.csv");
    let mut text = String::new();
    for row in &symbols {
        let [symbol, _, _, _, answer] = row.each_ref().map(String::as_str);
        if answer == "unsupported" {
            // Whatever a caller passes, the platform's C convention lets a function ignore it.
            let _ = writeln!(
                text,
                "#[unsafe(no_mangle)] extern \"C\" fn {symbol}() -> u32 {{ crate::code::NOT_SUPPORTED }}"
            );
        }
    }
    text.push_str("pub(crate) static ENTRIES: &[Entry] = &[\n");
    for row in &symbols {
        let [symbol, asked, since, stream, _] = row.each_ref().map(String::as_str);
        let _ = writeln!(
            text,
            "Entry {{ name: c\"{symbol}\", asked: c\"{asked}\", since: {since}, per_thread: {}, address: Address({symbol} as *const ()) }},",
            stream == "thread"
        );
    }
    text.push_str("];\n");
    put("symbols.rs", &text);

    let mut text = String::from("static RESULTS: &[(u32, &CStr, &CStr)] = &[\n");
    for [code, name, meaning] in rows("data/results.csv") {
        let _ = writeln!(text, "({code}, c\"{name}\", c\"{meaning}\"),");
    }
    text.push_str("];\n");
    put("results.rs", &text);

    let mut text = String::from("static ATTRIBUTES: &[(i32, Value)] = &[\n");
    for [id, _, value] in rows("data/attributes.csv") {
        let _ = writeln!(text, "({id}, {}),", attribute(&value));
    }
    text.push_str("];\nstatic CAPABILITIES: &[((u32, u32), Capability)] = &[\n");
    for row in rows::<7>("data/capabilities.csv") {
        let [capability, threads, shared, optin, registers, blocks, ratio] = row;
        let (major, minor) = capability.split_once('.').expect("a capability is x.y");
        let _ = writeln!(
            text,
            "(({major}, {minor}), Capability {{ threads: {threads}, shared: {shared}, shared_optin: {optin}, \
             registers: {registers}, blocks: {blocks}, double_ratio: {ratio} }}),"
        );
    }
    text.push_str("];\n");
    put("attributes.rs", &text);
}

/// What a value of the attributes table means.
fn attribute(value: &str) -> String {
    if let Some(since) = value.strip_prefix("since.") {
        let (capability, times) = since.split_once('*').unwrap_or((since, "1"));
        let (major, minor) = capability.split_once('.').expect("a capability is x.y");
        return format!("Value::Since(({major}, {minor}), {times})");
    }
    if let Some((of, field)) = value.split_once('.') {
        return format!("Value::Of(|d| d.{of}().{field})");
    }
    format!("Value::Fixed({value})")
}

/// The rows of a table, without its head.
fn rows<const N: usize>(path: &str) -> Vec<[String; N]> {
    println!("cargo::rerun-if-changed={path}");
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("reading {path}: {e}"));
    text.lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<String> = line.splitn(N, ',').map(str::to_owned).collect();
            <[String; N]>::try_from(cells).unwrap_or_else(|_| panic!("{path}: short row: {line}"))
        })
        .collect()
}

fn put(name: &str, text: &str) {
    let dir = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&dir).join(name), text).expect("writing generated code");
}
