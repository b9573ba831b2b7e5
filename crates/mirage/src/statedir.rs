//! The state directory: where one `mirage up` keeps its state files and its control socket.
//!
//! It is locked for as long as the process lives, so two engines never write the same files.
//! What was made in it is removed at the end, and nothing else. The lock's file tells which directories
//! its holder made, so that whoever comes after a killed one can do that for it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use mirage_state::layout::header_flags;
use mirage_state::{Reader, STATE};

use crate::library;

/// Where state lives unless told otherwise.
pub const SYSTEM: &str = "/run/mirage";
/// Name of the control socket in a state directory.
pub const SOCKET: &str = "control.sock";
const LOCK: &str = "lock";
/// How often the directory may vanish from under us before that is told.
const TRIES: u32 = 1000;
/// Longest path a Unix socket can have, its NUL included.
const SOCKET_PATH_MAX: usize = 108;
/// How the lock's file calls the state directory itself.
const ITSELF: &str = ".";
/// Most of a lock's file that is read: the names of a large fleet's nodes.
const LOCK_MAX: u64 = 32 << 20;

/// A state directory held by this process.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Whether the directory itself was made here and goes at the end.
    made: bool,
    /// Files, links and directories made here, in order.
    entries: Vec<PathBuf>,
    /// Directories in it that a killed holder made and nobody has asked for yet.
    inherited: HashSet<String>,
    lock: File,
}

