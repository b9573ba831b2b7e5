//! Whole pages, compared with what they were: `MIRAGE_BLESS=1 cargo test -p mirage-metrics` rewrites them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "pages/checker.rs"]
mod checker;
#[path = "pages/counts.rs"]
mod counts;
#[path = "pages/entities.rs"]
mod entities;
#[path = "pages/fixture.rs"]
mod fixture;
#[path = "pages/notes.rs"]
mod notes;
#[path = "pages/seeds.rs"]
mod seeds;

use std::path::Path;

use mirage_metrics::{Devices, Exporter, Identity, Options, Selection};
use mirage_state::layout::{ComputeProfile, flags};
use mirage_state::{Image, Statics};

/// The page of one node.
fn page(identity: &str, selection: &Selection, options: Options, image: &Image) -> Vec<u8> {
    let identity = Identity::by_name(identity).unwrap();
    let exporter = Exporter::new(&identity, selection, options).unwrap();
    let mut out = Vec::new();
    exporter.render_node(&image.node(), &mut out);
    out
}

/// Compares with a file beside, or writes it.
fn golden(name: &str, text: &[u8]) {
    compare(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt")),
        text,
    );
}

fn compare(path: &Path, text: &[u8]) {
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let expected = std::fs::read(path).unwrap_or_default();
    let (old, new) = (
        String::from_utf8_lossy(&expected),
        String::from_utf8_lossy(text),
    );
    let differs = old.lines().zip(new.lines()).find(|(a, b)| a != b);
    assert!(
        expected == text,
        "{} differs (first: {differs:?}); MIRAGE_BLESS=1 accepts the new one",
        path.display()
    );
}

fn pods() -> Options {
    Options {
        pods: true,
        ..Options::default()
    }
}

fn images() -> Vec<(&'static str, Image)> {
    vec![
        ("a100", fixture::a100()),
        ("shared", fixture::shared()),
        ("mig", fixture::mig()),
        ("dynamic-mig", fixture::dynamic_mig()),
        ("k80", fixture::k80()),
        ("h100", fixture::h100()),
        ("lost", fixture::lost()),
        ("switched", fixture::switched()),
        ("grace", fixture::grace()),
        ("mi300x", fixture::mi300x()),
        ("max1550", fixture::max1550()),
        ("hostile", fixture::hostile()),
        ("torn", fixture::torn()),
    ]
}

#[test]
fn dcgm_pages_of_every_kind_of_node() {
    for name in ["a100", "mig", "dynamic-mig", "k80", "h100", "lost"] {
        let (_, image) = images().into_iter().find(|(n, _)| *n == name).unwrap();
        let text = page("dcgm@4.8.2", &Selection::default_set(), pods(), &image);
        checker::read(&text).unwrap();
        golden(&format!("dcgm-{name}"), &text);
    }
}

#[test]
fn dcgm_with_every_field() {
    let text = page(
        "dcgm@4.8.3",
        &Selection::everything(),
        pods(),
        &fixture::h100(),
    );
    let samples = checker::read(&text).unwrap();
    // With every label on every line the page is too long to look at: labels once, then values.
    let mut short = samples[0]
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect::<String>();
    for sample in samples {
        let gpu = sample.label("gpu").unwrap_or_default();
        short += &format!("{} {gpu} {}\n", sample.name, sample.value);
    }
    golden("dcgm-everything", short.as_bytes());
}

#[test]
fn dcgm_under_each_option() {
    let default = Selection::default_set();
    let old = Options {
        old_namespace: true,
        replace_blanks_in_model_name: true,
        xid_zero: true,
        ..pods()
    };
    golden(
        "dcgm-old",
        &page("dcgm", &Selection::old_set(), old, &fixture::a100()),
    );
    let shares = Options {
        virtual_gpus: true,
        ..pods()
    };
    golden(
        "dcgm-virtual",
        &page("dcgm", &default, shares, &fixture::shared()),
    );
    let last = Options {
        pod_uid: true,
        no_hostname: true,
        ..pods()
    };
    golden(
        "dcgm-last-writer",
        &page("dcgm", &default, last, &fixture::shared()),
    );
    let computed = "DCGM_EXP_XID_ERRORS_COUNT, counter, Xids\nDCGM_EXP_CLOCK_EVENTS_COUNT, counter, clocks\nDCGM_EXP_GPU_HEALTH_STATUS, gauge, health\n\
                    DCGM_EXP_P2P_STATUS, gauge, peers\nDCGM_FI_DEV_XID_ERRORS, gauge, last\n\
                    DCGM_FI_DEV_SERIAL, label, serial\nDCGM_FI_DEV_MINOR_NUMBER, label, minor\n\
                    DCGM_FI_DEV_FABRIC_CLUSTER_UUID, label, blank here\n";
    let computed = Selection::parse_csv(computed, "computed").unwrap();
    for (name, image) in [
        ("a100", fixture::a100()),
        ("h100", fixture::h100()),
        ("lost", fixture::lost()),
    ] {
        let text = page("dcgm", &computed, pods(), &image);
        checker::read(&text).unwrap();
        golden(&format!("dcgm-computed-{name}"), &text);
    }
}

