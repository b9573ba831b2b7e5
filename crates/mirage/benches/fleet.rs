//! What a large fleet costs: one tick of 10,000 nodes × 8 GPUs with mixed load, its memory, and an hour of a small node.
//! Prints `key<TAB>value` lines; times are on-CPU times of this one thread, so other programs do not count.

use std::time::Duration;

use mirage::engine::{Core, Files};
use mirage_model::config::demo;
use rustix::time::{ClockId, clock_gettime};

const NODES: u32 = 10_000;
const GPUS: u32 = 8;
const TICKS: usize = 15;

fn main() {
    hour();
    let before = resident_bytes();
    let mut core = core(NODES);
    // The demo's loads start over the first seconds; buffers find their size.
    for _ in 0..5 {
        core.tick();
    }
    let mut times: Vec<f64> = (0..TICKS)
        .map(|_| {
            let begin = on_cpu();
            core.tick();
            (on_cpu() - begin).as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    report("tick-80k", times[TICKS / 2]);
    let grown = resident_bytes().saturating_sub(before);
    report("memory-per-gpu", grown as f64 / f64::from(NODES * GPUS));
    drop(core);
}

/// An hour of one node, every tick published.
fn hour() {
    let begin = on_cpu();
    let mut core = core(1);
    for _ in 0..3600 {
        core.tick();
    }
    report("hour-8", (on_cpu() - begin).as_secs_f64());
}

fn core(nodes: u32) -> Core {
    let plan = demo("node", "a100-sxm4-40gb", GPUS, nodes, 7)
        .expect("the demo fits every catalogue model");
    Core::new(plan, 1.0, 0, 1, Files::default())
}

fn report(key: &str, value: f64) {
    println!("{key}\t{value:.3}");
}

/// Time this thread has run. /proc tells the same, but only as of the last tick of the kernel.
fn on_cpu() -> Duration {
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(ran.tv_sec as u64, ran.tv_nsec as u32)
}

fn resident_bytes() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux tells the resident set");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.expect("VmRSS is a number") * 1024
}
