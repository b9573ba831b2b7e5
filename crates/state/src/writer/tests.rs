use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    thread,
};

use super::*;
use crate::{
    Freshness, LOCK, Reader,
    fixture::{self, number_of, uniform},
    layout::{Instance, Live, Process, SectionKind},
    live, seqlock,
};

/// A directory that does not exist yet, and what removes it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("mirage/node-a");
    (root, dir)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The image a reader sees, as the writer gave it.
fn seen(reader: &Reader) -> Image {
    let mut image = reader.snapshot().unwrap();
    let given = fixture::image(1);
    image.header = Box::new(Header {
        tick: image.header.tick,
        event_head: image.header.event_head,
        ..*given.header
    });
    image
}

fn reason(dir: &Path) -> String {
    NodeDir::open(dir).unwrap_err().to_string()
}

#[test]
fn a_published_node_is_read_as_it_was_written() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    let image = fixture::image(3);
    node.publish(&image).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    assert_eq!(seen(&reader), image);
    assert_eq!(reader.cards(), &image.cards[..]);
    assert_eq!(mode(&node.path()), 0o444);
    assert_eq!(mode(&dir), 0o755);
    assert_eq!(mode(dir.parent().unwrap()), 0o755);
    let pid = fs::read_to_string(dir.join(LOCK)).unwrap();
    assert_eq!(pid, format!("{}\n", std::process::id()));
    // At the beginning of time no heartbeat is late.
    assert_eq!(reader.freshness(0), Freshness::Fresh);
}

#[test]
fn a_tick_reaches_open_readers() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    let mut image = fixture::image(2);
    // The first update is a publication.
    node.update(&image).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    image.header.tick += 1;
    image.lives[1].temperature_c = 77;
    image.instances.remove(0);
    image.processes.push(Process::default());
    image.heap.extend_from_slice(b"more");
    node.update(&image).unwrap();
    assert_eq!(live!(reader, 1, temperature_c), Some(77));
    assert_eq!(reader.tick(), 8);
    assert_eq!(seen(&reader), image);
    assert!(!reader.is_replaced());
    let seq = |gpu| live!(reader, gpu, seq).unwrap();
    assert_eq!((seq(0), seq(1)), (0, 2), "a GPU at rest is not rewritten");
}

#[test]
fn what_does_not_fit_gets_a_new_file() {
    type Change = fn(&mut Image);
    let changes: [(&str, Change); 6] = [
        ("processes", |i| {
            i.processes.resize(5000, Process::default())
        }),
        ("instances", |i| {
            i.instances.resize(5000, Instance::default())
        }),
        ("text", |i| i.heap.resize(1 << 20, b'x')),
        ("driver", |i| i.header.driver[0] = b'6'),
        ("cards", |i| i.cards = (1..3).map(fixture::card).collect()),
        ("events that start over", |i| {
            i.events.truncate(1);
            i.header.event_head = 1;
        }),
    ];
    for (what, change) in changes {
        let (_root, dir) = place();
        let mut node = NodeDir::open(&dir).unwrap();
        let mut image = fixture::image(2);
        node.publish(&image).unwrap();
        let old = Reader::open(&node.path()).unwrap();
        let before = old.snapshot();
        change(&mut image);
        node.update(&image).unwrap();
        assert_eq!(old.freshness(0), Freshness::Retired, "{what}");
        assert!(old.is_replaced(), "{what}");
        let new = Reader::open(&node.path()).unwrap();
        assert_eq!(new.epoch(), old.epoch(), "{what}");
        let image_seen = new.snapshot().unwrap();
        assert_eq!(image_seen.processes.len(), image.processes.len(), "{what}");
        assert_eq!(image_seen.cards, image.cards, "{what}");
        assert_eq!(image_seen.heap, image.heap, "{what}");
        assert_eq!(image_seen.events, image.events, "{what}");
        // The old mapping still answers, with what it last said.
        let after = old.snapshot();
        assert_eq!(after.unwrap().lives, before.unwrap().lives, "{what}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "{what}");
        // And the new one has room again.
        node.update(&image).unwrap();
        assert!(!new.is_replaced(), "{what}");
    }
}

#[test]
fn a_bad_image_leaves_the_good_file() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    let image = fixture::image(2);
    node.publish(&image).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    let mut bad = image.clone();
    bad.lives.pop();
    assert!(matches!(node.update(&bad), Err(Error::Image(_))));
    assert!(!reader.is_replaced());
    assert_eq!(seen(&reader), image);
    node.update(&image).unwrap();
    assert_eq!(reader.freshness(0), Freshness::Fresh);
}

#[test]
fn a_second_writer_is_refused_by_name() {
    let (_root, dir) = place();
    let first = NodeDir::open(&dir).unwrap();
    let me = std::process::id();
    assert_eq!(
        reason(&dir),
        format!(
            "locking {}: process {me} already writes it; stop that process or use another directory",
            dir.display()
        )
    );
    drop(first);
    NodeDir::open(&dir).unwrap();
}

