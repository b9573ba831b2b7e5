//! Faults: what goes wrong, where, when, for how long.

use std::time::Duration;

use crate::config::language::{Field, Kind, Rule, Table};
use crate::quantity::MAX_DURATION;

use super::{ANY_TIME, DEVICES, SOME_TIME, field};

/// The keys that say what a fault is.
pub(crate) const FAULT_KINDS: &[&str] = &[
    "xid",
    "ecc",
    "lost",
    "hang",
    "link-down",
    "cooling",
    "power-brake",
    "slow-api",
    "fail-api",
    "row-remap",
    "device-plugin",
];

pub(crate) static FAULT: Table = Table {
    name: "fault",
    doc: "Something that goes wrong with devices, and perhaps heals.",
    fields: &[
        Field {
            key: "device",
            alias: Some("devices"),
            kind: DEVICES,
            default: None,
            doc: "What it strikes; the same selectors as for workloads.",
        },
        field(
            "xid",
            Kind::Integer { min: 1, max: 999 },
            "",
            "An Xid with all its side effects, `79`.",
        ),
        field(
            "ecc",
            Kind::Either(&[Kind::Choice(ECC), Kind::Table(&ECC_TABLE)]),
            "",
            "ECC errors: `corrected`, `uncorrected`, or a mapping.",
        ),
        field("lost", Kind::Present, "", "Falls off the bus."),
        field("hang", Kind::Present, "", "Busy without progress."),
        field(
            "link-down",
            Kind::Either(&[
                Kind::Integer { min: 0, max: 31 },
                Kind::Choice(&["all"]),
                Kind::List(&Kind::Integer { min: 0, max: 31 }, 32),
            ]),
            "",
            "NVLinks that go down: a number, a list, or `all`.",
        ),
        field(
            "cooling",
            Kind::Number {
                min: 1.0,
                max: 100.0,
            },
            "",
            "Cooling gets worse: thermal resistance times this factor.",
        ),
        field(
            "power-brake",
            Kind::Present,
            "",
            "The external power brake is asserted.",
        ),
        field(
            "slow-api",
            Kind::Duration {
                min: Duration::from_millis(1),
                max: Duration::from_secs(600),
            },
            "",
            "API calls for the device take this much longer.",
        ),
        field(
            "fail-api",
            Kind::Either(&[Kind::Integer { min: 1, max: 999 }, Kind::Coded(NVML_ERRORS)]),
            "",
            "NVML calls for the device return this error, by number or name.",
        ),
        field(
            "row-remap",
            Kind::Choice(&["correctable", "uncorrectable", "failed"]),
            "",
            "A row is remapped, or the remap fails.",
        ),
        field(
            "device-plugin",
            Kind::Choice(&[
                "unhealthy",
                "missing",
                "vanish",
                "flap",
                "allocate-error",
                "allocate-slow",
                "allocate-wrong",
                "disconnect",
                "die",
                "hang",
                "late",
                "wrong-version",
                "socket-removed",
            ]),
            "",
            "The device plugin misbehaves towards the kubelet.",
        ),
        field(
            "at",
            ANY_TIME,
            "`0`; with `every`, one period",
            "When it strikes, or first strikes.",
        ),
        field(
            "every",
            Kind::Duration {
                min: Duration::from_millis(10),
                max: MAX_DURATION,
            },
            "once",
            "Strikes again and again, this far apart.",
        ),
        field(
            "rate",
            Kind::Number {
                min: 1e-6,
                max: 3600.0,
            },
            "not by chance",
            "Strikes by chance, so often per hour and device on average.",
        ),
        field("heal-after", SOME_TIME, "never", "Heals after this long."),
    ],
    rules: &[
        Rule::ExactlyOne(FAULT_KINDS),
        Rule::AtMostOne(&["rate", "at"]),
        Rule::AtMostOne(&["rate", "every"]),
    ],
};

const ECC: &[&str] = &["corrected", "uncorrected"];

pub(crate) static ECC_TABLE: Table = Table {
    name: "ecc",
    doc: "ECC errors of one kind.",
    fields: &[
        field(
            "kind",
            Kind::Choice(ECC),
            "`corrected`",
            "Whether the hardware could correct them.",
        ),
        field(
            "location",
            Kind::Choice(&["dram", "sram"]),
            "`dram`",
            "Where they happen.",
        ),
        field(
            "count",
            Kind::Integer {
                min: 1,
                max: 1_000_000,
            },
            "`1`",
            "How many at once.",
        ),
    ],
    rules: &[],
};

/// NVML's errors by name.
const NVML_ERRORS: &[(&str, u64)] = &[
    ("uninitialized", 1),
    ("invalid-argument", 2),
    ("not-supported", 3),
    ("no-permission", 4),
    ("not-found", 6),
    ("insufficient-power", 8),
    ("driver-not-loaded", 9),
    ("timeout", 10),
    ("irq-issue", 11),
    ("corrupted-inforom", 14),
    ("gpu-is-lost", 15),
    ("reset-required", 16),
    ("operating-system", 17),
    ("in-use", 19),
    ("memory", 20),
    ("no-data", 21),
    ("insufficient-resources", 23),
    ("not-ready", 27),
    ("gpu-not-found", 28),
    ("invalid-state", 29),
    ("unknown", 999),
];
