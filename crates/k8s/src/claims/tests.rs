//! Claims over nodes.

use std::sync::Arc;

use mirage_state::layout::{Card, GpuProfile, Instance, Live, fixed};
use mirage_state::{Image, Statics};
use proptest::prelude::*;

use super::*;

/// Two GPUs, `GPU-0` (60 %, 100 bytes) and `GPU-1`; the second has instances 3 and 7.
fn node() -> Image {
    let cards = [("GPU-0", 4), ("GPU-1", 5)].map(|(uuid, minor)| Card {
        uuid: fixed(uuid),
        minor,
        ..Card::default()
    });
    let instance = |uuid: &str, gi: u32, index: u32| Instance {
        uuid: fixed(uuid),
        gpu: 1,
        gi,
        index,
        start: 4,
        memory_used: 10,
        gr_engine_ppm: 500_000,
        ..Instance::default()
    };
    let mut image = Image {
        cards: Arc::new(cards),
        statics: Arc::new(Statics {
            gpu_profiles: vec![GpuProfile {
                name: fixed("1g.5gb"),
                id: 19,
                ..GpuProfile::default()
            }],
            ..Statics::default()
        }),
        lives: vec![
            Live {
                gpu_percent: 60,
                memory_used: 100,
                ..Live::default()
            },
            Live::default(),
        ],
        instances: vec![instance("MIG-a", 3, 0), instance("MIG-b", 7, 1)],
        ..Image::default()
    };
    image.header.node = fixed("here");
    image
}

fn holder(pod: &str) -> Arc<Holder> {
    Arc::new(Holder {
        namespace: "ns".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
        uid: None,
    })
}

fn claims(list: &[(&str, &str)]) -> Claims {
    let mut claims = Claims::default();
    for (pod, id) in list {
        claims.push(Claim::of_id(holder(pod), id));
    }
    claims
}

/// `pod gpu gi percent memory` of every holding.
fn held(image: &Image) -> Vec<String> {
    let node = image.node();
    let line = |h: &mirage_state::layout::Holding| {
        let container = &node.containers[h.container as usize];
        let gi = if h.gi == u32::MAX {
            "-".to_owned()
        } else {
            h.gi.to_string()
        };
        format!(
            "{} {} {gi} {} {}",
            node.text(container.pod),
            h.gpu,
            h.gpu_percent,
            h.memory
        )
    };
    node.holdings.iter().map(line).collect()
}

fn after(claims: &Claims, how: IdType, local: bool) -> Vec<String> {
    let mut image = node();
    claims.attribute(&mut image, how, local);
    held(&image)
}

#[test]
fn every_form_of_an_id_finds_its_device() {
    for (id, place) in [
        ("GPU-0", "p 0 - 60 100"),
        ("GPU-0::2", "p 0 - 60 100"),
        ("nvidia0", "p 0 - 60 100"),
        ("nvidia0/vgpu1", "p 0 - 60 100"),
        ("0", "p 0 - 60 100"),
        ("MIG-a", "p 1 3 50 10"),
        ("MIG-b::0", "p 1 7 50 10"),
        ("MIG-GPU-1/7/0", "p 1 7 50 10"),
        ("nvidia1/gi3", "p 1 3 50 10"),
        ("nvidia1/gi3/vgpu0", "p 1 3 50 10"),
        ("1:1", "p 1 7 50 10"),
    ] {
        assert_eq!(
            after(&claims(&[("p", id)]), IdType::Any, true),
            [place],
            "{id}"
        );
    }
    for id in ["GPU-9", "2", "nvidia2", "MIG-c", "nvidia1/gi9", "1:9", "x"] {
        assert!(
            after(&claims(&[("p", id)]), IdType::Any, true).is_empty(),
            "{id}"
        );
    }
}

#[test]
fn the_id_type_narrows_how_gpus_are_found() {
    for (id, uid, name) in [
        ("GPU-0", true, false),
        ("nvidia0", false, true),
        ("0", false, false),
        // Instances are found in either way.
        ("MIG-a", true, true),
        ("nvidia1/gi3", true, true),
    ] {
        let claims = claims(&[("p", id)]);
        assert_eq!(
            !after(&claims, IdType::Uid, true).is_empty(),
            uid,
            "{id} by UUID"
        );
        assert_eq!(
            !after(&claims, IdType::DeviceName, true).is_empty(),
            name,
            "{id} by name"
        );
    }
}

