//! The event ring: readable at any time, mid-tick and after the writer's death included.

use std::{
    mem::offset_of,
    sync::atomic::{
        Ordering::{Acquire, Relaxed},
        fence,
    },
};

use super::Reader;
use crate::{
    layout::{Event, Header, SectionKind},
    words,
};

/// How far a look at the events came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Where to go on from.
    pub last: u64,
    /// Events that were overwritten before they could be read.
    pub lost: u64,
}

impl Reader {
    /// The number of the newest event, 0 before the first: one load.
    #[inline]
    pub fn event_head(&self) -> u64 {
        let head = self
            .header_word(offset_of!(Header, event_head))
            .load(Relaxed);
        fence(Acquire);
        head
    }

    /// Hands the events after number `after` to `each`, oldest first. Numbers restart with another
    /// [`Reader::epoch`]; a number that is yet to come yields nothing and goes on from the newest.
    pub fn events_since(&self, after: u64, mut each: impl FnMut(&Event)) -> Seen {
        let head = self.event_head();
        let capacity = self.sections.place(SectionKind::Events).capacity as u64;
        if after >= head {
            return Seen {
                last: head,
                lost: 0,
            };
        }
        let oldest = head.saturating_sub(capacity).max(after);
        let mut lost = oldest - after;
        for number in (oldest..head).map(|before| before + 1) {
            let slot = ((number - 1) % capacity) as usize;
            let slot = self
                .sections
                .record(self.words(), SectionKind::Events, slot);
            // The number is the slot's own seqlock: it is zero while the slot is written, and never returns.
            let before = slot[0].load(Relaxed);
            fence(Acquire);
            let event: Event = words::load(slot);
            fence(Acquire);
            if before == number && slot[0].load(Relaxed) == number {
                each(&event);
            } else {
                lost += 1;
            }
        }
        Seen { last: head, lost }
    }
}
