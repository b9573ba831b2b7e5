//! Init and shutdown, a state that is replaced under a client, forks, and the node nobody described.

use nvidia_ml::abi::{Memory, Process, ProcessUtilization, SystemSetRequest};
use nvidia_ml::arg::Versioned;

use super::*;

fn with(name: &str, value: &str) {
    // SAFETY: tests of this process run one after another, and none reads the environment in a thread.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn a_state_that_is_not_there_is_a_driver_that_is_not_loaded() {
    let client = Client::without_init(&node::idle("t4", 1));
    with(
        "MIRAGE_STATE",
        &client.path("elsewhere").display().to_string(),
    );
    assert_eq!(nvmlInit_v2(), 9);
    assert_eq!(
        number(|to| nvmlDeviceGetCount_v2(to)),
        Err(1),
        "it stays uninitialised"
    );
    std::fs::write(client.path("elsewhere"), [0; 4096]).expect("a file");
    assert_eq!(nvmlInit_v2(), 9);
}

#[test]
fn another_major_version_is_a_mismatch() {
    let image = node::idle("t4", 1);
    let client = Client::without_init(&image);
    let mut bytes = image.to_bytes().expect("one GPU fits");
    bytes[8] = 0x7F;
    std::fs::write(client.path("newer"), bytes).expect("a file");
    with("MIRAGE_STATE", &client.path("newer").display().to_string());
    assert_eq!(nvmlInit_v2(), 18);
}

#[test]
fn a_restarted_engine_is_followed() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    image.lives[0].sm_mhz = 1410;
    image.lives[0].gpu_percent = 90;
    let mut client = Client::of(&image);
    let gpu = gpu(0);
    assert_eq!(number(|to| nvmlDeviceGetClockInfo(gpu, 1, to)), Ok(1410));
    client
        .writer
        .take()
        .expect("an engine runs")
        .remove()
        .expect("it leaves nothing");
    // Gone: the board idles on.
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(1));
    let idle = image.statics.boards[0].sm_idle_mhz;
    assert_eq!(number(|to| nvmlDeviceGetClockInfo(gpu, 1, to)), Ok(idle));
    assert!(number(|to| nvmlDeviceGetTemperature(gpu, 0, to)).is_ok());
    image.lives[0].sm_mhz = 1234;
    let mut writer = NodeDir::open(client.dir.path()).expect("the directory is free again");
    writer.publish(&image).expect("room for a state");
    client.writer = Some(writer);
    // Looked for at most once a second, however often asked.
    let followed = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        number(|to| nvmlDeviceGetClockInfo(gpu, 1, to)) == Ok(1234)
    });
    assert!(followed, "the new state is found");
}

#[test]
fn a_killed_engine_is_missed_by_those_who_seldom_call() {
    let mut image = node::idle("a100-sxm4-40gb", 1);
    image.lives[0].sm_mhz = 1410;
    // Its heartbeat counts for two seconds and three of these.
    image.header.period_ms = 1;
    let _client = Client::of(&image);
    let gpu = gpu(0);
    let idle = image.statics.boards[0].sm_idle_mhz;
    let missed = (0..20).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        number(|to| nvmlDeviceGetClockInfo(gpu, 1, to)) == Ok(idle)
    });
    assert!(missed, "within 20 calls");
}

