//! One thing that shall exist: where, and what it is.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Which directory a path counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    Root,
    Dev,
    State,
    /// The directory of a link to the root, if one was asked for.
    Link,
    /// Last: a specification must not name what is not there yet.
    Cdi,
}

impl Place {
    /// Those that every installation has.
    pub(super) const ALWAYS: [Place; 4] = [Place::Root, Place::Dev, Place::State, Place::Cdi];
}

/// Which command makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// Device nodes: both commands.
    Nodes,
    /// `fs`.
    Files,
    /// `driver`.
    Driver,
}

impl Part {
    pub(super) const ALL: [Part; 3] = [Part::Nodes, Part::Files, Part::Driver];
}

/// A thing that shall exist.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) part: Part,
    pub(super) place: Place,
    /// Relative, of plain names only.
    pub(super) path: PathBuf,
    pub(super) what: What,
}

/// What it is.
#[derive(Debug, Clone)]
pub(super) enum What {
    Directory,
    File {
        bytes: Arc<[u8]>,
        mode: u32,
    },
    /// A copy of a file that lies elsewhere, which may be large.
    Copy {
        from: PathBuf,
        mode: u32,
    },
    Link {
        target: PathBuf,
    },
    /// A character device.
    Node {
        major: u32,
        minor: u32,
    },
}

/// What a thing on disk is, as far as it can be compared: written down in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mark {
    Directory,
    /// SHA-1 of the contents.
    File(String),
    Link(PathBuf),
    Node(u32, u32),
}

impl Mark {
    /// Whether it is a file with nothing in it: what is left of ours when the power went before the disk had it. Nobody's work is lost
    /// with it.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self, Mark::File(sum) if *sum == digest(&[]))
    }
}

/// SHA-1 of some bytes, in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    sha1_smol::Sha1::from(bytes).digest().to_string()
}

/// Whether a path is relative and made of plain names: it cannot lead out of its directory.
pub(super) fn is_plain(path: &Path) -> bool {
    path.components().next().is_some()
        && path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

/// A list being written.
#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Item>,
    part: Part,
    place: Place,
}

impl List {
    pub(super) fn new() -> List {
        List {
            items: Vec::new(),
            part: Part::Driver,
            place: Place::Root,
        }
    }

    /// From here on: things of a part, in a place.
    pub(super) fn begin(&mut self, part: Part, place: Place) {
        self.part = part;
        self.place = place;
    }

    fn push(&mut self, path: PathBuf, what: What) {
        debug_assert!(is_plain(&path), "{}", path.display());
        self.items.push(Item {
            part: self.part,
            place: self.place,
            path,
            what,
        });
    }

    pub(super) fn directory(&mut self, path: impl Into<PathBuf>) {
        self.push(path.into(), What::Directory);
    }

    /// A file everybody may read.
    pub(super) fn file(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
        self.file_with(path, bytes, 0o644);
    }

    pub(super) fn file_with(
        &mut self,
        path: impl Into<PathBuf>,
        bytes: impl Into<Vec<u8>>,
        mode: u32,
    ) {
        let bytes: Vec<u8> = bytes.into();
        let bytes = bytes.into();
        self.push(path.into(), What::File { bytes, mode });
    }

    pub(super) fn copy(&mut self, path: impl Into<PathBuf>, from: PathBuf) {
        self.push(path.into(), What::Copy { from, mode: 0o755 });
    }

    pub(super) fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        let target = target.into();
        self.push(path.into(), What::Link { target });
    }

    pub(super) fn node(&mut self, path: impl Into<PathBuf>, major: u32, minor: u32) {
        self.push(path.into(), What::Node { major, minor });
    }
}
