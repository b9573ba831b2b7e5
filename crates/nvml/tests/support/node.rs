//! Nodes for the tests: described as a user would, published as the engine does.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use mirage::publish::{self, Clock};
use mirage_model::config::{self, Defaults};
use mirage_sim::World;
use mirage_state::Image;
use mirage_state::layout::{Instance, Process, TextRef, fixed, flags, process_kinds, valid};

/// `gpus` boards of a model, idle.
pub(crate) fn idle(model: &str, gpus: u32) -> Image {
    let text = format!("nodes:\n  node: {{ model: {model}, gpus: {gpus} }}\n");
    let loaded = config::load(&text, "test node", &Defaults::default());
    let plan = loaded.unwrap_or_else(|problems| panic!("{problems}")).plan;
    let clock = Clock {
        start_unix_ms: 1_700_000_000_000,
        // Longer than any test takes: a slow machine must not make the state stale.
        period: Duration::from_secs(3600),
        epoch: 1,
    };
    let world = World::new(&plan);
    let mut image = (*publish::images(&plan, clock)[0]).clone();
    publish::refresh(&mut image, &plan, &world, 0, clock);
    image
}

/// Switches MIG mode of a GPU on: its utilisation, engines and NVLink are no longer told.
pub(crate) fn enable_mig(image: &mut Image, gpu: usize) {
    let live = &mut image.lives[gpu];
    live.flags |= flags::MIG | flags::MIG_PENDING;
    let engines = valid::ENCODER | valid::DECODER | valid::JPEG | valid::OFA;
    live.valid &= !(valid::UTILIZATION | valid::NVLINK | engines);
}

/// Cuts a GPU instance with one compute instance that fills it; `slot` numbers the MIG devices of the GPU.
pub(crate) fn cut(image: &mut Image, gpu: u32, profile: &str, gi: u32, start: u32, slot: u32) {
    let board = &image.statics.boards[image.cards[gpu as usize].board as usize];
    let first = board.gpu_profile_first;
    let profiles = image.statics.gpu_profiles.iter().enumerate();
    let mut mine = profiles
        .skip(first as usize)
        .take(board.gpu_profile_count as usize);
    let (at, found) = mine
        .find(|(_, found)| mirage_state::layout::text(&found.name) == profile)
        .expect("the board has the profile");
    let compute = image.statics.compute_profiles.iter().enumerate();
    let (whole, _) = compute
        .skip(found.compute_first as usize)
        .take(found.compute_count as usize)
        .find(|(_, compute)| compute.whole != 0)
        .expect("every profile can be filled");
    image.instances.push(Instance {
        uuid: fixed(&format!(
            "MIG-00000000-0000-4000-8000-0000000{gpu:02}{gi:03}"
        )),
        memory_used: 1 << 30,
        gpu,
        gi,
        ci: 0,
        gpu_profile: at as u32,
        compute_profile: whole as u32,
        start,
        compute_start: 0,
        index: slot,
        ..Instance::default()
    });
}

/// Starts a compute process.
pub(crate) fn start(
    image: &mut Image,
    gpu: u32,
    pid: u32,
    name: &str,
    instance: Option<(u32, u32)>,
) {
    let at = TextRef {
        offset: image.heap.len() as u32,
        len: name.len() as u32,
    };
    image.heap.extend_from_slice(name.as_bytes());
    let (gi, ci) = instance.unwrap_or((u32::MAX, u32::MAX));
    image.processes.push(Process {
        memory: 3 << 30,
        start_ms: 1_700_000_000_000,
        name: at,
        pid,
        gpu,
        gi,
        ci,
        kind: process_kinds::COMPUTE,
        sm_percent: 40,
        memory_percent: 10,
        container: u32::MAX,
        peak_mib: 4096,
        average_percent: 35,
        ..Process::default()
    });
}

/// Makes this process see the state at a path, and nothing of the machine it runs on. Call it before anything else.
pub(crate) fn see(state: &Path) {
    let empty = state.parent().unwrap_or(Path::new("/nowhere"));
    let set = |name: &str, value: &OsStr| {
        // SAFETY: the test is the only one in its process, and no thread of it reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    };
    set("MIRAGE_STATE", state.as_os_str());
    set("MIRAGE_DEV", empty.as_os_str());
    set("MIRAGE_VIEW", empty.join("no-view").as_os_str());
    for name in [
        "NVIDIA_VISIBLE_DEVICES",
        "MIRAGE_VISIBLE_DEVICES",
        "MIRAGE_NO_DEFAULT",
    ] {
        // SAFETY: as above.
        unsafe { std::env::remove_var(name) };
    }
}
