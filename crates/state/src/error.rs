//! What can go wrong with a node's state, always with the path or the byte it went wrong at.

use std::{fmt, io, path::PathBuf};

use crate::layout::{MAJOR, SectionKind};

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a state could not be opened, read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was attempted, as in "creating lock file".
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// Another process writes this directory.
    Held {
        /// The directory.
        dir: PathBuf,
        /// The holder, if its lock file says.
        pid: Option<u32>,
    },
    /// A path that cannot serve, and the way out.
    Unfit {
        /// The path.
        path: PathBuf,
        /// What it is, and what to do.
        why: &'static str,
    },
    /// A file that is not a state this version reads.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Fault,
    },
    /// An image that cannot become a file.
    Image(Fault),
}

/// What is wrong with the bytes of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Shorter than a header.
    Short {
        /// Bytes there are.
        len: u64,
        /// Bytes there must be.
        need: u64,
    },
    /// Longer than any state.
    Long {
        /// Bytes there are.
        len: u64,
        /// Most there may be.
        most: u64,
    },
    /// Does not begin with the magic number.
    Magic(u64),
    /// Written by an incompatible version.
    Major(u32),
    /// Impossible header length.
    HeaderLen(u32),
    /// The header promises more bytes than there are.
    Truncated {
        /// Bytes the header promises.
        says: u64,
        /// Bytes there are.
        is: u64,
    },
    /// A section that cannot be.
    Section {
        /// Which.
        kind: SectionKind,
        /// Why it cannot.
        why: &'static str,
        /// The offending number.
        value: u64,
    },
    /// As many live records as cards there must be.
    Pairing {
        /// Cards.
        cards: u64,
        /// Live records.
        lives: u64,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, path, .. } => write!(f, "{doing} {}", path.display()),
            Error::Held {
                dir,
                pid: Some(pid),
            } => write!(
                f,
                "locking {}: process {pid} already writes it; stop that process or use another directory",
                dir.display()
            ),
            Error::Held { dir, pid: None } => write!(
                f,
                "locking {}: another process already writes it; stop that process or use another directory",
                dir.display()
            ),
            Error::Unfit { path, why } => write!(f, "using {}: {why}", path.display()),
            Error::Malformed { path, source } => {
                write!(f, "reading state file {}: {source}", path.display())
            }
            Error::Image(fault) => write!(f, "laying out a node's state: {fault}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Short { len, need } => {
                write!(f, "{len} bytes are too few for a header of {need}")
            }
            Fault::Long { len, most } => write!(f, "{len} bytes are more than the {most} allowed"),
            Fault::Magic(found) => {
                write!(f, "byte 0: not a mirage state (begins with {found:#018x})")
            }
            Fault::Major(found) => write!(
                f,
                "byte 8: unknown major version {found}, this reader knows {MAJOR}; use the library of the version that wrote it"
            ),
            Fault::HeaderLen(found) => write!(f, "byte 16: impossible header length {found}"),
            Fault::Truncated { says, is } => {
                write!(f, "byte 24: {says} bytes promised, {is} there")
            }
            Fault::Section { kind, why, value } => {
                write!(f, "section {kind:?}: {why} ({value})")
            }
            Fault::Pairing { cards, lives } => {
                write!(f, "{cards} cards but {lives} live records")
            }
        }
    }
}

impl std::error::Error for Fault {}

/// Wraps an io error with what was attempted on which path.
pub(crate) fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        doing,
        path,
        source,
    }
}
