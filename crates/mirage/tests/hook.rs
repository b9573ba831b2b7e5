//! `mirage node --nri` against a container runtime of our own: what containers get, what `podlist.json` says, and what outlives whom.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "hook/node.rs"]
mod node;
#[path = "../../k8s/tests/support/runtime.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod runtime;

use std::collections::BTreeMap;

use mirage_k8s::nri::generated::{Container, ContainerState, Event, KeyValue, Mount, PodSandbox};
use mirage_k8s::podresources::{self, Filter};
use node::{Node, Stage, wait_for};
use runtime::{Era, Peer, Runtime};
use serde_json::{Value, json};

const ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";

fn pod(name: &str, annotation: Option<Value>) -> PodSandbox {
    let annotation = annotation.map(|value| (ALLOCATED.to_owned(), value.to_string()));
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        namespace: "team".to_owned(),
        annotations: annotation.into_iter().collect(),
        ..PodSandbox::default()
    }
}

fn container(pod: &PodSandbox, id: &str) -> Container {
    Container {
        id: id.to_owned(),
        pod_sandbox_id: pod.id.clone(),
        name: "main".to_owned(),
        state: ContainerState::ContainerRunning as i32,
        env: vec![
            "PATH=/bin".to_owned(),
            "NVIDIA_VISIBLE_DEVICES=all".to_owned(),
        ],
        ..Container::default()
    }
}

/// Creates and starts a container; tells what was set in it.
fn start(peer: &mut Peer, pod: &PodSandbox, container: &Container) -> Vec<KeyValue> {
    let adjust = peer.create(pod, container);
    peer.tell(Event::PostCreateContainer, pod, Some(container));
    peer.tell(Event::StartContainer, pod, Some(container));
    peer.tell(Event::PostStartContainer, pod, Some(container));
    adjust.env
}

fn env(list: &[KeyValue]) -> BTreeMap<&str, &str> {
    let pairs = list.iter().map(|pair| (&*pair.key, &*pair.value));
    pairs.collect()
}

