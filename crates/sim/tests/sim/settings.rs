//! Setters keep to the board's limits, and say which.

use mirage_model::plan::Fault;
use mirage_sim::{Answer, Change, EccScope, Input, Refusal, Setting, World};

use crate::fleet::*;

fn set(world: &mut World, setting: Setting) -> Result<Answer, Refusal> {
    world.ask(Input::Set {
        device: device(0),
        setting,
    })
}

#[test]
fn the_power_limit_has_limits() {
    let mut world = world("a100-sxm4-40gb", 1);
    for (given, fits) in [
        (99_999, false),
        (100_000, true),
        (400_000, true),
        (400_001, false),
    ] {
        let answer = set(&mut world, Setting::PowerLimit(Some(given)));
        assert_eq!(answer.is_ok(), fits, "{given}");
    }
    let error = set(&mut world, Setting::PowerLimit(Some(1))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "power limit in mW on node-a/0: 1 is outside 100000 to 400000"
    );
    assert_eq!(
        world.readings().power_limit_mw,
        400_000,
        "a refused input changes nothing"
    );
    set(&mut world, Setting::PowerLimit(Some(250_000))).unwrap();
    set(&mut world, Setting::PowerLimit(None)).unwrap();
    assert_eq!(world.readings().power_limit_mw, 400_000);
}

#[test]
fn clocks_below_the_idle_clock_may_be_asked_for() {
    let mut world = world("h100-sxm5-80gb", 1);
    world.run(1);
    assert_eq!(world.readings().sm_mhz, 345);
    set(&mut world, Setting::ApplicationClocks(Some((2619, 225)))).unwrap();
    assert_eq!(world.readings().app_sm_mhz, 225);
    set(&mut world, Setting::ApplicationClocks(None)).unwrap();
    set(&mut world, Setting::LockedClocks(Some((240, 240)))).unwrap();
    world.run(2);
    assert_eq!(world.readings().sm_mhz, 240);
    let beyond = set(&mut world, Setting::ApplicationClocks(Some((2619, 195))));
    assert!(matches!(beyond, Err(Refusal::OutOfRange { .. })));
}

#[test]
fn locked_clocks_are_cut_to_what_the_board_has() {
    let mut world = world("a100-sxm4-40gb", 1);
    set(&mut world, Setting::LockedClocks(Some((0, 99_999)))).unwrap();
    let r = world.readings();
    assert_eq!((r.lock_sm_min_mhz, r.lock_sm_max_mhz), (210, 1410));
    set(&mut world, Setting::LockedClocks(Some((1000, 1000)))).unwrap();
    world.run(2);
    assert_eq!(
        world.readings().sm_mhz,
        1000,
        "a locked board does not idle lower"
    );
    let crossed = set(&mut world, Setting::LockedClocks(Some((900, 800))));
    assert!(matches!(crossed, Err(Refusal::Invalid { .. })));
    let beyond = set(&mut world, Setting::LockedClocks(Some((5000, 6000))));
    assert!(matches!(beyond, Err(Refusal::OutOfRange { .. })));
    set(&mut world, Setting::LockedMemoryClocks(Some((1215, 1215)))).unwrap();
    assert_eq!(world.readings().lock_mem_max_mhz, 1215);
}

#[test]
fn ecc_changes_with_the_next_reset() {
    let mut world = world("a100-sxm4-40gb", 1);
    assert!(world.readings().ecc);
    assert_eq!(
        set(&mut world, Setting::EccMode(false)),
        Ok(Answer::AfterReset)
    );
    let r = world.readings();
    assert!(r.ecc && !r.ecc_pending);
    world.start(steady("job", 10.0));
    let reset = Input::Reset { device: device(0) };
    assert!(matches!(
        world.ask(reset.clone()),
        Err(Refusal::InUse { .. })
    ));
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    world.ask(reset).unwrap();
    assert!(!world.readings().ecc);
}

#[test]
fn ecc_counters_are_cleared_by_scope() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.strike(Fault::Ecc {
        uncorrected: false,
        sram: false,
        count: 5,
    });
    set(&mut world, Setting::EccClear(EccScope::Volatile)).unwrap();
    assert_eq!(world.readings().ecc_volatile.corrected_dram, 0);
    assert_eq!(world.readings().ecc_aggregate.corrected_dram, 5);
    set(&mut world, Setting::EccClear(EccScope::Aggregate)).unwrap();
    assert_eq!(world.readings().ecc_aggregate.corrected_dram, 0);
}

#[test]
fn what_a_board_lacks_is_not_supported() {
    let mut world = world("a100-sxm4-40gb", 1);
    for setting in [
        Setting::FanSpeed {
            fan: 0,
            percent: 50,
        },
        Setting::FanDefault { fan: 0 },
        Setting::DriverModel(1),
    ] {
        let answer = set(&mut world, setting);
        assert!(
            matches!(answer, Err(Refusal::NotSupported { .. })),
            "{setting:?}"
        );
    }
    assert!(matches!(
        set(&mut world, Setting::ComputeMode(1)),
        Err(Refusal::Invalid { .. })
    ));
    for factor in [f64::NAN, 0.0, -1.0, 1e9] {
        let answer = set(&mut world, Setting::Cooling(factor));
        assert!(
            matches!(answer, Err(Refusal::OutOfRange { .. })),
            "{factor}"
        );
    }
}

