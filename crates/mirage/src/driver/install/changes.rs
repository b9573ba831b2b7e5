//! The difference between what shall be there and what is.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::driver::area::{Area, Found, digest as file_digest};
use crate::driver::item::{Item, Mark, Part, Place, What, digest};
use crate::driver::manifest::{Entry, Manifest};
use crate::driver::node::is_live;
use crate::driver::report::{Level, Report};

/// Refusals told at once.
const TOLD: usize = 10;

/// What is to do.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Items that are not there.
    pub(super) create: Vec<usize>,
    /// Items in whose place something else stands.
    pub(super) replace: Vec<usize>,
    /// Entries that shall not be there any more.
    pub(super) remove: Vec<Entry>,
    /// What others changed, or hold, and keep.
    pub(super) kept: Vec<(Place, PathBuf, &'static str)>,
    /// Marks of the items, in their order.
    marks: Vec<Mark>,
    /// Items that were there before anybody made them: not ours.
    borrowed: HashSet<usize>,
}

impl Changes {
    /// Compares. What nobody may touch is refused, all at once.
    pub(super) fn find(
        items: &[Item],
        parts: &[Part],
        before: Option<&Manifest>,
        areas: &mut [Area],
        force: bool,
    ) -> Result<Changes> {
        let mut changes = Changes::default();
        let mut refused: Vec<PathBuf> = Vec::new();
        let known: HashMap<(Place, &Path), &Entry> = before
            .iter()
            .flat_map(|before| &before.entries)
            .map(|entry| ((entry.place, entry.path.as_path()), entry))
            .collect();
        for (at, item) in items.iter().enumerate() {
            let mark = mark(&item.what)?;
            let area = area(areas, item.place)?;
            let found = area.look(&item.path)?;
            let entry = known.get(&(item.place, item.path.as_path()));
            match found {
                Found::Nothing => changes.create.push(at),
                Found::Thing(found) if found == mark => match entry {
                    Some(_) => {}
                    None if found == Mark::Directory => {
                        changes.borrowed.insert(at);
                    }
                    None if force => changes.replace.push(at),
                    None => refused.push(area.shown(&item.path)),
                },
                // A directory may hold anything: it is never replaced.
                Found::Thing(Mark::Directory) => bail!(
                    "{} is a directory where a file shall be; move it away",
                    area.shown(&item.path).display()
                ),
                Found::Thing(found) if entry.is_some_and(|entry| entry.is_ours(&found)) => {
                    changes.replace.push(at);
                }
                _ if item.place == Place::State && is_live(&area.shown(&item.path)) => {
                    changes.keep(item.place, &item.path, "a running engine writes it");
                    changes.borrowed.insert(at);
                }
                _ if force && item.what_is_file() => changes.replace.push(at),
                _ if entry.is_some() => changes.keep(item.place, &item.path, "changed by others"),
                _ => refused.push(area.shown(&item.path)),
            }
            changes.marks.push(mark);
        }
        refuse(&refused)?;
        changes.find_surplus(items, parts, before, areas, force)?;
        Ok(changes)
    }

    fn keep(&mut self, place: Place, path: &Path, why: &'static str) {
        self.kept.push((place, path.to_path_buf(), why));
    }