#[test]
fn only_uuids_reach_another_node() {
    for (id, found) in [
        ("GPU-0", true),
        ("MIG-a", true),
        ("nvidia0", false),
        ("0", false),
        ("nvidia1/gi3", false),
    ] {
        let claims = claims(&[("p", id)]);
        assert_eq!(
            !after(&claims, IdType::Any, false).is_empty(),
            found,
            "{id}"
        );
    }
    let mut minors = Claims::default();
    minors.push(Claim::of_minor(holder("p"), 5));
    assert_eq!(after(&minors, IdType::Any, true), ["p 1 - 0 0"]);
    assert!(after(&minors, IdType::Any, false).is_empty());
}

#[test]
fn devices_of_resource_claims_are_found_by_pool_and_name() {
    for (pool, device, place) in [
        ("here", "gpu-4", Some("p 0 - 60 100")),
        ("here", "gpu-5-mig-1g5gb-19-4", Some("p 1 3 50 10")),
        ("elsewhere", "gpu-4", None),
        ("here", "gpu-6", None),
    ] {
        let mut claims = Claims::default();
        claims.push(Claim::of_claim(holder("p"), pool, device));
        let got = after(&claims, IdType::Uid, true);
        assert_eq!(got.first().map(String::as_str), place, "{pool}/{device}");
    }
}

#[test]
fn the_last_claim_on_a_device_stands_last() {
    let claims = claims(&[("z", "GPU-0"), ("a", "GPU-0::1")]);
    assert_eq!(
        after(&claims, IdType::Any, true),
        ["z 0 - 30 50", "a 0 - 30 50"]
    );
}

#[test]
fn whom_the_engine_knows_of_does_not_stand_before_whom_the_kubelet_names() {
    let mut image = node();
    // The engine has them in the order they began; the second one was given the device by nobody.
    let first = claims(&[
        ("holder", "GPU-0::3"),
        ("sharer", "GPU-0"),
        ("other", "MIG-a"),
    ]);
    first.attribute(&mut image, IdType::Any, true);
    let source = claims(&[("holder", "GPU-0::3"), ("other", "MIG-a")]);
    let found = overlay::places(&source, &image, IdType::Any, true);
    let grants = overlay::lay(&source, &mut image, found);
    assert_eq!(
        held(&image),
        ["sharer 0 - 30 50", "holder 0 - 30 50", "other 1 3 50 10"]
    );
    assert_eq!((grants.len(), grants[0].holding), (1, 1));
}

#[test]
fn nothing_is_counted_twice() {
    let mut image = node();
    claims(&[("p", "GPU-0")]).attribute(&mut image, IdType::Any, true);
    image.holdings[0].gpu_percent = 40;
    image.holdings[0].memory = 70;
    // The same container from two sources, under two names of the device, twice; and one more.
    let mut both = claims(&[("p", "GPU-0"), ("p", "nvidia0"), ("p", "GPU-0::1")]);
    both.extend(&claims(&[("p", "0"), ("q", "GPU-0")]));
    both.attribute(&mut image, IdType::Any, true);
    assert_eq!(held(&image), ["p 0 - 40 70", "q 0 - 20 30"]);
    assert_eq!(image.containers.len(), 2);
}

#[test]
fn a_node_nobody_claims_is_not_copied() {
    let image = Arc::new(node());
    let other = claims(&[("p", "GPU-9")]).laid_over(&image, IdType::Any, true);
    assert!(Arc::ptr_eq(&image, &other));
    let mine = claims(&[("p", "GPU-0")]).laid_over(&image, IdType::Any, true);
    assert_eq!(held(&mine), ["p 0 - 60 100"]);
    assert!(held(&image).is_empty());
}

#[test]
fn a_uid_is_kept_from_whichever_source_knows_it() {
    let mut known = (*holder("p")).clone();
    known.uid = Some("u-1".to_owned());
    let mut both = claims(&[("p", "GPU-0")]);
    both.push(Claim::of_id(Arc::new(known), "GPU-0"));
    let mut image = node();
    both.attribute(&mut image, IdType::Any, true);
    assert_eq!(image.containers.len(), 1);
    assert_eq!(image.node().text(image.containers[0].uid), "u-1");
}

#[test]
fn impossible_names_are_left_out_and_counted() {
    let mut claims = Claims::default();
    for (namespace, pod, container, uid) in [
        ("", "p", "c", None),
        ("n", "", "c", None),
        ("n", "p\"} 1\nbad", "c", None),
        ("n", "p", "c\\", None),
        ("n", "p", "c", Some("u\n")),
        ("n", "ünicode", "c", None),
    ] {
        let holder = Holder {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            uid: uid.map(str::to_owned),
        };
        claims.push(Claim::of_id(Arc::new(holder), "GPU-0"));
    }
    let long = Holder {
        pod: "p".repeat(254),
        ..(*holder("p")).clone()
    };
    claims.push(Claim::of_id(Arc::new(long), "GPU-0"));
    claims.push(Claim::of_id(holder("p"), ""));
    claims.push(Claim::of_id(holder("p"), &"x".repeat(300)));
    assert_eq!((claims.len(), claims.skipped()), (0, 9));
}

