//! What exists: the GPU catalogue, MIG geometry, topology, activity profiles, and the
//! config as written turned into the config as meant, with precise errors.
#![forbid(unsafe_code)]

pub mod board;
pub mod catalogue;
pub mod config;
pub mod identity;
pub mod mig;
pub mod plan;
pub mod power_profile;
pub mod quantity;
pub mod schema;
pub mod select;
pub mod xid;
pub mod yaml;
