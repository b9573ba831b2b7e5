use std::{fs, path::Path};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::{
    Reader,
    fixture::{self, uniform},
    layout::{TextRef, header_flags, text},
    live,
};

/// What a header gains by becoming a file.
fn without_file(mut image: Image) -> Image {
    let own = Header::default();
    image.header = Box::new(Header {
        magic: own.magic,
        major: own.major,
        minor: own.minor,
        header_len: own.header_len,
        section_count: own.section_count,
        file_len: own.file_len,
        flags: image.header.flags & !header_flags::STATIC,
        sections: own.sections,
        ..*image.header
    });
    image
}

/// Changes the header of a state's bytes.
fn edit(bytes: &mut [u8], change: impl FnOnce(&mut Header)) {
    let words = zeroed(HEADER_WORDS);
    store_bytes(&words, &bytes[..size_of::<Header>()]);
    let mut header: Header = words::load(&words);
    change(&mut header);
    store(&words, &header, 0);
    let mut out = Vec::new();
    words::load_bytes(&words, size_of::<Header>(), &mut out);
    bytes[..out.len()].copy_from_slice(&out);
}

/// The same state with every record of a section spaced by `stride` bytes: shorter cuts tails off, longer appends what a later
/// version might say.
fn respace(bytes: &[u8], kind: SectionKind, stride: usize) -> Vec<u8> {
    let (words, _) = check_bytes(bytes).unwrap();
    let header: Header = words::load(&words);
    let section = *header.section(kind);
    let mut out = bytes.to_vec();
    let offset = out.len();
    for i in 0..section.capacity as usize {
        let at = section.offset as usize + i * section.stride as usize;
        let mut record = bytes[at..at + section.stride as usize].to_vec();
        record.resize(stride, 0xee);
        out.extend(record);
    }
    let file_len = out.len() as u64;
    edit(&mut out, |header| {
        header.sections[kind as usize].offset = offset as u64;
        header.sections[kind as usize].stride = stride as u32;
        header.file_len = file_len;
    });
    out
}

fn fault(change: impl FnOnce(&mut Header)) -> Fault {
    let mut bytes = fixture::image(2).to_bytes().unwrap();
    edit(&mut bytes, change);
    let fault = Image::from_bytes(&bytes).unwrap_err();
    assert_eq!(Reader::from_bytes(&bytes).unwrap_err(), fault);
    fault
}

#[test]
fn an_image_survives_its_bytes() {
    let image = fixture::image(3);
    let bytes = image.to_bytes().unwrap();
    let back = Image::from_bytes(&bytes).unwrap();
    assert_eq!(back.header.flags, header_flags::STATIC);
    assert_eq!(back.header.heartbeat_ns, 0);
    assert_eq!(without_file(back), image);
    assert_eq!(image.to_bytes().unwrap(), bytes);
    // An empty node is a node.
    let none = Image::default();
    let back = Image::from_bytes(&none.to_bytes().unwrap()).unwrap();
    assert_eq!(without_file(back), none);
}

#[test]
fn an_image_out_of_step_is_refused() {
    let mut image = fixture::image(2);
    image.lives.pop();
    let error = image.to_bytes().unwrap_err();
    assert_eq!(
        error.to_string(),
        "laying out a node's state: 2 cards but 1 live records"
    );
}

