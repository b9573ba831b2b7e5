//! What is true now: the binary layout of a node's GPUs, its file, seqlock, event ring, and who sees
//! which GPU.
//!
//! | Who | Uses |
//! |---|---|
//! | the engine | [`Image`] in memory, [`NodeDir`] for nodes with NVML clients |
//! | the NVML library | [`lookup`] to find a state, [`Reader`] to read it, [`visible`] for what to show |
//! | exporters, API, page | [`Node`], borrowed from an image |

mod builtin;
mod bytes;
pub mod clock;
mod error;
mod file;
#[cfg(test)]
mod fixture;
pub mod layout;
pub mod links;
pub mod lookup;
mod map;
pub mod node;
mod reader;
mod sections;
mod seqlock;
mod tick;
pub mod visible;
mod words;
mod writer;

pub use builtin::built_in;
pub use error::{Error, Fault, Result};
pub use file::{LOCK, STATE};
pub use node::{Facts, Image, Node, Statics};
pub use reader::{Freshness, LiveView, Reader, Seen, Tables};
pub use words::Field;
pub use writer::NodeDir;
