//! Writing `podlist.json`: the hook's half.
//!
//! One writer, held by a lock beside the file. Each list replaces the last as a whole (written aside, synced, renamed), so
//! a reader of the directory sees one or the other; mount the directory, since a mount of the file keeps the old one. The
//! file is there from the beginning, and what an earlier run left stands until the runtime has told what runs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// A container and its GPUs. The order is that of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Entry {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Name of the container.
    pub container: String,
    /// UUIDs of GPUs, or of MIG devices.
    pub gpu_list: Vec<String>,
    /// UID of the pod: another pod may have its name later.
    pub pod_uid: String,
    /// The runtime's id of the container: it may be started again.
    pub container_id: String,
}

/// The file, held.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    /// The lock, which also keeps the number of the last list: an empty one has no entry to carry it.
    lock: PathBuf,
    held: File,
    generation: u64,
    /// What the file says; `None` before the first list.
    written: Option<Vec<Entry>>,
}

impl Writer {
    /// Takes the file, and makes an empty one unless there is a good one. Its directory is made if need be.
    pub fn open(path: &Path) -> Result<Writer> {
        let wrote = |attempt: &'static str| {
            let path = path.to_path_buf();
            move |source| Error::Write {
                attempt,
                path,
                source,
            }
        };
        fs::create_dir_all(directory(path)).map_err(wrote("making the directory of"))?;
        let lock = beside(path, "lock");
        let mut held = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&lock)
            .map_err(wrote("locking"))?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Unfit {
                    what: "pod list",
                    path: path.to_path_buf(),
                    why: "another process writes it; end that one, or name another file",
                });
            }
            Err(TryLockError::Error(source)) => return Err(wrote("locking")(source)),
        }
        if path.is_dir() {
            // What a mount that came before the file has made; with nothing in it, nobody misses it.
            fs::remove_dir(path).map_err(wrote("replacing the directory"))?;
        }
        let found = super::bytes(path).ok();
        let found = found.filter(|bytes| super::parse(bytes).is_ok());
        let (written, newest) = match found {
            Some(bytes) => {
                let (entries, newest) = read(&bytes);
                (Some(entries), newest)
            }
            None => (None, 0),
        };
        let mut writer = Writer {
            path: path.to_path_buf(),
            lock,
            generation: newest.max(kept(&mut held)),
            held,
            written,
        };
        if writer.written.is_none() {
            writer.write(&[])?;
        }
        Ok(writer)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says.
    pub fn entries(&self) -> &[Entry] {
        self.written.as_deref().unwrap_or_default()
    }

    /// Replaces the list, if it says something else, or if somebody took the file away.
    pub fn write(&mut self, entries: &[Entry]) -> Result<()> {
        if self.written.as_deref() == Some(entries) && self.path.is_file() {
            return Ok(());
        }
        let next = self.generation.saturating_add(1);
        let text = text(entries, next);
        let written = replace(&self.path, &text).and_then(|()| keep(&mut self.held, next));
        written.map_err(|source| Error::Write {
            attempt: "writing",
            path: self.path.clone(),
            source,
        })?;
        self.generation = next;
        self.written = Some(entries.to_vec());
        Ok(())
    }

    /// Takes the file away: nobody keeps it any more.
    pub fn remove(self) {
        // Already gone is as good.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Whether the file at a path is, or was, kept by a [`Writer`].
pub fn is_kept(path: &Path) -> bool {
    beside(path, "lock").is_file()
}

fn directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The number that the lock keeps.
fn kept(held: &mut File) -> u64 {
    let mut text = String::new();
    // What cannot be read is no number; counting begins anew.
    let _ = held.take(32).read_to_string(&mut text);
    text.trim().parse().unwrap_or_default()
}

fn keep(held: &mut File, generation: u64) -> std::io::Result<()> {
    held.set_len(0)?;
    held.rewind()?;
    writeln!(held, "{generation}")
}

/// A hidden file beside another: never what a reader of the directory looks for.
fn beside(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{what}"))
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = beside(path, "new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    // So that the new name outlives a power cut.
    File::open(directory(path))?.sync_all()
}

/// The file's text. Every entry carries the number of its list, so that of two copies the newer can be told.
pub fn text(entries: &[Entry], generation: u64) -> String {
    let line = |entry: &Entry| {
        let line = json!({
            "name": entry.name,
            "namespace": entry.namespace,
            "container": entry.container,
            "gpu_list": entry.gpu_list,
            "pod_uid": entry.pod_uid,
            "container_id": entry.container_id,
            "generation": generation,
        });
        line.to_string()
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    match lines.is_empty() {
        true => "[]\n".to_owned(),
        false => format!("[\n  {}\n]\n", lines.join(",\n  ")),
    }
}

/// What a list of ours says, and the number of the newest list in it.
fn read(bytes: &[u8]) -> (Vec<Entry>, u64) {
    let list = match serde_json::from_slice(bytes) {
        Ok(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let newest = list.iter().filter_map(|e| e["generation"].as_u64()).max();
    let entry = |value: &Value| {
        let field = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let gpus = value["gpu_list"].as_array().map_or(&[][..], Vec::as_slice);
        Entry {
            namespace: field("namespace"),
            name: field("name"),
            container: field("container"),
            gpu_list: gpus
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            pod_uid: field("pod_uid"),
            container_id: field("container_id"),
        }
    };
    (list.iter().map(entry).collect(), newest.unwrap_or_default())
}

#[cfg(test)]
mod tests;
