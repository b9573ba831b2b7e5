//! A YAML document as a tree that remembers where everything was written.
//!
//! It promises exact spans for keys and values, refuses duplicate keys and more than one
//! document, and bounds what a hostile document can cost: size, depth, nodes, and what
//! aliases copy. It decides nothing about meaning: a scalar stays text until it is asked
//! for as a number. JSON is YAML too, so it reads both.

mod build;
mod scalar;
#[cfg(test)]
mod tests;

/// Largest document in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// Deepest nesting, aliases included.
pub const MAX_DEPTH: usize = 64;
/// Most nodes in one document, copies made by aliases included.
pub const MAX_NODES: usize = 1_000_000;
/// Most text that aliases may copy, in bytes.
pub const MAX_ALIAS_BYTES: usize = 16 << 20;
/// Most problems reported for one document; the rest is noise.
pub const MAX_PROBLEMS: usize = 100;

/// A place in the text. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Position {
    /// Bytes from the start of the text.
    pub offset: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

/// From where to where something was written; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Span {
    pub start: Position,
    pub end: Position,
}

/// Something wrong at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", span.start.line, span.start.column)]
pub struct Problem {
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// The way out, where one is known.
    pub help: Option<String>,
}

/// One value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// An explicit tag, `!!str`.
    pub tag: Option<String>,
    /// Where it was written.
    pub span: Span,
}

/// The three shapes of YAML.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, a number, a truth value or nothing.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values in the order written; no key twice.
    Mapping(Vec<(Key, Node)>),
}

/// A scalar as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    /// Its text after escapes.
    pub text: String,
    /// Whether it was quoted.
    pub style: Style,
}

/// How a scalar was written; only plain ones can be numbers, truth values or null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Bare.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// After `|` or `>`.
    Block,
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Key {
    pub text: String,
    pub span: Span,
}

/// Reads one document. An empty text is a null scalar.
pub fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    build::build(text)
}

impl Problem {
    /// A problem without a known way out.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            help: None,
        }
    }

    /// The same problem with its way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
