use std::{fs, sync::atomic::AtomicU64};

use super::*;
use crate::{
    Image, fixture,
    layout::{Live, TextRef},
    live, seqlock,
    words::store,
};

fn reader_of(image: &Image) -> Reader {
    Reader::from_bytes(&image.to_bytes().unwrap()).unwrap()
}

fn header_seq(reader: &Reader) -> &AtomicU64 {
    reader.header_word(offset_of!(Header, seq))
}

fn record(reader: &Reader, gpu: usize) -> &[AtomicU64] {
    reader
        .sections
        .record(reader.words(), SectionKind::Lives, gpu)
}

#[test]
fn fields_are_read_by_name() {
    let mut image = fixture::image(2);
    image.lives[1].ecc_volatile.corrected_dram = u64::MAX;
    image.lives[1].margin_c = -5;
    let reader = reader_of(&image);
    assert_eq!(live!(reader, 1, margin_c), Some(-5));
    assert_eq!(
        live!(reader, 1, ecc_volatile.corrected_dram),
        Some(u64::MAX)
    );
    assert_eq!(
        live!(
            reader,
            1,
            gpu_percent,
            ecc_volatile.corrected_dram,
            margin_c
        ),
        Some((10, u64::MAX, -5))
    );
    assert_eq!(live!(reader, 2, margin_c), None);
    assert_eq!(live!(reader, u32::MAX, margin_c, gpu_percent), None);
    assert_eq!(reader.live_copy(2), None);
}

#[test]
fn a_record_in_work_is_answered_from_the_last_good_copy() {
    let image = fixture::image(2);
    let reader = reader_of(&image);
    let words = record(&reader, 0);
    let hotter = Live {
        temperature_c: 90,
        gpu_percent: 99,
        ..image.lives[0]
    };
    let odd = seqlock::begin(&words[0]);
    store(words, &hotter, 1);
    assert_eq!(live!(reader, 0, temperature_c, gpu_percent), Some((30, 0)));
    assert_eq!(reader.live_copy(0), Some(image.lives[0]));
    // A single field is never torn, so it is as new as can be; and other GPUs do not care.
    assert_eq!(live!(reader, 0, temperature_c), Some(90));
    assert_eq!(reader.live_copy(1), Some(image.lives[1]));
    seqlock::end(&words[0], odd);
    assert_eq!(live!(reader, 0, temperature_c, gpu_percent), Some((90, 99)));
    // The copy moved on with that read.
    let odd = seqlock::begin(&words[0]);
    assert_eq!(reader.live_copy(0), Some(hotter));
    seqlock::end(&words[0], odd);
}

#[test]
fn a_tick_in_work_is_answered_from_the_last_good_copy() {
    let image = fixture::image(2);
    let reader = reader_of(&image);
    let odd = seqlock::begin(header_seq(&reader));
    let first = reader
        .sections
        .record(reader.words(), SectionKind::Processes, 0);
    first[0].store(99, Relaxed);
    let memory = |r: &Reader| r.tables(|t| t.processes().map(|p| p.memory).sum::<u64>());
    // Twice: the second time it knows that this writer does not move.
    assert_eq!((memory(&reader), memory(&reader)), (Some(0), Some(0)));
    seqlock::end(header_seq(&reader), odd);
    assert_eq!(memory(&reader), Some(99));
    seqlock::begin(header_seq(&reader));
    assert_eq!(memory(&reader), Some(99));
}

