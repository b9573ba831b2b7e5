use super::*;

const TYPE: &[u8] = br#"{
    "devicelabels": {"pciid": "0x4905"},
    "MetricLimits": {
        "frequency": {"Min": 300, "Max": 1650},
        "usage": {"min": 0, "max": 1, "Scope": "subdevice"}
    },
    "SubDevices": 2,
    "Capability": 96
}"#;
const LIST: &[u8] = br#"{
    "DeviceLabels": [{"file": "card0"}, {"file": "card1"}, {"file": "card2"}],
    "Links": [[0, 1], [1, 0], [1, 2]]
}"#;

fn refusal(kind: &str) -> String {
    DeviceType::parse(kind.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_device_has_a_reading_per_metric_and_sub_device() {
    let fleet = Fleet::new(DeviceType::parse(TYPE).unwrap(), LIST, 2).unwrap();
    assert_eq!(fleet.width(), 3);
    assert_eq!(fleet.cells(fleet.metric("frequency").unwrap()), 0..1);
    assert_eq!(fleet.cells(fleet.metric("usage").unwrap()), 1..3);
    assert_eq!(fleet.metric("power"), None);
    assert_eq!(fleet.devices[1].labels["pciid"], "0x4905");
    assert_eq!(fleet.devices[1].peers, [0], "card2 is not simulated");
}

#[test]
fn devices_are_found_by_file_sub_device_and_index() {
    let fleet = Fleet::new(DeviceType::parse(TYPE).unwrap(), LIST, 2).unwrap();
    let target = |device, part| Some(Target { device, part });
    assert_eq!(fleet.find("card1"), target(1, None));
    assert_eq!(fleet.find("card1.1"), target(1, Some(1)));
    assert_eq!(fleet.find("card1.2"), None);
    assert_eq!(fleet.find("card2"), None);
    assert_eq!(fleet.find_index(1), target(1, None));
    assert_eq!(fleet.find_index(2), None);

    let kind = DeviceType::parse(br#"{"IndexRegexp": "renderD([0-9]+)"}"#).unwrap();
    let list = br#"{"DeviceLabels": [{"file": "renderD128"}, {"file": "renderD129"}]}"#;
    let fleet = Fleet::new(kind, list, 2).unwrap();
    assert_eq!(fleet.find_index(129), target(1, None));
}

#[test]
fn speed_is_measured_against_the_workload_s_own_device() {
    let fleet = Fleet::new(DeviceType::parse(TYPE).unwrap(), LIST, 1).unwrap();
    assert_eq!(fleet.speed(None, None), Ok(1.0));
    assert_eq!(fleet.speed(Some(825.0), Some(48.0)), Ok(4.0));
    let fleet = Fleet::new(DeviceType::parse(b"{}").unwrap(), LIST, 1).unwrap();
    assert!(fleet.speed(None, Some(1.0)).is_err());
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    assert_eq!(
        refusal(r#"{"MetricLimits": {"power": {"Min": 3, "Max": 1}}}"#),
        "MetricLimits.power.Max: 1 does not lie above Min 3"
    );
    assert!(refusal(r#"{"MetricLimits": {"p": {"Min": -1e308, "Max": 1e308}}}"#).contains("Max"));
    assert!(refusal(r#"{"MetricLimits": {"p": {"Scope": "tile"}}}"#).contains("subdevice"));
    assert!(refusal(r#"{"SubDevices": 99999}"#).contains("SubDevices"));
    assert!(refusal(r#"{"Capability": 0}"#).contains("above 0"));
    assert!(refusal(r#"{"IndexRegexp": "("}"#).contains("IndexRegexp"));
    assert!(refusal(r#"{"MetricDimensions": {"p": {}}}"#).contains("no such metric"));
    let list = |text: &str| {
        let kind = DeviceType::parse(b"{}").unwrap();
        Fleet::new(kind, text.as_bytes(), 2)
            .unwrap_err()
            .to_string()
    };
    assert!(list(r#"{"DeviceLabels": [{"file": "a"}]}"#).contains("1 < 2"));
    assert!(list(r#"{"DeviceLabels": [{"file": "a"}, {"addr": "b"}]}"#).contains("\"file\""));
    assert!(list(r#"{"DeviceLabels": [{"file": "a"}, {"file": "a"}]}"#).contains("earlier"));
    assert!(
        list(r#"{"DeviceLabels": [{"file": "a"}, {"file": "b"}], "Links": [[1, 1]]}"#)
            .contains("Links[0]")
    );
}
