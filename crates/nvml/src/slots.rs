//! Objects that live longer than a call: event sets and GPM samples. They lie in fixed tables that cost nothing until
//! touched; a handle names a slot and its turn, so a freed or invented one is recognised and memory is
//! never followed on a caller's word.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::code::Fault;
use crate::handle::{Handle, Key, Kind};

/// Whose turn a slot has: odd while taken, and two more each time.
#[derive(Default)]
pub struct Turn(AtomicU32);

impl Turn {
    /// A slot nobody ever took.
    pub const fn new() -> Turn {
        Turn(AtomicU32::new(0))
    }

    /// Takes the slot if it is free.
    fn take(&self) -> Option<u16> {
        let now = self.0.load(SeqCst);
        let next = now.wrapping_add(1);
        let taken = now & 1 == 0 && self.0.compare_exchange(now, next, SeqCst, SeqCst).is_ok();
        taken.then_some(next as u16)
    }

    fn is(&self, tag: u16) -> bool {
        let now = self.0.load(SeqCst);
        now & 1 == 1 && now as u16 == tag
    }

    /// Gives the slot back if it is that turn.
    fn give(&self, tag: u16) -> bool {
        let now = self.0.load(SeqCst);
        self.is(tag)
            && self
                .0
                .compare_exchange(now, now.wrapping_add(1), SeqCst, SeqCst)
                .is_ok()
    }

    /// Whether anybody ever took the slot.
    fn is_used(&self) -> bool {
        self.0.load(SeqCst) != 0
    }

    /// Gives the slot back whoever has it.
    fn end(&self) {
        let now = self.0.load(SeqCst);
        if now & 1 == 1 {
            self.give(now as u16);
        }
    }
}

/// Something with a turn.
pub trait Slot: 'static {
    /// Its turn.
    fn turn(&self) -> &Turn;
}

/// Takes a free slot; `prepare` makes it fit for use before anybody knows its handle.
pub fn take<S: Slot>(
    slots: &'static [S],
    kind: Kind,
    prepare: impl FnOnce(&S),
) -> Result<Handle, Fault> {
    for (index, slot) in slots.iter().enumerate() {
        if let Some(tag) = slot.turn().take() {
            prepare(slot);
            return Ok(Handle::new(
                kind,
                Key {
                    index: index as u16,
                    gi: 0,
                    ci: 0,
                    tag,
                },
            ));
        }
    }
    Err(Fault::InsufficientResources)
}

/// The slot of a handle.
pub fn find<S: Slot>(slots: &'static [S], kind: Kind, handle: Handle) -> Result<&'static S, Fault> {
    let key = handle.key(kind).ok_or(Fault::InvalidArgument)?;
    let slot = slots
        .get(usize::from(key.index))
        .ok_or(Fault::InvalidArgument)?;
    if slot.turn().is(key.tag) {
        Ok(slot)
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// Gives a slot back.
pub fn give<S: Slot>(slots: &'static [S], kind: Kind, handle: Handle) -> Result<(), Fault> {
    let slot = find(slots, kind, handle)?;
    let tag = handle.key(kind).map_or(0, |key| key.tag);
    if slot.turn().give(tag) {
        Ok(())
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// Gives all slots back. They are taken from the first on, so none is behind one that nobody ever took; those are left
/// untouched.
pub fn give_all<S: Slot>(slots: &'static [S]) {
    let used = slots.iter().take_while(|slot| slot.turn().is_used());
    used.for_each(|slot| slot.turn().end());
}
