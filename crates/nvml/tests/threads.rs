//! Threads that init, read and shut down at the same time: whoever has inited is served, and nobody reads what is gone.

#[path = "support/node.rs"]
mod node;

use std::ptr::null_mut;

use nvidia_ml::handle::Handle;
use nvidia_ml::*;

const THREADS: usize = 4;
const ROUNDS: usize = 200;
const READS: usize = 20;

fn round() {
    assert_eq!(nvmlInit_v2(), 0);
    let mut gpu = Handle(null_mut());
    assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &mut gpu), 0);
    let mut value = 0;
    for _ in 0..READS {
        assert_eq!(nvmlDeviceGetTemperature(gpu, 0, &mut value), 0);
        let mut name = [0; 96];
        assert_eq!(nvmlDeviceGetName(gpu, name.as_mut_ptr(), 96), 0);
    }
    assert_eq!(nvmlShutdown(), 0);
}

#[test]
fn inits_reads_and_shutdowns_may_cross() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let image = node::idle("a100-sxm4-40gb", 2);
    std::fs::write(&state, image.to_bytes().expect("two GPUs fit")).expect("a file");
    node::see(&state);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..ROUNDS).for_each(|_| round()));
        }
    });
    assert_eq!(nvmlDeviceGetCount_v2(&mut 0), 1, "all inits are undone");
}
