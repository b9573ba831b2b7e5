//! What can be wrong with an identity, a field list or an option. Rendering itself cannot fail.

/// Why an exporter could not be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No identity has that name.
    #[error("identity {name:?} is not known; there are: {known}")]
    UnknownIdentity {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// An identity file says something it may not.
    #[error("reading identity {file}: {problem}")]
    Identity {
        /// The file, or its built-in name.
        file: String,
        /// What is wrong and where.
        problem: String,
    },
    /// A field list says something it may not.
    #[error("reading field list {file}, line {line}: {problem}")]
    Selection {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and the way out.
        problem: String,
    },
    /// A field list chose nothing.
    #[error(
        "reading field list {file}: it names no field; give at least one line \"field, type, help\""
    )]
    EmptySelection {
        /// The file.
        file: String,
    },
    /// A device choice cannot be read.
    #[error("device choice {text:?}: {problem}; write f, g, g:0-3, i or i:0,2-4")]
    Devices {
        /// The choice as written.
        text: String,
        /// What is wrong.
        problem: String,
    },
}
