//! State in, the exact text of dcgm-exporter and other exporters out.
//!
//! An [`Exporter`] is compiled once from an [`Identity`] (whose text to speak), a [`Selection`] (which
//! fields, for dcgm) and [`Options`], and then renders any number of nodes. It reads a
//! [`mirage_state::Node`], so a page can never disagree with NVML, and [`Notes`] of what no state holds (labels
//! of pods, jobs, a window of the past). The same of both always gives the same bytes.
//!
//! A page of one node comes from [`Exporter::render_node`]; a page of a fleet from
//! [`Exporter::chunks`], which goes family by family over all nodes (the format wants each family
//! once) and never holds more than a buffer of text.

#![forbid(unsafe_code)]

mod clock;
mod csv;
mod dcgm;
mod decimal;
mod declared;
mod device;
mod error;
mod exporter;
mod expression;
mod identity;
mod nearest;
mod notes;
mod options;
mod quantity;
mod reference;
mod selection;
mod sha1;
mod text;

pub use clock::{CLOCK_EVENTS, ClockHistory};
pub use error::Error;
pub use exporter::{CONTENT_TYPE, Chunks, Exporter};
pub use identity::Identity;
pub use notes::{ClaimNote, Grant, Jobs, Notes, PodNote, Subject};
pub use options::{Devices, Options};
pub use reference::reference;
pub use selection::Selection;
