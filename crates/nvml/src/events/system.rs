//! System events: a driver bound to a GPU or unbound from it. A GPU that falls off the bus is told as unbound.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use mirage_state::layout::event_kinds;

use super::wait;
use crate::abi::{SystemEventData, SystemRegisterRequest, SystemSetRequest, SystemWaitRequest};
use crate::arg::{Out, out, versioned};
use crate::code::{Answer, Fault};
use crate::handle::Kind;
use crate::session::{self, Session};
use crate::slots::{self, Slot, Turn};

const UNBIND: u64 = 1;
const KNOWN: u64 = 0b11;

struct SystemSet {
    turn: Turn,
    kinds: AtomicU64,
    seen: AtomicU64,
    /// The engine the last event looked at came from.
    epoch: AtomicU64,
}

impl Slot for SystemSet {
    fn turn(&self) -> &Turn {
        &self.turn
    }
}

static ALL: [SystemSet; 64] = [const {
    SystemSet {
        turn: Turn::new(),
        kinds: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
    }
}; 64];

/// `nvmlSystemEventSetCreate`.
pub fn system_event_set_create(s: &Session, request: Out<SystemSetRequest>) -> Answer {
    let mut asked = request.get();
    asked.set = slots::take(&ALL, Kind::SystemEventSet, |set| {
        set.kinds.store(0, SeqCst);
        set.seen.store(s.reader().event_head(), SeqCst);
        set.epoch.store(s.reader().epoch(), SeqCst);
    })?;
    request.set(asked);
    Ok(())
}

/// `nvmlSystemEventSetFree`.
pub fn system_event_set_free(_: &Session, request: Out<SystemSetRequest>) -> Answer {
    slots::give(&ALL, Kind::SystemEventSet, request.get().set)
}

/// Frees every set.
pub(super) fn free_all() {
    slots::give_all(&ALL);
}

/// `nvmlSystemRegisterEvents`.
pub fn system_register_events(_: &Session, request: Out<SystemRegisterRequest>) -> Answer {
    let asked = request.get();
    if asked.kinds & !KNOWN != 0 {
        return Err(Fault::InvalidArgument);
    }
    slots::find(&ALL, Kind::SystemEventSet, asked.set)?
        .kinds
        .fetch_or(asked.kinds, SeqCst);
    Ok(())
}

/// `nvmlSystemEventSetWait`.
pub fn system_event_set_wait(request: *mut SystemWaitRequest) -> Answer {
    session::with(|_| Ok(()))?;
    let request = versioned(request)?;
    let asked = request.get();
    let data = out(asked.data)?;
    if asked.room == 0 {
        return Err(Fault::InsufficientSize);
    }
    let gpu = wait(asked.timeout_ms, |s| {
        let set = slots::find(&ALL, Kind::SystemEventSet, asked.set)?;
        let wants = set.kinds.load(SeqCst) & UNBIND != 0;
        let mut found = None;
        let epoch = s.reader().epoch();
        if set.epoch.swap(epoch, SeqCst) != epoch {
            // Numbers begin anew, and nothing of this engine was seen yet.
            set.seen.store(0, SeqCst);
        }
        let seen = set.seen.load(SeqCst);
        let looked = s.reader().events_since(seen, |event| {
            let gone = event.kind == event_kinds::UNAVAILABLE && s.visible().contains(&event.gpu);
            if wants && gone && found.is_none() {
                found = Some((event.number, event.gpu));
            }
        });
        let upto = found.map_or(looked.last, |(number, _)| number);
        let mine = set
            .seen
            .compare_exchange(seen, upto, SeqCst, SeqCst)
            .is_ok();
        Ok(found
            .filter(|_| mine)
            .map(|(_, gpu)| s.at(gpu as usize).card().board_id))
    })?;
    data.set(SystemEventData {
        kind: UNBIND,
        gpu,
        pad: 0,
    });
    let mut asked = asked;
    asked.count = 1;
    request.set(asked);
    Ok(())
}