#[test]
fn shares_and_allocations_are_told_with_what_they_gave() {
    let mut said = claims(&[("a", "GPU-0::3"), ("b", "GPU-0::1"), ("a", "GPU-0::0")]);
    // Another source says the same once more.
    said.extend(&claims(&[("a", "GPU-0::3"), ("c", "GPU-1")]));
    said.push(Claim::of_allocation(
        holder("d"),
        Allocation {
            name: "claim".into(),
            namespace: "ns".into(),
            driver: "gpu.nvidia.com".into(),
            pool: "here".into(),
            // By its minor number.
            device: "gpu-5".into(),
        },
    ));
    let (image, grants) = said.granted_over(&Arc::new(node()), IdType::Any, true);
    let node = image.node();
    let told: Vec<_> = grants
        .iter()
        .map(|grant| {
            let holding = node.holdings[grant.holding as usize];
            let pod = node.text(node.containers[holding.container as usize].pod);
            let claim = grant.allocation.as_ref().map(|a| a.name.as_str());
            (pod, holding.gpu, grant.shares.join(" "), claim)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("a", 0, "3 0".to_owned(), None),
            ("b", 0, "1".to_owned(), None),
            ("d", 1, String::new(), Some("claim")),
        ]
    );
    // Nothing to say, nothing said.
    let (_, grants) = claims(&[("c", "GPU-1")]).granted_over(&image, IdType::Any, true);
    assert_eq!(grants, []);
}

#[test]
fn later_facts_of_a_pod_take_the_place_of_earlier_ones() {
    let facts = |uid: &str| PodFacts {
        uid: uid.into(),
        ..PodFacts::default()
    };
    let (mut one, mut two) = (Claims::default(), Claims::default());
    one.describe("ns", "p", facts("1"));
    two.describe("ns", "p", facts("2"));
    two.describe("ns", "q", facts("3"));
    one.extend(&two);
    let key = ("ns".to_owned(), "p".to_owned());
    assert_eq!((one.pods().len(), one.pods()[&key].uid.as_str()), (2, "2"));
}

#[test]
fn there_is_an_end_to_claims() {
    let mut claims = Claims::default();
    let holder = holder("p");
    for _ in 0..MOST_CLAIMS + 3 {
        claims.push(Claim::of_minor(Arc::clone(&holder), 0));
    }
    assert_eq!((claims.len(), claims.skipped()), (MOST_CLAIMS, 3));
    // Tens of thousands of claims on one device are still one holding.
    let mut image = node();
    image.cards = Arc::from([Card::default()]);
    claims.attribute(&mut image, IdType::Any, true);
    assert_eq!(image.holdings.len(), 1);
}

proptest! {
    #[test]
    fn parts_never_exceed_the_device(ids in prop::collection::vec(("[a-d]", "(GPU-|nvidia|)[0-2](::[0-9])?"), 0..40)) {
        let mut image = node();
        let mut claims = Claims::default();
        for (pod, id) in &ids {
            claims.push(Claim::of_id(holder(pod), id));
        }
        claims.attribute(&mut image, IdType::Any, true);
        let parts: u32 = image.holdings.iter().filter(|h| h.gpu == 0).map(|h| h.gpu_percent).sum();
        prop_assert!(parts == 0 || parts == 60, "{parts}");
        let before = image.clone();
        claims.attribute(&mut image, IdType::Any, true);
        prop_assert_eq!(before, image);
    }

    #[test]
    fn any_text_is_a_device_id(id in ".{0,80}") {
        let mut image = node();
        claims(&[("p", &id)]).attribute(&mut image, IdType::Any, true);
        prop_assert!(image.holdings.len() <= 3);
    }
}

/// A holder of a pod `p` in `ns`.
fn of_container(container: &str) -> Arc<Holder> {
    Arc::new(Holder {
        container: container.to_owned(),
        ..(*holder("p")).clone()
    })
}

