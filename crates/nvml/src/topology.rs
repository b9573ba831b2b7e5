//! Who is near whom: GPUs to each other, to processors and to memory.

use std::ffi::c_ulong;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use mirage_state::layout::board_flags;
use mirage_state::links::Path;

use crate::arg::{List, Out};
use crate::code::{Answer, Fault};
use crate::device::Gpu;
use crate::handle::Handle;
use crate::nvlink;
use crate::session::Session;

/// Levels of the PCI topology, as NVML numbers them.
const INTERNAL: u32 = 0;
const MULTIPLE: u32 = 20;
const HOSTBRIDGE: u32 = 30;
const NODE: u32 = 40;
const SYSTEM: u32 = 50;
const LEVELS: [u32; 6] = [INTERNAL, 10, MULTIPLE, HOSTBRIDGE, NODE, SYSTEM];

/// What two GPUs have in common: their board; a pair of switches (GPUs come in pairs); a host bridge or NUMA
/// node; the machine.
pub fn common_level(one: &Gpu, other: &Gpu) -> u32 {
    let (a, b) = (one.card(), other.card());
    if one.index == other.index || a.board_id == b.board_id {
        INTERNAL
    } else if a.numa != b.numa {
        SYSTEM
    } else if one.index / 2 == other.index / 2 {
        MULTIPLE
    } else if a.numa < 0 {
        HOSTBRIDGE
    } else {
        NODE
    }
}

/// `nvmlDeviceGetTopologyCommonAncestor`.
pub fn topology_common_ancestor(one: Gpu, other: Gpu, out: Out<u32>) -> Answer {
    out.set(common_level(&one, &other));
    Ok(())
}

/// `nvmlDeviceGetTopologyNearestGpus`: those exactly that far away.
pub fn topology_nearest_gpus(gpu: Gpu, level: u32, count: Out<u32>, to: *mut Handle) -> Answer {
    if !LEVELS.contains(&level) {
        return Err(Fault::InvalidArgument);
    }
    let near = |other: &Gpu| other.index != gpu.index && common_level(&gpu, other) == level;
    fill(gpu.session, count, to, near)
}

/// Fills as much as there is room for; without room, tells the number.
fn fill(s: &Session, count: Out<u32>, to: *mut Handle, wanted: impl Fn(&Gpu) -> bool) -> Answer {
    let room = count.get();
    if to.is_null() && room != 0 {
        return Err(Fault::InvalidArgument);
    }
    let mut list = List::sizing(count, to);
    let gpus = s.visible().iter().map(|&gpu| s.at(gpu as usize));
    let most = if room == 0 { usize::MAX } else { room as usize };
    gpus.filter(wanted)
        .take(most)
        .for_each(|gpu| list.push(gpu.handle()));
    // Asking for the number is no error here.
    match list.finish() {
        Err(Fault::InsufficientSize) if room == 0 => Ok(()),
        answer => answer,
    }
}

/// `nvmlSystemGetTopologyGpuSet`: the GPUs near a processor.
pub fn topology_gpu_set(s: &Session, cpu: u32, count: Out<u32>, to: *mut Handle) -> Answer {
    if cpu >= processors() {
        return Err(Fault::InvalidArgument);
    }
    fill(s, count, to, |gpu| {
        let (first, end) = cpus(gpu);
        (first..end).contains(&cpu)
    })
}

/// `nvmlDeviceGetP2PStatus`: whether one reaches the other's memory at all, over NVLink, or over the bus.
pub fn p2p_status(one: Gpu, other: Gpu, index: u32, out: Out<u32>) -> Answer {
    const OK: u32 = 0;
    const NOT_SUPPORTED: u32 = 5;
    if one.index == other.index {
        return Err(Fault::InvalidArgument);
    }
    let path = nvlink::neighbour(&one).path_to(&nvlink::neighbour(&other));
    let works = match index {
        0 | 1 => path.is_some(),
        2 | 3 => matches!(path, Some(Path::Links(_))),
        4 => path == Some(Path::Bus),
        _ => return Err(Fault::InvalidArgument),
    };
    out.set(if works { OK } else { NOT_SUPPORTED });
    Ok(())
}

/// Processors of this machine, asked for once: what is configured does not change.
fn processors() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    match COUNT.load(Relaxed) {
        0 => {
            // SAFETY: a plain question to the C library.
            let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
            let count = u32::try_from(count).unwrap_or(1).max(1);
            COUNT.store(count, Relaxed);
            count
        }
        count => count,
    }
}

