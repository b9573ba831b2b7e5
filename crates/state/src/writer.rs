//! The one writer of a node's state file.

use std::{
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io::{ErrorKind, Read},
    mem::offset_of,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    bytes::{self, Stamp},
    clock,
    error::{Error, Result, io},
    file::{LockedDir, STATE},
    layout::{Card, Header, MAGIC, header_flags},
    map::Map,
    node::{Image, Statics},
    sections::{Sections, word_of},
    tick::{self, Room},
    words::{self, WORD},
};

/// A node's directory, held by this process: the state file in it, its lock, and nobody else's pen.
///
/// Dropping it takes the file away and tells its readers so. A writer that is killed instead leaves
/// file and lock behind; the next one takes over: it retires the leftover once its own
/// file is in place.
pub struct NodeDir {
    dir: LockedDir,
    epoch: u64,
    boot_id: [u8; 16],
    /// What a dead writer left, until there is something better.
    leftover: Option<Map>,
    current: Option<Current>,
    closed: bool,
}

/// The file in place.
struct Current {
    file: File,
    map: Map,
    sections: Sections,
    fixed: Fixed,
}

/// What a file cannot change while it lives.
#[derive(PartialEq)]
struct Fixed {
    statics: Arc<Statics>,
    cards: Arc<[Card]>,
    node: [u8; 256],
    driver: [u8; 80],
    cuda_version: u32,
    mig_strategy: u32,
}

impl Fixed {
    fn of(image: &Image) -> Fixed {
        Fixed {
            statics: Arc::clone(&image.statics),
            cards: Arc::clone(&image.cards),
            node: image.header.node,
            driver: image.header.driver,
            cuda_version: image.header.cuda_version,
            mig_strategy: image.header.mig_strategy,
        }
    }

    /// Whether the image has the same; cheap while it shares its tables with the last one.
    fn is_of(&self, image: &Image) -> bool {
        let header = &image.header;
        (Arc::ptr_eq(&self.statics, &image.statics) || self.statics == image.statics)
            && (Arc::ptr_eq(&self.cards, &image.cards) || self.cards == image.cards)
            && self.node == header.node
            && self.driver == header.driver
            && self.cuda_version == header.cuda_version
            && self.mig_strategy == header.mig_strategy
    }
}

impl NodeDir {
    /// Takes the directory, making it if need be. A second writer is refused; so is a directory
    /// whose `state` is something else than a state file.
    pub fn open(dir: &Path) -> Result<NodeDir> {
        let dir = LockedDir::open(dir)?;
        let leftover = match leftover(&dir.join(STATE)) {
            Ok(leftover) => leftover,
            Err(error) => {
                // Without the lock's file there is nothing of ours left; the first error is the one to tell.
                let _ = dir.close();
                return Err(error);
            }
        };
        let before = leftover.as_ref().map_or(0, |map| {
            map.words()[word_of(offset_of!(Header, epoch))].load(Relaxed)
        });
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(1, |d| d.as_nanos() as u64);
        Ok(NodeDir {
            dir,
            epoch: now.max(before.saturating_add(1)),
            boot_id: clock::boot_id(),
            leftover,
            current: None,
            closed: false,
        })
    }

