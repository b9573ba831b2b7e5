use std::sync::Arc;

use mirage_model::plan::{Amount, Range};
use mirage_state::layout::{Card, Instance, Live, fixed};

use super::*;
use crate::activity::{FRACTION, SCHEDULE, UTILIZATION};
use crate::claims::{Claim, Holder};
use crate::cluster::pod::Container;

/// GPUs 0 to 2 whole; GPU 3 with two MIG devices.
fn image() -> Image {
    let mut image = Image::default();
    let card = |gpu: u32| Card {
        uuid: fixed(&format!("GPU-{gpu}")),
        minor: gpu,
        ..Card::default()
    };
    image.cards = (0..4).map(card).collect();
    for gpu in 0..4 {
        image.lives.push(Live {
            flags: if gpu == 3 { flags::MIG } else { 0 },
            ..Live::default()
        });
    }
    for index in 0..2 {
        image.instances.push(Instance {
            uuid: fixed(&format!("MIG-x{index}")),
            gpu: 3,
            gi: index + 7,
            index,
            ..Instance::default()
        });
    }
    image
}

fn claims(list: &[(&str, &str, &str)]) -> Claims {
    let mut claims = Claims::default();
    for &(pod, container, id) in list {
        let holder = Holder {
            namespace: "team".into(),
            pod: pod.into(),
            container: container.into(),
            uid: None,
        };
        claims.push(Claim::of_id(Arc::new(holder), id));
    }
    claims
}

fn container(name: &str, role: Role, is_running: bool) -> Container {
    Container {
        name: name.into(),
        role,
        is_running,
        ..Container::default()
    }
}

fn pod(name: &str, containers: Vec<Container>) -> Pod {
    Pod {
        uid: format!("uid-{name}"),
        namespace: "team".into(),
        name: name.into(),
        containers,
        ..Pod::default()
    }
}

fn usage(claims: &Claims, pods: Vec<Pod>, image: &Image) -> Usage {
    usage_with(claims, pods, &Classes::new(), image)
}

fn usage_with(claims: &Claims, pods: Vec<Pod>, classes: &Classes, image: &Image) -> Usage {
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
    read(
        claims,
        Known::Pods(&pods, classes, &Rates::default()),
        image,
        &Filter::default(),
    )
}

/// Container and UUIDs of each that is busy.
fn shown(usage: &Usage) -> Vec<(String, Vec<String>)> {
    let busy = usage.busy.iter().map(|busy| {
        let uuids = busy.devices.iter().map(|device| device.uuid.clone());
        (
            format!("{}/{}", busy.owner.pod, busy.owner.container),
            uuids.collect(),
        )
    });
    busy.collect()
}

fn entry(container: &str, uuids: &[&str]) -> (String, Vec<String>) {
    let uuids = uuids.iter().map(|&uuid| uuid.to_owned());
    (container.to_owned(), uuids.collect())
}

#[test]
fn each_running_container_has_its_own_devices() {
    let claims = claims(&[
        ("a", "one", "GPU-2"),
        ("a", "one", "GPU-0"),
        ("a", "two", "GPU-1"),
        ("b", "main", "MIG-x1"),
        ("gone", "main", "GPU-1"),
    ]);
    let a = pod(
        "a",
        vec![
            container("one", Role::App, true),
            container("two", Role::App, false),
            container("bare", Role::App, true),
        ],
    );
    let b = pod("b", vec![container("main", Role::App, true)]);
    let usage = usage(&claims, vec![a, b], &image());
    assert_eq!(
        shown(&usage),
        [
            entry("a/one", &["GPU-0", "GPU-2"]),
            entry("b/main", &["MIG-x1"])
        ]
    );
    assert_eq!(usage.busy[0].owner.pod_uid, "uid-a");
    let mig = &usage.busy[1].devices[0];
    assert_eq!((mig.gpu, mig.index), (3, Some(1)));
}

#[test]
fn an_init_container_has_the_devices_of_those_after_it() {
    let claims = claims(&[("a", "main", "GPU-0"), ("a", "main", "GPU-1")]);
    let mut init = container("fetch", Role::Init, true);
    init.resources.insert("nvidia.com/gpu".into(), 1);
    let plain = container("wait", Role::Init, true);
    let main = container("main", Role::App, false);
    let pod = pod("a", vec![init, plain, main]);
    let wanted = [entry("a/fetch", &["GPU-0"])];
    assert_eq!(shown(&usage(&claims, vec![pod.clone()], &image())), wanted);
    let refined = refined(&claims, &[Arc::new(pod.clone())], &Filter::default());
    assert_eq!(shown(&usage(&refined, vec![pod], &image())), wanted);
}

