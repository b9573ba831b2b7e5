//! Forks while other threads are inside the library: the child has their half-done calls in memory and none of the threads,
//! and must be served all the same.

#[path = "support/node.rs"]
mod node;

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nvidia_ml::handle::Handle;
use nvidia_ml::*;

const THREADS: usize = 3;
const FORKS: usize = 100;
/// A child that takes longer hangs.
const PATIENCE_S: u32 = 20;

/// Init to shutdown; the first code that is none of the good ones.
fn round() -> Result<(), u32> {
    let good = |code| if code == 0 { Ok(()) } else { Err(code) };
    good(nvmlInit_v2())?;
    let mut gpu = Handle(null_mut());
    good(nvmlDeviceGetHandleByIndex_v2(1, &mut gpu))?;
    for _ in 0..20 {
        good(nvmlDeviceGetTemperature(gpu, 0, &mut 0))?;
        let mut count = 0;
        good(nvmlDeviceGetComputeRunningProcesses_v3(
            gpu,
            &mut count,
            null_mut(),
        ))?;
    }
    let mut set = Handle(null_mut());
    good(nvmlEventSetCreate(&mut set))?;
    good(nvmlEventSetFree(set))?;
    good(nvmlShutdown())
}

#[test]
fn a_child_born_in_the_middle_of_calls_is_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let image = node::idle("a100-sxm4-40gb", 2);
    std::fs::write(&state, image.to_bytes().expect("two GPUs fit")).expect("a file");
    node::see(&state);
    let done = AtomicBool::new(false);
    let ends: Vec<i32> = std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    // Sets are few and shared by the threads: none left is no mistake.
                    assert!(matches!(round(), Ok(()) | Err(2 | 23)));
                }
            });
        }
        let ends = (0..FORKS).map(|_| child()).collect();
        done.store(true, Relaxed);
        ends
    });
    assert!(ends.iter().all(|end| *end == 0), "{ends:?}");
}

/// Forks, and waits for what the child's round gives: its exit status as the system tells it.
fn child() -> i32 {
    // SAFETY: the child only makes calls of the library and ends without unwinding or running handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls; the alarm ends a child that hangs.
        unsafe {
            libc::alarm(PATIENCE_S);
            let code = round().err().unwrap_or(0);
            libc::_exit(i32::try_from(code.min(255)).unwrap_or(255));
        }
    }
    assert!(child > 0, "no fork: {}", std::io::Error::last_os_error());
    let mut status = -1;
    // SAFETY: waits for our own child, into a variable of ours.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    status
}
