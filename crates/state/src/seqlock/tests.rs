use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
};

use super::*;

/// Reads per reader of the stress; an interpreter that checks every access gets fewer, and optimised
/// code, which has the tighter races, more.
const READS: u64 = if cfg!(miri) {
    300
} else if cfg!(debug_assertions) {
    1_500_000
} else {
    5_000_000
};
const WORDS: usize = 6;

#[test]
fn a_disturbed_read_is_repeated() {
    let (seq, word) = (AtomicU64::new(0), AtomicU64::new(1));
    let runs = Cell::new(0);
    let (value, at) = read(&seq, LOOKS, || {
        runs.set(runs.get() + 1);
        let seen = word.load(Relaxed);
        if runs.get() == 1 {
            let odd = begin(&seq);
            word.store(2, Relaxed);
            end(&seq, odd);
        }
        seen
    })
    .unwrap();
    assert_eq!((value, at, runs.get()), (2, 2, 2));
}

#[test]
fn a_read_disturbed_every_time_is_given_up() {
    let seq = AtomicU64::new(0);
    let runs = Cell::new(0);
    let answer = read(&seq, LOOKS, || {
        runs.set(runs.get() + 1);
        let odd = begin(&seq);
        end(&seq, odd);
    });
    assert_eq!((answer, runs.get()), (None, LOOKS));
}

#[test]
fn a_write_left_open_is_not_read_and_can_be_ended() {
    let seq = AtomicU64::new(4);
    assert_eq!(begin(&seq), 5);
    let answer = read(&seq, LOOKS, || panic!("read inside a write"));
    assert!(answer.is_none());
    // The next writer finds it odd.
    let odd = begin(&seq);
    assert_eq!(odd, 5);
    end(&seq, odd);
    assert_eq!(read(&seq, 1, || ()), Some(((), 6)));
}

#[test]
fn the_last_good_copy_outlives_a_bad_one() {
    let last = LastGood::new(1);
    let value = |words: &[AtomicU64]| words[0].load(Relaxed);
    assert_eq!(last.read(value), None);
    let fill = |number| {
        move |words: &[AtomicU64]| {
            words[0].store(number, Relaxed);
            Some(number)
        }
    };
    last.refresh(fill(2));
    assert!(last.is_from(2) && !last.is_from(4));
    last.refresh(|words| {
        words[0].store(99, Relaxed);
        // Readers and other refreshers meanwhile: the one sees the old copy, the other goes without.
        assert_eq!(last.read(value), Some(2));
        last.refresh(fill(98));
        None
    });
    assert_eq!(last.read(value), Some(2));
    last.refresh(fill(4));
    assert_eq!((last.read(value), last.is_from(4)), (Some(4), true));
}

/// A writer that never rests against readers that may give up but must never see a mixture. The
/// readers' counts bound it, and what is checked holds under every schedule.
#[test]
fn no_reader_ever_sees_a_torn_record() {
    let seq = AtomicU64::new(0);
    let words: [AtomicU64; WORDS] = std::array::from_fn(|_| AtomicU64::new(0));
    let last = LastGood::new(WORDS);
    let stop = AtomicBool::new(false);
    // Unoptimised iterators would make this a test of iterators.
    let copy = |words: &[AtomicU64]| {
        let mut out = [0; WORDS];
        let mut i = 0;
        while i < WORDS {
            out[i] = words[i].load(Relaxed);
            i += 1;
        }
        out
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Relaxed) {
                number += 1;
                let odd = begin(&seq);
                for word in &words {
                    word.store(number, Relaxed);
                }
                end(&seq, odd);
            }
            number
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut newest = 0;
                    for turn in 0..READS {
                        let whole = match read(&seq, LOOKS, || copy(&words)) {
                            Some((whole, at)) => {
                                // Each write adds two to the sequence, so the two tell the same number.
                                assert_eq!(whole[0] * 2, at);
                                assert!(whole[0] >= newest, "time ran backwards");
                                newest = whole[0];
                                if turn % 16 == 0 {
                                    last.refresh(|to| {
                                        for (to, from) in to.iter().zip(whole) {
                                            to.store(from, Relaxed);
                                        }
                                        Some(at)
                                    });
                                }
                                Some(whole)
                            }
                            None => last.read(copy),
                        };
                        if let Some(whole) = whole {
                            assert!(whole == [whole[0]; WORDS], "torn: {whole:?}");
                        }
                    }
                })
            })
            .collect();
        let readers: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        // Only now, and whatever became of the readers, or the writer would never end.
        stop.store(true, Relaxed);
        let written = writer.join().unwrap();
        for reader in readers {
            reader.unwrap();
        }
        let (whole, at) = read(&seq, 1, || copy(&words)).unwrap();
        assert_eq!((whole, at), ([written; WORDS], written * 2));
    });
}
