//! A node's image as the bytes of a state file, and back.

use std::{
    mem::offset_of,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    error::{Error, Fault, Result},
    layout::{Card, Event, Header, Live, MAGIC, MAJOR, MINOR, Section, SectionKind},
    node::{Image, Statics},
    sections::{HEADER_WORDS, KINDS, MOST_BYTES, Sections, load_header, word_of},
    tick::{Room, write_records, write_tick},
    words::{self, WORD, store, store_bytes, zeroed},
};

/// What a writer adds to an image's header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) epoch: u64,
    pub(crate) boot_id: [u8; 16],
    pub(crate) heartbeat_ns: u64,
}

impl Image {
    /// The image as a static state file: heartbeat 0, flag [`STATIC`](crate::layout::header_flags::STATIC).
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (words, sections) = lay_out(self, Room::Exact, &Stamp::default())?;
        let mut bytes = Vec::new();
        words::load_bytes(&words, sections.len * WORD, &mut bytes);
        Ok(bytes)
    }

    /// The image in the bytes of a state file, live or static; whatever the bytes are, it reads
    /// nothing outside them and says what is wrong where.
    pub fn from_bytes(bytes: &[u8]) -> std::result::Result<Image, Fault> {
        let (words, sections) = check_bytes(bytes)?;
        let statics = Arc::new(load_statics(&words, &sections));
        let cards = sections.records(&words, SectionKind::Cards).collect();
        Ok(load_image(&words, &sections, statics, cards))
    }
}

/// Copies bytes to words and checks where everything lies.
pub(crate) fn check_bytes(
    bytes: &[u8],
) -> std::result::Result<(Box<[AtomicU64]>, Sections), Fault> {
    let words = zeroed(bytes.len().div_ceil(WORD).max(HEADER_WORDS));
    store_bytes(&words, bytes);
    let sections = Sections::check(&load_header(&words), bytes.len() as u64)?;
    Ok((words, sections))
}

/// The tables that never change while a file lives.
pub(crate) fn load_statics(words: &[AtomicU64], sections: &Sections) -> Statics {
    Statics {
        boards: sections.records(words, SectionKind::Boards).collect(),
        gpu_profiles: sections.records(words, SectionKind::GpuProfiles).collect(),
        compute_profiles: sections
            .records(words, SectionKind::ComputeProfiles)
            .collect(),
    }
}

/// Everything, given the parts that never change. Sequences come out as zero: they belong to the file.
pub(crate) fn load_image(
    words: &[AtomicU64],
    sections: &Sections,
    statics: Arc<Statics>,
    cards: Arc<[Card]>,
) -> Image {
    let mut header = load_header(words);
    header.seq = 0;
    let mut heap = Vec::new();
    let len = sections.count(words, SectionKind::Text);
    words::load_bytes(sections.text(words), len, &mut heap);
    let mut events: Vec<Event> = sections
        .records(words, SectionKind::Events)
        .filter(|event: &Event| event.number != 0)
        .collect();
    events.sort_unstable_by_key(|event| event.number);
    Image {
        header: Box::new(header),
        statics,
        cards,
        lives: sections
            .records(words, SectionKind::Lives)
            .map(|live: Live| Live { seq: 0, ..live })
            .collect(),
        instances: sections.records(words, SectionKind::Instances).collect(),
        processes: sections.records(words, SectionKind::Processes).collect(),
        containers: sections.records(words, SectionKind::Containers).collect(),
        holdings: sections.records(words, SectionKind::Holdings).collect(),
        events,
        heap,
    }
}

/// Lays a whole state out in memory.
pub(crate) fn lay_out(
    image: &Image,
    room: Room,
    stamp: &Stamp,
) -> Result<(Box<[AtomicU64]>, Sections)> {
    let header = head(image, room, stamp)?;
    let sections = Sections::check(&header, header.file_len).map_err(Error::Image)?;
    let words = zeroed(sections.len);
    store(&words, &header, 0);
    write_records(
        &words,
        &sections,
        SectionKind::Boards,
        &image.statics.boards,
    );
    write_records(
        &words,
        &sections,
        SectionKind::GpuProfiles,
        &image.statics.gpu_profiles,
    );
    write_records(
        &words,
        &sections,
        SectionKind::ComputeProfiles,
        &image.statics.compute_profiles,
    );
    write_records(&words, &sections, SectionKind::Cards, &image.cards);
    write_tick(&words, &sections, image, room, stamp.heartbeat_ns);
    // A file is born as if nobody ever wrote it, so equal images are equal bytes.
    words[word_of(offset_of!(Header, seq))].store(0, Relaxed);
    for gpu in 0..image.lives.len() {
        sections.record(&words, SectionKind::Lives, gpu)[0].store(0, Relaxed);
    }
    Ok((words, sections))
}

