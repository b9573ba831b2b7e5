//! Takes away exactly what was made: what the manifest lists and is still as it was made. What others changed stays, and is told.

use anyhow::{Context, Result};
use serde_json::json;

use super::area::{Area, Found, unmake};
use super::host;
use super::item::{Mark, Place};
use super::manifest::{Lock, Manifest};
use super::options::Args;
use super::report::{Level, Report};

/// Removes what is installed in the root.
pub(super) fn run(args: &Args, report: &mut Report) -> Result<()> {
    let root = args.root()?;
    let lock = match args.dry_run {
        true => None,
        false => Lock::take(&root)?,
    };
    let Some(manifest) = Manifest::read(&root)? else {
        let text = format!("nothing to do: nothing is installed in {}", root.display());
        return Ok(report.result(&text, json!({ "root": root, "changed": false }))?);
    };
    let mut areas: Vec<Area> = Vec::new();
    for (place, base) in &manifest.places {
        let mut area = Area::new(*place, base.clone());
        area.open()?;
        areas.push(area);
    }
    // Specifications first: one that names what is gone breaks every container that starts.
    let mut entries: Vec<_> = manifest.entries.iter().rev().collect();
    entries.sort_by_key(|entry| entry.place != Place::Cdi);
    // A driver that came later uses the nodes it finds: in the machine's own /dev they are its by now.
    let dev = args.host.join("dev");
    let is_taken_over = !args.force && host::real_driver(&args.host).is_some();
    let (mut removed, mut kept) = (0, Vec::new());
    for entry in entries {
        let Some(area) = areas.iter_mut().find(|area| area.place == entry.place) else {
            continue;
        };
        let shown = area.shown(&entry.path);
        let found = area.look(&entry.path)?;
        let ours = matches!(&found, Found::Thing(found) if entry.is_ours(found));
        let is_directory = found == Found::Thing(Mark::Directory);
        if found == Found::Nothing {
            continue;
        }
        if is_taken_over && entry.place == Place::Dev && area.base == dev {
            kept.push((shown, "a real driver uses it"));
            continue;
        }
        if !ours && (!args.force || is_directory) {
            kept.push((shown, "changed by others"));
            continue;
        }
        if args.dry_run {
            report.path(Level::Info, "would remove", &shown);
            removed += 1;
            continue;
        }
        let gone = match is_directory {
            true => area.remove_directory(&entry.path),
            false => area.remove_file(&entry.path).map(|()| true),
        };
        match gone.with_context(|| format!("removing {}", shown.display()))? {
            true => {
                report.path(Level::Debug, "remove", &shown);
                removed += 1;
            }
            false => kept.push((shown, "not empty")),
        }
    }
    for (path, why) in &kept {
        let facts = [
            ("path", path.display().to_string().into()),
            ("why", (*why).into()),
        ];
        report.tell(Level::Warn, "kept", &facts);
    }
    if !args.dry_run {
        for area in &mut areas {
            area.clear_stage()?;
        }
        Manifest::remove(&root);
        unmake(&manifest.made);
    }
    drop(lock);
    let verb = if args.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    let text = format!("{}: {removed} {verb}, {} kept", root.display(), kept.len());
    let paths: Vec<_> = kept.iter().map(|(path, _)| path).collect();
    let facts = json!({ "root": root, "changed": removed > 0 && !args.dry_run, "removed": removed, "kept": paths });
    Ok(report.result(&text, facts)?)
}
