//! A program that counts and describes devices, once per environment: the driver decides at the first `cuInit`, so every
//! case is a process of its own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;

use cuda::*;
use mirage_state::Image;
use mirage_state::layout::{Instance, fixed, flags, text};

/// The program: what it finds, a line each. Run by the tests below, never by itself.
#[test]
#[ignore = "a child of the tests"]
fn program() {
    let mut version = 0;
    println!("> version {} {version}", cuDriverGetVersion(&mut version));
    let mut count = -1;
    println!("> early {}", cuDeviceGetCount(&mut count));
    let code = cuInit(0);
    println!("> init {code}");
    if code != 0 {
        return;
    }
    assert_eq!(cuDeviceGetCount(&mut count), 0);
    println!("> count {count}");
    for ordinal in 0..count {
        let mut device = -1;
        assert_eq!(cuDeviceGet(&mut device, ordinal), 0);
        let mut name = [0 as c_char; 96];
        assert_eq!(cuDeviceGetName(name.as_mut_ptr(), 96, device), 0);
        let mut bus = [0 as c_char; 16];
        assert_eq!(cuDeviceGetPCIBusId(bus.as_mut_ptr(), 16, device), 0);
        let mut memory = 0;
        assert_eq!(cuDeviceTotalMem_v2(&mut memory, device), 0);
        let mut uuid = [0; 16];
        assert_eq!(cuDeviceGetUuid_v2(&mut uuid, device), 0);
        let mut processors = 0;
        assert_eq!(cuDeviceGetAttribute(&mut processors, 16, device), 0);
        let mut back = -1;
        assert_eq!(cuDeviceGetByPCIBusId(&mut back, bus.as_ptr()), 0);
        assert_eq!(back, device);
        let [name, bus] = [name.as_ptr(), bus.as_ptr()].map(|text| {
            // SAFETY: both were written with a NUL by the calls above.
            unsafe { CStr::from_ptr(text) }.to_str().unwrap()
        });
        let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("> {name}|{bus}|{memory}|{hex}|{processors}");
    }
    refuses_nonsense(count);
    println!("> peers of 0{}", peers(count));
}

/// How device 0 reaches each other one: over links, over the bus, not at all.
fn peers(count: i32) -> String {
    (1..count)
        .map(|peer| {
            let (mut can, mut access, mut atomics, mut rank) = (9, 9, 9, 9);
            assert_eq!(cuDeviceCanAccessPeer(&mut can, 0, peer), 0);
            for (id, to) in [(1, &mut rank), (2, &mut access), (3, &mut atomics)] {
                assert_eq!(cuDeviceGetP2PAttribute(to, id, 0, peer), 0);
            }
            assert_eq!((can, rank), (access, 1 - atomics));
            match (access, atomics) {
                (1, 1) => " links",
                (1, 0) => " bus",
                _ => " none",
            }
        })
        .collect()
}

/// What must be refused, and how.
fn refuses_nonsense(count: i32) {
    let mut number = 0;
    let mut address: *mut c_void = null_mut();
    let mut status = 9;
    assert_eq!(cuInit(1), 1);
    assert_eq!(cuDeviceGet(&mut number, count), 101);
    assert_eq!(cuDeviceGet(&mut number, -1), 101);
    assert_eq!(cuDeviceGet(null_mut(), 0), 1);
    assert_eq!(cuDeviceGetName(null_mut(), 10, 0), 1);
    assert_eq!(cuDeviceGetAttribute(&mut number, 0, 0), 1);
    assert_eq!(cuDeviceGetAttribute(&mut number, 9999, 0), 1);
    assert_eq!(cuDeviceGetByPCIBusId(&mut number, c"ff:1f.0".as_ptr()), 101);
    assert_eq!(cuDeviceGetByPCIBusId(&mut number, c"here".as_ptr()), 1);
    assert_eq!(cuCtxGetCurrent(&mut address), 0);
    assert!(address.is_null());
    assert_eq!(cuCtxGetDevice(&mut number), 201);
    let name = c"cuMemAlloc".as_ptr();
    assert_eq!(
        cuGetProcAddress_v2(name, &mut address, 12_000, 0, &mut status),
        0
    );
    assert_eq!(status, 0);
    // SAFETY: the address of `cuMemAlloc_v2(CUdeviceptr*, size_t)`.
    let allocate: extern "C" fn(*mut u64, usize) -> u32 = unsafe { std::mem::transmute(address) };
    assert_eq!(allocate(&mut 0, 1), 801);
    assert_eq!(
        cuGetProcAddress_v2(c"cuNope".as_ptr(), &mut address, 12_000, 0, &mut status),
        0
    );
    assert_eq!((status, address.is_null()), (1, true));
}

/// Runs the program on a node in an environment; what it printed.
fn run(node: &Path, env: &[(&str, &str)]) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "program", "--nocapture"])
        .env_clear()
        .env("MIRAGE_STATE", node)
        .env("MIRAGE_DEV", node.with_file_name("no-nodes"))
        .env("MIRAGE_VIEW", node.with_file_name("no-view"))
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}{told}");
    let lines = printed.lines().filter_map(|line| line.split_once("> "));
    lines.map(|(_, line)| line.to_owned()).collect()
}

