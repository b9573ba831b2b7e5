//! The tables of a node, of one tick.

use std::{
    mem::offset_of,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed},
            fence,
        },
    },
};

use super::Reader;
use crate::{
    bytes,
    layout::{Container, Header, Holding, Instance, Live, Process, SectionKind, TextRef},
    node::Image,
    sections::{Sections, load_header},
    seqlock::{self, LOOKS},
    words::WORD,
};

/// Looks with the processor handed on in between: a tick takes longer to write than a record, and
/// its writer may have lost the processor.
const PATIENT_LOOKS: u32 = 256;

/// The tables of one tick, being read. Records are copied out one by one, in their order.
pub struct Tables<'a> {
    words: &'a [AtomicU64],
    sections: &'a Sections,
}

impl<'a> Tables<'a> {
    /// The header.
    pub fn header(&self) -> Header {
        Header {
            seq: 0,
            ..load_header(self.words)
        }
    }

    /// Live records of the same tick, sequences as zero.
    pub fn lives(&self) -> impl ExactSizeIterator<Item = Live> + 'a {
        self.sections
            .records(self.words, SectionKind::Lives)
            .map(|live: Live| Live { seq: 0, ..live })
    }

    /// MIG devices.
    pub fn instances(&self) -> impl ExactSizeIterator<Item = Instance> + 'a {
        self.sections.records(self.words, SectionKind::Instances)
    }

    /// Processes.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = Process> + 'a {
        self.sections.records(self.words, SectionKind::Processes)
    }

    /// Containers.
    pub fn containers(&self) -> impl ExactSizeIterator<Item = Container> + 'a {
        self.sections.records(self.words, SectionKind::Containers)
    }

    /// Who holds what.
    pub fn holdings(&self) -> impl ExactSizeIterator<Item = Holding> + 'a {
        self.sections.records(self.words, SectionKind::Holdings)
    }

    /// Copies a text to the start of `out`, as much as fits, and says how many bytes that were. A reference that
    /// points nowhere is an empty text. The bytes are UTF-8 as far as the writer is honest and `out` long enough.
    pub fn text(&self, at: TextRef, out: &mut [u8]) -> usize {
        let text = self.sections.text(self.words);
        let known = self.sections.count(self.words, SectionKind::Text);
        let start = at.offset as usize;
        if start.saturating_add(at.len as usize) > known {
            return 0;
        }
        let len = out.len().min(at.len as usize);
        for (i, byte) in out[..len].iter_mut().enumerate() {
            let (word, within) = ((start + i) / WORD, (start + i) % WORD);
            *byte = text[word].load(Relaxed).to_ne_bytes()[within];
        }
        len
    }
}

impl Reader {
    /// Runs `read` over the tables until it ran within one tick, or over the last good copy if that takes too long.
    /// It may run several times, on records that do not fit together, so it must begin anew each time (clear what it
    /// fills); only the undisturbed run's answer is returned. `None` only if no undisturbed tick was ever seen.
    pub fn tables<R>(&self, mut read: impl FnMut(&Tables<'_>) -> R) -> Option<R> {
        let words = self.words();
        let now = Tables {
            words,
            sections: &self.sections,
        };
        let seq = self.header_word(offset_of!(Header, seq));
        let mut looked = seqlock::read(seq, LOOKS, || read(&now));
        if looked.is_none() && self.stuck_at.load(Relaxed) != seq.load(Relaxed) {
            for _ in 0..PATIENT_LOOKS {
                std::thread::yield_now();
                looked = seqlock::read(seq, 1, || read(&now));
                if looked.is_some() {
                    break;
                }
            }
        }
        match looked {
            Some((result, seq)) => {
                if !self.last_tables.is_from(seq) {
                    self.keep_tables(seq);
                }
                Some(result)
            }
            None => {
                self.stuck_at.store(seq.load(Relaxed), Relaxed);
                self.last_tables.read(|words| {
                    read(&Tables {
                        words,
                        sections: &self.sections,
                    })
                })
            }
        }
    }

    /// Everything, as of one tick.
    pub fn snapshot(&self) -> Option<Image> {
        self.tables(|tables| {
            bytes::load_image(
                tables.words,
                &self.sections,
                Arc::clone(&self.statics),
                Arc::clone(&self.cards),
            )
        })
    }

    /// Takes a copy for worse days, once per tick that is asked about.
    #[cold]
    fn keep_tables(&self, seq: u64) {
        let words = self.words();
        self.last_tables.refresh(|to| {
            self.sections.copy_changing(words, to);
            fence(Acquire);
            (self.header_word(offset_of!(Header, seq)).load(Relaxed) == seq).then_some(seq)
        });
    }

    /// A MIG device by its UUID.
    pub fn instance(&self, uuid: &str) -> Option<Instance> {
        self.tables(|tables| {
            tables
                .instances()
                .find(|instance| crate::layout::text(&instance.uuid) == uuid)
        })
        .flatten()
    }
}
