//! Links, switches and CPUs: series that are of no GPU.

use mirage_metrics::{Devices, Options, Selection};
use mirage_state::layout::{board_flags, flags};

use crate::{checker, fixture, golden, page, pods};

/// All fields of links, ports, switches and CPUs, among two of GPUs.
fn fields() -> Selection {
    let names = [
        (
            "DCGM_FI_DEV_NVLINK_PPCNT_RECOVERY_SUCCESSFUL_TOTAL",
            "counter",
        ),
        ("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "counter"),
        ("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_RX", "counter"),
        ("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX", "counter"),
        ("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_RX", "counter"),
        ("DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "gauge"),
        ("DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS", "gauge"),
        ("DCGM_FI_DEV_CPU_UTIL_TOTAL", "gauge"),
        ("DCGM_FI_DEV_CPU_UTIL_USER", "gauge"),
        ("DCGM_FI_DEV_CPU_TEMP_CURRENT", "gauge"),
        ("DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT", "gauge"),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter"),
        ("DCGM_FI_DEV_FB_USED", "gauge"),
        ("DCGM_FI_DRIVER_VERSION", "label"),
        ("DCGM_FI_DEV_SERIAL", "label"),
    ];
    let lines = names.map(|(name, kind)| format!("{name}, {kind}, text of {name}\n"));
    Selection::parse_csv(&lines.concat(), "fields").unwrap()
}

#[test]
fn links_and_switches_have_their_own_labels() {
    let text = page("dcgm@4.8.2", &fields(), pods(), &fixture::switched());
    checker::read(&text).unwrap();
    golden("dcgm-switched", &text);
}

#[test]
fn cpus_and_cores_have_their_own_labels() {
    let options = Options {
        cpus: Devices::parse("g").unwrap(),
        ..pods()
    };
    let text = page("dcgm@4.8.3", &fields(), options, &fixture::grace());
    checker::read(&text).unwrap();
    golden("dcgm-grace", &text);
}

/// Samples of a family, as label sets and numbers.
fn samples(name: &str, options: Options, image: &mirage_state::Image) -> Vec<checker::Sample> {
    let text = page("dcgm", &fields(), options, image);
    let all = checker::read(&text).unwrap();
    all.into_iter().filter(|s| s.name == name).collect()
}

fn sum(samples: &[checker::Sample]) -> f64 {
    samples
        .iter()
        .map(|s| s.value.parse::<f64>().unwrap())
        .sum()
}

#[test]
fn what_links_carry_adds_up_at_both_ends() {
    let image = fixture::switched();
    let of = |name: &str| samples(name, Options::default(), &image);
    // Six recoveries over four links of the first GPU; the second has three links up and no recovery.
    let recoveries = of("DCGM_FI_DEV_NVLINK_PPCNT_RECOVERY_SUCCESSFUL_TOTAL");
    assert_eq!(recoveries.len(), 7);
    assert_eq!(sum(&recoveries), 6.0);
    // Four links of one GPU and three of the other end at two switches.
    let ports = of("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX");
    assert_eq!(ports.len(), 7);
    let received: u64 = image.lives.iter().map(|l| l.nvlink_rx_bytes).sum();
    // The one that is down carried its part, and has no series.
    let down = image.lives[1].nvlink_rx_bytes / 4;
    assert_eq!(sum(&ports), (received - down) as f64);
    let switches = of("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX");
    assert_eq!(switches.len(), 2);
    assert_eq!(sum(&switches), received as f64);
    // No SXid has come, so there is no series of it.
    assert!(of("DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS").is_empty());
}

#[test]
fn switches_are_where_a_baseboard_has_them() {
    let count = |switches: u32, more: u64| {
        let mut image = fixture::switched();
        let mut statics = mirage_state::Statics::clone(&image.statics);
        statics.boards[0].nvlink_switches = switches;
        statics.boards[0].nvlink_links = 12;
        statics.boards[0].flags |= more;
        image.statics = statics.into();
        for live in &mut image.lives {
            live.nvlink_up = 0xfff;
        }
        let name = "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT";
        samples(name, Options::default(), &image).len()
    };
    assert_eq!(count(6, 0), 6, "HGX A100");
    assert_eq!(count(4, 0), 4, "HGX H100");
    assert_eq!(
        count(18, board_flags::PLATFORM),
        0,
        "a rack's are elsewhere"
    );
    assert_eq!(count(0, 0), 0, "GPUs joined directly");
}

#[test]
fn choices_of_switches_and_cpus_hold() {
    let choose = |text: &str| Devices::parse(text).unwrap();
    let image = fixture::switched();
    let with = |name: &str, text: &str| {
        let options = Options {
            switches: choose(text),
            ..Options::default()
        };
        samples(name, options, &image).len()
    };
    assert_eq!(with("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX", "f"), 2);
    assert_eq!(with("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX", "g:1"), 1);
    assert_eq!(with("DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX", "i"), 0);
    assert_eq!(with("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "g"), 0);
    assert_eq!(with("DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "i:0"), 2);

    let image = fixture::grace();
    let with = |name: &str, text: &str| {
        let options = Options {
            cpus: choose(text),
            ..Options::default()
        };
        samples(name, options, &image)
    };
    assert_eq!(with("DCGM_FI_DEV_CPU_UTIL_TOTAL", "f").len(), 2 + 144);
    assert_eq!(with("DCGM_FI_DEV_CPU_TEMP_CURRENT", "f").len(), 2);
    assert_eq!(with("DCGM_FI_DEV_CPU_UTIL_TOTAL", "g:0").len(), 1);
    let cores = with("DCGM_FI_DEV_CPU_UTIL_TOTAL", "i:70-73");
    let place = |s: &checker::Sample| {
        let label = |name| s.label(name).unwrap().to_owned();
        (label("cpucore"), label("cpu"))
    };
    let places: Vec<_> = cores.iter().map(place).collect();
    let expected = [("70", "0"), ("71", "0"), ("72", "1"), ("73", "1")];
    assert_eq!(places, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    // The cores of a CPU make up the CPU.
    let whole = with("DCGM_FI_DEV_CPU_UTIL_TOTAL", "g:0");
    let parts = with("DCGM_FI_DEV_CPU_UTIL_TOTAL", "i:0-71");
    assert!((sum(&parts) / 72.0 - sum(&whole)).abs() < 1e-4);
}

#[test]
fn a_cpu_draws_what_its_module_draws_beside_the_gpus() {
    let mut image = fixture::grace();
    let power = |image: &mirage_state::Image| {
        let name = "DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT";
        samples(name, Options::default(), image)[0].value.clone()
    };
    assert_eq!(power(&image), "60.375000");
    image.lives[0].valid |= mirage_state::layout::valid::MODULE_POWER;
    image.lives[0].module_power_mw = image.lives[0].power_mw + 71_500;
    assert_eq!(power(&image), "71.500000");
}

#[test]
fn a_lost_gpu_has_no_links() {
    let mut image = fixture::switched();
    image.lives[0].flags |= flags::LOST;
    let name = "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX";
    assert_eq!(samples(name, Options::default(), &image).len(), 3);
}

#[test]
fn a_link_that_goes_down_moves_no_counter() {
    let before = fixture::switched();
    let mut after = before.clone();
    after.lives[0].nvlink_up &= !1;
    let of = |name, image| samples(name, Options::default(), image);
    for name in [
        "DCGM_FI_DEV_NVSWITCH_THROUGHPUT_TX",
        "DCGM_FI_DEV_NVSWITCH_THROUGHPUT_RX",
    ] {
        let values = |image| of(name, image).into_iter().map(|s| s.value);
        assert!(values(&before).eq(values(&after)), "{name}");
    }
    let name = "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX";
    let port = |s: &checker::Sample| (s.labels.clone(), s.value.clone());
    let ports: Vec<_> = of(name, &before).iter().map(port).collect();
    let left: Vec<_> = of(name, &after).iter().map(port).collect();
    assert_eq!(left.len() + 1, ports.len(), "the one that is down has none");
    assert!(left.iter().all(|port| ports.contains(port)), "{left:?}");
}
