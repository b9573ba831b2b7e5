//! Every fault: what it shows, and how it heals.

use std::time::Duration;

use mirage_model::plan::{DeviceRef, Driver, Fault, FaultPlan, When};
use mirage_model::xid;
use mirage_sim::{
    Answer, EventKind, FaultSelector, Input, Phase, Readings, Refusal, World, reasons,
};

use crate::fleet::*;

fn heal(world: &mut World) {
    world.ask(Input::Heal(FaultSelector::All)).unwrap();
    world.run(1);
}

fn schedule(when: When, heal_after: Option<Duration>, fault: Fault) -> World {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.faults.push(FaultPlan {
        devices: vec![device(0)],
        fault,
        when,
        heal_after,
    });
    World::new(&plan)
}

#[test]
fn a_lost_device_is_gone_until_it_heals() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 50.0));
    world.run(5);
    world.drain_events();
    let id = world.strike(Fault::Lost);
    let r = world.readings();
    assert!(r.lost);
    assert_eq!((r.xid, r.recovery_action), (79, 2));
    let Phase::Ended(ending) = world.workload("job").unwrap().phase().clone() else {
        panic!("the job survived");
    };
    assert_eq!(
        (&*ending.reason, ending.code),
        ("Xid 79 on node-a/0, terminated", 1)
    );
    let events = world.drain_events();
    let xid = events.iter().find(|e| e.kind == EventKind::Xid).unwrap();
    assert_eq!(xid.data, 79);
    let (head, tail) = xid.message.split_once("): 79, ").unwrap();
    assert!(head.starts_with("NVRM: Xid (PCI:0000:"), "{head}");
    assert!(tail.ends_with("GPU has fallen off the bus."), "{tail}");
    assert!(events.iter().any(|e| e.kind == EventKind::Unavailable));

    world.start(steady("next", 50.0));
    world.run(1);
    assert_eq!(world.running(), 0, "nothing starts on a lost device");
    world.ask(Input::Heal(FaultSelector::Id(id))).unwrap();
    world.run(1);
    let r = world.readings();
    assert!(!r.lost && r.power_mw > 0);
    assert_eq!(r.recovery_action, 0);
    assert!(!world.faults()[0].active);
}

#[test]
fn what_is_still_to_come_can_be_seen_and_called_off() {
    let seconds = Duration::from_secs;
    let mut world = world("a100-sxm4-40gb", 2);
    let mut inject = |when, devices: &[u32]| {
        let plan = FaultPlan {
            devices: devices.iter().map(|gpu| device(*gpu)).collect(),
            fault: Fault::Xid(31),
            when,
            heal_after: None,
        };
        world.ask(Input::Inject(plan)).unwrap();
    };
    inject(When::At(seconds(10)), &[0, 1]);
    let (period, first) = (seconds(60), seconds(20));
    inject(When::Every { period, first }, &[0]);
    inject(When::Rate(1e-6), &[0, 1]);
    let seen = |world: &World| -> Vec<(u64, usize, Duration)> {
        let pending = world.pending_faults();
        pending
            .map(|fault| (fault.id, fault.devices.len(), fault.next))
            .collect()
    };
    let all = seen(&world);
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].1, all[0].2), (2, seconds(10)));
    assert_eq!((all[1].1, all[1].2), (1, seconds(20)));
    assert_eq!(all[2].1, 2);

    world.run(30);
    let left = seen(&world);
    assert_eq!(left, [(all[1].0, 1, seconds(80)), all[2]]);
    let only = Input::Heal(FaultSelector::Devices(vec![device(0)]));
    world.ask(only).unwrap();
    let left = seen(&world);
    assert_eq!((left.len(), left[0].1), (1, 1));
    let by_id = Input::Heal(FaultSelector::Id(left[0].0));
    let answer = world.ask(by_id.clone()).unwrap();
    assert_eq!(
        answer,
        Answer::Faults {
            ids: vec![left[0].0]
        }
    );
    assert_eq!(seen(&world), []);
    assert!(matches!(world.ask(by_id), Err(Refusal::NotFound { .. })));
}

