//! How well two GPUs of a node are connected, scored as NVIDIA's allocator does: what the bus gives them in common, and a
//! hundred for every NVLink between them.

use mirage_state::Image;
use mirage_state::layout::{board_flags, valid};

/// Scores of what two GPUs have in common on the bus.
const ACROSS_PROCESSORS: u32 = 10;
const SAME_PROCESSOR: u32 = 20;
const HOST_BRIDGE: u32 = 30;
const SEVERAL_SWITCHES: u32 = 40;
const SAME_BOARD: u32 = 60;
/// Score of one NVLink.
const LINK: u32 = 100;

/// The score of two GPUs, by their indices.
pub(super) fn score(image: &Image, one: usize, other: usize) -> u32 {
    bus(image, one, other).saturating_add(LINK.saturating_mul(links(image, one, other)))
}

/// What the bus gives them; the same levels as NVML tells.
fn bus(image: &Image, one: usize, other: usize) -> u32 {
    let (Some(a), Some(b)) = (image.cards.get(one), image.cards.get(other)) else {
        return 0;
    };
    if a.board_id == b.board_id {
        SAME_BOARD
    } else if a.numa != b.numa {
        ACROSS_PROCESSORS
    } else if one / 2 == other / 2 {
        SEVERAL_SWITCHES
    } else if a.numa < 0 {
        HOST_BRIDGE
    } else {
        SAME_PROCESSOR
    }
}

/// NVLinks that are up between two GPUs, over switches or directly.
fn links(image: &Image, one: usize, other: usize) -> u32 {
    let (Some(a), Some(b)) = (Linked::of(image, one), Linked::of(image, other)) else {
        return 0;
    };
    if one == other {
        return 0;
    }
    if a.switched && b.switched {
        return (a.up & b.up).count_ones();
    }
    // Without switches links are dealt out over partners that differ in one number's bits, as NVML tells.
    let partners = image.cards.len().next_power_of_two() - 1;
    let joins = |link: &u32| one ^ (1 + *link as usize % partners.max(1)) == other;
    let mine = (0..a.count).filter(|link| a.up & (1 << link) != 0);
    match a.board == b.board {
        true => mine.filter(joins).count() as u32,
        false => 0,
    }
}

/// A GPU with NVLink.
struct Linked {
    board: u32,
    switched: bool,
    count: u32,
    up: u32,
}

impl Linked {
    fn of(image: &Image, gpu: usize) -> Option<Linked> {
        let card = image.cards.get(gpu)?;
        let live = image.lives.get(gpu)?;
        let board = image.statics.boards.get(card.board as usize)?;
        let count = board.nvlink_links.min(32);
        // Not under MIG.
        (count > 0 && live.valid & valid::NVLINK != 0).then(|| Linked {
            board: card.board,
            switched: board.flags & board_flags::SWITCHED != 0,
            count,
            up: live.nvlink_up & u32::MAX.checked_shr(32 - count).unwrap_or(0),
        })
    }
}
