//! What rendering costs: `cargo bench -p mirage-metrics`. Prints numbers, asserts nothing. Times are CPU times of this
//! thread, so that a busy machine does not look like slow code.

#[path = "../tests/pages/fixture.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod fixture;

use std::hint::black_box;

use mirage_metrics::{Exporter, Identity, Options, Selection};
use mirage_state::Image;
use rustix::time::{ClockId, clock_gettime};

/// Nodes of the fleet; the promise is about this many.
const NODES: usize = 10_000;

fn main() {
    let node = fixture::busy(0);
    let fleet: Vec<Image> = (0..NODES).map(fixture::busy).collect();
    for name in ["dcgm", "fake-gpu-operator", "nvidia-gpu-exporter", "xpum"] {
        let identity = Identity::by_name(name).expect("a shipped identity");
        let options = Options {
            pods: true,
            any_vendor: true,
            ..Options::default()
        };
        let exporter = Exporter::new(&identity, &Selection::default_set(), options)
            .expect("a shipped identity compiles");
        one_node(name, &exporter, &node);
        many_nodes(name, &exporter, &fleet);
    }
}

/// Seconds this thread has run. /proc tells the same, but only as of the last tick of the kernel.
fn clock() -> f64 {
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    ran.tv_sec as f64 + ran.tv_nsec as f64 / 1e9
}

fn one_node(name: &str, exporter: &Exporter, image: &Image) {
    let mut out = Vec::new();
    let rounds = 5_000;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = clock();
        for _ in 0..rounds / 5 {
            out.clear();
            exporter.render_node(&black_box(image.node()), &mut out);
        }
        best = best.min((clock() - start) / f64::from(rounds / 5));
    }
    promise(name, "render-8", best * 1e6);
    println!(
        "{name}: 8 GPUs, {} bytes, {:.1} µs, {:.0} MB/s",
        out.len(),
        best * 1e6,
        out.len() as f64 / best / 1e6
    );
}

fn many_nodes(name: &str, exporter: &Exporter, fleet: &[Image]) {
    let mut buffer = Vec::new();
    let mut bytes = 0;
    let start = clock();
    let mut chunks = exporter.chunks(fleet.iter().map(Image::node));
    while chunks.next_into(&mut buffer) {
        bytes += black_box(&buffer).len();
    }
    let seconds = clock() - start;
    promise(name, "render-rate", bytes as f64 / seconds / 1e6);
    println!(
        "{name}: {} nodes, {bytes} bytes, {:.0} ms, {:.0} MB/s",
        fleet.len(),
        seconds * 1e3,
        bytes as f64 / seconds / 1e6
    );
}

/// What `cargo xtask bench` reads: a line of key and value for the identity that docs/spec.md promises.
fn promise(name: &str, key: &str, value: f64) {
    if name == "dcgm" {
        println!("{key}\t{value:.2}");
    }
}
