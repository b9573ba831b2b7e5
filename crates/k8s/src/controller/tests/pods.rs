//! Pods that end, are held back, or stand on every node.

use super::*;

const ONE: &str = "pools:\n  gpu: { model: t4, gpus: 4, virtual-nodes: 1 }\n";
const NONE: &str = "pools:\n  gpu: { model: t4, gpus: 4, virtual-nodes: 0 }\n";

fn one_gpu() -> [Value; 1] {
    [json!({ "nvidia.com/gpu": "1" })]
}

#[test]
fn a_pod_that_a_finalizer_keeps_is_let_go_once() {
    let mut stage = Stage::new(ONE);
    stage.settle();
    stage.gpu_pod("gpu-0", "a", 1, 1);
    stage.settle();
    stage.kept_back.push("a".into());
    stage.change_pod("a", |bound| {
        bound.is_kept = true;
        bound.pod.is_ending = true;
    });
    let before = stage.writes;
    stage.settle();
    // It has ended, its GPU is free, and it may go.
    assert_eq!(stage.phase("a"), "Failed");
    assert_eq!(stage.holders("gpu-0"), [""; 4]);
    assert_eq!(stage.writes, before + 3);
    stage.restart();
    stage.settle();
    assert_eq!(stage.writes, before + 3);
    // Another of its name is another pod.
    stage.kept_back.clear();
    stage.change_pod("a", |bound| {
        bound.pod.uid = "uid-other".into();
        bound.is_kept = false;
    });
    stage.settle();
    assert!(stage.controller.seen.pod("default", "a").is_none());
}

#[test]
fn what_stands_on_every_node_keeps_none() {
    let mut stage = Stage::new(ONE);
    stage.settle();
    let owner = json!({ "ownerReferences": [
        { "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy", "uid": "d", "controller": true },
    ] });
    stage.add_pod("gpu-0", "proxy", "uid-proxy", 1, &[json!({})], owner);
    stage.gpu_pod("gpu-0", "work", 2, 1);
    stage.settle();
    stage.want(NONE);
    stage.settle();
    assert!(stage.controller.seen.nodes.contains_key("gpu-0"));
    stage.change_pod("work", |bound| bound.ended = true);
    stage.settle();
    assert!(!stage.controller.seen.nodes.contains_key("gpu-0"));
}

#[test]
fn a_pod_succeeds_when_its_time_is_over_and_gives_its_gpu_back() {
    let mut stage = Stage::new(ONE);
    stage.settle();
    for (name, policy) in [("job", "Never"), ("server", "Always")] {
        let said =
            json!({ "annotations": { "mirage.dev/run-for": "5m" }, "restartPolicy": policy });
        let uid = format!("uid-{name}");
        stage.add_pod("gpu-0", name, &uid, 1, &one_gpu(), said);
    }
    stage.now = Timestamp::from_second(1000).unwrap();
    stage.settle();
    stage.now = Timestamp::from_second(1299).unwrap();
    stage.settle();
    assert_eq!(stage.phase("job"), "Running");
    assert_eq!(stage.holders("gpu-0"), ["job", "server", "", ""]);
    let job = stage.controller.seen.pod("default", "job").unwrap();
    let end = stage.controller.end(job).unwrap();
    assert_eq!(end.as_second(), 1300);
    stage.now = end;
    stage.settle();
    assert_eq!(stage.phase("job"), "Succeeded");
    assert_eq!(stage.phase("server"), "Running");
    assert_eq!(stage.holders("gpu-0"), ["", "server", "", ""]);
}

#[test]
fn nodes_live_on_while_the_document_cannot_be_read() {
    let mut stage = Stage::new(ONE);
    stage.settle();
    stage.restart();
    stage.controller.wanted = None;
    stage.settle();
    let alive = stage.controller.alive();
    assert_eq!(alive, [("gpu-0".to_owned(), "uid-of-gpu-0".to_owned())]);
}

#[test]
fn what_makes_no_sense_on_a_pod_or_node_is_told_once() {
    let mut stage = Stage::new(ONE);
    stage.settle();
    let bad = json!({ "annotations": {
        "run.ai/simulated-gpu-utilization": "much",
        "mirage.dev/run-for": "long",
        "runai-mig-device": "{}",
    } });
    // Two containers that go by the same annotations, and a pod without GPUs.
    let two = [one_gpu()[0].clone(), one_gpu()[0].clone()];
    stage.add_pod("gpu-0", "bad", "uid-bad", 1, &two, bad);
    let said = json!({ "annotations": { "run.ai/simulated-gpu-utilization": "50" } });
    stage.add_pod("gpu-0", "good", "uid-good", 2, &one_gpu(), said);
    stage.settle();
    let about: Vec<&str> = stage.warnings.iter().map(|(name, _)| &**name).collect();
    assert_eq!(about, ["bad", "bad", "bad"], "{:?}", stage.warnings);
    let all: String = stage.warnings.iter().map(|(_, words)| &**words).collect();
    for words in [
        "run.ai/simulated-gpu-utilization=much",
        "mirage.dev/run-for=long",
        "runai-mig-device={}",
    ] {
        assert!(all.contains(words), "{all}");
    }
    // It runs all the same.
    assert_eq!(stage.phase("bad"), "Running");

    let node = stage.controller.seen.nodes.get_mut("gpu-0").unwrap();
    let label = ("nvidia.com/mig.config".to_owned(), "all-9g.99gb".to_owned());
    node.labels.extend([label]);
    stage.settle();
    let (about, words) = stage.warnings.last().unwrap();
    assert_eq!((&**about, stage.warnings.len()), ("gpu-0", 4));
    assert!(
        words.starts_with("nvidia.com/mig.config=all-9g.99gb: "),
        "{words}"
    );
    let before = stage.writes;
    stage.settle();
    assert_eq!(stage.writes, before);
    stage.change_pod("bad", |bound| {
        let key = "run.ai/simulated-gpu-utilization".to_owned();
        bound.pod.annotations.insert(key, "101".into());
    });
    stage.settle();
    assert_eq!(stage.warnings.len(), 5);
}
