//! `nvlink`: the links of each GPU, their speed, and their errors.

use std::io::Write;

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::gpus::Gpu;
use super::words::Words;

/// Numbers of NVML's fields.
const SPEED_MBS: u32 = 164;
const STATE: u32 = 165;
const ERRORS: [(&str, u32); 3] = [
    ("Replay Errors", 161),
    ("Recovery Errors", 162),
    ("CRC Errors", 163),
];

/// What to show of each link.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Status,
    Errors,
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut what = None;
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-s" | "--status" => what = Some(What::Status),
            "-e" | "--errorcounters" => what = Some(What::Errors),
            "-h" | "--help" => return Ok(call),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    let what = what.ok_or_else(|| {
        Stop::usage("Say what to show: nvlink -s for the links, nvlink -e for their errors.")
    })?;
    call.command = Command::Nvlink(what);
    Ok(call)
}

pub(super) fn print(gpus: &[Gpu], what: What, out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        let (index, uuid) = (gpu.index, &gpu.label.uuid);
        // Under MIG a GPU has links that nobody may use.
        let links = match gpu.device.mig_mode() {
            Ok((1, _)) => 0,
            _ => gpu.device.links()?,
        };
        if links == 0 {
            continue;
        }
        writeln!(out, "GPU {index}: {} (UUID: {uuid})", gpu.device.name()?)?;
        for link in 0..links {
            match what {
                What::Status => writeln!(out, "\t Link {link}: {}", speed(gpu, link)?)?,
                What::Errors => {
                    for (name, field) in ERRORS {
                        let count = gpu.device.field(field, link)?;
                        writeln!(out, "\t Link {link}: {name}: {count}")?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// `25 GB/s`, `26.562 GB/s`, or that the link is down.
fn speed(gpu: &Gpu, link: u32) -> Result<String, Stop> {
    if gpu.device.field(STATE, link)? == 0 {
        return Ok("<inactive>".into());
    }
    Ok(gigabytes(gpu.device.field(SPEED_MBS, link)?))
}

fn gigabytes(megabytes: i64) -> String {
    let text = format!("{}.{:03}", megabytes / 1000, megabytes % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} GB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_lose_their_zeros() {
        assert_eq!(gigabytes(25_000), "25 GB/s");
        assert_eq!(gigabytes(26_562), "26.562 GB/s");
        assert_eq!(gigabytes(100_000), "100 GB/s");
        assert_eq!(gigabytes(2_500), "2.5 GB/s");
    }
}
