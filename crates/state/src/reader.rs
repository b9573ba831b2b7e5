//! Reading a node's state while its engine writes it.
//!
//! A reader writes nothing to the file, takes no lock and starts no thread; it works on a
//! read-only mount, in any number of threads, and across `fork`. What an answer costs:
//!
//! | Question | Cost |
//! |---|---|
//! | one field of a GPU ([`live!`](crate::live)) | one load: a field is never torn |
//! | several fields at once, a whole record | a seqlock: loads only, repeated while the writer is in that record |
//! | tables, a whole snapshot | the same over the whole file |
//!
//! Looks are bounded. When the writer is busy for too long, or died in the middle, the
//! reader answers with the last undisturbed copy it took; that copy is refreshed whenever a read goes well. It
//! answers `None` only if it never saw an undisturbed one (or was asked for a GPU that is not there): the caller
//! then shows what the board itself says.

mod events;
mod live;
mod tables;

use std::{
    fmt,
    fs::{self, OpenOptions},
    mem::offset_of,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed},
            fence,
        },
    },
};

pub use self::{events::Seen, live::LiveView, tables::Tables};
use crate::{
    bytes, clock,
    error::{Error, Fault, Result, io},
    layout::{Board, Card, ComputeProfile, GpuProfile, Header, SectionKind, header_flags},
    map::Map,
    node::Statics,
    sections::{HEADER_LEN, MOST_BYTES, Sections, load_header, word_of},
    seqlock::LastGood,
    words::WORD,
};

/// How much a state is worth now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Its engine runs.
    Fresh,
    /// Its engine has not been heard of for several ticks, or since before the last boot.
    Stale,
    /// It never had one.
    Static,
    /// Another file has taken its place, or none: open the path again.
    Retired,
}

/// An open state.
pub struct Reader {
    memory: Memory,
    sections: Sections,
    /// As it was at the start; what never changes is read here.
    header: Box<Header>,
    statics: Arc<Statics>,
    cards: Arc<[Card]>,
    last_lives: Box<[LastGood]>,
    last_tables: LastGood,
    /// Header sequence at which a reader last gave up: a writer still there is likely dead.
    stuck_at: AtomicU64,
    same_boot: bool,
    origin: Option<Origin>,
}

enum Memory {
    Mapped(Map),
    Owned(Box<[AtomicU64]>),
}

/// The file behind a reader.
struct Origin {
    path: PathBuf,
    dev: u64,
    ino: u64,
}

