//! What nodes of several kinds have to give.

use std::time::Duration;

use mirage_model::plan::DeviceRef;
use mirage_sim::{Answer, Input, MigOp, Profile, World};

use super::*;
use crate::publish::{self, Clock};
use crate::source::Source;

/// A node of some GPUs; those listed are in MIG mode, with devices of these profiles.
fn node(model: &str, gpus: u32, split: &[(u32, &[&str])]) -> Image {
    let source = Source {
        config: None,
        model: Some(model.into()),
        gpus: Some(gpus),
        nodes: 1,
        seed: None,
        alone: None,
        is_nothing: false,
    };
    let mut plan = source.plan("n").unwrap();
    // A GPU that is in use keeps its mode.
    plan.workloads.clear();
    let clock = Clock {
        start_unix_ms: 0,
        period: Duration::from_secs(1),
        epoch: 0,
    };
    let mut world = World::new(&plan);
    for (gpu, profiles) in split {
        let device = DeviceRef {
            node: 0,
            gpu: *gpu,
            instance: None,
        };
        let mig = |op| Input::Mig { device, op };
        let mut inputs = vec![mig(MigOp::Enable(true)), Input::Reset { device }];
        let create = |profile: &&str| MigOp::CreateGi {
            profile: Profile::Name((*profile).into()),
            start: None,
        };
        inputs.extend(profiles.iter().map(create).map(mig));
        for answer in world.step(&inputs, Duration::ZERO) {
            let Answer::GpuInstance { gi, .. } = answer.unwrap() else {
                continue;
            };
            let fill = mig(MigOp::CreateCi {
                gi,
                profile: None,
                start: None,
            });
            world.step(&[fill], Duration::ZERO).remove(0).unwrap();
        }
    }
    let image = publish::images(&plan, clock).remove(0);
    let mut image = std::sync::Arc::unwrap_or_clone(image);
    publish::refresh(&mut image, &plan, &world, 0, clock);
    image
}

fn names(inventory: &Inventory) -> Vec<(&str, usize)> {
    let kinds = inventory.kinds.iter();
    kinds
        .map(|kind| (kind.name.as_str(), kind.ids.len()))
        .collect()
}

fn plain(image: &Image, strategy: MigStrategy) -> Inventory {
    take(image, strategy, &Sharing::default(), &[])
}

const A100: &str = "a100-sxm4-40gb";

#[test]
fn gpus_are_offered_under_their_true_ids() {
    let image = node(A100, 8, &[]);
    for strategy in [MigStrategy::None, MigStrategy::Single, MigStrategy::Mixed] {
        let inventory = plain(&image, strategy);
        assert_eq!(names(&inventory), [("nvidia.com/gpu", 8)]);
        let kind = &inventory.kinds[0];
        assert_eq!(kind.socket, "nvidia-gpu.sock");
        for (card, (id, _)) in image.cards.iter().zip(&kind.ids) {
            assert_eq!(text(&card.uuid), id);
            assert_eq!(kind.unit(id).unwrap().numa, Some(i64::from(card.numa)));
        }
        assert_eq!(inventory.trouble, None);
    }
}

#[test]
fn mixed_offers_every_profile_by_name() {
    let image = node(
        A100,
        3,
        &[(0, &["1g.5gb", "1g.5gb", "3g.20gb"]), (2, &["1g.5gb+me"])],
    );
    let inventory = plain(&image, MigStrategy::Mixed);
    let mut found = names(&inventory);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("nvidia.com/gpu", 1),
            ("nvidia.com/mig-1g.5gb", 2),
            ("nvidia.com/mig-1g.5gb.me", 1),
            ("nvidia.com/mig-3g.20gb", 1),
        ]
    );
    let slices = inventory.kind("nvidia.com/mig-1g.5gb").unwrap();
    assert_eq!(slices.socket, "nvidia-mig-1g.5gb.sock");
    assert!(slices.ids.iter().all(|(id, _)| id.starts_with("MIG-")));
    assert!(slices.units[0].number.starts_with("0:"));
    // Whole GPUs, whatever their mode.
    assert_eq!(
        names(&plain(&image, MigStrategy::None)),
        [("nvidia.com/gpu", 3)]
    );
}

#[test]
fn single_wants_all_alike() {
    let alike = node(A100, 2, &[(0, &["1g.5gb"; 7]), (1, &["1g.5gb"; 7])]);
    let inventory = plain(&alike, MigStrategy::Single);
    assert_eq!(names(&inventory), [("nvidia.com/gpu", 14)]);
    assert_eq!(inventory.trouble, None);
    for (image, why) in [
        (
            node(A100, 2, &[(0, &["1g.5gb"])]),
            "GPU 1 is not in MIG mode",
        ),
        (
            node(A100, 2, &[(0, &["1g.5gb"]), (1, &[])]),
            "GPU 1 is in MIG mode and has no MIG devices",
        ),
        (
            node(A100, 1, &[(0, &["1g.5gb", "2g.10gb"])]),
            "several profiles",
        ),
    ] {
        let inventory = plain(&image, MigStrategy::Single);
        assert_eq!(names(&inventory), []);
        let trouble = inventory.trouble.unwrap();
        assert!(trouble.contains(why), "{trouble}");
    }
}

#[test]
fn shares_have_ids_of_their_own() {
    let image = node(A100, 2, &[]);
    let mut sharing = Sharing {
        by_name: vec![("nvidia.com/gpu".into(), 4)],
        ..Sharing::default()
    };
    let inventory = take(&image, MigStrategy::None, &sharing, &[]);
    assert_eq!(names(&inventory), [("nvidia.com/gpu", 8)]);
    let kind = &inventory.kinds[0];
    let uuid = text(&image.cards[1].uuid);
    assert_eq!(kind.ids[7].0, format!("{uuid}::3"));
    assert_eq!(kind.unit(&kind.ids[7].0).unwrap().uuid, uuid);
    assert!(kind.shared);
    sharing.rename = true;
    let renamed = take(&image, MigStrategy::None, &sharing, &[]);
    assert_eq!(names(&renamed), [("nvidia.com/gpu.shared", 8)]);
    assert_eq!(renamed.kinds[0].socket, "nvidia-gpu.shared.sock");
}

#[test]
fn further_resources_are_counted() {
    let image = node(A100, 1, &[]);
    let extras = [
        ("example.com/widget".to_owned(), 2),
        ("nvidia.com/mig-1g.5gb".to_owned(), 7),
    ];
    let inventory = take(&image, MigStrategy::Mixed, &Sharing::default(), &extras);
    assert_eq!(
        names(&inventory),
        [
            ("nvidia.com/gpu", 1),
            ("example.com/widget", 2),
            ("nvidia.com/mig-1g.5gb", 7)
        ]
    );
    assert_eq!(inventory.kinds[1].socket, "example_com_widget.sock");
    assert_eq!(inventory.kinds[1].ids[1].0, "widget-1");
    for bad in ["nvidia.com/gpu", "widget", "kubernetes.io/x"] {
        let extras = [(bad.to_owned(), 1)];
        let inventory = take(&image, MigStrategy::Mixed, &Sharing::default(), &extras);
        assert_eq!(names(&inventory), [("nvidia.com/gpu", 1)]);
        assert!(inventory.trouble.unwrap().contains(bad));
    }
    let long = format!("{}/{}", "a.".repeat(100) + "com", "b".repeat(63));
    assert!(socket(&long).len() <= LONGEST_SOCKET + 5);
    assert!(short(&"b".repeat(63), 4095).len() <= 63);
}
