//! Makes true what shall be there: look, refuse or plan, stage, move into place, write down. Whatever fails on the way is undone.

mod apply;
mod changes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use mirage_state::layout::text;
use serde_json::json;

use super::area::{Area, unmake};
use super::cdi::Delivery;
use super::host;
use super::item::{Item, Part, Place, What};
use super::layout;
use super::manifest::{Lock, Manifest};
use super::node::{self, Still};
use super::options::Args;
use super::report::{Level, Report};
use crate::cli::usage;
use crate::statedir;
use changes::Changes;

/// Makes the parts.
pub(super) fn run(args: &Args, parts: &[Part], report: &mut Report) -> Result<()> {
    let node = node::still(args, &statedir::host())?;
    make(args, parts, &node, report)
}

/// Makes the parts, as this node wants them.
pub(super) fn make(args: &Args, parts: &[Part], node: &Still, report: &mut Report) -> Result<()> {
    if !args.force {
        host::refuse_real_driver(&args.host)?;
    }
    let root = args.root()?;
    let mut areas = args.areas()?;
    if args.dry_run {
        return rehearse(args, parts, node, &mut areas, report);
    }
    let (_lock, mut made) = hold(&root, &mut areas)?;
    let before = Manifest::read(&root)?;
    add_forgotten(before.as_ref(), &mut areas);
    let outcome = converge(
        args,
        parts,
        node,
        before.as_ref(),
        &mut areas,
        &mut made,
        report,
    );
    if outcome.is_err() {
        if before.is_none() {
            Manifest::remove(&root);
        }
        for area in &mut areas {
            // The error is the one to tell; what cannot be cleared now is cleared by the next run.
            let _ = area.clear_stage();
        }
        // Empty ones only: what was there before, or made by an earlier run, stays.
        unmake(&made);
    }
    let (changes, manifest) = outcome?;
    let (created, replaced, removed) = changes.counts();
    let model = &manifest.model;
    let nodes = if manifest.real_nodes {
        "device nodes"
    } else {
        "plain files as device nodes"
    };
    let count = manifest.entries.len();
    let text = match changes.is_empty() {
        true => format!(
            "nothing to do: {} is as it shall be ({count} entries)",
            root.display()
        ),
        false => format!(
            "{}: driver {} with {} × {model}, {nodes}\n{created} created, {replaced} replaced, {removed} removed; undo with: mirage driver remove{}",
            root.display(),
            manifest.driver,
            manifest.gpus,
            args.root
                .as_ref()
                .map_or(String::new(), |_| format!(" --root {}", root.display())),
        ),
    };
    let facts = json!({
        "root": root, "driver": manifest.driver, "model": model, "gpus": manifest.gpus,
        "real-nodes": manifest.real_nodes, "changed": !changes.is_empty(),
        "created": created, "replaced": replaced, "removed": removed, "kept": changes.kept.len(),
    });
    Ok(report.result(&text, facts)?)
}

/// Makes the root if need be and takes its lock; says which directories were made.
fn hold(root: &Path, areas: &mut [Area]) -> Result<(Lock, Vec<PathBuf>)> {
    loop {
        let mut made = Vec::new();
        if let Some(area) = areas.iter_mut().find(|area| area.place == Place::Root) {
            *area = Area::new(Place::Root, root.to_path_buf());
            made = area.make()?;
        }
        // Removed by another run between the two: make it again.
        if let Some(lock) = Lock::take(root)? {
            return Ok((lock, made));
        }
    }
}