#[test]
fn drivers_that_know_recovery_actions_announce_them() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.nodes[0].driver = Driver {
        version: "570.148.08".into(),
        cuda: (12, 8),
    }
    .into();
    let mut world = World::new(&plan);
    world.strike(Fault::Lost);
    let events = world.drain_events();
    let line = &events.iter().find(|e| e.data == 154).unwrap().message;
    let said = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)";
    assert!(line.ends_with(said), "{line}");
    assert!(
        events
            .iter()
            .any(|e| e.kind == EventKind::Recovery && e.data == 2)
    );
    assert_eq!(world.readings().xid, 79, "the cause, not its announcement");
    heal(&mut world);
    assert_eq!(world.xids(), [154], "the action went back to none");
    assert_eq!(world.readings().xid, 79);
    world.strike(Fault::Xid(13));
    assert_eq!(world.xids(), [13], "nothing changed, nothing said");
}

#[test]
fn a_fault_of_the_very_first_moment_is_told() {
    let mut world = schedule(When::At(Duration::ZERO), None, Fault::Xid(79));
    assert!(world.readings().lost);
    assert_eq!(world.xids(), [79]);
}

#[test]
fn faults_strike_at_their_time_and_heal_by_themselves() {
    let minute = Duration::from_secs(60);
    let mut world = schedule(When::At(10 * minute), Some(5 * minute), Fault::Lost);
    world.step(&[], 10 * minute - SECOND);
    assert!(!world.readings().lost);
    world.run(1);
    assert!(world.readings().lost, "on time");
    assert_eq!(world.faults()[0].heals_at, Some(15 * minute));
    world.step(&[], 5 * minute - SECOND);
    assert!(world.readings().lost);
    world.run(1);
    assert!(!world.readings().lost);
    world.step(&[], 60 * minute);
    assert!(!world.readings().lost, "once is once");
}

#[test]
fn periodic_faults_strike_again_and_again() {
    let when = When::Every {
        period: Duration::from_secs(30),
        first: Duration::from_secs(10),
    };
    let mut world = schedule(when, None, Fault::Xid(13));
    world.run(9);
    assert_eq!(world.readings().xid_count, 0);
    world.run(1);
    assert_eq!(world.readings().xid_count, 1);
    world.run(90);
    assert_eq!(world.readings().xid_count, 4);
    world
        .ask(Input::Heal(FaultSelector::Devices(vec![device(0)])))
        .unwrap();
    world.run(300);
    assert_eq!(
        world.readings().xid_count,
        4,
        "healing stops the repetition"
    );
}

#[test]
fn a_period_of_nothing_does_not_hang_the_world() {
    let when = When::Every {
        period: Duration::ZERO,
        first: Duration::ZERO,
    };
    let mut world = schedule(when, None, Fault::Xid(13));
    world.run(10);
    assert!(world.readings().xid_count >= 10);
}

#[test]
fn chance_faults_come_at_their_rate_the_same_way_every_time() {
    let run = |step: Duration| {
        let mut world = schedule(When::Rate(600.0), None, Fault::Xid(13));
        while world.now() < Duration::from_secs(3_600) {
            world.step(&[], step);
        }
        world.readings().xid_count
    };
    let count = run(SECOND);
    assert!((500..700).contains(&count), "600 expected, {count} came");
    assert_eq!(count, run(Duration::from_secs(100)));
}

#[test]
fn a_rate_beyond_reason_is_bounded() {
    let mut world = schedule(When::Rate(f64::MAX), None, Fault::Xid(13));
    world.run(3);
    assert!(world.readings().xid_count > 3);
    let mut world = schedule(When::Rate(f64::NAN), None, Fault::Xid(13));
    world.run(3);
    assert_eq!(world.readings().xid_count, 0);
}

#[test]
fn an_application_error_kills_its_process_and_leaves_the_device() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("first", 20.0));
    world.start(steady("second", 20.0));
    world.run(1);
    world.strike(Fault::Xid(31));
    world.run(1);
    assert_eq!(world.xids(), [31, 45], "45 because two shared the device");
    assert!(matches!(
        world.workload("first").unwrap().phase(),
        Phase::Ended(_)
    ));
    assert_eq!(world.running(), 1);
    assert_eq!(world.readings().recovery_action, 0);
    assert!(!world.faults()[0].active, "nothing lasts");
}