#[test]
fn removal_leaves_things_as_they_were() {
    let (root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    node.publish(&fixture::image(1)).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    node.remove().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    assert_eq!(reader.freshness(0), Freshness::Retired);
    assert!(reader.is_replaced());
    assert_eq!(live!(reader, 0, temperature_c), Some(30));
    // What others put there stays, and so does what stood there before.
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("theirs"), "").unwrap();
    drop(NodeDir::open(&dir).unwrap());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn a_file_put_in_our_place_is_not_ours_to_remove() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    node.publish(&fixture::image(1)).unwrap();
    let state = node.path();
    fs::remove_file(&state).unwrap();
    fs::write(&state, "theirs").unwrap();
    drop(node);
    assert_eq!(fs::read(&state).unwrap(), b"theirs");
}

#[test]
fn unfit_paths_are_refused_with_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let real = root.join("real");
    fs::create_dir(&real).unwrap();
    fs::write(root.join("file"), "").unwrap();
    symlink(&real, root.join("link")).unwrap();
    symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    let said = |path: &Path, what: &str| {
        let why = reason(path);
        assert!(why.contains(what), "{why}");
        assert!(why.contains(path.to_str().unwrap()), "{why}");
    };
    said(&root.join("link"), "symbolic link");
    said(&root.join("dangling"), "symbolic link");
    said(&root.join("file"), "not a directory");
    said(&root.join("file/below"), "looking at");
    said(Path::new(""), "empty path");
    said(Path::new("/proc/no-such-directory"), "creating directory");

    let state = real.join(STATE);
    fs::write(&state, "my own notes").unwrap();
    said(&real, "not a mirage state file");
    assert_eq!(fs::read(&state).unwrap(), b"my own notes");
    fs::remove_file(&state).unwrap();
    symlink(root.join("file"), &state).unwrap();
    said(&real, "symbolic link");
    fs::remove_file(&state).unwrap();
    fs::create_dir(&state).unwrap();
    said(&real, "not a regular file");
    fs::remove_dir(&state).unwrap();
    let lock = real.join(LOCK);
    symlink(root.join("file"), &lock).unwrap();
    said(&real, "symbolic link");
    fs::remove_file(&lock).unwrap();
    // None of the refusals left anything behind.
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

#[test]
fn lost_bytes_are_nobodys() {
    for bytes in [&[][..], &[0; 4], &[0; 4096]] {
        let (_root, dir) = place();
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(STATE), bytes).unwrap();
        let mut node = NodeDir::open(&dir).unwrap();
        node.publish(&fixture::image(1)).unwrap();
        Reader::open(&node.path()).unwrap();
    }
}

#[test]
fn drafts_of_the_dead_are_replaced() {
    let (_root, dir) = place();
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(".state.new"), "half").unwrap();
    let mut node = NodeDir::open(&dir).unwrap();
    node.publish(&fixture::image(1)).unwrap();
    drop(node);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn events_pass_through_the_ring() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    let mut image = fixture::image(1);
    node.publish(&image).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    let mut read = Vec::new();
    let mut last = reader.events_since(0, |event| read.push(*event));
    assert_eq!((read.len(), last.last, last.lost), (3, 3, 0));
    // The image keeps only its newest few, as an engine's ring does.
    for number in 4..=600 {
        image.events = (number - 2..=number).map(fixture::event).collect();
        image.header.event_head = number;
        node.update(&image).unwrap();
        if number == 4 {
            last = reader.events_since(last.last, |event| read.push(*event));
            assert_eq!((read.len(), last.last, last.lost), (4, 4, 0));
        }
    }
    assert!(!reader.is_replaced());
    let all = reader.events_since(last.last, |event| read.push(*event));
    assert_eq!((all.last, all.lost), (600, 600 - 4 - 256));
    assert_eq!(read.len(), 4 + 256);
    assert_eq!(read[4], fixture::event(345));
    assert_eq!(*read.last().unwrap(), fixture::event(600));
    // Up to date, and ahead of what there is.
    for after in [600, 601, u64::MAX] {
        let none = reader.events_since(after, |_| panic!("an event from the future"));
        assert_eq!((none.last, none.lost), (600, 0));
    }
}

/// What the child of the next test does; in any other run it does nothing.
#[test]
fn the_writer_to_be_killed() {
    let Some(dir) = std::env::var_os("MIRAGE_TEST_KILLED_WRITER") else {
        return;
    };
    let say = |what: &str| {
        println!("\n{what}");
        std::io::stdout().flush().unwrap();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
    };
    let mut node = NodeDir::open(Path::new(&dir)).unwrap();
    node.publish(&fixture::image(2)).unwrap();
    say("published");
    let current = node.current.as_ref().unwrap();
    let words = current.map.words();
    seqlock::begin(&words[word_of(offset_of!(Header, seq))]);
    let live = current.sections.record(words, SectionKind::Lives, 0);
    seqlock::begin(&live[0]);
    words::store(&live[..20], &uniform::<Live>(9), 1);
    say("in the middle");
    unreachable!("it is killed while it waits");
}

