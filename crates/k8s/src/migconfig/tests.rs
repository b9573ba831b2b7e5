//! Layouts and answers as clusters have them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mirage_model::catalogue::board;
use proptest::prelude::*;

use super::*;
use crate::allocate::Place;

const LISTED: &str = "\
version: v1
mig-configs:
  selected:
  - devices: [0]
    mig-enabled: true
    mig-devices:
    - { name: 2g.10gb, position: 0, size: 2 }
    - { name: 1g.5gb, position: 4, size: 1 }
    - { name: 1g.5gb, position: 6, size: 1 }
  - devices: [1]
    mig-enabled: false
";

const KEYED: &str = "\
version: v1
mig-configs:
  selected:
  - devices: [0]
    mig-enabled: true
    mig-devices:
      0: 2g.10gb
      4: 1g.5gb
      6: 1g.5gb
  - devices: [\"1\"]
    mig-enabled: false
";

#[test]
fn both_generations_of_the_document_say_the_same() {
    let layout = read(LISTED).unwrap();
    assert_eq!(layout, read(KEYED).unwrap());
    let devices = layout
        .of(0)
        .unwrap()
        .place(&board("a100-sxm4-40gb").unwrap())
        .unwrap();
    let seen: Vec<(&str, u32, u32)> = devices
        .iter()
        .map(|device| (&*device.profile, device.start, device.instance))
        .collect();
    // As a real node with this layout has them.
    assert_eq!(
        seen,
        [("2g.10gb", 0, 3), ("1g.5gb", 4, 11), ("1g.5gb", 6, 13)]
    );
    assert!(!layout.of(1).unwrap().enabled);
    assert!(layout.of(2).is_none());
}

#[test]
fn mig_parteds_counts_are_placed_as_the_driver_places_them() {
    let layout = read(
        "version: v1\nmig-configs:\n  mine:\n  - devices: all\n    mig-enabled: true\n    \
         mig-devices: { 3g.20gb: 1, 1g.5gb: 2 }\n",
    )
    .unwrap();
    let devices = layout
        .of(5)
        .unwrap()
        .place(&board("a100-sxm4-40gb").unwrap())
        .unwrap();
    assert_eq!(devices.len(), 3);
    assert_eq!(devices[0].start, 4);
}

#[test]
fn names_mean_what_mig_parted_has_for_the_board() {
    for (model, name, profiles) in [
        ("a100-sxm4-40gb", "all-1g.5gb", vec![("1g.5gb", 7)]),
        ("a100-sxm4-40gb", "all-2g.10gb", vec![("2g.10gb", 3)]),
        ("a100-sxm4-40gb", "all-3g.20gb", vec![("3g.20gb", 2)]),
        ("a100-sxm4-40gb", "all-7g.40gb", vec![("7g.40gb", 1)]),
        ("a100-sxm4-40gb", "all-1g.5gb.me", vec![("1g.5gb+me", 1)]),
        (
            "a100-sxm4-40gb",
            "all-balanced",
            vec![("1g.5gb", 2), ("2g.10gb", 1), ("3g.20gb", 1)],
        ),
        (
            "h100-sxm5-80gb",
            "all-balanced",
            vec![("1g.10gb", 2), ("2g.20gb", 1), ("3g.40gb", 1)],
        ),
        ("a30", "all-balanced", vec![("1g.6gb", 2), ("2g.12gb", 1)]),
        ("a100-sxm4-40gb", "all-enabled", vec![]),
        ("t4", "all-disabled", vec![]),
    ] {
        let board = board(model).unwrap();
        let devices = named(name, &board)
            .unwrap()
            .of(0)
            .unwrap()
            .place(&board)
            .unwrap();
        let mut seen = BTreeMap::new();
        for device in &devices {
            *seen.entry(&*device.profile).or_insert(0) += 1;
        }
        assert_eq!(seen, profiles.into_iter().collect(), "{model} {name}");
    }
}

#[test]
fn what_a_board_cannot_do_is_refused_with_the_reason() {
    let a100 = board("a100-sxm4-40gb").unwrap();
    let t4 = board("t4").unwrap();
    for (error, words) in [
        (
            named("all-1g.10gbx", &a100).unwrap_err(),
            "no profile `1g.10gbx`",
        ),
        (named("some", &a100).unwrap_err(), "no layout `some`"),
        (named("all-1g.5gb", &t4).unwrap_err(), "cannot do MIG"),
        (
            read(LISTED).unwrap().of(0).unwrap().place(&t4).unwrap_err(),
            "cannot do MIG",
        ),
        (
            read(&LISTED.replace("position: 4", "position: 1"))
                .unwrap()
                .of(0)
                .unwrap()
                .place(&a100)
                .unwrap_err(),
            "`1g.5gb` cannot begin at slice 1",
        ),
        (
            read("a: 1").unwrap_err(),
            "line 1, column 1: there is no `mig-configs`",
        ),
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_mapping_names_devices_by_position() {
    let a100 = board("a100-sxm4-40gb").unwrap();
    let devices = read(LISTED).unwrap().of(0).unwrap().place(&a100).unwrap();
    let gpu = "GPU-91350851-5c96-531a-ad25-0034a5bf120f";
    // Named at once, known by id once the mapping is there.
    let unnamed = topology(&devices, None);
    assert!(unnamed.iter().all(|device| device.id.is_none()));
    let mut mapping = Mapping::default();
    mapping.add(0, gpu, &devices, Ids::Instance);
    let read = Mapping::read(&mapping.write()).unwrap();
    assert_eq!(read, mapping);
    let named = topology(&devices, read.0.get(&0).map(Vec::as_slice));
    assert_eq!(named[1].id, Some(devices[1].uuid(gpu)));
    assert_eq!((&*named[1].name, named[1].position), ("1g.5gb", Some(4)));
    let mut profiles = Mapping::default();
    profiles.add(0, gpu, &devices, Ids::Profile);
    let ids: Vec<_> = profiles.0[&0]
        .iter()
        .map(|device| device.instance)
        .collect();
    assert_eq!(ids, [Some(14), Some(19), Some(19)]);
}

#[test]
fn the_older_mapping_is_read_too() {
    // `{"0": {"0": "MIG-298ef8da-…", "4": …, "6": …}}`, with line breaks, as a real node had it.
    let text = "ewogICIwIjogewogICAgIjAiOiAiTUlHLTI5OGVmOGRhLWUzNWYtNTYyNC1hOTM1LTFlYjU1ZmM1OGQwZiIsCiAgICAiNCI6ICJN\
                SUctZGI3ZDViNTMtMTYzMy01NjllLWE0ZWMtNDAxYzVkN2U0YTRkIiwKICAgICI2IjogIk1JRy1hNzA5NmU5Yi1jNTc3LTVhMTkt\
                YjUzMC1hNjliYzI2YWViZTUiCiAgfQp9";
    let mapping = Mapping::read(text).unwrap();
    let positions: Vec<u32> = mapping.0[&0].iter().map(|device| device.position).collect();
    assert_eq!(positions, [0, 4, 6]);
    assert_eq!(
        mapping.0[&0][0].uuid,
        "MIG-298ef8da-e35f-5624-a935-1eb55fc58d0f"
    );
}

#[test]
fn a_pod_names_its_device() {
    let text = r#"{"name":"nvidia.com/mig-7g.40gb","position":0,"gpuamount":7,
        "deviceUUID":"MIG-6d9be9db-d376-5991-8c4c-18ab448933ff","gpuinstanceid":0,"gpuindex":"3","gputype":"A100-40GB"}"#;
    let place = Place {
        gpu: 3,
        start: Some(0),
    };
    assert_eq!(pin(text).unwrap(), place);
    assert!(pin("{}").unwrap_err().to_string().contains("gpuindex"));
    assert!(pin("7g").is_err());
}

proptest! {
    #[test]
    fn hostile_text_is_refused_or_read(text in "[-{}\\[\\]:, a-z0-9\"'\n&*!|>=]{0,80}") {
        let _ = read(&text);
        let _ = Mapping::read(&text);
        let _ = pin(&text);
        let _ = named(&text, &board("a100-sxm4-40gb").unwrap());
    }
}

#[test]
fn a_file_of_layouts_is_picked_from_by_name_and_board() {
    let text = r#"
version: v1
mig-configs:
  halves:
    - devices: all
      mig-enabled: true
      mig-devices: { "3g.20gb": 2 }
  by-board:
    - { device-filter: ["0x20B010DE"], devices: all, mig-enabled: true, mig-devices: { "1g.5gb": 7 } }
    - { device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: { "1g.10gb": 7 } }
"#;
    let halves = pick(text, "halves", 0).unwrap().unwrap();
    assert_eq!(halves.all.unwrap().devices.len(), 2);
    let small = pick(text, "by-board", 0x20B0_10DE).unwrap().unwrap();
    assert_eq!(small.all.unwrap().devices[0].profile, "1g.5gb");
    let large = pick(text, "by-board", 0x2330_10DE).unwrap().unwrap();
    assert_eq!(large.all.unwrap().devices[0].profile, "1g.10gb");
    assert_eq!(
        pick(text, "by-board", 1).unwrap().unwrap(),
        Layout::default()
    );
    assert!(pick(text, "absent", 0).unwrap().is_none());
    assert!(pick("a: [", "absent", 0).is_err());
}
