//! A small node for tests, every kind of record in it.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use crate::{
    layout::{
        Board, Card, ComputeProfile, Container, Event, GpuProfile, Header, Holding, Instance, Live,
        Process, Record, TextRef, event_kinds, fixed,
    },
    node::{Image, Statics},
    words::{self, words_of, zeroed},
};

/// A record whose every word is `number`: a mixture of two of them shows at once.
pub(crate) fn uniform<T: Record>(number: u64) -> T {
    let words = zeroed(words_of::<T>());
    for word in &words {
        word.store(number, Relaxed);
    }
    words::load(&words)
}

/// The number of a uniform record, its first `skip` words aside; `None` if it is torn.
pub(crate) fn number_of<T: Record>(record: &T, skip: usize) -> Option<u64> {
    let mut words = words::words(record).skip(skip);
    let first = words.next()?;
    words.all(|word| word == first).then_some(first)
}

/// A node with `gpus` GPUs of one model, the second in MIG mode, and a busy first one.
pub(crate) fn image(gpus: u32) -> Image {
    let mut heap = Vec::new();
    let mut add = |text: &str| {
        let offset = heap.len() as u32;
        heap.extend_from_slice(text.as_bytes());
        TextRef {
            offset,
            len: text.len() as u32,
        }
    };
    let process_name = add("python3");
    let container = Container {
        namespace: add("team-a"),
        pod: add("train-0"),
        name: add("main"),
        uid: add("5f0c3a4e-0000-4000-8000-000000000001"),
    };
    Image {
        header: Box::new(Header {
            period_ms: 1000,
            tick: 7,
            sim_ms: 7000,
            unix_ms: 1_700_000_007_000,
            event_head: 3,
            cuda_version: 12040,
            mig_strategy: 2,
            node: fixed("node-a"),
            driver: fixed("550.163.01"),
            ..Header::default()
        }),
        statics: Arc::new(Statics {
            boards: vec![Board {
                name: fixed("NVIDIA A100-SXM4-40GB"),
                product: fixed("NVIDIA-A100-SXM4-40GB"),
                key: fixed("a100-sxm4-40gb"),
                max_mig_instances: 7,
                gpu_profile_count: 1,
                ..Board::default()
            }],
            gpu_profiles: vec![GpuProfile {
                name: fixed("1g.5gb"),
                compute_count: 1,
                ..GpuProfile::default()
            }],
            compute_profiles: vec![ComputeProfile {
                name: fixed("1g.5gb"),
                whole: 1,
                ..ComputeProfile::default()
            }],
        }),
        cards: (0..gpus).map(card).collect(),
        lives: (0..gpus)
            .map(|gpu| Live {
                temperature_c: 30 + gpu as i32,
                gpu_percent: gpu * 10,
                energy_mj: 1 << 40,
                ..Live::default()
            })
            .collect(),
        instances: (0..2).map(|index| instance(1, index)).collect(),
        processes: vec![Process {
            name: process_name,
            pid: 4242,
            gi: u32::MAX,
            ci: u32::MAX,
            ..Process::default()
        }],
        containers: vec![container],
        holdings: vec![Holding {
            gi: u32::MAX,
            gpu_percent: 50,
            ..Holding::default()
        }],
        events: (1..=3).map(event).collect(),
        heap,
    }
}

/// The GPU of an index.
pub(crate) fn card(gpu: u32) -> Card {
    Card {
        uuid: fixed(&format!("GPU-{gpu:08x}-1111-4222-8333-444444444444")),
        memory_total: 40 << 30,
        minor: gpu,
        pci_bus: 7 + gpu,
        ..Card::default()
    }
}

/// The MIG device of an index on a GPU.
pub(crate) fn instance(gpu: u32, index: u32) -> Instance {
    Instance {
        uuid: fixed(&format!(
            "MIG-{gpu:04x}{index:04x}-5555-4666-8777-888888888888"
        )),
        gpu,
        gi: 7 + index,
        index,
        ..Instance::default()
    }
}

/// The event of a number.
pub(crate) fn event(number: u64) -> Event {
    Event {
        number,
        kind: event_kinds::XID,
        data: 60 + number,
        unix_ms: 1_700_000_000_000 + number,
        gi: u32::MAX,
        ci: u32::MAX,
        ..Event::default()
    }
}
