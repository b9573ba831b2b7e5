use std::{collections::HashMap, ffi::OsString, fs};

use super::*;
use crate::{fixture, layout::fixed};

const GPU_0: &str = "GPU-00000000-1111-4222-8333-444444444444";
const GPU_2: &str = "GPU-00000002-1111-4222-8333-444444444444";
const MIG_0: &str = "MIG-00010000-5555-4666-8777-888888888888";

/// Four GPUs; the second has MIG devices 0 and 1, and a GPU instance without a compute instance.
fn node() -> (Vec<Card>, Vec<Instance>) {
    let cards = (0..4).map(fixture::card).collect();
    let empty = Instance {
        uuid: fixed(""),
        gpu: 1,
        gi: 9,
        ci: u32::MAX,
        index: u32::MAX,
        ..Instance::default()
    };
    let instances = vec![fixture::instance(1, 0), fixture::instance(1, 1), empty];
    (cards, instances)
}

fn mig(index: u32) -> MigDevice {
    MigDevice {
        gpu: 1,
        gi: 7 + index,
        ci: 0,
    }
}

fn listed(list: &str) -> Visible {
    let (cards, instances) = node();
    let sources = Sources {
        mirage: Some(list.into()),
        ..Sources::default()
    };
    sources.decide(&cards, &instances)
}

#[test]
fn lists_mean_what_they_say() {
    type Case<'a> = (&'a str, &'a [u32], &'a [MigDevice], &'a [&'a str]);
    let whole_old = "MIG-GPU-00000001-1111-4222-8333-444444444444/8/0";
    let cases: &[Case<'_>] = &[
        ("all", &[0, 1, 2, 3], &[], &[]),
        ("none", &[], &[], &[]),
        ("void", &[], &[], &[]),
        ("", &[], &[], &[]),
        (" ,\n", &[], &[], &[]),
        ("0", &[0], &[], &[]),
        ("3,1", &[1, 3], &[], &[]),
        ("2, 2 ,2", &[2], &[], &[]),
        ("0\n2\n", &[0, 2], &[], &[]),
        ("0,all", &[0, 1, 2, 3], &[], &[]),
        (GPU_2, &[2], &[], &[]),
        ("gpu-00000002-1111-4222-8333-444444444444", &[2], &[], &[]),
        ("GPU-00000002", &[2], &[], &[]),
        ("GPU-0000000", &[], &[], &["GPU-0000000"]),
        ("GPU-", &[], &[], &["GPU-"]),
        (MIG_0, &[1], &[mig(0)], &[]),
        ("MIG-00010001", &[1], &[mig(1)], &[]),
        ("MIG-0001", &[], &[], &["MIG-0001"]),
        ("1:1", &[1], &[mig(1)], &[]),
        ("1:1,1:0,0", &[0, 1], &[mig(0), mig(1)], &[]),
        ("1:1,1", &[1], &[], &[]),
        ("1:2", &[], &[], &["1:2"]),
        ("1:4294967295", &[], &[], &["1:4294967295"]),
        ("0:0", &[], &[], &["0:0"]),
        (whole_old, &[1], &[mig(1)], &[]),
        ("MIG-GPU-x/8", &[], &[], &["MIG-GPU-x/8"]),
        ("4", &[], &[], &["4"]),
        ("99999999999", &[], &[], &["99999999999"]),
        ("+1", &[], &[], &["+1"]),
        ("-1", &[], &[], &["-1"]),
        ("0,what,1,what", &[0, 1], &[], &["what"]),
        ("none,0", &[0], &[], &["none"]),
        ("ALL", &[], &[], &["ALL"]),
        ("GPU-é,:,1:,/", &[], &[], &["GPU-é", ":", "1:", "/"]),
    ];
    for (list, gpus, instances, unknown) in cases {
        let seen = listed(list);
        assert_eq!(seen.gpus, *gpus, "{list:?}");
        assert_eq!(seen.instances, *instances, "{list:?}");
        assert_eq!(seen.unknown, *unknown, "{list:?}");
    }
}

#[test]
fn uuids_of_any_form_match_whole() {
    let (mut cards, instances) = node();
    cards[3].uuid = fixed("my-gpu");
    let sources = Sources {
        mirage: Some("my-gpu".into()),
        ..Sources::default()
    };
    assert_eq!(sources.decide(&cards, &instances).gpus, [3]);
}

