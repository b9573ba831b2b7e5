//! The GPUs mirage knows: one data file per model, read when first asked for.
//!
//! `data/models/<key>.yaml` is the truth about a model, and every figure in it names its
//! source. A new model is a new file and its key in the list below; a test compares the
//! list with the directory, and another reads every file.

use std::sync::{Arc, OnceLock};

use crate::board::Board;
use crate::yaml::{self, Problem};

mod figures;
mod geometry;
mod nearest;
mod read;
mod sense;

pub use figures::Figure;

macro_rules! files {
    ($($key:literal),* $(,)?) => {
        [$(($key, include_str!(concat!("../data/models/", $key, ".yaml")))),*]
    };
}

/// Key and text of every model, sorted by key.
static FILES: [(&str, &str); 22] = files![
    "a10",
    "a100-sxm4-40gb",
    "a100-sxm4-80gb",
    "a30",
    "b200-sxm6-180gb",
    "b300-sxm6",
    "dg1",
    "gb200",
    "gb300",
    "gh200-480gb",
    "h100-nvl-94gb",
    "h100-pcie-80gb",
    "h100-sxm5-80gb",
    "h200-sxm5-141gb",
    "l4",
    "l40s",
    "max-1550",
    "mi300x",
    "rtx-pro-6000-bse",
    "t4",
    "tesla-k80",
    "v100-sxm2-32gb",
];

static BOARDS: [OnceLock<Arc<Board>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// Keys of all models, in alphabetical order.
pub fn keys() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(key, _)| *key)
}

/// The model with exactly this key.
pub fn board(key: &str) -> Option<Arc<Board>> {
    position(key).map(at)
}

/// The model a name means: its key, an alias (`a100`), its NVML name, or the product GPU
/// Feature Discovery writes; case, hyphens and a leading `NVIDIA` do not matter.
pub fn find(name: &str) -> Option<Arc<Board>> {
    let wanted = normal(name);
    if let Some(index) = position(&wanted) {
        return Some(at(index));
    }
    FILES.iter().enumerate().find_map(|(index, (_, text))| {
        heading(text)
            .any(|known| normal(known) == wanted)
            .then(|| at(index))
    })
}

/// The key a mistyped one probably meant.
pub fn nearest(key: &str) -> Option<&'static str> {
    let aliases = FILES
        .iter()
        .flat_map(|(key, text)| heading(text).map(move |name| (*key, normal(name))));
    let keys = keys().map(|key| (key, key.to_owned()));
    nearest::pick(&normal(key), keys.chain(aliases))
}

/// The model's data file as written: every figure with its source.
pub fn describe(key: &str) -> Option<&'static str> {
    position(key).map(|index| FILES[index].1)
}

/// The model's figures one by one, in the order of its file.
pub fn figures(key: &str) -> Option<Vec<Figure>> {
    let tree = yaml::parse(describe(key)?).ok()?;
    Some(figures::list(&tree))
}

/// Reads a model from text in the form of the catalogue's files.
pub fn parse(text: &str) -> Result<Board, Vec<Problem>> {
    read::board(&yaml::parse(text)?)
}

fn position(key: &str) -> Option<usize> {
    FILES.binary_search_by_key(&key, |(key, _)| key).ok()
}

fn at(index: usize) -> Arc<Board> {
    let read = || Arc::new(parse(FILES[index].1).expect("a test reads every file"));
    Arc::clone(BOARDS[index].get_or_init(read))
}

/// Aliases, name and product, read off the text: finding a name must not cost reading
/// every file in full.
fn heading(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().take(8).flat_map(|line| {
        let line = line.trim_start();
        let (list, whole) = if let Some(rest) = line.strip_prefix("aliases: [") {
            (rest.trim_end_matches(']'), false)
        } else if let Some(rest) = line
            .strip_prefix("name: [")
            .or_else(|| line.strip_prefix("product: ["))
        {
            // The value ends at the last comma; the source follows.
            (rest.rsplit_once(',').map_or("", |(value, _)| value), true)
        } else {
            ("", true)
        };
        let separator = if whole { '\u{0}' } else { ',' };
        list.split(separator)
            .map(|name| name.trim().trim_matches('"'))
            .filter(|name| !name.is_empty())
    })
}

/// Lower case, hyphens for spaces and underscores, no leading `nvidia-`.
fn normal(name: &str) -> String {
    let lower = name.trim().to_lowercase().replace([' ', '_'], "-");
    match lower.strip_prefix("nvidia-") {
        Some(rest) => rest.to_owned(),
        None => lower,
    }
}
