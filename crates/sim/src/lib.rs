//! What happens: a world of GPUs, and the one function that moves it on.
//!
//! [`World::step`] takes inputs and a length of simulated time and nothing else: no clock, no
//! I/O, no threads. The same plan, inputs and step lengths give the same readings, bit for bit.
//! Whatever a surface may be asked about a GPU is in [`Readings`], already quantised to integers.
#![forbid(unsafe_code)]

mod activity;
mod chance;
mod event;
mod fault;
mod gpu;
mod input;
mod lifecycle;
mod load;
mod mig;
mod physics;
mod process;
mod readings;
mod reconfigure;
mod settings;
mod step;
mod workload;
mod world;

pub use event::{Event, EventKind};
pub use fault::{FaultState, PendingFault};
pub use gpu::Gpu;
pub use input::{Answer, Change, EccScope, FaultSelector, Input, MigOp, Profile, Refusal, Setting};
pub use mig::{Compute, Instance, Ratios};
pub use process::Process;
pub use readings::{Ecc, Readings, ReasonTimes, Violations, reasons};
pub use reconfigure::Reconfigured;
pub use workload::{Ending, Phase, WorkloadState};
pub use world::{Node, World};
