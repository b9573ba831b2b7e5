//! The dependency rules, one by one: each quantity follows from those before it.

use std::time::Duration;

use mirage_model::plan::{Fault, Range};
use mirage_sim::{Input, Setting, reasons};

use crate::fleet::*;

#[test]
fn an_idle_board_rests() {
    let mut world = world("l4", 1);
    world.run(30);
    let r = world.readings();
    let b = board("l4");
    assert_eq!(u32::from(r.sm_mhz), b.clocks.sm_idle_mhz);
    assert_eq!(u32::from(r.mem_mhz), b.clocks.mem_idle_mhz);
    assert_eq!((r.gpu_percent, r.pstate, r.pcie_gen), (0, 8, 1));
    assert_eq!(r.reasons, reasons::IDLE);
    assert!((f64::from(r.power_mw) / 1000.0 - b.power.idle_w).abs() <= 0.011 * b.power.idle_w);
    assert_eq!(r.violations.low_utilization_ns, 30_000_000_000);
    assert_eq!(r.violations.power_ns, 0);
}

#[test]
fn use_raises_the_clock_and_it_stays_up_for_a_while() {
    let mut world = world("l4", 1);
    let b = board("l4");
    world.start(steady("job", 5.0));
    world.run(1);
    assert_eq!(u32::from(world.readings().sm_mhz), b.clocks.sm_max_mhz);
    assert_eq!((world.readings().pstate, world.readings().pcie_gen), (0, 4));
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    let mut held = 0;
    while u32::from(world.readings().sm_mhz) == b.clocks.sm_max_mhz {
        world.run(1);
        held += 1;
        assert!(held <= 11, "the clock never drops");
    }
    assert!((2..=11).contains(&held), "held {held} s");
    assert_eq!(u32::from(world.readings().sm_mhz), b.clocks.sm_idle_mhz);
    assert_eq!(world.readings().pstate, 8);
}

#[test]
fn a_proportional_governor_follows_the_square_root_of_the_load() {
    let b = board("max-1550");
    let (low, high) = (
        f64::from(b.clocks.sm_idle_mhz),
        f64::from(b.clocks.sm_max_mhz),
    );
    let mut last = 0;
    for load in [4.0, 25.0, 64.0, 100.0_f64] {
        let mut world = world("max-1550", 1);
        world.start(steady("job", load));
        world.run(1);
        let clock = world.readings().sm_mhz;
        let expected = low + (high - low) * (load / 100.0).sqrt();
        assert!(
            (f64::from(clock) - expected).abs() < 2.0,
            "{load}: {clock} not {expected}"
        );
        assert!(clock > last);
        last = clock;
    }
}

#[test]
fn use_raises_the_memory_clock_of_gddr_and_hbm_never_drops() {
    let mut gddr = world("t4", 1);
    gddr.run(12);
    let b = board("t4");
    assert_eq!(u32::from(gddr.readings().mem_mhz), b.clocks.mem_idle_mhz);
    gddr.start(steady("job", 50.0));
    gddr.run(1);
    assert_eq!(u32::from(gddr.readings().mem_mhz), b.clocks.mem_max_mhz);

    let mut hbm = world("h100-sxm5-80gb", 1);
    hbm.run(12);
    let b = board("h100-sxm5-80gb");
    assert_eq!(u32::from(hbm.readings().mem_mhz), b.clocks.mem_max_mhz);
    assert_eq!(hbm.readings().pstate, 0);
}

#[test]
fn power_rises_with_use_with_bandwidth_with_links_and_with_the_clock() {
    let power = |utilization: f64, band: f64, link: f64, lock: Option<(u32, u32)>| {
        let mut world = world("h100-sxm5-80gb", 1);
        let mut job = steady("job", utilization);
        job.activity[0].bandwidth = Some(fixed(band));
        job.activity[0].interconnect = Some(fixed(link));
        world.start(job);
        let setting = Setting::LockedClocks(lock);
        let device = device(0);
        world.ask(Input::Set { device, setting }).unwrap();
        world.run(3);
        world.readings().power_mw
    };
    let base = power(60.0, 20.0, 10.0, None);
    assert!(power(80.0, 20.0, 10.0, None) > base);
    assert!(power(60.0, 40.0, 10.0, None) > base);
    assert!(power(60.0, 20.0, 50.0, None) > base);
    assert!(power(60.0, 20.0, 10.0, Some((345, 1200))) < base);
}