#[test]
fn a_writer_killed_in_the_middle_is_survived() {
    let (_root, dir) = place();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "writer::tests::the_writer_to_be_killed",
            "--nocapture",
        ])
        .env("MIRAGE_TEST_KILLED_WRITER", &dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut wait_for = |what: &str| assert!(lines.any(|line| line.unwrap() == what), "{what}");
    wait_for("published");
    let state = dir.join(STATE);
    let early = Reader::open(&state).unwrap();
    let why = reason(&dir);
    assert!(why.contains(&format!("process {}", child.id())), "{why}");
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    wait_for("in the middle");
    child.kill().unwrap();
    child.wait().unwrap();

    // Who was there before answers everything, from its last good copies.
    let image = fixture::image(2);
    assert_eq!(early.live_copy(0), Some(image.lives[0]));
    assert_eq!(seen(&early), image);
    // Who comes late answers all but what is half-written.
    let late = Reader::open(&state).unwrap();
    assert_eq!(late.live_copy(0), None);
    assert_eq!(late.live_copy(1), Some(image.lives[1]));
    assert_eq!(live!(late, 0, temperature_c), Some(30));
    assert_eq!(live!(late, 0, valid), Some(9));
    assert_eq!(late.cards(), &image.cards[..]);
    assert!(late.snapshot().is_none());
    assert_eq!(late.events_since(0, |_| ()).last, 3);
    let much_later = clock::boottime_ns() + 60_000_000_000;
    assert_eq!(late.freshness(much_later), Freshness::Stale);

    // The next writer takes over, and nothing half-written is left in sight.
    let mut node = NodeDir::open(&dir).unwrap();
    assert_eq!(late.flags() & header_flags::RETIRED, 0);
    node.publish(&image).unwrap();
    assert_eq!(late.freshness(0), Freshness::Retired);
    assert_eq!(early.freshness(0), Freshness::Retired);
    assert_eq!(mode(&state), 0o444);
    let fresh = Reader::open(&state).unwrap();
    assert!(fresh.epoch() > late.epoch());
    assert_eq!(seen(&fresh), image);
    assert_eq!(fresh.live_copy(0), Some(image.lives[0]));
}

/// A tick in which everything carries the same number.
fn uniform_tick(image: &mut Image, number: u64) {
    image.header.tick = number;
    image.lives.fill(uniform(number));
    image.instances.fill(uniform(number));
    image.processes.truncate(0);
    image
        .processes
        .resize((number % 5) as usize, uniform(number));
    image.heap = number.to_ne_bytes().repeat(4);
}

/// Readers of a file whose writer never rests: what they are given is of one tick. The readers'
/// counts bound it, and what is checked holds under every schedule.
#[test]
fn no_reader_of_a_file_ever_sees_a_torn_tick() {
    let (_root, dir) = place();
    let mut node = NodeDir::open(&dir).unwrap();
    let mut image = fixture::image(4);
    uniform_tick(&mut image, 0);
    node.publish(&image).unwrap();
    let reader = Reader::open(&node.path()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Relaxed) {
                number += 1;
                uniform_tick(&mut image, number);
                node.update(&image).unwrap();
            }
            number
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for turn in 0..20_000_u32 {
                        let gpu = turn % 4;
                        if let Some(live) = reader.live_copy(gpu) {
                            assert!(number_of(&live, 1).is_some(), "torn: {live:?}");
                        }
                        if let Some((a, b)) = live!(reader, gpu, valid, energy_mj) {
                            assert_eq!(a, b);
                        }
                        if turn % 100 == 0
                            && let Some(image) = reader.snapshot()
                        {
                            let number = image.header.tick;
                            let same = |n: Option<u64>| assert_eq!(n, Some(number));
                            image.lives.iter().for_each(|r| same(number_of(r, 1)));
                            image.instances.iter().for_each(|r| same(number_of(r, 0)));
                            image.processes.iter().for_each(|r| same(number_of(r, 0)));
                            assert_eq!(image.processes.len() as u64, number % 5);
                            assert_eq!(image.heap, number.to_ne_bytes().repeat(4));
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        stop.store(true, Relaxed);
        let written = writer.join().unwrap();
        for reader in readers {
            reader.unwrap();
        }
        // Undisturbed, everybody is answered, and with the last word.
        assert_eq!(reader.snapshot().unwrap().header.tick, written);
        let live = reader.live_copy(3).unwrap();
        assert_eq!(number_of(&live, 1), Some(written));
    });
}
