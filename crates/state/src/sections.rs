//! Where the sections of a state lie: checked once against the bytes there are, so that every
//! later access is inside them whatever the file says by then.

use std::{
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    error::Fault,
    layout::{
        Board, Card, ComputeProfile, Container, Event, GpuProfile, Header, Holding, Instance, Live,
        MAGIC, MAJOR, Process, Record, Section, SectionKind,
    },
    words::{self, Field, WORD, words_of},
};

/// Header bytes of version 1.0, which no later version 1 undercuts.
pub(crate) const HEADER_LEN: usize = 848;
const _: () = assert!(offset_of!(Header, sections) + 16 * size_of::<Section>() == HEADER_LEN);

/// No node needs more: 72 GPUs with thousands of processes take under two.
pub(crate) const MOST_BYTES: u64 = 64 << 20;

/// Every kind of section with the bytes its record has here.
pub(crate) const KINDS: [(SectionKind, usize); 11] = [
    (SectionKind::Boards, size_of::<Board>()),
    (SectionKind::GpuProfiles, size_of::<GpuProfile>()),
    (SectionKind::ComputeProfiles, size_of::<ComputeProfile>()),
    (SectionKind::Cards, size_of::<Card>()),
    (SectionKind::Lives, size_of::<Live>()),
    (SectionKind::Instances, size_of::<Instance>()),
    (SectionKind::Processes, size_of::<Process>()),
    (SectionKind::Containers, size_of::<Container>()),
    (SectionKind::Holdings, size_of::<Holding>()),
    (SectionKind::Events, size_of::<Event>()),
    (SectionKind::Text, 1),
];

/// Word of a header field.
pub(crate) const fn word_of(offset: usize) -> usize {
    offset / WORD
}

/// Word of the header that holds a section's stride and count.
pub(crate) const fn count_word(kind: SectionKind) -> usize {
    word_of(
        offset_of!(Header, sections)
            + kind as usize * size_of::<Section>()
            + offset_of!(Section, stride),
    )
}

/// A section, in words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// First word.
    pub(crate) at: usize,
    /// Words from record to record; 0 for text.
    pub(crate) stride: usize,
    /// Records there is room for; bytes for text.
    pub(crate) capacity: usize,
}

impl Place {
    /// Words of the first `count` records.
    fn words(&self, count: usize) -> usize {
        match self.stride {
            0 => count.div_ceil(WORD),
            stride => stride * count,
        }
    }
}

/// Where everything lies, proven to be inside the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sections {
    places: [Place; KINDS.len()],
    /// Words of the header.
    pub(crate) header: usize,
    /// Words of the state.
    pub(crate) len: usize,
}

impl Sections {
    /// Checks a header against the number of bytes there are.
    pub(crate) fn check(header: &Header, len: u64) -> Result<Sections, Fault> {
        if len > MOST_BYTES {
            return Err(Fault::Long {
                len,
                most: MOST_BYTES,
            });
        }
        if len < HEADER_LEN as u64 {
            return Err(Fault::Short {
                len,
                need: HEADER_LEN as u64,
            });
        }
        if header.magic != MAGIC {
            return Err(Fault::Magic(header.magic));
        }
        if header.major != MAJOR {
            return Err(Fault::Major(header.major));
        }
        let header_len = header.header_len as usize;
        if header_len < HEADER_LEN || !header_len.is_multiple_of(WORD) {
            return Err(Fault::HeaderLen(header.header_len));
        }
        if header.file_len > len || header_len as u64 > header.file_len {
            return Err(Fault::Truncated {
                says: header.file_len.max(header_len as u64),
                is: len.min(header.file_len),
            });
        }
        let mut places = [Place::default(); KINDS.len()];
        let known = header.section_count as usize;
        for (i, (kind, size)) in KINDS.into_iter().enumerate().take(known) {
            places[i] = place(kind, size, header)?;
        }
        let sections = Sections {
            places,
            header: header_len / WORD,
            len: (header.file_len / WORD as u64) as usize,
        };
        let count = |kind: SectionKind| match known > kind as usize {
            true => u64::from(header.section(kind).count),
            false => 0,
        };
        let (cards, lives) = (count(SectionKind::Cards), count(SectionKind::Lives));
        if cards != lives {
            return Err(Fault::Pairing { cards, lives });
        }
        Ok(sections)
    }

