//! Memory errors, and what became of the memory they were in.

use nvidia_ml::client::{Device, EccSramStatus, Result as Answer};

use super::Subject;
use super::node::Node;
use super::sections::Part;
use crate::query::Value;

const TURING: u32 = 6;
const AMPERE: u32 = 7;
/// From this driver on, newer boards tell errors of their SRAM apart.
const SRAM_DETAILS: u32 = 550;
const CORRECTED: u32 = 0;
const UNCORRECTED: u32 = 1;
const L2: u32 = 1;
const DRAM: u32 = 2;
const SRAM: u32 = 7;

/// Places by which boards before Turing count.
const UNITS: [(&str, &str, u32); 7] = [
    ("Device Memory", "device_memory", 2),
    ("Register File", "register_file", 3),
    ("L1 Cache", "l1_cache", 0),
    ("L2 Cache", "l2_cache", 1),
    ("Texture Memory", "texture_memory", 4),
    ("Texture Shared", "texture_shm", 5),
    ("CBU", "cbu", 6),
];

fn count(label: &str, tag: &'static str, answer: Answer<u64>) -> Node {
    Node::value(label, tag, &Value::of(answer))
}

impl Subject<'_> {
    pub(super) fn errors(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let mode = device.ecc_mode();
        let line = |label: &str, tag, answer: Answer<u32>| {
            Node::value(label, tag, &Value::enabled(answer))
        };
        let modes = vec![
            line("Current", "current_ecc", mode.map(|(now, _)| now)),
            line("Pending", "pending_ecc", mode.map(|(_, then)| then)),
        ];
        vec![
            Node::group("ECC Mode", "ecc_mode", modes).part(Part::Ecc),
            Node::group("ECC Errors", "ecc_errors", counters(device, self.branch)).part(Part::Ecc),
            retired(device).part(Part::PageRetirement),
            remapped(device).part(Part::RowRemapper),
        ]
    }
}

/// Counters as the architecture counts: by SRAM and DRAM, or by unit.
fn counters(device: Device, branch: u32) -> Vec<Node> {
    let architecture = device.architecture().unwrap_or(AMPERE);
    if architecture < TURING {
        return vec![
            Node::group("Volatile", "volatile", by_unit(device, 0)),
            Node::group("Aggregate", "aggregate", by_unit(device, 1)),
        ];
    }
    let status = device.sram_status();
    let has_details = architecture >= AMPERE && branch >= SRAM_DETAILS;
    let mut groups = vec![
        Node::group("Volatile", "volatile", by_cell(device, 0, has_details)),
        Node::group("Aggregate", "aggregate", by_cell(device, 1, has_details)),
    ];
    if has_details {
        let source = |label: &str, tag, read: fn(&EccSramStatus) -> u64| {
            count(label, tag, status.map(|status| read(&status)))
        };
        groups.push(Node::group(
            "Aggregate Uncorrectable SRAM Sources",
            "aggregate_uncorrectable_sram_sources",
            vec![
                source("SRAM L2", "sram_l2", |status| status.bucket_l2),
                source("SRAM SM", "sram_sm", |status| status.bucket_sm),
                source("SRAM Microcontroller", "sram_microcontroller", |status| {
                    status.bucket_mcu
                }),
                source("SRAM PCIE", "sram_pcie", |status| status.bucket_pcie),
                source("SRAM Other", "sram_other", |status| status.bucket_other),
            ],
        ));
    }
    groups
}

