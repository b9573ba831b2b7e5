//! The PCI tree. Two GPUs share a root port, each behind a switch port of its own, which is what NVML says of them as well: several
//! bridges between the two of a pair, the processor between any others.

use std::collections::{BTreeMap, HashSet};

use mirage_state::Image;
use mirage_state::layout::{Board, Card};

use super::Cpus;
use crate::driver::item::List;
use crate::driver::procfs::address;

/// 3D controller.
const CLASS: u32 = 0x03_0200;
/// PCI-to-PCI bridge.
const BRIDGE: u32 = 0x06_0400;
/// Device and vendor of a processor's root port, and of a switch.
const ROOT_PORT: u32 = 0x1483_1022;
const SWITCH: u32 = 0xc010_1000;
/// Lines of a resource file: six BARs and the ROM.
const RESOURCES: usize = 7;
/// Bytes of configuration space anybody may read.
const CONFIG: usize = 256;
/// GT/s of a lane by generation, as sysfs writes them.
const SPEEDS: [&str; 6] = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
const DRIVER: &str = "bus/pci/drivers/nvidia";

/// Puts the devices on the list.
pub(super) fn list(list: &mut List, image: &Image, cpus: &Cpus) {
    list.directory(format!("sys/{DRIVER}"));
    let mut buses = Buses::new(&image.cards);
    let mut roots: BTreeMap<(usize, u32, i32), Option<Root>> = BTreeMap::new();
    for (index, card) in image.cards.iter().enumerate() {
        let Some(board) = image.statics.boards.get(card.board as usize) else {
            continue;
        };
        let domain = card.pci_domain & 0xffff;
        let root = roots
            .entry((index / 2, domain, card.numa))
            .or_insert_with(|| {
                let root = Root::below(&mut buses, domain, card.pci_bus);
                root.iter().for_each(|root| root.list(list, card, cpus));
                root
            });
        let parent = match root {
            Some(root) => root.port(list, card, cpus),
            // Every bus is taken: right at the processor.
            None => format!("devices/pci{domain:04x}:00"),
        };
        gpu(list, &parent, card, board, cpus);
    }
}

/// Bus numbers in use, by domain.
struct Buses(HashSet<(u32, u32)>);

impl Buses {
    fn new(cards: &[Card]) -> Buses {
        let taken = cards
            .iter()
            .map(|card| (card.pci_domain & 0xffff, card.pci_bus));
        Buses(taken.collect())
    }

    /// A free bus: the nearest below another, as enumeration gives them out, else any.
    fn take(&mut self, domain: u32, below: u32) -> Option<u32> {
        let mut candidates = (0..below).rev().chain(below..256);
        let bus = candidates.find(|bus| !self.0.contains(&(domain, *bus)))?;
        self.0.insert((domain, bus));
        Some(bus)
    }
}

/// A root port and the bus behind it.
struct Root {
    domain: u32,
    /// Bus at the processor.
    bus: u32,
    /// Bus behind the port, on which the switch's ports are.
    behind: u32,
    ports: u32,
}

impl Root {
    fn below(buses: &mut Buses, domain: u32, below: u32) -> Option<Root> {
        let behind = buses.take(domain, below)?;
        let bus = buses.take(domain, behind)?;
        Some(Root {
            domain,
            bus,
            behind,
            ports: 0,
        })
    }

    fn path(&self) -> String {
        let Root { domain, bus, .. } = self;
        format!("devices/pci{domain:04x}:{bus:02x}/{domain:04x}:{bus:02x}:01.0")
    }

    fn list(&self, list: &mut List, card: &Card, cpus: &Cpus) {
        let path = self.path();
        bridge(list, &path, ROOT_PORT, self.bus, self.behind, card, cpus);
    }

    /// A port for one more device; its path.
    fn port(&mut self, list: &mut List, card: &Card, cpus: &Cpus) -> String {
        let (domain, behind, port) = (self.domain, self.behind, self.ports);
        let path = format!("{}/{domain:04x}:{behind:02x}:{port:02x}.0", self.path());
        bridge(list, &path, SWITCH, self.behind, card.pci_bus, card, cpus);
        self.ports += 1;
        path
    }
}

fn bridge(list: &mut List, path: &str, id: u32, from: u32, to: u32, card: &Card, cpus: &Cpus) {
    let mut space = config(id, BRIDGE, 0);
    // The bus it is on, the one behind it, and the last one behind it.
    space[0x0e] = 1;
    for (at, bus) in [(0x18, from), (0x19, to), (0x1a, to.max(card.pci_bus))] {
        space[at] = bus.to_le_bytes()[0];
    }
    device(list, path, (id, 0), BRIDGE, space, (0, card.numa), cpus);
}

