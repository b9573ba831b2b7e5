//! Events: sets, registration, and the wait that blocks without spinning.
//!
//! The state file is read-only to clients, so nothing can wake a waiter: it sleeps in short naps between looks at
//! the ring, outside any pass, and sees an event a nap after it was written at the latest.

mod operational;
mod system;

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

use mirage_state::layout::{Event, board_flags, event_kinds};
pub use operational::*;
pub use system::*;

use crate::abi::{EventData, EventDataV1, EventWaitV3, fixed};
use crate::arg::{Out, out};
use crate::code::{Answer, Fault};
use crate::device::Gpu;
use crate::handle::{Handle, Kind};
use crate::session::{self, Session};
use crate::slots::{self, Slot, Turn};

/// GPUs a set can tell apart.
const GPUS: usize = 512;
/// Sets a process can have at once.
const SETS: usize = 128;
/// Between two looks at the ring.
const NAP: Duration = Duration::from_millis(10);
/// NVML's bit for a changed MIG layout.
const MIG_CHANGE: u64 = 0x100;

/// First driver branch that tells of memory errors in more detail.
const MEMORY_EVENTS: u32 = 560;

/// What a set wants of one GPU, and from which event on.
struct Wish {
    kinds: AtomicU64,
    after: AtomicU64,
}

struct Set {
    turn: Turn,
    /// The last event looked at.
    seen: AtomicU64,
    /// The engine that event came from.
    epoch: AtomicU64,
    /// The Xid of the last event handed out, 0 for none.
    xid: AtomicU64,
    wishes: [Wish; GPUS],
}

impl Slot for Set {
    fn turn(&self) -> &Turn {
        &self.turn
    }
}

static ALL: [Set; SETS] = [const {
    Set {
        turn: Turn::new(),
        seen: AtomicU64::new(0),
        epoch: AtomicU64::new(0),
        xid: AtomicU64::new(0),
        wishes: [const {
            Wish {
                kinds: AtomicU64::new(0),
                after: AtomicU64::new(0),
            }
        }; GPUS],
    }
}; SETS];

fn set(handle: Handle) -> Result<&'static Set, Fault> {
    slots::find(&ALL, Kind::EventSet, handle)
}

/// `nvmlEventSetCreate`.
pub fn event_set_create(s: &Session, to: Out<Handle>) -> Answer {
    let reader = s.reader();
    to.set(slots::take(&ALL, Kind::EventSet, |set| {
        set.seen.store(reader.event_head(), SeqCst);
        set.epoch.store(reader.epoch(), SeqCst);
        set.xid.store(0, SeqCst);
        for wish in set.wishes.iter().take(s.gpus()) {
            wish.kinds.store(0, SeqCst);
        }
    })?);
    Ok(())
}

/// `nvmlEventSetFree`.
pub fn event_set_free(_: &Session, handle: Handle) -> Answer {
    slots::give(&ALL, Kind::EventSet, handle)
}

/// Frees every set, of devices and of the system.
pub fn free_all() {
    slots::give_all(&ALL);
    system::free_all();
}

/// Kinds of events a GPU can have.
fn supported(gpu: &Gpu) -> u64 {
    let board = gpu.board();
    let when = |condition, kinds| if condition { kinds } else { 0 };
    let branch = gpu.session.driver().split('.').next().unwrap_or_default();
    let newer = branch
        .parse()
        .is_ok_and(|branch: u32| branch >= MEMORY_EVENTS);
    event_kinds::XID
        | event_kinds::PSTATE
        | event_kinds::CLOCK
        | when(
            gpu.board_has(board_flags::ECC),
            event_kinds::ECC_SINGLE | event_kinds::ECC_DOUBLE,
        )
        | when(board.max_mig_instances > 0, MIG_CHANGE)
        | when(
            gpu.board_has(board_flags::ROW_REMAP),
            event_kinds::RETIREMENT,
        )
        | when(
            newer && gpu.board_has(board_flags::ECC),
            event_kinds::ECC_STORM,
        )
        | when(
            newer && gpu.board_has(board_flags::ROW_REMAP),
            event_kinds::RETIREMENT_FAILED | event_kinds::CONTAINED | event_kinds::UNCONTAINED,
        )
        | when(
            board.architecture >= 7,
            event_kinds::UNAVAILABLE | event_kinds::RECOVERY,
        )
}

/// `nvmlDeviceGetSupportedEventTypes`.
pub fn supported_event_types(gpu: Gpu, to: Out<u64>) -> Answer {
    to.set(supported(&gpu));
    Ok(())
}

/// `nvmlDeviceRegisterEvents`: adds kinds; events from before are not delivered.
pub fn register_events(gpu: Gpu, kinds: u64, handle: Handle) -> Answer {
    let set = set(handle)?;
    if kinds & !supported(&gpu) != 0 {
        return Err(Fault::NotSupported);
    }
    register(set, &gpu, kinds)
}

