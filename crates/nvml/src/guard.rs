//! The border every exported function crosses: nothing that goes wrong inside may unwind into a
//! foreign program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::code::{Answer, Fault};
use crate::session::{self, Session};

/// Runs the body of an exported function that may be called at any time.
pub fn guard(body: impl FnOnce() -> Answer) -> u32 {
    let answer = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Fault::Unknown));
    match answer {
        Ok(()) => 0,
        Err(fault) => fault.code(),
    }
}

/// Runs the body of an exported function that needs an initialised library.
#[inline]
pub fn enter(body: impl FnOnce(&Session) -> Answer) -> u32 {
    guard(|| session::with(body))
}

/// Silences panics of this library, which become code 999: a guest writes nothing to its host's stderr. Other panics go
/// where they went, as a Rust program that links this crate has its own. Builds for development stay loud.
pub fn hush() {
    static ONCE: Once = Once::new();
    if cfg!(debug_assertions) || std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !panic.location().is_some_and(|place| is_ours(place.file())) {
                others(panic);
            }
        }));
    });
}

/// Whether a source file belongs to this library.
fn is_ours(file: &str) -> bool {
    ["crates/nvml/", "crates/state/"]
        .iter()
        .any(|ours| file.contains(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(guard(|| panic!("a defect")), 999);
        assert_eq!(guard(|| Ok(())), 0);
        assert_eq!(guard(|| Err(Fault::NotFound)), 6);
    }

    #[test]
    fn only_this_librarys_panics_are_silenced() {
        assert!(is_ours(file!()));
        assert!(!is_ours("crates/mirage/src/main.rs"));
    }
}