/// The processors near a GPU: this machine's, dealt out over the simulated NUMA nodes.
fn cpus(gpu: &Gpu) -> (u32, u32) {
    let all = processors();
    let numa = gpu.card().numa;
    let cards = gpu.session.reader().cards();
    let nodes = cards
        .iter()
        .map(|card| card.numa + 1)
        .max()
        .unwrap_or(1)
        .max(1) as u32;
    if numa < 0 || all < nodes {
        return (0, all);
    }
    let (numa, each) = (numa as u32, all / nodes);
    (
        numa * each,
        if numa + 1 == nodes {
            all
        } else {
            (numa + 1) * each
        },
    )
}

/// Writes a set of `first..end` as bits of `words` machine words.
fn bits(to: Out<c_ulong>, words: u32, first: u32, end: u32) {
    for word in 0..words {
        let start = word.saturating_mul(c_ulong::BITS);
        let within = (0..c_ulong::BITS).filter(|bit| (first..end).contains(&(start + bit)));
        to.nth(word as usize)
            .set(within.fold(0, |set, bit| set | 1 << bit));
    }
}

/// Words the caller has; hostile sizes are cut to what is sensible.
fn sized(words: u32) -> Result<u32, Fault> {
    const MOST: u32 = 4096;
    if words == 0 {
        Err(Fault::InvalidArgument)
    } else {
        Ok(words.min(MOST))
    }
}

/// `nvmlDeviceGetCpuAffinity`.
pub fn cpu_affinity(gpu: Gpu, words: u32, to: Out<c_ulong>) -> Answer {
    let (first, end) = cpus(&gpu);
    bits(to, sized(words)?, first, end);
    Ok(())
}

/// `nvmlDeviceGetCpuAffinityWithinScope`: a socket is a node.
pub fn cpu_affinity_within_scope(gpu: Gpu, words: u32, to: Out<c_ulong>, _: u32) -> Answer {
    cpu_affinity(gpu, words, to)
}

/// `nvmlDeviceGetMemoryAffinity`.
pub fn memory_affinity(gpu: Gpu, words: u32, to: Out<c_ulong>, _: u32) -> Answer {
    let node = gpu.card().numa.max(0) as u32;
    bits(to, sized(words)?, node, node + 1);
    Ok(())
}

/// `nvmlDeviceGetNumaNodeId`: the node the GPU's own memory is, on superchips.
pub fn numa_node_id(gpu: Gpu, out: Out<u32>) -> Answer {
    if !gpu.board_has(board_flags::C2C_ENABLED) {
        return Err(Fault::NotSupported);
    }
    // Processors come first; each GPU then brings eight nodes, for itself and its instances.
    let cards = gpu.session.reader().cards();
    let sockets = cards
        .iter()
        .map(|card| card.numa + 1)
        .max()
        .unwrap_or(1)
        .max(1) as u32;
    out.set(sockets + 8 * gpu.index as u32);
    Ok(())
}

/// `nvmlDeviceSetCpuAffinity`: moves the calling thread to the processors near the GPU.
pub fn set_cpu_affinity(gpu: Gpu) -> Answer {
    let (first, end) = cpus(&gpu);
    pin(first, end)
}

/// `nvmlDeviceClearCpuAffinity`: lets it run everywhere again.
pub fn clear_cpu_affinity(_: Gpu) -> Answer {
    pin(0, processors())
}

fn pin(first: u32, end: u32) -> Answer {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in first..end.min(libc::CPU_SETSIZE as u32) {
        // SAFETY: `cpu` is below the size of the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: the set is initialised and its size given; 0 is the calling thread.
    let answer =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    // A thread kept away from all of these processors cannot be moved to them.
    if answer == 0 {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// The level `nvidia-smi topo -m` is told: 0–4 for the bus, 4 + n for n NVLinks.
pub fn matrix_level(one: &Gpu, other: &Gpu) -> u32 {
    const MOST_LINKS: u32 = 18;
    match nvlink::links_between(one, other) {
        0 => match common_level(one, other) {
            INTERNAL | 10 => 0,
            MULTIPLE => 1,
            HOSTBRIDGE => 2,
            NODE => 3,
            _ => 4,
        },
        links => 4 + links.min(MOST_LINKS),
    }
}