fn register(set: &Set, gpu: &Gpu, kinds: u64) -> Answer {
    let wish = set
        .wishes
        .get(gpu.index)
        .ok_or(Fault::InsufficientResources)?;
    if wish.kinds.load(SeqCst) == 0 {
        wish.after.store(gpu.session.reader().event_head(), SeqCst);
    }
    wish.kinds.fetch_or(kinds, SeqCst);
    Ok(())
}

/// An event's kind as NVML writes it.
fn kind_of(event: &Event) -> u64 {
    if event.kind == event_kinds::MIG {
        MIG_CHANGE
    } else {
        event.kind
    }
}

/// Takes the next event the set wants, if there is one.
fn next(s: &Session, set: &Set) -> Option<Event> {
    let reader = s.reader();
    let epoch = reader.epoch();
    let new_engine = set.epoch.swap(epoch, SeqCst) != epoch;
    if new_engine {
        // Numbers begin anew, and nothing of this engine was seen yet.
        set.seen.store(0, SeqCst);
        set.wishes
            .iter()
            .take(s.gpus())
            .for_each(|wish| wish.after.store(0, SeqCst));
    }
    loop {
        let seen = set.seen.load(SeqCst);
        let mut found: Option<Event> = None;
        let looked = reader.events_since(seen, |event| {
            let wish = set.wishes.get(event.gpu as usize);
            let wanted = wish.is_some_and(|wish| {
                wish.kinds.load(Relaxed) & kind_of(event) != 0
                    && event.number > wish.after.load(Relaxed)
                    && s.visible().contains(&event.gpu)
            });
            if wanted && found.is_none() {
                found = Some(*event);
            }
        });
        let upto = found.map_or(looked.last, |event| event.number);
        if upto == seen {
            return None;
        }
        // Of several threads that wait on one set, one gets the event.
        if set
            .seen
            .compare_exchange(seen, upto, SeqCst, SeqCst)
            .is_ok()
        {
            if let Some(event) = &found {
                let xid = if event.kind == event_kinds::XID {
                    event.data
                } else {
                    0
                };
                set.xid.store(xid, SeqCst);
            }
            return found;
        }
    }
}

/// Waits for `look` to find something, at most `timeout_ms`.
fn wait<R>(
    timeout_ms: u32,
    mut look: impl FnMut(&Session) -> Result<Option<R>, Fault>,
) -> Result<R, Fault> {
    let end = Instant::now() + Duration::from_millis(timeout_ms.into());
    loop {
        if let Some(found) = session::with(&mut look)? {
            return Ok(found);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Fault::Timeout);
        }
        std::thread::sleep(left.min(NAP));
    }
}

/// `nvmlEventSetWait`: no instance ids, as before MIG, and no room for them.
pub fn event_set_wait(handle: Handle, to: *mut EventDataV1, timeout_ms: u32) -> Answer {
    session::with(|_| Ok(()))?;
    let to = out(to)?;
    let EventData {
        device, kind, data, ..
    } = wait_for_event(handle, timeout_ms)?;
    to.set(EventDataV1 { device, kind, data });
    Ok(())
}

/// `nvmlEventSetWait_v2`.
pub fn event_set_wait_v2(handle: Handle, to: *mut EventData, timeout_ms: u32) -> Answer {
    session::with(|_| Ok(()))?;
    let to = out(to)?;
    to.set(wait_for_event(handle, timeout_ms)?);
    Ok(())
}

fn wait_for_event(handle: Handle, timeout_ms: u32) -> Result<EventData, Fault> {
    wait(timeout_ms, |s| {
        let set = set(handle)?;
        Ok(next(s, set).map(|event| EventData {
            device: s.at(event.gpu as usize).handle(),
            kind: kind_of(&event),
            data: event.data,
            gi: event.gi,
            ci: event.ci,
        }))
    })
}

/// `nvmlEventSetWait_v3`: the device by UUID, and when it happened.
pub fn event_set_wait_v3(handle: Handle, to: *mut EventWaitV3) -> Answer {
    session::with(|_| Ok(()))?;
    let to = out(to)?;
    let timeout_ms = to.get().timeout_ms;
    let data = wait(timeout_ms, |s| {
        let set = set(handle)?;
        Ok(next(s, set).map(|event| {
            let uuid = mirage_state::layout::text(&s.card_record(event.gpu as usize).uuid);
            EventWaitV3 {
                timeout_ms,
                uuid: fixed(uuid),
                source: fixed("nvml"),
                kind: kind_of(&event),
                data: event.data,
                cursor: event.number,
                time_us: event.unix_ms * 1000,
                gi: event.gi,
                ci: event.ci,
                group_size: 1,
                ..EventWaitV3::default()
            }
        }))
    })?;
    to.set(data);
    Ok(())
}
