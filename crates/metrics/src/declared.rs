//! Exporters that are nothing but data: which metrics, under which names, labels, order and formats.
//!
//! A file of `identities/` says it all; see `docs/reference/metrics.md` for its keys. fakedev-exporter's files are read, too.

pub(crate) mod fakedev;
mod file;
pub(crate) mod plan;

use crate::decimal::Format;
use crate::expression::Expression;
use crate::text::Text;

pub(crate) use file::parse;

/// A declared identity.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) about: String,
    pub(crate) version: String,
    /// Makers it serves; all when empty.
    pub(crate) vendors: Vec<u32>,
    pub(crate) comments: Comments,
    /// Printed before everything else.
    pub(crate) preamble: String,
    /// Between labels.
    pub(crate) separator: String,
    /// Whether a family's samples are sorted by their labels; otherwise they come as GPUs do.
    pub(crate) sorted_samples: bool,
    pub(crate) families: Vec<Family>,
    /// What the file names and no page shows.
    pub(crate) gaps: Vec<String>,
}

/// Where `# HELP` and `# TYPE` stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comments {
    /// Before their family.
    Before,
    /// All together before the first sample.
    First,
    /// Nowhere.
    None,
}

/// A family of a declared identity.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) prometheus: String,
    pub(crate) help: String,
    pub(crate) series: Vec<Series>,
}

/// The series of a family that share a source.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) of: Of,
    pub(crate) on: On,
    pub(crate) from: Expression,
    pub(crate) numbers: Format,
    pub(crate) labels: Vec<Label>,
}

/// What a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Gpu,
    /// MIG instances.
    Instance,
    /// MIG instances where there are some, else the GPU.
    Device,
    /// Each link of each GPU.
    Link,
    /// The node, by its first GPU.
    Node,
}

/// Which nodes have a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    All,
    DynamicMig,
    Others,
}

/// A label.
#[derive(Debug, Clone)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) value: Value,
    /// Left out when empty.
    pub(crate) optional: bool,
}

/// Where a label's text comes from.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Constant(String),
    Text(&'static Text),
    /// The node's name, or the host name the options give.
    Host(&'static Text),
    /// The number of the link.
    Link,
}
