//! Which GPUs and MIG devices of its node a process sees.
//!
//! Decided once, when a client starts; the first source that says anything wins:
//!
//! 1. the view that mirage mounts into containers (`MIRAGE_VIEW`, else `/run/mirage-view`): a file that holds a list, or a
//!    directory whose files that are not empty are named like the devices, so that each device a container asked for adds its own,
//! 2. `MIRAGE_VISIBLE_DEVICES`,
//! 3. the `nvidia<n>` nodes in `/dev` (`MIRAGE_DEV`), if some but not all of the node's GPUs have one,
//! 4. `NVIDIA_VISIBLE_DEVICES`,
//! 5. everything.
//!
//! A list has `all`; `none`, `void` or nothing; or any of indices, UUIDs of GPUs and MIG devices (whole, or a
//! beginning that fits only one), and `0:1` for the second MIG device of the first GPU, separated by commas or
//! white space. What fits nothing is left out and reported, never guessed. The order of a list does not matter: as with
//! the real driver, GPUs keep the order they have on the node and are numbered anew from 0.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use crate::layout::{Card, Instance, text};

/// Where mirage mounts the view of a container: a file, or a directory of marks.
pub const VIEW: &str = "/run/mirage-view";

/// What may say which GPUs a process sees; see the [module](self) for the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// What the view lists, if there is one.
    pub view: Option<String>,
    /// `MIRAGE_VISIBLE_DEVICES`, if set.
    pub mirage: Option<String>,
    /// Minor numbers of the device nodes there are.
    pub minors: Vec<u32>,
    /// `NVIDIA_VISIBLE_DEVICES`, if set.
    pub nvidia: Option<String>,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// The view.
    View,
    /// `MIRAGE_VISIBLE_DEVICES`.
    Mirage,
    /// The device nodes.
    DeviceNodes,
    /// `NVIDIA_VISIBLE_DEVICES`.
    Nvidia,
    /// Nobody: everything is seen.
    Nobody,
}

/// A MIG device by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigDevice {
    /// GPU index on the node.
    pub gpu: u32,
    /// GPU instance id.
    pub gi: u32,
    /// Compute instance id.
    pub ci: u32,
}

/// What a process sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// Indices on the node, ascending: the position is the number the process knows the GPU by.
    pub gpus: Vec<u32>,
    /// MIG devices seen on GPUs of which only some are, ascending. A GPU that has none here is seen whole.
    pub instances: Vec<MigDevice>,
    /// What the deciding list asked for and the node does not have.
    pub unknown: Vec<String>,
    /// Who decided.
    pub decider: Decider,
}

impl Visible {
    /// Whether a MIG device is seen.
    pub fn shows(&self, device: MigDevice) -> bool {
        self.gpus.contains(&device.gpu)
            && (self.instances.contains(&device)
                || !self.instances.iter().any(|i| i.gpu == device.gpu))
    }

    /// The node's index of the GPU the process knows by a number.
    pub fn gpu(&self, number: u32) -> Option<u32> {
        self.gpus.get(number as usize).copied()
    }
}

impl Sources {
    /// What this process finds.
    pub fn gather() -> Sources {
        Sources::gather_with(|name| std::env::var_os(name))
    }

    /// What a process with this environment finds.
    pub fn gather_with(env: impl Fn(&str) -> Option<OsString>) -> Sources {
        let value = |name| env(name).map(|value| value.to_string_lossy().into_owned());
        let path = |name, usual: &str| {
            env(name)
                .filter(|value| !value.is_empty())
                .map_or_else(|| PathBuf::from(usual), PathBuf::from)
        };
        Sources {
            view: read_view(&path("MIRAGE_VIEW", VIEW)),
            mirage: value("MIRAGE_VISIBLE_DEVICES"),
            minors: device_nodes(&path("MIRAGE_DEV", "/dev")),
            nvidia: value("NVIDIA_VISIBLE_DEVICES"),
        }
    }

    /// What a process with these sources sees of a node.
    pub fn decide(&self, cards: &[Card], instances: &[Instance]) -> Visible {
        let everything = || (0..cards.len() as u32).collect();
        let whole = |gpus: Vec<u32>, decider| Visible {
            gpus,
            instances: Vec::new(),
            unknown: Vec::new(),
            decider,
        };
        for (list, decider) in [(&self.view, Decider::View), (&self.mirage, Decider::Mirage)] {
            if let Some(list) = list {
                return choose(list, cards, instances, decider);
            }
        }
        let with_node: Vec<u32> = (0_u32..)
            .zip(cards)
            .filter(|(_, card)| self.minors.contains(&card.minor))
            .map(|(gpu, _)| gpu)
            .collect();
        let all_have_nodes = !cards.is_empty() && with_node.len() == cards.len();
        if !with_node.is_empty() && !all_have_nodes {
            return whole(with_node, Decider::DeviceNodes);
        }
        match &self.nvidia {
            // CDI writes `void` and injects nodes instead: with all of them there, all were asked for.
            Some(list) if all_have_nodes && matches!(list.trim(), "" | "void") => {
                whole(everything(), Decider::DeviceNodes)
            }
            Some(list) => choose(list, cards, instances, Decider::Nvidia),
            None => whole(everything(), Decider::Nobody),
        }
    }
}

