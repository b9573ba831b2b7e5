//! Records as runs of atomic words: how a record enters and leaves memory that another process
//! may be writing. Every access is a relaxed atomic, so a race is a stale or mixed value (which the
//! seqlock detects), never undefined behaviour.

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::layout::Record;

/// Bytes per word.
pub(crate) const WORD: usize = 8;

/// Words of a record.
pub(crate) const fn words_of<T: Record>() -> usize {
    size_of::<T>() / WORD
}

/// The record that begins at `words`; what the words lack is zero, what they have beyond is ignored.
#[inline]
pub(crate) fn load<T: Record>(words: &[AtomicU64]) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    let out = value.as_mut_ptr().cast::<u64>();
    for (i, word) in words.iter().take(words_of::<T>()).enumerate() {
        // SAFETY: i is below the record's number of words, so the write stays inside `value`; its
        // alignment is not assumed.
        unsafe { out.add(i).write_unaligned(word.load(Relaxed)) };
    }
    // SAFETY: all bytes were zeroed or written, and every bit pattern of a record is valid.
    unsafe { value.assume_init() }
}

/// The words of a record.
#[inline]
pub(crate) fn words<T: Record>(value: &T) -> impl Iterator<Item = u64> + '_ {
    let from = std::ptr::from_ref(value).cast::<u64>();
    (0..words_of::<T>()).map(move |i| {
        // SAFETY: i is below the record's number of words, `value` is borrowed for as long as the
        // iterator, records have no padding, and alignment is not assumed.
        unsafe { from.add(i).read_unaligned() }
    })
}

/// Writes the record over `words` from its word `skip` on, touching only words that differ: a line
/// nobody changes stays in the caches of its readers.
#[inline]
pub(crate) fn store<T: Record>(to: &[AtomicU64], value: &T, skip: usize) {
    for (word, new) in to.iter().zip(words(value)).skip(skip) {
        put(word, new);
    }
}

/// Whether `words` hold the record, its first `skip` words aside.
#[inline]
pub(crate) fn holds<T: Record>(at: &[AtomicU64], value: &T, skip: usize) -> bool {
    at.iter()
        .zip(words(value))
        .skip(skip)
        .all(|(word, new)| word.load(Relaxed) == new)
}

/// Writes one word if it differs.
#[inline]
pub(crate) fn put(word: &AtomicU64, new: u64) {
    if word.load(Relaxed) != new {
        word.store(new, Relaxed);
    }
}

/// Copies bytes into words, the last one padded with zeros.
pub(crate) fn store_bytes(to: &[AtomicU64], bytes: &[u8]) {
    for (word, chunk) in to.iter().zip(bytes.chunks(WORD)) {
        let mut padded = [0; WORD];
        padded[..chunk.len()].copy_from_slice(chunk);
        put(word, u64::from_ne_bytes(padded));
    }
}

/// Appends the first `len` bytes of the words to `out`.
pub(crate) fn load_bytes(from: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    let len = len.min(from.len() * WORD);
    out.reserve(len);
    for i in 0..len.div_ceil(WORD) {
        let bytes = from[i].load(Relaxed).to_ne_bytes();
        out.extend_from_slice(&bytes[..WORD.min(len - i * WORD)]);
    }
}

/// `len` zero words that cost no memory until they are written.
pub(crate) fn zeroed(len: usize) -> Box<[AtomicU64]> {
    // The allocator's zeroed pages are only taken through `u64`, so the type changes afterwards.
    let raw = Box::into_raw(vec![0_u64; len].into_boxed_slice());
    // SAFETY: AtomicU64 has the size, alignment and bit validity of u64, and the box is handed over whole.
    unsafe { Box::from_raw(raw as *mut [AtomicU64]) }
}

/// A value of at most one word that lies at an offset of a record.
pub trait Field: Copy {
    /// Takes the value out of the word it lies in, at a byte of it.
    fn take(word: u64, byte: usize) -> Self;
}

impl Field for u64 {
    #[inline(always)]
    fn take(word: u64, _: usize) -> u64 {
        word
    }
}

impl Field for u32 {
    #[inline(always)]
    fn take(word: u64, byte: usize) -> u32 {
        let high = byte >= 4;
        let shift = if high == cfg!(target_endian = "little") {
            32
        } else {
            0
        };
        (word >> shift) as u32
    }
}

impl Field for i32 {
    #[inline(always)]
    fn take(word: u64, byte: usize) -> i32 {
        u32::take(word, byte) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Holding, TextRef};

    #[test]
    fn a_record_survives_its_words() {
        let record = Holding {
            container: 1,
            gpu: 2,
            gi: 3,
            gpu_percent: 4,
            memory: u64::MAX,
        };
        let memory = zeroed(words_of::<Holding>());
        store(&memory, &record, 0);
        assert!(holds(&memory, &record, 0));
        assert_eq!(load::<Holding>(&memory), record);
        // A shorter, older record: the tail is zero.
        let short = load::<Holding>(&memory[..2]);
        assert_eq!((short.gpu_percent, short.memory), (4, 0));
        // A longer, newer one: what is unknown is ignored.
        assert_eq!(load::<TextRef>(&memory), TextRef { offset: 1, len: 2 });
    }

    #[test]
    fn fields_come_out_of_their_word() {
        let memory = zeroed(1);
        store(&memory, &TextRef { offset: 7, len: 9 }, 0);
        let word = memory[0].load(Relaxed);
        assert_eq!((u32::take(word, 0), u32::take(word, 4)), (7, 9));
    }

    #[test]
    fn bytes_of_any_length_survive() {
        for len in 0..20 {
            let bytes: Vec<u8> = (1..=len).collect();
            let memory = zeroed(3);
            store_bytes(&memory, &bytes);
            let mut out = Vec::new();
            load_bytes(&memory, bytes.len(), &mut out);
            assert_eq!(out, bytes);
        }
    }
}