#[test]
fn a_load_step_moves_clock_then_power_then_temperature() {
    let mut world = world("h100-sxm5-80gb", 1);
    world.run(30);
    let cold = world.readings().clone();
    world.start(burn());
    let (mut clock, mut power, mut heat) = (None, None, None);
    let (hot_w, hot_c) = (600_000, 44);
    for tenth in 1..=3000 {
        world.step(&[], Duration::from_millis(100));
        let r = world.readings();
        if r.sm_mhz > cold.sm_mhz {
            clock.get_or_insert(tenth);
        }
        if r.power_average_mw > hot_w {
            power.get_or_insert(tenth);
        }
        if r.temperature_c >= hot_c {
            heat.get_or_insert(tenth);
        }
    }
    let (clock, power, heat) = (clock.unwrap(), power.unwrap(), heat.unwrap());
    assert_eq!(clock, 1, "the clock rises at once");
    assert!(clock < power && power < heat, "{clock} {power} {heat}");
    assert!(heat > 100, "heat lags by many seconds, not {heat} tenths");
}

#[test]
fn power_leads_to_temperature_with_its_time_constant() {
    let mut world = world("h100-sxm5-80gb", 1);
    let b = board("h100-sxm5-80gb");
    world.run(5);
    let start = f64::from(world.readings().temperature_c);
    world.start(burn());
    world.run(b.thermal.tau_s as u32);
    let after_tau = f64::from(world.readings().temperature_c);
    world.run(10 * b.thermal.tau_s as u32);
    let end = f64::from(world.readings().temperature_c);
    let watts = f64::from(world.readings().power_mw) / 1000.0;
    let target = b.thermal.inlet_c + b.thermal.resistance_c_per_w * watts;
    assert!((end - target).abs() < 1.5, "{end} against {target}");
    let done = (after_tau - start) / (end - start);
    assert!(
        (0.50..0.75).contains(&done),
        "{done} after one time constant"
    );
}

#[test]
fn dense_kernels_meet_the_power_limit_and_pay_in_clock_and_bandwidth() {
    let mut world = world("h100-sxm5-80gb", 1);
    let b = board("h100-sxm5-80gb");
    world.start(burn());
    world.run(5);
    let free = world.readings().clone();
    world.ask(Input::RemoveWorkload("burn".into())).unwrap();
    world.start(dense());
    world.run(20);
    let r = world.readings();
    assert_eq!(r.reasons, reasons::SW_POWER_CAP);
    assert!(u32::from(r.sm_mhz) < b.clocks.sm_max_mhz);
    assert!(r.power_mw <= r.enforced_limit_mw);
    assert!(
        r.power_mw > r.enforced_limit_mw / 100 * 97,
        "{}",
        r.power_mw
    );
    assert_eq!(r.violations.power_ns, 20_000_000_000);
    assert_eq!(r.gpu_percent, 100, "a lower clock is not a lower duty");
    assert!(r.dram_ppm < free.dram_ppm, "bandwidth follows the clock");
}

#[test]
fn a_lower_power_limit_lowers_the_clock() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(burn());
    world.run(3);
    let before = world.readings().sm_mhz;
    let setting = Setting::PowerLimit(Some(200_000));
    world
        .ask(Input::Set {
            device: device(0),
            setting,
        })
        .unwrap();
    world.run(3);
    let r = world.readings();
    assert!(r.sm_mhz < before);
    assert!(r.power_mw <= 200_000);
    assert_ne!(r.reasons & reasons::SW_POWER_CAP, 0);
}

