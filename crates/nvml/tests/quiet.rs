//! Reading asks nothing of the kernel: every function that only reads is called in a process that the kernel ends at the first
//! system call. And no lock is anywhere in the library or in what it reads with.

#[path = "support/caller.rs"]
mod caller;
#[path = "support/list.rs"]
mod list;
#[path = "support/node.rs"]
mod node;
#[path = "support/object.rs"]
mod object;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use caller::{Buffers, Function, Handles, Library, good, values, walks};
use list::Symbol;

/// Says that this process is the one that reads.
const READER: &str = "MIRAGE_TEST_READER";
/// What the reader ends with when all is well.
const DONE: i32 = 42;
/// ... and when the kernel was built without filters, so that nobody can watch.
const UNWATCHED: i32 = 43;
/// Often enough for many looks at the clock, which come with every fourth call.
const ROUNDS: usize = 5;

/// Functions that read and yet may ask the kernel, each with its reason.
const LOUD: [(&str, &str); 3] = [
    (
        "nvmlSystemGetProcessName",
        "the name of a process that is not simulated is the kernel's to tell",
    ),
    (
        "nvmlDeviceClearCpuAffinity",
        "changes the affinity of the calling thread",
    ),
    (
        "nvmlDeviceSetCpuAffinity",
        "changes the affinity of the calling thread",
    ),
];

/// Whether a function only reads: it neither changes, nor waits, nor makes something of its own.
fn only_reads(symbol: &Symbol) -> bool {
    let makes = ["EventSet", "RegisterEvents", "GpmSampleAlloc"];
    walks(symbol)
        && ["state", "fixed"].contains(&symbol.status.as_str())
        && !makes.iter().any(|part| symbol.name.contains(part))
        && !LOUD.iter().any(|(name, _)| *name == symbol.name)
}

/// A call made ready: nothing is allocated between one and the next.
struct Call {
    name: String,
    function: Function,
    args: [usize; 8],
    /// Buffers it writes to, with the version word each begins with.
    buffers: Vec<(usize, u32)>,
}

impl Call {
    fn new(library: &Library, symbol: &Symbol, handles: &Handles, buffers: &mut Buffers) -> Call {
        let ready = good(symbol, handles, buffers);
        let word = |index: usize| {
            let bytes = buffers.bytes(index);
            (
                index,
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            )
        };
        let mut args = [0; 8];
        args.iter_mut()
            .zip(values(&ready))
            .for_each(|(to, from)| *to = from);
        Call {
            name: format!("{}\n", symbol.name),
            function: library.function(&symbol.name),
            args,
            buffers: ready
                .iter()
                .filter_map(|arg| arg.buffer)
                .map(word)
                .collect(),
        }
    }

    fn run(&self, buffers: &mut Buffers) -> u32 {
        for &(index, word) in &self.buffers {
            buffers.fill(index, 0);
            buffers.set_word(index, word);
        }
        let [a, b, c, d, e, f, g, h] = self.args;
        (self.function)(a, b, c, d, e, f, g, h)
    }
}