/// The built-in node, changed, in a file.
fn node(change: impl FnOnce(&mut Image)) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mut image = mirage_state::built_in().unwrap().snapshot().unwrap();
    change(&mut image);
    let path = dir.path().join("state");
    std::fs::write(&path, image.to_bytes().unwrap()).unwrap();
    (dir, path)
}

#[test]
fn devices_are_the_states_gpus() {
    let mut uuids = Vec::new();
    let mut memory = 0;
    let mut version = String::new();
    let (_dir, path) = node(|image| {
        version = format!("version 0 {}", image.header.cuda_version);
        uuids = image
            .cards
            .iter()
            .map(|c| text(&c.uuid).to_owned())
            .collect();
        let board = &image.statics.boards[0];
        memory = image.cards[0].memory_total - board.memory_reserved;
    });
    let lines = run(&path, &[]);
    assert_eq!(
        lines[..4],
        [version.as_str(), "early 3", "init 0", "count 8"]
    );
    assert_eq!(lines.len(), 13);
    for (line, uuid) in lines[4..12].iter().zip(&uuids) {
        let plain = uuid.trim_start_matches("GPU-").replace('-', "");
        let cells: Vec<&str> = line.split('|').collect();
        assert_eq!(cells[0], "NVIDIA A100-SXM4-40GB");
        assert_eq!(cells[2], memory.to_string());
        assert_eq!(cells[3], plain);
        assert_eq!(cells[4], "108");
    }
    assert!(lines[4].contains("|0000:07:00.0|"), "{}", lines[4]);
}

#[test]
fn lists_narrow_and_order() {
    let (_dir, path) = node(|_| {});
    let all = run(&path, &[]);
    let some = run(&path, &[("CUDA_VISIBLE_DEVICES", "3,1")]);
    assert_eq!(some[4..6], [all[7].clone(), all[5].clone()]);
    // The container's view comes first, and CUDA counts within it.
    let env = [
        ("NVIDIA_VISIBLE_DEVICES", "2,5"),
        ("CUDA_VISIBLE_DEVICES", "1"),
    ];
    assert_eq!(run(&path, &env)[4..5], [all[9].clone()]);
    let none = run(&path, &[("CUDA_VISIBLE_DEVICES", "")]);
    assert_eq!(none.last().unwrap(), "init 100");
}

#[test]
fn a_machine_without_a_driver_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing");
    assert_eq!(run(&path, &[]), ["version 100 0", "early 3", "init 100"]);
    std::fs::write(&path, b"not a state").unwrap();
    assert_eq!(run(&path, &[]), ["version 100 0", "early 3", "init 100"]);
}

#[test]
fn lost_gpus_are_not_counted() {
    let (_dir, path) = node(|image| image.lives[0].flags |= flags::LOST);
    assert_eq!(run(&path, &[])[3], "count 7");
}

/// NVML decides by the same rule: see `mirage_state::links`.
#[test]
fn peers_are_those_that_links_or_a_bus_join() {
    let (_dir, path) = node(|_| {});
    let line = |path: &Path| run(path, &[]).pop().unwrap();
    assert_eq!(
        line(&path),
        format!("peers of 0{}", " links".repeat(7)),
        "all over switches"
    );
    // GPU 1 is of the same processor, GPU 7 of the other.
    let (_dir, path) = node(|image| {
        image.lives[1].nvlink_up = 0;
        image.lives[7].nvlink_up = 0;
    });
    let others = " links".repeat(5);
    assert_eq!(line(&path), format!("peers of 0 bus{others} none"));
}

#[test]
fn a_mig_device_is_a_device() {
    let uuid = "MIG-01234567-89ab-cdef-0123-456789abcdef";
    let (_dir, path) = node(|image| {
        image.lives[0].flags |= flags::MIG;
        let board = &image.statics.boards[0];
        let first = board.gpu_profile_first;
        let profile = &image.statics.gpu_profiles[first as usize];
        image.instances.push(Instance {
            uuid: fixed(uuid),
            gpu_profile: first,
            compute_profile: profile.compute_first,
            gi: 7,
            ..Instance::default()
        });
    });
    let lines = run(&path, &[("CUDA_VISIBLE_DEVICES", uuid)]);
    let cells: Vec<&str> = lines[4].split('|').collect();
    assert_eq!(lines[3], "count 1");
    assert_eq!(cells[0], "NVIDIA A100-SXM4-40GB MIG 1g.5gb");
    assert_eq!(cells[2], (4864_u64 << 20).to_string());
    assert_eq!(cells[3], "0123456789abcdef0123456789abcdef");
    assert_eq!(cells[4], "14");
    // Without a list the whole GPUs count, and the one in MIG mode does not.
    assert_eq!(run(&path, &[])[3], "count 7");
}
