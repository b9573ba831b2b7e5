//! The seqlock: one writer that never waits, any number of readers that never write.
//!
//! The writer makes the sequence odd, writes, and makes it even again. A reader takes its copy
//! between two looks at the sequence and keeps it only if both saw the same even number. A
//! writer that dies in between leaves the sequence odd for ever, so a reader looks a bounded number of times
//! and then answers from its [`LastGood`] copy, which lives in the reading process and takes no lock: it
//! survives `fork` at any moment.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use crate::words::zeroed;

/// Looks a reader takes before it gives up.
pub(crate) const LOOKS: u32 = 64;

/// Opens a write; every store after it is invisible to readers until [`end`]. A sequence that a dead writer
/// left odd is taken as it is.
#[inline]
pub(crate) fn begin(seq: &AtomicU64) -> u64 {
    let odd = seq.load(Relaxed) | 1;
    seq.store(odd, Relaxed);
    fence(Release);
    odd
}

/// Ends the write that [`begin`] opened.
#[inline]
pub(crate) fn end(seq: &AtomicU64, odd: u64) {
    seq.store(odd.wrapping_add(1), Release);
}

/// Runs `copy` until it ran undisturbed, at most `looks` times; answers with the sequence it ran under. What
/// `copy` sees in a disturbed run is any mixture of old and new words.
#[inline]
pub(crate) fn read<R>(
    seq: &AtomicU64,
    looks: u32,
    mut copy: impl FnMut() -> R,
) -> Option<(R, u64)> {
    for _ in 0..looks {
        let before = seq.load(Relaxed);
        fence(Acquire);
        if before & 1 == 0 {
            let result = copy();
            fence(Acquire);
            if seq.load(Relaxed) == before {
                return Some((result, before));
            }
        }
        std::hint::spin_loop();
    }
    None
}

/// The last undisturbed copy of something, for when its writer is busy or dead.
///
/// Two slots take turns, so a copy that turns out to be disturbed never costs the good one.
pub(crate) struct LastGood {
    slots: [Slot; 2],
    /// 0 for none yet, else 1 + the slot to read.
    newest: AtomicU64,
    /// The sequence the newest copy was taken under.
    taken_at: AtomicU64,
    /// One thread refreshes at a time; the others go without. A child forked in that moment keeps what there is, for good:
    /// old answers are better than a lock nobody will release.
    refreshing: AtomicBool,
}

struct Slot {
    seq: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl LastGood {
    pub(crate) fn new(words: usize) -> LastGood {
        let slot = || Slot {
            seq: AtomicU64::new(0),
            words: zeroed(words),
        };
        LastGood {
            slots: [slot(), slot()],
            newest: AtomicU64::new(0),
            taken_at: AtomicU64::new(0),
            refreshing: AtomicBool::new(false),
        }
    }

    /// Whether the newest copy was taken under this sequence.
    #[inline]
    pub(crate) fn is_from(&self, seq: u64) -> bool {
        self.newest.load(Relaxed) != 0 && self.taken_at.load(Relaxed) == seq
    }

    /// Lets `fill` take a copy; it says under which sequence it did so undisturbed.
    pub(crate) fn refresh(&self, fill: impl FnOnce(&[AtomicU64]) -> Option<u64>) {
        if self.refreshing.swap(true, Acquire) {
            return;
        }
        let next = usize::from(self.newest.load(Relaxed) == 1);
        let slot = &self.slots[next];
        let odd = begin(&slot.seq);
        let taken = fill(&slot.words);
        end(&slot.seq, odd);
        if let Some(seq) = taken {
            self.taken_at.store(seq, Relaxed);
            self.newest.store(next as u64 + 1, Release);
        }
        self.refreshing.store(false, Release);
    }

    /// Runs `copy` over the newest copy; `None` if there is none, or it is replaced again and again.
    pub(crate) fn read<R>(&self, mut copy: impl FnMut(&[AtomicU64]) -> R) -> Option<R> {
        for _ in 0..LOOKS {
            let newest = self.newest.load(Acquire);
            let slot = self.slots.get((newest as usize).checked_sub(1)?)?;
            if let Some((result, _)) = read(&slot.seq, 1, || copy(&slot.words)) {
                return Some(result);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
