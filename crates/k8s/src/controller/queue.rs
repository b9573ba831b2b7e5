//! What is to be looked at, when: each key once however often it is named, and again, ever later, after it failed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The first wait after a failure.
const FIRST: Duration = Duration::from_millis(200);
/// The longest.
const LONGEST: Duration = Duration::from_secs(30);

/// Keys that wait. Time is passed in.
#[derive(Debug)]
pub struct Queue<K> {
    due: BTreeMap<(Instant, u64), K>,
    waiting: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    /// Taken and not yet done; named meanwhile, they are looked at once more.
    busy: BTreeSet<K>,
    again: BTreeSet<K>,
    number: u64,
}

impl<K: Clone + Ord + std::hash::Hash> Default for Queue<K> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            waiting: HashMap::new(),
            failures: HashMap::new(),
            busy: BTreeSet::new(),
            again: BTreeSet::new(),
            number: 0,
        }
    }
}

impl<K: Clone + Ord + std::hash::Hash> Queue<K> {
    /// Wants a look at `key` as soon as possible. One that failed keeps its wait unless it is due anyway.
    pub fn push(&mut self, key: K, now: Instant) {
        if self.busy.contains(&key) {
            self.again.insert(key);
            return;
        }
        if self.failures.contains_key(&key) && self.waiting.contains_key(&key) {
            return;
        }
        self.at(key, now);
    }

    /// Wants a look at `key` at a time, or earlier if something else wants it.
    pub fn at(&mut self, key: K, when: Instant) {
        if let Some(place) = self.waiting.get(&key) {
            if place.0 <= when {
                return;
            }
            self.due.remove(&place.clone());
        }
        self.number += 1;
        let place = (when, self.number);
        self.waiting.insert(key.clone(), place);
        self.due.insert(place, key);
    }

    /// The next key that is due, which is then busy until [`Self::done`].
    pub fn take(&mut self, now: Instant) -> Option<K> {
        let (place, _) = self.due.first_key_value()?;
        if place.0 > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    /// When the next is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|(place, _)| place.0)
    }

    /// A key that was taken has been dealt with, or has to be tried again.
    pub fn done(&mut self, key: K, succeeded: bool, now: Instant) {
        self.busy.remove(&key);
        let again = self.again.remove(&key);
        if succeeded {
            self.failures.remove(&key);
            if again {
                self.at(key, now);
            }
            return;
        }
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let wait = FIRST
            .saturating_mul(1u32 << (*failures - 1).min(16))
            .min(LONGEST);
        self.at(key, now + wait);
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty() && self.busy.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_at_once_and_again_when_it_changed_meanwhile() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.push("a", now);
        queue.push("b", now);
        queue.push("a", now);
        assert_eq!(queue.take(now), Some("a"));
        queue.push("a", now);
        assert_eq!(queue.take(now), Some("b"));
        assert_eq!(queue.take(now), None);
        queue.done("a", true, now);
        queue.done("b", true, now);
        assert_eq!(queue.take(now), Some("a"));
        queue.done("a", true, now);
        assert!(queue.is_idle());
    }

    #[test]
    fn failures_wait_longer_each_time_and_events_do_not_shorten_it() {
        let start = Instant::now();
        let mut queue = Queue::default();
        queue.push("a", start);
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert_eq!(queue.take(now), Some("a"));
            queue.done("a", false, now);
            queue.push("a", now);
            let next = queue.next().expect("it waits");
            assert_eq!(queue.take(next - Duration::from_millis(1)), None);
            waits.push(next - now);
            now = next;
        }
        assert_eq!(waits[0], FIRST);
        assert!(
            waits
                .windows(2)
                .all(|pair| pair[1] == (pair[0] * 2).min(LONGEST))
        );
        assert_eq!(waits[11], LONGEST);
        assert_eq!(queue.take(now), Some("a"));
        queue.done("a", true, now);
        queue.push("a", now);
        assert_eq!(queue.next(), Some(now));
    }
}
