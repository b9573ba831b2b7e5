//! `vgpu`: slices for virtual machines, which no simulated node gives out: what the real program says on a machine without them.

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::words::Words;

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Vgpu);
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-h" | "--help" => return Ok(Invocation::new(Command::Help)),
            // All of them only choose what to tell of slices, and there are none.
            "-q" | "--query" | "-s" | "--supported" | "-c" | "--creatable" | "-u"
            | "--utilization" | "-p" | "--processutil" | "-es" | "-fs" | "-v" | "--verbose"
            | "-m" | "-caps" => {}
            "-l" | "--loop" => _ = words.optional(word),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    Ok(call)
}

pub(super) fn run() -> Result<(), Stop> {
    const NOT_SUPPORTED: u32 = 3;
    Err(Stop {
        code: NOT_SUPPORTED,
        message: "No supported devices in vGPU mode".into(),
    })
}