#[test]
fn declared_pages() {
    let own = [
        ("xpum", fixture::max1550()),
        ("xpumd", fixture::max1550()),
        ("collectd", fixture::max1550()),
        ("amd", fixture::mi300x()),
        ("gaudi", fixture::max1550()),
        ("nvidia-gpu-exporter", fixture::a100()),
        ("fake-gpu-operator", fixture::k80()),
        ("fake-gpu-operator-kwok", fixture::k80()),
        ("runai-mig", fixture::dynamic_mig()),
    ];
    let declared: Vec<_> = Identity::names()
        .into_iter()
        .filter(|n| !n.starts_with("dcgm"))
        .collect();
    let mut covered: Vec<_> = own.iter().map(|(name, _)| *name).collect();
    covered.sort_unstable();
    assert_eq!(declared, covered, "each identity has a page here");
    for (name, image) in own {
        let text = page(name, &Selection::default_set(), Options::default(), &image);
        assert!(!checker::read(&text).unwrap().is_empty(), "{name}");
        golden(name, &text);
    }
}

#[test]
fn every_identity_is_well_formed_on_every_node() {
    let options = Options {
        any_vendor: true,
        virtual_gpus: true,
        pod_uid: true,
        xid_zero: true,
        ..pods()
    };
    for identity in Identity::names() {
        for (name, image) in images() {
            let text = page(identity, &Selection::everything(), options.clone(), &image);
            if let Err(problem) = checker::read(&text) {
                panic!("{identity} on {name}: {problem}");
            }
        }
    }
}

#[test]
fn any_state_gives_a_well_formed_page() {
    let names = Identity::names();
    for seed in 0..120 {
        let options = Options {
            any_vendor: seed % 2 == 0,
            virtual_gpus: seed % 3 == 0,
            ..pods()
        };
        let identity = names[seed as usize % names.len()];
        let text = page(
            identity,
            &Selection::everything(),
            options,
            &fixture::noise(seed),
        );
        if let Err(problem) = checker::read(&text) {
            panic!("{identity} with seed {seed}: {problem}");
        }
    }
}

#[test]
fn hostile_names_stay_inside_their_quotes() {
    let text = page(
        "dcgm",
        &Selection::default_set(),
        pods(),
        &fixture::hostile(),
    );
    let samples = checker::read(&text).unwrap();
    assert!(samples.iter().all(|s| s.name.starts_with("DCGM_FI_")));
    let sample = &samples[0];
    assert_eq!(sample.label("Hostname"), Some("node-\"\\\nx"));
    assert_eq!(sample.label("pod"), Some("p\"} 1\nx{y=\""));
    assert_eq!(sample.label("namespace"), Some("a\nb"));
}

/// Identities that leave the node out of the labels and cannot tell nodes apart: those the reference names.
const NAMELESS: [&str; 4] = ["collectd", "gaudi", "xpumd", "nvidia-gpu-exporter"];

#[test]
fn a_stream_of_many_nodes_is_one_page() {
    let nodes: Vec<Image> = (0..16)
        .map(|n| {
            let mut image = if n % 3 == 0 {
                fixture::mig()
            } else {
                fixture::a100()
            };
            image.header.node = mirage_state::layout::fixed(&format!("node-{n}"));
            image
        })
        .collect();
    for name in Identity::names() {
        let identity = Identity::by_name(name).unwrap();
        let options = Options {
            any_vendor: true,
            ..pods()
        };
        let exporter = Exporter::new(&identity, &Selection::default_set(), options).unwrap();
        let mut whole = Vec::new();
        let mut pieces = 0;
        for chunk in exporter.chunks(nodes.iter().map(Image::node)) {
            assert!(
                chunk.len() < 128 * 1024,
                "{name}: a piece of {}",
                chunk.len()
            );
            whole.extend_from_slice(&chunk);
            pieces += 1;
        }
        let mut again = Vec::new();
        let mut stream = exporter.chunks(nodes.iter().map(Image::node));
        let mut piece = Vec::new();
        while stream.next_into(&mut piece) {
            again.extend_from_slice(&piece);
        }
        assert!(whole == again, "{name}");
        if identity.takes_selection() {
            assert!(pieces > 1, "{name} came in one piece");
        }
        let samples = match checker::read(&whole) {
            Ok(samples) => samples,
            Err(problem) if NAMELESS.contains(&name) => {
                assert!(problem.contains("second series"), "{name}: {problem}");
                continue;
            }
            Err(problem) => panic!("{name}: {problem}"),
        };
        assert!(!NAMELESS.contains(&name), "{name} tells nodes apart");
        let apart: usize = nodes
            .iter()
            .map(|image| {
                let mut out = Vec::new();
                exporter.render_node(&image.node(), &mut out);
                checker::read(&out).unwrap().len()
            })
            .sum();
        assert_eq!(samples.len(), apart, "{name}");
    }
}