#[test]
fn uncorrected_errors_count_remap_and_ask_for_a_reset() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 20.0));
    world.run(1);
    world.strike(Fault::Ecc {
        uncorrected: true,
        sram: false,
        count: 3,
    });
    let r = world.readings();
    assert_eq!(r.ecc_volatile.uncorrected_dram, 3);
    assert_eq!(r.ecc_aggregate.uncorrected_dram, 3);
    assert_eq!(r.remapped_uncorrectable, 1);
    assert!(r.remap_pending && r.reset_required);
    assert_eq!(r.recovery_action, 1);
    let events = world.drain_events();
    let xids: Vec<u64> = events
        .iter()
        .filter(|e| e.kind == EventKind::Xid)
        .map(|e| e.data)
        .collect();
    assert_eq!(xids, [48, 63, 94]);
    assert!(events.iter().any(|e| e.kind == EventKind::EccDouble));
    assert_eq!(world.running(), 0);

    world.ask(Input::Reset { device: device(0) }).unwrap();
    let r = world.readings();
    assert_eq!(r.ecc_volatile.uncorrected_dram, 0);
    assert_eq!(r.ecc_aggregate.uncorrected_dram, 3, "the aggregate stays");
    assert_eq!(r.remapped_uncorrectable, 1);
    assert!(!r.remap_pending && !r.reset_required);
    assert_eq!(r.recovery_action, 0);
}

#[test]
fn corrected_and_sram_errors_are_counted_in_their_place() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.strike(Fault::Ecc {
        uncorrected: false,
        sram: true,
        count: 2,
    });
    world.strike(Fault::Ecc {
        uncorrected: true,
        sram: true,
        count: 1,
    });
    let r = world.readings();
    assert_eq!(r.ecc_volatile.corrected_sram, 2);
    assert_eq!(r.ecc_volatile.uncorrected_sram, 1);
    assert_eq!(r.ecc_volatile.uncorrected_dram, 0);
    assert_eq!(r.remapped_uncorrectable, 0, "SRAM has no spare rows");
    let events = world.drain_events();
    assert!(
        events
            .iter()
            .any(|e| e.kind == EventKind::EccSingle && e.data == 2)
    );
}

#[test]
fn older_boards_retire_pages_instead() {
    let mut world = world("t4", 1);
    world.strike(Fault::RowRemap {
        uncorrectable: false,
        failed: false,
    });
    world.strike(Fault::RowRemap {
        uncorrectable: true,
        failed: false,
    });
    let r = world.readings();
    assert_eq!((r.retired_single, r.retired_double), (1, 1));
    assert!(r.retire_pending && !r.remap_pending);
    assert_eq!(r.remapped_uncorrectable, 0);
}

#[test]
fn rows_are_remapped_and_remapping_can_fail() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.strike(Fault::RowRemap {
        uncorrectable: false,
        failed: false,
    });
    let r = world.readings();
    assert_eq!((r.remapped_correctable, r.xid), (1, 63));
    assert!(r.remap_pending && !r.remap_failed);
    world.strike(Fault::RowRemap {
        uncorrectable: true,
        failed: true,
    });
    let r = world.readings();
    assert!(r.remap_failed);
    assert_eq!(r.recovery_action, 1);
    assert!(world.xids().contains(&64));
}

#[test]
fn a_failed_remap_outlasts_a_reset_but_not_its_healing() {
    let failed = Fault::RowRemap {
        uncorrectable: true,
        failed: true,
    };
    for fault in [failed, Fault::Xid(64), Fault::Xid(161)] {
        let shows = |world: &World| world.readings().remap_failed;
        let mut world = world("h100-sxm5-80gb", 2);
        world.strike(fault.clone());
        assert!(shows(&world), "{fault:?}");
        heal(&mut world);
        assert!(!shows(&world), "{fault:?}");

        // The driver forgets at a reset what it asked for; the board stays as it is.
        world.strike(fault.clone());
        let device = device(0);
        world.ask(Input::Reset { device }).unwrap();
        assert!(shows(&world), "{fault:?}");
        assert!(!world.readings().reset_required);
        let heal = Input::Heal(FaultSelector::Devices(vec![device]));
        world.ask(heal).unwrap();
        assert!(!shows(&world), "{fault:?}");

        // By itself, too, and while another says the same it stays.
        let for_a_while = FaultPlan {
            heal_after: Some(Duration::from_secs(5)),
            ..now(fault.clone())
        };
        world.ask(Input::Inject(for_a_while)).unwrap();
        let other = if fault == Fault::Xid(64) { 161 } else { 64 };
        world.strike(Fault::Xid(other));
        world.run(6);
        assert!(shows(&world), "{fault:?}");
        world.ask(Input::Heal(FaultSelector::All)).unwrap();
        assert!(!shows(&world), "{fault:?}");
    }
}

