//! Edits of the document while everything runs: each kind of edit reaches nodes, resources, labels and documents, costs a node at most
//! two writes, and takes nothing from whoever uses it.

use super::*;

/// Settles, and counts what each node cost.
fn cost(stage: &mut Stage, nodes: usize) -> usize {
    let before = stage.writes;
    stage.settle();
    let cost = stage.writes - before;
    assert!(cost <= 2 * nodes, "{cost} writes for {nodes} nodes");
    cost
}

fn pool(text: &str) -> String {
    format!("pools:\n  gpu: {{ {text}, virtual-nodes: 2 }}\n")
}

fn label(stage: &Stage, node: &str, key: &str) -> String {
    stage.controller.seen.nodes[node].labels[key].clone()
}

fn gpus(stage: &Stage, node: &str) -> String {
    stage.controller.seen.nodes[node].allocatable["nvidia.com/gpu"].clone()
}

#[test]
fn count() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 4"));
    stage.settle();
    stage.gpu_pod("gpu-0", "train", 1, 3);
    stage.settle();
    stage.want(&pool("model: t4, gpus: 2"));
    assert_eq!(cost(&mut stage, 2), 4);
    assert_eq!([gpus(&stage, "gpu-0"), gpus(&stage, "gpu-1")], ["2", "2"]);
    assert_eq!(label(&stage, "gpu-1", "nvidia.com/gpu.count"), "2");
    assert_eq!(stage.holders("gpu-0"), ["train"; 3]);
    stage.want(&pool("model: t4, gpus: 6"));
    assert_eq!(cost(&mut stage, 2), 4);
    assert_eq!(stage.holders("gpu-0").len(), 6);
    assert_eq!(stage.phase("train"), "Running");
}

#[test]
fn model_and_memory() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 2"));
    stage.settle();
    stage.gpu_pod("gpu-0", "train", 1, 1);
    stage.settle();
    let (product, memory) = ("nvidia.com/gpu.product", "nvidia.com/gpu.memory");
    let old = (
        label(&stage, "gpu-0", product),
        label(&stage, "gpu-0", memory),
    );
    stage.want(&pool("model: a100-sxm4-40gb, gpus: 2"));
    cost(&mut stage, 2);
    assert_eq!(label(&stage, "gpu-1", product), "NVIDIA-A100-SXM4-40GB");
    assert_eq!(label(&stage, "gpu-1", memory), "40960");
    assert!(stage.controller.seen.documents["gpu-1"].contains("gpu-memory: 40960"));
    // The GPU in use stays what it is until it is free; so does what is simulated.
    assert_eq!(label(&stage, "gpu-0", product), old.0);
    assert_eq!(label(&stage, "gpu-0", memory), old.1);
    let boards = |stage: &Stage| -> Vec<String> {
        let fleet = stage.controller.fleet();
        let node = fleet
            .into_iter()
            .find(|(plan, ..)| &*plan.name == "gpu-0")
            .unwrap();
        node.0
            .gpus
            .iter()
            .map(|gpu| gpu.board.product.clone())
            .collect()
    };
    assert_eq!(boards(&stage), ["Tesla-T4", "NVIDIA-A100-SXM4-40GB"]);
    stage.change_pod("train", |bound| bound.ended = true);
    cost(&mut stage, 1);
    assert_eq!(label(&stage, "gpu-0", product), "NVIDIA-A100-SXM4-40GB");
    assert_eq!(boards(&stage), ["NVIDIA-A100-SXM4-40GB"; 2]);
}

#[test]
fn memory_of_fake_gpu_operators_pools() {
    let pools = |memory| {
        format!(
            "nodePools:\n  default: {{ gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: {memory} }}\n"
        )
    };
    let mut stage = Stage::new(&pools(11441));
    let node = Node {
        uid: "u".into(),
        labels: BTreeMap::from([(POOL.to_owned(), "default".to_owned())]),
        annotations: BTreeMap::from([(KWOK.to_owned(), "fake".to_owned())]),
        ..Node::default()
    };
    stage.controller.seen.nodes.insert("kwok".into(), node);
    stage.settle();
    assert_eq!(label(&stage, "kwok", "nvidia.com/gpu.memory"), "11441");
    stage.want(&pools(22000));
    assert_eq!(cost(&mut stage, 1), 2);
    assert_eq!(label(&stage, "kwok", "nvidia.com/gpu.memory"), "22000");
    assert!(stage.controller.seen.documents["kwok"].contains("gpu-memory: 22000"));
}

