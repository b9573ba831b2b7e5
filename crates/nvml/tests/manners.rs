//! A guest leaves its host alone: no allocation on the read path, no thread, no signal handler.

#[path = "support/node.rs"]
mod node;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

use nvidia_ml::abi::{FieldValue, Memory, MemoryV2, PciInfo, Process, Temperature, Utilization};
use nvidia_ml::arg::Versioned;
use nvidia_ml::handle::Handle;
use nvidia_ml::*;

/// The system's allocator, counting what this thread asks of it.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.with(|asked| asked.set(asked.get() + 1));
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A line of this process's status.
fn status(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a line of that name");
    line.to_owned()
}

#[test]
fn the_host_notices_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut image = node::idle("h100-sxm5-80gb", 8);
    node::enable_mig(&mut image, 7);
    node::cut(&mut image, 7, "1g.10gb", 9, 0, 0);
    node::start(&mut image, 0, 1, "train", None);
    let state = dir.path().join("state");
    std::fs::write(&state, image.to_bytes().expect("eight GPUs fit")).expect("a file");
    node::see(&state);

    let before = ["Threads:", "SigCgt:", "SigIgn:", "SigBlk:"].map(status);
    assert_eq!(nvmlInit_v2(), 0);
    let mut gpus = [Handle(null_mut()); 8];
    for (index, gpu) in gpus.iter_mut().enumerate() {
        assert_eq!(nvmlDeviceGetHandleByIndex_v2(index as u32, gpu), 0);
    }
    let mut mig = Handle(null_mut());
    assert_eq!(nvmlDeviceGetMigDeviceHandleByIndex(gpus[7], 0, &mut mig), 0);

    let asked = ASKED.with(Cell::get);
    // More than one look at the clock falls into these.
    for _ in 0..100 {
        for gpu in &gpus[..7] {
            read(*gpu);
        }
        let mut memory = Memory::default();
        assert_eq!(nvmlDeviceGetMemoryInfo(mig, &mut memory), 0);
        let mut name = [0; 96];
        assert_eq!(nvmlDeviceGetName(mig, name.as_mut_ptr(), 96), 0);
        assert_eq!(nvmlDeviceGetUUID(mig, name.as_mut_ptr(), 96), 0);
    }
    assert_eq!(ASKED.with(Cell::get), asked, "reading allocates nothing");

    assert_eq!(
        ["Threads:", "SigCgt:", "SigIgn:", "SigBlk:"].map(status),
        before
    );
    assert_eq!(nvmlShutdown(), 0);
}

/// What monitors ask for all day.
fn read(gpu: Handle) {
    let (mut number, mut wide) = (0, 0);
    let mut text = [0; 96];
    let mut memory = MemoryV2 {
        version: MemoryV2::WORD,
        ..MemoryV2::default()
    };
    let mut heat = Temperature {
        version: Temperature::WORD,
        ..Temperature::default()
    };
    let mut fields = [82, 83, 91, 185, 186, 190, 138, 230].map(|id| FieldValue {
        id,
        scope: 0,
        ..FieldValue::default()
    });
    let (mut count, mut processes) = (4, [Process::default(); 4]);
    let codes = [
        nvmlDeviceGetUtilizationRates(gpu, &mut Utilization::default()),
        nvmlDeviceGetMemoryInfo(gpu, &mut Memory::default()),
        nvmlDeviceGetMemoryInfo_v2(gpu, &mut memory),
        nvmlDeviceGetTemperature(gpu, 0, &mut number),
        nvmlDeviceGetTemperatureV(gpu, &mut heat),
        nvmlDeviceGetPowerUsage(gpu, &mut number),
        nvmlDeviceGetClockInfo(gpu, 1, &mut number),
        nvmlDeviceGetPcieThroughput(gpu, 0, &mut number),
        nvmlDeviceGetTotalEnergyConsumption(gpu, &mut wide),
        nvmlDeviceGetTotalEccErrors(gpu, 0, 0, &mut wide),
        nvmlDeviceGetName(gpu, text.as_mut_ptr(), 96),
        nvmlDeviceGetUUID(gpu, text.as_mut_ptr(), 96),
        nvmlDeviceGetPciInfo_v3(gpu, &mut PciInfo::default()),
        nvmlDeviceGetFieldValues(gpu, 8, fields.as_mut_ptr()),
        nvmlDeviceGetComputeRunningProcesses_v3(gpu, &mut count, processes.as_mut_ptr()),
    ];
    assert_eq!(codes, [0; 15]);
}