#[test]
fn tables_give_records_and_texts() {
    let reader = reader_of(&fixture::image(2));
    let mut out = [0; 64];
    let (count, len) = reader
        .tables(|tables| {
            let container = tables.containers().next().unwrap();
            let len = tables.text(container.pod, &mut out);
            (tables.instances().len(), len)
        })
        .unwrap();
    assert_eq!((count, &out[..len]), (2, &b"train-0"[..]));
    let text = |offset, len, room: usize| {
        let mut out = vec![0; room];
        let at = TextRef { offset, len };
        let copied = reader.tables(|tables| tables.text(at, &mut out)).unwrap();
        out.truncate(copied);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(text(0, 7, 64), "python3");
    assert_eq!(text(7, 6, 3), "tea");
    assert_eq!(text(0, 10_000, 64), "");
    assert_eq!(text(u32::MAX, u32::MAX, 64), "");
    let mig = "MIG-00010001-5555-4666-8777-888888888888";
    assert_eq!(reader.instance(mig).unwrap().index, 1);
    assert!(reader.instance("MIG-none").is_none());
}

#[test]
fn freshness_follows_the_heartbeat() {
    let reader = reader_of(&fixture::image(1));
    let set = |offset, value| reader.header_word(offset).store(value, Relaxed);
    let s = 1_000_000_000;
    assert_eq!(reader.freshness(0), Freshness::Static);
    set(offset_of!(Header, flags), 0);
    assert_eq!(reader.freshness(0), Freshness::Static);
    set(offset_of!(Header, heartbeat_ns), 100 * s);
    for (now, expected) in [
        (100 * s, Freshness::Fresh),
        (105 * s, Freshness::Fresh),
        (105 * s + 1, Freshness::Stale),
        (u64::MAX, Freshness::Stale),
        (99 * s, Freshness::Fresh),
    ] {
        assert_eq!(reader.freshness(now), expected, "{now}");
    }
    set(offset_of!(Header, period_ms), u64::MAX);
    assert_eq!(reader.freshness(u64::MAX), Freshness::Fresh);
    set(offset_of!(Header, flags), header_flags::RETIRED);
    assert_eq!(reader.freshness(100 * s), Freshness::Retired);
}

#[test]
fn a_heartbeat_of_another_boot_does_not_count() {
    assert!(same_boot([1; 16], [1; 16]));
    assert!(!same_boot([1; 16], [2; 16]));
    assert!(same_boot([0; 16], [2; 16]));
    assert!(same_boot([1; 16], [0; 16]));
    let mut reader = reader_of(&fixture::image(1));
    reader
        .header_word(offset_of!(Header, heartbeat_ns))
        .store(5, Relaxed);
    reader
        .header_word(offset_of!(Header, flags))
        .store(0, Relaxed);
    reader.same_boot = false;
    assert_eq!(reader.freshness(5), Freshness::Stale);
}

#[test]
fn files_that_are_no_states_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let why = |path: &Path| Reader::open(path).unwrap_err().to_string();
    assert_eq!(why(&path), format!("opening state file {}", path.display()));
    assert!(why(root.path()).contains("not a regular file"));
    let bytes = fixture::image(1).to_bytes().unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        fs::write(&path, bytes).unwrap();
        why(&path)
    };
    let here = format!("reading state file {}: ", path.display());
    let magic = with(0, b'X');
    assert!(
        magic.starts_with(&format!("{here}byte 0: not a mirage state")),
        "{magic}"
    );
    let major = with(8, 3);
    assert!(
        major.starts_with(&format!("{here}byte 8: unknown major version 3")),
        "{major}"
    );
    for len in [0, 100, 847, 848, 1000, bytes.len() - 1] {
        fs::write(&path, &bytes[..len]).unwrap();
        let why = why(&path);
        assert!(why.starts_with(&here), "{why}");
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(Reader::open(&path).unwrap().gpus(), 1);
    // Far more than any node needs, though none of it is on disk.
    let huge = fs::File::options().write(true).open(&path).unwrap();
    huge.set_len(MOST_BYTES + 1).unwrap();
    assert!(why(&path).contains("more than"));
}

#[test]
fn readers_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Reader>();
}

#[test]
fn a_file_is_remembered_by_its_whole_path() {
    let here = std::env::current_dir().unwrap();
    let golden = Path::new("tests/golden/v1.0.state");
    let reader = Reader::open(golden).unwrap();
    assert_eq!(reader.path(), Some(here.join(golden).as_path()));
    assert!(!reader.is_replaced());
}
