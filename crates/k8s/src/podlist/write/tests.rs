//! What is written can be read, is whole at any time, and outlives its writer.

use std::os::unix::fs::MetadataExt as _;

use proptest::prelude::*;

use super::super::{parse, read as read_claims};
use super::*;

fn entry(name: &str, gpus: &[&str]) -> Entry {
    Entry {
        namespace: "team".to_owned(),
        name: name.to_owned(),
        container: "main".to_owned(),
        gpu_list: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
        pod_uid: format!("uid-of-{name}"),
        container_id: format!("id-of-{name}"),
    }
}

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory");
        Place { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("pods").join("podlist.json")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("a list")
    }
}

/// The design's own fields, in its order and spelling, then ours.
#[test]
fn the_text_is_the_design_s() {
    let entries = [entry("train-0", &["GPU-1", "GPU-2"]), entry("x", &[])];
    assert_eq!(
        text(&entries, 7),
        concat!(
            "[\n",
            r#"  {"name":"train-0","namespace":"team","container":"main","gpu_list":["GPU-1","GPU-2"],"#,
            r#""pod_uid":"uid-of-train-0","container_id":"id-of-train-0","generation":7},"#,
            "\n",
            r#"  {"name":"x","namespace":"team","container":"main","gpu_list":[],"#,
            r#""pod_uid":"uid-of-x","container_id":"id-of-x","generation":7}"#,
            "\n]\n",
        )
    );
    assert_eq!(text(&[], 8), "[]\n");
}

#[test]
fn the_file_is_there_from_the_beginning_and_replaced_as_a_whole() {
    let place = Place::new();
    let mut writer = Writer::open(&place.path()).expect("opened");
    assert_eq!(place.text(), "[]\n");
    let first = fs::metadata(place.path()).expect("there").ino();

    writer.write(&[entry("a", &["GPU-1"])]).expect("written");
    let second = fs::metadata(place.path()).expect("there");
    assert_ne!(second.ino(), first, "a reader keeps what it opened");
    assert_eq!(second.mode() & 0o777, 0o644);
    let claims = read_claims(&place.path()).expect("readable");
    let claim = claims.iter().next().expect("a claim");
    assert_eq!(claim.holder().uid.as_deref(), Some("uid-of-a"));
    assert_eq!(claim.keys(), ["GPU-1"]);

    // The same again touches nothing; a file that somebody took away comes back.
    writer
        .write(&[entry("a", &["GPU-1"])])
        .expect("nothing to do");
    assert_eq!(
        fs::metadata(place.path()).expect("there").ino(),
        second.ino()
    );
    fs::remove_file(place.path()).expect("removed");
    writer.write(&[entry("a", &["GPU-1"])]).expect("written");
    assert!(place.text().contains("GPU-1"));
    assert_eq!(names(&place), [".podlist.json.lock", "podlist.json"]);
}

fn names(place: &Place) -> Vec<String> {
    let path = place.path();
    let entries = fs::read_dir(path.parent().expect("a directory")).expect("readable");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_good_list_stands_until_the_next_and_numbers_go_on() {
    let place = Place::new();
    let mut writer = Writer::open(&place.path()).expect("opened");
    writer.write(&[entry("a", &["GPU-1"])]).expect("written");
    assert!(place.text().contains(r#""generation":2"#));
    drop(writer);

    let mut writer = Writer::open(&place.path()).expect("opened again");
    assert_eq!(writer.entries(), [entry("a", &["GPU-1"])]);
    assert!(place.text().contains("GPU-1"), "still there");
    writer.write(&[]).expect("written");
    drop(writer);

    let mut writer = Writer::open(&place.path()).expect("opened again");
    writer.write(&[entry("b", &["GPU-1"])]).expect("written");
    assert!(
        place.text().contains(r#""generation":4"#),
        "{}",
        place.text()
    );
    writer.remove();
    assert!(names(&place).is_empty());
}

#[test]
fn what_is_no_list_is_replaced() {
    for bad in ["", "[{", "{}"] {
        let place = Place::new();
        fs::create_dir_all(place.path().parent().expect("a directory")).expect("made");
        fs::write(place.path(), bad).expect("written");
        let writer = Writer::open(&place.path()).expect(bad);
        assert_eq!((place.text().as_str(), writer.entries()), ("[]\n", &[][..]));
    }
    // A mount that came first made a directory of it.
    let place = Place::new();
    fs::create_dir_all(place.path()).expect("made");
    Writer::open(&place.path()).expect("replaced");
    assert_eq!(place.text(), "[]\n");
    // What others keep there is not ours to take.
    let place = Place::new();
    fs::create_dir_all(place.path().join("theirs")).expect("made");
    let error = Writer::open(&place.path()).expect_err("not empty");
    assert!(error.to_string().starts_with("replacing the directory"));
}

#[test]
fn there_is_one_writer() {
    let place = Place::new();
    let held = Writer::open(&place.path()).expect("opened");
    let error = Writer::open(&place.path()).expect_err("held").to_string();
    assert!(error.contains("another process writes it"), "{error}");
    drop(held);
    Writer::open(&place.path()).expect("free again");
}

#[test]
fn a_half_written_list_of_a_killed_writer_is_in_nobodys_way() {
    let place = Place::new();
    let mut writer = Writer::open(&place.path()).expect("opened");
    fs::write(beside(&place.path(), "new"), "[{").expect("written");
    writer.write(&[entry("a", &["GPU-1"])]).expect("written");
    assert!(parse(place.text().as_bytes()).is_ok());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error = Writer::open(Path::new("/dev/null/pods/podlist.json")).expect_err("no directory");
    assert_eq!(
        error.to_string(),
        "making the directory of pod list /dev/null/pods/podlist.json"
    );
}

proptest! {
    #[test]
    fn any_names_come_back(name in "\\PC{0,20}", gpus in prop::collection::vec("\\PC{0,10}", 0..3)) {
        let gpus: Vec<&str> = gpus.iter().map(String::as_str).collect();
        let entries = [entry(&name, &gpus)];
        let text = text(&entries, 3);
        prop_assert!(parse(text.as_bytes()).is_ok());
        prop_assert_eq!(read(text.as_bytes()), (entries.to_vec(), 3));
    }
}
