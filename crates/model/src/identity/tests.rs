//! The published UUID vector, and uniqueness at fleet size.

use std::collections::HashSet;

use super::*;
use crate::catalogue;

fn board(key: &str) -> std::sync::Arc<Board> {
    catalogue::board(key).expect("the key is in the catalogue")
}

#[test]
fn the_published_uuid_vector() {
    let id = Identity::of("tim-gpu-sim1", 0, 8, &board("a100-sxm4-40gb"), None);
    assert_eq!(id.uuid, "GPU-cc0557e3-8fbd-51f0-b7d3-7a548c581d7f");
}

#[test]
fn what_the_config_gives_wins() {
    let given = GivenGpu {
        uuid: Some("GPU-mine".into()),
        serial: Some("42".into()),
        mig: None,
    };
    let id = Identity::of("node-a", 1, 2, &board("t4"), Some(&given));
    assert_eq!((id.uuid.as_str(), id.serial.as_str()), ("GPU-mine", "42"));
    let other = Identity::of("node-a", 1, 2, &board("t4"), Some(&GivenGpu::default()));
    assert_eq!(other, Identity::of("node-a", 1, 2, &board("t4"), None));
}

#[test]
fn a_fleet_has_no_twins() {
    let board = board("h100-sxm5-80gb");
    let (mut uuids, mut serials) = (HashSet::new(), HashSet::new());
    for node in 0..2_000 {
        let name = format!("node-{node}");
        for index in 0..8 {
            let id = Identity::of(&name, index, 8, &board, None);
            assert_eq!(id.serial.len(), 13);
            assert!(id.serial.bytes().all(|b| b.is_ascii_digit()));
            assert!(uuids.insert(id.uuid), "{name}/{index}");
            assert!(serials.insert(id.serial), "{name}/{index}");
        }
    }
}

#[test]
fn addresses_are_unique_on_any_node() {
    for key in catalogue::keys() {
        let board = board(key);
        let mut seen = HashSet::new();
        for index in 0..1_000 {
            let id = Identity::of("node", index, 1_000, &board, None);
            assert!(seen.insert(id.pci), "{key}/{index}: {}", id.pci);
            assert_eq!(id.minor, index);
        }
    }
}

#[test]
fn addresses_read_as_real_ones() {
    let pci = |key, index| Identity::of("n", index, 8, &board(key), None).pci;
    let a100 = pci("a100-sxm4-40gb", 0);
    assert_eq!(a100.to_string(), "00000000:07:00.0");
    assert_eq!(a100.legacy(), "0000:07:00.0");
    assert_eq!(pci("h100-sxm5-80gb", 7).sysfs(), "0000:df:00.0");
    // The ninth GPU of a host built for eight stays in domain 0.
    assert_eq!(pci("a100-sxm4-40gb", 8).to_string(), "00000000:02:00.0");
    let gb300: Vec<String> = (0..5).map(|i| pci("gb300", i).to_string()).collect();
    assert_eq!(
        gb300,
        [
            "00000008:06:00.0",
            "00000009:06:00.0",
            "00000018:06:00.0",
            "00000019:06:00.0",
            "00000028:06:00.0"
        ]
    );
}

#[test]
fn sockets_split_the_node_in_half() {
    let numa = |index, count| Identity::of("n", index, count, &board("t4"), None).numa;
    assert_eq!((0..8).map(|i| numa(i, 8)).sum::<i32>(), 4);
    assert_eq!((numa(3, 8), numa(4, 8)), (0, 1));
    assert_eq!(numa(0, 1), 0);
    assert_eq!((numa(1, 3), numa(2, 3)), (0, 1));
}

#[test]
fn superchips_share_serials_and_k80s_their_board() {
    let id = |key, index| Identity::of("n", index, 4, &board(key), None);
    for key in ["gb200", "gb300", "tesla-k80"] {
        assert_eq!(id(key, 0).serial, id(key, 1).serial, "{key}");
        assert_ne!(id(key, 1).serial, id(key, 2).serial, "{key}");
        assert_ne!(id(key, 0).uuid, id(key, 1).uuid, "{key}");
    }
    assert_eq!(id("tesla-k80", 0).board_id, id("tesla-k80", 1).board_id);
    assert_eq!(id("gb300", 0).board_id, 0x80600);
    assert_eq!(id("b200-sxm6-180gb", 0).board_id, 0x1b00);
    assert_eq!(id("l4", 3).module_id, 1);
    assert_eq!(id("gb200", 3).module_id, 4);
}

#[test]
fn no_board_sits_on_two_sockets() {
    for key in ["tesla-k80", "gb200"] {
        for count in 1..=16 {
            let id = |index| Identity::of("n", index, count, &board(key), None);
            for (one, other) in (1..count).map(|index| (id(index - 1), id(index))) {
                assert!(
                    one.serial != other.serial || one.numa == other.numa,
                    "{key}"
                );
            }
        }
        let numa = |index, count| Identity::of("n", index, count, &board(key), None).numa;
        assert_eq!((numa(1, 2), numa(1, 4), numa(2, 4)), (0, 0, 1));
    }
}

#[test]
fn instances_have_stable_ids_of_their_own() {
    let gpu = "GPU-cc0557e3-8fbd-51f0-b7d3-7a548c581d7f";
    let id = instance_uuid(gpu, 7, 0);
    assert_eq!(id, instance_uuid(gpu, 7, 0));
    assert!(id.starts_with("MIG-") && id.len() == 40);
    let all: HashSet<String> = (0..15)
        .flat_map(|gi| (0..8).map(move |ci| instance_uuid(gpu, gi, ci)))
        .collect();
    assert_eq!(all.len(), 15 * 8);
}
