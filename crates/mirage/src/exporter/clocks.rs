//! A short memory of clock events for every node, kept while some exporter shows them.
//!
//! It looks once a second, or as often as it was told, and never while a scrape waits. As in DCGM, what a page shows is how many
//! of these looks of the window found a GPU held back, and by what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use mirage_metrics::{CLOCK_EVENTS, ClockHistory};
use mirage_state::Image;

/// Shows every node to whoever asks.
type Show = Box<dyn Fn(&mut dyn FnMut(&Image)) + Send + Sync>;

/// What was seen of clock events, by node.
#[derive(Default)]
pub struct Clocks {
    show: OnceLock<Show>,
    nodes: Mutex<HashMap<String, Memory>>,
}

/// What was seen of a node.
struct Memory {
    history: ClockHistory,
    /// Whether the present look has found it.
    is_there: bool,
}

impl std::fmt::Debug for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clocks").finish_non_exhaustive()
    }
}

impl Clocks {
    /// Says where nodes are to be seen; the first to say so counts.
    pub fn look_at(&self, show: impl Fn(&mut dyn FnMut(&Image)) + Send + Sync + 'static) {
        let _ = self.show.set(Box::new(show));
    }

    /// Looks at every node once, for windows of a length and looks that far apart.
    pub fn look(&self, window_ms: u64, every_ms: u64) {
        let Some(show) = self.show.get() else {
            return;
        };
        let mut nodes = self.nodes();
        show(&mut |image| {
            let node = image.node();
            match nodes.get_mut(node.name) {
                Some(memory) => {
                    memory.history.note(&node);
                    memory.is_there = true;
                }
                None => {
                    let mut history = ClockHistory::new(window_ms, every_ms);
                    history.note(&node);
                    let is_there = true;
                    nodes.insert(node.name.to_owned(), Memory { history, is_there });
                }
            }
        });
        nodes.retain(|_, memory| std::mem::take(&mut memory.is_there));
    }

    /// Forgets everything: nobody shows it any more.
    pub fn forget(&self) {
        let mut nodes = self.nodes();
        if !nodes.is_empty() {
            *nodes = HashMap::new();
        }
    }

    /// What was seen of a node's GPUs.
    pub fn counts(&self, node: &str) -> Vec<[u32; CLOCK_EVENTS]> {
        let nodes = self.nodes();
        nodes
            .get(node)
            .map_or(Vec::new(), |memory| memory.history.counts().to_vec())
    }

    fn nodes(&self) -> std::sync::MutexGuard<'_, HashMap<String, Memory>> {
        self.nodes
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A node's notes with its clock events among them.
pub(super) fn noted(clocks: &Clocks, seen: crate::attribution::Seen) -> crate::attribution::Seen {
    let counts = clocks.counts(seen.image.node().name);
    if counts.is_empty() {
        return seen;
    }
    let mut notes = seen.notes.as_deref().cloned().unwrap_or_default();
    notes.clock_events = counts;
    crate::attribution::Seen {
        notes: Some(Arc::new(notes)),
        ..seen
    }
}

#[cfg(test)]
mod tests {
    use mirage_state::layout::{Live, fixed};

    use super::*;

    fn image(name: &str, second: u64, reasons: u64) -> Image {
        let mut image = Image::default();
        image.header.node = fixed(name);
        image.header.unix_ms = second * 1_000;
        image.lives = vec![Live {
            reasons,
            ..Live::default()
        }];
        image
    }

    #[test]
    fn each_node_has_a_memory_of_its_own() {
        let now = Arc::new(Mutex::new(vec![image("a", 1, 4), image("b", 1, 0)]));
        let clocks = Clocks::default();
        clocks.look(10_000, 1_000);
        assert!(clocks.counts("a").is_empty(), "nobody said where to look");
        let shown = now.clone();
        clocks.look_at(move |look| shown.lock().unwrap().iter().for_each(look));
        for second in 1..4 {
            *now.lock().unwrap() = vec![image("a", second, 4), image("b", second, 0)];
            clocks.look(10_000, 1_000);
        }
        assert_eq!(clocks.counts("a")[0][2], 3);
        assert_eq!(clocks.counts("b")[0][2], 0);
        // A node that went takes its memory with it, and no other's.
        *now.lock().unwrap() = vec![image("a", 4, 4)];
        clocks.look(10_000, 1_000);
        clocks.look(10_000, 1_000);
        assert_eq!(clocks.counts("a")[0][2], 4);
        assert!(clocks.counts("b").is_empty());
        clocks.forget();
        assert!(clocks.counts("a").is_empty());
    }
}
