//! The catalogue's files: all are read, every number has a source, and the numbers are
//! those of the boards.

use std::path::Path;

use mirage_model::board::{C2c, FormFactor, Governor, LimitStyle, Vendor};
use mirage_model::catalogue;
use mirage_model::yaml::{self, Node, Value};

fn board(key: &str) -> std::sync::Arc<mirage_model::board::Board> {
    catalogue::board(key).unwrap_or_else(|| panic!("{key} is in the catalogue"))
}

#[test]
fn the_list_is_the_directory() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models");
    let mut files: Vec<String> = std::fs::read_dir(dir)
        .expect("the directory exists")
        .map(|entry| entry.expect("readable").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut listed: Vec<String> = catalogue::keys().map(|k| format!("{k}.yaml")).collect();
    assert!(listed.is_sorted());
    listed.sort();
    assert_eq!(files, listed);
}

#[test]
fn every_file_is_read() {
    for key in catalogue::keys() {
        let text = catalogue::describe(key).expect("listed");
        match catalogue::parse(text) {
            Ok(board) => assert_eq!(board.key, key),
            Err(problems) => panic!("{key}: {}", problems[0]),
        }
    }
}

/// Every number stands in `[value, source]` or in a row that names a source.
#[test]
fn every_number_has_a_source() {
    fn visit(node: &Node, sources: &Node, covered: bool, numbers: &mut u32) {
        let known = |id: &Node| id.text().is_some_and(|id| sources.get(id).is_some());
        match &node.value {
            Value::Scalar(_) => {
                if node.f64().is_some() || node.u64().is_some() {
                    *numbers += 1;
                    assert!(covered, "line {}: no source", node.span.start.line);
                }
            }
            Value::Sequence(items) => {
                let pair = matches!(items.as_slice(), [_, source] if known(source));
                for item in items {
                    visit(item, sources, covered || pair, numbers);
                }
            }
            Value::Mapping(entries) => {
                let row = node.get("source").is_some_and(known);
                for (_, child) in entries {
                    visit(child, sources, covered || row, numbers);
                }
                for figure in node.get("estimated").and_then(Node::items).unwrap_or(&[]) {
                    let name = figure.text().expect("a name");
                    let groups = ["figures", "engines", "placement"];
                    let known = groups
                        .iter()
                        .any(|group| node.get(group).is_some_and(|g| g.get(name).is_some()));
                    assert!(known, "estimated `{name}` is no figure of its row");
                }
            }
        }
    }
    for key in catalogue::keys() {
        let tree = yaml::parse(catalogue::describe(key).expect("listed")).expect("read above");
        let sources = tree.get("sources").expect("sources");
        let mut numbers = 0;
        for (section, node) in tree.entries().expect("a mapping") {
            if section.text != "sources" {
                visit(node, sources, false, &mut numbers);
            }
        }
        assert!(numbers >= 40, "{key} has {numbers} numbers");
    }
}

#[test]
fn a_figure_without_a_source_is_refused() {
    let text = catalogue::describe("t4").expect("listed");
    let refused = |from: &str, to: &str, message: &str| {
        assert!(text.contains(from), "{from}");
        let problems = catalogue::parse(&text.replace(from, to)).expect_err(to);
        let found = problems.iter().any(|p| p.message.contains(message));
        assert!(found, "{to}: {problems:?}");
    };
    let power = "default-w: [70, capture]";
    refused(power, "default-w: 70", "[value, source]");
    refused(power, "default-w: [70, nowhere]", "`nowhere`");
    refused(power, "default-w: [hot, capture]", "`default-w`");
    refused(power, "", "`power.default-w` is missing");
    refused("power:", "powers:", "unknown section `powers`");
    refused(
        power,
        &format!("{power}\n  watts: [1, capture]"),
        "power.watts",
    );
    refused("total-mib: [15360", "total-mib: [1", "reserved");
    refused("slowdown-c: [93", "slowdown-c: [99", "must rise");
    refused("min-w: [60", "min-w: [600", "must rise");
    refused("style: [absolute", "style: [loose", "`style`");
}

