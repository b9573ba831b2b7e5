//! The CDI specification, against the rules of its schema.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mirage_model::yaml::{self, Node, Value};

use crate::stage::Stage;

fn map(node: &Node) -> Vec<(&str, &Node)> {
    match &node.value {
        Value::Mapping(entries) => entries
            .iter()
            .map(|(key, value)| (key.text.as_str(), value))
            .collect(),
        other => panic!("not a map: {other:?}"),
    }
}

fn list(node: &Node) -> &[Node] {
    match &node.value {
        Value::Sequence(items) => items,
        other => panic!("not a list: {other:?}"),
    }
}

fn string(node: &Node) -> &str {
    match &node.value {
        Value::Scalar(scalar) => &scalar.text,
        other => panic!("not a scalar: {other:?}"),
    }
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    map(node)
        .into_iter()
        .find(|(known, _)| *known == key)
        .map(|(_, value)| value)
}

/// Keys the schema allows, and nothing else.
fn only(node: &Node, allowed: &[&str]) {
    for (key, _) in map(node) {
        assert!(allowed.contains(&key), "{key} is not in the schema");
    }
}

fn number(node: &Node) -> u32 {
    string(node).parse().unwrap()
}

fn check_edits(edits: &Node) {
    only(edits, &["env", "deviceNodes", "mounts"]);
    for env in get(edits, "env").map_or(&[][..], list) {
        assert!(
            string(env)
                .split_once('=')
                .is_some_and(|(name, _)| !name.is_empty())
        );
    }
    for node in get(edits, "deviceNodes").map_or(&[][..], list) {
        only(
            node,
            &[
                "path",
                "hostPath",
                "type",
                "major",
                "minor",
                "fileMode",
                "permissions",
            ],
        );
        assert!(string(get(node, "path").unwrap()).starts_with("/dev/nvidia"));
        // Fully described, so that a runtime needs no node on the host.
        assert_eq!(string(get(node, "type").unwrap()), "c");
        assert!(number(get(node, "major").unwrap()) > 0);
        number(get(node, "minor").unwrap());
        assert_eq!(number(get(node, "fileMode").unwrap()), 0o666);
    }
    for mount in get(edits, "mounts").map_or(&[][..], list) {
        only(mount, &["hostPath", "containerPath", "options"]);
        assert!(Path::new(string(get(mount, "hostPath").unwrap())).exists());
        assert!(string(get(mount, "containerPath").unwrap()).starts_with('/'));
        let options: Vec<&str> = list(get(mount, "options").unwrap())
            .iter()
            .map(string)
            .collect();
        assert!(options.contains(&"ro") && options.contains(&"bind"));
    }
}

/// Checks a specification and returns the names of its devices.
fn check(text: &str) -> BTreeSet<String> {
    let spec = yaml::parse(text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    only(&spec, &["cdiVersion", "kind", "devices", "containerEdits"]);
    // Names that begin with a digit need this one; nothing in it needs more.
    assert_eq!(string(get(&spec, "cdiVersion").unwrap()), "0.5.0");
    check_edits(get(&spec, "containerEdits").unwrap());
    let mut names = BTreeSet::new();
    for device in list(get(&spec, "devices").unwrap()) {
        only(device, &["name", "containerEdits"]);
        let name = string(get(device, "name").unwrap());
        assert!(names.insert(name.to_owned()), "{name} is there twice");
        let edits = get(device, "containerEdits").unwrap();
        assert!(!map(edits).is_empty());
        check_edits(edits);
    }
    names
}

/// Paths of the nodes a device brings.
fn nodes_of(text: &str, device: &str) -> Vec<String> {
    edits_of(text, device, "deviceNodes", "path")
}

/// Where a device's mounts go.
fn marks_of(text: &str, device: &str) -> Vec<String> {
    edits_of(text, device, "mounts", "containerPath")
}

fn edits_of(text: &str, device: &str, what: &str, key: &str) -> Vec<String> {
    let spec = yaml::parse(text).unwrap();
    let devices = list(get(&spec, "devices").unwrap());
    let named = devices
        .iter()
        .find(|one| string(get(one, "name").unwrap()) == device);
    let edits = get(named.unwrap(), "containerEdits").unwrap();
    let items = list(get(edits, what).unwrap());
    items
        .iter()
        .map(|item| string(get(item, key).unwrap()).to_owned())
        .collect()
}

#[test]
fn the_specification_is_valid_and_names_every_device() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", "3"]);
    let text = fs::read_to_string(stage.root("var/run/cdi/nvidia.yaml")).unwrap();
    let names = check(&text);
    assert_eq!(names.len(), 7);
    for name in ["0", "1", "2", "all"] {
        assert!(names.contains(name), "{names:?}");
    }
    assert_eq!(
        names.iter().filter(|name| name.starts_with("GPU-")).count(),
        3
    );
    assert_eq!(nodes_of(&text, "1"), ["/dev/nvidia1"]);
    assert_eq!(nodes_of(&text, "all").len(), 3);
}

#[test]
fn mig_devices_bring_their_capabilities_and_narrow_the_view() {
    let stage = Stage::new();
    let config = stage.path("mirage.yaml");
    let gpu = "mig: [1g.5gb, 2g.10gb]";
    fs::write(
        &config,
        format!(
            "nodes:\n  big:\n    model: a100-sxm4-40gb\n    gpus:\n      - {gpu}\n      - {gpu}\n"
        ),
    )
    .unwrap();
    stage.good(&[
        "all",
        "--config",
        config.to_str().unwrap(),
        "--cdi-kind",
        "mirage.dev/gpu",
    ]);
    let text = fs::read_to_string(stage.root("var/run/cdi/nvidia.yaml")).unwrap();
    assert!(text.contains("kind: \"mirage.dev/gpu\""));
    let names = check(&text);
    for name in ["0", "0:0", "0:1", "1:0", "1:1", "all"] {
        assert!(names.contains(name), "{names:?}");
    }
    assert_eq!(
        names.iter().filter(|name| name.starts_with("MIG-")).count(),
        4
    );
    let nodes = nodes_of(&text, "1:0");
    assert_eq!(nodes[0], "/dev/nvidia1");
    assert_eq!(nodes.len(), 3);
    assert!(nodes[1].starts_with("/dev/nvidia-caps/nvidia-cap"));
    let seen = marks_of(&text, "1:0");
    assert!(
        seen.len() == 1 && seen[0].starts_with("/run/mirage-view/MIG-"),
        "{seen:?}"
    );
    // All of a GPU is its node and the capabilities of all its parts.
    assert_eq!(nodes_of(&text, "1").len(), 5);
    assert!(marks_of(&text, "1")[0].starts_with("/run/mirage-view/GPU-"));
    assert_eq!(marks_of(&text, "all"), ["/run/mirage-view/all"]);
}
