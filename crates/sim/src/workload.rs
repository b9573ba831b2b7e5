//! A workload's life: pending, running through its activity steps, ended with a reason.
//! What it demands from a device at a moment is in `activity`; what it gets is in `physics`.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::{ActivityStep, DeviceRef, Limits, Owner, WorkloadKind, WorkloadPlan};

/// Where a workload is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Its time has not come.
    Pending,
    /// On its devices.
    Running,
    /// Gone.
    Ended(Box<Ending>),
}

/// How a workload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// "completed", "Limit memory reached, terminated", ...
    pub reason: String,
    /// Exit code: 0 for a normal end, 1 otherwise.
    pub code: i32,
    /// When, simulated.
    pub at: Duration,
}

/// What workloads made from one template have in common: kept once, however many there are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) at: Duration,
    pub(crate) activity: Vec<ActivityStep>,
    pub(crate) repeat: Option<u32>,
    pub(crate) limits: Limits,
    pub(crate) intensity: f64,
    pub(crate) tensor: f64,
    pub(crate) process: Arc<str>,
    pub(crate) kind: WorkloadKind,
}

impl Shape {
    /// Whether steps end when those of `other` do.
    pub(crate) fn has_times_of(&self, other: &Shape) -> bool {
        let times = |shape: &Shape| -> Vec<Option<Duration>> {
            shape.activity.iter().map(|step| step.duration).collect()
        };
        self.repeat == other.repeat && times(self) == times(other)
    }

    pub(crate) fn of(plan: &WorkloadPlan) -> Self {
        // What a config cannot say an input still might: a number that is none counts as 0.
        let number = |x: f64, most: f64| {
            if x.is_finite() {
                x.clamp(0.0, most)
            } else {
                0.0
            }
        };
        Self {
            at: plan.at,
            activity: plan.activity.clone(),
            repeat: plan.repeat,
            limits: plan.limits,
            intensity: number(plan.intensity, 4.0),
            tensor: number(plan.tensor, 1.0),
            process: plan.process.as_str().into(),
            kind: plan.kind,
        }
    }
}

/// A limit that ends workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Runtime,
    Memory,
    Temperature,
    Power,
}

impl Limit {
    /// The message of a limit, in the words workload clients are told.
    pub(crate) fn reached(self) -> String {
        let name = match self {
            Self::Runtime => "runtime",
            Self::Memory => "memory",
            Self::Temperature => "temperature",
            Self::Power => "power",
        };
        format!("Limit {name} reached, terminated")
    }
}

/// A workload known to the world. Compact, for fleets where every GPU has its own.
#[derive(Debug, Clone)]
pub struct WorkloadState {
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    pub(crate) devices: Box<[DeviceRef]>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) owner: Option<Arc<Owner>>,
    pub(crate) phase: Phase,
    /// When it may begin, or when it began.
    pub(crate) begins: Duration,
    /// How far its own clock, by which steps are timed, is ahead of the world's: what it had behind it when it came.
    pub(crate) lead: Duration,
    /// When the current step began, by its own clock.
    pub(crate) step_began: Duration,
    pub(crate) step: u32,
    pub(crate) round: u32,
    /// Tells its noise from other workloads'.
    pub(crate) salt: u64,
    /// Named by the plan rather than added by an input.
    pub(crate) planned: bool,
    /// To be ended by this limit when the next stretch begins.
    pub(crate) doomed: Option<Limit>,
}

impl WorkloadState {
    pub(crate) fn new(
        id: u64,
        plan: &WorkloadPlan,
        shape: Arc<Shape>,
        now: Duration,
        planned: bool,
    ) -> Self {
        let begins = now.saturating_add(plan.at);
        Self {
            id,
            name: plan.name.as_str().into(),
            devices: plan.devices.as_slice().into(),
            shape,
            owner: plan.owner.clone().map(Arc::new),
            phase: Phase::Pending,
            begins,
            lead: Duration::ZERO,
            step_began: begins,
            step: 0,
            round: 0,
            salt: crate::chance::salt(&plan.name),
            planned,
            doomed: None,
        }
    }