#[test]
fn a_fleet_that_is_struck_at_once_tells_of_every_gpu() {
    let mut plan = plan("t4", 100);
    let node = plan.nodes[0].clone();
    let named = |n| mirage_model::plan::NodePlan {
        name: format!("n-{n}").into(),
        ..node.clone()
    };
    plan.nodes = (0..20).map(named).collect();
    let on = |node| {
        (0..100).map(move |gpu| DeviceRef {
            node,
            gpu,
            instance: None,
        })
    };
    let devices: Vec<_> = (0..20).flat_map(on).collect();
    let mut world = World::new(&plan);
    let everywhere = |fault| {
        Input::Inject(FaultPlan {
            devices: devices.clone(),
            ..now(fault)
        })
    };
    world.ask(everywhere(Fault::Xid(13))).unwrap();
    assert!(world.faults().len() <= 256, "none of them lasts");
    let events = world.drain_events();
    let told = events.iter().filter(|e| e.kind == EventKind::Xid);
    assert_eq!(told.count(), devices.len());

    world.ask(everywhere(Fault::Lost)).unwrap();
    assert_eq!(
        world.faults().iter().filter(|f| f.active).count(),
        devices.len()
    );
    let all = Input::Heal(FaultSelector::Devices(devices.clone()));
    let Ok(Answer::Faults { ids }) = world.ask(all) else {
        panic!("they heal");
    };
    assert_eq!(ids.len(), devices.len());
    let lost = |d: &&DeviceRef| world.gpu(**d).unwrap().readings().lost;
    assert_eq!(devices.iter().filter(lost).count(), 0);
    assert!(world.faults().len() <= 256);
}

#[test]
fn links_go_down_and_take_their_bandwidth() {
    let mut world = world("h100-sxm5-80gb", 2);
    let mut job = steady("job", 90.0);
    job.activity[0].interconnect = Some(fixed(60.0));
    world.start(job);
    world.run(2);
    let before = world.readings().clone();
    assert_eq!(before.nvlink_up, (1 << 18) - 1);
    world.strike(Fault::LinkDown(0x1ff));
    world.run(1);
    let r = world.readings();
    assert_eq!(r.nvlink_up, 0x3fe00);
    assert!(r.nvlink_tx_bps < before.nvlink_tx_bps * 6 / 10);
    assert!(r.nvlink_crc_errors > 0 && r.nvlink_recoveries > 0);
    assert!(world.xids().contains(&74));
    heal(&mut world);
    assert_eq!(world.readings().nvlink_up, (1 << 18) - 1);
}

#[test]
fn the_power_brake_halves_the_clock() {
    let mut world = world("h100-sxm5-80gb", 1);
    world.start(burn());
    world.run(2);
    world.strike(Fault::PowerBrake);
    world.run(5);
    let r = world.readings();
    assert_eq!(r.reasons, reasons::POWER_BRAKE | reasons::HW_SLOWDOWN);
    assert!(r.sm_mhz <= 990);
    assert!(r.violations.board_limit_ns >= 5_000_000_000);
    heal(&mut world);
    assert_eq!(world.readings().reasons, 0);
    assert_eq!(world.readings().sm_mhz, 1980);
}

#[test]
fn slow_and_failing_calls_are_told_to_the_surfaces() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.strike(Fault::SlowApi(Duration::from_millis(250)));
    world.strike(Fault::FailApi(999));
    let r = world.readings();
    assert_eq!((r.api_delay_ms, r.api_code), (250, 999));
    heal(&mut world);
    let r = world.readings();
    assert_eq!((r.api_delay_ms, r.api_code), (0, 0));
}

