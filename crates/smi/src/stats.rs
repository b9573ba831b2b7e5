//! `stats`: a line per sample, for whoever plots them.

use std::io::Write;
use std::time::Duration;

use nvidia_ml::client::{Device, Result as Answer, Sample};

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::gpus::Gpu;
use super::words::Words;

/// What can be watched: its name, and NVML's number of its samples or of the policy that counts it.
const METRICS: [(&str, Source); 12] = [
    ("procClk", Source::Samples(5, 1)),
    ("memClk", Source::Samples(6, 1)),
    ("pwrDraw", Source::Samples(0, 1000)),
    ("temp", Source::Temperature),
    ("gpuUtil", Source::Samples(1, 1)),
    ("memUtil", Source::Samples(2, 1)),
    ("encUtil", Source::Samples(3, 1)),
    ("decUtil", Source::Samples(4, 1)),
    ("jpgUtil", Source::Samples(8, 1)),
    ("ofaUtil", Source::Samples(9, 1)),
    ("violPwr", Source::Violation(0)),
    ("violThm", Source::Violation(1)),
];

/// Where a metric comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Samples, and how many of their units make one of ours.
    Samples(u32, u64),
    Temperature,
    Violation(u32),
}

/// Metrics that were asked for.
#[derive(Debug)]
pub(super) struct Stats(Vec<(&'static str, Source)>);

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    call.every = Some(Duration::from_secs(1));
    let mut metrics = METRICS.to_vec();
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-d" | "--display" => metrics = choose(&words.value(word)?)?,
            "-c" | "--count" => {
                let count = words.number(word)?;
                call.rounds = (count > 0).then_some(count);
            }
            "-h" | "--help" => return Ok(Invocation::new(Command::Help)),
            _ => shared(&mut call, word, &mut words)?,
        }
    }
    call.command = Command::Stats(Stats(metrics));
    Ok(call)
}

fn choose(list: &str) -> Result<Vec<(&'static str, Source)>, Stop> {
    let find = |name: &str| {
        let known = METRICS.iter().find(|(known, _)| *known == name.trim());
        known.copied().ok_or_else(|| {
            let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
            Stop::usage(format!(
                "\"{name}\" is no metric: take some of {}.",
                names.join(",")
            ))
        })
    };
    list.split(',').map(find).collect()
}

/// One round: the newest sample of each metric. What a GPU does not have is left out.
pub(super) fn print(gpus: &[Gpu], stats: &Stats, out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        for (name, source) in &stats.0 {
            for sample in samples(gpu.device, *source).unwrap_or_default() {
                let (time, value) = (sample.time_us, sample.value);
                writeln!(out, "{}, {name:<8}, {time}, {value}", gpu.index)?;
            }
        }
    }
    Ok(())
}

fn samples(device: Device, source: Source) -> Answer<Vec<Sample>> {
    match source {
        Source::Samples(kind, unit) => {
            let mut samples = device.samples(kind)?;
            samples.iter_mut().for_each(|sample| sample.value /= unit);
            Ok(samples)
        }
        Source::Temperature => {
            // Temperatures have no samples: the one there is now, at the time of the others.
            let time_us = device.samples(0)?.last().map_or(0, |sample| sample.time_us);
            let value = device.temperature(0)?.into();
            Ok(vec![Sample { time_us, value }])
        }
        Source::Violation(policy) => {
            let time = device.violation(policy)?;
            Ok(vec![Sample {
                time_us: time.reference_us,
                value: time.violation_ns,
            }])
        }
    }
}