fn by_cell(device: Device, lifetime: u32, has_details: bool) -> Vec<Node> {
    let at = |kind, place| device.ecc_errors_at(kind, lifetime, place);
    // Turing tells SRAM errors as those of its level-2 cache.
    let sram = |kind| at(kind, SRAM).or_else(|_| at(kind, L2));
    let mut lines = vec![count(
        "SRAM Correctable",
        "sram_correctable",
        sram(CORRECTED),
    )];
    let status = device.sram_status();
    if has_details {
        let parity = status.map(|status| match lifetime {
            0 => status.volatile_parity,
            _ => status.aggregate_parity,
        });
        let secded = status.map(|status| match lifetime {
            0 => status.volatile_secded,
            _ => status.aggregate_secded,
        });
        lines.push(count(
            "SRAM Uncorrectable Parity",
            "sram_uncorrectable_parity",
            parity,
        ));
        lines.push(count(
            "SRAM Uncorrectable SEC-DED",
            "sram_uncorrectable_secded",
            secded,
        ));
    } else {
        lines.push(count(
            "SRAM Uncorrectable",
            "sram_uncorrectable",
            sram(UNCORRECTED),
        ));
    }
    lines.push(count(
        "DRAM Correctable",
        "dram_correctable",
        at(CORRECTED, DRAM),
    ));
    lines.push(count(
        "DRAM Uncorrectable",
        "dram_uncorrectable",
        at(UNCORRECTED, DRAM),
    ));
    if has_details && lifetime == 1 {
        let exceeded = Value::yes(status.map(|status| status.threshold_exceeded));
        lines.push(Node::value(
            "SRAM Threshold Exceeded",
            "sram_threshold_exceeded",
            &exceeded,
        ));
    }
    lines
}

fn by_unit(device: Device, lifetime: u32) -> Vec<Node> {
    let kind = |label: &str, tag, kind| {
        let unit = |(label, tag, place): (&str, &'static str, u32)| {
            count(label, tag, device.ecc_errors_at(kind, lifetime, place))
        };
        let mut lines: Vec<Node> = UNITS.map(unit).into();
        lines.push(count(
            "Total",
            "total",
            device.total_ecc_errors(kind, lifetime),
        ));
        Node::group(label, tag, lines)
    };
    vec![
        kind("Single Bit", "single_bit", CORRECTED),
        kind("Double Bit", "double_bit", UNCORRECTED),
    ]
}

fn retired(device: Device) -> Node {
    let single = Value::of(device.field(29, 0));
    let double = Value::of(device.field(30, 0));
    let pending = Value::yes(device.field(31, 0));
    let pages = |tag, count: &Value, cause| {
        let list = match device.retired_pages(cause) {
            Ok(pages) => {
                let page = |at| Node::leaf("", "retired_page_address", format!("{at:#018x}"));
                Node::group(
                    "",
                    "retired_pagelist",
                    pages.into_iter().map(page).collect(),
                )
            }
            Err(_) => Node::leaf("", "retired_pagelist", "N/A"),
        };
        Node::group("", tag, vec![Node::value("", "retired_count", count), list])
    };
    Node::group(
        "Retired Pages",
        "retired_pages",
        vec![
            Node::value("Single Bit ECC", "", &single),
            pages("multiple_single_bit_retirement", &single, 0),
            Node::value("Double Bit ECC", "", &double),
            pages("double_bit_retirement", &double, 1),
            Node::value("Pending Page Blacklist", "pending_blacklist", &pending),
            Node::value("", "pending_retirement", &pending),
        ],
    )
}

fn remapped(device: Device) -> Node {
    let Ok([corrected, uncorrected, pending, failed]) = device.remapped_rows() else {
        return Node::leaf("Remapped Rows", "remapped_rows", "N/A");
    };
    let yes = |on: u32| if on == 0 { "No" } else { "Yes" };
    let mut lines = vec![
        Node::leaf("Correctable Error", "remapped_row_corr", corrected),
        Node::leaf("Uncorrectable Error", "remapped_row_unc", uncorrected),
        Node::leaf("Pending", "remapped_row_pending", yes(pending)),
        Node::leaf(
            "Remapping Failure Occurred",
            "remapped_row_failure",
            yes(failed),
        ),
    ];
    if let Ok(banks) = device.remapper_histogram() {
        let line =
            |label: &str, tag, banks: u32| Node::leaf(label, tag, format!("{banks} bank(s)"));
        lines.push(Node::group(
            "Bank Remap Availability Histogram",
            "row_remapper_histogram",
            vec![
                line("Max", "row_remapper_histogram_max", banks.max),
                line("High", "row_remapper_histogram_high", banks.high),
                line("Partial", "row_remapper_histogram_partial", banks.partial),
                line("Low", "row_remapper_histogram_low", banks.low),
                line("None", "row_remapper_histogram_none", banks.none),
            ],
        ));
    }
    Node::group("Remapped Rows", "remapped_rows", lines)
}
