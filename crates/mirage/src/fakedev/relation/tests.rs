use crate::fakedev::device::{DeviceType, Fleet};

use super::*;

fn fleet(kind: &str) -> Fleet {
    let kind = DeviceType::parse(kind.as_bytes()).unwrap();
    Fleet::new(kind, br#"{"DeviceLabels": [{"file": "card0"}]}"#, 1).unwrap()
}

/// A device with a workload that holds metrics at given values, for a number of seconds.
fn run(fleet: &Fleet, held: &[(&str, f64)], seconds: usize) -> Readings {
    let blank = {
        let mut blank = fleet.relations.idle(fleet);
        for (metric, limits) in fleet.metrics.iter().enumerate() {
            for cell in fleet.cells(metric) {
                blank.values[cell] = limits.min;
                blank.rates[cell] = 0.0;
            }
        }
        for (name, value) in held {
            let metric = fleet.metric(name).unwrap();
            for cell in fleet.cells(metric) {
                if fleet.metrics[metric].counter {
                    blank.rates[cell] = *value;
                } else {
                    blank.values[cell] = *value;
                }
            }
        }
        blank
    };
    let mut before = fleet.relations.idle(fleet);
    for _ in 0..seconds {
        let mut now = blank.clone();
        fleet
            .relations
            .settle(fleet, &before, &mut now, Passing::Seconds(1.0));
        before = now;
    }
    before
}

fn value(fleet: &Fleet, readings: &Readings, name: &str) -> f64 {
    readings.values[fleet.cells(fleet.metric(name).unwrap()).start]
}

const CARD: &str = r#"{
    "MetricLimits": {
        "usage": {"Min": 0, "Max": 1},
        "frequency": {"Min": 300, "Max": 1300},
        "power": {"Min": 10, "Max": 110},
        "temperature": {"Min": 20, "Max": 100},
        "throttled": {"Counter": true},
        "hangs": {"Counter": true}
    },
    "Relations": [
        {"From": "usage", "To": "frequency"},
        {"From": "hangs", "To": "frequency", "Switch": true},
        {"From": "frequency", "To": "power", "Ratio": 0.5},
        {"From": "usage", "To": "power", "Ratio": 0.5, "Offset": 0.1},
        {"From": "power", "To": "temperature", "Delay": 10},
        {"From": "temperature", "To": "throttled", "Above": 80, "Switch": true},
        {"From": "throttled", "To": "frequency", "Ratio": 0.6, "Limit": true}
    ]
}"#;

#[test]
fn an_idle_device_stands_at_its_minimum_and_what_follows_from_it() {
    let fleet = fleet(CARD);
    let idle = fleet.relations.idle(&fleet);
    assert_eq!(value(&fleet, &idle, "frequency"), 300.0);
    assert_eq!(value(&fleet, &idle, "power"), 20.0);
    assert_eq!(value(&fleet, &idle, "temperature"), 28.0);
    assert_eq!(value(&fleet, &idle, "throttled"), 0.0);
    let later = run(&fleet, &[], 100);
    assert_eq!(later.values, idle.values);
}

#[test]
fn use_drives_clock_and_power_within_a_tick_and_temperature_later() {
    let fleet = fleet(CARD);
    let soon = run(&fleet, &[("usage", 0.5)], 1);
    assert_eq!(value(&fleet, &soon, "frequency"), 800.0);
    assert_eq!(value(&fleet, &soon, "power"), 70.0);
    let at = |seconds| {
        let readings = run(&fleet, &[("usage", 0.5)], seconds);
        value(&fleet, &readings, "temperature")
    };
    // From 28 on its way to 20 + 80 × 60 %, with the first tick still looking back to idle.
    assert_eq!(at(1), 28.0);
    assert!((at(11) - (68.0 - 40.0 * (-1.0f64).exp())).abs() < 1e-9);
    assert!((at(500) - 68.0).abs() < 1e-9);
}

#[test]
fn heat_throttles_and_throttling_lowers_the_clock() {
    let fleet = fleet(CARD);
    let hot = run(&fleet, &[("usage", 1.0)], 200);
    assert!(value(&fleet, &hot, "throttled") > 10.0);
    let clocks: Vec<f64> = (200..260)
        .map(|seconds| {
            let readings = run(&fleet, &[("usage", 1.0)], seconds);
            value(&fleet, &readings, "frequency")
        })
        .collect();
    assert!(clocks.contains(&700.0), "throttled to 40 %: {clocks:?}");
    let cool = run(&fleet, &[("usage", 0.2)], 200);
    assert_eq!(value(&fleet, &cool, "throttled"), 0.0);
}

#[test]
fn a_hang_holds_the_clock_up() {
    let fleet = fleet(CARD);
    let hung = run(&fleet, &[("hangs", 0.01)], 2);
    assert_eq!(value(&fleet, &hung, "frequency"), 1300.0);
    assert!((value(&fleet, &hung, "hangs") - 0.02).abs() < 1e-12);
}

#[test]
fn sub_devices_follow_their_own_and_the_device_their_mean() {
    let fleet = fleet(
        r#"{
            "SubDevices": 2,
            "MetricLimits": {
                "usage": {"Max": 1, "Scope": "subdevice"},
                "clock": {"Max": 100, "Scope": "subdevice"},
                "power": {"Max": 100},
                "fan": {"Max": 100, "Scope": "subdevice"}
            },
            "Relations": [
                {"From": "usage", "To": "clock"},
                {"From": "usage", "To": "power"},
                {"From": "power", "To": "fan"}
            ]
        }"#,
    );
    let before = fleet.relations.idle(&fleet);
    let mut now = before.clone();
    now.values[fleet.cells(fleet.metric("usage").unwrap()).start + 1] = 1.0;
    let passing = Passing::Seconds(1.0);
    fleet.relations.settle(&fleet, &before, &mut now, passing);
    let cells = |name: &str| &now.values[fleet.cells(fleet.metric(name).unwrap())];
    assert_eq!(cells("clock"), [0.0, 100.0]);
    assert_eq!(cells("power"), [50.0]);
    assert_eq!(cells("fan"), [50.0, 50.0]);
}

#[test]
fn circles_and_nonsense_are_refused() {
    let refusal = |relations: &str| {
        let kind = format!(
            r#"{{"MetricLimits": {{"a": {{"Max": 1}}, "b": {{"Max": 1}}, "c": {{"Counter": true}}}},
                "Relations": {relations}}}"#
        );
        DeviceType::parse(kind.as_bytes()).unwrap_err().to_string()
    };
    let circle = refusal(r#"[{"From": "a", "To": "b"}, {"From": "b", "To": "a"}]"#);
    assert!(circle.contains("a, b follow from each other"), "{circle}");
    assert!(refusal(r#"[{"From": "a", "To": "a"}]"#).contains("Delay"));
    assert!(refusal(r#"[{"From": "a", "To": "x"}]"#).contains("no metric \"x\""));
    assert!(refusal(r#"[{"From": "a"}]"#).contains("Relations[0].To"));
    assert!(refusal(r#"[{"From": "a", "To": "b", "Delay": -1}]"#).contains("Delay"));
    assert!(refusal(r#"[{"From": "a", "To": "b", "Ratio": 1e300}]"#).contains("Ratio"));
    assert!(refusal(r#"[{"From": "a", "To": "c", "Limit": true}]"#).contains("Limit"));
    // The same circle is fine once it takes time.
    fleet(
        r#"{"MetricLimits": {"a": {"Max": 1}, "b": {"Max": 1}},
            "Relations": [{"From": "a", "To": "b"}, {"From": "b", "To": "a", "Delay": 1}]}"#,
    );
}
