//! Why a source of pods gave no answer.

use std::path::PathBuf;

/// What [`Error`] replaces.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a source of pods gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing lies at the path.
    #[error("{what} {path} is not there yet", path = .path.display())]
    Absent {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// The path holds something of another kind.
    #[error("{what} {path}: {why}", path = .path.display())]
    Unfit {
        /// What was looked for.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What is wrong, and the way out.
        why: &'static str,
    },
    /// It could not be read.
    #[error("reading pod list {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It could not be written.
    #[error("{attempt} pod list {path}", path = .path.display())]
    Write {
        /// What was done to it.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what a pod list looks like.
    #[error("reading pod list {path}: {problem}", path = .path.display())]
    PodList {
        /// The file.
        path: PathBuf,
        /// What is wrong and where.
        problem: String,
    },
    /// The socket does not answer.
    #[error("connecting to pod-resources socket {path}: {problem}", path = .path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// The kubelet refused, or answered nonsense.
    #[error("listing pods at {path}: {problem}", path = .path.display())]
    List {
        /// The socket.
        path: PathBuf,
        /// Its words.
        problem: String,
    },
    /// There is no way to the API server.
    #[error("finding an API server: {problem}")]
    Access {
        /// What is missing, and the way out.
        problem: String,
    },
    /// The kubeconfig cannot be used.
    #[error("reading kubeconfig {path}: {problem}", path = .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A topology document says something impossible.
    #[error("reading topology {document}: {problem}")]
    Topology {
        /// Which.
        document: String,
        /// What is wrong and where.
        problem: String,
    },
    /// A MIG layout cannot be had.
    #[error("cutting a {board} into MIG devices: {why}")]
    Mig {
        /// The GPU's model.
        board: String,
        /// What is in the way.
        why: String,
    },
    /// A `run.ai/mig.config` is not what one looks like.
    #[error("reading run.ai/mig.config: {problem}")]
    MigConfig {
        /// What is wrong and where.
        problem: String,
    },
    /// A `run.ai/mig-mapping` is not what one looks like.
    #[error("reading run.ai/mig-mapping: {problem}")]
    MigMapping {
        /// What is wrong.
        problem: String,
    },
    /// A pod's `runai-mig-device` is not what one looks like.
    #[error("reading runai-mig-device: {problem}")]
    MigDevice {
        /// What is wrong.
        problem: String,
    },
}

/// An error and what lies beneath it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    printable(&text)
}

/// Words of another program, fit for a line of ours.
pub(crate) fn printable(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(300).collect()
}
