//! Pod lists, good and bad.

use std::fs;

use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"[
  {"name": "train-0", "namespace": "team-a", "container": "main", "gpu_list": ["GPU-1", "MIG-2"], "uid": "u"},
  {"name": "infer", "namespace": "team-b", "container": "srv", "gpu_list": [0, "3"], "since": {"x": []}}
]"#;

fn lines(claims: &Claims) -> Vec<String> {
    let line = |claim: &Claim| {
        let holder = claim.holder();
        format!(
            "{}/{}/{} {}",
            holder.namespace,
            holder.pod,
            holder.container,
            claim.keys()[0]
        )
    };
    claims.iter().map(line).collect()
}

#[test]
fn the_draft_format_is_read() {
    let claims = parse(GOOD.as_bytes()).expect("good");
    assert_eq!(
        lines(&claims),
        [
            "team-a/train-0/main GPU-1",
            "team-a/train-0/main MIG-2",
            "team-b/infer/srv minor:0",
            "team-b/infer/srv minor:3",
        ]
    );
    let uids: Vec<_> = claims.iter().map(|c| c.holder().uid.as_deref()).collect();
    assert_eq!(uids, [Some("u"), Some("u"), None, None]);
    assert_eq!(claims.skipped(), 0);
}

#[test]
fn labels_are_our_own_field() {
    let text = r#"[
      {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x", "bad": 7}, "gpu_list": [0]},
      {"name": "q", "namespace": "n", "labels": ["no object"], "gpu_list": [1]}
    ]"#;
    let claims = parse(text.as_bytes()).expect("good");
    assert_eq!((claims.len(), claims.pods().len()), (2, 1));
    let facts = &claims.pods()[&("n".to_owned(), "p".to_owned())];
    assert_eq!(facts.uid, "u");
    let labels: Vec<_> = facts.labels.iter().collect();
    assert_eq!(labels, [(&"app".to_owned(), &"x".to_owned())]);
}

#[test]
fn a_list_may_be_empty_or_one_text() {
    for text in ["[]", "null", " [ ] \n"] {
        assert!(parse(text.as_bytes()).expect(text).is_empty());
    }
    let text = r#"[{"name":"p","namespace":"n","gpu_list":"0, GPU-7,"}]"#;
    assert_eq!(
        lines(&parse(text.as_bytes()).expect("one text")),
        ["n/p/ minor:0", "n/p/ GPU-7"]
    );
}

#[test]
fn what_is_no_list_says_why() {
    for (text, problem) in [
        ("", "empty"),
        ("  \n", "empty"),
        ("{}", "map, expected a list [{name, namespace"),
        ("7", "integer `7`, expected a list"),
        ("\"x\"", "string \"x\", expected a list"),
        ("true", "expected a list"),
        ("[{\"name\": \"a\"", "cut short"),
        ("[}", "line 1"),
        ("[] []", "trailing"),
        ("\u{feff}[]", "line 1"),
    ] {
        let error = parse(text.as_bytes()).expect_err(text);
        assert!(error.contains(problem), "{text:?}: {error}");
    }
    assert!(parse(b"[\"\xff\"]").is_err());
    // Depth is bounded by the reader.
    assert!(parse("[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn every_truncation_is_an_error_or_nothing_else() {
    for end in 0..GOOD.len() {
        assert!(parse(&GOOD.as_bytes()[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn senseless_entries_are_left_out_and_the_rest_stands() {
    let text = r#"[
      3, null, {"namespace": "n", "gpu_list": ["GPU-1"]}, {"name": 5, "namespace": "n"},
      {"name": "p", "namespace": "n", "container": "c", "gpu_list": [{}, -1, 1.5, 4294967296, null, "", "GPU-1"]},
      {"name": "q", "namespace": "n", "container": "c", "gpu_list": {}},
      {"name": "r", "namespace": "n", "container": "c"}
    ]"#;
    let claims = parse(text.as_bytes()).expect("tolerant");
    assert_eq!(lines(&claims), ["n/p/c GPU-1"]);
    assert_eq!(claims.skipped(), 4 + 6 + 1);
}

#[test]
fn what_does_not_count_is_not_kept() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let text = format!(
        r#"[{{"name": "p", "namespace": "n", "other": {deep}, "labels": {{"a": {deep}, "b": "c"}},
             "gpu_list": [{deep}, {{"x": {deep}}}, 1], "gpu_list": ["GPU-1", {deep}]}}]"#
    );
    let claims = parse(text.as_bytes()).expect("tolerant");
    assert_eq!(lines(&claims), ["n/p/ GPU-1"], "the last of two counts");
    assert_eq!(claims.skipped(), 1);
    let facts = &claims.pods()[&("n".to_owned(), "p".to_owned())];
    assert_eq!(facts.labels.len(), 1);
    // A list of more devices than any node has.
    let many = vec!["0"; 100_000].join(",");
    let text = format!(r#"[{{"name": "p", "namespace": "n", "gpu_list": [{many}]}}]"#);
    let claims = parse(text.as_bytes()).expect("tolerant");
    assert_eq!(claims.len() + claims.skipped(), 100_000);
    assert!(claims.len() < 10_000);
}

#[test]
fn files_and_directories_are_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join(FILE);
    let shown = read(&file).expect_err("absent").to_string();
    assert!(shown.ends_with("podlist.json is not there yet"), "{shown}");
    let shown = read(dir.path()).expect_err("empty directory").to_string();
    assert!(shown.ends_with("podlist.json is not there yet"), "{shown}");

    fs::write(&file, GOOD).expect("written");
    assert_eq!(read(&file).expect("the file").len(), 4);
    assert_eq!(read(dir.path()).expect("its directory").len(), 4);

    // Replaced by rename, as a careful writer does it.
    let next = dir.path().join("next");
    fs::write(&next, "[]").expect("written");
    fs::rename(&next, &file).expect("replaced");
    assert_eq!(read(&file).expect("the new file").len(), 0);

    // A mount that came before the file makes a directory of it.
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("made");
    assert!(matches!(read(&file), Err(Error::Absent { .. })));
    assert!(matches!(read(dir.path()), Err(Error::Unfit { .. })));
    assert!(matches!(
        read(Path::new("/dev/null/x")),
        Err(Error::Read { .. })
    ));
    assert!(matches!(
        read(Path::new("/dev/zero")),
        Err(Error::Unfit { .. })
    ));
}

#[test]
fn a_huge_file_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(FILE);
    fs::File::create(&path)
        .and_then(|file| file.set_len(MOST_BYTES + 10))
        .expect("a sparse file");
    let shown = read(&path).expect_err("too long").to_string();
    assert!(shown.contains("longer than"), "{shown}");
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn no_damage_breaks_it(at in 0..GOOD.len(), byte in any::<u8>()) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = parse(&bytes);
    }
}