#[test]
fn strategy() {
    let cut = |strategy: &str| {
        format!(
            "mig-strategy: {strategy}\npools:\n  gpu: {{ model: a100-sxm4-40gb, gpus: 1, virtual-nodes: 1 }}\n"
        )
    };
    let mut stage = Stage::new(&cut("mixed"));
    stage.settle();
    let node = stage.controller.seen.nodes.get_mut("gpu-0").unwrap();
    node.labels
        .insert("nvidia.com/mig.config".into(), "all-1g.5gb".into());
    stage.settle();
    let seen = &stage.controller.seen.nodes["gpu-0"];
    assert_eq!(seen.allocatable["nvidia.com/mig-1g.5gb"], "7");
    stage.want(&cut("single"));
    assert_eq!(cost(&mut stage, 1), 2);
    assert_eq!(gpus(&stage, "gpu-0"), "7");
    let seen = &stage.controller.seen.nodes["gpu-0"];
    assert!(!seen.allocatable.contains_key("nvidia.com/mig-1g.5gb"));
    assert_eq!(label(&stage, "gpu-0", "nvidia.com/mig.strategy"), "single");
}

#[test]
fn pools_come_and_go_and_nodes_move_between_them() {
    let mut stage = Stage::new(
        "nodePools:\n  small: { gpuProduct: Tesla-T4, gpuCount: 1, gpuMemory: 15360 }\n  large: { gpuProduct: Tesla-T4, gpuCount: 4, gpuMemory: 15360 }\n",
    );
    let node = Node {
        uid: "u".into(),
        labels: BTreeMap::from([(POOL.to_owned(), "small".to_owned())]),
        annotations: BTreeMap::from([(KWOK.to_owned(), "fake".to_owned())]),
        ..Node::default()
    };
    stage.controller.seen.nodes.insert("kwok".into(), node);
    stage.settle();
    assert_eq!(gpus(&stage, "kwok"), "1");
    let node = stage.controller.seen.nodes.get_mut("kwok").unwrap();
    node.labels.insert(POOL.to_owned(), "large".to_owned());
    assert_eq!(cost(&mut stage, 1), 2);
    assert_eq!(gpus(&stage, "kwok"), "4");
    assert_eq!(stage.holders("kwok").len(), 4);
    // The pool goes, and the node's document with it.
    stage.want("nodePools:\n  small: { gpuProduct: Tesla-T4, gpuCount: 1, gpuMemory: 15360 }\n");
    stage.settle();
    assert!(stage.controller.seen.documents.is_empty());
}

#[test]
fn a_node_that_is_wanted_again_takes_pods_again_even_after_a_restart() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 1"));
    stage.settle();
    stage.gpu_pod("gpu-1", "train", 1, 1);
    stage.settle();
    stage.want("pools:\n  gpu: { model: t4, gpus: 1, virtual-nodes: 1 }\n");
    stage.settle();
    assert!(stage.controller.seen.nodes["gpu-1"].is_cordoned);
    stage.restart();
    stage.want(&pool("model: t4, gpus: 1"));
    stage.settle();
    assert!(!stage.controller.seen.nodes["gpu-1"].is_cordoned);
    assert_eq!(stage.holders("gpu-1"), ["train"]);
    // Its administrator's own cordon is left alone.
    let node = stage.controller.seen.nodes.get_mut("gpu-0").unwrap();
    node.is_cordoned = true;
    let writes = stage.writes;
    stage.settle();
    assert_eq!(stage.writes, writes);
    assert!(stage.controller.seen.nodes["gpu-0"].is_cordoned);
}

