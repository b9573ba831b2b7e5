//! `mirage check` and `mirage models`.

use crate::support::{STILL, run, stderr, stdout};

#[test]
fn good_files_are_good_and_bad_ones_show_where() {
    let root = tempfile::tempdir().unwrap();
    let good = root.path().join("good.yaml");
    let bad = root.path().join("bad.yaml");
    std::fs::write(&good, STILL).unwrap();
    std::fs::write(&bad, "nodes:\n  a: { modle: t4 }\n  b: { model: t5 }\n").unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());

    let output = run(&["check", good]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("good (2 nodes"),
        "{}",
        stdout(&output)
    );

    let output = run(&["check", good, bad]);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(error.contains("bad.yaml:2:8"), "{error}");
    assert!(error.contains("bad.yaml:3:15"), "{error}");
    assert!(error.contains("did you mean `model`?"), "{error}");
    assert!(error.contains("1 of 2 files"), "{error}");
    assert!(stdout(&output).contains("good.yaml: good"));
}

#[test]
fn what_cannot_be_read_is_named() {
    let root = tempfile::tempdir().unwrap();
    let binary = root.path().join("binary.yaml");
    std::fs::write(&binary, [b'a', 0xff]).unwrap();
    let output = run(&["check", binary.to_str().unwrap(), "/nowhere.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.contains("byte 1 (line 1) is not UTF-8; save the file in UTF-8"),
        "{error}"
    );
    assert!(error.contains("/nowhere.yaml"), "{error}");
    assert_eq!(run(&["check"]).status.code(), Some(2));
}

#[test]
fn the_schema_is_json() {
    let output = run(&["check", "--schema"]);
    assert!(output.status.success());
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let config = schema["$ref"].as_str().unwrap().trim_start_matches('#');
    let config = schema.pointer(config).unwrap();
    assert!(config["properties"]["nodes"].is_object());
}

#[test]
fn models_are_listed_and_shown() {
    let output = run(&["models"]);
    assert!(output.status.success());
    let list = stdout(&output);
    for key in ["a100-sxm4-40gb", "tesla-k80", "mi300x", "max-1550"] {
        assert!(list.lines().any(|line| line.starts_with(key)), "{key}");
        let shown = run(&["models", key]);
        assert!(shown.status.success());
        assert!(stdout(&shown).contains("source"), "{key}");
    }
    let output = run(&["models", "a100-sxm4-40g"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean"),
        "{}",
        stderr(&output)
    );
}
