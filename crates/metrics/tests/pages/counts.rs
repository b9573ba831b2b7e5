//! Counts that NVML tells of the same state: the page must not say otherwise.

use mirage_metrics::{Options, Selection};
use mirage_state::Image;
use mirage_state::layout::{board_flags, flags, valid};

use crate::{checker, fixture, page};

/// The first GPU's value of a field, if it has one.
fn value(field: &str, image: &Image) -> Option<String> {
    let csv = Selection::parse_csv(&format!("{field}, gauge, x"), "x").unwrap();
    let text = page("dcgm", &csv, Options::default(), image);
    let samples = checker::read(&text).unwrap();
    samples.first().map(|sample| sample.value.clone())
}

fn board(image: &mut Image) -> &mut mirage_state::layout::Board {
    &mut std::sync::Arc::make_mut(&mut image.statics).boards[0]
}

#[test]
fn slowdowns_for_heat_are_told_by_who_slowed_down() {
    let mut image = fixture::h100();
    let live = &mut image.lives[0];
    live.violations.thermal_ns = 7;
    (live.sw_thermal_ns, live.hw_thermal_ns) = (5, 2);
    let of = |who: &str| {
        value(
            &format!("DCGM_FI_DEV_CLOCKS_EVENT_REASON_{who}_THERM_SLOWDOWN_NS"),
            &image,
        )
    };
    assert_eq!(of("SW").as_deref(), Some("5"));
    assert_eq!(of("HW").as_deref(), Some("2"));
}

#[test]
fn chip_to_chip_links_are_ten_or_off() {
    let of = |image: &Image| {
        ["LINK_COUNT", "LINK_STATUS", "MAX_BANDWIDTH"]
            .map(|name| value(&format!("DCGM_FI_DEV_C2C_{name}"), image))
    };
    let some = |text: &str| Some(text.to_owned());
    let mut image = fixture::grace();
    assert_eq!(of(&image), [some("10"), some("1"), some("44712")]);
    board(&mut image).flags &= !board_flags::C2C_ENABLED;
    assert_eq!(of(&image), [some("0"), some("0"), None]);
    assert_eq!(of(&fixture::h100()), [None, None, None]);
}

#[test]
fn no_errors_are_counted_while_ecc_is_off() {
    let mut image = fixture::a100();
    let fields = [
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "DCGM_FI_DEV_ECC_SBE_VOL_DEV",
        "DCGM_FI_DEV_THRESHOLD_SRM",
    ];
    for field in fields {
        assert!(value(field, &image).is_some(), "{field}");
    }
    for live in &mut image.lives {
        live.flags &= !flags::ECC;
    }
    for field in fields {
        assert_eq!(value(field, &image), None, "{field}");
    }
}

#[test]
fn errors_are_told_by_unit_before_ampere() {
    let mut image = fixture::k80();
    image.lives[0].ecc_volatile.corrected_sram = 4;
    let of = |unit: &str, image: &Image| value(&format!("DCGM_FI_DEV_ECC_SBE_VOL_{unit}"), image);
    assert_eq!(of("L2", &image).as_deref(), Some("4"));
    for unit in ["L1", "REG", "TEX", "SHM", "CBU"] {
        assert_eq!(of(unit, &image).as_deref(), Some("0"), "{unit}");
        assert_eq!(of(unit, &fixture::a100()), None, "{unit}");
    }
    assert_eq!(of("L2", &fixture::a100()), None);
}

#[test]
fn packets_and_errors_of_links() {
    let mut image = fixture::switched();
    image.lives[0].nvlink_crc_errors = 9;
    let of = |name: &str, image: &Image| value(&format!("DCGM_FI_DEV_NVLINK_{name}"), image);
    let sent = image.lives[0].nvlink_tx_bytes / 256;
    for (name, wanted) in [
        ("COUNT_TX_PACKETS", sent),
        ("COUNT_RX_ERRORS", 9),
        ("COUNT_RX_SYMBOL_ERRORS", 9),
        ("COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", 6),
        ("COUNT_LINK_RECOVERY_FAILED_EVENTS", 0),
        ("COUNT_RX_MALFORMED_PACKET_ERRORS", 0),
    ] {
        assert_eq!(of(name, &image), Some(wanted.to_string()), "{name}");
        assert_eq!(of(name, &fixture::h100()), None, "{name}");
    }
    let name = "CRC_DATA_ERROR_COUNT_TOTAL";
    assert_eq!(of(name, &fixture::h100()).as_deref(), Some("0"));
    assert_eq!(of(name, &fixture::k80()), None);
}

/// Captures of T4, L40S and RTX 4000 Ada have a zero where nvidia-smi has N/A.
#[test]
fn memory_without_a_sensor_has_zero_degrees_from_turing_on() {
    let of = |image: &Image| value("DCGM_FI_DEV_MEMORY_TEMP", image);
    let mut image = fixture::a100();
    let measured = image.lives[0].memory_temperature_c.to_string();
    assert_eq!(of(&image), Some(measured));
    image
        .lives
        .iter_mut()
        .for_each(|live| live.valid &= !valid::MEMORY_TEMPERATURE);
    for (architecture, shown) in [(5, None), (6, Some("0")), (8, Some("0"))] {
        board(&mut image).architecture = architecture;
        assert_eq!(of(&image).as_deref(), shown, "{architecture}");
    }
    image
        .lives
        .iter_mut()
        .for_each(|live| live.flags |= flags::LOST);
    assert_eq!(of(&image), None);
}