#[test]
fn a_bad_edit_shows_on_the_nodes_until_it_is_mended() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 1"));
    stage.settle();
    let follows = |stage: &Stage| stage.controller.seen.nodes["gpu-1"].follows.clone();
    assert_eq!(follows(&stage).0, "True");
    let why = Wanted::read("pools:\n  gpu: { model: t4, gpu: 9 }\n", "topology").unwrap_err();
    stage.controller.refusal = Some(why);
    assert_eq!(cost(&mut stage, 2), 2);
    let (status, message) = follows(&stage);
    assert_eq!(status, "False");
    assert!(message.contains("topology:2"), "{message}");
    assert_eq!(gpus(&stage, "gpu-1"), "1");
    stage.restart();
    stage.controller.refusal = None;
    assert_eq!(cost(&mut stage, 2), 2);
    assert_eq!(follows(&stage).0, "True");
}

#[test]
fn documents_of_nodes_agents_are_left_alone() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 1"));
    let text = "gpu-memory: 1\ngpu-product: Mine\ngpus: []\n";
    let agent = topology::Reporter::Node;
    assert!(
        stage
            .controller
            .seen
            .put_document("gpu-0", agent, text.into())
    );
    stage.settle();
    assert!(!stage.controller.seen.documents.contains_key("gpu-0"));
    let shown = stage.controller.document("gpu-0").unwrap();
    assert_eq!(shown.product, "Mine");
    // Nor is it deleted when the node is nobody's.
    stage.want("pools:\n  gpu: { model: t4, gpus: 1 }\n");
    stage.settle();
    assert_eq!(stage.controller.seen.reports["gpu-0"], text);
}

#[test]
fn gpus_in_use_stay_what_they_are_after_a_restart_too() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 3"));
    stage.settle();
    stage.gpu_pod("gpu-0", "train", 1, 2);
    stage.settle();
    let ids = |stage: &Stage| -> Vec<String> {
        let text = &stage.controller.seen.documents["gpu-0"];
        let gpus = topology::read_node(text, "gpu-0").unwrap().gpus;
        gpus.into_iter().map(|gpu| gpu.id).collect()
    };
    let before = ids(&stage);
    // The controller is away while the pool is edited.
    stage.want(&pool("model: a100-sxm4-40gb, gpus: 1"));
    stage.restart();
    stage.settle();
    assert_eq!(stage.holders("gpu-0"), ["train"; 2]);
    assert_eq!(ids(&stage), before[..2]);
    let product = "nvidia.com/gpu.product";
    assert_eq!(label(&stage, "gpu-0", product), "Tesla-T4");
    assert_eq!(
        label(&stage, "gpu-1", product),
        "NVIDIA-A100-SXM4-40GB",
        "a free GPU is what it is to be"
    );
    stage.change_pod("train", |bound| bound.ended = true);
    stage.settle();
    assert_eq!(stage.holders("gpu-0"), [""]);
    assert_eq!(label(&stage, "gpu-0", product), "NVIDIA-A100-SXM4-40GB");
}

#[test]
fn a_node_whose_pool_is_gone_waits_for_its_pods_after_a_restart_too() {
    for lost in ["nothing", "memory", "reign", "memory and document"] {
        let mut stage = Stage::new(&pool("model: t4, gpus: 2"));
        stage.settle();
        stage.gpu_pod("gpu-1", "train", 1, 1);
        stage.settle();
        stage.want("pools:\n  other: { model: l4, gpus: 1, virtual-nodes: 1 }\n");
        match lost {
            "reign" => stage.controller.begin(),
            "nothing" => {}
            _ => stage.restart(),
        }
        if lost == "memory and document" {
            stage.controller.seen.documents.remove("gpu-1");
        }
        stage.settle();
        let seen = &stage.controller.seen;
        assert!(!seen.nodes.contains_key("gpu-0"), "{lost}");
        assert!(seen.nodes["gpu-1"].is_cordoned, "{lost}");
        assert_eq!(stage.phase("train"), "Running", "{lost}");
        let shown = stage.controller.fleet();
        let of = shown
            .iter()
            .find(|(plan, ..)| &*plan.name == "gpu-1")
            .unwrap();
        assert_eq!((&*of.0.gpus[0].board.key, of.1.len()), ("t4", 1), "{lost}");
        assert_eq!(stage.holders("gpu-1"), ["train", ""], "{lost}");
        let writes = stage.writes;
        stage.settle();
        assert_eq!(stage.writes, writes, "{lost}");
        stage.change_pod("train", |bound| bound.ended = true);
        stage.settle();
        assert!(!stage.controller.seen.nodes.contains_key("gpu-1"), "{lost}");
    }
}

