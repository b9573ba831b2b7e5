//! Does what is to do, in an order that never shows a half: prepare everything, then move it into place; undo all of it when a step fails.

use std::collections::{HashMap, hash_map};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::changes::{Changes, area};
use crate::driver::area::Area;
use crate::driver::item::{Item, Mark, Part, Place, What};
use crate::driver::manifest::{Entry, Manifest};
use crate::driver::report::{Level, Report};

/// A step that was taken, and how to take it back.
enum Step {
    /// A directory was made.
    Made(Place, PathBuf),
    /// Something was put where nothing was.
    Put(Place, PathBuf),
    /// What stood there was moved to the staging directory, under this number.
    Taken(Place, PathBuf, usize),
}

/// Brings `after` about. On failure everything is as it was.
pub(super) fn run(
    items: &[Item],
    changes: &Changes,
    before: Option<&Manifest>,
    after: &Manifest,
    areas: &mut [Area],
    root: &Path,
    report: &mut Report,
) -> Result<()> {
    let mut done = after.clone();
    done.complete = true;
    let was_complete = before.is_some_and(|before| before.complete);
    if changes.is_empty()
        && was_complete
        && before.is_some_and(|b| b.entries.len() == done.entries.len())
    {
        return Ok(());
    }
    if before.is_some() {
        Manifest::keep(root);
    }
    let mut steps = Vec::new();
    // Written down before it happens: a run that is killed leaves nothing that the next one does not know.
    let outcome = underway(before, after)
        .write(root)
        .and_then(|()| go(items, changes, areas, &mut steps, report))
        .and_then(|()| done.write(root));
    let Err(error) = outcome else {
        Manifest::forget(root);
        return Ok(());
    };
    undo(&steps, areas);
    let restored = match before {
        Some(before) => before.bring_back(root),
        None => {
            Manifest::remove(root);
            Ok(())
        }
    };
    // What went wrong first is what to tell first.
    Err(match restored {
        Ok(()) => error,
        Err(second) => anyhow!("{error:#}; and then {second:#}: run `mirage driver all` again"),
    })
}

/// The manifest while a run is under way: everything may be as before or as after.
fn underway(before: Option<&Manifest>, after: &Manifest) -> Manifest {
    let mut both = after.clone();
    both.complete = false;
    let known: std::collections::HashMap<(Place, PathBuf), usize> = both
        .entries
        .iter()
        .enumerate()
        .map(|(at, entry)| ((entry.place, entry.path.clone()), at))
        .collect();
    for entry in before.iter().flat_map(|before| &before.entries) {
        match known.get(&(entry.place, entry.path.clone())) {
            Some(at) => {
                for mark in &entry.marks {
                    if !both.entries[*at].marks.contains(mark) {
                        both.entries[*at].marks.push(mark.clone());
                    }
                }
            }
            None => both.entries.push(entry.clone()),
        }
    }
    both
}

