//! `dmon`: one line per GPU.

use std::io::Write;

use nvidia_ml::client::{Device, Result as Answer};

use super::{Heading, Monitor, Seen};
use crate::Stop;
use crate::gpus::Gpu;
use crate::stamp::Stamp;

const MIB: u64 = 1 << 20;
const MEMORY_TEMPERATURE: u32 = 82;
const POWER_POLICY: u32 = 0;

/// Columns of a group.
fn headings(group: char) -> &'static [Heading] {
    match group {
        'p' => &[("pwr", "W"), ("gtemp", "C"), ("mtemp", "C")],
        'u' => &[
            ("sm", "%"),
            ("mem", "%"),
            ("enc", "%"),
            ("dec", "%"),
            ("jpg", "%"),
            ("ofa", "%"),
        ],
        'c' => &[("mclk", "MHz"), ("pclk", "MHz")],
        'v' => &[("pviol", "%"), ("tviol", "bool")],
        'm' => &[("fb", "MB"), ("bar1", "MB"), ("ccpm", "MB")],
        'e' => &[("sbecc", "errs"), ("dbecc", "errs"), ("pci", "errs")],
        't' => &[("rxpci", "MB/s"), ("txpci", "MB/s")],
        _ => &[],
    }
}

fn shown<T: ToString>(answer: Answer<T>) -> String {
    answer.map_or_else(|_| "-".into(), |value| value.to_string())
}

/// Values of a group, in the order of its columns.
fn values(group: char, device: Device, throttled: (String, String)) -> Vec<String> {
    let percent = |answer: Answer<(u32, u32)>| shown(answer.map(|(percent, _)| percent));
    match group {
        'p' => vec![
            shown(device.power_usage().map(|milliwatts| milliwatts / 1000)),
            shown(device.temperature(0)),
            shown(device.field(MEMORY_TEMPERATURE, 0)),
        ],
        'u' => vec![
            shown(device.utilization().map(|busy| busy.gpu)),
            shown(device.utilization().map(|busy| busy.memory)),
            percent(device.encoder_utilization()),
            percent(device.decoder_utilization()),
            percent(device.jpeg_utilization()),
            percent(device.ofa_utilization()),
        ],
        'c' => vec![shown(device.clock(2)), shown(device.clock(0))],
        'v' => vec![throttled.0, throttled.1],
        'm' => vec![
            shown(device.memory().map(|memory| memory.used / MIB)),
            shown(device.bar1().map(|bar1| bar1.used / MIB)),
            shown(device.protected_memory().map(|memory| memory.used / MIB)),
        ],
        'e' => vec![
            shown(device.total_ecc_errors(0, 0)),
            shown(device.total_ecc_errors(1, 0)),
            shown(device.pcie_replays()),
        ],
        't' => vec![
            shown(device.pcie_throughput(1).map(|kb| kb / 1000)),
            shown(device.pcie_throughput(0).map(|kb| kb / 1000)),
        ],
        _ => Vec::new(),
    }
}

/// The share of the time since the last look that power limited the clock, and whether heat did at all.
fn throttled(device: Device, before: Option<(u64, u64)>) -> ((String, String), (u64, u64)) {
    let Ok(power) = device.violation(POWER_POLICY) else {
        return (("-".into(), "-".into()), (0, 0));
    };
    let now = (power.violation_ns, power.reference_us);
    let (was_ns, was_us) = before.unwrap_or(now);
    let passed_ns = now.1.saturating_sub(was_us).saturating_mul(1000);
    let limited = now.0.saturating_sub(was_ns);
    let percent = (limited.saturating_mul(100)).checked_div(passed_ns);
    // Software and hardware thermal slowdown.
    let hot = device
        .clock_reasons()
        .is_ok_and(|reasons| reasons & 0x60 != 0);
    let percent = percent.unwrap_or(0).min(100);
    ((percent.to_string(), u32::from(hot).to_string()), now)
}

pub(super) fn print(
    gpus: &[Gpu],
    monitor: &Monitor,
    now: Stamp,
    first: bool,
    seen: &mut Seen,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut columns = Vec::new();
    for group in monitor.groups.chars() {
        columns.extend_from_slice(headings(group));
    }
    if first && !monitor.format.no_header {
        header(monitor, &columns, out)?;
    }
    let before = std::mem::take(&mut seen.throttled);
    for (at, gpu) in gpus.iter().enumerate() {
        let (share, time) = throttled(gpu.device, before.get(at).copied());
        seen.throttled.push(time);
        let mut row = Vec::new();
        for group in monitor.groups.chars() {
            row.extend(values(group, gpu.device, share.clone()));
        }
        let stamps = monitor.stamp_values(now);
        if monitor.format.csv {
            let index = gpu.index.to_string();
            writeln!(out, "{}", [stamps, vec![index], row].concat().join(", "))?;
            continue;
        }
        for stamp in stamps {
            write!(out, " {stamp:<8}   ")?;
        }
        write!(out, "{:>5}", gpu.index)?;
        for value in row {
            write!(out, "{value:>7}")?;
        }
        writeln!(out, " ")?;
    }
    Ok(())
}

fn header(monitor: &Monitor, columns: &[Heading], out: &mut Vec<u8>) -> Result<(), Stop> {
    let stamps = monitor.stamp_headings();
    if monitor.format.csv {
        let all = [stamps, vec![("gpu", "Idx")], columns.to_vec()].concat();
        out.extend_from_slice(monitor.csv_header(&all).as_bytes());
        return Ok(());
    }
    let pick: [fn(&Heading) -> &'static str; 2] = [|heading| heading.0, |heading| heading.1];
    for (line, pick) in pick.iter().enumerate() {
        if line == 1 && monitor.format.no_units {
            break;
        }
        write!(out, "#")?;
        for stamp in &stamps {
            write!(out, "{:<8}    ", pick(stamp))?;
        }
        write!(out, "{:>4}", pick(&("gpu", "Idx")))?;
        for column in columns {
            write!(out, "{:>7}", pick(column))?;
        }
        writeln!(out, " ")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_columns() {
        for group in "pucvmet".chars() {
            assert!(!headings(group).is_empty(), "{group}");
        }
    }
}
