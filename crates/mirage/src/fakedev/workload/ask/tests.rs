use std::ffi::OsString;

use crate::fakedev::flags::{self, Asked};
use crate::fakedev::with_causes;

use super::*;

fn ask(args: &[&str], environment: &[(&str, &str)]) -> Result<Value, String> {
    let Asked::Run(given) = flags::parse(FLAGS, args.iter().map(OsString::from)).unwrap() else {
        panic!("help was asked for");
    };
    let look = |name: &str| {
        environment
            .iter()
            .find(|(own, _)| *own == name)
            .map(|(_, value)| (*value).to_owned())
    };
    document(&given, &look).map_err(|error| with_causes(&error))
}

#[test]
fn flags_become_the_stock_document() {
    let document = ask(
        &[
            "-name",
            "wl",
            "-repeat=2",
            "-activity",
            "50:5:30,98:1:0",
            "--devnames",
            "card0,card3",
        ],
        &[],
    )
    .unwrap();
    assert_eq!(
        document,
        json!({
            "Name": "wl",
            "Repeat": 2,
            "Profile": [
                {"Load": 50, "Fluctuation": 5, "Seconds": 30},
                {"Load": 98, "Fluctuation": 1, "Seconds": 0},
            ],
            "Devices": ["card0", "card3"],
            "Limits": null,
            "Reply": "text",
        })
    );
}

#[test]
fn the_completion_index_chooses_the_device() {
    let args = ["-devnames", "cardINDEX,renderINDEX", "-max-index", "8"];
    let devices = |index: &str| {
        ask(&args, &[("JOB_COMPLETION_INDEX", index)]).map(|document| document["Devices"].clone())
    };
    assert_eq!(devices("19").unwrap(), json!(["card3", "render3"]));
    assert!(devices("x").unwrap_err().contains("JOB_COMPLETION_INDEX"));
    assert!(
        ask(&args, &[])
            .unwrap_err()
            .contains("JOB_COMPLETION_INDEX")
    );
    // Without -max-index the name is taken as it is.
    assert_eq!(ask(&args[..2], &[]).unwrap()["Devices"][0], "cardINDEX");
}

#[test]
fn devices_are_found_in_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["card7", "card12", "renderD128"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let pattern = format!("{}/card*", folder.path().display());
    let document = ask(&["-devices", &pattern], &[]).unwrap();
    assert_eq!(document["Devices"], json!(["card12", "card7"]));
    let document = ask(
        &["-devices", &pattern, "-index-regexp", "card([0-9]+)$"],
        &[],
    )
    .unwrap();
    assert_eq!(document["Indices"], json!([12, 7]));
    assert_eq!(document.get("Devices"), None);
    let none = format!("{}/none*", folder.path().display());
    assert!(
        ask(&["-devices", &none], &[])
            .unwrap_err()
            .contains("no files match")
    );
    let wrong = ask(&["-devices", &pattern, "-index-regexp", "x([0-9]+)"], &[]);
    assert!(wrong.unwrap_err().contains("finds no number"));
}

#[test]
fn a_file_wins_over_flags_in_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wl.json");
    std::fs::write(
        &path,
        r#"{"name": "file", "PROFILE": [{"Load": 5}], "devices": ["card9"]}"#,
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let none = format!("{}/none*", folder.path().display());
    let document = ask(&["-json", path, "-name", "flag", "-devices", &none], &[]).unwrap();
    assert_eq!(document["Name"], "file");
    assert_eq!(document["Profile"], json!([{"Load": 5}]));
    assert_eq!(document["devices"], json!(["card9"]));
    assert_eq!(
        document["Repeat"], 1,
        "the client's default, unlike the server's"
    );
}

#[test]
fn an_unreadable_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.json");
    let path = path.to_str().unwrap();
    let refusal = ask(&["-json", path, "-devnames", "card0"], &[]).unwrap_err();
    assert!(
        refusal.starts_with(&format!("reading workload {path}: No such file")),
        "{refusal}"
    );
    std::fs::write(path, "{").unwrap();
    let refusal = ask(&["-json", path, "-devnames", "card0"], &[]).unwrap_err();
    assert!(refusal.contains("no JSON object"), "{refusal}");
}

#[test]
fn blanks_before_numbers_are_passed_over() {
    let profile = |activity: &str| {
        let document = ask(&["-activity", activity, "-devnames", "card0"], &[]).unwrap();
        document["Profile"].clone()
    };
    assert_eq!(profile("50:5:30, 98: 1:0"), profile("50:5:30,98:1:0"));
}

#[test]
fn activities_that_cannot_be_are_refused() {
    for activity in [
        "", "50", "50:5", "50:5:1:1", "a:b:c", "101:0:1", "5:6:1", "50:5:-1", "50:5:1,",
    ] {
        assert!(
            ask(&["-activity", activity, "-devnames", "card0"], &[]).is_err(),
            "{activity:?}"
        );
    }
    assert!(ask(&["-name", "", "-devnames", "card0"], &[]).is_err());
}

#[test]
fn limits_labels_and_the_measured_device_are_passed_on() {
    let document = ask(
        &[
            "-devnames",
            "card0",
            "-limits",
            "memory=8e9,runtime=60",
            "-labels",
            "pod=mine,team=a",
            "-max-frequency",
            "1300",
            "-capability",
            "96",
        ],
        &[
            ("POD_NAME", "theirs"),
            ("POD_NAMESPACE", "ml"),
            ("CONTAINER_NAME", ""),
        ],
    )
    .unwrap();
    assert_eq!(document["Limits"], json!({"memory": 8e9, "runtime": 60.0}));
    assert_eq!(
        document["Labels"],
        json!({"pod": "mine", "namespace": "ml", "team": "a"})
    );
    assert_eq!(document["MaxFrequency"], 1300.0);
    assert_eq!(document["Capability"], 96.0);
    for wrong in ["memory", "=1", "memory=much", "memory=inf"] {
        assert!(
            ask(&["-devnames", "card0", "-limits", wrong], &[]).is_err(),
            "{wrong}"
        );
    }
}
