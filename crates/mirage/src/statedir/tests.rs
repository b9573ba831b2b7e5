use super::*;

#[test]
fn a_directory_is_held_once_and_left_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let mut held = StateDir::take(&path).unwrap();
    let _listener = held.listen().unwrap();
    let mode = fs::metadata(path.join(SOCKET))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    held.directory("node-a").unwrap();
    held.link("node-a/control.sock", Path::new("../control.sock"))
        .unwrap();

    let refused = StateDir::take(&path).unwrap_err().to_string();
    let pid = std::process::id();
    assert!(
        refused.contains(&format!("in use by process {pid}")),
        "{refused}"
    );

    drop(held);
    assert!(!path.exists());
}

#[test]
fn many_at_once_are_one_at_a_time() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let (holders, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..400 {
                    match StateDir::take(&path) {
                        Ok(held) => {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            assert!(is_at(&held.lock, &path.join(LOCK)));
                            taken.fetch_add(1, Ordering::SeqCst);
                            holders.fetch_sub(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            assert!(error.to_string().contains("is in use by"), "{error:#}")
                        }
                    }
                }
            });
        }
    });
    assert!(taken.into_inner() > 0);
    assert!(!path.join(LOCK).exists());
}

#[test]
fn a_lock_that_is_not_ours_stays() {
    let root = tempfile::tempdir().unwrap();
    let held = StateDir::take(root.path()).unwrap();
    fs::remove_file(root.path().join(LOCK)).unwrap();
    fs::write(root.path().join(LOCK), "another's").unwrap();
    drop(held);
    assert!(root.path().join(LOCK).exists());
}

/// As if the holder had been killed: it lets go of the lock, and everything stays.
fn kill(mut held: StateDir) {
    held.entries.clear();
    held.inherited.clear();
    held.lock = File::open("/dev/null").unwrap();
}

#[test]
fn whoever_comes_after_a_killed_one_tidies_up_for_it() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let start = || StateDir::take(&path).unwrap();
    let mut first = start();
    fs::create_dir(path.join("mine")).unwrap();
    for name in ["node-a", "node-b", "still", "mine", "lib"] {
        let directory = first.directory(name).unwrap();
        fs::write(directory.join(STATE), "").unwrap();
        first
            .link(format!("{name}/control.sock"), Path::new("../control.sock"))
            .unwrap();
    }
    fs::write(path.join("node-b/kept"), "").unwrap();
    kill(first);

    // One after another is killed, and nothing is forgotten.
    kill(start());
    let mut next = start();
    let refused = StateDir::take(&path).unwrap_err().to_string();
    let pid = std::process::id();
    assert!(refused.contains(&format!("by process {pid};")), "{refused}");
    next.directory("still").unwrap();
    next.clear_leftovers();
    assert!(!path.join("node-a").exists() && !path.join("lib").exists());
    assert!(path.join("still/state").exists(), "it is in use again");
    assert!(path.join("mine/state").exists(), "nobody made it");
    let names = fs::read_dir(path.join("node-b")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["kept"], "it is somebody else's");

    fs::remove_dir_all(path.join("mine")).unwrap();
    fs::remove_dir_all(path.join("node-b")).unwrap();
    fs::remove_file(path.join("still/state")).unwrap();
    fs::remove_file(path.join("still/control.sock")).unwrap();
    drop(next);
    assert!(!path.exists(), "the first one made it");
}

#[test]
fn a_node_installed_since_stays() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let mut first = StateDir::take(&path).unwrap();
    let state = first.directory("node-a").unwrap().join(STATE);
    kill(first);
    let image = mirage_state::Image::default();
    fs::write(&state, image.to_bytes().unwrap()).unwrap();
    drop(StateDir::take(&path).unwrap());
    assert!(state.exists());
}

#[test]
fn a_lock_full_of_nonsense_is_taken_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    let path = root.path().join("state");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join(STATE), "").unwrap();
    fs::create_dir(&path).unwrap();
    let text = b"12\n../outside\n/tmp\n\n..\nnode\xff\nlock\n";
    fs::write(path.join(LOCK), text).unwrap();
    drop(StateDir::take(&path).unwrap());
    assert!(outside.join(STATE).exists());
    assert!(path.exists() && !path.join(LOCK).exists());
}

#[test]
fn what_a_killed_process_left_is_cleared() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let leave = |name: &str| fs::write(path.join(name), "").unwrap();
    let make = || {
        fs::create_dir_all(path.join("node-a")).unwrap();
        fs::create_dir_all(path.join("lib")).unwrap();
        leave("lock");
        leave("node-a/state");
        leave("node-a/lock");
        leave("lib/libnvidia-ml.so.1");
    };
    make();
    clear(&path, "node-a");
    assert!(!path.exists());

    make();
    let held = StateDir::take(&path).unwrap();
    clear(&path, "node-a");
    assert!(path.join("node-a/state").exists(), "it is in use");
    drop(held);

    leave("mine");
    leave("node-a/mine");
    clear(&path, "node-a");
    assert!(path.join("mine").exists() && path.join("node-a/mine").exists());
    assert!(!path.join("node-a/state").exists());
    clear(&root.path().join("nowhere"), "node-a");
}

#[test]
fn what_others_made_stays() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("mine"), "").unwrap();
    fs::create_dir(path.join("node-a")).unwrap();
    let mut held = StateDir::take(&path).unwrap();
    held.directory("node-a").unwrap();
    drop(held);
    assert!(path.join("mine").exists());
    assert!(path.join("node-a").exists());
    assert!(!path.join(LOCK).exists());
}

#[test]
fn a_leftover_socket_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(root.path().join(SOCKET)).unwrap());
    let mut held = StateDir::take(root.path()).unwrap();
    held.listen().unwrap();
}

#[test]
fn impossible_places_are_refused_with_the_way_out() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = StateDir::take(&file).unwrap_err().to_string();
    assert!(error.ends_with("is not a directory"), "{error}");
    let error = StateDir::take(&file.join("below")).unwrap_err().to_string();
    assert!(error.contains("--state-dir"), "{error}");
    let deep = root.path().join("x".repeat(120));
    let mut held = StateDir::take(&deep).unwrap();
    let error = held.listen().unwrap_err().to_string();
    assert!(error.contains("107 is the most"), "{error}");
}

#[test]
fn host_names_become_node_names() {
    assert_eq!(node_name("Big_Box.example.org\n"), "big-box");
    assert_eq!(node_name("--\n"), "localhost");
    assert_eq!(node_name(""), "localhost");
}

#[test]
fn only_plain_names_become_directories() {
    assert!(is_plain("node-a.example"));
    for name in ["", ".", "..", "a/b", "/", "lock", "control.sock", ".s"] {
        assert!(!is_plain(name), "{name}");
    }
}
