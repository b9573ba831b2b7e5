use std::sync::Arc;

use mirage_state::layout::{ComputeProfile, GpuProfile, Header, Instance, Live, fixed};
use mirage_state::{Image, Statics};

use super::*;

/// Two GPUs; `mig` are the profiles of the MIG devices on each, `None` with MIG off.
fn image(mig: [Option<&[u32]>; 2]) -> Image {
    let board = Board {
        name: fixed("NVIDIA A100-SXM4-40GB"),
        product: fixed("NVIDIA-A100-SXM4-40GB"),
        cc_major: 8,
        max_mig_instances: 7,
        ..Board::default()
    };
    let profile = |name: &str, mib: u64, slices: u32, sms: u32, copies: u32, decoders: u32| {
        let gpu = GpuProfile {
            name: fixed(name),
            memory: mib << 20,
            slices,
            sm_count: sms,
            ..GpuProfile::default()
        };
        let compute = ComputeProfile {
            name: fixed(name),
            slices,
            sm_count: sms,
            shared_copy_engines: copies,
            shared_decoders: decoders,
            ..ComputeProfile::default()
        };
        (gpu, compute)
    };
    let (gpu_profiles, compute_profiles) = [
        profile("1g.5gb", 4864, 1, 14, 1, 0),
        profile("2g.10gb", 9984, 2, 28, 2, 1),
        profile("1g.5gb+me", 4864, 1, 14, 1, 1),
    ]
    .into_iter()
    .unzip();
    let mut image = Image {
        header: Box::new(Header {
            cuda_version: 12050,
            driver: fixed("550.107.02"),
            ..Header::default()
        }),
        statics: Arc::new(Statics {
            boards: vec![board],
            gpu_profiles,
            compute_profiles,
        }),
        ..Image::default()
    };
    let card = Card {
        memory_total: 40960 << 20,
        ..Card::default()
    };
    image.cards = vec![card; 2].into();
    for (gpu, profiles) in mig.into_iter().enumerate() {
        image.lives.push(Live {
            flags: if profiles.is_some() { flags::MIG } else { 0 },
            ..Live::default()
        });
        for (index, &profile) in profiles.unwrap_or(&[]).iter().enumerate() {
            image.instances.push(Instance {
                gpu: gpu as u32,
                gi: index as u32,
                index: index as u32,
                gpu_profile: profile,
                compute_profile: profile,
                ..Instance::default()
            });
        }
    }
    image
}

fn options(strategy: MigStrategy) -> Options {
    Options {
        strategy,
        sharing: Sharing::default(),
        machine: "NVIDIA DGX A100 (920-23687)".into(),
        timestamp: Some(1_700_000_000),
    }
}

#[track_caller]
fn check(labels: &Labels, wanted: &[(&str, &str)]) {
    for (key, value) in wanted {
        let found = labels.get(&format!("{PREFIX}{key}")).map(String::as_str);
        assert_eq!(found, Some(*value), "{key}");
    }
}

#[test]
fn whole_gpus_have_the_full_set_and_nothing_else() {
    let labels = labels(&image([None, None]), &options(MigStrategy::None));
    let wanted = [
        ("gfd.timestamp", "1700000000"),
        ("gpu.machine", "NVIDIA-DGX-A100-920-23687"),
        ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
        ("gpu.count", "2"),
        ("gpu.replicas", "1"),
        ("gpu.sharing-strategy", "none"),
        ("gpu.memory", "40960"),
        ("gpu.family", "ampere"),
        ("gpu.compute.major", "8"),
        ("gpu.compute.minor", "0"),
        ("gpu.mode", "compute"),
        ("mig.capable", "true"),
        ("mps.capable", "false"),
        ("vgpu.present", "false"),
        ("cuda.driver-version.major", "550"),
        ("cuda.driver-version.minor", "107"),
        ("cuda.driver-version.revision", "02"),
        ("cuda.driver-version.full", "550.107.02"),
        ("cuda.driver.major", "550"),
        ("cuda.driver.minor", "107"),
        ("cuda.driver.rev", "02"),
        ("cuda.runtime-version.major", "12"),
        ("cuda.runtime-version.minor", "5"),
        ("cuda.runtime-version.full", "12.5"),
        ("cuda.runtime.major", "12"),
        ("cuda.runtime.minor", "5"),
    ];
    check(&labels, &wanted);
    assert_eq!(labels.len(), wanted.len());
}

#[test]
fn the_single_strategy_shows_mig_devices_as_gpus() {
    let seven = [0; 7];
    let labels = labels(
        &image([Some(&seven), Some(&seven)]),
        &options(MigStrategy::Single),
    );
    check(
        &labels,
        &[
            ("mig.strategy", "single"),
            ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
            ("gpu.count", "14"),
            ("gpu.replicas", "1"),
            ("gpu.memory", "4864"),
            ("gpu.multiprocessors", "14"),
            ("gpu.slices.gi", "1"),
            ("gpu.slices.ci", "1"),
            ("gpu.engines.copy", "1"),
            ("gpu.engines.decoder", "0"),
            ("gpu.engines.encoder", "0"),
            ("gpu.engines.jpeg", "0"),
            ("gpu.engines.ofa", "0"),
            ("gpu.family", "ampere"),
        ],
    );
}