#[test]
fn what_runs_is_shown_on_when_another_reign_begins() {
    let mut stage = Stage::new(&pool("model: t4, gpus: 2"));
    stage.settle();
    stage.gpu_pod("gpu-0", "train", 1, 1);
    stage.settle();
    let shown = |stage: &Stage| -> Vec<(String, usize, u64)> {
        let fleet = stage.controller.fleet().into_iter();
        fleet
            .map(|(plan, works, shape)| (plan.name.to_string(), works.len(), shape))
            .collect()
    };
    let before = shown(&stage);
    assert_eq!(before.len(), 2);
    stage.controller.begin();
    assert_eq!(shown(&stage), before);
    // What was thought of earlier decides nothing: another may have moved it.
    assert!(
        stage
            .controller
            .phase("default", "train", stage.now)
            .is_none()
    );
    let writes = stage.writes;
    stage.settle();
    assert_eq!((shown(&stage), stage.writes), (before, writes));
}

#[test]
fn a_document_that_says_nothing_of_a_cluster_is_refused() {
    let node = "gpu-product: Tesla-K80\ngpu-memory: 11441\ngpu-count: 2\n";
    for bad in ["", "# pools: {}\n", "{}", "seed: 7\n", node] {
        let error = Wanted::read(bad, "topology").unwrap_err();
        assert!(error.starts_with("topology:1: "), "{bad}: {error}");
    }
    for good in ["pools: {}\n", "nodes: {}\n", "nodePools: {}\n"] {
        let wanted = Wanted::read(good, "topology").unwrap();
        assert!(wanted.plan.nodes.is_empty(), "{good}");
    }
}

#[test]
fn what_is_not_said_any_more_goes_also_when_it_was_said_before_a_restart() {
    let pools = |more: &str| {
        format!(
            "nodePools:\n  default: {{ gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441{more} }}\n"
        )
    };
    let mut stage = Stage::new(&pools(
        ", otherDevices: [{ name: example.com/nic, count: 2 }]",
    ));
    let node = Node {
        uid: "u".into(),
        labels: BTreeMap::from([(POOL.to_owned(), "default".to_owned())]),
        annotations: BTreeMap::from([(KWOK.to_owned(), "fake".to_owned())]),
        ..Node::default()
    };
    stage.controller.seen.nodes.insert("kwok".into(), node);
    stage.settle();
    let nics = |stage: &Stage| {
        let amounts = &stage.controller.seen.nodes["kwok"].allocatable;
        amounts.get("example.com/nic").cloned()
    };
    assert_eq!(nics(&stage).as_deref(), Some("2"));
    // Edited while no controller runs: all that is wanted stands there, and more.
    stage.want(&pools(""));
    stage.restart();
    assert_eq!(cost(&mut stage, 1), 2);
    assert_eq!(nics(&stage), None);
}

#[test]
fn keys_that_stand_by_the_controllers_word_are_known_by_what_the_server_remembers() {
    let entry = |manager: &str, operation: &str, part: Value| {
        json!({
            "manager": manager, "operation": operation, "subresource": "status", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": part,
        })
    };
    let ours = json!({
        "f:metadata": { "f:labels": { "f:a/b": {}, "f:c": {} } },
        "f:status": { "f:capacity": { "f:nvidia.com/gpu": {} }, "f:allocatable": { "f:nvidia.com/gpu": {} } },
    });
    let read = |managed: Value| {
        let node = json!({ "metadata": { "name": "n", "uid": "u", "managedFields": managed } });
        Node::read(serde_json::from_value(node).unwrap())
            .unwrap()
            .1
            .spoken
    };
    let other = entry("kubelet", "Update", json!({ "f:metadata": {} }));
    let made = entry(
        crate::controller::MANAGER,
        "Update",
        json!({ "f:metadata": {} }),
    );
    let known = read(json!([
        other,
        made,
        entry(crate::controller::MANAGER, "Apply", ours)
    ]));
    let gpu = ["nvidia.com/gpu"];
    let keys = [&["c", "a/b"][..], &[], &gpu, &gpu].map(|keys| keys.iter().copied());
    assert_eq!(known, Some(fingerprint(keys)));
    assert_eq!(read(json!([other, made])), None);
}
