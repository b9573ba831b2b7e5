#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mirage_state::Statics;
use mirage_state::layout::{Board, Card, ComputeProfile, GpuProfile, Live, fixed};

use super::*;
use crate::claims::{Claim, Holder};
use crate::cluster::pod;
use crate::inference::Rates;
use crate::podresources::Filter;
use crate::topology::{Style, read_node};
use crate::usage::groups::Classes;
use crate::usage::{self, Known};

/// A whole GPU, and one with two MIG devices.
fn image() -> Image {
    let profile = GpuProfile {
        name: fixed("1g.5gb"),
        memory: 4864 << 20,
        slices: 1,
        ..GpuProfile::default()
    };
    let compute = ComputeProfile {
        name: fixed("1g.5gb"),
        slices: 1,
        ..ComputeProfile::default()
    };
    let board = Board {
        product: fixed("NVIDIA-A100-SXM4-40GB"),
        ..Board::default()
    };
    let mut image = Image {
        statics: Arc::new(Statics {
            boards: vec![board],
            gpu_profiles: vec![profile],
            compute_profiles: vec![compute],
        }),
        ..Image::default()
    };
    image.header.driver = fixed("550.163.01");
    image.header.cuda_version = 12040;
    let card = |gpu: u32| Card {
        uuid: fixed(&format!("GPU-{gpu}")),
        minor: gpu,
        memory_total: 40960 << 20,
        ..Card::default()
    };
    image.cards = (0..2).map(card).collect();
    for gpu in 0..2 {
        image.lives.push(Live {
            flags: if gpu == 1 { flags::MIG } else { 0 },
            ..Live::default()
        });
    }
    for index in 0..2 {
        image.instances.push(Instance {
            uuid: fixed(&format!("MIG-x{index}")),
            gpu: 1,
            gi: index + 7,
            index,
            start: index * 4,
            ..Instance::default()
        });
    }
    image
}

fn claims(list: &[(&str, &str)]) -> Claims {
    let mut claims = Claims::default();
    for &(pod, id) in list {
        let holder = Holder {
            namespace: "team".into(),
            pod: pod.into(),
            container: "main".into(),
            uid: None,
        };
        claims.push(Claim::of_id(Arc::new(holder), id));
    }
    claims
}

fn pod(name: &str, phase: &str) -> Pod {
    Pod {
        uid: format!("uid-{name}"),
        namespace: "team".into(),
        name: name.into(),
        phase: phase.into(),
        containers: vec![pod::Container {
            name: "main".into(),
            is_running: phase == "Running",
            ..pod::Container::default()
        }],
        ..Pod::default()
    }
}

fn node(claims: &Claims, pods: Vec<Pod>) -> Node {
    let image = image();
    let pods: Vec<Arc<Pod>> = pods.into_iter().map(Arc::new).collect();
    let known = Known::Pods(&pods, &Classes::new(), &Rates::default());
    let busy = usage::read(claims, known, &image, &Filter::default()).busy;
    let facts = Facts {
        held: &held(claims, Some(&pods), &image),
        busy: &busy,
        strategy: "mixed",
        dynamic_mig: false,
        others: &[],
    };
    report(&image, facts)
}

#[test]
fn a_running_pod_is_shown_on_exactly_its_devices() {
    let claims = claims(&[("train", "GPU-0"), ("slice", "MIG-x1")]);
    let node = node(
        &claims,
        vec![pod("train", "Running"), pod("slice", "Running")],
    );
    assert_eq!(
        (node.memory_mib, &*node.product),
        (40960, "NVIDIA-A100-SXM4-40GB")
    );
    assert_eq!(node.cuda.as_deref(), Some("12.4"));
    let whole = &node.gpus[0];
    assert_eq!(whole.status.allocated_by.as_ref().unwrap().pod, "train");
    let usage = whole.status.usage["uid-train"];
    assert_eq!((usage.min, usage.max, usage.memory_mib), (100, 100, 40960));
    let mig = node.gpus[1].mig.as_ref().unwrap();
    assert!(node.gpus[1].status.is_free() && mig[0].status.is_free());
    assert_eq!((&*mig[1].name, mig[1].position), ("1g.5gb", Some(4)));
    assert_eq!(mig[1].status.usage["uid-slice"].memory_mib, 4864);
    for style in [Style::Kebab, Style::Camel] {
        assert_eq!(read_node(&node.yaml(style), "test").unwrap(), node);
    }
}