/// Finds out what is to do, and does it.
fn converge(
    args: &Args,
    parts: &[Part],
    node: &Still,
    before: Option<&Manifest>,
    areas: &mut [Area],
    made: &mut Vec<PathBuf>,
    report: &mut Report,
) -> Result<(Changes, Manifest)> {
    let root = args.root()?;
    check_places(before, areas)?;
    if before.is_none() {
        // Even the directories are written down before they are made.
        let mut first = Manifest::new(places(areas));
        first.made.clone_from(made);
        first.made.extend(areas.iter().flat_map(Area::missing));
        first.write(&root)?;
    }
    if before.is_some_and(|before| !before.complete) {
        report.path(
            Level::Warn,
            "an earlier run was cut short; finishing it",
            &root,
        );
    }
    let mut real_nodes = false;
    for area in areas.iter_mut() {
        match area.place {
            // Only its leftovers count.
            Place::Link if args.link.is_none() => _ = area.open()?,
            _ => made.extend(area.make()?),
        }
        // Nobody else holds the lock: what is staged is a dead run's.
        area.clear_stage()?;
        if area.place == Place::Dev {
            real_nodes = area.can_make_nodes();
        }
    }
    if !real_nodes {
        report.path(
            Level::Warn,
            "device nodes cannot be made here; plain files take their place, and runtimes make nodes from the specification",
            &args.place(Place::Dev)?,
        );
    }
    let items = items(args, parts, node, real_nodes)?;
    let changes = Changes::find(&items, parts, before, areas, args.force)?;
    changes.tell(areas, report);
    let mut after = Manifest::new(places(areas));
    after.node = node.name.to_string();
    after.driver = node.driver.clone();
    after.gpus = node.image.cards.len();
    after.model = node
        .image
        .statics
        .boards
        .first()
        .map_or("", |board| text(&board.key))
        .to_owned();
    after.real_nodes = real_nodes;
    after.made = before
        .as_ref()
        .map_or_else(Vec::new, |before| before.made.clone());
    after.made.extend(made.iter().cloned());
    after.entries = changes.entries(&items, before);
    let used: Vec<Place> = after.entries.iter().map(|entry| entry.place).collect();
    after
        .places
        .retain(|place, _| Place::ALWAYS.contains(place) || used.contains(place));
    apply::run(&items, &changes, before, &after, areas, &root, report)?;
    for area in areas.iter_mut() {
        area.clear_stage()?;
    }
    Ok((changes, after))
}

/// The list; plain files where nodes cannot be made.
fn items(args: &Args, parts: &[Part], node: &Still, real_nodes: bool) -> Result<Vec<Item>> {
    let delivery = match real_nodes {
        true => Delivery::HostNodes,
        false => Delivery::RuntimeNodes,
    };
    let mut items = layout::items(args, parts, node, delivery)?;
    if !real_nodes {
        for item in &mut items {
            if let What::Node { .. } = item.what {
                item.what = What::File {
                    bytes: Vec::new().into(),
                    mode: 0o666,
                };
            }
        }
    }
    Ok(items)
}

/// Shows what a run would do.
fn rehearse(
    args: &Args,
    parts: &[Part],
    node: &Still,
    areas: &mut Vec<Area>,
    report: &mut Report,
) -> Result<()> {
    let before = Manifest::read(&args.root()?)?;
    add_forgotten(before.as_ref(), areas);
    check_places(before.as_ref(), areas)?;
    for area in areas.iter_mut() {
        area.open()?;
    }
    let known = before.as_ref().map(|before| before.real_nodes);
    let real_nodes = known.unwrap_or_else(|| rustix::process::geteuid().is_root());
    let items = items(args, parts, node, real_nodes)?;
    let changes = Changes::find(&items, parts, before.as_ref(), areas, args.force)?;
    let mut text = String::new();
    let mut list = Vec::new();
    for (verb, path) in changes.listed(&items, areas) {
        text.push_str(&format!("would {verb} {}\n", path.display()));
        list.push(json!({ "would": verb, "path": path }));
    }
    if list.is_empty() {
        text.push_str("nothing to do\n");
    }
    Ok(report.result(&text, json!({ "dry-run": true, "changes": list }))?)
}

/// Places of the installation that this run does not ask for any more: what is there shall go.
fn add_forgotten(before: Option<&Manifest>, areas: &mut Vec<Area>) {
    for (place, base) in before.iter().flat_map(|before| &before.places) {
        if areas.iter().all(|area| area.place != *place) {
            areas.push(Area::new(*place, base.clone()));
        }
    }
}

fn places(areas: &[Area]) -> BTreeMap<Place, PathBuf> {
    areas
        .iter()
        .map(|area| (area.place, area.base.clone()))
        .collect()
}

/// Refuses other places than those of the installation: what is in the old ones would be forgotten.
fn check_places(before: Option<&Manifest>, areas: &[Area]) -> Result<()> {
    let Some(before) = before else {
        return Ok(());
    };
    for area in areas {
        let used = before.entries.iter().any(|entry| entry.place == area.place);
        match before.places.get(&area.place) {
            Some(old) if used && *old != area.base => {
                return Err(usage(format!(
                    "{} was chosen before, {} now; take the first away with `mirage driver remove`, or choose it again",
                    old.display(),
                    area.base.display()
                )));
            }
            _ => {}
        }
    }
    Ok(())
}