#[test]
fn the_single_strategy_without_mig_is_as_none() {
    let single = labels(&image([None, None]), &options(MigStrategy::Single));
    let mut none = labels(&image([None, None]), &options(MigStrategy::None));
    none.insert("nvidia.com/mig.strategy".into(), "single".into());
    assert_eq!(single, none);
}

#[test]
fn what_does_not_fit_the_single_strategy_is_invalid() {
    for mig in [
        [Some(&[0][..]), None],
        [Some(&[0]), Some(&[])],
        [Some(&[0, 0]), Some(&[0, 1])],
    ] {
        let labels = labels(&image(mig), &options(MigStrategy::Single));
        check(
            &labels,
            &[
                ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-INVALID"),
                ("gpu.count", "0"),
                ("gpu.replicas", "0"),
                ("gpu.memory", "0"),
                ("mig.strategy", "single"),
            ],
        );
    }
}

#[test]
fn the_mixed_strategy_adds_every_profile() {
    let labels = labels(
        &image([Some(&[1, 1, 0]), Some(&[2])]),
        &options(MigStrategy::Mixed),
    );
    check(
        &labels,
        &[
            ("mig.strategy", "mixed"),
            ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ("gpu.count", "2"),
            ("gpu.replicas", "0"),
            ("mig-1g.5gb.count", "1"),
            ("mig-1g.5gb.memory", "4864"),
            ("mig-2g.10gb.product", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"),
            ("mig-2g.10gb.count", "2"),
            ("mig-2g.10gb.replicas", "1"),
            ("mig-2g.10gb.sharing-strategy", "none"),
            ("mig-2g.10gb.memory", "9984"),
            ("mig-2g.10gb.multiprocessors", "28"),
            ("mig-2g.10gb.slices.gi", "2"),
            ("mig-2g.10gb.slices.ci", "2"),
            ("mig-2g.10gb.engines.copy", "2"),
            ("mig-2g.10gb.engines.decoder", "1"),
            ("mig-1g.5gb.me.count", "1"),
            (
                "mig-1g.5gb.me.product",
                "NVIDIA-A100-SXM4-40GB-MIG-1g.5gbme",
            ),
        ],
    );
}

#[test]
fn a_part_of_an_instance_has_its_own_labels() {
    let mut image = image([Some(&[1]), None]);
    let mut statics = Statics::clone(&image.statics);
    statics.compute_profiles.push(ComputeProfile {
        name: fixed("1c.2g.10gb"),
        slices: 1,
        sm_count: 14,
        ..ComputeProfile::default()
    });
    image.statics = Arc::new(statics);
    image.instances[0].compute_profile = 3;
    check(
        &labels(&image, &options(MigStrategy::Mixed)),
        &[
            (
                "mig-1c.2g.10gb.product",
                "NVIDIA-A100-SXM4-40GB-MIG-1c.2g.10gb",
            ),
            ("mig-1c.2g.10gb.count", "1"),
            ("mig-1c.2g.10gb.slices.gi", "2"),
            ("mig-1c.2g.10gb.slices.ci", "1"),
        ],
    );
}

#[test]
fn shared_devices_say_so_unless_their_resource_does() {
    let mut shared = options(MigStrategy::Mixed);
    shared.sharing.every = Some(4);
    shared.sharing.by_name = vec![("nvidia.com/mig-1g.5gb".into(), 2)];
    let image = image([None, Some(&[0])]);
    check(
        &labels(&image, &shared),
        &[
            ("gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED"),
            ("gpu.count", "2"),
            ("gpu.replicas", "4"),
            ("gpu.sharing-strategy", "time-slicing"),
            ("mig-1g.5gb.replicas", "2"),
            (
                "mig-1g.5gb.product",
                "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
            ),
        ],
    );
    shared.sharing.is_renamed = true;
    check(
        &labels(&image, &shared),
        &[
            ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ("gpu.replicas", "4"),
        ],
    );
}

#[test]
fn values_are_fit_for_labels() {
    for (text, value) in [
        ("PowerEdge R750 (SKU=0A6B)", "PowerEdge-R750-SKU0A6B"),
        ("  two  blanks ", "two-blanks"),
        ("-._x_.-", "x"),
        ("Ünïcode", "ncode"),
        ("", ""),
    ] {
        assert_eq!(sanitised(text), value);
    }
    let long = sanitised(&"ab-".repeat(40));
    assert!(long.len() <= LONGEST && long.ends_with('b'), "{long}");
    assert!(labels(&Image::default(), &options(MigStrategy::Mixed)).is_empty());
    let mut nameless = options(MigStrategy::None);
    nameless.machine.clear();
    check(
        &labels(&image([None, None]), &nameless),
        &[("gpu.machine", "unknown")],
    );
}

#[test]
fn a_fabric_is_named_when_all_are_in_it() {
    let mut image = image([None, None]);
    let key = format!("{PREFIX}gpu.clique");
    let card = Card {
        fabric_state: FABRIC_COMPLETED,
        cluster: *b"0123456789abcdef",
        clique: 7,
        ..Card::default()
    };
    image.cards = vec![card; 2].into();
    let found = labels(&image, &options(MigStrategy::None));
    assert_eq!(
        found.get(&key).map(String::as_str),
        Some("30313233-3435-3637-3839-616263646566.7")
    );
    let other = Card { clique: 8, ..card };
    image.cards = vec![card, other].into();
    assert!(!labels(&image, &options(MigStrategy::None)).contains_key(&key));
}