fn go(
    items: &[Item],
    changes: &Changes,
    areas: &mut [Area],
    steps: &mut Vec<Step>,
    report: &mut Report,
) -> Result<()> {
    let is_directory = |at: &usize| matches!(items[*at].what, What::Directory);
    let mut todo: Vec<(usize, bool)> = changes.create.iter().map(|at| (*at, false)).collect();
    todo.extend(changes.replace.iter().map(|at| (*at, true)));
    todo.sort_unstable();
    report.tell(Level::Info, "preparing", &[("entries", todo.len().into())]);
    let mut alike = Alike::default();
    for (at, _) in &todo {
        let item = &items[*at];
        let area = area(areas, item.place)?;
        let shown = area.shown(&item.path);
        report.path(Level::Trace, "prepare", &shown);
        // A filesystem that cannot link any further gets a file of its own.
        let linked = alike
            .find(*at, item)
            .is_some_and(|same| area.prepare_same(*at, same).is_ok());
        if !linked {
            area.prepare(*at, &item.what)
                .with_context(|| format!("preparing {}", shown.display()))?;
        }
    }
    // A specification that names what goes must go first.
    let (specs, rest): (Vec<&Entry>, Vec<&Entry>) = changes
        .remove
        .iter()
        .partition(|entry| entry.place == Place::Cdi);
    let mut spare = items.len();
    for entry in specs {
        take(areas, entry, &mut spare, steps, report)?;
    }
    report.tell(
        Level::Info,
        "putting in place",
        &[("entries", todo.len().into())],
    );
    for (at, stands) in &todo {
        let item = &items[*at];
        let area = area(areas, item.place)?;
        let shown = area.shown(&item.path);
        if is_directory(at) {
            area.make_directory(&item.path)
                .with_context(|| format!("making the directory {}", shown.display()))?;
            steps.push(Step::Made(item.place, item.path.clone()));
            continue;
        }
        let verb = if *stands { "replace" } else { "create" };
        report.path(Level::Debug, verb, &shown);
        if *stands {
            spare += 1;
            area.take(spare, &item.path)
                .with_context(|| format!("replacing {}", shown.display()))?;
            steps.push(Step::Taken(item.place, item.path.clone(), spare));
        }
        area.put(*at, &item.path)
            .with_context(|| format!("creating {}", shown.display()))?;
        steps.push(Step::Put(item.place, item.path.clone()));
    }
    for entry in rest {
        take(areas, entry, &mut spare, steps, report)?;
    }
    Ok(())
}

/// Small files that are the same. A PCI tree has thousands of them, each of which would take a block of its own on the disk: they become
/// one file with many names.
#[derive(Default)]
struct Alike<'a>(HashMap<(&'a [u8], u32), usize>);

impl<'a> Alike<'a> {
    /// The number of an earlier one like this.
    fn find(&mut self, at: usize, item: &'a Item) -> Option<usize> {
        let What::File { bytes, mode } = &item.what else {
            return None;
        };
        if item.part != Part::Files || item.place != Place::Root {
            return None;
        }
        match self.0.entry((bytes, *mode)) {
            hash_map::Entry::Occupied(same) => Some(*same.get()),
            hash_map::Entry::Vacant(first) => {
                first.insert(at);
                None
            }
        }
    }
}

/// Takes an entry away, so that it can be brought back.
fn take(
    areas: &mut [Area],
    entry: &Entry,
    spare: &mut usize,
    steps: &mut Vec<Step>,
    report: &mut Report,
) -> Result<()> {
    let area = area(areas, entry.place)?;
    let shown = area.shown(&entry.path);
    report.path(Level::Debug, "remove", &shown);
    let taken = if entry.marks.contains(&Mark::Directory) {
        // One that is not empty holds what others put there, and stays. Bringing it back is making it.
        area.remove_directory(&entry.path).map(|_| None)
    } else {
        *spare += 1;
        area.take(*spare, &entry.path).map(|()| Some(*spare))
    };
    if let Some(number) = taken.with_context(|| format!("removing {}", shown.display()))? {
        steps.push(Step::Taken(entry.place, entry.path.clone(), number));
    }
    Ok(())
}

/// Takes steps back, the last first. The error that led here is the one to tell; what cannot be undone is left to the next run, which
/// knows of it.
fn undo(steps: &[Step], areas: &mut [Area]) {
    for step in steps.iter().rev() {
        let place = match step {
            Step::Made(place, _) | Step::Put(place, _) | Step::Taken(place, ..) => *place,
        };
        let Ok(area) = area(areas, place) else {
            continue;
        };
        let _: io::Result<()> = match step {
            Step::Made(_, path) => area.remove_directory(path).map(|_| ()),
            Step::Put(_, path) => area.remove_file(path),
            Step::Taken(_, path, number) => bring_back(area, *number, path),
        };
    }
}

fn bring_back(area: &mut Area, number: usize, path: &Path) -> io::Result<()> {
    match area.put(number, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Its directory went with it.
            if let Some(parent) = path.parent() {
                area.make_directory(parent)?;
            }
            area.put(number, path)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