#[test]
fn stuck_clocks_stay_where_they_are() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 50.0));
    world.run(2);
    world.strike(Fault::Xid(62));
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    world.run(60);
    assert_eq!(world.readings().sm_mhz, 1410);
    heal(&mut world);
    world.run(2);
    assert_eq!(world.readings().sm_mhz, 210);
}

#[test]
fn stuck_clocks_name_no_limit_that_is_gone() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 100.0));
    let brake = world.strike(Fault::PowerBrake);
    world.run(2);
    assert_ne!(world.readings().reasons & reasons::POWER_BRAKE, 0);
    world.strike(Fault::Xid(62));
    world.ask(Input::Heal(FaultSelector::Id(brake))).unwrap();
    world.run(2);
    let before = world.readings().violations.board_limit_ns;
    world.run(10);
    let r = world.readings();
    assert_eq!(r.sm_mhz, 705);
    assert_eq!((r.reasons, r.violations.board_limit_ns), (0, before));
}

#[test]
fn plugin_misbehaviour_is_listed_and_touches_nothing_else() {
    let mut world = world("a100-sxm4-40gb", 1);
    let before = world.readings().clone();
    world.strike(Fault::DevicePlugin("crash".into()));
    assert_eq!(*world.readings(), before);
    assert!(world.faults()[0].active);
    heal(&mut world);
    assert!(!world.faults()[0].active);
}

#[test]
fn every_xid_of_the_table_shows_and_heals() {
    for row in xid::all() {
        let number = row.number;
        for key in ["a100-sxm4-40gb", "gb200"] {
            let mut world = world(key, 1);
            world.start(steady("job", 50.0));
            world.run(1);
            let rest = calm(world.readings());
            match world.ask(Input::Inject(now(Fault::Xid(number)))) {
                Ok(_) => {}
                Err(Refusal::NotSupported { .. }) => {
                    assert_ne!(row.only, xid::Only::Any, "{number} is for every board");
                    continue;
                }
                Err(other) => panic!("{number}: {other}"),
            }
            world.run(1);
            let r = world.readings().clone();
            assert!(r.xid_count >= 1, "{number}");
            assert!(world.xids().contains(&u64::from(number)));
            assert_eq!(r.recovery_action, row.recovery as u8, "{number}");
            for effect in &row.effects {
                match effect {
                    xid::Effect::Lost | xid::Effect::Missing => assert!(r.lost, "{number}"),
                    xid::Effect::Hang => assert!(r.hung, "{number}"),
                    xid::Effect::KillOne | xid::Effect::KillAll => {
                        assert_eq!(world.running(), 0, "{number}");
                    }
                    xid::Effect::EccDram => {
                        assert_eq!(r.ecc_volatile.uncorrected_dram, 1, "{number}");
                    }
                    xid::Effect::EccSram => {
                        assert_eq!(r.ecc_volatile.uncorrected_sram, 1, "{number}");
                    }
                    xid::Effect::EccCorrected => {
                        assert!(r.ecc_volatile.corrected_dram > 1, "{number}");
                    }
                    xid::Effect::RemapRow | xid::Effect::RepairPending => {
                        assert!(r.remap_pending, "{number}");
                    }
                    xid::Effect::RemapFailed | xid::Effect::RepairFailed => {
                        assert!(r.remap_failed, "{number}");
                    }
                    xid::Effect::LinkDown => assert_eq!(r.nvlink_up & 1, 0, "{number}"),
                    xid::Effect::LinkErrors => assert!(r.nvlink_crc_errors > 0, "{number}"),
                    xid::Effect::PowerBrake => {
                        assert_ne!(r.reasons & reasons::POWER_BRAKE, 0, "{number}");
                    }
                    xid::Effect::SlowApi => assert!(r.api_delay_ms > 0, "{number}"),
                    xid::Effect::RefuseWork => {
                        world.start(steady("next", 5.0));
                        world.run(1);
                        let next = world.workload("next").unwrap();
                        assert!(matches!(next.phase(), Phase::Ended(_)), "{number}");
                    }
                    _ => {}
                }
            }
            heal(&mut world);
            assert_eq!(calm(world.readings()), rest, "{number} did not heal");
        }
    }
}

