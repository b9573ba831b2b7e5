//! The world with everything that must move together with it: plan, published tables, files.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::Plan;
use mirage_sim::{Answer, Input, Reconfigured, Refusal, World};

use super::{Files, Pace};
use crate::fleet::Fleet;
use crate::publish::{self, Clock, millis};
use crate::view::{EventView, FaultView, WorkloadView, workload_views};

/// Events of the whole fleet kept for the API.
const EVENTS_KEPT: usize = 1000;
/// Events a node's ring holds; large fleets keep fewer, or quiet nodes would cost megabytes.
const RING: usize = 256;
const RING_IN_LARGE_FLEETS: usize = 32;
const LARGE_FLEET: usize = 64;

/// What lives on the engine's thread.
#[derive(Debug)]
pub struct Core {
    world: World,
    plan: Arc<Plan>,
    fleet: Arc<Fleet>,
    clock: Clock,
    speed: f64,
    pace: Pace,
    files: Files,
    /// Simulated time stands still but for steps.
    paused: bool,
    /// Changed since it was last published.
    changed: bool,
    /// Lists made for the API, good until something is published.
    workloads: Option<Arc<Vec<WorkloadView>>>,
    faults: Option<Arc<Vec<FaultView>>>,
}

impl Core {
    /// A world that has just begun, published for the first time.
    pub fn new(plan: Plan, speed: f64, start_unix_ms: u64, epoch: u64, files: Files) -> Self {
        let pace = Pace::new(plan.tick, speed);
        let clock = Clock {
            start_unix_ms,
            period: pace.period,
            epoch,
        };
        let mut core = Self {
            world: World::new(&plan),
            plan: Arc::new(plan),
            fleet: Arc::default(),
            clock,
            speed,
            pace,
            files,
            paused: false,
            changed: true,
            workloads: None,
            faults: None,
        };
        core.lay_out();
        core.publish();
        core
    }

    /// What is published.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The plan in force.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The world as it is.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        self.world.now()
    }

    /// How fast time goes.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Simulated seconds per second.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Lets one tick pass and publishes it.
    pub fn tick(&mut self) {
        self.world.step(&[], self.pace.step);
        self.publish();
    }

    /// What the wall clock brings about: a tick, or a sign of life while time stands still.
    pub fn beat(&mut self) {
        if self.paused {
            self.files.update(&self.fleet);
        } else {
            self.tick();
        }
    }

    /// Whether time stands still.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Makes time stand still, or go on. Inputs are taken all the same.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Lets any time pass without publishing it: a step by hand, or an offline run.
    pub fn pass(&mut self, time: Duration) {
        self.world.step(&[], time);
        self.changed = true;
    }

    /// Applies inputs without letting time pass. They show once published.
    pub fn apply(&mut self, inputs: &[Input]) -> Vec<Result<Answer, Refusal>> {
        self.changed = true;
        self.world.step(inputs, Duration::ZERO)
    }

    /// Lays a new plan over the running world.
    pub fn reconfigure(&mut self, plan: Plan) -> Reconfigured {
        let summary = self.world.reconfigure(&plan);
        self.pace = Pace::new(plan.tick, self.speed);
        self.clock.period = self.pace.period;
        self.plan = Arc::new(plan);
        self.lay_out();
        self.changed = true;
        summary
    }

    /// Publishes if something changed since the last time.
    pub fn publish_changes(&mut self) {
        if self.changed {
            self.publish();
        }
    }

    /// All workloads.
    pub fn workloads(&mut self) -> Arc<Vec<WorkloadView>> {
        let (world, plan) = (&self.world, &self.plan);
        self.workloads
            .get_or_insert_with(|| Arc::new(workload_views(world, plan)))
            .clone()
    }

    /// All faults that have struck.
    pub fn faults(&mut self) -> Arc<Vec<FaultView>> {
        let (world, plan) = (&self.world, &self.plan);
        let views = || {
            let faults = world.faults().iter();
            Arc::new(faults.map(|fault| FaultView::new(fault, plan)).collect())
        };
        self.faults.get_or_insert_with(views).clone()
    }

    /// Replaces the tables of all nodes by fresh ones. Nodes that stay keep their events.
    fn lay_out(&mut self) {
        let mut images = publish::images(&self.plan, self.clock);
        let names = publish::names(&self.plan);
        {
            let mut published = self.fleet.write();
            for (name, &at) in names.iter() {
                let old = published.names.get(name);
                if let Some(old) = old.and_then(|&old| published.nodes.get(old)) {
                    let image = Arc::make_mut(&mut images[at]);
                    image.events = old.events.clone();
                    image.header.event_head = old.header.event_head;
                }
            }
            // The moving tables are filled before anybody can look.
            for (index, image) in images.iter_mut().enumerate() {
                let image = Arc::make_mut(image);
                image.header.tick = published.tick;
                publish::refresh(image, &self.plan, &self.world, index, self.clock);
            }
            published.nodes = images;
            published.names = names;
        }
        self.files.lay_out(&self.plan);
    }

    fn publish(&mut self) {
        self.changed = false;
        self.workloads = None;
        self.faults = None;
        let ring = if self.plan.nodes.len() > LARGE_FLEET {
            RING_IN_LARGE_FLEETS
        } else {
            RING
        };
        let events = self.world.drain_events();
        {
            let mut published = self.fleet.write();
            published.tick += 1;
            published.sim_ms = millis(self.world.now());
            let tick = published.tick;
            for (index, image) in published.nodes.iter_mut().enumerate() {
                let image = Arc::make_mut(image);
                image.header.tick = tick;
                publish::refresh(image, &self.plan, &self.world, index, self.clock);
            }
            for event in &events {
                let Some(image) = published.nodes.get_mut(event.node as usize) else {
                    continue;
                };
                publish::append(Arc::make_mut(image), event, self.clock, ring);
                if published.events.len() == EVENTS_KEPT {
                    published.events.pop_front();
                }
                let view = EventView::new(event, &self.plan, self.clock);
                published.events.push_back(Arc::new(view));
            }
        }
        self.files.update(&self.fleet);
        self.fleet.announce();
    }
}
