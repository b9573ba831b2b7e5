use std::sync::Arc;
use std::time::Duration;

use crate::fakedev::device::DeviceType;
use crate::fakedev::world::World;

use super::*;

const LIST: &[u8] = br#"{"DeviceLabels": [
    {"file": "card0", "addr": "0000:03:00.0"}, {"file": "card1", "addr": "0000:04:00.0"}],
    "Links": [[0, 1]]}"#;

fn page(kind: &str, identity: &str, count: usize) -> Result<String, String> {
    let kind = DeviceType::parse(kind.as_bytes()).unwrap();
    let fleet = Arc::new(Fleet::new(kind, LIST, count).unwrap());
    let identity = Identity::parse(identity.as_bytes()).unwrap();
    let mut world = World::new(fleet, &identity, 1, Duration::from_secs(1))
        .map_err(|error| error.to_string())?;
    world.settle();
    let text = world.text();
    let (title, body) = text.split_once('\n').unwrap();
    assert!(title.starts_with("# fakedev-exporter v"), "{title}");
    Ok(body.to_owned())
}

#[test]
fn metrics_come_by_shown_name_with_sorted_labels_and_comma_space() {
    let body = page(
        r#"{"DeviceLabels": {"pciid": "0x4905", "name": "DG1"},
            "MetricLimits": {"a": {"Min": 1048576, "Max": 4007657472}, "b": {"Min": 3, "Max": 35}}}"#,
        r#"{"DeviceLabelMap": {"pciid": "pci_dev", "addr": "pci_bdf", "file": "dev_file"},
            "MetricMap": {"a": "z_bytes", "b": "watts"},
            "MetricLabels": {"a": {"location": "device", "function": "max"}}}"#,
        2,
    )
    .unwrap();
    let card0 = r#"dev_file="card0", pci_bdf="0000:03:00.0", pci_dev="0x4905""#;
    let card1 = r#"dev_file="card1", pci_bdf="0000:04:00.0", pci_dev="0x4905""#;
    assert_eq!(
        body,
        format!(
            "watts{{{card0}}} 3\n\
             z_bytes{{{card0}, function=\"max\", location=\"device\"}} 1.048576e+06\n\
             watts{{{card1}}} 3\n\
             z_bytes{{{card1}, function=\"max\", location=\"device\"}} 1.048576e+06\n"
        )
    );
}

#[test]
fn dimensions_sub_devices_and_links_multiply_series() {
    let body = page(
        r#"{"SubDevices": 2,
            "MetricLimits": {"usage": {"Min": 1, "Max": 3, "Scope": "subdevice"},
                             "fabric": {"Min": 0, "Max": 9, "Scope": "link"}},
            "MetricDimensions": {"usage": {"engine": {"copy": 0.5, "all": 1}}}}"#,
        r#"{"DeviceLabelMap": {"file": "dev", "peer": "to"},
            "MetricMap": {"usage": "usage", "fabric": "fabric"}}"#,
        2,
    )
    .unwrap();
    let expected = "\
fabric{dev=\"card0\", to=\"card1\"} 0
usage{dev=\"card0\", subdevice=\"0\", engine=\"copy\"} 1
usage{dev=\"card0\", subdevice=\"0\", engine=\"all\"} 1
usage{dev=\"card0\", subdevice=\"1\", engine=\"copy\"} 1
usage{dev=\"card0\", subdevice=\"1\", engine=\"all\"} 1
";
    assert!(body.starts_with(expected), "{body}");
}

#[test]
fn series_that_would_be_the_same_are_refused() {
    let two = r#"{"MetricLimits": {"a": {"Max": 1}, "b": {"Max": 1}}}"#;
    let refusal = |identity: &str, count| page(two, identity, count).unwrap_err();
    assert!(refusal(r#"{"MetricMap": {"a": "x", "b": "x"}}"#, 1).contains("x{}"));
    assert!(refusal(r#"{"MetricMap": {"a": "x"}}"#, 2).contains("tells them apart"));
    let doubled = r#"{"MetricMap": {"a": "x"}, "DeviceLabelMap": {"file": "l", "addr": "l"}}"#;
    assert!(refusal(doubled, 1).contains("label l twice"));
    let doubled = r#"{"WorkloadMetricMap": {"a": "x"}, "WorkloadLabelMap": {"pod": "l"},
                      "DeviceLabelMap": {"file": "l"}}"#;
    assert!(refusal(doubled, 1).contains("label l twice"));
    let both = r#"{"MetricMap": {"a": "x"}, "WorkloadMetricMap": {"a": "x"}}"#;
    assert!(refusal(both, 1).contains("count twice"));
    // Two metrics under one name are fine if labels tell them apart.
    let apart = r#"{"MetricMap": {"a": "x", "b": "x"}, "MetricLabels": {"a": {"of": "a"}}}"#;
    assert_eq!(page(two, apart, 1).unwrap(), "x{of=\"a\"} 0\nx{} 0\n");
}
