//! `libnvidia-ml.so.1`: the NVML that unmodified programs load and believe, answering from a node's state.
//!
//! C comes in through `exports` (generated from `symbols.csv`, no logic), is checked and given types in `arg` and
//! `device`, answered by a module per topic, and leaves as a code made in `code`. The library is a guest in
//! other people's processes: no threads, no signal handlers, no output, no lock, and on the read path no allocation and no
//! system call.

pub mod abi;
pub mod accounting;
pub mod arg;
pub mod client;
pub mod clocks;
pub mod code;
pub mod confidential;
pub mod control;
pub mod device;
pub mod ecc;
pub mod events;
#[rustfmt::skip]
pub mod exports;
pub mod fabric;
pub mod fields;
pub mod gpm;
pub mod guard;
pub mod handle;
pub mod identity;
pub mod memory;
pub mod mig;
pub mod nvlink;
pub mod pcie;
pub mod power;
pub mod processes;
pub mod profiles;
pub mod session;
pub mod settings;
pub mod slots;
pub mod system;
pub mod table;
pub mod thermal;
pub mod topology;
pub mod units;
pub mod utilization;
pub mod view;

pub use exports::*;
