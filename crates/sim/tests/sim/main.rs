//! The simulation from outside: rules of physics, workloads, faults, MIG, settings, reload.
#![allow(clippy::unwrap_used, reason = "a helper that unwraps fails its test")]

mod calibration;
mod faults;
mod fleet;
mod mig;
mod physics;
mod properties;
mod reconfigure;
mod settings;
mod workloads;
