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
mod loose;
pub mod write;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{Deserializer, SeqAccess, Visitor};

use self::loose::{Loose, Reading};
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
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let claims = reader.deserialize_any(Entries);
    let claims = claims.and_then(|claims| reader.end().map(|()| claims));
    claims.map_err(|error| match error.is_eof() {
        true => format!("it is cut short: {error}"),
        false => error.to_string(),
    })
}

/// Reads entry by entry: a list may be long.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Claims;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list [{name, namespace, container, gpu_list}, …]")
    }

    /// What Go writes for a list that never had an entry.
    fn visit_unit<E>(self) -> Result<Claims, E> {
        Ok(Claims::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Claims, A::Error> {
        const ENTRY: Reading = Reading {
            depth: 2,
            members: &[
                "name",
                "namespace",
                "container",
                "gpu_list",
                "uid",
                "pod_uid",
                "labels",
            ],
        };
        let mut claims = Claims::default();
        while let Some(entry) = list.next_element_seed(ENTRY)? {
            add(&mut claims, &entry);
        }
        Ok(claims)
    }
}

fn add(claims: &mut Claims, entry: &Loose) {
    let text = |key: &str| entry.get(key).text();
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
    if let Loose::Object(labels) = entry.get("labels") {
        let texts = labels.iter();
        let texts = texts.filter_map(|(name, value)| Some((name, value.text()?)));
        let facts = PodFacts {
            uid: holder.uid.clone().unwrap_or_default(),
            labels: texts
                .filter(|(name, value)| name.len() <= MOST_LABEL && value.len() <= MOST_LABEL)
                .take(MOST_LABELS)
                .map(|(name, value)| (name.clone(), value.to_owned()))
                .collect(),
        };
        claims.describe(namespace, pod, facts);
    }
    match entry.get("gpu_list") {
        Loose::Null => {}
        Loose::List(list, more) => {
            for device in list {
                match device {
                    Loose::Text(id) => add_device(claims, &holder, id),
                    Loose::Number(minor) => match u32::try_from(*minor) {
                        Ok(minor) => claims.push(Claim::of_minor(Arc::clone(&holder), minor)),
                        Err(_) => claims.skip(1),
                    },
                    _ => claims.skip(1),
                }
            }
            claims.skip(*more);
        }
        // The value of NVIDIA_VISIBLE_DEVICES as it stands.
        Loose::Text(list) => {
            for id in list.split(',').filter(|id| !id.trim().is_empty()) {
                add_device(claims, &holder, id);
            }
        }
        _ => claims.skip(1),
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