    /// The state file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(STATE)
    }

    /// Puts a new file in place, and retires the one before it.
    pub fn publish(&mut self, image: &Image) -> Result<()> {
        let stamp = Stamp {
            epoch: self.epoch,
            boot_id: self.boot_id,
            heartbeat_ns: clock::boottime_ns(),
        };
        let (words, sections) = bytes::lay_out(image, Room::ToGrow, &stamp)?;
        let mut whole = Vec::new();
        words::load_bytes(&words, sections.len * WORD, &mut whole);
        let file = self.dir.put(STATE, &whole)?;
        let map = Map::writable(&file, sections.len).map_err(io("mapping", &self.path()))?;
        let before = self.current.replace(Current {
            file,
            map,
            sections,
            fixed: Fixed::of(image),
        });
        if let Some(before) = before {
            retire(&before.map);
        }
        if let Some(leftover) = self.leftover.take() {
            retire(&leftover);
        }
        Ok(())
    }

    /// Writes a tick. Readers see the whole tick or none of it, per GPU and over all. What the file
    /// cannot hold (more records than room, other boards or cards) goes to a new file.
    pub fn update(&mut self, image: &Image) -> Result<()> {
        match &self.current {
            Some(current) if current.takes(image) => {
                let beat = clock::boottime_ns();
                let words = current.map.words();
                tick::write_tick(words, &current.sections, image, Room::ToGrow, beat);
                Ok(())
            }
            _ => self.publish(image),
        }
    }

    /// Takes away what this writer made, and tells readers that it is gone.
    pub fn remove(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let mut taken = Ok(());
        if let Some(current) = &self.current {
            // The path first: a reader that learns of the retirement must not find this file again.
            taken = self.dir.take_away(STATE, &current.file);
            retire(&current.map);
        }
        taken.and(self.dir.close())
    }
}

impl fmt::Debug for NodeDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeDir")
            .field("path", &self.path())
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Drop for NodeDir {
    fn drop(&mut self) {
        // Nobody is left to tell; `remove` is for those who want to know.
        let _ = self.close();
    }
}

impl Current {
    /// Whether the image can be written over what the file holds.
    fn takes(&self, image: &Image) -> bool {
        let head = self.map.words()[word_of(offset_of!(Header, event_head))].load(Relaxed);
        self.fixed.is_of(image)
            && image.lives.len() == image.cards.len()
            && tick::fits(image, &self.sections)
            // Numbers that start over would be taken for old news.
            && tick::event_head(image) >= head
    }
}

/// Tells the readers of a file that another one counts from now on.
fn retire(map: &Map) {
    map.words()[word_of(offset_of!(Header, flags))].fetch_or(header_flags::RETIRED, Release);
}

/// What stands where the state file shall be: nothing, or the state of a dead writer, which can be
/// retired if this process may write it at all.
fn leftover(path: &Path) -> Result<Option<Map>> {
    let unfit = |why| {
        Err(Error::Unfit {
            path: path.to_path_buf(),
            why,
        })
    };
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("looking at", path)(e)),
    };
    if there.is_symlink() {
        return unfit("it is a symbolic link; remove it");
    }
    if !there.is_file() {
        return unfit("it is not a regular file; move it away");
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(io("opening", path))?;
    let mut start = Vec::new();
    (&file)
        .take(WORD as u64)
        .read_to_end(&mut start)
        .map_err(io("reading", path))?;
    if start == MAGIC.to_ne_bytes() {
        return Ok(retirable(path, &file));
    }
    // A machine that lost power may keep the name and lose the bytes: zeros are nobody's.
    if start.iter().any(|&byte| byte != 0) {
        return unfit("it is not a mirage state file; move it away");
    }
    Ok(None)
}

/// The file, mapped for writing; it is read-only on disk, so its mode is lifted for a moment.
fn retirable(path: &Path, file: &File) -> Option<Map> {
    let size = file.metadata().ok()?.len() as usize / WORD;
    file.set_permissions(Permissions::from_mode(0o644)).ok()?;
    let pen = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let lowered = file.set_permissions(Permissions::from_mode(0o444));
    let (pen, ()) = (pen.ok()?, lowered.ok()?);
    let (ours, seen) = (pen.metadata().ok()?, file.metadata().ok()?);
    if (ours.dev(), ours.ino()) != (seen.dev(), seen.ino()) {
        return None;
    }
    let words = crate::sections::HEADER_LEN / WORD;
    (size >= words)
        .then(|| Map::writable(&pen, words).ok())
        .flatten()
}

#[cfg(test)]
mod tests;