#[test]
fn heat_over_the_limit_throttles_accrues_time_and_recovers() {
    let mut world = world("h100-sxm5-80gb", 1);
    let b = board("h100-sxm5-80gb");
    world.start(burn());
    world.run(10);
    let free = world.readings().clone();
    world.strike(Fault::Cooling(3.5));
    world.run(900);
    let hot = world.readings().clone();
    assert_ne!(hot.reasons & (reasons::SW_THERMAL | reasons::HW_THERMAL), 0);
    assert!(hot.sm_mhz < free.sm_mhz, "{} {}", hot.sm_mhz, free.sm_mhz);
    assert!(hot.power_mw < free.power_mw);
    assert!(hot.dram_ppm < free.dram_ppm);
    assert!(hot.violations.thermal_ns > 0);
    assert!(hot.margin_c <= 0);
    assert!(!hot.lost);
    assert!(f64::from(hot.temperature_c) < b.thermal.shutdown_c);

    world
        .ask(Input::Heal(mirage_sim::FaultSelector::All))
        .unwrap();
    world.run(300);
    let cool = world.readings();
    assert_eq!(u32::from(cool.sm_mhz), b.clocks.sm_max_mhz);
    assert_eq!(cool.reasons, 0);
}

#[test]
fn no_cooling_at_all_ends_in_shutdown_and_xid_79() {
    let mut world = world("h100-sxm5-80gb", 1);
    world.start(burn());
    world.strike(Fault::Cooling(60.0));
    world.run(600);
    let r = world.readings();
    assert!(r.lost);
    assert_eq!((r.power_mw, r.gpu_percent, r.memory_used), (0, 0, 0));
    assert!(world.xids().contains(&79));
    assert!(world.processes(0, 0).iter().all(|p| p.end.is_some()));
    let energy = world.readings().energy_mj;
    world.run(10);
    assert_eq!(
        world.readings().energy_mj,
        energy,
        "a lost board counts nothing"
    );
}

#[test]
fn slowdown_halves_the_clock_until_it_is_cool_again() {
    // A board whose slowdown is reached before the soft governor can help.
    let mut quick = (*board("h100-sxm5-80gb")).clone();
    quick.thermal.max_operating_c = quick.thermal.slowdown_c;
    quick.thermal.tau_s = 5.0;
    let half = quick.clocks.sm_max_mhz / 2;
    let mut world = mirage_sim::World::new(&plan_of(quick.into(), 1));
    world.start(burn());
    world.strike(Fault::Cooling(3.2));
    world.run(30);
    let seen = world.readings().violations.thermal_ns;
    assert!(seen > 0);
    let mut slowed = 0;
    for _ in 0..200 {
        world.run(1);
        let r = world.readings();
        if r.reasons & reasons::HW_THERMAL != 0 {
            slowed += 1;
            assert_ne!(r.reasons & reasons::HW_SLOWDOWN, 0);
            assert!(u32::from(r.sm_mhz) <= half);
        }
    }
    assert!(slowed > 0);
    assert!(world.readings().reason_times.hw_thermal_ns > 0);
    world
        .ask(Input::Heal(mirage_sim::FaultSelector::All))
        .unwrap();
    world.run(200);
    assert_eq!(world.readings().reasons, 0);
    assert_eq!(u32::from(world.readings().sm_mhz) / 2, half);
}

#[test]
fn a_hang_runs_at_full_clock_and_gets_nothing_done() {
    let mut world = world("a100-sxm4-40gb", 1);
    let b = board("a100-sxm4-40gb");
    let mut job = steady("job", 40.0);
    job.activity[0].duration = Some(Duration::from_secs(60));
    job.repeat = Some(1);
    world.start(job);
    world.run(5);
    let id = world.strike(Fault::Hang);
    world.run(300);
    let r = world.readings();
    assert!(r.hung);
    assert_eq!(
        (r.gpu_percent, r.gr_engine_ppm, r.dram_ppm),
        (100, 1_000_000, 0)
    );
    assert_eq!(u32::from(r.sm_mhz), b.clocks.sm_max_mhz);
    assert_eq!(r.nvlink_tx_bps, 0);
    assert!(world.xids().contains(&109));
    let job = world.workload("job").unwrap();
    assert_eq!(
        *job.phase(),
        mirage_sim::Phase::Running,
        "it makes no progress"
    );
    world
        .ask(Input::Heal(mirage_sim::FaultSelector::Id(id)))
        .unwrap();
    world.run(50);
    assert_eq!(world.running(), 1, "55 of 60 seconds are done");
    world.run(10);
    assert_eq!(world.running(), 0);
}

