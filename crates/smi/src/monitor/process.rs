//! `pmon`: one line per process, or one of dashes for a GPU without any.

use std::io::Write;

use nvidia_ml::client::{Nvml, ProcessUtilization, Running};

use super::{Heading, Monitor};
use crate::Stop;
use crate::gpus::Gpu;
use crate::stamp::Stamp;
use crate::summary::{kind, process_name};

const MIB: u64 = 1 << 20;
/// Longest name shown.
const NAME: usize = 15;

fn headings(group: char) -> &'static [Heading] {
    match group {
        'u' => &[
            ("sm", "%"),
            ("mem", "%"),
            ("enc", "%"),
            ("dec", "%"),
            ("jpg", "%"),
            ("ofa", "%"),
        ],
        'm' => &[("fb", "MB"), ("ccpm", "MB")],
        _ => &[],
    }
}

/// A share of the last second; none is a dash.
fn share(percent: u32) -> String {
    if percent == 0 {
        "-".into()
    } else {
        percent.to_string()
    }
}

fn values(group: char, process: &Running, used: Option<&ProcessUtilization>) -> Vec<String> {
    match group {
        'u' => {
            let mut shares = match used {
                Some(used) => vec![
                    used.sm.to_string(),
                    used.memory.to_string(),
                    share(used.encoder),
                    share(used.decoder),
                ],
                None => vec!["-".into(); 4],
            };
            // NVML tells these engines for the whole GPU only.
            shares.extend(["-".into(), "-".into()]);
            shares
        }
        'm' => vec![(process.memory / MIB).to_string(), "0".into()],
        _ => Vec::new(),
    }
}

pub(super) fn print(
    nvml: &Nvml,
    gpus: &[Gpu],
    monitor: &Monitor,
    now: Stamp,
    first: bool,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut columns = Vec::new();
    for group in monitor.groups.chars() {
        columns.extend_from_slice(headings(group));
    }
    if first && !monitor.format.no_header {
        header(monitor, &columns, out)?;
    }
    for gpu in gpus {
        let running = gpu.device.processes().unwrap_or_default();
        let used = gpu.device.process_utilization().unwrap_or_default();
        for process in &running {
            let used = used.iter().find(|used| used.pid == process.pid);
            let mut row = Vec::new();
            for group in monitor.groups.chars() {
                row.extend(values(group, process, used));
            }
            let name = process_name(nvml, process.pid);
            let base = name.rsplit('/').next().unwrap_or_default();
            let base: String = base.chars().take(NAME).collect();
            let pid = process.pid.to_string();
            line(monitor, now, gpu, [&pid, kind(process)], &row, &base, out)?;
        }
        if running.is_empty() {
            let row = vec!["-".to_owned(); columns.len()];
            line(monitor, now, gpu, ["-", "-"], &row, "-", out)?;
        }
    }
    Ok(())
}

fn line(
    monitor: &Monitor,
    now: Stamp,
    gpu: &Gpu,
    [pid, kind]: [&str; 2],
    row: &[String],
    name: &str,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let stamps = monitor.stamp_values(now);
    if monitor.format.csv {
        let index = gpu.index.to_string();
        let head = vec![index, pid.into(), kind.into()];
        let all = [stamps, head, row.to_vec(), vec![name.into()]].concat();
        writeln!(out, "{}", all.join(", "))?;
        return Ok(());
    }
    for stamp in stamps {
        write!(out, " {stamp:<8}   ")?;
    }
    write!(out, "{:>5}{pid:>11}{kind:>6}", gpu.index)?;
    for value in row {
        write!(out, "{value:>7}")?;
    }
    writeln!(out, "    {name:<NAME$}")?;
    Ok(())
}

fn header(monitor: &Monitor, columns: &[Heading], out: &mut Vec<u8>) -> Result<(), Stop> {
    let stamps = monitor.stamp_headings();
    let head = [("gpu", "Idx"), ("pid", "#"), ("type", "C/G")];
    if monitor.format.csv {
        let name = vec![("command", "name")];
        let all = [stamps, head.to_vec(), columns.to_vec(), name].concat();
        out.extend_from_slice(monitor.csv_header(&all).as_bytes());
        return Ok(());
    }
    let pick: [fn(&Heading) -> &'static str; 2] = [|heading| heading.0, |heading| heading.1];
    for (at, pick) in pick.iter().enumerate() {
        if at == 1 && monitor.format.no_units {
            break;
        }
        write!(out, "#")?;
        for stamp in &stamps {
            write!(out, "{:<8}    ", pick(stamp))?;
        }
        let [gpu, pid, kind] = &head;
        write!(out, "{:>4}{:>12}{:>7}", pick(gpu), pick(pid), pick(kind))?;
        for column in columns {
            write!(out, "{:>7}", pick(column))?;
        }
        writeln!(out, "    {} ", pick(&("command", "name")))?;
    }
    Ok(())
}
