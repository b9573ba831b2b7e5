//! Writing one tick over the last: the only code that changes a state while others read it.

use std::{
    mem::offset_of,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
        fence,
    },
};

use crate::{
    layout::{Header, Record, SectionKind, header_flags},
    node::Image,
    sections::{Place, Sections, count_word, word_of},
    seqlock,
    words::{self, WORD, store, store_bytes},
};

/// How much room tables get beyond what they hold now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// None: nobody will write this file again.
    Exact,
    /// Enough for an ordinary node to never outgrow it.
    ToGrow,
}

/// Events ever, by the header or by the events themselves.
pub(crate) fn event_head(image: &Image) -> u64 {
    let newest = image.events.iter().map(|event| event.number).max();
    image.header.event_head.max(newest.unwrap_or(0))
}

/// Whether all tables of the image have room.
pub(crate) fn fits(image: &Image, sections: &Sections) -> bool {
    let room = |kind, count: usize| count <= sections.place(kind).capacity;
    room(SectionKind::Instances, image.instances.len())
        && room(SectionKind::Processes, image.processes.len())
        && room(SectionKind::Containers, image.containers.len())
        && room(SectionKind::Holdings, image.holdings.len())
        && room(SectionKind::Text, image.heap.len())
}

/// Writes one tick of an image that fits; readers see all of it or nothing.
pub(crate) fn write_tick(
    words: &[AtomicU64],
    sections: &Sections,
    image: &Image,
    room: Room,
    heartbeat_ns: u64,
) {
    let seq = &words[word_of(offset_of!(Header, seq))];
    let odd = seqlock::begin(seq);
    for (gpu, live) in image.lives.iter().enumerate() {
        let record = sections.record(words, SectionKind::Lives, gpu);
        if !words::holds(record, live, 1) {
            let odd = seqlock::begin(&record[0]);
            store(record, live, 1);
            seqlock::end(&record[0], odd);
        }
    }
    write_records(words, sections, SectionKind::Instances, &image.instances);
    write_records(words, sections, SectionKind::Processes, &image.processes);
    write_records(words, sections, SectionKind::Containers, &image.containers);
    write_records(words, sections, SectionKind::Holdings, &image.holdings);
    store_bytes(sections.text(words), &image.heap);
    put_count(words, SectionKind::Text, 1, image.heap.len());
    write_events(words, sections, image);
    write_header(words, &image.header, room, heartbeat_ns);
    seqlock::end(seq, odd);
}

/// Writes what moves in the header. Taken apart field by field, so that a new one cannot be forgotten.
fn write_header(words: &[AtomicU64], header: &Header, room: Room, heartbeat_ns: u64) {
    let Header {
        period_ms,
        flags,
        tick,
        sim_ms,
        unix_ms,
        // Counted by the events themselves.
        event_head: _,
        // The file's own.
        magic: _,
        major: _,
        minor: _,
        header_len: _,
        section_count: _,
        file_len: _,
        seq: _,
        epoch: _,
        boot_id: _,
        heartbeat_ns: _,
        sections: _,
        // A change of these is a new file.
        cuda_version: _,
        mig_strategy: _,
        node: _,
        driver: _,
    } = *header;
    let own = header_flags::RETIRED | header_flags::STATIC;
    let written_once = match room {
        Room::Exact => header_flags::STATIC,
        Room::ToGrow => 0,
    };
    for (offset, value) in [
        (offset_of!(Header, flags), flags & !own | written_once),
        (offset_of!(Header, period_ms), period_ms),
        (offset_of!(Header, tick), tick),
        (offset_of!(Header, sim_ms), sim_ms),
        (offset_of!(Header, unix_ms), unix_ms),
        (offset_of!(Header, heartbeat_ns), heartbeat_ns),
    ] {
        words::put(&words[word_of(offset)], value);
    }
}

/// Writes a table; words that stay as they are are not touched.
pub(crate) fn write_records<T: Record>(
    words: &[AtomicU64],
    sections: &Sections,
    kind: SectionKind,
    records: &[T],
) {
    for (index, record) in records.iter().enumerate() {
        store(sections.record(words, kind, index), record, 0);
    }
    if kind as usize >= SectionKind::Instances as usize {
        put_count(words, kind, size_of::<T>(), records.len());
    }
}

/// A section's count shares its word with the stride.
fn put_count(words: &[AtomicU64], kind: SectionKind, stride: usize, count: usize) {
    let mut word = [0; WORD];
    word[..4].copy_from_slice(&(stride as u32).to_ne_bytes());
    word[4..].copy_from_slice(&(count as u32).to_ne_bytes());
    words::put(&words[count_word(kind)], u64::from_ne_bytes(word));
}

/// Writes the events the ring does not have yet, each under its own number: zero while it is
/// written, so a slot can be read at any time, mid-tick included.
fn write_events(words: &[AtomicU64], sections: &Sections, image: &Image) {
    let head_word = &words[word_of(offset_of!(Header, event_head))];
    let Place { capacity, .. } = sections.place(SectionKind::Events);
    let head = event_head(image);
    if capacity > 0 {
        let kept_from = head.saturating_sub(capacity as u64);
        for event in image.events.iter().filter(|event| event.number > kept_from) {
            let slot = ((event.number - 1) % capacity as u64) as usize;
            let slot = sections.record(words, SectionKind::Events, slot);
            if slot[0].load(Relaxed) != event.number {
                slot[0].store(0, Relaxed);
                fence(Release);
                store(slot, event, 1);
                slot[0].store(event.number, Release);
            }
        }
    }
    if head_word.load(Relaxed) != head {
        head_word.store(head, Release);
    }
}
