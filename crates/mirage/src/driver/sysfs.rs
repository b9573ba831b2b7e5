//! What the kernel would show below `/sys`, in the driver root: the PCI tree, processors by NUMA node, the machine's name, the
//! driver's modules. A consumer sees it when `sys/devices` and `sys/bus/pci/devices` are mounted over its own, both together: the links
//! between them are relative.

mod pci;

use std::fs;
use std::path::Path;

use mirage_state::Image;
use mirage_state::layout::Card;

use super::item::{List, Part, Place};

/// What a consumer loses when `sys/devices` is mounted over: the machine's name and id, with the modes the kernel gives them.
const MACHINE: [(&str, u32); 2] = [("product_name", 0o444), ("product_uuid", 0o400)];
/// Modules of the driver; the first is the one everybody looks for.
const MODULES: [&str; 3] = ["nvidia", "nvidia_uvm", "nvidia_modeset"];

/// Puts the tree on the list.
pub(super) fn list(list: &mut List, image: &Image, driver: &str, host: &Path) {
    list.begin(Part::Files, Place::Root);
    let cpus = Cpus::of(&image.cards, processors(host));
    pci::list(list, image, &cpus);
    cpus.list(list);
    for module in MODULES {
        list.file(
            format!("sys/module/{module}/version"),
            format!("{driver}\n"),
        );
        list.file(format!("sys/module/{module}/initstate"), "live\n");
        list.file(format!("sys/module/{module}/refcnt"), "0\n");
    }
    let lines = MODULES.map(|module| format!("{module} 0 0 - Live 0x0000000000000000 (POE)\n"));
    list.file("proc/modules", lines.concat());
    for (name, mode) in MACHINE {
        // Not every machine has them, nor shows them to everybody.
        let at = format!("sys/devices/virtual/dmi/id/{name}");
        if let Ok(text) = fs::read(host.join(&at)) {
            list.file_with(at, text, mode);
        }
    }
    list.link("sys/class/dmi/id", "../../devices/virtual/dmi/id");
}

/// The machine's processors, dealt out over the NUMA nodes of the GPUs as NVML does.
#[derive(Debug)]
struct Cpus {
    all: u32,
    nodes: u32,
}

impl Cpus {
    fn of(cards: &[Card], all: u32) -> Cpus {
        let last = cards.iter().map(|card| card.numa).max().unwrap_or(0);
        Cpus {
            all,
            nodes: u32::try_from(last).unwrap_or(0) + 1,
        }
    }

    /// First and last of those near a node.
    fn near(&self, numa: i32) -> (u32, u32) {
        let whole = (0, self.all - 1);
        let Ok(numa) = u32::try_from(numa) else {
            return whole;
        };
        if self.all < self.nodes {
            return whole;
        }
        let each = self.all / self.nodes;
        let last = match numa + 1 >= self.nodes {
            true => self.all,
            false => (numa + 1) * each,
        };
        (numa * each, last - 1)
    }

    /// As in `local_cpulist`.
    fn listed(&self, numa: i32) -> String {
        range(self.near(numa))
    }

    /// As in `local_cpus`: bits in groups of 32, the highest first.
    fn mask(&self, numa: i32) -> String {
        let (first, last) = self.near(numa);
        let groups = self.all.div_ceil(32);
        let group = |at: u32| {
            let bits = (0..32).filter(|bit| (first..=last).contains(&(at * 32 + bit)));
            format!("{:08x}", bits.fold(0_u32, |mask, bit| mask | 1 << bit))
        };
        let groups: Vec<String> = (0..groups).rev().map(group).collect();
        groups.join(",") + "\n"
    }

    fn list(&self, list: &mut List) {
        let nodes = i32::try_from(self.nodes).unwrap_or(1);
        for node in 0..nodes {
            let at = format!("sys/devices/system/node/node{node}");
            list.file(format!("{at}/cpulist"), self.listed(node));
            list.file(format!("{at}/cpumap"), self.mask(node));
        }
        for name in ["online", "possible"] {
            let nodes = range((0, self.nodes - 1));
            list.file(format!("sys/devices/system/node/{name}"), nodes);
            let cpus = range((0, self.all - 1));
            list.file(format!("sys/devices/system/cpu/{name}"), cpus);
        }
    }
}

/// A list of numbers as sysfs writes it.
fn range((first, last): (u32, u32)) -> String {
    match first == last {
        true => format!("{first}\n"),
        false => format!("{first}-{last}\n"),
    }
}

/// Processors of the machine.
fn processors(host: &Path) -> u32 {
    let entries = fs::read_dir(host.join("sys/devices/system/cpu"));
    let is_processor = |name: &str| {
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let names = entries.into_iter().flatten().flatten();
    let count = names
        .filter(|entry| entry.file_name().to_str().is_some_and(is_processor))
        .count();
    match count {
        0 => std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        count => count as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_dealt_out_over_the_nodes() {
        let cpus = Cpus { all: 70, nodes: 2 };
        assert_eq!(cpus.listed(0), "0-34\n");
        assert_eq!(cpus.listed(1), "35-69\n");
        assert_eq!(cpus.listed(-1), "0-69\n");
        assert_eq!(cpus.mask(0), "00000000,00000007,ffffffff\n");
        assert_eq!(cpus.mask(1), "0000003f,fffffff8,00000000\n");
        // Fewer than nodes: near to everybody.
        let cpus = Cpus { all: 1, nodes: 2 };
        assert_eq!(cpus.listed(1), "0\n");
    }

    #[test]
    fn processors_of_the_machine_are_counted() {
        let host = tempfile::tempdir().unwrap();
        assert!(processors(host.path()) > 0);
        for name in ["cpu0", "cpu11", "cpufreq", "cpu", "online"] {
            let at = host.path().join("sys/devices/system/cpu").join(name);
            fs::create_dir_all(at).unwrap();
        }
        assert_eq!(processors(host.path()), 2);
    }
}