#[test]
fn placements_outside_the_board_are_refused() {
    let text = catalogue::describe("a30").expect("listed");
    let placement = "placement: { starts: [0, 2], size: 2 }";
    assert!(text.contains(placement));
    for bad in [
        "placement: { starts: [0, 3], size: 2 }",
        "placement: { starts: [4294967295], size: 2 }",
        "placement: { starts: [], size: 2 }",
        "placement: { starts: [0], size: 0 }",
    ] {
        let problems = catalogue::parse(&text.replace(placement, bad)).expect_err(bad);
        assert!(problems[0].message.contains("memory slices"), "{bad}");
    }
}

#[test]
fn hostile_files_are_refused_not_fatal() {
    for text in [
        "",
        "key: 1",
        "[]",
        "mig: { profiles: 3 }",
        "key: [",
        "identity: 7",
    ] {
        assert!(catalogue::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn names_find_their_board() {
    let key = |name: &str| catalogue::find(name).map(|board| board.key.clone());
    for (name, wanted) in [
        ("a100-sxm4-40gb", "a100-sxm4-40gb"),
        ("A100", "a100-sxm4-40gb"),
        ("Tesla-K80", "tesla-k80"),
        ("Tesla K80", "tesla-k80"),
        ("k80", "tesla-k80"),
        ("NVIDIA-A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("NVIDIA-L40S", "l40s"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Intel(R) Data Center GPU Max 1550", "max-1550"),
        ("DG1 [Iris Xe MAX Graphics]", "dg1"),
    ] {
        assert_eq!(key(name).as_deref(), Some(wanted), "{name}");
    }
    for key in catalogue::keys() {
        let board = board(key);
        assert_eq!(
            catalogue::find(&board.name)
                .map(|b| b.key.clone())
                .as_deref(),
            Some(key)
        );
        assert_eq!(
            catalogue::find(&board.product)
                .map(|b| b.key.clone())
                .as_deref(),
            Some(key)
        );
    }
    assert_eq!(key("a1000"), None);
    assert_eq!(key(""), None);
    assert!(catalogue::board("A100").is_none());
}

#[test]
fn typos_are_understood() {
    for (typed, meant) in [
        ("a100-sxm4-40g", Some("a100-sxm4-40gb")),
        ("a100-sxm-40gb", Some("a100-sxm4-40gb")),
        ("h100-80gb", Some("h100-sxm5-80gb")),
        ("tesla-k8", Some("tesla-k80")),
        ("mi300", Some("mi300x")),
        ("gb20", Some("gb200")),
        ("toaster", None),
        ("", None),
    ] {
        assert_eq!(catalogue::nearest(typed), meant, "{typed}");
    }
    assert_eq!(catalogue::nearest(&"a".repeat(1 << 20)), None);
}

#[test]
fn figures_are_listed_with_their_sources() {
    let figures = catalogue::figures("b200-sxm6-180gb").expect("listed");
    let find = |name: &str| {
        let figure = figures.iter().find(|f| f.name == name);
        figure.map(|f| (f.value.as_str(), f.source.as_str()))
    };
    let (value, source) = find("power.default-w").expect("there");
    assert_eq!(value, "1000");
    assert!(source.contains("qx-b200.xml"));
    let (value, source) = find("mig.3g.90gb.sm-count").expect("there");
    assert_eq!(value, "70");
    assert!(source.contains("assumed"), "{source}");
    assert_eq!(
        find("mig.1g.23gb.starts").expect("there").0,
        "0 1 2 3 4 5 6"
    );
    assert!(find("mig.2g.45gb.1c.2g.45gb.slices").is_some());
    assert!(
        figures
            .iter()
            .all(|f| !f.source.is_empty() && !f.value.is_empty())
    );
    assert!(catalogue::figures("toaster").is_none());
}

#[test]
fn the_a100_is_as_captured() {
    let b = board("a100-sxm4-40gb");
    assert_eq!(b.name, "NVIDIA A100-SXM4-40GB");
    assert_eq!(b.product, "NVIDIA-A100-SXM4-40GB");
    assert_eq!((b.memory_total_mib, b.memory_reserved_mib), (40960, 518));
    assert_eq!(b.bar1_mib, Some(65536));
    assert_eq!((b.sm_count, b.core_count), (108, 6912));
    assert_eq!(b.compute_capability, (8, 0));
    assert_eq!(
        (b.pci_device_id, b.pci_subsystem_id),
        (0x20B0_10DE, 0x134F_10DE)
    );
    assert_eq!((b.power.idle_w, b.power.min_w), (50.0, 100.0));
    assert_eq!((b.power.default_w, b.power.max_w), (400.0, 400.0));
    assert_eq!((b.clocks.sm_max_mhz, b.clocks.sm_default_mhz), (1410, 1095));
    assert_eq!((b.clocks.sm_step_mhz, b.clocks.sm_step_khz), (15, 15_000));
    assert_eq!((b.clocks.mem_idle_mhz, b.clocks.mem_max_mhz), (1215, 1215));
    let t = &b.thermal;
    assert_eq!(
        (t.max_operating_c, t.slowdown_c, t.shutdown_c),
        (85.0, 89.0, 92.0)
    );
    assert_eq!(
        (t.style, t.memory_max_c),
        (LimitStyle::Absolute, Some(95.0))
    );
    let nvlink = b.nvlink.as_ref().expect("NVLink");
    assert_eq!((nvlink.version, nvlink.links, nvlink.switches), (3, 12, 6));
    assert_eq!(
        (b.row_remap_banks, b.ecc, b.c2c),
        (Some(640), Some(true), C2c::Absent)
    );
    assert_eq!(b.vbios, "92.00.45.00.03");
    assert_eq!(b.board_part_number, "692-2G506-0200-003");
    assert_eq!(b.inforom.image, "G506.0200.00.04");
    assert!(b.hbm && b.profiling);
    let mig = b.mig.as_ref().expect("MIG");
    assert_eq!((mig.max_instances, mig.memory_slices), (7, 8));
    let three = mig.profile_by_name("3g.20gb").expect("3g.20gb");
    assert_eq!((three.id, three.index, three.sm_count), (9, 2, 42));
    assert_eq!(three.memory_mib, 19968);
    assert_eq!(
        (&three.placement_starts[..], three.placement_size),
        (&[0, 4][..], 4)
    );
    assert_eq!(three.compute.len(), 3);
}

#[test]
fn other_boards_keep_their_oddities() {
    let k80 = board("tesla-k80");
    assert_eq!(k80.thermal.max_operating_c, k80.thermal.slowdown_c - 4.0);
    assert_eq!(
        (k80.memory_total_mib, k80.clocks.mem_idle_mhz),
        (11441, 324)
    );
    assert!(!k80.hbm && !k80.profiling && k80.multi_gpu_board);
    assert_eq!(k80.row_remap_banks, None);
    assert!(k80.mig.is_none() && k80.nvlink.is_none());

    let h100 = board("h100-sxm5-80gb");
    assert_eq!(h100.thermal.style, LimitStyle::Margin);
    let margins = (
        h100.thermal.margin_slowdown_c,
        h100.thermal.margin_shutdown_c,
    );
    assert_eq!(margins, (-2, -8));
    assert_eq!(
        (h100.memory_total_mib, h100.power.default_w),
        (81559, 700.0)
    );
    let mig = h100.mig.as_ref().expect("MIG");
    assert_eq!(mig.profile_by_name("3g.40gb").map(|p| p.sm_count), Some(60));
    assert_eq!(mig.profile_by_name("1g.20gb").map(|p| p.sm_count), Some(26));

    let gh200 = board("gh200-480gb");
    assert_eq!((gh200.bar1_mib, gh200.pcie_width_max), (None, 1));
    assert_eq!(gh200.power.module.map(|module| module.max_w), Some(1000.0));
    assert_eq!(
        (gh200.c2c, gh200.form_factor),
        (C2c::Enabled, FormFactor::Superchip)
    );

    let b200 = board("b200-sxm6-180gb");
    assert_eq!(b200.slot_offset_c, 13.0);
    assert_eq!(
        (b200.clocks.sm_step_mhz, b200.clocks.sm_step_khz),
        (15, 7_500)
    );

    let gb200 = board("gb200");
    assert_eq!((gb200.pcie_gen_max, gb200.pcie_device_gen_max), (5, 6));
    assert_eq!(board("gb300").pcie_host_gen_max, Some(4));
    assert_eq!(
        (
            gb200.gpus_per_serial,
            gb200.power.module.map(|module| module.max_w)
        ),
        (2, Some(2500.0))
    );
    assert_eq!(board("t4").bar1_mib, Some(256));
    assert_eq!(board("a10").fans, 1);
}

#[test]
fn the_other_makers_are_there() {
    let mi300x = board("mi300x");
    assert_eq!(
        (mi300x.vendor, mi300x.governor),
        (Vendor::Amd, Governor::Race)
    );
    assert_eq!((mi300x.memory_total_mib, mi300x.sm_count), (196_592, 304));
    let max = board("max-1550");
    assert_eq!(
        (max.vendor, max.governor),
        (Vendor::Intel, Governor::Proportional)
    );
    assert_eq!(max.power.default_w, 600.0);
    let dg1 = board("dg1");
    assert_eq!(dg1.pci_device_id, 0x4905_8086);
    assert_eq!((dg1.clocks.sm_idle_mhz, dg1.clocks.sm_max_mhz), (300, 1650));
    assert_eq!(dg1.ecc, None);
}

/// What must hold for any board, whoever adds it.
#[test]
fn figures_make_sense_together() {
    for key in catalogue::keys() {
        let b = board(key);
        let p = &b.power;
        assert!(p.idle_w > 0.0 && p.idle_w < p.default_w, "{key}");
        assert!(p.min_w <= p.default_w && p.default_w <= p.max_w, "{key}");
        let t = &b.thermal;
        assert!(
            t.inlet_c < t.max_operating_c && t.max_operating_c < t.slowdown_c,
            "{key}"
        );
        assert!(t.slowdown_c < t.shutdown_c, "{key}");
        assert!(t.resistance_c_per_w > 0.0 && t.tau_s > 0.0, "{key}");
        let full = t.inlet_c + b.slot_offset_c + t.resistance_c_per_w * p.max_w;
        assert!(full < t.slowdown_c, "{key} runs at {full} under full load");
        let c = &b.clocks;
        assert!(
            c.sm_min_mhz <= c.sm_default_mhz && c.sm_default_mhz <= c.sm_max_mhz,
            "{key}"
        );
        assert!(
            c.sm_idle_mhz < c.sm_max_mhz && c.mem_idle_mhz <= c.mem_max_mhz,
            "{key}"
        );
        assert!(c.sm_step_mhz > 0 && c.sm_step_khz > 0, "{key}");
        assert!(
            !b.hbm || c.mem_idle_mhz == c.mem_max_mhz || b.vendor == Vendor::Amd,
            "{key}"
        );
        assert!(b.memory_reserved_mib < b.memory_total_mib, "{key}");
        assert!(b.gpus_per_node > 0 && !b.pci_slots.is_empty(), "{key}");
        assert!(
            b.name.len() < 64 && b.product.len() < 64 && key.len() < 32,
            "{key}"
        );
        assert!(
            b.brand.len() < 32 && b.architecture.len() < 32 && b.vbios.len() < 32,
            "{key}"
        );
        if let Some(mig) = &b.mig {
            assert!(b.vendor == Vendor::Nvidia, "{key}");
            for profile in &mig.profiles {
                let name = &profile.name;
                assert!(profile.memory_mib <= b.memory_total_mib, "{key} {name}");
                assert!(profile.sm_count <= b.sm_count, "{key} {name}");
                for start in &profile.placement_starts {
                    let end = start + profile.placement_size;
                    assert!(end <= mig.memory_slices, "{key} {name}");
                }
                for compute in &profile.compute {
                    assert!(
                        compute.sm_count <= profile.sm_count,
                        "{key} {}",
                        compute.name
                    );
                    assert!(compute.slices <= profile.slices, "{key} {}", compute.name);
                }
            }
        }
    }
}
