//! `cuDeviceGetAttribute`: each attribute of `data/attributes.csv` is a fixed figure, one that came with a compute capability, or
//! something of the board, the card or its live state.

use mirage_state::layout::{board_flags, flags};

use crate::device::Device;

/// Where an attribute comes from.
enum Value {
    Fixed(i32),
    /// This much from a compute capability on, else nothing.
    Since((u32, u32), i32),
    Of(fn(&Device<'_>) -> i32),
}

/// What all chips of a compute capability share.
struct Capability {
    threads: i32,
    shared: i32,
    shared_optin: i32,
    registers: i32,
    blocks: i32,
    double_ratio: i32,
}

include!(concat!(env!("OUT_DIR"), "/attributes.rs"));

/// An attribute's value; `None` for one that does not exist.
pub(crate) fn get(device: &Device<'_>, id: i32) -> Option<i32> {
    let at = ATTRIBUTES.binary_search_by_key(&id, |(known, _)| *known);
    Some(match &ATTRIBUTES[at.ok()?].1 {
        Value::Fixed(value) => *value,
        Value::Since(capability, value) if device.is_at_least(*capability) => *value,
        Value::Since(..) => 0,
        Value::Of(of) => of(device),
    })
}

/// Figures of the model, and the share a MIG device has.
struct BoardFigures {
    clock_khz: i32,
    memory_khz: i32,
    multiprocessors: i32,
    bus_bits: i32,
    l2_bytes: i32,
    persisting_l2: i32,
    copy_engines: i32,
    major: i32,
    minor: i32,
    shared: i32,
    chip_link: i32,
    multicast: i32,
    pci_id: i32,
    pci_subsystem_id: i32,
}

/// Figures of the card.
struct CardFigures {
    domain: i32,
    bus: i32,
    device: i32,
    numa: i32,
    group: i32,
    fabric: i32,
}

/// What may change.
struct LiveFigures {
    ecc: i32,
}

impl Device<'_> {
    fn is_at_least(&self, capability: (u32, u32)) -> bool {
        (self.model.cc_major, self.model.cc_minor) >= capability
    }

    fn capability(&self) -> &'static Capability {
        let mine = (self.model.cc_major, self.model.cc_minor);
        let newest = CAPABILITIES.iter().rfind(|(known, _)| *known <= mine);
        &newest.unwrap_or(&CAPABILITIES[0]).1
    }

    fn board(&self) -> BoardFigures {
        let board = self.model;
        let has = |flag: u64| i32::from(board.flags & flag != 0);
        let l2 = board.l2_kib.saturating_mul(1024);
        let keeps_l2 = self.is_at_least((8, 0)) && !self.is_part();
        BoardFigures {
            clock_khz: whole(board.sm_max_mhz.saturating_mul(1000)),
            memory_khz: whole(board.mem_max_mhz.saturating_mul(1000)),
            multiprocessors: whole(self.multiprocessors()),
            bus_bits: whole(board.memory_bus_bits),
            l2_bytes: whole(l2),
            // Five eighths can be set aside.
            persisting_l2: if keeps_l2 { whole(l2 / 8 * 5) } else { 0 },
            copy_engines: whole(self.copy_engines()),
            major: whole(board.cc_major),
            minor: whole(board.cc_minor),
            shared: has(board_flags::MULTI_GPU_BOARD),
            chip_link: has(board_flags::C2C_ENABLED),
            multicast: i32::from(
                board.flags & board_flags::SWITCHED != 0
                    && self.is_at_least((9, 0))
                    && !self.is_part(),
            ),
            // Ids are bit patterns.
            pci_id: board.pci_device_id.cast_signed(),
            pci_subsystem_id: board.pci_subsystem_id.cast_signed(),
        }
    }

    fn card(&self) -> CardFigures {
        let card = self.card;
        CardFigures {
            domain: whole(card.pci_domain),
            bus: whole(card.pci_bus),
            device: whole(card.pci_device),
            numa: card.numa,
            group: match self.model.flags & board_flags::MULTI_GPU_BOARD {
                0 => self.number,
                _ => whole(card.board_id),
            },
            fabric: i32::from(card.fabric_state != 0),
        }
    }

    fn live(&self) -> LiveFigures {
        LiveFigures {
            ecc: i32::from(self.flags() & flags::ECC != 0),
        }
    }
}

fn whole(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_can_be_searched() {
        assert!(ATTRIBUTES.is_sorted_by_key(|(id, _)| *id));
        assert!(CAPABILITIES.is_sorted_by_key(|(capability, _)| *capability));
        assert_eq!(ATTRIBUTES.len(), 159);
    }
}
