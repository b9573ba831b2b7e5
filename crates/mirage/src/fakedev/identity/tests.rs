use crate::fakedev::device::DeviceType;

use super::*;

fn fleet() -> Fleet {
    let kind = br#"{"DeviceLabels": {"pciid": "0x4905"},
                    "MetricLimits": {"power": {"Max": 35}, "clock": {"Max": 9}}}"#;
    let list = br#"{"DeviceLabels": [{"file": "card0", "addr": "03:00.0"}]}"#;
    Fleet::new(DeviceType::parse(kind).unwrap(), list, 1).unwrap()
}

#[test]
fn an_empty_name_keeps_the_internal_one() {
    let identity =
        Identity::parse(br#"{"MetricMap": {"power": ""}, "DeviceLabelMap": {"file": ""}}"#)
            .unwrap();
    assert_eq!(identity.metric("power"), Some("power"));
    assert_eq!(identity.device_label("file"), Some("file"));
    assert_eq!(identity.metric("clock"), None);
}

#[test]
fn renamed_labels_are_no_gap_and_missing_ones_are() {
    let identity = Identity::parse(
        br#"{"MetricMap": {"power": "watts", "clock": "mhz"},
             "DeviceLabelMap": {"pciid": "pci_dev", "addr": "pci_bdf", "file": "dev_file"}}"#,
    )
    .unwrap();
    assert_eq!(identity.gaps(&fleet()), Vec::<String>::new());
    let identity = Identity::parse(
        br#"{"MetricMap": {"power": "watts", "fan": "rpm"},
             "DeviceLabelMap": {"pciid": "pci_dev", "file": "dev_file", "uuid": "uuid"}}"#,
    )
    .unwrap();
    assert_eq!(
        identity.gaps(&fleet()),
        [
            "device \"card0\" has no label for identity mapping \"uuid\"",
            "no device metric for identity mapping \"fan\"",
            "no identity mapping for device label \"addr\"",
            "no identity mapping for metric \"clock\"",
        ]
    );
}

#[test]
fn metrics_are_known_by_both_names() {
    let identity = Identity::parse(br#"{"MetricMap": {"power": "watts"}}"#).unwrap();
    assert_eq!(identity.internal_metric("watts"), Some("power"));
    assert_eq!(identity.internal_metric("power"), None);
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let refusal = |text: &str| Identity::parse(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        refusal(r#"{"MetricLabels": {"power": {"a": "b"}}}"#),
        "MetricLabels.power: labels for a metric that MetricMap does not have"
    );
    assert!(refusal(r#"{"MetricMap": {"power": "1watt"}}"#).contains("MetricMap.power"));
    assert!(refusal(r#"{"MetricMap": {"power": "a b"}}"#).contains("cannot be shown"));
    assert!(refusal(r#"{"DeviceLabelMap": {"file": "a:b"}}"#).contains("DeviceLabelMap.file"));
    assert!(
        refusal(r#"{"MetricMap": {"p": "p"}, "MetricLabels": {"p": {"a\"": "b"}}}"#)
            .contains("no label name")
    );
}