/// What a list chooses.
fn choose(list: &str, cards: &[Card], instances: &[Instance], decider: Decider) -> Visible {
    let mut whole: Vec<u32> = Vec::new();
    let mut parts: Vec<MigDevice> = Vec::new();
    let mut unknown: Vec<String> = Vec::new();
    let words: Vec<&str> = list
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    if !matches!(words[..], ["none" | "void"]) {
        for word in words {
            match pick(word, cards, instances) {
                Some(Pick::All) => whole.extend(0..cards.len() as u32),
                Some(Pick::Gpu(gpu)) => whole.push(gpu),
                Some(Pick::Instance(device)) => parts.push(device),
                None if !unknown.iter().any(|known| known == word) => unknown.push(word.into()),
                None => {}
            }
        }
    }
    // Who sees all of a GPU sees its parts.
    parts.retain(|part| !whole.contains(&part.gpu));
    parts.sort_unstable();
    parts.dedup();
    whole.extend(parts.iter().map(|part| part.gpu));
    whole.sort_unstable();
    whole.dedup();
    Visible {
        gpus: whole,
        instances: parts,
        unknown,
        decider,
    }
}

enum Pick {
    All,
    Gpu(u32),
    Instance(MigDevice),
}

/// What one word of a list means.
fn pick(word: &str, cards: &[Card], instances: &[Instance]) -> Option<Pick> {
    if word == "all" {
        return Some(Pick::All);
    }
    let devices = || {
        instances
            .iter()
            .filter(|i| i.ci != u32::MAX && (i.gpu as usize) < cards.len())
    };
    let device = |i: &Instance| {
        Pick::Instance(MigDevice {
            gpu: i.gpu,
            gi: i.gi,
            ci: i.ci,
        })
    };
    let gpus = || {
        (0_u32..)
            .zip(cards)
            .map(|(gpu, card)| (gpu, text(&card.uuid)))
    };
    if let Some((gpu, _)) = gpus().find(|(_, uuid)| uuid.eq_ignore_ascii_case(word)) {
        return Some(Pick::Gpu(gpu));
    }
    if let Some(i) = devices().find(|i| text(&i.uuid).eq_ignore_ascii_case(word)) {
        return Some(device(i));
    }
    if let Some(index) = number(word) {
        return ((index as usize) < cards.len()).then_some(Pick::Gpu(index));
    }
    if let Some((gpu, index)) = word.split_once(':') {
        let (gpu, index) = (number(gpu)?, number(index)?);
        return devices()
            .find(|i| i.gpu == gpu && i.index == index)
            .map(device);
    }
    if let Some(old) = word.strip_prefix("MIG-GPU-") {
        // Drivers before 470: MIG-GPU-<uuid>/<gpu instance>/<compute instance>.
        let mut parts = old.splitn(3, '/');
        let (uuid, gi, ci) = (
            parts.next()?,
            number(parts.next()?)?,
            number(parts.next()?)?,
        );
        let named = format!("GPU-{uuid}");
        let (gpu, _) = gpus().find(|(_, uuid)| uuid.eq_ignore_ascii_case(&named))?;
        return devices()
            .find(|i| (i.gpu, i.gi, i.ci) == (gpu, gi, ci))
            .map(device);
    }
    if begins(word, "GPU-") {
        return only(gpus().filter(|(_, uuid)| begins(uuid, word))).map(|(gpu, _)| Pick::Gpu(gpu));
    }
    if begins(word, "MIG-") {
        return only(devices().filter(|i| begins(text(&i.uuid), word))).map(device);
    }
    None
}

/// A number in plain digits.
fn number(word: &str) -> Option<u32> {
    word.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| word.parse().ok())
        .flatten()
}

/// Whether a text goes on after this beginning, whatever the case.
fn begins(text: &str, beginning: &str) -> bool {
    text.len() > beginning.len()
        && text.as_bytes()[..beginning.len()].eq_ignore_ascii_case(beginning.as_bytes())
}

/// The item, if there is just one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

/// The view. One that is there but cannot be read shows nothing: better too few GPUs than a neighbour's.
fn read_view(path: &Path) -> Option<String> {
    const MOST: u64 = 1 << 20;
    if path.is_dir() {
        return read_marks(path);
    }
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    Some(match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    })
}

/// Names of the marks in a directory. An empty file is none: runtimes leave one in the container's own layer wherever something was mounted
/// once, which must not speak for a later container made from it.
fn read_marks(path: &Path) -> Option<String> {
    let Ok(entries) = fs::read_dir(path) else {
        return Some(String::new());
    };
    let marks = entries.flatten().filter_map(|entry| {
        let there = entry.metadata().ok()?;
        (there.is_file() && there.len() > 0).then(|| entry.file_name().into_string().ok())?
    });
    let mut marks: Vec<String> = marks.collect();
    marks.sort_unstable();
    (!marks.is_empty()).then(|| marks.join("\n"))
}

/// Minor numbers of the `nvidia<n>` files in a directory, whatever kind of file they are.
fn device_nodes(dir: &Path) -> Vec<u32> {
    let mut minors: Vec<u32> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            number(name.to_str()?.strip_prefix("nvidia")?)
        })
        .collect();
    minors.sort_unstable();
    minors
}

#[cfg(test)]
mod tests;