    /// Whether `plan` describes this very workload, its devices being `devices` now.
    pub(crate) fn follows(&self, plan: &WorkloadPlan, devices: &[DeviceRef]) -> bool {
        *self.name == *plan.name
            && devices == plan.devices
            && self.owner.as_deref() == plan.owner.as_ref()
            && *self.shape == Shape::of(plan)
    }

    /// Its id, never used twice in a world.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its activity steps.
    pub fn activity(&self) -> &[ActivityStep] {
        &self.shape.activity
    }

    /// The limits that end it.
    pub fn limits(&self) -> &Limits {
        &self.shape.limits
    }

    /// How often its steps are run; `None` for ever.
    pub fn repeat(&self) -> Option<u32> {
        self.shape.repeat
    }

    /// The pod and container it belongs to.
    pub fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.as_ref()
    }

    /// Where it is in its life.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Index of the current activity step.
    pub fn step(&self) -> usize {
        self.step as usize
    }

    /// How often the list of steps has been run before.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// When it began, or will.
    pub fn began(&self) -> Duration {
        self.begins
    }

    /// Devices it names.
    pub fn devices(&self) -> &[DeviceRef] {
        &self.devices
    }

    /// The activity step in force.
    pub(crate) fn current(&self) -> Option<&ActivityStep> {
        self.shape.activity.get(self.step as usize)
    }

    /// Tells one run of one step from all others.
    pub(crate) fn step_number(&self) -> u32 {
        let steps = u32::try_from(self.shape.activity.len()).unwrap_or(u32::MAX);
        self.round.wrapping_mul(steps).wrapping_add(self.step)
    }

    /// What its own clock shows.
    pub(crate) fn clock(&self, now: Duration) -> Duration {
        now.saturating_add(self.lead)
    }

    /// Moves on to the step in force at `now`; `false` when the list is through.
    pub(crate) fn advance(&mut self, now: Duration) -> bool {
        let now = self.clock(now);
        // A list of empty steps repeated for ever would never get anywhere: one lap without
        // time passing means it is over.
        let mut idle_steps = 0;
        while let Some(step) = self.shape.activity.get(self.step as usize) {
            let Some(length) = step.duration else {
                return true;
            };
            let Some(end) = self.step_began.checked_add(length) else {
                return true;
            };
            if now < end {
                return true;
            }
            if self.step == 0 && self.skip_laps(now) {
                continue;
            }
            idle_steps = if length.is_zero() { idle_steps + 1 } else { 0 };
            if idle_steps > self.shape.activity.len() {
                return false;
            }
            self.step_began = end;
            self.step += 1;
            if self.step as usize == self.shape.activity.len() {
                self.step = 0;
                self.round = self.round.saturating_add(1);
                if self.shape.repeat.is_some_and(|times| self.round >= times) {
                    return false;
                }
            }
        }
        false
    }
    /// Leaves out runs of the whole list that lie behind `now`, except the last of a number: a list may be so short, or so long ago, that
    /// going through it step by step would take for ever. `false` when there is nothing to leave out.
    fn skip_laps(&mut self, now: Duration) -> bool {
        let mut steps = self.shape.activity.iter();
        let lap = steps.try_fold(Duration::ZERO, |lap, step| lap.checked_add(step.duration?));
        let Some(lap) = lap.filter(|lap| !lap.is_zero()) else {
            return false;
        };
        let behind = now.saturating_sub(self.step_began).as_nanos() / lap.as_nanos();
        let most = self.shape.repeat.map(|times| {
            let left = times.saturating_sub(self.round).saturating_sub(1);
            u128::from(left)
        });
        let laps = most.map_or(behind, |most| behind.min(most));
        let skipped = laps * lap.as_nanos();
        self.step_began += Duration::new(
            u64::try_from(skipped / 1_000_000_000).unwrap_or(u64::MAX),
            (skipped % 1_000_000_000) as u32,
        );
        let laps = u32::try_from(laps).unwrap_or(u32::MAX);
        self.round = self.round.saturating_add(laps);
        laps > 0
    }
}