#[test]
fn the_first_source_that_speaks_decides() {
    let (cards, instances) = node();
    let some = |text: &str| Some(text.to_owned());
    type Case = (
        (Option<String>, Option<String>, Vec<u32>, Option<String>),
        (Vec<u32>, Decider),
    );
    let all = vec![0, 1, 2, 3];
    let cases: Vec<Case> = vec![
        ((None, None, vec![], None), (all.clone(), Decider::Nobody)),
        (
            (some(GPU_0), some("1"), vec![2], some("3")),
            (vec![0], Decider::View),
        ),
        (
            (some(""), some("1"), vec![2], some("3")),
            (vec![], Decider::View),
        ),
        (
            (None, some("1"), vec![2], some("3")),
            (vec![1], Decider::Mirage),
        ),
        (
            (None, some(""), vec![2], some("3")),
            (vec![], Decider::Mirage),
        ),
        (
            (None, None, vec![2], some("3")),
            (vec![2], Decider::DeviceNodes),
        ),
        // Nodes of other GPUs say nothing about ours.
        (
            (None, None, vec![2, 9], some("all")),
            (vec![2], Decider::DeviceNodes),
        ),
        ((None, None, vec![9], some("3")), (vec![3], Decider::Nvidia)),
        // All nodes there: they decide nothing, except against CDI's `void`.
        (
            (None, None, all.clone(), some("3")),
            (vec![3], Decider::Nvidia),
        ),
        (
            (None, None, all.clone(), some("void")),
            (all.clone(), Decider::DeviceNodes),
        ),
        (
            (None, None, all.clone(), some("none")),
            (vec![], Decider::Nvidia),
        ),
        (
            (None, None, all.clone(), None),
            (all.clone(), Decider::Nobody),
        ),
        (
            (None, None, vec![], some("void")),
            (vec![], Decider::Nvidia),
        ),
        ((None, None, vec![], some("all")), (all, Decider::Nvidia)),
    ];
    for ((view, mirage, minors, nvidia), (gpus, decider)) in cases {
        let sources = Sources {
            view,
            mirage,
            minors,
            nvidia,
        };
        let seen = sources.decide(&cards, &instances);
        assert_eq!((&seen.gpus, seen.decider), (&gpus, decider), "{sources:?}");
    }
}

#[test]
fn minors_need_not_be_indices() {
    let (mut cards, instances) = node();
    cards[0].minor = 5;
    let sources = Sources {
        minors: vec![5],
        ..Sources::default()
    };
    assert_eq!(sources.decide(&cards, &instances).gpus, [0]);
}

#[test]
fn a_node_without_gpus_shows_none() {
    let sources = Sources {
        nvidia: Some("void".into()),
        minors: vec![0],
        ..Sources::default()
    };
    let seen = sources.decide(&[], &[fixture::instance(1, 0)]);
    assert_eq!((seen.gpus, seen.unknown.len()), (vec![], 0));
    // A MIG device on a GPU that is not there is not there either.
    let sources = Sources {
        mirage: Some(MIG_0.into()),
        ..Sources::default()
    };
    let seen = sources.decide(&[], &[fixture::instance(1, 0)]);
    assert_eq!((seen.gpus, seen.unknown), (vec![], vec![MIG_0.to_owned()]));
}

#[test]
fn parts_hide_their_siblings_only() {
    let seen = listed("1:1,3");
    assert!(seen.shows(mig(1)));
    assert!(!seen.shows(mig(0)));
    assert!(seen.shows(MigDevice {
        gpu: 3,
        gi: 0,
        ci: 0
    }));
    assert!(!seen.shows(MigDevice {
        gpu: 2,
        gi: 0,
        ci: 0
    }));
    assert_eq!(
        (seen.gpu(0), seen.gpu(1), seen.gpu(2)),
        (Some(1), Some(3), None)
    );
}

#[test]
fn sources_are_gathered_from_where_they_are_named() {
    let root = tempfile::tempdir().unwrap();
    let dev = root.path().join("dev");
    fs::create_dir(&dev).unwrap();
    for name in [
        "nvidia0",
        "nvidia12",
        "nvidiactl",
        "nvidia-uvm",
        "nvidia",
        "nvidia+1",
        "null",
    ] {
        fs::write(dev.join(name), "").unwrap();
    }
    let view = root.path().join("view");
    let env: HashMap<&str, OsString> = HashMap::from([
        ("MIRAGE_VIEW", view.clone().into()),
        ("MIRAGE_DEV", dev.into()),
        ("MIRAGE_VISIBLE_DEVICES", "0".into()),
        ("NVIDIA_VISIBLE_DEVICES", "all".into()),
    ]);
    let gather = || Sources::gather_with(|name| env.get(name).cloned());
    let mut expected = Sources {
        view: None,
        mirage: Some("0".into()),
        minors: vec![0, 12],
        nvidia: Some("all".into()),
    };
    assert_eq!(gather(), expected);
    fs::write(&view, "GPU-1\nGPU-2\n").unwrap();
    expected.view = Some("GPU-1\nGPU-2\n".into());
    assert_eq!(gather(), expected);
}

#[test]
fn a_directory_of_marks_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let view = dir.path().join("view");
    let gather = || {
        let view = view.clone();
        Sources::gather_with(|name| (name == "MIRAGE_VIEW").then(|| view.clone().into())).view
    };
    fs::create_dir(&view).unwrap();
    assert_eq!(gather(), None);
    // As a runtime leaves it where something was mounted in an earlier life of the container.
    fs::write(view.join("GPU-9"), "").unwrap();
    fs::create_dir(view.join("GPU-8")).unwrap();
    assert_eq!(gather(), None);
    for device in [MIG_0, "1:1", GPU_2] {
        fs::write(view.join(device), "visible\n").unwrap();
    }
    let list = gather().unwrap();
    assert_eq!(list, format!("1:1\n{GPU_2}\n{MIG_0}"));
    let (cards, instances) = node();
    let seen = Sources {
        view: Some(list),
        ..Sources::default()
    }
    .decide(&cards, &instances);
    assert_eq!(seen.gpus, [1, 2]);
    assert_eq!(seen.instances, [mig(0), mig(1)]);
    assert_eq!(seen.decider, Decider::View);
}
