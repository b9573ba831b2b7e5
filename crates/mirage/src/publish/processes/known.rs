//! What is in a table already, and where.

use std::collections::HashMap;
use std::hash::Hash;

/// So many are found faster by looking through a list.
const FEW: usize = 16;

/// Where each key is. Most nodes have few, in a list; the keys of a crowded one are hashed, so that each is found as
/// fast as the first.
#[derive(Debug)]
pub(super) struct Known<K, V> {
    few: Vec<(K, V)>,
    many: HashMap<K, V>,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self {
            few: Vec::new(),
            many: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash, V: Copy> Known<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<V> {
        if !self.many.is_empty() {
            return self.many.get(key).copied();
        }
        let found = self.few.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| *value)
    }

    /// Adds a key that is not known yet.
    pub(super) fn add(&mut self, key: K, value: V) {
        if self.many.is_empty() && self.few.len() < FEW {
            self.few.push((key, value));
        } else {
            self.many.extend(self.few.drain(..));
            self.many.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_a_map_and_nothing_is_lost() {
        let mut known = Known::default();
        for key in 0..4 * FEW {
            assert_eq!(known.get(&key), None);
            known.add(key, 2 * key);
            assert!((0..=key).all(|key| known.get(&key) == Some(2 * key)));
            assert_eq!(known.many.len(), if key < FEW { 0 } else { key + 1 });
        }
    }
}
