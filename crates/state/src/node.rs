//! A node's state as borrowed tables (`Node`), and the same owned in plain memory (`Image`), for the
//! thousands of nodes that have no NVML client.

use std::sync::Arc;

use crate::layout::{
    Board, Card, ComputeProfile, Container, Event, GpuProfile, Header, Holding, Instance, Live,
    Process, TextRef, text,
};

/// What a node shows, of one tick. Every surface that is not NVML reads this.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each is the plural of its record")]
pub struct Node<'a> {
    /// Its name.
    pub name: &'a str,
    /// The driver version.
    pub driver: &'a str,
    pub facts: Facts,
    pub boards: &'a [Board],
    pub gpu_profiles: &'a [GpuProfile],
    pub compute_profiles: &'a [ComputeProfile],
    pub cards: &'a [Card],
    pub lives: &'a [Live],
    pub instances: &'a [Instance],
    pub processes: &'a [Process],
    pub containers: &'a [Container],
    pub holdings: &'a [Holding],
    /// The ring, in no order; see [`Event::number`].
    pub events: &'a [Event],
    /// Text of names; see [`Node::text`].
    pub heap: &'a [u8],
}

/// The numbers of a node's header. The rest of it is about the file, and twenty times as long.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each is what the header calls so")]
pub struct Facts {
    pub flags: u64,
    pub tick: u64,
    pub sim_ms: u64,
    pub unix_ms: u64,
    pub cuda_version: u32,
    pub mig_strategy: u32,
}

impl Facts {
    /// What this header says.
    pub fn of(header: &Header) -> Self {
        Self {
            flags: header.flags,
            tick: header.tick,
            sim_ms: header.sim_ms,
            unix_ms: header.unix_ms,
            cuda_version: header.cuda_version,
            mig_strategy: header.mig_strategy,
        }
    }
}

impl<'a> Node<'a> {
    /// The text a reference means; empty when it points nowhere.
    pub fn text(&self, at: TextRef) -> &'a str {
        let start = at.offset as usize;
        let end = start.saturating_add(at.len as usize);
        self.heap
            .get(start..end)
            .and_then(|b| str::from_utf8(b).ok())
            .unwrap_or("")
    }

    /// The board of a card; `None` if the file lies.
    pub fn board(&self, card: &Card) -> Option<&'a Board> {
        self.boards.get(card.board as usize)
    }
}

/// The tables that nodes of one model share.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "each is the plural of its record")]
pub struct Statics {
    pub boards: Vec<Board>,
    pub gpu_profiles: Vec<GpuProfile>,
    pub compute_profiles: Vec<ComputeProfile>,
}

/// A node in plain memory.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "each is the plural of its record")]
pub struct Image {
    /// Name, driver, flags, tick; its sections are filled in when it becomes a file.
    pub header: Box<Header>,
    pub statics: Arc<Statics>,
    pub cards: Arc<[Card]>,
    pub lives: Vec<Live>,
    pub instances: Vec<Instance>,
    pub processes: Vec<Process>,
    pub containers: Vec<Container>,
    pub holdings: Vec<Holding>,
    pub events: Vec<Event>,
    pub heap: Vec<u8>,
}

impl Image {
    /// The node, borrowed.
    pub fn node(&self) -> Node<'_> {
        Node {
            name: text(&self.header.node),
            driver: text(&self.header.driver),
            facts: Facts::of(&self.header),
            boards: &self.statics.boards,
            gpu_profiles: &self.statics.gpu_profiles,
            compute_profiles: &self.statics.compute_profiles,
            cards: &self.cards,
            lives: &self.lives,
            instances: &self.instances,
            processes: &self.processes,
            containers: &self.containers,
            holdings: &self.holdings,
            events: &self.events,
            heap: &self.heap,
        }
    }
}
