//! A fleet's tick, copied for one large page.
//!
//! A page that streams for seconds must not hold the nodes themselves: the engine would have to copy every node it
//! writes meanwhile, table by table, and the memory would stay scattered. This copy has only what pages show, in a
//! few large pieces that go back to the system at once when the page is done.

use std::ops::Range;
use std::sync::Arc;

use mirage_metrics::{Notes, Subject};
use mirage_state::layout::{Card, Container, Event, Holding, Instance, Live};
use mirage_state::{Facts, Image, Node, Statics};

use crate::attribution::Seen;

/// All nodes of one tick, without their processes.
#[derive(Debug, Default)]
pub(super) struct Lean {
    nodes: Vec<Place>,
    names: String,
    lives: Vec<Live>,
    instances: Vec<Instance>,
    containers: Vec<Container>,
    holdings: Vec<Holding>,
    events: Vec<Event>,
    heap: Vec<u8>,
}

/// Where a node's tables lie: half the size of a usize, as there are many nodes and a million GPUs at most.
#[derive(Debug)]
struct Place {
    facts: Facts,
    name: Range<u32>,
    driver: Range<u32>,
    statics: Arc<Statics>,
    cards: Arc<[Card]>,
    lives: Range<u32>,
    instances: Range<u32>,
    containers: Range<u32>,
    holdings: Range<u32>,
    events: Range<u32>,
    heap: Range<u32>,
    notes: Option<Arc<Notes>>,
}

/// Appends a table; returns where it lies.
fn put<T: Copy>(all: &mut Vec<T>, table: &[T]) -> Range<u32> {
    let start = all.len() as u32;
    all.extend_from_slice(table);
    start..all.len() as u32
}

/// Appends a name; returns where it lies.
fn name(all: &mut String, name: &str) -> Range<u32> {
    let start = all.len() as u32;
    all.push_str(name);
    start..all.len() as u32
}

/// The table that lies there.
fn part<'t, T>(all: &'t [T], at: &Range<u32>) -> &'t [T] {
    &all[at.start as usize..at.end as usize]
}

impl Lean {
    /// Copies nodes, and lets go of each at once.
    pub(super) fn copy(nodes: Vec<Seen>) -> Lean {
        let total =
            |length: fn(&Image) -> usize| nodes.iter().map(|seen| length(&seen.image)).sum();
        let mut lean = Lean {
            nodes: Vec::with_capacity(nodes.len()),
            names: String::new(),
            lives: Vec::with_capacity(total(|image| image.lives.len())),
            instances: Vec::with_capacity(total(|image| image.instances.len())),
            containers: Vec::with_capacity(total(|image| image.containers.len())),
            holdings: Vec::with_capacity(total(|image| image.holdings.len())),
            events: Vec::with_capacity(total(|image| image.events.len())),
            heap: Vec::with_capacity(total(|image| image.heap.len())),
        };
        for Seen { image, notes } in nodes {
            let node = image.node();
            let place = Place {
                facts: node.facts,
                name: name(&mut lean.names, node.name),
                driver: name(&mut lean.names, node.driver),
                statics: image.statics.clone(),
                cards: image.cards.clone(),
                lives: put(&mut lean.lives, &image.lives),
                instances: put(&mut lean.instances, &image.instances),
                containers: put(&mut lean.containers, &image.containers),
                holdings: put(&mut lean.holdings, &image.holdings),
                events: put(&mut lean.events, &image.events),
                heap: put(&mut lean.heap, &image.heap),
                notes,
            };
            lean.nodes.push(place);
        }
        lean
    }

    /// The nodes, in their order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Subject<'_>> + Clone {
        let text = |at: &Range<u32>| &self.names[at.start as usize..at.end as usize];
        self.nodes.iter().map(move |place| Subject {
            notes: place.notes.as_deref(),
            node: Node {
                name: text(&place.name),
                driver: text(&place.driver),
                facts: place.facts,
                boards: &place.statics.boards,
                gpu_profiles: &place.statics.gpu_profiles,
                compute_profiles: &place.statics.compute_profiles,
                cards: &place.cards,
                lives: part(&self.lives, &place.lives),
                instances: part(&self.instances, &place.instances),
                processes: &[],
                containers: part(&self.containers, &place.containers),
                holdings: part(&self.holdings, &place.holdings),
                events: part(&self.events, &place.events),
                heap: part(&self.heap, &place.heap),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use mirage_metrics::{Exporter, Identity, Options, Selection};

    use super::*;
    use crate::publish::{self, Clock};

    #[test]
    fn a_copy_renders_as_the_nodes_do() {
        let plan = mirage_model::config::demo("n", "a100-sxm4-40gb", 2, 5, 3).unwrap();
        let mut world = mirage_sim::World::new(&plan);
        world.step(&[], std::time::Duration::from_secs(90));
        let clock = Clock {
            start_unix_ms: 0,
            period: plan.tick,
            epoch: 0,
        };
        let mut images = publish::images(&plan, clock);
        for (at, image) in images.iter_mut().enumerate() {
            publish::refresh(Arc::make_mut(image), &plan, &world, at, clock);
        }
        let identity = Identity::by_name("dcgm").unwrap();
        let options = Options {
            pods: true,
            ..Options::default()
        };
        let exporter = Exporter::new(&identity, &Selection::everything(), options).unwrap();
        let page = |nodes: &mut dyn Iterator<Item = Vec<u8>>| nodes.collect::<Vec<_>>().concat();
        let whole = page(&mut exporter.chunks(images.iter().map(|image| image.node())));
        let seen = images.iter().map(|image| Seen {
            image: image.clone(),
            notes: None,
        });
        let lean = Lean::copy(seen.collect());
        assert!(whole.len() > 1000);
        assert!(page(&mut exporter.chunks(lean.nodes())) == whole);
        // Nothing is held on to.
        assert!(images.iter().all(|image| Arc::strong_count(image) == 1));
    }
}