    pub(crate) fn place(&self, kind: SectionKind) -> Place {
        self.places[kind as usize]
    }

    /// Records (bytes of text) that are true now, never more than there is room for.
    #[inline]
    pub(crate) fn count(&self, words: &[AtomicU64], kind: SectionKind) -> usize {
        let says = u32::take(words[count_word(kind)].load(Relaxed), 4) as usize;
        says.min(self.places[kind as usize].capacity)
    }

    /// The words of one record, which must be below the section's capacity.
    #[inline]
    pub(crate) fn record<'a>(
        &self,
        words: &'a [AtomicU64],
        kind: SectionKind,
        index: usize,
    ) -> &'a [AtomicU64] {
        let place = &self.places[kind as usize];
        let at = place.at + index * place.stride;
        &words[at..at + place.stride]
    }

    /// Copies the records that are true now.
    pub(crate) fn records<'a, T: Record>(
        &'a self,
        words: &'a [AtomicU64],
        kind: SectionKind,
    ) -> impl ExactSizeIterator<Item = T> + 'a {
        (0..self.count(words, kind)).map(move |index| words::load(self.record(words, kind, index)))
    }

    /// The words of the text section.
    pub(crate) fn text<'a>(&self, words: &'a [AtomicU64]) -> &'a [AtomicU64] {
        let place = self.place(SectionKind::Text);
        &words[place.at..place.at + place.words(place.capacity)]
    }

    /// Copies what changes from tick to tick, header included, to the same places of `to`.
    pub(crate) fn copy_changing(&self, from: &[AtomicU64], to: &[AtomicU64]) {
        let copy = |at: usize, len: usize| {
            for (to, from) in to[at..at + len].iter().zip(&from[at..at + len]) {
                to.store(from.load(Relaxed), Relaxed);
            }
        };
        copy(0, self.header);
        for (kind, _) in KINDS.into_iter().skip(SectionKind::Lives as usize) {
            let place = self.place(kind);
            copy(place.at, place.words(self.count(from, kind)));
        }
    }
}

/// Checks one section.
fn place(kind: SectionKind, size: usize, header: &Header) -> Result<Place, Fault> {
    let section = header.section(kind);
    let wrong = |why, value| Err(Fault::Section { kind, why, value });
    if section.capacity == 0 {
        return match section.count {
            0 => Ok(Place::default()),
            count => wrong("records without room for any", count.into()),
        };
    }
    let stride = section.stride as usize;
    if kind == SectionKind::Text {
        if stride != 1 {
            return wrong("text not spaced by single bytes", section.stride.into());
        }
    } else if !stride.is_multiple_of(WORD) {
        return wrong("records not spaced by whole words", section.stride.into());
    } else if stride * 2 < size {
        // Older records are shorter, but never by this much; it also bounds what a hostile
        // file can make a reader allocate.
        return wrong("records too short", section.stride.into());
    }
    if !section.offset.is_multiple_of(WORD as u64) {
        return wrong("begins inside a word", section.offset);
    }
    if section.offset < u64::from(header.header_len) {
        return wrong("begins inside the header", section.offset);
    }
    if section.count > section.capacity {
        return wrong("more records than room", section.count.into());
    }
    let bytes = (stride as u64 * u64::from(section.capacity)).next_multiple_of(WORD as u64);
    match section.offset.checked_add(bytes) {
        Some(end) if end <= header.file_len => {}
        Some(end) => return wrong("ends beyond the file", end),
        None => return wrong("begins beyond the file", section.offset),
    }
    Ok(Place {
        at: section.offset as usize / WORD,
        stride: stride / WORD,
        capacity: section.capacity as usize,
    })
}

/// Words of a header as this version knows it.
pub(crate) const HEADER_WORDS: usize = words_of::<Header>();

/// The header at the start of `words`, which are at least [`HEADER_WORDS`]; fields that an older writer did
/// not have are zero. Nothing in it is checked yet.
pub(crate) fn load_header(words: &[AtomicU64]) -> Header {
    let says = u32::take(
        words[word_of(offset_of!(Header, header_len))].load(Relaxed),
        0,
    );
    let len = (says as usize / WORD).clamp(HEADER_LEN / WORD, words.len());
    words::load(&words[..len])
}
