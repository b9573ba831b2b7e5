//! Who a GPU is: the facts that tell one board from another of the same model.
//!
//! Everything follows from the node's name and the GPU's index, so the same config gives
//! the same identities on every machine and after every restart. Deriving one costs two
//! hashes and three short strings, because fleets have 80,000 GPUs.

use std::fmt;

use uuid::Uuid;

use crate::board::{Board, FormFactor};
use crate::plan::GivenGpu;

#[cfg(test)]
mod tests;

/// What tells this GPU from others of its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `GPU-` and a UUID, unless the config gives another id.
    pub uuid: String,
    /// Serial number: thirteen digits. Superchips share one between two GPUs.
    pub serial: String,
    /// Where it sits on PCI.
    pub pci: PciAddress,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
    /// NUMA node; the first half of a node's GPUs sits on socket 0, and no board on both.
    pub numa: i32,
    /// Module number on the baseboard, from 1; always 1 for cards.
    pub module_id: u32,
    /// Board id as NVML gives it: domain, bus and device in one number. GPUs that share a
    /// board share it.
    pub board_id: u32,
}

/// A PCI function's address; the function is always 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "PCI's own names")]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
}

impl fmt::Display for PciAddress {
    /// As NVML prints it: `00000000:07:00.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
        } = self;
        write!(f, "{domain:08X}:{bus:02X}:{device:02X}.0")
    }
}

impl PciAddress {
    /// With four digits of domain, as `busIdLegacy` has it: `0000:07:00.0`.
    pub fn legacy(&self) -> String {
        format!(
            "{:04X}:{:02X}:{:02X}.0",
            self.domain & 0xffff,
            self.bus,
            self.device
        )
    }

    /// Domain, bus and device in one number, as NVML's board id has it.
    fn board_id(&self) -> u32 {
        self.domain << 16 | u32::from(self.bus) << 8 | u32::from(self.device)
    }

    /// As the kernel names it under `/sys/bus/pci/devices`: `0000:07:00.0`, lower case.
    pub fn sysfs(&self) -> String {
        self.legacy().to_lowercase()
    }
}

impl Identity {
    /// Who GPU `index` of the `count` GPUs on `node` is.
    pub fn of(node: &str, index: u32, count: u32, board: &Board, given: Option<&GivenGpu>) -> Self {
        let name = format!("{node}-{index}");
        let own = hash(&name);
        let uuid = given
            .and_then(|g| g.uuid.clone())
            .unwrap_or_else(|| format!("GPU-{}", own.hyphenated()));
        let share = board.gpus_per_serial.max(1);
        let serial = given.and_then(|g| g.serial.clone()).unwrap_or_else(|| {
            let first = index - index % share;
            serial(if first == index {
                own
            } else {
                hash(&format!("{node}-{first}"))
            })
        });
        let pci = address(&board.pci_slots, index);
        Self {
            uuid,
            serial,
            pci,
            minor: index,
            numa: i32::from(count > 1 && index >= count.div_ceil(2).next_multiple_of(share)),
            // Cards in slots all call themselves module 1.
            module_id: match board.form_factor {
                FormFactor::Pcie => 1,
                FormFactor::Sxm | FormFactor::Superchip => index + 1,
            },
            board_id: if board.multi_gpu_board {
                address(&board.pci_slots, index - index % 2).board_id()
            } else {
                pci.board_id()
            },
        }
    }
}

/// The id of MIG device (GPU instance, compute instance) of a GPU: `MIG-` and a UUID.
///
/// It depends on the parent's id and nothing else, so an instance made again in the same
/// place is the same device, as on real boards.
pub fn instance_uuid(gpu_uuid: &str, gpu_instance: u32, compute_instance: u32) -> String {
    let id = hash(&format!("{gpu_uuid}/{gpu_instance}/{compute_instance}"));
    format!("MIG-{}", id.hyphenated())
}

fn hash(name: &str) -> Uuid {
    Uuid::new_v5(&Uuid::nil(), name.as_bytes())
}

/// Thirteen digits beginning with 1, as on current boards.
fn serial(id: Uuid) -> String {
    const SPAN: u64 = 1_000_000_000_000;
    let (high, low) = id.as_u64_pair();
    format!("1{:012}", (high ^ low.rotate_left(17)) % SPAN)
}

/// The address of GPU `index`: the slots its usual host has, then buses between them.
fn address(slots: &[PciAddress], index: u32) -> PciAddress {
    if let Some(slot) = slots.get(index as usize) {
        return *slot;
    }
    // Hosts that spread their GPUs over domains: the same pattern again, further up.
    if let Some(last) = slots.last().filter(|slot| slot.domain > 0) {
        let len = u32::try_from(slots.len()).unwrap_or(1);
        let slot = slots[(index % len) as usize];
        let stride = (last.domain | 0xf) + 1;
        return PciAddress {
            domain: slot.domain + stride * (index / len),
            ..slot
        };
    }
    // All in domain 0: buses no slot uses, from 2 up, then the next domain.
    let extra = index - u32::try_from(slots.len()).unwrap_or(0);
    let free = || (0x02..=0xfeu8).filter(|bus| !slots.iter().any(|slot| slot.bus == *bus));
    let per_domain = u32::try_from(free().count()).unwrap_or(1).max(1);
    PciAddress {
        domain: extra / per_domain,
        bus: free().nth((extra % per_domain) as usize).unwrap_or(0x02),
        device: 0,
    }
}