/// Files of every version must stay readable for ever. `BLESS=1` writes this version's; only a new minor version may change
/// one that exists, and that one gets a new name.
#[test]
fn files_of_every_version_stay_readable() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let image = fixture::image(2);
    let current = golden.join(format!("v{MAJOR}.{MINOR}.state"));
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(&golden).unwrap();
        fs::write(&current, image.to_bytes().unwrap()).unwrap();
    }
    assert_eq!(
        fs::read(&current).unwrap(),
        image.to_bytes().unwrap(),
        "the layout changed: raise MINOR, then bless with BLESS=1"
    );
    let mut seen = 0;
    for entry in fs::read_dir(&golden).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let read = without_file(Image::from_bytes(&bytes).unwrap());
        assert_eq!(read.node().name, "node-a");
        assert_eq!(read.node().driver, "550.163.01");
        assert_eq!(text(&read.statics.boards[0].key), "a100-sxm4-40gb");
        assert_eq!(read.lives[1].temperature_c, 31);
        assert_eq!(read.node().text(read.containers[0].pod), "train-0");
        assert_eq!(read.events.len(), 3);
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn a_newer_minor_version_is_read_by_this_one() {
    let image = fixture::image(2);
    let mut bytes = image.to_bytes().unwrap();
    for (kind, size) in KINDS.into_iter().take(SectionKind::Text as usize) {
        bytes = respace(&bytes, kind, size + 24);
    }
    // A longer header, with more sections than this reader has heard of.
    let grown = 64_usize;
    let cut = size_of::<Header>();
    bytes.splice(cut..cut, vec![0xee; grown]);
    edit(&mut bytes, |header| {
        header.minor = MINOR + 1;
        header.header_len += grown as u32;
        header.file_len += grown as u64;
        header.section_count = 16;
        for section in &mut header.sections[..KINDS.len()] {
            section.offset += grown as u64;
        }
    });
    let read = Image::from_bytes(&bytes).unwrap();
    assert_eq!(read.header.minor, MINOR + 1);
    let mut read = without_file(read);
    read.header.minor = 0;
    assert_eq!(read, image);
    let reader = Reader::from_bytes(&bytes).unwrap();
    assert_eq!(live!(reader, 1, temperature_c), Some(31));
    assert_eq!(reader.live_copy(1), Some(image.lives[1]));
    let mut numbers = Vec::new();
    reader.events_since(0, |event| numbers.push(event.number));
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn an_older_minor_version_reads_as_zero_where_it_is_short() {
    let mut image = fixture::image(2);
    image.lives = vec![uniform::<Live>(u64::MAX); 2];
    image.cards = vec![uniform::<Card>(u64::from(b'a')); 2].into();
    let size = size_of::<Live>();
    let bytes = respace(&image.to_bytes().unwrap(), SectionKind::Lives, size - 16);
    let bytes = respace(&bytes, SectionKind::Cards, size_of::<Card>() - 16);
    let reader = Reader::from_bytes(&bytes).unwrap();
    // The last 16 bytes of a record hold what the latest version added.
    assert_eq!(live!(reader, 1, hw_thermal_ns), Some(0));
    assert_eq!(
        live!(reader, 1, sw_thermal_ns, reasons),
        Some((0, u64::MAX))
    );
    let copy = reader.live_copy(1).unwrap();
    assert_eq!((copy.hw_thermal_ns, copy.reasons), (0, u64::MAX));
    assert_eq!(reader.cards()[1].cluster, [0; 16]);
    assert_ne!(reader.cards()[1].memory_total, 0);
    // Fewer sections than this reader knows: they are empty.
    let mut bytes = image.to_bytes().unwrap();
    edit(&mut bytes, |header| {
        header.section_count = SectionKind::Events as u32;
    });
    let read = Image::from_bytes(&bytes).unwrap();
    assert!(read.events.is_empty() && read.heap.is_empty());
    assert_eq!(read.processes.len(), 1);
}

#[test]
fn another_kind_of_file_is_named_as_such() {
    assert_eq!(fault(|h| h.magic = 5), Fault::Magic(5));
    assert_eq!(fault(|h| h.major = 2), Fault::Major(2));
    assert_eq!(fault(|h| h.header_len = 840), Fault::HeaderLen(840));
    assert_eq!(fault(|h| h.header_len += 4), Fault::HeaderLen(852));
    assert!(
        Fault::Major(2)
            .to_string()
            .starts_with("byte 8: unknown major version 2")
    );
}

#[test]
fn a_lying_header_is_caught() {
    let kind = SectionKind::Cards;
    let section = |change: fn(&mut Section)| match fault(|h| change(&mut h.sections[kind as usize]))
    {
        Fault::Section { kind: k, why, .. } => (k == kind).then_some(why),
        other => panic!("{other}"),
    };
    assert_eq!(section(|s| s.offset = 8), Some("begins inside the header"));
    assert_eq!(section(|s| s.offset += 4), Some("begins inside a word"));
    assert_eq!(
        section(|s| s.offset = u64::MAX - 7),
        Some("begins beyond the file")
    );
    assert_eq!(
        section(|s| s.offset = 1 << 40),
        Some("ends beyond the file")
    );
    assert_eq!(
        section(|s| s.capacity = u32::MAX),
        Some("ends beyond the file")
    );
    assert_eq!(section(|s| s.count += 1), Some("more records than room"));
    assert_eq!(
        section(|s| s.stride += 4),
        Some("records not spaced by whole words")
    );
    assert_eq!(section(|s| s.stride = 8), Some("records too short"));
    assert_eq!(section(|s| s.stride = 0), Some("records too short"));
    assert_eq!(
        section(|s| s.capacity = 0),
        Some("records without room for any")
    );
    assert_eq!(
        fault(|h| h.sections[SectionKind::Text as usize].stride = 8).to_string(),
        "section Text: text not spaced by single bytes (8)"
    );
    assert_eq!(
        fault(|h| h.sections[SectionKind::Lives as usize].count = 1),
        Fault::Pairing { cards: 2, lives: 1 }
    );
    // Cards without even a section of live records.
    assert_eq!(
        fault(|h| h.section_count = SectionKind::Lives as u32),
        Fault::Pairing { cards: 2, lives: 0 }
    );
}

#[test]
fn a_cut_file_is_caught_wherever_it_is_cut() {
    let bytes = fixture::image(1).to_bytes().unwrap();
    for len in 0..bytes.len() {
        let fault = Image::from_bytes(&bytes[..len]).unwrap_err();
        if len >= size_of::<Header>() {
            let (says, is) = (bytes.len() as u64, len as u64);
            assert_eq!(fault, Fault::Truncated { says, is });
        }
    }
}

#[test]
fn ten_thousand_nodes_fit_in_memory() {
    assert!(size_of::<Live>() + size_of::<Card>() <= 900);
    // Boards and profiles are shared, so a node costs its own records and little else.
    let one = fixture::image(8);
    let nodes: Vec<Image> = (0..10_000)
        .map(|n| {
            let mut node = one.clone();
            node.header.tick = n;
            node
        })
        .collect();
    assert!(nodes.iter().all(|n| Arc::ptr_eq(&n.statics, &one.statics)));
    let own = |image: &Image| {
        size_of::<Image>()
            + size_of::<Header>()
            + size_of_val(&image.lives[..])
            + size_of_val(&image.instances[..])
            + size_of_val(&image.processes[..])
            + size_of_val(&image.containers[..])
            + size_of_val(&image.holdings[..])
            + size_of_val(&image.events[..])
            + image.heap.len()
    };
    let total: usize = nodes.iter().map(own).sum();
    assert!(total / 80_000 < 1024, "{} bytes per GPU", total / 80_000);
}

/// Asks a reader everything.
fn interrogate(reader: &Reader) {
    for gpu in (0..reader.gpus()).chain([u32::MAX]) {
        let there = gpu < reader.gpus();
        assert_eq!(live!(reader, gpu, health).is_some(), there);
        let _ = (reader.live_copy(gpu), reader.board(gpu));
    }
    let mut out = [0; 64];
    reader.tables(|tables| {
        for process in tables.processes() {
            tables.text(process.name, &mut out);
        }
        for container in tables.containers() {
            tables.text(container.pod, &mut out);
        }
        for (offset, len) in [(0, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX), (3, 5)] {
            tables.text(TextRef { offset, len }, &mut out);
        }
        tables.instances().count() + tables.holdings().count() + tables.lives().count()
    });
    let mut last = 0;
    reader.events_since(0, |event| {
        assert!(event.number > last);
        last = event.number;
    });
    reader.freshness(0);
    if let Some(image) = reader.snapshot() {
        let node = image.node();
        let _ = (node.name, node.driver, image.to_bytes());
        for process in node.processes {
            node.text(process.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        // The same cases on every run: CI must not draw lots.
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(256)
    })]

    #[test]
    fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(Image::from_bytes(&bytes).is_err());
    }

    #[test]
    fn any_damage_is_refused_or_read(
        damage in proptest::collection::vec(
            (0..size_of::<Header>() / 4 + 400, prop_oneof![
                any::<u32>(), 0..2000_u32, Just(u32::MAX), Just(8), Just(0)
            ]),
            1..6,
        ),
        cut in prop_oneof![Just(usize::MAX), 0..6000_usize],
    ) {
        let mut bytes = fixture::image(2).to_bytes().unwrap();
        for (at, value) in damage {
            let at = at * 4;
            if let Some(word) = bytes.get_mut(at..at + 4) {
                word.copy_from_slice(&value.to_ne_bytes());
            }
        }
        bytes.truncate(cut);
        let image = Image::from_bytes(&bytes);
        let reader = Reader::from_bytes(&bytes);
        prop_assert_eq!(image.is_ok(), reader.is_ok());
        if let Ok(reader) = reader {
            interrogate(&reader);
        }
    }
}

#[test]
fn a_state_that_turns_hostile_stays_inside_its_bytes() {
    let bytes = fixture::image(2).to_bytes().unwrap();
    let reader = Reader::from_bytes(&bytes).unwrap();
    for word in reader.words().iter().take(HEADER_WORDS) {
        let before = word.swap(u64::MAX - 1, Relaxed);
        interrogate(&reader);
        word.store(before, Relaxed);
    }
    assert_eq!(reader.snapshot().unwrap().processes.len(), 1);
}