#[test]
fn one_node_streams_the_same_as_it_renders() {
    for name in Identity::names() {
        for (_, image) in images() {
            let identity = Identity::by_name(name).unwrap();
            let exporter = Exporter::new(&identity, &Selection::default_set(), pods()).unwrap();
            let mut whole = Vec::new();
            exporter.render_node(&image.node(), &mut whole);
            let streamed: Vec<u8> = exporter
                .chunks(std::iter::once(image.node()))
                .flatten()
                .collect();
            assert!(whole == streamed, "{name}");
        }
    }
}

#[test]
fn no_nodes_no_text() {
    let identity = Identity::by_name("dcgm").unwrap();
    let exporter = Exporter::new(&identity, &Selection::default_set(), pods()).unwrap();
    assert_eq!(
        exporter
            .chunks(std::iter::empty::<mirage_state::Node<'_>>())
            .count(),
        0
    );
    let empty = Image::default();
    let mut out = Vec::new();
    exporter.render_node(&empty.node(), &mut out);
    assert!(out.is_empty());
}

#[test]
fn health_follows_the_state() {
    let tripped = |change: fn(&mut mirage_state::layout::Live)| -> Vec<(String, String, String)> {
        let csv = "DCGM_EXP_GPU_HEALTH_STATUS, gauge, health";
        let csv = Selection::parse_csv(csv, "x").unwrap();
        let mut image = fixture::shared();
        change(&mut image.lives[0]);
        let text = page("dcgm", &csv, Options::default(), &image);
        let samples = checker::read(&text).unwrap();
        assert_eq!(samples.len(), 22, "eleven watches for each GPU");
        let bad = samples.iter().filter(|s| s.value != "0");
        bad.map(|s| {
            let label = |name| s.label(name).unwrap().to_owned();
            (
                label("health_watch"),
                label("health_error_code"),
                s.value.clone(),
            )
        })
        .collect()
    };
    let one = |watch: &str, code: &str, value: &str| {
        vec![(
            watch.to_owned(),
            format!("DCGM_FR_{code}"),
            value.to_owned(),
        )]
    };
    assert_eq!(tripped(|_| {}), []);
    assert_eq!(
        tripped(|l| l.nvlink_up &= !1),
        one("NVLINK", "NVLINK_DOWN", "20")
    );
    assert_eq!(
        tripped(|l| l.reasons = 0x20),
        one("THERMAL", "CLOCKS_EVENT_THERMAL", "10")
    );
    assert_eq!(
        tripped(|l| l.reasons = 0x4),
        one("POWER", "CLOCKS_EVENT_POWER", "10")
    );
    assert_eq!(
        tripped(|l| l.recovery_action = 1),
        one("DRIVER", "GPU_RECOVERY_RESET", "20")
    );
    let both = |l: &mut mirage_state::layout::Live| {
        l.flags |= flags::REMAP_PENDING;
        l.ecc_volatile.uncorrected_dram = 1;
    };
    assert_eq!(tripped(both), one("MEM", "VOLATILE_DBE_DETECTED", "20"));
    assert_eq!(
        tripped(|l| l.flags |= flags::LOST),
        one("ALL", "FALLEN_OFF_BUS", "20")
    );
    assert_eq!(
        tripped(|l| l.health = 1),
        one("PCIE", "PCI_REPLAY_RATE", "10")
    );
}

#[test]
fn devices_choose_what_is_shown() {
    let shown = |devices: &str| -> Vec<String> {
        let options = Options {
            devices: Devices::parse(devices).unwrap(),
            ..Options::default()
        };
        let csv = Selection::parse_csv("DCGM_FI_DEV_FB_USED, gauge, x", "x").unwrap();
        let text = page("dcgm", &csv, options, &fixture::mig());
        checker::read(&text)
            .unwrap()
            .iter()
            .map(|s| {
                let instance = s.label("GPU_I_ID").unwrap_or("-");
                format!("{}/{instance}", s.label("gpu").unwrap())
            })
            .collect()
    };
    assert_eq!(shown("f"), ["0/7", "0/8", "0/5", "0/1", "1/-"]);
    assert_eq!(shown("g"), ["0/-", "1/-"]);
    assert_eq!(shown("g:1-7"), ["1/-"]);
    assert_eq!(shown("i"), ["0/7", "0/8", "0/5", "0/1"]);
    assert_eq!(shown("i:1,3"), ["0/8", "0/1"]);
    assert!(shown("i:8-15").is_empty());
}

#[test]
fn compute_instances_of_one_gpu_instance_count_together() {
    let mut image = fixture::mig();
    // The last instance: a compute instance with one third of its multiprocessors, and one with two.
    let mut statics = Statics::clone(&image.statics);
    statics.gpu_profiles[2].sm_count = 42;
    statics.compute_profiles = [14, 28].map(compute_profile).into();
    image.statics = statics.into();
    let [.., one, other] = &mut image.instances[..] else {
        panic!("two compute instances")
    };
    (one.compute_profile, one.gr_engine_ppm, one.dram_ppm) = (0, 900_000, 0);
    (other.compute_profile, other.gr_engine_ppm, other.dram_ppm) = (1, 300_000, 200_000);
    let csv = "DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, a\nDCGM_FI_PROF_DRAM_ACTIVE, gauge, b\n";
    let selection = Selection::parse_csv(csv, "fields").unwrap();
    let text = page("dcgm", &selection, pods(), &image);
    let samples = checker::read(&text).unwrap();
    let last = samples.iter().filter(|s| s.label("GPU_I_ID") == Some("1"));
    let values: Vec<f64> = last.map(|s| s.value.parse().unwrap()).collect();
    assert_eq!(values, [0.5, 0.2]);
}

fn compute_profile(sm_count: u32) -> ComputeProfile {
    ComputeProfile {
        sm_count,
        ..ComputeProfile::default()
    }
}

#[test]
fn boards_of_other_makers_stay_out_unless_asked_for() {
    let default = Selection::default_set();
    for (identity, image) in [
        ("dcgm", fixture::mi300x()),
        ("amd", fixture::a100()),
        ("nvidia-gpu-exporter", fixture::max1550()),
        ("collectd", fixture::a100()),
    ] {
        let text = page(identity, &default, Options::default(), &image);
        assert!(text.is_empty(), "{identity}");
        let any = Options {
            any_vendor: true,
            ..Options::default()
        };
        assert!(!page(identity, &default, any, &image).is_empty());
    }
}

#[test]
fn a_given_host_name_stands_for_the_nodes() {
    for (identity, label) in [
        ("dcgm", "Hostname"),
        ("dcgm@main", "hostname"),
        ("fake-gpu-operator", "Hostname"),
        ("fake-gpu-operator-kwok", "Hostname"),
    ] {
        let options = Options {
            hostname: Some("gpu-box".to_owned()),
            ..Options::default()
        };
        let text = page(
            identity,
            &Selection::default_set(),
            options,
            &fixture::k80(),
        );
        let samples = checker::read(&text).unwrap();
        assert!(samples.iter().all(|s| s.label(label) == Some("gpu-box")));
    }
}

#[test]
fn an_identity_of_the_users_own() {
    let text = r##"{
        "preamble": "# my exporter 1.0", "comments": "none", "separator": ", ", "numbers": "go",
        "labels": {"dev_file": "$card", "pod": "$pod?"},
        "metrics": [{"name": "my_power", "from": "power_w"}, {"name": "my_memory", "from": "memory_used"}]
    }"##;
    let identity = Identity::parse(text, "mine.json").unwrap();
    let exporter = Exporter::new(&identity, &Selection::default_set(), Options::default()).unwrap();
    let mut out = Vec::new();
    exporter.render_node(&fixture::a100().node(), &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "# my exporter 1.0\n\
         my_power{dev_file=\"card0\", pod=\"train-0\"} 221.713\n\
         my_power{dev_file=\"card1\"} 221.714\n\
         my_memory{dev_file=\"card0\", pod=\"train-0\"} 5.24288e+09\n\
         my_memory{dev_file=\"card1\"} 1.048576e+10\n"
    );
}

#[test]
fn the_reference_page_is_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    if std::env::var_os("MIRAGE_BLESS").is_some() {
        std::fs::create_dir_all(&docs).unwrap();
    }
    compare(
        &docs.join("metrics.md"),
        mirage_metrics::reference().as_bytes(),
    );
}
