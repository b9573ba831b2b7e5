//! What is published: the tables of every node, all of one tick.
//!
//! The engine writes all nodes under one write lock; a reader takes the nodes it wants under the
//! read lock, which copies pointers and nothing else, and works outside it. A node that somebody is
//! still reading is copied when the engine next writes it, so nobody waits for a slow client and no
//! second copy of the fleet is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use mirage_state::Image;
use tokio::sync::watch;

use crate::view::EventView;

/// The nodes as last published.
#[derive(Debug, Default)]
pub struct Fleet {
    inner: RwLock<Published>,
    /// The last tick that is published, for those who wait for the next.
    announced: watch::Sender<u64>,
}

/// One tick of all nodes.
#[derive(Debug, Default)]
pub struct Published {
    /// Ticks so far, and changes between them.
    pub tick: u64,
    /// Simulated milliseconds since the start.
    pub sim_ms: u64,
    /// Nodes in the plan's order.
    pub nodes: Vec<Arc<Image>>,
    /// Position of a node by name.
    pub names: Arc<HashMap<Arc<str>, usize>>,
    /// The last events of all nodes, oldest first.
    pub events: VecDeque<Arc<EventView>>,
}

/// Nodes of one tick, to be read at leisure.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The tick they are of.
    pub tick: u64,
    /// Simulated milliseconds since the start.
    pub sim_ms: u64,
    /// The nodes.
    pub nodes: Vec<Arc<Image>>,
}

impl Fleet {
    /// All nodes, of one tick.
    pub fn all(&self) -> Snapshot {
        let published = self.read();
        Snapshot {
            tick: published.tick,
            sim_ms: published.sim_ms,
            nodes: published.nodes.clone(),
        }
    }

    /// One node; `None` if there is none of that name.
    pub fn one(&self, name: &str) -> Option<Snapshot> {
        let published = self.read();
        let node = published.nodes.get(*published.names.get(name)?)?;
        Some(Snapshot {
            tick: published.tick,
            sim_ms: published.sim_ms,
            nodes: vec![node.clone()],
        })
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Arc<EventView>> {
        self.read().events.iter().cloned().collect()
    }

    /// What is published, for a short look.
    pub fn read(&self) -> RwLockReadGuard<'_, Published> {
        // A writer that panicked ends the process; until then the last tick is still whole enough.
        self.inner
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Tells of every tick, and of every change between two.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }

    /// Wakes those who wait for a change; after `write`, once what it wrote can be read.
    pub fn announce(&self) {
        let tick = self.read().tick;
        self.announced.send_replace(tick);
    }

    /// The engine's way in: readers wait until it is dropped.
    pub fn write(&self) -> RwLockWriteGuard<'_, Published> {
        self.inner
            .write()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_its_tick_while_the_fleet_moves_on() {
        let fleet = Fleet::default();
        fleet.write().nodes = vec![Arc::default(), Arc::default()];
        let before = fleet.all();
        {
            let mut published = fleet.write();
            published.tick = 1;
            for node in &mut published.nodes {
                Arc::make_mut(node).header.tick = 1;
            }
        }
        assert!(before.nodes.iter().all(|node| node.header.tick == 0));
        assert!(fleet.all().nodes.iter().all(|node| node.header.tick == 1));
    }
}
