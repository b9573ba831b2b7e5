use crate::fakedev::activity::{Function, Unit};
use crate::fakedev::device::DeviceType;

use super::*;

fn fleet() -> Fleet {
    let kind = br#"{"SubDevices": 2, "Capability": 10,
                    "MetricLimits": {"memory": {"Max": 1000}, "usage": {"Max": 1, "Scope": "subdevice"},
                                     "hangs": {"Counter": true}}}"#;
    let list = br#"{"DeviceLabels": [{"file": "card0"}, {"file": "card1"}]}"#;
    Fleet::new(DeviceType::parse(kind).unwrap(), list, 2).unwrap()
}

fn parse(text: &str) -> Result<Spec, String> {
    let identity = Identity::parse(br#"{"MetricMap": {"memory": "used_bytes"}}"#).unwrap();
    Spec::parse(text.as_bytes(), &fleet(), &identity).map_err(|error| error.to_string())
}

fn with(member: &str) -> Result<Spec, String> {
    parse(&format!(
        r#"{{"Name": "x", "Devices": ["card0"], "Profile": [{{"Load": 0}}], {member}}}"#
    ))
}

fn step(step: &str) -> Result<Spec, String> {
    parse(&format!(
        r#"{{"Name": "x", "Devices": ["card0"], "Profile": [{step}]}}"#
    ))
}

#[test]
fn a_stock_workload_is_read() {
    let spec = parse(
        r#"{"Name": "train", "Repeat": 3, "Devices": ["card1", "card1"], "Limits": null,
            "Profile": [{"Load": 10, "Fluctuation": 10, "Seconds": 6}, {"Load": 98}]}"#,
    )
    .unwrap();
    assert_eq!(spec.repeat, 3);
    assert_eq!(spec.targets.len(), 1);
    assert_eq!(spec.steps[0].micros, 6_000_000);
    assert_eq!(
        (spec.steps[0].load.low, spec.steps[0].load.high),
        (0.0, 0.2)
    );
    assert_eq!(spec.lap(), 6_000_000 + 86_400_000_000);
    assert!(!spec.wants_words);
    assert_eq!(step(r#"{"Load": 1}"#).unwrap().repeat, 0, "for ever");
}

#[test]
fn malformed_workloads_are_refused_with_the_reason() {
    let table = [
        (parse(""), "no JSON object"),
        (parse("foobar"), "no JSON object"),
        (parse(r#"{"Foobar": 0}"#), "Name"),
        (parse(r#"{"Name": "x", "Devices": ["card0"]}"#), "Profile"),
        (parse(r#"{"Name": "x", "Profile": [{}]}"#), "Devices"),
        (with(r#""Repeat": -1"#), "Repeat"),
        (with(r#""Repeat": 1.5"#), "Repeat"),
        (with(r#""Profile": [{"Load": -1}]"#), "Profile[0].Load"),
        (
            with(r#""Profile": [{"Load": 50, "Fluctuation": 75}]"#),
            "Profile[0].Fluctuation",
        ),
        (
            with(r#""Profile": [{"Load": 50, "Fluctuation": 51}]"#),
            "Profile[0].Fluctuation",
        ),
        (with(r#""Profile": [{"Load": 101}]"#), "Profile[0].Load"),
        (with(r#""Profile": [{"Load": "50"}]"#), "Profile[0].Load"),
        (with(r#""Devices": ["card0", "card9"]"#), "Devices[1]"),
        (with(r#""Devices": [0]"#), "Devices[0]"),
        (with(r#""Indices": [7]"#), "Indices[0]"),
        (with(r#""Limits": {"heat": 1}"#), "heat"),
        (with(r#""Limits": {"memory": "1"}"#), "Limits.memory"),
        (with(r#""MaxFrequency": 100"#), "MaxFrequency"),
        (with(r#""Capability": -1"#), "Capability"),
        (with(r#""Reply": "song""#), "Reply"),
        (with(r#""Labels": {"pod": 1}"#), "Labels.pod"),
        (step(r#"{"Function": "sine"}"#), "Function"),
        (step(r#"{"Metrics": {"heat": 1}}"#), "Metrics.heat"),
        (step(r#"{"Metrics": {"memory": -1}}"#), "Metrics.memory"),
        (
            step(r#"{"Metrics": {"memory": 1, "used_bytes": 1}}"#),
            "twice",
        ),
        (
            step(r#"{"Metrics": {"memory": {"Min": 2, "Max": 1}}}"#),
            "ramp",
        ),
        (
            step(r#"{"Metrics": {"memory": {"Max": 2, "Unit": "share"}}}"#),
            "0-1",
        ),
        (
            step(r#"{"Metrics": {"memory": {"Max": 1, "Unit": "MB"}}}"#),
            "Unit",
        ),
        (
            step(r#"{"Metrics": {"hangs": {"Max": 1, "Unit": "share"}}}"#),
            "counter",
        ),
    ];
    for (outcome, place) in table {
        let refusal = outcome.unwrap_err();
        assert!(refusal.contains(place), "{place}: {refusal}");
    }
}

#[test]
fn spans_are_read_with_unit_and_function() {
    let spec = step(
        r#"{"Load": 50, "Function": "ramp", "Metrics": {
            "used_bytes": {"Min": 1, "Max": 2, "Function": "random-increase"},
            "usage": {"Max": 0.5, "Unit": "share"}, "hangs": 0.1}}"#,
    )
    .unwrap();
    assert_eq!(spec.steps[0].load.function, Function::Ramp);
    let fleet = fleet();
    let span = |name: &str| {
        let metric = fleet.metric(name).unwrap();
        let found = spec.steps[0].metrics.iter().find(|(own, _)| *own == metric);
        found.unwrap().1.clone()
    };
    assert_eq!(span("memory").function, Function::RandomIncrease);
    assert_eq!(span("memory").unit, Unit::Absolute);
    assert_eq!(span("usage").unit, Unit::Share);
    assert_eq!((span("hangs").low, span("hangs").high), (0.1, 0.1));
}

#[test]
fn devices_are_asked_for_by_name_sub_device_or_index() {
    let targets = |member: &str| {
        let text = format!(r#"{{"Name": "x", "Profile": [{{"Load": 1}}], {member}}}"#);
        parse(&text).unwrap().targets
    };
    let target = |device, part| Target { device, part };
    assert_eq!(targets(r#""Indices": [1]"#), [target(1, None)]);
    assert_eq!(targets(r#""Devices": ["card0.1"]"#), [target(0, Some(1))]);
    assert_eq!(
        targets(r#""Devices": ["card0.1", "card0", "card1.0"]"#),
        [target(0, None), target(1, Some(0))]
    );
}

#[test]
fn a_faster_device_is_done_sooner() {
    let spec = with(r#""Capability": 5, "Profile": [{"Load": 1, "Seconds": 10}]"#).unwrap();
    assert_eq!(spec.speed, 2.0);
    assert_eq!(spec.steps[0].micros, 5_000_000);
}

#[test]
fn the_longest_step_and_lap_do_not_overflow() {
    let text = format!(r#"{{"Load": 1, "Seconds": {}}}"#, u64::MAX);
    let spec = step(&format!("{text}, {text}")).unwrap();
    assert!(spec.lap() >= spec.steps[0].micros);
}

#[test]
fn words_are_sent_to_those_who_asked_even_if_refused() {
    assert!(wants_words(br#"{"reply": "text"}"#));
    assert!(!wants_words(br#"{"Reply": "code"}"#));
    assert!(!wants_words(b"foobar"));
    assert!(with(r#""Reply": "text""#).unwrap().wants_words);
}
