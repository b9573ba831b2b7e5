//! A node's directory on disk: its lock, and the files in it, born whole and under their final name.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result, io};

/// Name of the state file in a node's directory.
pub const STATE: &str = "state";
/// Name of the lock file beside it.
pub const LOCK: &str = "lock";
/// A state file on its way; only the lock's holder writes it.
const DRAFT: &str = ".state.new";

/// A directory that this process alone writes.
#[derive(Debug)]
pub(crate) struct LockedDir {
    path: PathBuf,
    lock: File,
    /// Directories that did not exist before, outermost first.
    made: Vec<PathBuf>,
}

impl LockedDir {
    /// Makes the directory if need be and takes its lock.
    pub(crate) fn open(path: &Path) -> Result<LockedDir> {
        let made = make(path)?;
        match lock(path) {
            Ok(lock) => Ok(LockedDir {
                path: path.to_path_buf(),
                lock,
                made,
            }),
            Err(error) => {
                unmake(&made);
                Err(error)
            }
        }
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Puts a file in place at once: readers see the old one or the whole new one. All its bytes are
    /// written, so every page exists and no mapping of it can run out of disk. The handle can
    /// write, though the file is read-only for whoever opens it later.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<File> {
        let draft = self.join(DRAFT);
        let target = self.join(name);
        match fs::remove_file(&draft) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(io("removing leftover", &draft)(e));
            }
            _ => {}
        }
        let placed = (|| {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o444)
                .open(&draft)?;
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(0o444))?;
            file.sync_data()?;
            fs::rename(&draft, &target)?;
            Ok(file)
        })();
        placed.map_err(|e| {
            // The draft may not exist; the first error is the one to tell.
            let _ = fs::remove_file(&draft);
            io("writing", &target)(e)
        })
    }

    /// Removes a file of ours; one that somebody else put in its place stays.
    pub(crate) fn take_away(&self, name: &str, ours: &File) -> Result<()> {
        let path = self.join(name);
        let ours = ours.metadata().map_err(io("looking at", &path))?;
        match fs::symlink_metadata(&path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                fs::remove_file(&path).map_err(io("removing", &path))
            }
            _ => Ok(()),
        }
    }

    /// Gives the directory up, and removes what opening it made.
    pub(crate) fn close(&self) -> Result<()> {
        self.take_away(LOCK, &self.lock)?;
        let released = self.lock.unlock();
        unmake(&self.made);
        released.map_err(io("unlocking", &self.path))
    }
}

/// Makes the directory and its missing parents, and says which.
fn make(path: &Path) -> Result<Vec<PathBuf>> {
    let unfit = |why| {
        Err(Error::Unfit {
            path: path.to_path_buf(),
            why,
        })
    };
    if path.as_os_str().is_empty() {
        return unfit("an empty path names no directory");
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => return Ok(Vec::new()),
        Ok(there) if there.is_symlink() => {
            return unfit("it is a symbolic link; name the directory it points to");
        }
        Ok(_) => return unfit("it is not a directory; choose another path or move it away"),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(io("looking at", path)(e)),
    }
    let mut missing: Vec<&Path> = path
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .collect();
    missing.reverse();
    let mut made = Vec::new();
    for dir in missing {
        let done = DirBuilder::new()
            .mode(0o755)
            .create(dir)
            // Whatever the umask: containers of other users read this directory.
            .and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o755)));
        match done {
            Ok(()) => made.push(dir.to_path_buf()),
            Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(e) => {
                unmake(&made);
                return Err(io("creating directory", dir)(e));
            }
        }
    }
    Ok(made)
}

/// Removes directories this process made, as far as they are empty.
fn unmake(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        // Not empty means somebody else uses it by now, and keeps it.
        let _ = fs::remove_dir(dir);
    }
}

/// Takes the lock file of a directory.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(|e| match e.raw_os_error() {
                Some(libc::ELOOP) => Error::Unfit {
                    path: path.clone(),
                    why: "it is a symbolic link; remove it",
                },
                _ => io("creating lock file", &path)(e),
            })?;
        let ours = file.metadata().map_err(io("looking at", &path))?;
        if !ours.is_file() {
            return Err(Error::Unfit {
                path,
                why: "it is not a regular file; remove it",
            });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = (&mut file).take(32).read_to_string(&mut text);
                return Err(Error::Held {
                    dir: dir.to_path_buf(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(e)) => return Err(io("locking", &path)(e)),
        }
        // A holder removes the file before it lets go: what we locked may be nobody's file any more.
        match fs::symlink_metadata(&path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {}
            _ => continue,
        }
        let written = (|| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        })();
        return match written {
            Ok(()) => Ok(file),
            Err(e) => {
                let _ = fs::remove_file(&path);
                Err(io("writing lock file", &path)(e))
            }
        };
    }
}
