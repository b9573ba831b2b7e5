//! The one binary's parts: the roles of the command line, the engine's thread, and the
//! surfaces that read what it publishes (state files, exporter, API, control socket).
//!
//! Data flows one way: the engine steps the world, `publish` turns it into the tables of
//! `mirage_state`, and everything else reads those. The one way back is a
//! [`mirage_sim::Input`], sent over the control socket and answered after it shows.
#![forbid(unsafe_code)]

pub mod attribution;
pub mod check;
pub mod cli;
pub mod control;
pub mod controller;
pub mod ctl;
pub mod driver;
pub mod engine;
pub mod exporter;
pub mod fakedev;
pub mod fleet;
pub mod health;
pub mod http;
pub mod library;
pub mod machine;
pub mod models;
pub mod node;
pub mod page;
pub mod publish;
pub mod reload;
pub mod simulate;
pub mod smi;
pub mod source;
pub mod statedir;
pub mod up;
pub mod view;
