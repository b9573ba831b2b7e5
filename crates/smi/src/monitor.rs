//! `dmon` and `pmon`: a line per GPU, or per process, every second or as often as asked.

mod device;
mod process;

use std::time::Duration;

use nvidia_ml::client::Nvml;

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::gpus::Gpu;
use super::stamp::Stamp;
use super::words::Words;

/// What to watch, and which columns.
#[derive(Debug)]
pub(super) struct Monitor {
    processes: bool,
    groups: String,
    /// Columns for the date (`D`) and the time (`T`).
    stamps: String,
    format: Format,
}

/// Fixed columns, or comma-separated values.
#[derive(Debug, Clone, Copy, Default)]
struct Format {
    csv: bool,
    no_header: bool,
    no_units: bool,
}

/// What earlier rounds saw: time throttled so far, by GPU, for shares of the time between two rounds.
#[derive(Debug, Default)]
pub(super) struct Seen {
    throttled: Vec<(u64, u64)>,
}

/// A column: heading, unit.
type Heading = (&'static str, &'static str);

pub(super) fn parse(command: &str, mut words: Words) -> Result<Invocation, Stop> {
    let processes = command == "pmon";
    let mut call = Invocation::new(Command::Help);
    call.every = Some(Duration::from_secs(1));
    let mut monitor = Monitor {
        processes,
        groups: if processes { "u" } else { "puc" }.into(),
        stamps: String::new(),
        format: Format::default(),
    };
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-d" | "--delay" => {
                let seconds = words.number(word)?;
                if !(1..=3600).contains(&seconds) {
                    return Err(Stop::usage(format!(
                        "{seconds} s is not a delay between samples: take 1 to 3600."
                    )));
                }
                call.every = Some(Duration::from_secs(seconds.into()));
            }
            "-c" | "--count" => {
                let count = words.number(word)?;
                call.rounds = (count > 0).then_some(count);
            }
            "-s" | "--select" => {
                let groups = words.value(word)?;
                let known = if processes { "um" } else { "pucvmet" };
                check(&groups, known, "metric")?;
                monitor.groups = groups;
            }
            "-o" | "--options" => {
                let stamps = words.value(word)?;
                check(&stamps, "DT", "option")?;
                monitor.stamps = stamps;
            }
            "--format" => monitor.format = Format::parse(&words.value(word)?)?,
            "-h" | "--help" => return Ok(Invocation::new(Command::Help)),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    call.command = Command::Monitor(monitor);
    Ok(call)
}

fn check(letters: &str, known: &str, what: &str) -> Result<(), Stop> {
    match letters.chars().find(|&letter| !known.contains(letter)) {
        None => Ok(()),
        Some(letter) => Err(Stop::usage(format!(
            "\"{letter}\" is no {what}: take some of \"{known}\"."
        ))),
    }
}

impl Format {
    fn parse(text: &str) -> Result<Format, Stop> {
        let mut format = Format::default();
        for part in text.split(',') {
            match part.trim() {
                "csv" => format.csv = true,
                "noheader" => format.no_header = true,
                "nounit" | "nounits" => format.no_units = true,
                _ => {
                    return Err(Stop::usage(format!(
                        "\"{part}\" is no format: take csv,noheader,nounit."
                    )));
                }
            }
        }
        Ok(format)
    }
}

/// One round.
pub(super) fn print(
    nvml: &Nvml,
    gpus: &[Gpu],
    monitor: &Monitor,
    first: bool,
    seen: &mut Seen,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let now = Stamp::now();
    if monitor.processes {
        return process::print(nvml, gpus, monitor, now, first, out);
    }
    device::print(gpus, monitor, now, first, seen, out)
}

impl Monitor {
    /// Headings of the date and the time, as far as wanted.
    fn stamp_headings(&self) -> Vec<Heading> {
        let mut headings = Vec::new();
        if self.stamps.contains('D') {
            headings.push(("Date", "YYYYMMDD"));
        }
        if self.stamps.contains('T') {
            headings.push(("Time", "HH:MM:SS"));
        }
        headings
    }

    fn stamp_values(&self, now: Stamp) -> Vec<String> {
        let mut values = Vec::new();
        if self.stamps.contains('D') {
            values.push(now.date());
        }
        if self.stamps.contains('T') {
            values.push(now.clock());
        }
        values
    }

    /// The two header lines of comma-separated values.
    fn csv_header(&self, headings: &[Heading]) -> String {
        let names: Vec<&str> = headings.iter().map(|(name, _)| *name).collect();
        let units: Vec<&str> = headings.iter().map(|(_, unit)| *unit).collect();
        let mut header = format!("#{}\n", names.join(", "));
        if !self.format.no_units {
            header += &format!("#{}\n", units.join(", "));
        }
        header
    }
}
