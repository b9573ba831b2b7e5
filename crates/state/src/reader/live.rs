//! One GPU's live record: a field, several fields of one moment, or all of it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use super::Reader;
use crate::{
    layout::{Live, SectionKind},
    seqlock::{self, LOOKS},
    words::{self, Field, WORD},
};

/// Reads fields of a GPU's live record from a [`Reader`], without allocation, lock or system call.
///
/// One field answers with its value; several answer with a tuple of one moment. `None` if there is
/// no such GPU, or no undisturbed moment was ever seen (see [`Reader::with_live`]).
///
/// ```
/// # use mirage_state::{Reader, live};
/// fn load_and_heat(reader: &Reader, gpu: u32) -> Option<(u32, i32)> {
///     let _corrected = live!(reader, gpu, ecc_volatile.corrected_dram)?;
///     live!(reader, gpu, gpu_percent, temperature_c)
/// }
/// ```
#[macro_export]
macro_rules! live {
    ($reader:expr, $gpu:expr, $($field:ident).+ $(,)?) => {
        $reader.field(
            $gpu,
            ::std::mem::offset_of!($crate::layout::Live, $($field).+),
            |live: &$crate::layout::Live| live.$($field).+,
        )
    };
    ($reader:expr, $gpu:expr, $($($field:ident).+),+ $(,)?) => {
        $reader.with_live($gpu, |view: $crate::LiveView<'_>| ($(
            view.field(
                ::std::mem::offset_of!($crate::layout::Live, $($field).+),
                |live: &$crate::layout::Live| live.$($field).+,
            ),
        )+))
    };
}

/// A live record being read; values count only once the whole read went undisturbed.
#[derive(Clone, Copy)]
pub struct LiveView<'a> {
    words: &'a [AtomicU64],
}

impl LiveView<'_> {
    /// The field at an offset of [`Live`]; zero if the file's records are too short for it. The function only says which type
    /// it has; [`live!`](crate::live) writes both.
    #[inline]
    pub fn field<F: Field>(&self, offset: usize, _kind: fn(&Live) -> F) -> F {
        let word = self.words.get(offset / WORD);
        F::take(word.map_or(0, |word| word.load(Relaxed)), offset % WORD)
    }

    /// All of it, its sequence as zero.
    #[inline]
    pub fn copy(&self) -> Live {
        Live {
            seq: 0,
            ..words::load(self.words)
        }
    }
}

impl Reader {
    /// One field of a GPU's live record: a single load, so never torn, and answered even if the writer died in
    /// the middle of this record. Use [`live!`](crate::live).
    #[inline]
    pub fn field<F: Field>(&self, gpu: u32, offset: usize, kind: fn(&Live) -> F) -> Option<F> {
        Some(self.live_view(gpu)?.field(offset, kind))
    }

    /// Runs `read` over a GPU's live record until it ran undisturbed, or over the last good copy if that takes too long.
    /// It may run several times, on values that do not fit together; only the undisturbed run's
    /// answer is returned.
    #[inline]
    pub fn with_live<R>(&self, gpu: u32, mut read: impl FnMut(LiveView<'_>) -> R) -> Option<R> {
        let view = self.live_view(gpu)?;
        let last = &self.last_lives[gpu as usize];
        match seqlock::read(&view.words[0], LOOKS, || read(view)) {
            Some((result, seq)) => {
                if !last.is_from(seq) {
                    self.keep_live(gpu, seq);
                }
                Some(result)
            }
            None => last.read(|words| read(LiveView { words })),
        }
    }

    /// A GPU's whole live record, of one moment, its sequence as zero.
    pub fn live_copy(&self, gpu: u32) -> Option<Live> {
        self.with_live(gpu, |view| view.copy())
    }

    #[inline]
    fn live_view(&self, gpu: u32) -> Option<LiveView<'_>> {
        if gpu as usize >= self.cards.len() {
            return None;
        }
        let words = self
            .sections
            .record(self.words(), SectionKind::Lives, gpu as usize);
        Some(LiveView { words })
    }

    /// Takes a copy for worse days, once per change.
    #[cold]
    fn keep_live(&self, gpu: u32, seq: u64) {
        let Some(LiveView { words }) = self.live_view(gpu) else {
            return;
        };
        self.last_lives[gpu as usize].refresh(|to| {
            for (to, from) in to.iter().zip(words) {
                to.store(from.load(Relaxed), Relaxed);
            }
            fence(Acquire);
            (words[0].load(Relaxed) == seq).then_some(seq)
        });
    }
}
