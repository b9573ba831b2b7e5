//! What NVML calls cost, for any libnvidia-ml.so: `mirage-nvml-bench PATH`. Prints `key<TAB>value` lines; each value is the best of
//! several rounds, since everything else on the machine can only make a round slower. `mirage-nvml-bench PATH N` waits for N
//! Xids instead and says when each comes.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::time::Instant;

type Device = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type Handle = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type OneWord = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type TwoWords = unsafe extern "C" fn(Device, *mut [c_uint; 2]) -> c_int;
type Memory = unsafe extern "C" fn(Device, *mut [u64; 3]) -> c_int;
type Temperature = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;
type Clock = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;
type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Register = unsafe extern "C" fn(Device, u64, *mut c_void) -> c_int;
type Wait = unsafe extern "C" fn(*mut c_void, *mut [u64; 4], c_uint) -> c_int;
type Fields = unsafe extern "C" fn(Device, c_int, *mut Field) -> c_int;

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Field {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    code: c_uint,
    value: u64,
}

/// Ids a monitor asks for: memory temperature, energy, PCIe replays, NVLink count, power average and instant, limits.
const FIELDS: [c_uint; 8] = [82, 83, 94, 91, 185, 186, 187, 188];
const ROUNDS: usize = 9;
const CALLS: u32 = 200_000;

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: mirage-nvml-bench PATH-OF-libnvidia-ml.so [EVENTS]");
        std::process::exit(2);
    };
    let path = CString::new(path).expect("a path has no NUL");
    let before = private_kib();
    let begin = Instant::now();
    // SAFETY: a NUL-terminated path; the object is never closed.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if std::env::args().nth(2).is_none() {
        report("nvml-dlopen", begin.elapsed().as_secs_f64() * 1e6);
    }
    assert!(!library.is_null(), "dlopen of {path:?} gave nothing");

    // SAFETY: the types above are those of the public header.
    unsafe {
        let init: Init = std::mem::transmute(symbol(library, c"nvmlInit_v2".as_ptr()));
        let begin = Instant::now();
        assert_eq!(init(), 0, "nvmlInit_v2");
        if let Some(events) = std::env::args().nth(2) {
            return wait(library, events.parse().expect("a number of events"));
        }
        report("nvml-init", begin.elapsed().as_secs_f64() * 1e6);
        report("nvml-private", private_kib().saturating_sub(before) as f64);
        measure(library);
    }
}

/// # Safety
/// `library` is an NVML library that was initialised.
unsafe fn measure(library: *mut c_void) {
    // SAFETY: the types above are those of the public header; every pointer passed below is to a live local.
    unsafe {
        let handle: Handle =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetHandleByIndex_v2".as_ptr()));
        let utilization: TwoWords =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetUtilizationRates".as_ptr()));
        let memory: Memory =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetMemoryInfo".as_ptr()));
        let temperature: Temperature =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetTemperature".as_ptr()));
        let power: OneWord =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetPowerUsage".as_ptr()));
        let clock: Clock = std::mem::transmute(symbol(library, c"nvmlDeviceGetClockInfo".as_ptr()));
        let fields: Fields =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetFieldValues".as_ptr()));

        let mut devices = [std::ptr::null_mut(); 8];
        for (index, device) in devices.iter_mut().enumerate() {
            assert_eq!(handle(index as c_uint, device), 0, "handle {index}");
        }
        let device = devices[0];
        let (mut one, mut two, mut three) = (0, [0; 2], [0; 3]);
        let mut eight = FIELDS.map(|id| Field {
            id,
            ..Field::default()
        });

        report(
            "nvml-utilization",
            best(CALLS, || utilization(device, &mut two)) * 1e9,
        );
        report(
            "nvml-memory",
            best(CALLS, || memory(device, &mut three)) * 1e9,
        );
        report(
            "nvml-temperature",
            best(CALLS, || temperature(device, 0, &mut one)) * 1e9,
        );
        report("nvml-power", best(CALLS, || power(device, &mut one)) * 1e9);
        report(
            "nvml-fields",
            best(CALLS / 4, || fields(device, 8, eight.as_mut_ptr())) * 1e9,
        );
        let sweep = || {
            let mut code = 0;
            for device in devices {
                code |= utilization(device, &mut two) | memory(device, &mut three);
                code |= temperature(device, 0, &mut one) | power(device, &mut one);
                code |= clock(device, 1, &mut one) | clock(device, 2, &mut one);
                code |= fields(device, 8, eight.as_mut_ptr());
            }
            code
        };
        report("nvml-sweep", best(CALLS / 20, sweep) * 1e6);
    }
}

/// Says `waiting` once registered for the Xids of every GPU, and `woken` for each that comes.
///
/// # Safety
/// `library` is an NVML library that was initialised.
unsafe fn wait(library: *mut c_void, events: usize) {
    const XID: u64 = 8;
    const PATIENCE_MS: c_uint = 60_000;
    // SAFETY: the types above are those of the public header; every pointer passed below is to a live local.
    unsafe {
        let create: Create = std::mem::transmute(symbol(library, c"nvmlEventSetCreate".as_ptr()));
        let register: Register =
            std::mem::transmute(symbol(library, c"nvmlDeviceRegisterEvents".as_ptr()));
        let handle: Handle =
            std::mem::transmute(symbol(library, c"nvmlDeviceGetHandleByIndex_v2".as_ptr()));
        let wait: Wait = std::mem::transmute(symbol(library, c"nvmlEventSetWait_v2".as_ptr()));
        let mut set = std::ptr::null_mut();
        assert_eq!(create(&mut set), 0, "nvmlEventSetCreate");
        let mut device = std::ptr::null_mut();
        for index in 0.. {
            if handle(index, &mut device) != 0 {
                break;
            }
            assert_eq!(register(device, XID, set), 0, "registering GPU {index}");
        }
        println!("waiting");
        for _ in 0..events {
            let mut data = [0; 4];
            assert_eq!(wait(set, &mut data, PATIENCE_MS), 0, "nvmlEventSetWait_v2");
            println!("woken");
        }
    }
}

/// Seconds per call, in the best round.
fn best(calls: u32, mut call: impl FnMut() -> c_int) -> f64 {
    assert_eq!(call(), 0, "a call that is measured succeeds");
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..calls {
            std::hint::black_box(call());
        }
        best = best.min(begin.elapsed().as_secs_f64() / f64::from(calls));
    }
    best
}

/// # Safety
/// `library` came from `dlopen`.
unsafe fn symbol(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: a live handle and a NUL-terminated name.
    let found = unsafe { libc::dlsym(library, name) };
    assert!(!found.is_null(), "a symbol is missing");
    found
}

fn report(key: &str, value: f64) {
    println!("{key}\t{value:.2}");
}

/// Private memory of this process.
fn private_kib() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let lines = smaps.lines().filter(|line| line.starts_with("Private_"));
    lines
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}
