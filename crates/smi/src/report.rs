//! `-q`: everything about each GPU, as text or, with `-x`, as XML. Both are written from one tree, so that they
//! cannot disagree.

mod board;
mod bus;
mod errors;
mod load;
mod names;
mod node;
mod power;
mod processes;
mod samples;
mod sections;

use std::io::Write;

use nvidia_ml::client::Nvml;

use super::gpus::Gpu;
use super::stamp::Stamp;
use super::{Stop, query, summary};
pub(super) use names::{
    ADDRESSING_MODES, APPLICATION_CLOCKS_GONE, COMPUTE_MODES, DEPRECATED, DISPLAY_MODE_GONE,
    FABRIC_HEALTH, FABRIC_STATES, PEER_TYPES, RECOVERY_ACTIONS, RESET_STATUS_DEPRECATED,
    fabric_uuid,
};
use node::{COLON, Node, WIDE_COLON};
use sections::Part;
pub(super) use sections::Sections;

/// What the parts of a GPU's report are made from.
struct Subject<'a> {
    nvml: &'a Nvml,
    gpu: &'a Gpu,
    /// First part of the driver's version.
    branch: u32,
}

/// From this driver on, the average and the momentary power draw are told apart.
const TWO_DRAWS: u32 = 570;
/// From this driver on, the document type is the thirteenth.
const DTD_13: u32 = 580;

pub(super) fn print(
    nvml: &Nvml,
    gpus: &[Gpu],
    now: Stamp,
    xml: bool,
    sections: &Sections,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let driver = nvml.driver_version()?;
    let branch = query::branch(&driver);
    let colon = if is_wide(&driver) { WIDE_COLON } else { COLON };
    let head = [
        Node::leaf("Timestamp", "timestamp", now.long()),
        Node::leaf("Driver Version", "driver_version", driver),
        Node::leaf("CUDA Version", "cuda_version", summary::cuda(nvml)?),
        Node::leaf("Attached GPUs", "attached_gpus", nvml.count()?),
    ];
    let [timestamp, driver, cuda, attached] = &head;
    if xml {
        let dtd = if branch >= DTD_13 { 13 } else { 12 };
        writeln!(out, "<?xml version=\"1.0\" ?>")?;
        writeln!(
            out,
            "<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v{dtd}.dtd\">"
        )?;
        writeln!(out, "<nvidia_smi_log>")?;
        for node in &head {
            node.xml(1, out)?;
        }
    } else {
        writeln!(out, "\n==============NVSMI LOG==============\n")?;
        timestamp.text(0, colon, out)?;
        driver.text(0, colon, out)?;
        cuda.text(0, colon, out)?;
        writeln!(out)?;
        attached.text(0, colon, out)?;
    }
    for gpu in gpus {
        let subject = Subject { nvml, gpu, branch };
        let nodes = subject.nodes();
        let shown = nodes.iter().filter(|node| sections.shows(node.part, xml));
        let bus_id = &gpu.label.bus_id;
        if xml {
            writeln!(out, "\t<gpu id=\"{bus_id}\">")?;
            for node in shown {
                node.xml(2, out)?;
            }
            writeln!(out, "\t</gpu>")?;
        } else {
            writeln!(out, "GPU {bus_id}")?;
            for node in shown {
                // What is told of processes stayed where it was.
                match node.part {
                    Part::Pids if node.is_group() => node.text(1, COLON, out)?,
                    _ => node.text(1, colon, out)?,
                }
            }
            writeln!(out)?;
        }
    }
    if xml {
        writeln!(out, "</nvidia_smi_log>")?;
    }
    Ok(())
}

/// Whether lines are as wide as newer drivers write them: 580.159 did not yet, 580.173 did.
fn is_wide(driver: &str) -> bool {
    let mut numbers = driver.split('.').map(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(Some(580)), Some(Some(160)))
}

impl Subject<'_> {
    /// The report in its order.
    fn nodes(&self) -> Vec<Node> {
        let mut nodes = self.identity();
        nodes.extend(self.bus());
        nodes.extend(self.performance());
        nodes.extend(self.memory());
        nodes.extend(self.load());
        nodes.extend(self.errors());
        nodes.extend(self.heat());
        nodes.extend(self.power());
        nodes.extend(self.clocks());
        nodes.extend(self.fabric());
        nodes.extend(self.supported_clocks());
        nodes.extend(self.processes());
        nodes.extend(self.capabilities());
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_drivers_write_wider_lines() {
        for (driver, wide) in [
            ("550.163.01", false),
            ("580.159.03", false),
            ("580.173.02", true),
            ("595.71.05", true),
            ("", false),
        ] {
            assert_eq!(is_wide(driver), wide, "{driver}");
        }
    }
}
