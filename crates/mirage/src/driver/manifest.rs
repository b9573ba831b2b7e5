//! What was made, written down in the driver root: enough to recognise it, to converge after a killed run, and to take exactly it away.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::item::{Mark, Part, Place, is_plain};

/// Name of the manifest in the root, and of the one before it while a run is under way.
const NAME: &str = ".mirage.json";
const OLD: &str = ".mirage.json.old";
/// Version of its format.
const FORMAT: u32 = 1;
/// No root needs more: 128 GPUs take half a megabyte.
const LARGEST: u64 = 64 << 20;

/// What was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Manifest {
    pub(super) format: u32,
    /// False while a run is under way: things may be as before, as after, or missing.
    pub(super) complete: bool,
    pub(super) node: String,
    pub(super) driver: String,
    pub(super) gpus: usize,
    pub(super) model: String,
    /// Whether device nodes are real ones.
    pub(super) real_nodes: bool,
    pub(super) places: BTreeMap<Place, PathBuf>,
    /// Directories above the places that were not there before, outermost first.
    pub(super) made: Vec<PathBuf>,
    pub(super) entries: Vec<Entry>,
}

/// One thing made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) part: Part,
    pub(super) place: Place,
    pub(super) path: PathBuf,
    /// What it is; while a run is under way also what it was.
    pub(super) marks: Vec<Mark>,
}

impl Entry {
    /// Whether what stands there is what was made, or all that is left of it.
    pub(super) fn is_ours(&self, found: &Mark) -> bool {
        self.marks.contains(found) || found.is_blank()
    }
}

impl Manifest {
    /// Reads the manifest of a root; `None` if there is none.
    pub(super) fn read(root: &Path) -> Result<Option<Manifest>> {
        let path = root.join(NAME);
        let shown = path.display().to_string();
        let there = match fs::symlink_metadata(&path) {
            Ok(there) => there,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("looking at {shown}")),
        };
        let me = rustix::process::geteuid().as_raw();
        // It says what to delete: only whoever could delete it anyway may have written it.
        if !there.is_file()
            || there.mode() & 0o022 != 0
            || ![me, 0].contains(&there.uid())
            || there.len() > LARGEST
        {
            bail!(
                "{shown}: not a manifest this user wrote; move it away, and what it lists by hand"
            );
        }
        if there.len() == 0 {
            // The power went before it listed anything.
            return Ok(None);
        }
        let text = fs::read(&path).with_context(|| format!("reading {shown}"))?;
        let manifest: Manifest = serde_json::from_slice(&text).with_context(|| {
            format!("{shown}: not a manifest; move it away, and what was made by hand")
        })?;
        if manifest.format != FORMAT {
            bail!(
                "{shown}: made by another version of mirage (format {}, this one knows {FORMAT}); remove it with that one",
                manifest.format
            );
        }
        let relative = manifest.entries.iter().all(|entry| is_plain(&entry.path));
        let absolute = manifest
            .places
            .values()
            .chain(&manifest.made)
            .all(|path| path.is_absolute());
        if !relative || !absolute {
            bail!("{shown}: names paths no run of mirage would make; nothing is touched");
        }
        Ok(Some(manifest))
    }

    /// An empty one.
    pub(super) fn new(places: BTreeMap<Place, PathBuf>) -> Manifest {
        Manifest {
            format: FORMAT,
            complete: false,
            node: String::new(),
            driver: String::new(),
            gpus: 0,
            model: String::new(),
            real_nodes: false,
            places,
            made: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Writes it, whole or not at all, and to the disk before what it lists is made.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(NAME);
        let draft = root.join(format!("{NAME}.new"));
        let written = (|| {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&draft)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            if !self.entries.is_empty() {
                file.sync_data()?;
            }
            fs::rename(&draft, &path)
        })();
        if written.is_err() {
            // Half of it helps nobody, and takes room on what may be a full disk.
            let _ = fs::remove_file(&draft);
        }
        written.with_context(|| format!("writing {}", path.display()))
    }

    /// Keeps the one that stands under another name as well, so that [`Manifest::bring_back`] needs no room on a disk that may be
    /// full by then.
    pub(super) fn keep(root: &Path) {
        Manifest::forget(root);
        // A filesystem without links: it will have to be written anew.
        let _ = fs::hard_link(root.join(NAME), root.join(OLD));
    }

    /// Brings this one back, which was kept.
    pub(super) fn bring_back(&self, root: &Path) -> Result<()> {
        match fs::rename(root.join(OLD), root.join(NAME)) {
            Ok(()) => {
                // Two names of one file are left as they are by a rename.
                Manifest::forget(root);
                Ok(())
            }
            Err(_) => self.write(root),
        }
    }

    /// Takes the one away that was kept.
    pub(super) fn forget(root: &Path) {
        let _ = fs::remove_file(root.join(OLD));
    }

    /// Takes it away; a half-written one too.
    pub(super) fn remove(root: &Path) {
        // Whichever is there.
        Manifest::forget(root);
        let _ = fs::remove_file(root.join(format!("{NAME}.new")));
        let _ = fs::remove_file(root.join(NAME));
    }

    /// The entry of a path.
    pub(super) fn find(&self, place: Place, path: &Path) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.place == place && entry.path == path)
    }
}

/// Holds a root against other runs for as long as it lives: the lock is on the directory itself, so nothing is left behind.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes the lock; `None` if the root has gone meanwhile.
    pub(super) fn take(root: &Path) -> Result<Option<Lock>> {
        let shown = root.display();
        let file = match File::open(root) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("opening {shown}")),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another run of mirage is at work on {shown}; try again when it has ended")
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {shown}"));
            }
        }
        let here = file.metadata().map(|ours| (ours.dev(), ours.ino()));
        let there = fs::metadata(root).map(|there| (there.dev(), there.ino()));
        match (here, there) {
            (Ok(here), Ok(there)) if here == there => Ok(Some(Lock(file))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_before_comes_back_where_nothing_can_be_written() {
        let root = tempfile::tempdir().unwrap();
        let before = Manifest::new(BTreeMap::new());
        before.write(root.path()).unwrap();
        Manifest::keep(root.path());
        let mut underway = before.clone();
        underway.gpus = 7;
        underway.write(root.path()).unwrap();
        // Nothing more can be written from here on.
        fs::create_dir(root.path().join(format!("{NAME}.new"))).unwrap();
        assert!(before.write(root.path()).is_err());
        before.bring_back(root.path()).unwrap();
        let back = Manifest::read(root.path()).unwrap().unwrap();
        assert_eq!(back.gpus, before.gpus);
        assert!(!root.path().join(OLD).exists());
    }
}