#[test]
fn locked_and_application_clocks_bind_and_say_so() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 50.0));
    for setting in [
        Setting::LockedClocks(Some((210, 900))),
        Setting::ApplicationClocks(Some((1215, 900))),
    ] {
        world
            .ask(Input::Set {
                device: device(0),
                setting,
            })
            .unwrap();
        world.run(2);
        assert_eq!(world.readings().sm_mhz, 900);
        assert_eq!(world.readings().reasons, reasons::APPLICATION_CLOCKS);
        let setting = match setting {
            Setting::LockedClocks(_) => Setting::LockedClocks(None),
            _ => Setting::ApplicationClocks(None),
        };
        world
            .ask(Input::Set {
                device: device(0),
                setting,
            })
            .unwrap();
        world.run(2);
        assert_eq!(world.readings().sm_mhz, 1410, "defaults do not bind");
    }
}

#[test]
fn traffic_follows_the_link_share_and_totals_integrate_it() {
    let mut world = world("h100-sxm5-80gb", 2);
    let mut job = steady("job", 80.0);
    job.devices.push(device(1));
    job.activity[0].interconnect = Some(fixed(50.0));
    world.start(job);
    world.run(1);
    let before = world.readings().clone();
    world.run(1);
    let after = world.readings().clone();
    assert!(after.nvlink_tx_bps > 100_000_000_000);
    assert!(after.pcie_rx_bps > 1_000_000_000);
    assert_eq!(
        after.nvlink_tx_bytes - before.nvlink_tx_bytes,
        after.nvlink_tx_bps
    );
    assert_eq!(
        after.pcie_rx_bytes - before.pcie_rx_bytes,
        after.pcie_rx_bps
    );
}

#[test]
fn a_long_step_is_cut_into_short_ones() {
    let mut long = world("a100-sxm4-40gb", 1);
    let mut short = world("a100-sxm4-40gb", 1);
    long.start(steady("job", 70.0));
    short.start(steady("job", 70.0));
    long.step(&[], Duration::from_secs(600));
    short.run(600);
    assert_eq!(long.now(), short.now());
    assert_eq!(long.readings(), short.readings());
}

#[test]
fn video_engines_are_busy_in_bursts_where_there_are_some() {
    let mut world = world("l4", 1);
    world.start(steady("job", 90.0));
    let (mut most, mut least) = (0, 100);
    for _ in 0..300 {
        world.run(1);
        most = most.max(world.readings().decoder_percent);
        least = least.min(world.readings().decoder_percent);
    }
    assert!(most > 5);
    assert_eq!(least, 0);
}

#[test]
fn alternate_slots_of_a_b200_sit_apart() {
    let mut world = world("b200-sxm6-180gb", 2);
    world.run(10);
    let gpus = world.node(0).unwrap().gpus();
    let apart = gpus[1].readings().temperature_c - gpus[0].readings().temperature_c;
    let expected = board("b200-sxm6-180gb").slot_offset_c;
    assert!(expected > 5.0);
    assert!((f64::from(apart) - expected).abs() <= 1.0, "{apart}");
}

#[test]
fn copies_alone_keep_a_board_awake() {
    let mut world = world("l4", 1);
    let mut copies = steady("copies", 0.0);
    copies.activity[0].bandwidth = Some(Range {
        low: 80.0,
        high: 80.0,
    });
    world.start(copies);
    world.run(30);
    let r = world.readings();
    assert_eq!(r.gpu_percent, 0);
    assert!(r.memory_percent > 0);
    assert_eq!(u32::from(r.mem_mhz), board("l4").clocks.mem_max_mhz);
    assert_eq!((r.pstate, r.reasons & reasons::IDLE), (0, 0));
}