#[test]
fn refined_claims_name_the_init_container_and_the_uid() {
    let claims = claims(&[
        ("a", "main", "GPU-0"),
        ("a", "main", "GPU-1"),
        ("unknown", "main", "GPU-2"),
    ]);
    let mut init = container("fetch", Role::Init, true);
    init.resources.insert("nvidia.com/gpu".into(), 1);
    let waiting = pod("a", vec![init.clone(), container("main", Role::App, false)]);
    let holders = |pod: Pod| -> Vec<(String, Option<String>)> {
        let refined = refined(&claims, &[Arc::new(pod)], &Filter::default());
        let holders = refined.iter().map(|claim| claim.holder().clone());
        holders
            .map(|holder| (holder.container, holder.uid))
            .collect()
    };
    let row = |name: &str, uid: Option<&str>| (name.to_owned(), uid.map(str::to_owned));
    let known = Some("uid-a");
    assert_eq!(
        holders(waiting),
        [row("fetch", known), row("main", known), row("main", None)]
    );
    init.is_running = false;
    let started = pod("a", vec![init, container("main", Role::App, true)]);
    assert_eq!(
        holders(started),
        [row("main", known), row("main", known), row("main", None)]
    );
}

#[test]
fn a_sidecar_is_busy_beside_the_others() {
    let claims = claims(&[("a", "side", "GPU-0"), ("a", "main", "GPU-1")]);
    let containers = vec![
        container("side", Role::Sidecar, true),
        container("main", Role::App, true),
    ];
    let usage = usage(&claims, vec![pod("a", containers)], &image());
    assert_eq!(
        shown(&usage),
        [entry("a/side", &["GPU-0"]), entry("a/main", &["GPU-1"])]
    );
}

#[test]
fn lost_gpus_and_gpus_in_the_other_mode_are_left_out() {
    let claims = claims(&[
        ("a", "main", "GPU-0"),
        ("a", "main", "GPU-1"),
        ("a", "main", "GPU-3"),
    ]);
    let mut image = image();
    image.lives[1].flags |= flags::LOST;
    let pods = vec![pod("a", vec![container("main", Role::App, true)])];
    let usage = usage(&claims, pods, &image);
    assert_eq!(shown(&usage), [entry("a/main", &["GPU-0"])]);
}

fn memory(usage: &Usage) -> Vec<f64> {
    let first = |busy: &Busy| match busy.activity.steps[0].memory {
        Some(Amount::Share(Range { low, .. })) => low,
        other => panic!("{other:?}"),
    };
    usage.busy.iter().map(first).collect()
}

fn on_one_gpu(annotations: &[&[(&str, &str)]]) -> Usage {
    let names: Vec<String> = (0..annotations.len()).map(|at| format!("p{at}")).collect();
    let ids: Vec<String> = (0..annotations.len())
        .map(|at| format!("GPU-0::{at}"))
        .collect();
    let list: Vec<(&str, &str, &str)> = names
        .iter()
        .zip(&ids)
        .map(|(pod, id)| (pod.as_str(), "main", id.as_str()))
        .collect();
    let pods = names.iter().zip(annotations).map(|(name, annotations)| {
        let mut pod = pod(name, vec![container("main", Role::App, true)]);
        for (key, value) in *annotations {
            pod.annotations.insert((*key).into(), (*value).into());
        }
        pod
    });
    usage(&claims(&list), pods.collect(), &image())
}

#[test]
fn memory_is_shared_so_that_all_fits() {
    assert_eq!(memory(&on_one_gpu(&[&[]])), [100.0]);
    assert_eq!(memory(&on_one_gpu(&[&[(FRACTION, "0.3")]])), [30.0]);
    assert_eq!(memory(&on_one_gpu(&[&[], &[]])), [50.0, 50.0]);
    assert_eq!(memory(&on_one_gpu(&[&[], &[], &[]])), [33.33; 3]);
    assert_eq!(
        memory(&on_one_gpu(&[&[(FRACTION, "0.5")], &[], &[]])),
        [50.0, 25.0, 25.0]
    );
    let over = on_one_gpu(&[&[(FRACTION, "0.9")], &[(FRACTION, "0.9")], &[]]);
    assert_eq!(memory(&over), [50.0, 50.0, 0.0]);
}

#[test]
fn what_is_wrong_with_a_pod_is_said_once() {
    let bad: &[(&str, &str)] = &[(UTILIZATION, "lots"), (SCHEDULE, "?")];
    let usage = on_one_gpu(&[bad]);
    assert_eq!(usage.complaints.len(), 2);
    assert_eq!(usage.complaints[0].0.name, "p0");
    assert_eq!(usage.busy[0].activity.steps[0].utilization.low, 100.0);
}

#[test]
fn without_an_api_server_whoever_has_a_device_runs() {
    let claims = claims(&[("a", "main", "GPU-0")]);
    let usage = read(&claims, Known::Nothing, &image(), &Filter::default());
    assert_eq!(shown(&usage), [entry("a/main", &["GPU-0"])]);
    assert_eq!(usage.busy[0].owner.pod_uid, "");
}

