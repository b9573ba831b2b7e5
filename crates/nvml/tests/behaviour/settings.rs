//! Setters: what is refused at once, what is sent to the engine, and what its answer becomes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use super::*;

/// Answers one request after another with the given lines and returns what was asked.
pub(super) fn engine(
    listener: UnixListener,
    answers: Vec<&'static str>,
) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let answer = |line: &str| {
            let (stream, _) = listener.accept().expect("a client");
            let mut asked = String::new();
            BufReader::new(&stream)
                .read_line(&mut asked)
                .expect("a line");
            writeln!(&stream, "{line}").expect("the client listens");
            asked
        };
        answers.into_iter().map(answer).collect()
    })
}

#[test]
fn without_an_engine_nothing_is_permitted() {
    let image = node::idle("a100-sxm4-40gb", 1);
    let _client = Client::of(&image);
    let gpu = gpu(0);
    assert_eq!(nvmlDeviceSetPersistenceMode(gpu, 1), 4);
    assert_eq!(nvmlDeviceSetMigMode(gpu, 1, &mut 0), 4);
    // What cannot be is refused before it is asked.
    assert_eq!(nvmlDeviceSetPowerManagementLimit(gpu, 1), 2);
    assert_eq!(nvmlDeviceSetApplicationsClocks(gpu, 1, 1), 2);
    assert_eq!(nvmlDeviceSetGpuLockedClocks(gpu, 1000, 500), 2);
    assert_eq!(nvmlDeviceSetFanSpeed_v2(gpu, 0, 50), 3, "no fan");
    assert_eq!(nvmlDeviceSetPersistenceMode(gpu, 7), 2);
}

#[test]
fn the_engine_is_asked_in_its_words() {
    let mut image = node::idle("a100-sxm4-40gb", 2);
    node::enable_mig(&mut image, 1);
    node::cut(&mut image, 1, "1g.5gb", 7, 0, 0);
    let client = Client::of(&image);
    let listener = UnixListener::bind(client.path("control.sock")).expect("a socket");
    let answers = vec![
        "{\"code\":0}",
        "{\"code\":4,\"error\":\"not today\"}",
        "{\"code\":0,\"activation\":16}",
        "{\"code\":0,\"activation\":19}",
        "{\"code\":0,\"gi\":7}",
        "nonsense",
    ];
    let engine = engine(listener, answers);
    let uuid = mirage_state::layout::text(&image.cards[0].uuid);
    assert_eq!(nvmlDeviceSetPowerManagementLimit(gpu(0), 250_000), 0);
    assert_eq!(nvmlDeviceSetPersistenceMode(gpu(0), 0), 4);
    let mut activation = 0;
    assert_eq!(nvmlDeviceSetMigMode(gpu(0), 1, &mut activation), 0);
    assert_eq!(activation, 16);
    assert_eq!(nvmlDeviceSetMigMode(gpu(0), 0, &mut activation), 0);
    assert_eq!(activation, 19, "taken, and the GPU is in use");
    let (mut made, mut known) = (handle(), handle());
    assert_eq!(nvmlDeviceCreateGpuInstance(gpu(1), 19, &mut made), 0);
    assert_eq!(nvmlDeviceGetGpuInstanceById(gpu(1), 7, &mut known), 0);
    assert_eq!(made, known);
    assert_eq!(nvmlDeviceSetAccountingMode(gpu(0), 1), 999);
    let asked = engine.join().expect("the engine ends");
    let wanted = [
        format!(
            "{{\"op\":\"nvml\",\"call\":\"set_power_limit\",\"gpu\":\"{uuid}\",\"mw\":250000}}\n"
        ),
        format!(
            "{{\"op\":\"nvml\",\"call\":\"set_persistence\",\"gpu\":\"{uuid}\",\"on\":false}}\n"
        ),
        format!("{{\"op\":\"nvml\",\"call\":\"set_mig\",\"gpu\":\"{uuid}\",\"on\":true}}\n"),
    ];
    assert_eq!(asked[..3], wanted);
    assert!(
        asked[4].ends_with("\"profile\":0,\"start\":null}\n"),
        "{}",
        asked[4]
    );
}