/// The flags a healed device must not show.
fn calm(r: &Readings) -> (bool, bool, bool, u8, u32, u32, u32) {
    let (lost, hung, reset) = (r.lost, r.hung, r.reset_required);
    let (delay, code, up) = (r.api_delay_ms, r.api_code, r.nvlink_up);
    (lost, hung, reset, r.recovery_action, delay, code, up)
}

#[test]
fn faults_a_board_cannot_have_are_refused() {
    let refused = |key: &str, fault: Fault| {
        let mut world = world(key, 1);
        world.ask(Input::Inject(now(fault))).unwrap_err()
    };
    let error = refused("t4", Fault::LinkDown(1));
    assert_eq!(
        error.to_string(),
        "fault on node-a/0: not supported, Tesla T4 has no NVLink"
    );
    assert!(matches!(
        refused("max-1550", Fault::Xid(79)),
        Refusal::NotSupported { .. }
    ));
    assert!(matches!(
        refused("t4", Fault::Cooling(f64::NAN)),
        Refusal::NotSupported { .. }
    ));
    let mut world = world("t4", 1);
    let unknown = Input::Heal(FaultSelector::Id(99));
    assert!(matches!(world.ask(unknown), Err(Refusal::NotFound { .. })));
    let mut elsewhere = now(Fault::Lost);
    elsewhere.devices = vec![device(8)];
    let error = world.ask(Input::Inject(elsewhere)).unwrap_err();
    assert!(matches!(error, Refusal::NoSuchDevice { .. }));
}

#[test]
fn another_vendors_board_is_lost_without_an_xid() {
    let mut world = world("mi300x", 1);
    world.start(steady("job", 50.0));
    world.run(1);
    world.strike(Fault::Lost);
    assert!(world.readings().lost);
    assert_eq!(world.running(), 0);
    assert!(world.xids().is_empty());
}

#[test]
fn repeated_strikes_of_one_fault_are_one_fault() {
    let mut world = world("a100-sxm4-40gb", 1);
    let first = world.strike(Fault::PowerBrake);
    let second = world.strike(Fault::PowerBrake);
    assert_eq!(first, second);
    assert_eq!(world.faults().len(), 1);
    for _ in 0..400 {
        world.strike(Fault::Xid(13));
    }
    assert_eq!(
        world.faults().len(),
        257,
        "the brake and the last 256 that are over"
    );
}

#[test]
fn a_reset_does_not_mend_what_needs_a_reboot() {
    let mut world = world("gb200", 1);
    world.strike(Fault::Xid(173));
    assert_eq!(world.readings().recovery_action, 2);
    world.ask(Input::Reset { device: device(0) }).unwrap();
    assert_eq!(world.readings().recovery_action, 2);
    world.strike(Fault::Xid(46));
    world.ask(Input::Reset { device: device(0) }).unwrap();
    let left: Vec<&Fault> = world
        .faults()
        .iter()
        .filter(|f| f.active)
        .map(|f| &f.fault)
        .collect();
    assert_eq!(left, [&Fault::Xid(173)]);
}

#[test]
fn a_second_strike_puts_healing_off() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut brake = now(Fault::PowerBrake);
    brake.heal_after = Some(10 * SECOND);
    world.ask(Input::Inject(brake.clone())).unwrap();
    world.run(5);
    world.ask(Input::Inject(brake)).unwrap();
    world.run(9);
    assert!(world.faults()[0].active);
    world.run(1);
    assert!(!world.faults()[0].active);
}

#[test]
fn one_of_two_faults_healing_leaves_the_other() {
    let mut world = world("a100-sxm4-40gb", 1);
    let brake = world.strike(Fault::PowerBrake);
    world.strike(Fault::Hang);
    world.ask(Input::Heal(FaultSelector::Id(brake))).unwrap();
    world.run(1);
    assert!(world.readings().hung);
    assert_eq!(world.readings().reasons & reasons::POWER_BRAKE, 0);
}
