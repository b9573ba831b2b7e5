//! Which devices go well together.
//!
//! Whole GPUs: all that are available are dealt out into sets of the size wanted so that the sum of all sets' scores is
//! the highest there is, and the best set is taken. That keeps good pairs for whoever comes next. Up to
//! [`EXACT`] GPUs the best partition is found; beyond, sets grow one GPU at a time.
//!
//! Shared GPUs and MIG devices: from the GPU with the fewest devices taken (`distributed`) or the most (`packed`).

use std::collections::{BTreeMap, HashMap};

/// Most GPUs for which the best partition is searched.
pub const EXACT: usize = 16;

/// How devices of shared GPUs are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Over as many GPUs as possible.
    #[default]
    Distributed,
    /// On as few GPUs as possible.
    Packed,
}

/// Chooses `size` of the `available` GPUs, all of `must` among them. `score` says how well two go together. Nothing when
/// it cannot be done.
pub fn whole(
    available: &[usize],
    must: &[usize],
    size: usize,
    score: impl Fn(usize, usize) -> u32,
) -> Vec<usize> {
    let mut gpus = available.to_vec();
    gpus.sort_unstable();
    gpus.dedup();
    let place = |gpu: &usize| gpus.iter().position(|known| known == gpu);
    let Some(mut wanted) = must.iter().map(place).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    wanted.sort_unstable();
    wanted.dedup();
    if size == 0 || size > gpus.len() || wanted.len() > size {
        return Vec::new();
    }
    let pairs = Pairs::new(gpus.len(), |a, b| score(gpus[a], gpus[b]));
    let chosen = if gpus.len() <= EXACT {
        Search::new(&pairs, size).choose(&wanted)
    } else {
        grow(&pairs, &wanted, size)
    };
    chosen.into_iter().map(|at| gpus[at]).collect()
}

/// Scores of all pairs.
struct Pairs {
    gpus: usize,
    scores: Vec<u32>,
}

impl Pairs {
    fn new(gpus: usize, score: impl Fn(usize, usize) -> u32) -> Self {
        let all = (0..gpus).flat_map(|a| (0..gpus).map(move |b| (a, b)));
        let scores = all.map(|(a, b)| if a == b { 0 } else { score(a.min(b), a.max(b)) });
        Self {
            gpus,
            scores: scores.collect(),
        }
    }

    fn of(&self, a: usize, b: usize) -> u64 {
        self.scores[a * self.gpus + b].into()
    }

    /// For every set its sum over all pairs: that of the set without its lowest member, and what that one adds.
    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0u64; 1 << self.gpus];
        for set in 1..sums.len() {
            let lowest = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            let mut sum = sums[rest];
            let mut left = rest;
            while left != 0 {
                sum += self.of(lowest, left.trailing_zeros() as usize);
                left &= left - 1;
            }
            sums[set] = sum;
        }
        sums
    }
}

fn members(set: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |at| set & (1 << at) != 0)
}

/// The search for the best partition.
struct Search {
    gpus: usize,
    sums: Vec<u64>,
    size: usize,
    /// For a set of GPUs: the best sum, and the first set of that partition.
    best: HashMap<u32, (u64, u32)>,
}

impl Search {
    fn new(pairs: &Pairs, size: usize) -> Self {
        Self {
            gpus: pairs.gpus,
            sums: pairs.sums(),
            size,
            best: HashMap::new(),
        }
    }

    fn choose(&mut self, wanted: &[usize]) -> Vec<usize> {
        let all = u32::MAX >> (32 - self.gpus);
        let must: u32 = wanted.iter().map(|at| 1 << at).sum();
        let chosen = if must == 0 {
            self.partition(all);
            self.best_set(all)
        } else {
            let mut best = (0, 0);
            for set in subsets(all & !must, self.size - wanted.len()) {
                let set = set | must;
                let sum = self.sums[set as usize] + self.partition(all & !set);
                if best.1 == 0 || sum > best.0 {
                    best = (sum, set);
                }
            }
            best.1
        };
        members(chosen).collect()
    }

    /// The best sum over partitions of these GPUs. If they do not come out even, one set is smaller.
    fn partition(&mut self, gpus: u32) -> u64 {
        if gpus == 0 {
            return 0;
        }
        if let Some((sum, _)) = self.best.get(&gpus) {
            return *sum;
        }
        let first = gpus & gpus.wrapping_neg();
        let rest = gpus & !first;
        let count = gpus.count_ones() as usize;
        let mut sizes = vec![self.size];
        if !count.is_multiple_of(self.size) {
            sizes.push(count % self.size);
        }
        let mut best = (0, 0);
        for size in sizes.into_iter().filter(|&size| size <= count) {
            for set in subsets(rest, size - 1) {
                let set = set | first;
                let sum = self.sums[set as usize] + self.partition(gpus & !set);
                if best.1 == 0 || sum > best.0 {
                    best = (sum, set);
                }
            }
        }
        self.best.insert(gpus, best);
        best.0
    }

