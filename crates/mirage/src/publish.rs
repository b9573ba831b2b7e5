//! The world as tables: turns a plan and a world into the records every surface reads.
//!
//! What never changes while a node lives (boards, MIG profiles, cards) is laid out once by
//! [`images`]; what moves is rewritten in place by [`refresh`]. Records are built by naming every
//! field on both sides, so a new reading that nobody publishes does not compile.

mod events;
mod instances;
mod live;
mod processes;
mod statics;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::{MigStrategy, NodePlan, Plan};
use mirage_sim::{Event, World};
use mirage_state::Image;
use mirage_state::layout::{Header, MAGIC, MAJOR, MINOR, fixed, header_flags};

/// What the tables say about the engine behind them.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Unix time at which the simulation began.
    pub start_unix_ms: u64,
    /// Wall-clock time between ticks.
    pub period: Duration,
    /// Differs each time an engine starts anew.
    pub epoch: u64,
}

impl Clock {
    /// Unix time of a simulated moment.
    pub fn unix_ms(&self, simulated: Duration) -> u64 {
        self.start_unix_ms.saturating_add(millis(simulated))
    }
}

/// Whole milliseconds of a duration.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The nodes of a plan with all that is fixed about them, and nothing moving yet.
pub fn images(plan: &Plan, clock: Clock) -> Vec<Arc<Image>> {
    let mut shared = statics::Shared::default();
    plan.nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let (statics, boards) = shared.tables(node);
            Arc::new(Image {
                header: Box::new(header(plan, node, clock)),
                cards: statics::cards(node, index, &boards),
                statics,
                ..Image::default()
            })
        })
        .collect()
}

/// Where each node stands, by name.
pub fn names(plan: &Plan) -> Arc<HashMap<Arc<str>, usize>> {
    let names = plan.nodes.iter().enumerate();
    Arc::new(names.map(|(at, node)| (node.name.clone(), at)).collect())
}

/// Writes what node `index` is doing now into its tables.
pub fn refresh(image: &mut Image, plan: &Plan, world: &World, index: usize, clock: Clock) {
    let (Some(node), Some(planned)) = (world.node(index), plan.nodes.get(index)) else {
        return;
    };
    image.header.sim_ms = millis(world.now());
    image.header.unix_ms = clock.unix_ms(world.now());
    image.lives.clear();
    let gpus = node.gpus();
    let lives = gpus.iter().enumerate().map(|(at, gpu)| {
        let module = live::module_mw(gpus, at);
        live::live(gpu.board(), gpu.readings(), module, clock)
    });
    image.lives.extend(lives);
    instances::refresh(image, planned, node.gpus());
    processes::refresh(image, world, index, clock);
}

/// Appends an event to its node's ring of at most `capacity`.
pub fn append(image: &mut Image, event: &Event, clock: Clock, capacity: usize) {
    events::append(image, event, clock, capacity);
}

fn header(plan: &Plan, node: &NodePlan, clock: Clock) -> Header {
    let (major, minor) = node.driver.cuda;
    let mut flags = 0;
    if node.dynamic_mig {
        flags |= header_flags::DYNAMIC_MIG;
    }
    Header {
        magic: MAGIC,
        major: MAJOR,
        minor: MINOR,
        epoch: clock.epoch,
        period_ms: millis(clock.period),
        flags,
        cuda_version: major.saturating_mul(1000).saturating_add(minor * 10),
        mig_strategy: match plan.mig_strategy {
            MigStrategy::None => 0,
            MigStrategy::Single => 1,
            MigStrategy::Mixed => 2,
        },
        node: fixed(&node.name),
        driver: fixed(&node.driver.version),
        ..Header::default()
    }
}

#[cfg(test)]
mod tests;