/// From here on the kernel ends this process at any system call of this thread but the three that report and end it and the
/// clock's: where the kernel does not serve the clock in user space, that is a system call in every fourth read. Tells whether the
/// kernel can.
fn forbid_system_calls() -> bool {
    let allowed = [
        libc::SYS_write,
        libc::SYS_exit_group,
        libc::SYS_clock_gettime,
    ];
    let code = |code: u32| u16::try_from(code).expect("a code of 16 bits");
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let load = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
    let is = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let answer = code(libc::BPF_RET | libc::BPF_K);
    let last = u8::try_from(allowed.len()).expect("few");
    // The number of the call, compared with each allowed one: the rest is the end.
    let mut steps = vec![step(load, 0, 0, 0)];
    steps.extend(allowed.iter().zip(0..).map(|(&call, at)| {
        step(
            is,
            last - at,
            0,
            u32::try_from(call).expect("a number of a call"),
        )
    }));
    steps.push(step(answer, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    steps.push(step(answer, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).expect("few"),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: plain numbers; the program and its steps live until after the call, and the kernel copies them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    let error = std::io::Error::last_os_error();
    assert!(
        done || error.raw_os_error() == Some(libc::EINVAL),
        "no filter: {error}"
    );
    done
}

/// The reader: calls everything once, then many times with the kernel watching. Does not come back.
fn read_in_silence() -> ! {
    let library = Library::open();
    assert_eq!(library.call("nvmlInit_v2", &[]), 0);
    let handles = Handles::get(&library);
    let mut buffers = Buffers::new();
    let symbols = list::symbols();
    let reads = symbols.iter().filter(|symbol| only_reads(symbol));
    let calls: Vec<Call> = reads
        .map(|symbol| Call::new(&library, symbol, &handles, &mut buffers))
        .collect();
    assert!(calls.len() > 200, "{} functions only read", calls.len());
    for call in &calls {
        call.run(&mut buffers);
    }
    if !forbid_system_calls() {
        std::process::exit(UNWATCHED);
    }
    for _ in 0..ROUNDS {
        for call in &calls {
            // SAFETY: the bytes of a string that outlives the call. Whoever is ended was the last to be named.
            unsafe { libc::write(1, call.name.as_ptr().cast(), call.name.len()) };
            call.run(&mut buffers);
        }
    }
    // SAFETY: ends the process, as nothing else may be asked of the kernel any more.
    unsafe {
        libc::syscall(libc::SYS_exit_group, DONE);
    }
    unreachable!("the process has ended")
}

#[test]
fn reading_makes_no_system_call() {
    if std::env::var_os(READER).is_some() {
        read_in_silence();
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut image = node::idle("h100-sxm5-80gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.10gb", 1, 0, 0);
    node::cut(&mut image, 1, "2g.20gb", 2, 2, 1);
    node::start(&mut image, 0, 4242, "/usr/bin/train", None);
    let state = dir.path().join("state");
    std::fs::write(&state, image.to_bytes().expect("two GPUs fit")).expect("a file");
    let reader = Command::new(std::env::current_exe().expect("a test knows itself"))
        .args(["--exact", "reading_makes_no_system_call", "--nocapture"])
        .env(READER, "1")
        .env("MIRAGE_STATE", &state)
        .env("MIRAGE_DEV", dir.path())
        .env("MIRAGE_VIEW", dir.path().join("no-view"))
        .env_remove("NVIDIA_VISIBLE_DEVICES")
        .env_remove("MIRAGE_VISIBLE_DEVICES")
        .env_remove("MIRAGE_NO_DEFAULT")
        .output()
        .expect("this program starts");
    if reader.status.code() == Some(UNWATCHED) {
        eprintln!("this kernel has no system-call filters: nothing was watched");
        return;
    }
    let said = String::from_utf8_lossy(&reader.stdout);
    let last = said.lines().last().unwrap_or_default();
    assert_ne!(
        reader.status.signal(),
        Some(libc::SIGSYS),
        "{last} made a system call"
    );
    assert_eq!(
        reader.status.code(),
        Some(DONE),
        "after {last}: {}",
        String::from_utf8_lossy(&reader.stderr)
    );
}

#[test]
fn there_is_no_lock_to_wait_for() {
    let locks = [
        "Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock", "pthread_", "flock(",
    ];
    for dir in ["src", "../state/src"] {
        for file in sources(&list::root().join(dir)) {
            let text = std::fs::read_to_string(&file).expect("a source");
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for lock in locks {
                    assert!(
                        !line.contains(lock) || exempt(&file),
                        "{}: {line}",
                        file.display()
                    );
                }
            }
        }
    }
}

/// The writer's side: one engine at a time owns a node, and that is a lock on its file. Tests may lock.
fn exempt(file: &std::path::Path) -> bool {
    let name = file.to_string_lossy();
    [
        "state/src/file.rs",
        "state/src/writer",
        "tests.rs",
        "src/fixture.rs",
    ]
    .iter()
    .any(|part| name.contains(part))
}

fn sources(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("sources");
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}
