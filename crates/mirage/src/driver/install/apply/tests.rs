//! A step that fails leaves everything as it was.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::driver::item::{List, Part};
use crate::driver::report::Format;

/// A root with one run behind it, and what a second one shall make.
struct Stage {
    dir: tempfile::TempDir,
    areas: Vec<Area>,
    before: Manifest,
}

fn listed(add: impl FnOnce(&mut List)) -> Vec<Item> {
    let mut list = List::new();
    list.begin(Part::Driver, Place::Root);
    add(&mut list);
    list.items
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let mut root = Area::new(Place::Root, dir.path().to_path_buf());
        root.make().unwrap();
        let places = BTreeMap::from([(Place::Root, dir.path().to_path_buf())]);
        let mut stage = Stage {
            dir,
            areas: vec![root],
            before: Manifest::new(places),
        };
        let items = listed(|list| {
            list.file("replaced", "old");
            list.directory("deep");
            list.file("deep/gone", "old");
        });
        stage.run(&items, None).unwrap();
        stage
    }

    fn run(&mut self, items: &[Item], before: Option<&Manifest>) -> Result<()> {
        let changes = Changes::find(items, &[Part::Driver], before, &mut self.areas, false)?;
        let mut after = Manifest::new(self.before.places.clone());
        after.entries = changes.entries(items, before);
        let mut report = Report::new(Level::Error, Format::Text);
        let root = self.dir.path().to_path_buf();
        let outcome = run(
            items,
            &changes,
            before,
            &after,
            &mut self.areas,
            &root,
            &mut report,
        );
        self.areas[0].clear_stage().unwrap();
        self.before = Manifest::read(&root).unwrap().unwrap();
        outcome
    }

    fn contents(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for name in ["replaced", "deep/gone", "new", "made/below"] {
            if let Ok(text) = fs::read_to_string(self.dir.path().join(name)) {
                found.push((name.to_owned(), text));
            }
        }
        found
    }
}

#[test]
fn a_run_replaces_creates_and_removes() {
    let mut stage = Stage::new();
    let before = stage.before.clone();
    let items = listed(|list| {
        list.file("replaced", "new");
        list.file("new", "new");
    });
    stage.run(&items, Some(&before)).unwrap();
    let pair = |name: &str| (name.to_owned(), "new".to_owned());
    assert_eq!(stage.contents(), [pair("replaced"), pair("new")]);
    assert!(!stage.dir.path().join("deep").exists());
    assert!(stage.before.complete);
    assert_eq!(stage.before.entries.len(), 2);
}

#[test]
fn a_failure_while_putting_in_place_is_undone() {
    let mut stage = Stage::new();
    let before = stage.before.clone();
    let was = stage.contents();
    let items = listed(|list| {
        list.file("replaced", "new");
        list.directory("made");
        list.file("made/below", "new");
        list.file("new", "new");
        // Nobody makes its directory, so this is the step that fails.
        list.file("nowhere/file", "new");
    });
    let error = stage.run(&items, Some(&before)).unwrap_err();
    assert!(error.to_string().contains("nowhere/file"), "{error}");
    assert_eq!(stage.contents(), was);
    assert!(!stage.dir.path().join("made").exists());
    assert!(stage.before.complete);
    assert_eq!(stage.before.entries.len(), before.entries.len());
}

#[test]
fn a_failure_while_preparing_touches_nothing() {
    let mut stage = Stage::new();
    let before = stage.before.clone();
    let was = stage.contents();
    let source = stage.dir.path().join("source");
    fs::write(&source, "here").unwrap();
    let items = listed(|list| {
        list.file("replaced", "new");
        list.copy("new", source.clone());
    });
    let changes = Changes::find(
        &items,
        &[Part::Driver],
        Some(&before),
        &mut stage.areas,
        false,
    )
    .unwrap();
    let mut after = before.clone();
    after.entries = changes.entries(&items, Some(&before));
    // It was there when the run was planned.
    fs::remove_file(&source).unwrap();
    let mut report = Report::new(Level::Error, Format::Text);
    let root = stage.dir.path().to_path_buf();
    run(
        &items,
        &changes,
        Some(&before),
        &after,
        &mut stage.areas,
        &root,
        &mut report,
    )
    .unwrap_err();
    assert_eq!(stage.contents(), was);
    assert!(Manifest::read(&root).unwrap().unwrap().complete);
}
