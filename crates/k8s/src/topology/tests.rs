//! The designs' own examples, and every topology in every spelling.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mirage_model::config::{self, Defaults};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The GPU Mock design's document.
const MOCK: &str = "\
mig-strategy: mixed
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
        # This section is filled by the status updater
        metrics:
          metadata:
            namespace: runai-project-a
            pod: pod
            container: container
          utilization: 10
          fb-used: 5000
      - id: GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8
        # This section is filled by the status updater
        metrics:
          metadata:
            namespace: runai-project-a
            pod: pod
            container: container
          utilization: 100
          fb-used: 10000
";

/// The MIG design's document.
const MIG: &str = "\
mig-strategy: mixed
nodes:
  runai-control-plane:
    gpu-count: 1
    gpu-memory: 40000
    gpu-product: NVIDIA-A100-SXM4-40GB
    is-dynamic-mig-enabled: true
    gpus:
    - id: GPU-91350851-5c96-531a-ad25-0034a5bf120f
      mig-devices:
      - id: MIG-28810d46-0180-5139-a975-020bdc7f9cb1
        name: 1g.5gb
        status:
          allocated-by:
            namespace: runai-pa
            pod: job-0-0-0
            container: job-0
          pod-gpu-usage-status:
            e60f84df-bbb4-444d-b25f-77be1d67a068:
              utilization:
                # Not used at the moment (nvidia doesn't support utilization metrics on MIG instances)
                min: 80
                max: 100
              fb-used: 1144
              is-inference-pod: false
";

fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_mig_designs_example_is_written_as_it_stands_there() {
    let cluster = read_cluster(MIG, "topology").unwrap();
    assert_eq!(cluster.yaml(Style::Kebab), without_comments(MIG));
    let node = &cluster.nodes["runai-control-plane"];
    let device = &node.gpus[0].mig.as_ref().unwrap()[0];
    assert_eq!(device.name, "1g.5gb");
    assert_eq!(
        device.status.allocated_by.as_ref().unwrap().container,
        "job-0"
    );
    let usage = device.status.usage["e60f84df-bbb4-444d-b25f-77be1d67a068"];
    assert_eq!((usage.min, usage.max, usage.memory_mib), (80, 100, 1144));
}

#[test]
fn the_first_designs_metrics_are_somebodys_use() {
    let cluster = read_cluster(MOCK, "topology").unwrap();
    let status = &cluster.nodes["node-a"].gpus[1].status;
    assert_eq!(
        status.allocated_by.as_ref().unwrap().namespace,
        "runai-project-a"
    );
    let usage = status.usage[""];
    assert_eq!((usage.min, usage.max, usage.memory_mib), (100, 100, 10000));
}

#[test]
fn fake_gpu_operators_node_reads_the_same_in_its_spelling() {
    let text = "\
gpuMemory: 11441
gpuProduct: Tesla-K80
migStrategy: mixed
gpus:
- id: GPU-0
  status:
    allocatedBy:
      namespace: a
      pod: b
      container: c
    podGpuUsageStatus:
      uid-1:
        utilization:
          min: 80
          max: 100
        fbUsed: 11441
        useKnativeUtilization: true
- id: GPU-1
  status:
    allocatedBy:
      namespace: \"\"
      pod: \"\"
      container: \"\"
    podGpuUsageStatus: {}
";
    let node = read_node(text, "topology-a").unwrap();
    assert_eq!(node.yaml(Style::Camel), text);
    assert!(node.gpus[1].status.is_free());
    assert!(node.gpus[0].status.usage["uid-1"].inference);
}

#[test]
fn the_topology_server_speaks_go() {
    let mut node = read_node("{gpuMemory: 100, gpuProduct: T4, gpus: [{id: GPU-0}]}", "n").unwrap();
    node.gpus[0]
        .status
        .usage
        .insert("u".into(), Usage::default());
    assert_eq!(
        node.value(Style::Go),
        json!({
            "GpuMemory": 100, "GpuProduct": "T4", "DriverVersion": "", "CudaVersion": "", "MigStrategy": "",
            "OtherDevices": [],
            "Gpus": [{"ID": "GPU-0", "Status": {
                "AllocatedBy": {"Namespace": "", "Pod": "", "Container": ""},
                "PodGpuUsageStatus": {"u": {
                    "Utilization": {"Min": 0, "Max": 0}, "FbUsed": 0, "UseKnativeUtilization": false
                }}
            }}]
        })
    );
}