/// Names of the list, with their GPUs.
fn listed(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let list: Vec<Value> = serde_json::from_str(&stage.list()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |entry: &Value| {
        let gpus = entry["gpu_list"].as_array().unwrap();
        (text(&entry["name"]), gpus.iter().map(text).collect())
    };
    list.iter().map(entry).collect()
}

fn wait_until_listed(stage: &Stage, expected: &[(&str, &[&str])]) {
    let expected: Vec<(String, Vec<String>)> = expected
        .iter()
        .map(|(name, gpus)| {
            let gpus = gpus.iter().map(|&gpu| gpu.to_owned());
            ((*name).to_owned(), gpus.collect())
        })
        .collect();
    wait_for(&format!("the list {expected:?}"), || {
        (listed(stage) == expected).then_some(())
    });
}

#[test]
fn a_pods_gpus_reach_its_container_the_list_and_the_exporter() {
    for era in [Era::StateChange, Era::Dedicated] {
        let stage = Stage::new();
        let runtime = Runtime::listen(&stage.nri(), era);
        let node = Node::start(&stage, &[]);
        // Before the runtime has said anything there is a list.
        assert_eq!(stage.list(), "[]\n");
        let uuids = node.uuids();
        let mut peer = runtime.accept();
        assert_eq!(peer.name, "10-mirage");
        peer.synchronize(vec![(vec![], vec![])]);

        let train = pod(
            "train",
            Some(json!({"gpu": [{"minor": 1, "id": uuids[1]}]})),
        );
        let main = container(&train, "first");
        let adjust = peer.create(&train, &main);
        assert_eq!(
            env(&adjust.env),
            BTreeMap::from([("NVIDIA_VISIBLE_DEVICES", &*uuids[1])])
        );
        let devices = adjust.linux.unwrap().devices;
        let paths: Vec<&str> = devices.iter().map(|device| &*device.path).collect();
        assert!(
            paths.contains(&"/dev/nvidia1") && paths.contains(&"/dev/nvidiactl"),
            "{paths:?}"
        );
        assert!(!paths.contains(&"/dev/nvidia0"), "{paths:?}");
        let find = |end: &str| -> Option<&Mount> {
            adjust.mounts.iter().find(|m| m.destination.ends_with(end))
        };
        assert!(find("/usr/lib64/libnvidia-ml.so.1").is_some());
        assert!(find(&format!("/run/mirage-view/{}", uuids[1])).is_some());
        let state = find("/run/mirage").unwrap();
        assert!(state.options.contains(&"ro".to_owned()));
        assert!(std::path::Path::new(&state.source).join("state").is_file());
        for mount in &adjust.mounts {
            assert!(
                std::path::Path::new(&mount.source).exists(),
                "{}",
                mount.source
            );
        }

        // A pod that has nothing gets nothing, whatever its annotations hold.
        for (name, annotation) in [
            ("plain", None),
            ("bad", Some(json!(["?"]))),
            (
                "elsewhere",
                Some(json!({"gpu": [{"minor": 0, "id": "GPU-x"}]})),
            ),
        ] {
            let pod = pod(name, annotation);
            assert!(start(&mut peer, &pod, &container(&pod, name)).is_empty());
        }

        // Listed once it runs, and as long as it does.
        peer.tell(Event::PostStartContainer, &train, Some(&main));
        wait_until_listed(&stage, &[("train", &[&uuids[1]])]);
        let list: Value = serde_json::from_str(&stage.list()).unwrap();
        assert_eq!(list[0]["pod_uid"], "uid-train");
        assert_eq!(list[0]["container_id"], "first");
        node.wait_for_series(&[
            &*uuids[1],
            "pod=\"train\"",
            "namespace=\"team\"",
            "container=\"main\"",
        ]);

        // It crashes and comes back under another id.
        peer.tell(Event::StopContainer, &train, Some(&main));
        wait_until_listed(&stage, &[]);
        start(&mut peer, &train, &container(&train, "second"));
        wait_until_listed(&stage, &[("train", &[&uuids[1]])]);
        peer.tell(Event::RemoveContainer, &train, Some(&main));
        // By its minor number, as older schedulers write it; the other pod ends with its sandbox.
        let other = pod("other", Some(json!({"gpu": [{"minor": 0}]})));
        start(&mut peer, &other, &container(&other, "third"));
        wait_until_listed(&stage, &[("other", &[&uuids[0]]), ("train", &[&uuids[1]])]);
        peer.tell(Event::StopPodSandbox, &train, None);
        wait_until_listed(&stage, &[("other", &[&uuids[0]])]);
    }
}

#[test]
fn the_list_outlives_the_hook_and_the_runtime() {
    let stage = Stage::new();
    let runtime = Runtime::listen(&stage.nri(), Era::StateChange);
    let mut node = Node::start(&stage, &["--hook-minors"]);
    let uuids = node.uuids();
    let mut peer = runtime.accept();
    peer.synchronize(vec![]);
    let train = pod("train", Some(json!({"gpu": [{"minor": 1}, {"minor": 0}]})));
    let main = container(&train, "first");
    let set = start(&mut peer, &train, &main);
    assert_eq!(env(&set)["NVIDIA_VISIBLE_DEVICES"], "1,0");
    let gpus = [&*uuids[1], &*uuids[0]];
    wait_until_listed(&stage, &[("train", &gpus)]);
    let generation = |stage: &Stage| {
        let list: Value = serde_json::from_str(&stage.list()).unwrap();
        list[0]["generation"].as_u64().unwrap()
    };
    let before = generation(&stage);

    // Killed outright: the list stands until the next hook knows better.
    node.kill();
    drop(peer);
    let mut node = Node::start(&stage, &[]);
    let mut peer = runtime.accept();
    assert_eq!(listed(&stage).len(), 1, "before the runtime has spoken");
    let late = pod("late", Some(json!({"gpu": [{"minor": 0}]})));
    peer.synchronize(vec![
        (
            vec![train.clone()],
            vec![container(&late, "made-meanwhile")],
        ),
        (vec![late.clone()], vec![main.clone()]),
    ]);
    wait_until_listed(&stage, &[("late", &gpus[1..]), ("train", &gpus)]);
    assert!(generation(&stage) > before);
    node.wait_until_told("container team/late/main was made while the runtime hook was away");

    // The runtime goes and comes back; a pod ended in between.
    drop(peer);
    drop(runtime);
    node.wait_until_told("runtime hook: ");
    assert_eq!(listed(&stage).len(), 2);
    let runtime = Runtime::listen(&stage.nri(), Era::Dedicated);
    let mut peer = runtime.accept();
    peer.synchronize(vec![(vec![train.clone(), late], vec![main])]);
    wait_until_listed(&stage, &[("train", &gpus)]);

    // Ended in order: the pods still run, so their list stays; taking mirage away takes it too.
    node.end();
    assert_eq!(listed(&stage).len(), 1);
    stage.uninstall();
    assert_eq!(stage.files("kubelet/pod-resources"), Vec::<String>::new());
}

#[test]
fn the_kubelets_own_containers_are_listed_if_asked_for() {
    let stage = Stage::new();
    let runtime = Runtime::listen(&stage.nri(), Era::StateChange);
    let node = Node::start(&stage, &["--hook-list-all"]);
    let uuids = node.uuids();
    let mut peer = runtime.accept();
    peer.synchronize(vec![]);
    let own = pod("own", None);
    let mut main = container(&own, "first");
    main.env = vec![format!("NVIDIA_VISIBLE_DEVICES={}", uuids[0])];
    assert!(
        start(&mut peer, &own, &main).is_empty(),
        "the plugin gave it"
    );
    wait_until_listed(&stage, &[("own", &[&uuids[0]])]);
}

#[test]
fn pod_resources_are_served_with_central_gpus_in_them() {
    let stage = Stage::new();
    let runtime = Runtime::listen(&stage.nri(), Era::Dedicated);
    let socket = stage.path("served/kubelet.sock");
    let mut node = Node::start(&stage, &["--serve-pod-resources", socket.to_str().unwrap()]);
    let uuids = node.uuids();
    let mut peer = runtime.accept();
    peer.synchronize(vec![]);
    let train = pod("train", Some(json!({"gpu": [{"minor": 1}]})));
    start(&mut peer, &train, &container(&train, "first"));
    // No kubelet here: ours are told all the same, and the trouble is too.
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let filter = Filter::default();
    let claims = wait_for("the pod", || {
        let list = podresources::list(&socket, &filter);
        let claims = tokio.block_on(list).ok()?;
        (!claims.is_empty()).then_some(claims)
    });
    let claim = claims.iter().next().unwrap();
    assert_eq!(
        (&*claim.holder().pod, claim.keys()),
        ("train", &[uuids[1].clone()][..])
    );
    node.wait_until_told("pod-resources service: only centrally given GPUs");
    node.end();
    assert!(!socket.exists());
}

#[test]
fn a_slow_or_silent_runtime_is_no_trouble_for_the_rest() {
    let stage = Stage::new();
    let node = Node::start(&stage, &[]);
    node.wait_until_told("runtime hook: connecting to the container runtime's NRI socket");
    // The rest serves.
    assert_eq!(node.uuids().len(), 2);
    // It comes late, and is found.
    let runtime = Runtime::listen(&stage.nri(), Era::StateChange);
    let mut peer = runtime.accept();
    // Nonsense ends the connection, not the hook.
    peer.send_raw(&[0xff; 32]);
    drop(peer);
    let mut peer = runtime.accept();
    peer.synchronize(vec![]);
    node.wait_until_told("runtime hook: works again");
}