/// `container gpu percent` of every holding, and the containers of processes.
fn hands(image: &Image) -> (Vec<String>, Vec<String>) {
    let node = image.node();
    let name = |at: u32| node.text(node.containers[at as usize].name);
    let held = node.holdings.iter();
    let held = held.map(|h| format!("{} {} {}", name(h.container), h.gpu, h.gpu_percent));
    let busy = node.processes.iter().map(|p| name(p.container).to_owned());
    (held.collect(), busy.collect())
}

/// A node on whose first GPU the engine runs a workload of pod `p`.
fn busy(container: &str) -> Image {
    let mut image = node();
    let mut one = Claims::default();
    one.push(Claim::of_id(of_container(container), "GPU-0"));
    one.attribute(&mut image, IdType::Any, true);
    image.processes.push(mirage_state::layout::Process {
        container: 0,
        gpu: 0,
        gi: u32::MAX,
        ..Default::default()
    });
    image
}

#[test]
fn a_workload_that_names_no_container_is_the_one_that_holds_its_device() {
    // A workload that names its pod alone is called after it.
    for unnamed in ["p", ""] {
        let mut image = busy(unnamed);
        let mut said = Claims::default();
        said.push(Claim::of_id(of_container("cuda"), "GPU-0"));
        said.push(Claim::of_id(of_container("cuda"), "GPU-1"));
        said.attribute(&mut image, IdType::Any, true);
        let (held, busy) = hands(&image);
        assert_eq!(held, ["cuda 0 60", "cuda 1 0"], "{unnamed:?}");
        assert_eq!(busy, ["cuda"], "{unnamed:?}");
    }
    // One that has a name is not taken for another.
    let mut image = busy("main");
    let mut said = Claims::default();
    said.push(Claim::of_id(of_container("side"), "GPU-0::1"));
    said.attribute(&mut image, IdType::Any, true);
    assert_eq!(hands(&image).0, ["main 0 60", "side 0 0"]);
    // Nor is one that is really called after its pod, as a source says.
    for order in [["p", "side"], ["side", "p"]] {
        let mut image = busy("p");
        let mut said = Claims::default();
        for name in order {
            said.push(Claim::of_id(of_container(name), "GPU-0"));
        }
        said.attribute(&mut image, IdType::Any, true);
        // The last claim stands last.
        let shown = order.map(|name| format!("{name} 0 {}", if name == "p" { 60 } else { 0 }));
        assert_eq!(hands(&image), (shown.to_vec(), vec!["p".into()]));
    }
}

#[test]
fn a_source_that_names_no_container_adds_none() {
    let mut image = busy("main");
    let mut said = Claims::default();
    said.push(Claim::of_id(of_container(""), "GPU-0"));
    said.attribute(&mut image, IdType::Any, true);
    assert_eq!(hands(&image).0, ["main 0 60"]);
    // And gives way to one that does.
    let mut image = node();
    said.push(Claim::of_id(of_container("main"), "GPU-0"));
    said.attribute(&mut image, IdType::Any, true);
    assert_eq!(hands(&image).0, ["main 0 60"]);
    // Another pod of the name is somebody else.
    let uid = |uid: &str| Holder {
        uid: Some(uid.to_owned()),
        ..(*of_container("p")).clone()
    };
    let mut said = Claims::default();
    said.push(Claim::of_id(Arc::new(uid("1")), "GPU-0"));
    said.push(Claim::of_id(
        Arc::new(Holder {
            container: String::new(),
            ..uid("2")
        }),
        "GPU-0",
    ));
    let mut image = node();
    said.attribute(&mut image, IdType::Any, true);
    assert_eq!(hands(&image).0, ["p 0 30", " 0 30"]);
}

/// Thousands of containers, in every way that they can be told apart. A scrape lasts minutes if each is looked for among
/// all of them.
#[test]
fn a_flood_of_claims_is_laid_over_a_node() {
    let kinds: [fn(usize) -> Holder; 3] = [
        |n| (*holder(&format!("p{n}"))).clone(),
        |n| (*of_container(&format!("c{n}"))).clone(),
        |n| Holder {
            uid: Some(format!("u{n}")),
            ..(*holder("p")).clone()
        },
    ];
    const MANY: usize = MOST_CLAIMS / 8;
    for kind in kinds {
        let mut claims = Claims::default();
        for n in 0..MANY {
            claims.push(Claim::of_id(Arc::new(kind(n)), &format!("GPU-0::{n}")));
        }
        let (image, grants) = claims.granted_over(&Arc::new(node()), IdType::Any, true);
        let node = image.node();
        assert_eq!((node.holdings.len(), grants.len()), (MANY, MANY));
        let percent: u32 = node.holdings.iter().map(|h| h.gpu_percent).sum();
        assert_eq!(percent, 60);
    }
}