#[test]
fn fans_obey_on_boards_that_have_them() {
    let mut fanned = (*board("l4")).clone();
    fanned.fans = 1;
    let mut world = World::new(&plan_of(fanned.into(), 1));
    world.start(steady("job", 100.0));
    world.run(300);
    let auto = world.readings().fan_percent;
    assert!(auto > 30, "{auto}");
    set(
        &mut world,
        Setting::FanSpeed {
            fan: 0,
            percent: 90,
        },
    )
    .unwrap();
    world.run(1);
    assert_eq!(
        (world.readings().fan_percent, world.readings().fan_manual),
        (90, true)
    );
    let answer = set(
        &mut world,
        Setting::FanSpeed {
            fan: 1,
            percent: 50,
        },
    );
    assert!(matches!(answer, Err(Refusal::OutOfRange { .. })));
    set(&mut world, Setting::FanDefault { fan: 0 }).unwrap();
    world.run(1);
    assert_eq!(world.readings().fan_percent, auto);
}

#[test]
fn modes_are_switched_and_shown() {
    let mut world = world("a100-sxm4-40gb", 1);
    set(&mut world, Setting::Persistence(false)).unwrap();
    set(&mut world, Setting::Accounting(true)).unwrap();
    set(&mut world, Setting::ComputeMode(2)).unwrap();
    let r = world.readings();
    assert_eq!(
        (r.persistence, r.accounting, r.compute_mode),
        (false, true, 2)
    );
}

#[test]
fn a_lost_device_takes_no_orders() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.strike(Fault::Lost);
    let answer = set(&mut world, Setting::Persistence(true));
    assert!(matches!(answer, Err(Refusal::Lost { .. })));
    let answer = world.ask(Input::Reset { device: device(0) });
    assert!(matches!(answer, Err(Refusal::Lost { .. })));
    let nowhere = mirage_model::plan::DeviceRef {
        node: 9,
        ..device(0)
    };
    let answer = world.ask(Input::Reset { device: nowhere });
    assert!(matches!(answer, Err(Refusal::NoSuchDevice { .. })));
}

#[test]
fn workload_profiles_are_asked_for_arbitrated_and_felt() {
    const MAX_P: u32 = 1;
    const MAX_Q: u32 = 1 << 1;
    const HPC: u32 = 1 << 13;
    let mut world = world("b200-sxm6-180gb", 1);
    world.start(steady("burn", 100.0));
    world.run(5);
    let free = world.readings().clone();
    let mut ask = |change, mask| {
        set(&mut world, Setting::WorkloadProfiles(change, mask))?;
        world.run(3);
        Ok::<_, Refusal>(world.readings().clone())
    };
    let r = ask(Change::Add, MAX_Q | HPC).unwrap();
    assert_eq!(
        (r.profiles_requested, r.profiles_enforced),
        (MAX_Q | HPC, MAX_Q | HPC)
    );
    assert!(r.sm_mhz < free.sm_mhz && r.power_mw < free.power_mw);
    let r = ask(Change::Add, MAX_P).unwrap();
    assert_eq!(r.profiles_requested, MAX_P | MAX_Q | HPC);
    assert_eq!(r.profiles_enforced, MAX_P | HPC, "the more urgent one wins");
    let r = ask(Change::Remove, MAX_P | HPC).unwrap();
    assert_eq!((r.profiles_requested, r.profiles_enforced), (MAX_Q, MAX_Q));
    let refused = ask(Change::Add, 1 << 4).unwrap_err().to_string();
    assert!(refused.contains("another than max-p, max-q"), "{refused}");
    let r = ask(Change::Replace, 0).unwrap();
    assert_eq!((r.profiles_requested, r.sm_mhz), (0, free.sm_mhz));
    let older = set(
        &mut crate::fleet::world("h100-sxm5-80gb", 1),
        Setting::WorkloadProfiles(Change::Replace, 0),
    );
    assert!(matches!(older, Err(Refusal::NotSupported { .. })));
}

#[test]
fn without_auto_boost_the_application_clock_is_the_highest() {
    let mut world = world("tesla-k80", 1);
    world.start(steady("burn", 100.0));
    world.run(5);
    let b = board("tesla-k80");
    assert_eq!(u32::from(world.readings().sm_mhz), b.clocks.sm_max_mhz);
    set(&mut world, Setting::AutoBoost(false)).unwrap();
    world.run(2);
    assert_eq!(u32::from(world.readings().sm_mhz), b.clocks.sm_default_mhz);
    assert!(
        world.readings().auto_boost_default,
        "a reset brings it back"
    );
    let newer = set(&mut crate::fleet::world("t4", 1), Setting::AutoBoost(false));
    assert!(matches!(newer, Err(Refusal::NotSupported { .. })));
}
