//! The figures the model was fitted to, and that no board in the catalogue runs away.

use mirage_model::catalogue;
use mirage_model::plan::Fault;
use mirage_sim::World;

use crate::fleet::*;

fn burn_watts(key: &str) -> f64 {
    let mut world = world(key, 1);
    world.start(burn());
    let mut sum = 0.0;
    world.run(10);
    for _ in 0..100 {
        world.run(1);
        sum += f64::from(world.readings().power_mw) / 1000.0;
    }
    sum / 100.0
}

#[test]
fn burn_tests_draw_what_real_boards_draw() {
    for (key, watts) in [
        ("h100-sxm5-80gb", 641.0),
        ("h200-sxm5-141gb", 643.0),
        ("a100-sxm4-40gb", 369.0),
    ] {
        let drawn = burn_watts(key);
        assert!(
            (drawn - watts).abs() < 0.02 * watts,
            "{key}: {drawn} W, not {watts}"
        );
    }
}

#[test]
fn a_burning_h200_is_as_warm_as_a_real_one() {
    let mut world = world("h200-sxm5-141gb", 1);
    world.start(burn());
    world.run(600);
    let c = world.readings().temperature_c;
    assert!((51..=55).contains(&c), "{c} °C");
}

#[test]
fn with_poor_cooling_every_board_settles_below_shutdown() {
    for key in catalogue::keys() {
        for above in [8.0, 25.0] {
            let b = board(key);
            let watts = b.power.idle_w
                + (1.15 * b.power.default_w - b.power.idle_w) * (0.80 * 0.95 + 0.15 * 0.12);
            let watts = watts.min(b.power.default_w);
            // Cooling so poor that full power would end this far above the limit.
            let target = b.thermal.max_operating_c + above - b.thermal.inlet_c;
            let factor = target / (b.thermal.resistance_c_per_w * watts);
            let mut world = World::new(&plan_of(b.clone(), 1));
            world.start(burn());
            world.strike(Fault::Cooling(factor));
            world.run(900);
            let (mut low, mut high) = (u16::MAX, 0);
            for _ in 0..100 {
                world.run(1);
                low = low.min(world.readings().sm_mhz);
                high = high.max(world.readings().sm_mhz);
            }
            let r = world.readings();
            assert!(!r.lost, "{key} overheated");
            assert!(f64::from(r.temperature_c) < b.thermal.shutdown_c, "{key}");
            assert!(
                u32::from(high) < b.clocks.sm_max_mhz,
                "{key} does not throttle"
            );
            assert!(high - low <= 120, "{key} swings from {low} to {high} MHz");
        }
    }
}