#[test]
fn pods_that_share_a_gpu_have_the_one_their_reservation_was_given() {
    let main = || vec![container("main", Role::App, true)];
    let member = |name: &str, group: &str| {
        let mut pod = pod(name, main());
        pod.labels.insert("runai-gpu-group".into(), group.into());
        pod
    };
    let mut reservation = member("holder", "g");
    reservation.namespace = activity::RESERVATIONS.into();
    let mut claims = claims(&[("own", "main", "GPU-2")]);
    let holder = Holder {
        namespace: reservation.namespace.clone(),
        pod: "holder".into(),
        container: "main".into(),
        uid: None,
    };
    claims.push(Claim::of_id(Arc::new(holder), "GPU-1"));
    let mut half = member("half", "g");
    half.annotations.insert(FRACTION.into(), "0.5".into());
    let mut old = pod("old", main());
    old.annotations.insert("runai-gpu".into(), "g".into());
    // Who was given something has that, and another group another GPU.
    let pods = vec![
        half,
        old,
        member("own", "g"),
        member("other", "h"),
        reservation,
    ];
    let usage = usage(&claims, pods, &image());
    assert_eq!(
        shown(&usage),
        [
            entry("holder/main", &["GPU-1"]),
            entry("half/main", &["GPU-1"]),
            entry("old/main", &["GPU-1"]),
            entry("own/main", &["GPU-2"]),
        ]
    );
    let doing = |at: usize| {
        let step = &usage.busy[at].activity.steps[0];
        let Some(Amount::Share(memory)) = step.memory else {
            unreachable!("a share")
        };
        (step.utilization.high, memory.high)
    };
    assert_eq!(
        [doing(0), doing(1), doing(2)],
        [(0.0, 0.0), (100.0, 50.0), (100.0, 50.0)]
    );
}

#[test]
fn the_class_of_its_group_says_what_a_pod_does_that_says_nothing_itself() {
    let claims = claims(&[
        ("a", "main", "GPU-0"),
        ("b", "main", "GPU-1"),
        ("c", "main", "GPU-2"),
    ]);
    let of = |name: &str, group: &str| {
        let mut pod = pod(name, vec![container("main", Role::App, true)]);
        pod.annotations
            .insert("pod-group-name".into(), group.into());
        pod
    };
    let mut labelled = of("b", "train");
    let kind = "InteractiveWorkload";
    labelled.labels.insert("workloadKind".into(), kind.into());
    let pods = vec![of("a", "train"), labelled, of("c", "unknown")];
    let all: Vec<Arc<Pod>> = pods.iter().cloned().map(Arc::new).collect();
    let key = |name: &str| ("team".to_owned(), name.to_owned());
    let asked: Vec<_> = groups::wanted(&all).into_iter().collect();
    assert_eq!(asked, [key("train"), key("unknown")]);
    let classes = Classes::from([(key("train"), "train".to_owned())]);
    let usage = usage_with(&claims, pods, &classes, &image());
    let doing = usage.busy.iter().map(|busy| {
        let Range { low, high } = busy.activity.steps[0].utilization;
        (low, high)
    });
    assert_eq!(
        doing.collect::<Vec<_>>(),
        [(80.0, 100.0), (0.0, 0.0), (100.0, 100.0)]
    );
}

#[test]
fn inference_is_as_busy_as_its_requests_make_it() {
    let claims = claims(&[("a", "main", "GPU-0"), ("b", "main", "MIG-x0")]);
    let of = |name: &str| {
        let mut pod = pod(name, vec![container("main", Role::App, true)]);
        let kind = "InferenceWorkload";
        pod.labels.insert("workloadKind".into(), kind.into());
        Arc::new(pod)
    };
    let pods = [of("a"), of("b")];
    let counted = r#"{"status": "success", "data": {"result": [
        {"metric": {"namespace": "team", "pod": "a"}, "value": [1, "41.6"]}]}}"#;
    for (rates, expected) in [
        (Rates::default(), [1.0, 1.0]),
        (Rates::read(counted).expect("an answer"), [42.0, 0.0]),
    ] {
        let known = Known::Pods(&pods, &Classes::new(), &rates);
        let usage = read(&claims, known, &image(), &Filter::default());
        let doing = usage.busy.iter().map(|busy| {
            assert!(busy.by_requests && busy.activity.names_memory());
            busy.activity.steps[0].utilization.high
        });
        assert_eq!(doing.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_group_is_asked_for_by_a_name_and_nothing_else() {
    for name in ["", "../secrets", "a/b", "a?x", "A", ".", &"a".repeat(254)] {
        let mut pod = pod("a", Vec::new());
        pod.annotations
            .insert("pod-group-name".into(), name.to_owned());
        assert!(groups::wanted(&[Arc::new(pod)]).is_empty(), "{name}");
    }
}

#[test]
fn a_server_that_knows_of_no_groups_says_so_in_its_own_words() {
    let answer = |code: u16, message: &str| {
        let status = kube::core::Status {
            code,
            message: message.to_owned(),
            reason: "Failed to parse error data".to_owned(),
            ..kube::core::Status::default()
        };
        kube::Error::Api(Box::new(status))
    };
    assert!(groups::is_unknown(&answer(404, "404 page not found")));
    assert!(!groups::is_unknown(&answer(403, "forbidden")));
}
