//! Which container was given which device, in a file: `podlist.json`. Here it is read; [`book`] and [`mod@write`] keep it.
//!
//! The file is an array of `{name, namespace, container, gpu_list}`, kept by a runtime hook. In `gpu_list` are UUIDs
//! (of GPUs or MIG devices), device names, or minor numbers, as numbers or as digits. Our own fields, all
//! optional: `uid` (or `pod_uid`) and `labels`, an object of texts. Fields we do not know are passed over.
//!
//! The file may be absent at first, a directory that holds it, replaced under our eyes, or cut short by a writer
//! that does not rename. A list that cannot be read as a whole is an error, and the caller keeps its last one; an
//! entry that makes no sense is left out and counted.

pub mod book;
pub mod write;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::claims::{Claim, Claims, Holder, PodFacts};
use crate::device::number;
use crate::error::{Error, Result};

/// The file's name in a directory.
pub const FILE: &str = "podlist.json";

/// Most bytes of a list.
const MOST_BYTES: u64 = 16 << 20;

/// Most labels of a pod, and most bytes of a name or a value; Kubernetes' own limits are lower.
const MOST_LABELS: usize = 256;
const MOST_LABEL: usize = 512;

const WHAT: &str = "pod list";

/// Reads the file, or the one of its name in a directory.
pub fn read(path: &Path) -> Result<Claims> {
    let path = place(path)?;
    let bytes = bytes(&path)?;
    parse(&bytes).map_err(|problem| Error::PodList { path, problem })
}

/// The file's bytes: one more than the most at most.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    let path = path.to_path_buf();
    let io = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => absent(&path),
        _ => Error::Read {
            path: path.clone(),
            source,
        },
    };
    let file = OpenOptions::new()
        .read(true)
        // A pipe must not keep us waiting for its writer.
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(Error::Unfit {
            what: WHAT,
            path,
            why: "it is not a regular file; name the file, or the directory that holds podlist.json",
        });
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    Ok(bytes)
}

/// The file a path means.
pub fn place(path: &Path) -> Result<PathBuf> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(path.join(FILE)),
        Ok(_) => Ok(path.to_path_buf()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(absent(path)),
        Err(source) => Err(Error::Read {
            path: path.to_path_buf(),
            source,
        }),
    }
}

fn absent(path: &Path) -> Error {
    Error::Absent {
        what: WHAT,
        path: path.to_path_buf(),
    }
}

/// Reads the text of a list.
pub fn parse(bytes: &[u8]) -> Result<Claims, String> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("longer than {MOST_BYTES} bytes"));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("it is empty; an empty list is []".to_owned());
    }
    let entries = match serde_json::from_slice(bytes) {
        Ok(Value::Array(entries)) => entries,
        // What Go writes for a list that never had an entry.
        Ok(Value::Null) => Vec::new(),
        Ok(other) => {
            return Err(format!(
                "a list [{{name, namespace, container, gpu_list}}, …] was expected, not {}",
                kind(&other)
            ));
        }
        Err(error) if error.is_eof() => return Err(format!("it is cut short: {error}")),
        Err(error) => return Err(error.to_string()),
    };
    let mut claims = Claims::default();
    for entry in &entries {
        match entry {
            Value::Object(entry) => add(&mut claims, entry),
            _ => claims.skip(1),
        }
    }
    Ok(claims)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn add(claims: &mut Claims, entry: &Map<String, Value>) {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let (Some(pod), Some(namespace)) = (text("name"), text("namespace")) else {
        claims.skip(1);
        return;
    };
    let uid = text("uid").or_else(|| text("pod_uid"));
    let holder = Arc::new(Holder {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: text("container").unwrap_or_default().to_owned(),
        uid: uid.filter(|uid| !uid.is_empty()).map(str::to_owned),
    });
    if let Some(Value::Object(labels)) = entry.get("labels") {
        let facts = PodFacts {
            uid: holder.uid.clone().unwrap_or_default(),
            labels: labels
                .iter()
                .filter(|(name, _)| name.len() <= MOST_LABEL)
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .filter(|(_, value)| value.len() <= MOST_LABEL)
                .take(MOST_LABELS)
                .collect(),
        };
        claims.describe(namespace, pod, facts);
    }
    match entry.get("gpu_list") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            for device in list {
                match device {
                    Value::String(id) => add_device(claims, &holder, id),
                    Value::Number(minor) => match minor.as_u64().map(u32::try_from) {
                        Some(Ok(minor)) => claims.push(Claim::of_minor(Arc::clone(&holder), minor)),
                        _ => claims.skip(1),
                    },
                    _ => claims.skip(1),
                }
            }
        }
        // The value of NVIDIA_VISIBLE_DEVICES as it stands.
        Some(Value::String(list)) => {
            for id in list.split(',').filter(|id| !id.trim().is_empty()) {
                add_device(claims, &holder, id);
            }
        }
        Some(_) => claims.skip(1),
    }
}

fn add_device(claims: &mut Claims, holder: &Arc<Holder>, id: &str) {
    let id = id.trim();
    claims.push(match number(id) {
        Some(minor) => Claim::of_minor(Arc::clone(holder), minor),
        None => Claim::of_id(Arc::clone(holder), id),
    });
}

#[cfg(test)]
mod tests;
