//! How the GPUs of a node are joined: where an NVLink leads, how many join two GPUs, and whose memory a GPU can
//! reach. Decided once, so that NVML, CUDA and whoever else asks tell the same.

use crate::layout::{Board, Card, board_flags, flags, valid};

/// What a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Another GPU, by its index on the node.
    Gpu(usize),
    /// A switch, by number.
    Switch(u32),
    /// Nothing.
    Open,
}

/// How a GPU reaches another's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Over this many NVLinks.
    Links(u32),
    /// Over the bus.
    Bus,
}

/// A GPU as its neighbours see it.
#[derive(Clone, Copy)]
pub struct Neighbour<'a> {
    /// Its index on the node.
    pub index: usize,
    /// All GPUs of the node.
    pub cards: &'a [Card],
    /// Its own.
    pub card: &'a Card,
    /// What it is.
    pub board: &'a Board,
    /// Its [`valid`] bits now.
    pub valid: u64,
    /// Its [`flags`] now.
    pub flags: u64,
    /// Which of its links are up.
    pub up: u32,
}

impl Neighbour<'_> {
    /// Whether it has NVLink that may be asked about: not under MIG.
    #[inline]
    pub fn has_links(&self) -> bool {
        self.board.nvlink_links > 0 && self.valid & valid::NVLINK != 0
    }

    /// Whether a link is up.
    #[inline]
    pub fn is_up(&self, link: u32) -> bool {
        self.up.checked_shr(link).unwrap_or(0) & 1 != 0
    }

    fn is_switched(&self) -> bool {
        self.board.flags & board_flags::SWITCHED != 0
    }

    /// What a link leads to. Without switches, links are dealt out over the partners that differ in one number's
    /// bits, which every two GPUs agree on.
    pub fn end(&self, link: u32) -> End {
        if self.is_switched() {
            return End::Switch(link % self.board.nvlink_switches.max(1));
        }
        let gpus = self.cards.len();
        if gpus < 2 {
            return End::Open;
        }
        let partners = gpus.next_power_of_two() - 1;
        let partner = self.index ^ (1 + link as usize % partners);
        match self.cards.get(partner) {
            Some(card) if card.board == self.card.board => End::Gpu(partner),
            _ => End::Open,
        }
    }

    /// Links that join it to another, over switches or directly.
    pub fn links_to(&self, other: &Neighbour<'_>) -> u32 {
        if !self.has_links() || !other.has_links() || self.index == other.index {
            return 0;
        }
        let joins = |link: &u32| match self.is_switched() && other.is_switched() {
            true => other.is_up(*link),
            false => self.end(*link) == End::Gpu(other.index),
        };
        let mine = (0..self.board.nvlink_links).filter(|&link| self.is_up(link));
        mine.filter(joins).count() as u32
    }

    /// How it reaches another's memory: not under MIG; over NVLink where there are links, else over the bus of one
    /// processor. `None` if it does not, and for itself.
    pub fn path_to(&self, other: &Neighbour<'_>) -> Option<Path> {
        if self.index == other.index || (self.flags | other.flags) & flags::MIG != 0 {
            return None;
        }
        match self.links_to(other) {
            0 => (self.card.numa == other.card.numa).then_some(Path::Bus),
            links => Some(Path::Links(links)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four GPUs, two on each processor.
    fn cards() -> Vec<Card> {
        let card = |gpu: i32| Card {
            numa: gpu / 2,
            ..Card::default()
        };
        (0..4).map(card).collect()
    }

    fn board(links: u32, flags: u64) -> Board {
        Board {
            nvlink_links: links,
            nvlink_switches: 2,
            flags,
            ..Board::default()
        }
    }

    fn at<'a>(index: usize, cards: &'a [Card], board: &'a Board, up: u32) -> Neighbour<'a> {
        Neighbour {
            index,
            cards,
            card: &cards[index],
            board,
            valid: valid::NVLINK,
            flags: 0,
            up,
        }
    }

    #[test]
    fn links_that_are_down_join_nobody() {
        let cards = cards();
        let switched = board(4, board_flags::SWITCHED);
        let near = |index, up| at(index, &cards, &switched, up);
        assert_eq!(
            near(0, 0b1111).path_to(&near(3, 0b0110)),
            Some(Path::Links(2))
        );
        assert_eq!(near(0, 0b1001).path_to(&near(3, 0b0110)), None);
        assert_eq!(near(0, 0).path_to(&near(1, 0b1111)), Some(Path::Bus));
    }

    #[test]
    fn direct_links_join_partners_of_one_model() {
        let mut cards = cards();
        let direct = board(3, 0);
        for (one, other) in [(0, 1), (0, 3), (2, 1)] {
            let (one, other) = (
                at(one, &cards, &direct, 0b111),
                at(other, &cards, &direct, 0b111),
            );
            assert_eq!(one.links_to(&other), 1);
            assert_eq!(other.links_to(&one), 1);
        }
        cards[3].board = 1;
        let (one, other) = (at(0, &cards, &direct, 0b111), at(3, &cards, &direct, 0b111));
        assert_eq!((one.links_to(&other), one.path_to(&other)), (0, None));
    }

    #[test]
    fn parts_of_a_gpu_reach_nobody() {
        let cards = cards();
        let switched = board(4, board_flags::SWITCHED);
        let whole = at(0, &cards, &switched, 0b1111);
        let split = Neighbour {
            flags: flags::MIG,
            valid: 0,
            ..at(1, &cards, &switched, 0b1111)
        };
        assert_eq!(whole.path_to(&split), None);
        assert_eq!(split.path_to(&whole), None);
        assert_eq!(whole.path_to(&whole), None);
    }
}