    /// Entries of these parts that are on no list any more, innermost first.
    fn find_surplus(
        &mut self,
        items: &[Item],
        parts: &[Part],
        before: Option<&Manifest>,
        areas: &mut [Area],
        force: bool,
    ) -> Result<()> {
        let wanted: HashSet<(Place, &Path)> = items
            .iter()
            .map(|item| (item.place, item.path.as_path()))
            .collect();
        for entry in before.iter().flat_map(|before| before.entries.iter().rev()) {
            if !parts.contains(&entry.part) || wanted.contains(&(entry.place, entry.path.as_path()))
            {
                continue;
            }
            match area(areas, entry.place)?.look(&entry.path)? {
                Found::Nothing => {}
                Found::Thing(found) if force || entry.is_ours(&found) => {
                    self.remove.push(entry.clone());
                }
                _ => self.keep(entry.place, &entry.path, "changed by others"),
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts() == (0, 0, 0)
    }

    /// Created, replaced, removed.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.create.len(), self.replace.len(), self.remove.len())
    }

    /// Says what is kept.
    pub(super) fn tell(&self, areas: &[Area], report: &mut Report) {
        for (place, path, why) in &self.kept {
            let area = areas.iter().find(|area| area.place == *place);
            let shown = area.map_or_else(|| path.clone(), |area| area.shown(path));
            let facts = [
                ("path", shown.display().to_string().into()),
                ("why", (*why).into()),
            ];
            report.tell(Level::Warn, "kept", &facts);
        }
    }

    /// What would be done to which path.
    pub(super) fn listed(&self, items: &[Item], areas: &[Area]) -> Vec<(&'static str, PathBuf)> {
        let shown = |place: Place, path: &Path| {
            let area = areas.iter().find(|area| area.place == place);
            area.map_or_else(|| path.to_path_buf(), |area| area.shown(path))
        };
        let of = |verb: &'static str, list: &[usize]| -> Vec<_> {
            let items = list.iter().map(|at| &items[*at]);
            items
                .map(|item| (verb, shown(item.place, &item.path)))
                .collect()
        };
        let mut all = of("create", &self.create);
        all.extend(of("replace", &self.replace));
        all.extend(
            self.remove
                .iter()
                .map(|entry| ("remove", shown(entry.place, &entry.path))),
        );
        all
    }

    /// The entries once all is done: the items that are ours, and what other parts made.
    pub(super) fn entries(&self, items: &[Item], before: Option<&Manifest>) -> Vec<Entry> {
        let changed: HashSet<(Place, &Path)> = self
            .kept
            .iter()
            .map(|(place, path, _)| (*place, path.as_path()))
            .collect();
        let mut entries: Vec<Entry> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if self.borrowed.contains(&at) {
                continue;
            }
            let old = before.and_then(|before| {
                changed
                    .contains(&(item.place, item.path.as_path()))
                    .then(|| before.find(item.place, &item.path))?
            });
            let marks = old.map_or_else(|| vec![self.marks[at].clone()], |old| old.marks.clone());
            entries.push(Entry {
                part: item.part,
                place: item.place,
                path: item.path.clone(),
                marks,
            });
        }
        let listed: HashSet<(Place, PathBuf)> = entries
            .iter()
            .map(|entry| (entry.place, entry.path.clone()))
            .collect();
        let gone: HashSet<(Place, &Path)> = self
            .remove
            .iter()
            .map(|entry| (entry.place, entry.path.as_path()))
            .collect();
        for entry in before.iter().flat_map(|before| &before.entries) {
            let place = (entry.place, entry.path.clone());
            if !listed.contains(&place) && !gone.contains(&(entry.place, entry.path.as_path())) {
                entries.push(entry.clone());
            }
        }
        // Directories before what is in them; specifications last.
        entries.sort_by(|a, b| (a.place, &a.path).cmp(&(b.place, &b.path)));
        entries
    }
}

impl Item {
    fn what_is_file(&self) -> bool {
        !matches!(self.what, What::Directory)
    }
}

/// The area of a place.
pub(super) fn area(areas: &mut [Area], place: Place) -> Result<&mut Area> {
    areas
        .iter_mut()
        .find(|area| area.place == place)
        .context("a place without a directory")
}

/// What a thing will be recognised by.
fn mark(what: &What) -> Result<Mark> {
    Ok(match what {
        What::Directory => Mark::Directory,
        What::File { bytes, .. } => Mark::File(digest(bytes)),
        What::Copy { from, .. } => {
            let sum = File::open(from).and_then(file_digest);
            Mark::File(sum.with_context(|| format!("reading {}", from.display()))?)
        }
        What::Link { target } => Mark::Link(target.clone()),
        What::Node { major, minor } => Mark::Node(*major, *minor),
    })
}

fn refuse(refused: &[PathBuf]) -> Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    let mut list: Vec<String> = refused
        .iter()
        .take(TOLD)
        .map(|path| path.display().to_string())
        .collect();
    if refused.len() > TOLD {
        list.push(format!("and {} more", refused.len() - TOLD));
    }
    bail!(
        "not made by mirage, so not touched: {}; move them away, or replace them with --force",
        list.join(", ")
    )
}
