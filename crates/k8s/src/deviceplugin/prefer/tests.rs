//! What any choice must be, and what a good one is.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Pairs on one switch, quads on one processor, as on most machines with eight GPUs.
fn usual(a: usize, b: usize) -> u32 {
    match () {
        () if a / 2 == b / 2 => 40,
        () if a / 4 == b / 4 => 20,
        () => 10,
    }
}

#[test]
fn good_sets_stay_together() {
    let all: Vec<usize> = (0..8).collect();
    assert_eq!(whole(&all, &[], 2, usual), [0, 1]);
    assert_eq!(whole(&all, &[5], 2, usual), [4, 5]);
    assert_eq!(whole(&all, &[], 4, usual), [0, 1, 2, 3]);
    // One whose pair is taken is given to who wants one; pairs are kept for who wants two.
    assert_eq!(whole(&[0, 1, 3], &[], 2, usual), [0, 1]);
    assert_eq!(whole(&all, &[], 8, usual), all);
}

#[test]
fn the_rest_matters_too() {
    // 0 goes best with 1, but then 2 and 3 are left with nothing between them.
    let scores = |a, b| match (a, b) {
        (0, 1) => 50,
        (0, 2) | (1, 3) => 40,
        _ => 0,
    };
    assert_eq!(whole(&[0, 1, 2, 3], &[], 2, scores), [0, 2]);
    assert_eq!(whole(&[0, 1, 2, 3], &[1], 2, scores), [1, 3]);
}

#[test]
fn what_cannot_be_done_is_not() {
    assert!(whole(&[0, 1], &[], 3, usual).is_empty());
    assert!(whole(&[0, 1], &[], 0, usual).is_empty());
    assert!(whole(&[0, 1], &[7], 1, usual).is_empty());
    assert!(whole(&[0, 1, 2], &[0, 1], 1, usual).is_empty());
    assert!(shared(&[("a", 0)], &["b"], 1, Sharing::Packed, |_| 1).is_empty());
    assert!(shared(&[("a", 0)], &[], 2, Sharing::Packed, |_| 1).is_empty());
}

#[test]
fn shares_spread_or_pack() {
    let free = [
        ("a::0", 0),
        ("a::1", 0),
        ("b::0", 1),
        ("b::1", 1),
        ("b::2", 1),
    ];
    let total = |_| 3;
    let spread = |size| shared(&free, &[], size, Sharing::Distributed, total);
    assert_eq!(spread(1), ["b::0"]);
    assert_eq!(spread(3), ["b::0", "a::0", "b::1"]);
    let pack = |size| shared(&free, &[], size, Sharing::Packed, total);
    assert_eq!(pack(2), ["a::0", "a::1"]);
    assert_eq!(pack(3), ["a::0", "a::1", "b::0"]);
    assert_eq!(
        shared(&free, &["b::2"], 2, Sharing::Packed, total),
        ["b::2", "a::0"]
    );
}

/// A set as large as asked for, of what there is, with what must be in it.
fn is_fit<T: Ord + Clone>(chosen: &[T], available: &[T], must: &[T], size: usize) -> bool {
    let mut distinct = chosen.to_vec();
    distinct.sort();
    distinct.dedup();
    chosen.len() == size
        && distinct.len() == size
        && chosen.iter().all(|it| available.contains(it))
        && must.iter().all(|it| chosen.contains(it))
}

/// Some of a list, in its order.
fn some_of<T: Clone>(list: &[T], mask: u32, most: usize) -> Vec<T> {
    let picked = list
        .iter()
        .enumerate()
        .filter(|(at, _)| mask & (1 << (at % 32)) != 0);
    picked.take(most).map(|(_, it)| it.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_choice_of_gpus_is_fit(
        available in proptest::collection::hash_set(0usize..40, 1..20),
        mask in any::<u32>(),
        part in 0usize..20,
        scores in vec(0u32..1000, 1600),
    ) {
        let available: Vec<usize> = available.into_iter().collect();
        let size = 1 + part % available.len();
        let must = some_of(&available, mask, size);
        let chosen = whole(&available, &must, size, |a, b| scores[a * 40 + b]);
        prop_assert!(is_fit(&chosen, &available, &must, size), "{chosen:?}");
        prop_assert_eq!(&chosen, &whole(&available, &must, size, |a, b| scores[a * 40 + b]));
    }

    /// No partition of few GPUs is better than the one found.
    #[test]
    fn the_best_partition_is_found(scores in vec(0u32..50, 36), size in 1usize..4) {
        let score = |a: usize, b: usize| scores[a * 6 + b];
        let chosen = whole(&[0, 1, 2, 3, 4, 5], &[], size, score);
        let sums = Pairs::new(6, score).sums();
        let set = chosen.iter().fold(0, |set, at| set | 1 << at);
        let mut most = 0;
        let mut with_it = 0;
        each_partition(0b11_1111, size, &mut Vec::new(), &mut |sets| {
            let sum = sets.iter().map(|set| sums[*set as usize]).sum::<u64>();
            most = most.max(sum);
            if sets.contains(&set) {
                with_it = with_it.max(sum);
            }
        });
        prop_assert_eq!(with_it, most);
    }

    #[test]
    fn any_choice_of_shares_is_fit(
        groups in vec(1usize..6, 1..6),
        free in any::<u32>(),
        mask in any::<u32>(),
        part in 0usize..30,
        packed in any::<bool>(),
    ) {
        let all: Vec<(String, usize)> = groups.iter().enumerate()
            .flat_map(|(group, count)| (0..*count).map(move |at| (format!("g{group}::{at}"), group)))
            .collect();
        let available = some_of(&all, free | 1, usize::MAX);
        let size = 1 + part % available.len();
        let ids: Vec<String> = available.iter().map(|(id, _)| id.clone()).collect();
        let must = some_of(&ids, mask, size);
        let borrowed: Vec<(&str, usize)> = available.iter().map(|(id, group)| (id.as_str(), *group)).collect();
        let needed: Vec<&str> = must.iter().map(String::as_str).collect();
        let sharing = if packed { Sharing::Packed } else { Sharing::Distributed };
        let chosen = shared(&borrowed, &needed, size, sharing, |group| groups[group]);
        prop_assert!(is_fit(&chosen, &ids, &must, size), "{chosen:?}");
    }
}

fn each_partition(gpus: u32, size: usize, sets: &mut Vec<u32>, see: &mut impl FnMut(&[u32])) {
    if gpus == 0 {
        see(sets);
        return;
    }
    let first = gpus & gpus.wrapping_neg();
    let left = gpus.count_ones() as usize;
    let mut sizes = vec![size];
    if !left.is_multiple_of(size) {
        sizes.push(left % size);
    }
    for size_now in sizes.into_iter().filter(|now| *now <= left) {
        for set in subsets(gpus & !first, size_now - 1) {
            sets.push(set | first);
            each_partition(gpus & !(set | first), size, sets, see);
            sets.pop();
        }
    }
}

/// Sixteen GPUs are many partitions; the table of sets keeps it to a few hundred thousand steps.
#[test]
fn sixteen_gpus_are_no_trouble() {
    let all: Vec<usize> = (0..16).collect();
    for size in [1, 2, 3, 4, 5, 8, 15, 16] {
        let pairs = Pairs::new(16, usual);
        let mut search = Search::new(&pairs, size);
        assert_eq!(search.choose(&[]).len(), size);
        assert!(
            search.best.len() <= 1 << 15,
            "{size}: {}",
            search.best.len()
        );
        assert_eq!(whole(&all, &[3], size, usual).len(), size);
    }
}
