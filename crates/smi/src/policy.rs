//! `compute-policy`: how long a process keeps the GPU before the next one's turn. A simulated GPU has no turns to
//! give, so a policy that is valid is taken and changes nothing, which is also what a reader of it would find.

use std::io::Write;

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::gpus::Gpu;
use super::words::Words;

const TIMESLICES: [&str; 4] = ["DEFAULT", "SHORT", "MEDIUM", "LONG"];

/// What to do about the policy.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    List,
    Timeslice(&'static str),
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut action = None;
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-l" | "--list" => action = Some(Action::List),
            "-s" | "--set-timeslice" => {
                let value = words.value(word)?.to_ascii_uppercase();
                let by_number = value.parse().ok().and_then(|at: usize| TIMESLICES.get(at));
                let by_name = TIMESLICES.iter().find(|name| **name == value);
                let slice = by_number.or(by_name).ok_or_else(|| {
                    Stop::usage(format!(
                        "\"{value}\" is no timeslice: take 0 (DEFAULT), 1 (SHORT), 2 (MEDIUM) or 3 (LONG)."
                    ))
                })?;
                action = Some(Action::Timeslice(slice));
            }
            "-h" | "--help" => return Ok(call),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    let action = action.ok_or_else(|| {
        Stop::usage("Say what to do: compute-policy --list, or --set-timeslice 0-3.")
    })?;
    call.command = Command::Policy(action);
    Ok(call)
}

pub(super) fn run(gpus: &[Gpu], action: Action, out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        let bus_id = &gpu.label.bus_id;
        match action {
            Action::List => writeln!(out, "GPU {bus_id}: Timeslice: {}", TIMESLICES[0])?,
            Action::Timeslice(slice) => {
                writeln!(
                    out,
                    "Successfully set Timeslice to {slice} for GPU {bus_id}"
                )?;
            }
        }
    }
    Ok(())
}