#[test]
fn pools_are_read_in_both_spellings_and_inside_the_charts_values() {
    let camel = "\
topology:
  migStrategy: mixed
  nodePoolLabelKey: run.ai/simulated-gpu-node-pool
  nodePools:
    default: { gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441, otherDevices: [{ name: a/b, count: 3 }] }
";
    let cluster = read_cluster(camel, "values").unwrap();
    let pool = &cluster.pools["default"];
    assert_eq!(
        (pool.count, pool.memory_mib, pool.others[0].count),
        (2, 11441, 3)
    );
    for style in [Style::Kebab, Style::Camel, Style::Go] {
        assert_eq!(
            read_cluster(&cluster.yaml(style), "again").unwrap(),
            cluster
        );
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, message) in [
        (
            "gpus: 3",
            "reading topology n: line 1, column 7: `gpus` must be a list",
        ),
        (
            "gpuMemory: 1\ngpus:\n- id: []\n",
            "reading topology n: line 3, column 7: `id` must be text",
        ),
        ("gpuMemory: much", "`gpumemory` must be a whole number"),
        ("- a", "a topology is a mapping"),
        ("a: b: c", "line 1"),
    ] {
        let error = read_node(text, "n").unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9][-a-zA-Z0-9.:/ é\"]{0,12}"
}

fn statuses() -> impl Strategy<Value = Status> {
    let container = (words(), words(), words()).prop_map(|(namespace, pod, container)| Container {
        namespace,
        pod,
        container,
    });
    let usage = (0..=100u32, 0..=100u32, any::<u32>(), any::<bool>()).prop_map(
        |(a, b, memory, inference)| Usage {
            min: a.min(b),
            max: a.max(b),
            memory_mib: memory.into(),
            inference,
        },
    );
    let uses = prop::collection::btree_map(words(), usage, 0..3);
    (prop::option::of(container), uses).prop_map(|(allocated_by, usage)| Status {
        allocated_by,
        usage,
    })
}

fn nodes() -> impl Strategy<Value = Node> {
    let mig = (
        prop::option::of(words()),
        words(),
        prop::option::of(0..8u32),
        statuses(),
    );
    let mig = mig.prop_map(|(id, name, position, status)| Mig {
        id,
        name,
        position,
        status,
    });
    let mig = prop::option::of(prop::collection::vec(mig, 0..3));
    let gpu = (words(), statuses(), mig).prop_map(|(id, status, mig)| Gpu { id, status, mig });
    let other = (words(), any::<u32>()).prop_map(|(name, count)| Other { name, count });
    let text = || prop::option::of(words());
    let facts = (any::<u32>(), words(), text(), text(), text(), any::<bool>());
    let lists = (
        prop::collection::vec(other, 0..3),
        prop::collection::vec(gpu, 0..4),
    );
    (facts, lists).prop_map(
        |((memory, product, driver, cuda, mig_strategy, dynamic_mig), (others, gpus))| Node {
            memory_mib: memory.into(),
            product,
            driver,
            cuda,
            mig_strategy,
            dynamic_mig,
            others,
            gpus,
        },
    )
}

proptest! {
    #[test]
    fn every_node_survives_every_spelling(node in nodes()) {
        for style in [Style::Kebab, Style::Camel, Style::Go] {
            let text = node.yaml(style);
            prop_assert_eq!(&read_node(&text, "n").unwrap(), &node, "{}", text);
            // The topology server's JSON is YAML too.
            let json = node.value(style).to_string();
            prop_assert_eq!(&read_node(&json, "n").unwrap(), &node, "{}", json);
        }
    }

    #[test]
    fn hostile_text_is_refused_or_read(text in "[-{}\\[\\]:, a-z\"'\n&*!|>]{0,60}") {
        let _ = read_node(&text, "n");
        let _ = read_cluster(&text, "c");
    }
}

#[test]
fn the_config_reader_takes_what_is_written() {
    for style in [Style::Kebab, Style::Camel] {
        let cluster = read_cluster(MIG, "topology").unwrap();
        let node = cluster.nodes["runai-control-plane"].yaml(style);
        let loaded = config::load(&node, "node", &Defaults::default()).unwrap();
        assert_eq!(loaded.plan.nodes[0].gpus.len(), 1);
        assert_eq!(loaded.plan.workloads.len(), 1);
    }
}

#[test]
fn a_document_says_who_writes_it() {
    let write = |reporter| object(reporter, "ns", "a", "u", &BTreeMap::new(), "text");
    for reporter in [Reporter::Node, Reporter::Controller] {
        let labels = write(reporter)["metadata"]["labels"].clone();
        let labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
        assert_eq!(Reporter::of(Some(&labels)), reporter);
    }
    assert_eq!(Reporter::of(None), Reporter::Controller);
    assert_eq!(write(Reporter::Node)["metadata"]["name"], "topology-a");
}