#[test]
fn what_ran_ended_with_its_engine() {
    let mut image = node::idle("h100-sxm5-80gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.10gb", 1, 0, 0);
    image.instances[0].sm_active_ppm = 400_000;
    node::start(&mut image, 0, 4242, "train", None);
    node::start(&mut image, 1, 77, "infer", Some((1, 0)));
    let mut client = Client::of(&image);
    let (whole, cut) = (gpu(0), gpu(1));
    let (mut part, mut sample) = (handle(), handle());
    assert_eq!(nvmlDeviceGetMigDeviceHandleByIndex(cut, 0, &mut part), 0);
    assert_eq!(nvmlGpmSampleAlloc(&mut sample), 0);
    let seen = || {
        let processes = [whole, cut, part].map(|device| {
            let mut list = [Process::default(); 2];
            let count = |to: *mut u32| {
                // SAFETY: the caller passes a number of its own.
                unsafe { to.write(2) };
                nvmlDeviceGetComputeRunningProcesses_v3(device, to, list.as_mut_ptr())
            };
            number(count)
        });
        let mut memory = Memory::default();
        assert_eq!(nvmlDeviceGetMemoryInfo(part, &mut memory), 0);
        let (mut busy, mut count) = ([ProcessUtilization::default(); 2], 2);
        let news = nvmlDeviceGetProcessUtilization(whole, busy.as_mut_ptr(), &mut count, 0);
        (processes, memory.used, news)
    };
    assert_eq!(seen(), ([Ok(1); 3], 1 << 30, 0));
    client
        .writer
        .take()
        .expect("an engine runs")
        .remove()
        .expect("it leaves nothing");
    assert_eq!(seen(), ([Ok(0); 3], 0, 6));
    assert_eq!(nvmlGpmMigSampleGet(cut, 1, sample), 0);
    let mut request = GpmOfOne::new(sample, 2);
    assert_eq!(nvmlGpmMetricsGet(&mut request.head), 0);
    assert_eq!((request.metric.code, request.metric.value), (0, 0.0));
}

#[test]
fn a_forked_child_goes_on() {
    let image = node::idle("a100-sxm4-40gb", 2);
    let _client = Client::of(&image);
    let device = gpu(1);
    // SAFETY: the child calls only this library, which takes no lock, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: should the child hang, the kernel ends it and the test fails.
        unsafe { libc::alarm(120) };
        let mut value = 0;
        let mut wrong = nvmlDeviceGetTemperature(device, 0, &mut value) != 0;
        wrong |= nvmlDeviceGetCount_v2(&mut value) != 0 || value != 2;
        wrong |= nvmlShutdown() != 0 || nvmlDeviceGetCount_v2(&mut value) != 1;
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(wrong.into()) };
    }
    let mut status = -1;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(2));
}

#[test]
fn the_built_in_node_has_eight_gpus() {
    let client = Client::without_init(&node::idle("t4", 1));
    // SAFETY: tests of this process run one after another, and none reads the environment in a thread.
    unsafe { std::env::remove_var("MIRAGE_STATE") };
    // A machine that runs mirage for real has a node of its own.
    if mirage_state::lookup::find() != mirage_state::lookup::Source::BuiltIn {
        return;
    }
    client.init();
    assert_eq!(number(|to| nvmlDeviceGetCount_v2(to)), Ok(8));
    let name = words(|to, room| nvmlDeviceGetName(gpu(7), to, room));
    assert_eq!(name.as_deref(), Ok("NVIDIA A100-SXM4-40GB"));
    assert_eq!(nvmlDeviceSetPersistenceMode(gpu(0), 1), 4);
}

#[test]
fn the_last_shutdown_gives_back_what_was_not_freed() {
    let client = Client::of(&node::idle("h100-sxm5-80gb", 1));
    let (mut set, mut sample) = (handle(), handle());
    for round in 0..2500 {
        assert_eq!(nvmlEventSetCreate(&mut set), 0, "round {round}");
        assert_eq!(nvmlGpmSampleAlloc(&mut sample), 0, "round {round}");
        let mut request = SystemSetRequest {
            version: SystemSetRequest::WORD,
            ..SystemSetRequest::default()
        };
        assert_eq!(nvmlSystemEventSetCreate(&mut request), 0, "round {round}");
        assert_eq!(nvmlShutdown(), 0);
        client.init();
    }
    assert_eq!(nvmlEventSetFree(set), 2, "it went with the shutdown");
    assert_eq!(nvmlGpmSampleFree(sample), 2);
    // A shutdown that is not the last one takes nothing.
    assert_eq!(nvmlEventSetCreate(&mut set), 0);
    client.init();
    assert_eq!(nvmlShutdown(), 0);
    assert_eq!(nvmlEventSetFree(set), 0);
}
