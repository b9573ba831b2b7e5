//! The border every exported function crosses: pointers are checked, and nothing that goes wrong inside may unwind into a
//! foreign program.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::code::{Answer, Fault, SUCCESS};

/// Runs the body of an exported function.
pub(crate) fn guard(body: impl FnOnce() -> Answer) -> u32 {
    hush();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(fault)) => fault.code(),
        Err(_) => Fault::Unknown.code(),
    }
}

/// Silences panics of this library, whose copy of the standard library is its own. In tests the hook is shared and stays.
fn hush() {
    static ONCE: Once = Once::new();
    if cfg!(not(debug_assertions)) {
        ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    }
}

/// Writes an answer where the caller wants it.
pub(crate) fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(Fault::InvalidValue);
    }
    // SAFETY: not null, and the C contract is that it points to room for a `T`; alignment is not assumed.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// [`put`] for an answer the caller may not want.
pub(crate) fn put_if<T>(to: *mut T, value: T) {
    // NULL means: not wanted.
    let _ = put(to, value);
}

/// Writes as much of a text as fits with its NUL.
pub(crate) fn put_text(to: *mut c_char, len: i32, text: &str) -> Answer {
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(Fault::InvalidValue);
    }
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the caller gives room for `len` bytes; the text and its NUL are at most that many.
    unsafe {
        to.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
        to.add(bytes.len()).write(0);
    }
    Ok(())
}

/// A text the caller gives.
pub(crate) fn take_text<'a>(from: *const c_char) -> Result<&'a CStr, Fault> {
    if from.is_null() {
        return Err(Fault::InvalidValue);
    }
    // SAFETY: not null, and the C contract is a text that ends with NUL and outlives the call.
    Ok(unsafe { CStr::from_ptr(from) })
}
