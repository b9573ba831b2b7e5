//! `topo`: how the GPUs are connected to each other, to processors and to memory.

use std::io::Write;

use nvidia_ml::client::{Code, Device};

use super::Stop;
use super::args::{Command, Invocation, shared};
use super::gpus::Gpu;
use super::words::{Words, unknown};

/// Connections by NVML's level; from the sixth on they are NVLinks, counted.
const LEVELS: [&str; 5] = ["PIX", "PXB", "PHB", "NODE", "SYS"];

/// Ways of reaching another GPU's memory, by letter and NVML's number.
const PEER_WAYS: [(&str, u32); 5] = [("r", 0), ("w", 1), ("n", 2), ("a", 3), ("p", 4)];

const LEGEND: &str = "
Legend:

  X    = the GPU itself
  SYS  = across the link between NUMA nodes
  NODE = across PCIe host bridges of one NUMA node
  PHB  = across one PCIe host bridge, usually the processor's
  PXB  = across several PCIe switches, but no host bridge
  PIX  = across at most one PCIe switch
  NV#  = over # bonded NVLinks
";

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(super) enum View {
    Matrix,
    /// Reachability, in one of the ways.
    Peers(u32),
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut view = None;
    while let Some(word) = words.next() {
        match word.name.as_str() {
            "-m" | "--matrix" => view = Some(View::Matrix),
            "-p2p" | "--p2pstatus" => {
                let way = words.value(word)?;
                let known = PEER_WAYS.iter().find(|(letter, _)| *letter == way);
                let (_, number) = known.ok_or_else(|| {
                    Stop::usage(format!("\"{way}\" is no capability: take r, w, n, a or p."))
                })?;
                view = Some(View::Peers(*number));
            }
            "-h" | "--help" => return Ok(call),
            "-i" | "--id" => shared(&mut call, word, &mut words)?,
            _ => return Err(unknown(&word)),
        }
    }
    let view = view.ok_or_else(|| Stop::usage("Say what to show: topo -m, or topo -p2p r."))?;
    call.command = Command::Topology(view);
    Ok(call)
}

pub(super) fn print(gpus: &[Gpu], view: View, out: &mut Vec<u8>) -> Result<(), Stop> {
    match view {
        View::Matrix => matrix(gpus, out),
        View::Peers(way) => peers(gpus, way, out),
    }
}

fn matrix(gpus: &[Gpu], out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        write!(out, "\tGPU{}", gpu.index)?;
    }
    writeln!(out, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID")?;
    for one in gpus {
        write!(out, "GPU{}", one.index)?;
        for other in gpus {
            write!(out, "\t{}", between(one, other)?)?;
        }
        let cpus = one.device.cpu_affinity();
        let nodes = one.device.memory_affinity();
        let own = match one.device.numa_node() {
            Ok(node) => node.to_string(),
            Err(_) => "N/A".into(),
        };
        let (cpus, nodes) = (set(cpus), set(nodes));
        writeln!(out, "\t{cpus}\t{nodes}\t\t{own}")?;
    }
    out.extend_from_slice(LEGEND.as_bytes());
    Ok(())
}

fn between(one: &Gpu, other: &Gpu) -> Result<String, Stop> {
    if one.index == other.index {
        return Ok(" X ".into());
    }
    let level = one.device.distance(other.device)? as usize;
    Ok(match LEVELS.get(level) {
        Some(name) => (*name).into(),
        None => format!("NV{}", level + 1 - LEVELS.len()),
    })
}

/// `0-3,8-11` for a set of bits.
fn set(words: Result<Vec<u64>, Code>) -> String {
    let Ok(words) = words else {
        return "N/A".into();
    };
    let has = |at: usize| {
        words
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 != 0)
    };
    let mut spans = Vec::new();
    let mut at = 0;
    while at < words.len() * 64 {
        if !has(at) {
            at += 1;
            continue;
        }
        let first = at;
        while has(at + 1) {
            at += 1;
        }
        spans.push(if first == at {
            first.to_string()
        } else {
            format!("{first}-{at}")
        });
        at += 1;
    }
    if spans.is_empty() {
        "N/A".into()
    } else {
        spans.join(",")
    }
}

fn peers(gpus: &[Gpu], way: u32, out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        write!(out, "\tGPU{}", gpu.index)?;
    }
    writeln!(out)?;
    for one in gpus {
        write!(out, " GPU{}", one.index)?;
        for other in gpus {
            let reach = |other: Device| one.device.peer_status(other, way);
            let status = if one.index == other.index {
                "X"
            } else {
                match reach(other.device) {
                    Ok(0) => "OK",
                    Ok(1) => "CNS",
                    Ok(2) => "GNS",
                    Ok(3) => "TNS",
                    Ok(4) => "DR",
                    Ok(5) => "NS",
                    _ => "U",
                }
            };
            write!(out, "\t{status}")?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "\nLegend:\n\n  X   = the GPU itself\n  OK  = works\n  CNS = not with this chipset\n  \
         GNS = not with this GPU\n  TNS = not in this topology\n  DR  = disabled by a setting\n  \
         NS  = not supported\n  U   = unknown"
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_spans() {
        assert_eq!(set(Ok(vec![0b1111_0000_1111])), "0-3,8-11");
        assert_eq!(set(Ok(vec![0b101])), "0,2");
        assert_eq!(set(Ok(vec![1 << 63, 1])), "63-64");
        assert_eq!(set(Ok(vec![u64::MAX, u64::MAX])), "0-127");
        assert_eq!(set(Ok(vec![0])), "N/A");
        assert_eq!(set(Err(Code::NOT_SUPPORTED)), "N/A");
    }
}