/// The header of a new file, sections and all.
fn head(image: &Image, room: Room, stamp: &Stamp) -> Result<Header> {
    if image.lives.len() != image.cards.len() {
        return Err(Error::Image(Fault::Pairing {
            cards: image.cards.len() as u64,
            lives: image.lives.len() as u64,
        }));
    }
    let mut header = Header {
        magic: MAGIC,
        major: MAJOR,
        minor: MINOR,
        header_len: size_of::<Header>() as u32,
        section_count: KINDS.len() as u32,
        epoch: stamp.epoch,
        boot_id: stamp.boot_id,
        sections: [Section::default(); 16],
        ..*image.header
    };
    let mut end = size_of::<Header>() as u64;
    for (kind, stride) in KINDS {
        let (count, capacity) = counts(image, kind, room);
        // Cache lines of their own, so a table being written does not slow its neighbour's readers.
        end = end.next_multiple_of(64);
        let too_many = || {
            Error::Image(Fault::Section {
                kind,
                why: "too many records",
                value: capacity as u64,
            })
        };
        header.sections[kind as usize] = Section {
            offset: end,
            stride: stride as u32,
            count: u32::try_from(count).map_err(|_| too_many())?,
            capacity: u32::try_from(capacity).map_err(|_| too_many())?,
            reserved: 0,
        };
        end += (stride as u64 * capacity as u64).next_multiple_of(WORD as u64);
    }
    header.file_len = end;
    if end > MOST_BYTES {
        return Err(Error::Image(Fault::Long {
            len: end,
            most: MOST_BYTES,
        }));
    }
    Ok(header)
}

/// Records of a kind there are, and room there shall be.
fn counts(image: &Image, kind: SectionKind, room: Room) -> (usize, usize) {
    let gpus = image.cards.len();
    let (count, least) = match kind {
        SectionKind::Boards => (image.statics.boards.len(), 0),
        SectionKind::GpuProfiles => (image.statics.gpu_profiles.len(), 0),
        SectionKind::ComputeProfiles => (image.statics.compute_profiles.len(), 0),
        SectionKind::Cards => (gpus, 0),
        SectionKind::Lives => (image.lives.len(), 0),
        SectionKind::Instances => (image.instances.len(), most_instances(image)),
        SectionKind::Processes => (image.processes.len(), 64.max(gpus * 16)),
        SectionKind::Containers => (image.containers.len(), 32.max(gpus * 8)),
        SectionKind::Holdings => (image.holdings.len(), 64.max(gpus * 16)),
        SectionKind::Events => {
            let ring = ring(image, room);
            return (ring, ring);
        }
        SectionKind::Text => (image.heap.len(), 8192.max(gpus * 2048)),
    };
    match room {
        Room::ToGrow if least > 0 => (count, least.max(count * 2).next_multiple_of(WORD)),
        _ => (count, count),
    }
}

/// Most MIG devices the node's boards can be cut into.
fn most_instances(image: &Image) -> usize {
    let boards = &image.statics.boards;
    image
        .cards
        .iter()
        .filter_map(|card| boards.get(card.board as usize))
        .map(|board| board.max_mig_instances.min(64) as usize)
        .sum()
}

/// Slots of the event ring.
fn ring(image: &Image, room: Room) -> usize {
    const MOST: u64 = 4096;
    let numbers = || image.events.iter().map(|e| e.number).filter(|&n| n != 0);
    let span = match (numbers().min(), numbers().max()) {
        (Some(low), Some(high)) => (high - low).min(MOST - 1) + 1,
        _ => 0,
    };
    match room {
        Room::Exact => span as usize,
        Room::ToGrow => span.next_power_of_two().max(256) as usize,
    }
}

#[cfg(test)]
mod tests;
