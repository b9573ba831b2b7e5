//! `mirage driver` as a process, in directories of its own: what it makes, that it can be repeated, and that it leaves no trace.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "driver/cdi.rs"]
mod cdi;
#[path = "driver/killed.rs"]
mod killed;
#[path = "driver/safety.rs"]
mod safety;
#[path = "driver/stage.rs"]
mod stage;
#[path = "driver/tree.rs"]
mod tree;