impl Reader {
    /// Maps a state file.
    pub fn open(path: &Path) -> Result<Reader> {
        let file = OpenOptions::new()
            .read(true)
            // A pipe must not keep us waiting for its writer.
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)
            .map_err(io("opening state file", path))?;
        let found = file.metadata().map_err(io("looking at state file", path))?;
        let malformed = |source| Error::Malformed {
            path: path.to_path_buf(),
            source,
        };
        if !found.is_file() {
            return Err(Error::Unfit {
                path: path.to_path_buf(),
                why: "it is not a regular file; name a state file",
            });
        }
        let len = found.len();
        if len < HEADER_LEN as u64 {
            return Err(malformed(Fault::Short {
                len,
                need: HEADER_LEN as u64,
            }));
        }
        if len > MOST_BYTES {
            return Err(malformed(Fault::Long {
                len,
                most: MOST_BYTES,
            }));
        }
        let map =
            Map::readable(&file, len as usize / WORD).map_err(io("mapping state file", path))?;
        let sections = Sections::check(&load_header(map.words()), len).map_err(malformed)?;
        let origin = Origin {
            // A program may go elsewhere, as those do that become daemons.
            path: std::path::absolute(path).map_err(io("finding state file", path))?,
            dev: found.dev(),
            ino: found.ino(),
        };
        Ok(Reader::new(Memory::Mapped(map), sections, Some(origin)))
    }

    /// Reads a state that is part of the program, or of anything else in memory; the bytes are copied.
    pub fn from_bytes(bytes: &[u8]) -> Result<Reader, Fault> {
        let (words, sections) = bytes::check_bytes(bytes)?;
        Ok(Reader::new(Memory::Owned(words), sections, None))
    }

    /// [`Reader::from_bytes`] of the state compiled into the program.
    pub fn from_static(bytes: &'static [u8]) -> Result<Reader, Fault> {
        Reader::from_bytes(bytes)
    }

    fn new(memory: Memory, sections: Sections, origin: Option<Origin>) -> Reader {
        let words = match &memory {
            Memory::Mapped(map) => map.words(),
            Memory::Owned(words) => words,
        };
        let header = Box::new(load_header(words));
        let statics = Arc::new(bytes::load_statics(words, &sections));
        let cards: Arc<[Card]> = sections.records(words, SectionKind::Cards).collect();
        let record = sections.place(SectionKind::Lives).stride;
        let reader = Reader {
            last_lives: cards.iter().map(|_| LastGood::new(record)).collect(),
            last_tables: LastGood::new(sections.len),
            stuck_at: AtomicU64::new(0),
            same_boot: same_boot(header.boot_id, clock::boot_id()),
            memory,
            sections,
            header,
            statics,
            cards,
            origin,
        };
        // Something to fall back on from the first question on.
        for gpu in 0..reader.gpus() {
            reader.with_live(gpu, |_| ());
        }
        reader.tables(|_| ());
        reader
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        match &self.memory {
            Memory::Mapped(map) => map.words(),
            Memory::Owned(words) => words,
        }
    }

    #[inline]
    fn header_word(&self, offset: usize) -> &AtomicU64 {
        &self.words()[word_of(offset)]
    }

    /// The header as it was when the state was opened: node, driver, versions, period. For what moves on, see
    /// [`Reader::tick`], [`Reader::flags`] and [`Tables::header`].
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The tables that do not change while the file lives.
    pub fn statics(&self) -> &Arc<Statics> {
        &self.statics
    }

    /// Boards; they do not change while the file lives.
    pub fn boards(&self) -> &[Board] {
        &self.statics.boards
    }

    /// GPU-instance profiles; they do not change while the file lives.
    pub fn gpu_profiles(&self) -> &[GpuProfile] {
        &self.statics.gpu_profiles
    }

    /// Compute-instance profiles; they do not change while the file lives.
    pub fn compute_profiles(&self) -> &[ComputeProfile] {
        &self.statics.compute_profiles
    }

    /// Cards; they do not change while the file lives.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// The board of a GPU; `None` if there is no such GPU, or its card names no board.
    pub fn board(&self, gpu: u32) -> Option<&Board> {
        let card = self.cards.get(gpu as usize)?;
        self.statics.boards.get(card.board as usize)
    }

    /// GPUs of the node.
    pub fn gpus(&self) -> u32 {
        self.cards.len() as u32
    }

    /// Ticks so far.
    pub fn tick(&self) -> u64 {
        self.header_word(offset_of!(Header, tick)).load(Relaxed)
    }

    /// See [`header_flags`].
    pub fn flags(&self) -> u64 {
        self.header_word(offset_of!(Header, flags)).load(Relaxed)
    }

    /// Differs each time an engine starts anew.
    pub fn epoch(&self) -> u64 {
        self.header.epoch
    }

    /// Milliseconds of the simulated Unix clock at the last tick.
    pub fn unix_ms(&self) -> u64 {
        self.header_word(offset_of!(Header, unix_ms)).load(Relaxed)
    }

    /// Simulated milliseconds since the start at the last tick.
    pub fn sim_ms(&self) -> u64 {
        self.header_word(offset_of!(Header, sim_ms)).load(Relaxed)
    }

    /// How much the state is worth at a time of [`clock::boottime_ns`]. A time before the last heartbeat
    /// (another time namespace) counts as fresh.
    pub fn freshness(&self, now_boottime_ns: u64) -> Freshness {
        let flags = self.flags();
        let beat = self
            .header_word(offset_of!(Header, heartbeat_ns))
            .load(Relaxed);
        let period_ms = self
            .header_word(offset_of!(Header, period_ms))
            .load(Relaxed);
        fence(Acquire);
        if flags & header_flags::RETIRED != 0 {
            return Freshness::Retired;
        }
        if flags & header_flags::STATIC != 0 || beat == 0 {
            return Freshness::Static;
        }
        // Three missed ticks, and two seconds for a machine that is out of breath.
        let patience_ns = period_ms
            .saturating_mul(3)
            .saturating_add(2_000)
            .saturating_mul(1_000_000);
        if self.same_boot && now_boottime_ns.saturating_sub(beat) <= patience_ns {
            Freshness::Fresh
        } else {
            Freshness::Stale
        }
    }

    /// The path it was opened at, from the root on; `None` for one in memory.
    pub fn path(&self) -> Option<&Path> {
        self.origin.as_ref().map(|origin| origin.path.as_path())
    }

    /// Whether the path now holds another file, or none. Costs a system call: ask when the state is stale or retired,
    /// and not more than once a second.
    pub fn is_replaced(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| {
            fs::metadata(&origin.path).map_or(true, |now| {
                (now.dev(), now.ino()) != (origin.dev, origin.ino)
            })
        })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("path", &self.path())
            .field("gpus", &self.gpus())
            .field("tick", &self.tick())
            .finish_non_exhaustive()
    }
}

/// Whether a heartbeat counts from this boot; a side that does not know its boot is believed.
fn same_boot(writer: [u8; 16], reader: [u8; 16]) -> bool {
    writer == reader || writer == [0; 16] || reader == [0; 16]
}

#[cfg(test)]
mod tests;