#[test]
fn a_pod_that_waits_holds_its_device_and_one_that_ended_does_not() {
    let claims = claims(&[("waits", "GPU-0"), ("ended", "MIG-x0"), ("new", "MIG-x1")]);
    let node = node(
        &claims,
        vec![pod("waits", "Pending"), pod("ended", "Succeeded")],
    );
    let status = &node.gpus[0].status;
    assert_eq!(status.allocated_by.as_ref().unwrap().pod, "waits");
    assert_eq!(status.usage["uid-waits"], Usage::default());
    let mig = node.gpus[1].mig.as_ref().unwrap();
    assert!(mig[0].status.is_free());
    // The kubelet says so, and the server may not have told of it yet.
    assert_eq!(mig[1].status.allocated_by.as_ref().unwrap().pod, "new");
    assert!(mig[1].status.usage.is_empty());
}

#[test]
fn a_mig_device_that_a_scheduler_chose_is_the_pods() {
    let mut chosen = pod("chosen", "Running");
    let device = r#"{"gpuindex": "1", "position": 4}"#;
    chosen
        .labels
        .insert(migconfig::DEVICE.into(), device.into());
    let mut nonsense = pod("nonsense", "Running");
    let device = r#"{"gpuindex": 7, "position": 0}"#;
    nonsense
        .labels
        .insert(migconfig::DEVICE.into(), device.into());
    let node = node(&Claims::default(), vec![chosen, nonsense]);
    let mig = node.gpus[1].mig.as_ref().unwrap();
    assert!(mig[0].status.is_free());
    assert_eq!(mig[1].status.usage["uid-chosen"].memory_mib, 4864);
    assert_eq!(mig[1].status.usage["uid-chosen"].max, 100);
}

#[test]
fn shares_of_a_device_add_up() {
    let claims = claims(&[("a", "GPU-0::0"), ("b", "GPU-0::1")]);
    let node = node(&claims, vec![pod("a", "Running"), pod("b", "Running")]);
    let status = &node.gpus[0].status;
    assert_eq!(status.allocated_by.as_ref().unwrap().pod, "a");
    assert_eq!(status.usage.len(), 2);
    let memory: u64 = status.usage.values().map(|usage| usage.memory_mib).sum();
    assert!(memory <= 40960);
}

#[test]
fn a_reservation_has_the_gpu_and_those_it_is_for_use_it() {
    let member = |name: &str, phase: &str| {
        let mut pod = pod(name, phase);
        pod.labels.insert("runai-gpu-group".into(), "g".into());
        pod.annotations.insert("gpu-fraction".into(), "0.5".into());
        pod
    };
    let mut reservation = member("holder", "Running");
    reservation.annotations.clear();
    reservation.namespace = RESERVATIONS.into();
    let holder = Holder {
        namespace: RESERVATIONS.into(),
        pod: "holder".into(),
        container: "main".into(),
        uid: None,
    };
    let mut claims = Claims::default();
    claims.push(Claim::of_id(Arc::new(holder), "GPU-0"));
    let mut a = member("a", "Running");
    a.labels
        .insert("workloadKind".into(), "InferenceWorkload".into());
    let pods = vec![reservation, a, member("b", "Pending")];
    let status = &node(&claims, pods).gpus[0].status;
    assert_eq!(status.allocated_by.as_ref().unwrap().pod, "holder");
    let uses: Vec<_> = status.usage.iter().collect();
    let usage = Usage {
        min: 1,
        max: 1,
        memory_mib: 20480,
        inference: true,
    };
    assert_eq!(uses, [(&"uid-a".to_owned(), &usage)]);
}
