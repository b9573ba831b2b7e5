//! Every row is read, and the reactions are those of the software that has them.

use super::*;

#[test]
fn every_row_is_read_once() {
    assert_eq!(all().len(), table::rows().count());
    assert!(all().windows(2).all(|w| w[0].number < w[1].number));
    assert_eq!(all().len(), 57);
}

#[test]
fn the_device_plugin_ignores_six() {
    let ignored: Vec<u32> = all()
        .iter()
        .filter(|x| x.ignored_by_plugin)
        .map(|x| x.number)
        .collect();
    assert_eq!(ignored, [13, 31, 43, 45, 68, 109]);
}

#[test]
fn falling_off_the_bus() {
    let x = xid(79).expect("79 is in the table");
    assert_eq!(x.mnemonic, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS");
    assert_eq!(x.class, Class::Bus);
    assert_eq!(x.extra_events, 0x4000);
    assert_eq!(x.recovery, Recovery::NodeReboot);
    assert_eq!(x.effects, [Effect::Lost, Effect::Follow(154)]);
    let health = x.health.expect("DCGM watches 79");
    assert!(health.fails);
    assert_eq!((health.code, health.watch), (120, Watch::All));
}

#[test]
fn dcgm_files_some_under_odd_watches() {
    let watch = |n| xid(n).and_then(|x| x.health).map(|h| (h.watch, h.fails));
    assert_eq!(watch(62), Some((Watch::Thermal, false)));
    assert_eq!(watch(38), Some((Watch::Pcie, false)));
    assert_eq!(watch(48), Some((Watch::All, true)));
    assert_eq!(watch(64), Some((Watch::Memory, true)));
    assert_eq!(watch(13), None);
    assert_eq!(xid(64).and_then(|x| x.health).map(|h| h.code), Some(80));
}

#[test]
fn followers_are_in_the_table() {
    for x in all() {
        for effect in &x.effects {
            if let Effect::Follow(n) | Effect::FollowIfShared(n) | Effect::FollowIfRemapping(n) =
                effect
            {
                assert!(xid(*n).is_some(), "{} follows {}", n, x.number);
                assert_ne!(*n, x.number);
            }
        }
    }
}

#[test]
fn unknown_numbers_are_none() {
    assert!(xid(0).is_none());
    assert!(xid(7).is_none());
    assert!(xid(u32::MAX).is_none());
}
