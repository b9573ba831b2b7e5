//! The library's life in a process: counted init, the state in use, and its replacement when an engine restarts.
//!
//! No lock is held anywhere, so a fork at any moment leaves the child with a working library. A call
//! announces itself in [`CALLS`] before it looks at [`CURRENT`]; a state that is no longer current is given back only
//! when no other call is under way. Two calls racing to replace it are told apart by [`LAST_LOOK`].

use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use mirage_state::{Freshness, clock};

use crate::code::{Answer, Fault};
use crate::guard::hush;
pub use crate::view::Session;

/// Inits not yet undone.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The state in use.
static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// States no longer in use that a call may still read.
static FORMER: AtomicPtr<Session> = AtomicPtr::new(null_mut());
/// Lower half: calls under way. Upper half: calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The coarse clock at the last look at the heartbeat.
static LAST_JUDGED: AtomicU64 = AtomicU64::new(0);
/// `CLOCK_BOOTTIME` of the last look for a newer state.
static LAST_LOOK: AtomicU64 = AtomicU64::new(0);

const ONE_CALL: u64 = 1 << 32;
/// A look at the coarse clock every so many calls, a fifth of a call each: programs that call once a second must miss a dead
/// engine, too.
const CALLS_PER_CLOCK: u64 = 4;
const SECOND_NS: u64 = 1_000_000_000;
/// Between two looks at the heartbeat, which cost more than a call.
const JUDGE_NS: u64 = SECOND_NS / 2;

/// A call under way.
struct Pass {
    number: u64,
}

impl Pass {
    fn new() -> Pass {
        Pass {
            number: CALLS.fetch_add(ONE_CALL + 1, SeqCst) >> 32,
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, SeqCst);
    }
}

/// `nvmlInit` in all its forms. Flag 1 tolerates a machine without GPUs, 2 and 4 concern attaching, which there is
/// nothing to do for; other bits mean nothing.
pub fn init(flags: u32) -> Answer {
    hush();
    if flags & !0b111 != 0 {
        return Err(Fault::InvalidArgument);
    }
    let _pass = Pass::new();
    if CURRENT.load(SeqCst).is_null() {
        install(Session::open()?);
    }
    COUNT.fetch_add(1, SeqCst);
    Ok(())
}

/// `nvmlShutdown`: undoes one init; more often than that changes nothing. True if it was the last.
pub fn shutdown() -> bool {
    let _pass = Pass::new();
    let before = COUNT.fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1));
    let last = before == Ok(1);
    if last {
        replace(null_mut());
    }
    last
}

/// Makes a state the current one unless another thread was faster.
fn install(session: Session) {
    let new = Box::into_raw(Box::new(session));
    if CURRENT
        .compare_exchange(null_mut(), new, SeqCst, SeqCst)
        .is_err()
    {
        // SAFETY: `new` came from `Box::into_raw` just now and was not published.
        drop(unsafe { Box::from_raw(new) });
    }
}

/// Puts `new` in the place of the current state and gives back what nobody reads any more. The caller holds a pass.
fn replace(new: *mut Session) {
    let old = CURRENT.swap(new, SeqCst);
    if !old.is_null() {
        let mut head = FORMER.load(SeqCst);
        loop {
            // SAFETY: `old` was published by `install` or `replace` and nobody else took it out of CURRENT.
            unsafe { (*old).next.store(head, SeqCst) };
            match FORMER.compare_exchange(head, old, SeqCst, SeqCst) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
    }
    let mut former = FORMER.swap(null_mut(), SeqCst);
    if CALLS.load(SeqCst) as u32 != 1 {
        // Somebody else is inside and may read one of them: keep them all for the next time.
        while !former.is_null() {
            // SAFETY: taken off FORMER by this thread alone; its `next` is this thread's until it is back.
            let next = unsafe { (*former).next.load(SeqCst) };
            let mut head = FORMER.load(SeqCst);
            loop {
                // SAFETY: as above.
                unsafe { (*former).next.store(head, SeqCst) };
                match FORMER.compare_exchange(head, former, SeqCst, SeqCst) {
                    Ok(_) => break,
                    Err(now) => head = now,
                }
            }
            former = next;
        }
        return;
    }
    while !former.is_null() {
        // SAFETY: off every list, and the only call under way is this one: a call that began
        // later announced itself after the swap and can only have seen the new state.
        let session = unsafe { Box::from_raw(former) };
        former = session.next.load(SeqCst);
    }
}

/// Runs `body` with the state; 1 before init.
#[inline]
pub fn with<R>(body: impl FnOnce(&Session) -> Result<R, Fault>) -> Result<R, Fault> {
    let pass = Pass::new();
    body(current(&pass)?)
}

/// The state, for as long as the pass lasts. Kept out of line: every exported function begins here.
#[inline(never)]
fn current(pass: &Pass) -> Result<&Session, Fault> {
    if COUNT.load(SeqCst) == 0 {
        return Err(Fault::Uninitialized);
    }
    let now = CURRENT.load(SeqCst);
    // SAFETY: published by `install` or `replace`, and not given back while this call's pass is counted.
    match unsafe { now.as_ref() } {
        Some(session) if !session.is_retired() && !is_due(pass) => Ok(session),
        session => look_again(session),
    }
}

/// Whether this call is the one to look at the heartbeat.
#[inline]
fn is_due(pass: &Pass) -> bool {
    if !pass.number.is_multiple_of(CALLS_PER_CLOCK) {
        return false;
    }
    let now = clock::coarse_ns();
    let last = LAST_JUDGED.load(Relaxed);
    now.saturating_sub(last) >= JUDGE_NS
        && LAST_JUDGED
            .compare_exchange(last, now, Relaxed, Relaxed)
            .is_ok()
}

/// The state after a look at the clock, or after an init that another thread's shutdown undid.
#[cold]
fn look_again(session: Option<&Session>) -> Result<&Session, Fault> {
    match session {
        Some(session) => look(session),
        None => install(Session::open()?),
    }
    // SAFETY: as in `current`.
    unsafe { CURRENT.load(SeqCst).as_ref() }.ok_or(Fault::Uninitialized)
}

/// Runs `body` with the state, opening one for the occasion before init.
pub fn peek<R>(body: impl FnOnce(&Session) -> Result<R, Fault>) -> Result<R, Fault> {
    if COUNT.load(SeqCst) > 0 {
        return with(body);
    }
    body(&Session::open()?)
}

/// Looks at the clock, and for a newer file at most once a second when there may be one.
#[cold]
fn look(session: &Session) {
    let now = clock::boottime_ns();
    let freshness = session.look(now);
    if !matches!(freshness, Freshness::Stale | Freshness::Retired) {
        return;
    }
    let last = LAST_LOOK.load(Relaxed);
    if now.saturating_sub(last) < SECOND_NS
        || LAST_LOOK
            .compare_exchange(last, now, SeqCst, SeqCst)
            .is_err()
    {
        return;
    }
    if let Some(next) = session.successor(freshness) {
        replace(Box::into_raw(Box::new(next)));
    }
}