    /// The best of the full sets in the partition found.
    fn best_set(&self, mut gpus: u32) -> u32 {
        let mut best = (0, 0);
        while let Some(&(_, set)) = self.best.get(&gpus) {
            let sum = self.sums[set as usize];
            if set.count_ones() as usize == self.size && (best.1 == 0 || sum > best.0) {
                best = (sum, set);
            }
            gpus &= !set;
        }
        best.1
    }
}

/// All subsets of a set that have so many members, the lowest members first.
fn subsets(of: u32, size: usize) -> Vec<u32> {
    let members: Vec<u32> = members(of).map(|at| 1 << at).collect();
    let mut found = Vec::new();
    extend(&members, size, 0, &mut found);
    found
}

fn extend(members: &[u32], size: usize, set: u32, found: &mut Vec<u32>) {
    if size == 0 {
        found.push(set);
        return;
    }
    for at in 0..members.len() {
        if members.len() - at < size {
            return;
        }
        extend(&members[at + 1..], size - 1, set | members[at], found);
    }
}

/// Grows a set from those wanted, or from every GPU in turn, by whoever goes best with it.
fn grow(pairs: &Pairs, wanted: &[usize], size: usize) -> Vec<usize> {
    let seeds: Vec<Vec<usize>> = match wanted {
        [] => (0..pairs.gpus).map(|gpu| vec![gpu]).collect(),
        _ => vec![wanted.to_vec()],
    };
    let mut best: Option<(u64, Vec<usize>)> = None;
    for mut set in seeds {
        while set.len() < size {
            let free = (0..pairs.gpus).filter(|gpu| !set.contains(gpu));
            let gain = |gpu: usize| set.iter().map(|&other| pairs.of(gpu, other)).sum::<u64>();
            // Of equals the first.
            let Some(next) = free.rev().max_by_key(|&gpu| gain(gpu)) else {
                break;
            };
            set.push(next);
        }
        set.sort_unstable();
        let pairs_in = |set: &[usize]| -> u64 {
            let all = set.iter().flat_map(|&a| set.iter().map(move |&b| (a, b)));
            all.map(|(a, b)| pairs.of(a, b)).sum()
        };
        let sum = pairs_in(&set);
        if best.as_ref().is_none_or(|(most, _)| sum > *most) {
            best = Some((sum, set));
        }
    }
    best.map_or_else(Vec::new, |(_, set)| set)
}

/// Chooses `size` of the `available` devices, all of `must` among them. Each device belongs to a group (its GPU), of
/// which `total` says how many devices it has. Nothing when it cannot be done.
pub fn shared(
    available: &[(&str, usize)],
    must: &[&str],
    size: usize,
    sharing: Sharing,
    total: impl Fn(usize) -> usize,
) -> Vec<String> {
    let mut free: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut chosen: Vec<&str> = Vec::new();
    for &(id, group) in available {
        if must.contains(&id) {
            chosen.push(id);
        } else {
            free.entry(group).or_default().push(id);
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    if chosen.len() < must.iter().collect::<std::collections::BTreeSet<_>>().len() {
        return Vec::new();
    }
    for ids in free.values_mut() {
        // Taken from the end: the lowest first.
        ids.sort_by(|a, b| (b.len(), b).cmp(&(a.len(), a)));
        ids.dedup();
    }
    while chosen.len() < size {
        let taken = |group: usize, left: usize| total(group).saturating_sub(left);
        let left = free.iter().filter(|(_, ids)| !ids.is_empty());
        let next = match sharing {
            Sharing::Distributed => {
                left.min_by_key(|(group, ids)| (taken(**group, ids.len()), **group))
            }
            Sharing::Packed => left
                .max_by_key(|(group, ids)| (taken(**group, ids.len()), std::cmp::Reverse(**group))),
        };
        let Some(group) = next.map(|(group, _)| *group) else {
            return Vec::new();
        };
        chosen.extend(free.get_mut(&group).and_then(Vec::pop));
    }
    if chosen.len() > size {
        return Vec::new();
    }
    chosen.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
