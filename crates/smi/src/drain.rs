//! `drain`: whether new work reaches a GPU.

use std::io::Write;

use super::Stop;
use super::args::{Command, Invocation, ids, shared};
use super::gpus::Gpu;
use super::words::Words;

/// What to do about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    Query,
    Set(bool),
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut action = None;
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-p" | "--pciid" => call.ids = ids(&words.value(word)?),
            "-m" | "--modify" => action = Some(Action::Set(words.switch(word)?)),
            "-q" | "--query" => action = Some(Action::Query),
            "-h" | "--help" => return Ok(call),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    let action = action.filter(|_| !call.ids.is_empty()).ok_or_else(|| {
        Stop::usage("Say which and what: drain -p BUS_ID -q, or drain -p BUS_ID -m 0|1.")
    })?;
    call.command = Command::Drain(action);
    Ok(call)
}

pub(super) fn run(gpus: &[Gpu], action: Action, out: &mut Vec<u8>) -> Result<(), Stop> {
    let word = |draining: bool| if draining { "draining" } else { "not draining" };
    for gpu in gpus {
        let bus_id = &gpu.label.bus_id;
        match action {
            Action::Query => {
                let state = word(gpu.device.draining()?);
                writeln!(out, "The current drain state of GPU {bus_id} is: {state}.")?;
            }
            Action::Set(on) => {
                let (device, state) = (gpu.device, word(on));
                device.drain(on).map_err(|code| {
                    let message = format!("Failed to set drain state for GPU {bus_id}: {code}");
                    Stop::refused(code, message)
                })?;
                writeln!(
                    out,
                    "Successfully set GPU {bus_id} drain state to: {state}."
                )?;
            }
        }
    }
    Ok(())
}