fn gpu(list: &mut List, parent: &str, card: &Card, board: &Board, cpus: &Cpus) {
    let at = address(card);
    let path = format!("{parent}/{at}");
    let (id, subsystem) = (board.pci_device_id, board.pci_subsystem_id);
    let space = config(id, CLASS, subsystem);
    let place = (card.irq(), card.numa);
    device(list, &path, (id, subsystem), CLASS, space, place, cpus);
    let width = board.pcie_width_max;
    let speed = SPEEDS.get((board.pcie_gen_max as usize).saturating_sub(1));
    let speed = format!("{} GT/s PCIe\n", speed.unwrap_or(&SPEEDS[0]));
    for which in ["current", "max"] {
        list.file(format!("sys/{path}/{which}_link_speed"), speed.clone());
        list.file(
            format!("sys/{path}/{which}_link_width"),
            format!("{width}\n"),
        );
    }
    let ((device, vendor), (subdevice, subvendor)) = (halves(id), halves(subsystem));
    list.file(
        format!("sys/{path}/uevent"),
        format!(
            "DRIVER=nvidia\nPCI_CLASS={CLASS:X}\nPCI_ID={vendor:04X}:{device:04X}\n\
             PCI_SUBSYS_ID={subvendor:04X}:{subdevice:04X}\nPCI_SLOT_NAME={at}\n"
        ),
    );
    let up = "../".repeat(path.split('/').count());
    list.link(format!("sys/{path}/driver"), format!("{up}{DRIVER}"));
}

/// What every device has: ids of itself and its subsystem, its interrupt line and NUMA node.
fn device(
    list: &mut List,
    path: &str,
    (id, subsystem): (u32, u32),
    class: u32,
    config: Vec<u8>,
    (irq, numa): (u32, i32),
    cpus: &Cpus,
) {
    let name = path.rsplit('/').next().unwrap_or(path);
    list.link(
        format!("sys/bus/pci/devices/{name}"),
        format!("../../../{path}"),
    );
    let (device, vendor) = halves(id);
    let (subdevice, subvendor) = halves(subsystem);
    let files: [(&str, Vec<u8>); 12] = [
        ("vendor", format!("{vendor:#06x}\n").into()),
        ("device", format!("{device:#06x}\n").into()),
        ("subsystem_vendor", format!("{subvendor:#06x}\n").into()),
        ("subsystem_device", format!("{subdevice:#06x}\n").into()),
        ("class", format!("{class:#08x}\n").into()),
        ("revision", format!("{:#04x}\n", config[8]).into()),
        ("irq", format!("{irq}\n").into()),
        ("numa_node", format!("{numa}\n").into()),
        ("local_cpulist", cpus.listed(numa).into()),
        ("local_cpus", cpus.mask(numa).into()),
        ("resource", resource().into()),
        ("config", config),
    ];
    for (name, bytes) in files {
        list.file(format!("sys/{path}/{name}"), bytes);
    }
}

/// Device and vendor of an id as NVML combines them.
fn halves(id: u32) -> (u32, u32) {
    (id >> 16, id & 0xffff)
}

/// No memory is mapped: every region is empty.
fn resource() -> String {
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    none.repeat(RESOURCES)
}

/// Configuration space: who it is, and nothing mapped.
fn config(id: u32, class: u32, subsystem: u32) -> Vec<u8> {
    let mut bytes = vec![0; CONFIG];
    let mut put = |at: usize, value: u32, len: usize| {
        bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    };
    let ((device, vendor), (subdevice, subvendor)) = (halves(id), halves(subsystem));
    put(0x00, vendor, 2);
    put(0x02, device, 2);
    put(0x08, if class == CLASS { 0xa1 } else { 0 }, 1);
    put(0x09, class, 3);
    put(0x2c, subvendor, 2);
    put(0x2e, subdevice, 2);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_space_says_who_it_is() {
        let bytes = config(0x20B0_10DE, CLASS, 0x134F_10DE);
        assert_eq!(bytes.len(), 256);
        assert_eq!(bytes[..4], [0xde, 0x10, 0xb0, 0x20]);
        assert_eq!(bytes[8..12], [0xa1, 0x00, 0x02, 0x03]);
        assert_eq!(bytes[0x2c..0x30], [0xde, 0x10, 0x4f, 0x13]);
    }

    #[test]
    fn buses_are_given_out_once() {
        let mut buses = Buses((0..255).map(|bus| (0, bus)).collect());
        assert_eq!(buses.take(0, 7), Some(255));
        assert_eq!(buses.take(0, 7), None);
        assert_eq!(buses.take(1, 7), Some(6));
        assert_eq!(buses.take(1, 7), Some(5));
    }
}