impl StateDir {
    /// Takes the directory, making it if need be. One that another process holds is refused.
    pub fn take(path: &Path) -> Result<Self> {
        let mut made = false;
        let mut tries = TRIES;
        loop {
            made |= make(path)?;
            let held = hold(path);
            match held {
                Ok((path, lock, mut inherited)) => {
                    let was_made = inherited.remove(ITSELF);
                    let held = Self {
                        path,
                        made: made || was_made,
                        entries: Vec::new(),
                        inherited,
                        lock,
                    };
                    if made && !was_made {
                        held.note(ITSELF)?;
                    }
                    return Ok(held);
                }
                // Whoever held it took it away as we came.
                Err(error) if tries > 0 && is_gone(&error) => tries -= 1,
                Err(error) => {
                    if made {
                        // Not empty if somebody else has it by now: then it stays.
                        let _ = fs::remove_dir(path);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Listens on the control socket, which only this user may open.
    pub fn listen(&mut self) -> Result<UnixListener> {
        let path = self.path.join(SOCKET);
        if path.as_os_str().len() >= SOCKET_PATH_MAX {
            bail!(
                "the control socket's path {} has {} bytes, and {} is the most; choose a shorter \
                 --state-dir",
                path.display(),
                path.as_os_str().len(),
                SOCKET_PATH_MAX - 1
            );
        }
        // Bound where nobody else can look, then moved: it is never open to others. The lock
        // is ours, so whatever lies there is a dead one's.
        let nursery = self.path.join(".s");
        let _ = fs::remove_dir_all(&nursery);
        DirBuilder::new()
            .mode(0o700)
            .create(&nursery)
            .with_context(|| format!("making {}", nursery.display()))?;
        let young = nursery.join("s");
        let bound = UnixListener::bind(&young).and_then(|listener| {
            fs::set_permissions(&young, fs::Permissions::from_mode(0o600))?;
            fs::rename(&young, &path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let _ = fs::remove_dir_all(&nursery);
        let listener =
            bound.with_context(|| format!("listening on the control socket {}", path.display()))?;
        self.entries.push(path);
        Ok(listener)
    }

    /// Makes a directory in it; one that is there already is used and left there, unless a killed holder made it.
    pub fn directory(&mut self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let is_new = make(&path)?;
        let was_made = self.inherited.remove(name);
        if is_new && !was_made {
            self.note(name)?;
        }
        if is_new || was_made {
            self.entries.push(path.clone());
        }
        Ok(path)
    }

    /// Notes in the lock's file that a directory was made here.
    fn note(&self, name: &str) -> Result<()> {
        writeln!(&self.lock, "{name}")
            .with_context(|| format!("writing the lock {}", self.path.join(LOCK).display()))
    }

    /// Takes away what is left of nodes that a killed holder had and this one has not: clients would find them
    /// beside the living ones. A node that was installed there since, without an engine, stays.
    pub fn clear_leftovers(&mut self) {
        for name in std::mem::take(&mut self.inherited) {
            let path = self.path.join(name);
            let state = path.join(STATE);
            if Reader::open(&state).is_ok_and(|state| state.flags() & header_flags::STATIC != 0) {
                continue;
            }
            let names = [STATE, mirage_state::LOCK, SOCKET].into_iter();
            let names = names.chain(library::NAMES);
            let files = names.map(|name| path.join(name));
            let files = files.filter(|file| file.symlink_metadata().is_ok_and(|at| !at.is_dir()));
            remove([path.clone()].into_iter().chain(files).collect());
        }
    }

    /// Makes a symbolic link in it, in place of an older one.
    pub fn link(&mut self, name: impl AsRef<Path>, target: &Path) -> Result<PathBuf> {
        let path = self.path.join(name);
        if path.is_symlink() {
            fs::remove_file(&path).with_context(|| format!("replacing {}", path.display()))?;
        }
        std::os::unix::fs::symlink(target, &path)
            .with_context(|| format!("linking {} to {}", path.display(), target.display()))?;
        self.entries.push(path.clone());
        Ok(path)
    }

    /// Removes a directory made earlier, and the links made in it.
    pub fn forget(&mut self, directory: &Path) {
        let (gone, kept) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(|entry| entry.starts_with(directory));
        self.entries = kept;
        remove(gone);
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        remove(std::mem::take(&mut self.entries));
        self.clear_leftovers();
        // Before it is let go, so that whoever waits for it finds no lock of ours. What somebody
        // put in its place is not ours.
        let lock = self.path.join(LOCK);
        if is_at(&self.lock, &lock) {
            let _ = fs::remove_file(lock);
        }
        if self.made {
            // Not empty if somebody else put something there: then it stays.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Locks a directory; with its path as others may be told it, wherever they stand, and the directories that a
/// killed holder made.
fn hold(path: &Path) -> Result<(PathBuf, File, HashSet<String>)> {
    let path = path
        .canonicalize()
        .with_context(|| format!("finding the directory {}", path.display()))?;
    let lock_path = path.join(LOCK);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .open(&lock_path)
        .with_context(|| format!("opening the lock {}", lock_path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let _ = (&lock).take(32).read_to_string(&mut holder);
            let holder = match holder.lines().next() {
                None | Some("") => "another process".into(),
                Some(pid) => format!("process {pid}"),
            };
            bail!(
                "the state directory {} is in use by {holder}; end that one, or give this one its \
                 own with --state-dir",
                path.display()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", lock_path.display()));
        }
    }
    // A holder removes the file before it lets go: what we locked may be nobody's file any more.
    if !is_at(&lock, &lock_path) {
        let gone = std::io::Error::from(ErrorKind::NotFound);
        return Err(gone).with_context(|| format!("locking {}", lock_path.display()));
    }
    // Only one that was killed leaves its lock.
    let mut left = Vec::new();
    (&lock)
        .take(LOCK_MAX)
        .read_to_end(&mut left)
        .with_context(|| format!("reading the lock {}", lock_path.display()))?;
    let left = String::from_utf8_lossy(&left);
    let names = left.lines().skip(1);
    let is_ours = |name: &&str| *name == ITSELF || is_plain(name) && path.join(name).is_dir();
    let inherited: HashSet<String> = names.filter(is_ours).map(Into::into).collect();
    let mut text = format!("{}\n", std::process::id());
    for name in &inherited {
        text.push_str(name);
        text.push('\n');
    }
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| lock.write_all(text.as_bytes()))
        .with_context(|| format!("writing the lock {}", lock_path.display()))?;
    Ok((path, lock, inherited))
}

/// Whether this open file is the one that lies there.
fn is_at(file: &File, path: &Path) -> bool {
    let there = fs::symlink_metadata(path);
    match (file.metadata(), there) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Whether something was not there any more.
fn is_gone(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound)
}

/// Takes away what a process left of a node that was killed before it could: its files, its links and the socket. A directory
/// that is in use stays as it is, and so does everything that is not mirage's.
pub fn clear(path: &Path, node: &str) {
    if !path.is_dir() || !is_plain(node) {
        return;
    }
    let Ok(mut held) = StateDir::take(path) else {
        return;
    };
    held.made = true;
    let own = held.path.join(node);
    held.entries.push(held.path.join(SOCKET));
    held.entries.extend(library::links(&held.path));
    held.entries.push(own.clone());
    let files = [STATE, mirage_state::LOCK, SOCKET];
    held.entries.extend(files.map(|name| own.join(name)));
}

/// Removes what was made, the latest first. What is gone already is no trouble.
fn remove(entries: Vec<PathBuf>) {
    for entry in entries.into_iter().rev() {
        let is_directory = entry.symlink_metadata().is_ok_and(|entry| entry.is_dir());
        let _ = if is_directory {
            fs::remove_dir(&entry)
        } else {
            fs::remove_file(&entry)
        };
    }
}

/// Makes a directory that all may read; `false` if it was there. Refuses what is no directory.
fn make(path: &Path) -> Result<bool> {
    loop {
        match DirBuilder::new().mode(0o755).create(path) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "making the directory {}; give another with --state-dir",
                        path.display()
                    )
                });
            }
        }
        if path.is_dir() {
            return Ok(false);
        }
        // It may have gone since; then it is made after all.
        if path.symlink_metadata().is_ok() {
            bail!("{} is not a directory", path.display());
        }
    }
}

/// The state directory to use when none is given: the first of [`candidates`] that this user
/// can write to.
pub fn preferred() -> PathBuf {
    let candidates = candidates();
    candidates
        .iter()
        .find(|path| is_usable(path))
        .or(candidates.last())
        .cloned()
        .unwrap_or_else(|| SYSTEM.into())
}

/// The running `mirage up` of this user or machine: the first candidate with a socket.
pub fn running() -> Option<PathBuf> {
    candidates()
        .into_iter()
        .find(|path| path.join(SOCKET).exists())
}

/// Where state directories are looked for, in order.
pub fn candidates() -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(SYSTEM)];
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        paths.push(Path::new(&runtime).join("mirage"));
    }
    paths.push(std::env::temp_dir().join(format!("mirage-{}", uid())));
    paths
}

/// Whether this user may use the directory, or make it. A directory in a shared place counts
/// only if it is really this user's.
fn is_usable(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => {
            (found.uid() == uid() || uid() == 0)
                && tempfile_in(path).is_ok_and(|probe| fs::remove_file(probe).is_ok())
        }
        Ok(_) => false,
        Err(_) => match DirBuilder::new().mode(0o755).create(path) {
            Ok(()) => {
                // Not empty if another process has just taken it; then it tells who.
                let _ = fs::remove_dir(path);
                true
            }
            Err(_) => false,
        },
    }
}

fn tempfile_in(path: &Path) -> std::io::Result<PathBuf> {
    let probe = path.join(format!(".probe-{}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe)?;
    Ok(probe)
}

/// This process's user.
fn uid() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |process| process.uid())
}

/// The machine's name as a node name: its first label, lower case, letters, digits and dashes.
pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    node_name(&name)
}

fn node_name(host: &str) -> String {
    let label = host.trim().split('.').next().unwrap_or_default();
    let cleaned: String = label
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' => letter,
            _ => '-',
        })
        .take(63)
        .collect();
    match cleaned.trim_matches('-') {
        "" => "localhost".into(),
        name => name.into(),
    }
}

/// Whether a name can be a directory of its own: no way up, no way out, and not one of ours.
pub fn is_plain(name: &str) -> bool {
    let is_taken = [LOCK, SOCKET].contains(&name) || name.starts_with('.');
    Path::new(name).file_name() == Some(OsStr::new(name)) && !is_taken
}

#[cfg(test)]
mod tests;
