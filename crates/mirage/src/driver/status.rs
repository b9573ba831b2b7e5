//! Shows what is installed, and whether it is as it was made.

use anyhow::{Result, bail};
use serde_json::json;

use super::area::{Area, Found};
use super::item::Place;
use super::manifest::Manifest;
use super::node::is_live;
use super::options::Args;
use super::report::{Level, Report};

/// Looks at everything the manifest lists. Anything missing or changed is a failure.
pub(super) fn run(args: &Args, report: &mut Report) -> Result<()> {
    let root = args.root()?;
    let Some(manifest) = Manifest::read(&root)? else {
        let text = format!("nothing is installed in {}", root.display());
        report.result(&text, json!({ "root": root, "installed": false }))?;
        bail!(
            "no mock driver in {}; make one with `mirage driver all`",
            root.display()
        );
    };
    let mut areas: Vec<Area> = Vec::new();
    for (place, base) in &manifest.places {
        let mut area = Area::new(*place, base.clone());
        area.open()?;
        areas.push(area);
    }
    let (mut whole, mut missing, mut changed) = (0, 0, 0);
    for entry in &manifest.entries {
        let Some(area) = areas.iter_mut().find(|area| area.place == entry.place) else {
            continue;
        };
        let shown = area.shown(&entry.path);
        match area.look(&entry.path)? {
            Found::Thing(found) if entry.marks.contains(&found) => whole += 1,
            // Brought to life, which is what it is for.
            _ if entry.place == Place::State && is_live(&shown) => whole += 1,
            Found::Nothing => {
                missing += 1;
                report.path(Level::Warn, "missing", &shown);
            }
            _ => {
                changed += 1;
                report.path(Level::Warn, "changed", &shown);
            }
        }
    }
    let nodes = if manifest.real_nodes {
        "device nodes"
    } else {
        "plain files"
    };
    let mut text = format!(
        "root      {}\nnode      {}\ndriver    {}\ngpus      {} × {}\n/dev      {nodes}\n",
        root.display(),
        manifest.node,
        manifest.driver,
        manifest.gpus,
        manifest.model
    );
    for area in areas.iter().skip(1) {
        let name = format!("{:?}", area.place).to_lowercase();
        text.push_str(&format!("{name:<9} {}\n", area.base.display()));
    }
    text.push_str(&format!(
        "entries   {whole} whole, {missing} missing, {changed} changed\n"
    ));
    let facts = json!({
        "root": root, "installed": true, "complete": manifest.complete, "node": manifest.node,
        "driver": manifest.driver, "gpus": manifest.gpus, "model": manifest.model,
        "real-nodes": manifest.real_nodes, "places": manifest.places,
        "whole": whole, "missing": missing, "changed": changed,
    });
    report.result(&text, facts)?;
    if !manifest.complete || missing + changed > 0 {
        bail!(
            "{} is not whole; repair it with `mirage driver all`",
            root.display()
        );
    }
    Ok(())
}