#[test]
fn whoever_may_not_use_the_socket_may_read_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt;
    const NOBODY: u32 = 65534;
    let client = Client::of(&node::idle("b200-sxm6-180gb", 1));
    let socket = client.path("control.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    // It listens to the end: a process that gets through to it waits for an answer, and is told of a timeout.
    let _listens = listener.try_clone().expect("the same socket");
    // SAFETY: asks for a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mode = if is_root { 0o600 } else { 0o000 };
    if is_root {
        let engine = engine(listener, vec!["{\"code\":0}"]);
        assert_eq!(nvmlDeviceSetPersistenceMode(gpu(0), 1), 0);
        engine.join().expect("the engine ends");
    }
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(mode)).expect("it is ours");
    let gpu = gpu(0);
    // SAFETY: the child only makes calls of the library, which is as good after a fork, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain numbers; the child gives up what it may do, as a user's process never had it.
        let dropped = !is_root || unsafe { libc::setgid(NOBODY) == 0 && libc::setuid(NOBODY) == 0 };
        let wrong = if dropped { as_nobody(gpu) } else { 99 };
        // SAFETY: ends the child at once, without what the test program does at its end.
        unsafe { libc::_exit(wrong) };
    }
    assert!(child > 0, "no fork: {}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: the child just made, and a number of this frame.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "status {status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "the number of the wrong call");
}

/// The first call that is not answered as an unprivileged process sees it, counted from 1; 0 for none.
fn as_nobody(gpu: Handle) -> i32 {
    let mut mask = nvidia_ml::abi::UpdateProfiles::default();
    mask.mask[0] = 1;
    let codes = [
        (nvmlDeviceGetTemperature(gpu, 0, &mut 0), 0),
        (nvmlDeviceGetPowerUsage(gpu, &mut 0), 0),
        (nvmlDeviceGetPersistenceMode(gpu, &mut 0), 0),
        (nvmlDeviceSetPersistenceMode(gpu, 1), 4),
        (nvmlDeviceSetPowerManagementLimit(gpu, 500_000), 4),
        (nvmlDeviceSetGpuLockedClocks(gpu, 500, 900), 4),
        (nvmlDeviceResetGpuLockedClocks(gpu), 4),
        (nvmlDeviceSetEccMode(gpu, 1), 4),
        (nvmlDeviceClearEccErrorCounts(gpu, 0), 4),
        (nvmlDeviceSetComputeMode(gpu, 3), 4),
        (nvmlDeviceSetAccountingMode(gpu, 1), 4),
        (nvmlDeviceSetMigMode(gpu, 1, &mut 0), 4),
        (
            nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(gpu, &mut mask),
            4,
        ),
        // What cannot be is refused as such all the same.
        (nvmlDeviceSetPowerManagementLimit(gpu, 1), 2),
        (nvmlDeviceSetFanSpeed_v2(gpu, 0, 50), 3),
    ];
    let wrong = codes.iter().position(|(found, wanted)| found != wanted);
    wrong.map_or(0, |at| at as i32 + 1)
}

extern "C" fn do_nothing(_: libc::c_int) {}

#[test]
fn a_signal_does_not_undo_a_change_that_was_made() {
    let client = Client::of(&node::idle("a100-sxm4-40gb", 1));
    let listener = UnixListener::bind(client.path("control.sock")).expect("a socket");
    // SAFETY: a handler that does nothing, for a signal nobody else uses here.
    unsafe { libc::signal(libc::SIGUSR1, do_nothing as *const () as libc::sighandler_t) };
    // SAFETY: asks for a number.
    let caller = unsafe { libc::pthread_self() };
    let engine = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut asked = String::new();
        BufReader::new(&stream)
            .read_line(&mut asked)
            .expect("a line");
        // The caller has nothing left to do but to wait for the answer: all but the first of these meet it there.
        for _ in 0..50 {
            // SAFETY: the caller's thread lives until this one has ended.
            unsafe { libc::pthread_kill(caller, libc::SIGUSR1) };
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        // A caller that gave up no longer listens, which its code tells.
        let _ = writeln!(&stream, "{{\"code\":0}}");
    });
    let code = nvmlDeviceSetPersistenceMode(gpu(0), 1);
    engine.join().expect("the engine ends");
    assert_eq!(code, 0);
}
