//! A controller against an API server of our own: from the document to nodes, pods and documents; lost watches, failing
//! requests, bad edits, a second controller, and the way back.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "controller/random.rs"]
mod random;
#[path = "support/store.rs"]
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirage_k8s::cluster::{Access, Client, connect};
use mirage_k8s::controller::Settings;
use mirage_k8s::controller::run::{Shared, Tell, remove, resign, run};
use mirage_k8s::topology::{KEY, read_node};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::store::Store;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);
const DOCUMENT: &str = "/api/v1/namespaces/gpu-operator/configmaps/topology";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/gpu-operator/leases/mirage-controller";
const TWO: &str = "pools:\n  gpu: { model: t4, gpus: 4, virtual-nodes: 2 }\n";

struct Cluster {
    store: Store,
    shared: Arc<Shared>,
    /// The trouble that each part has now.
    trouble: Arc<Mutex<BTreeMap<&'static str, String>>>,
    running: Option<tokio::task::JoinHandle<()>>,
    _directory: TempDir,
}

async fn client(store: &Store, directory: &TempDir) -> Client {
    let path = directory.path().join("kubeconfig");
    store.kubeconfig(&path);
    let access = Access {
        kubeconfig: Some(path),
        context: None,
    };
    connect(&access).await.unwrap()
}

impl Cluster {
    /// A controller of this name beside a server.
    async fn join(store: &Store, identity: &str) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let client = client(store, &directory).await;
        let shared = Shared::new(Settings {
            identity: identity.into(),
            ..Settings::default()
        });
        let trouble = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let heard = trouble.clone();
        let tell: Tell = Arc::new(move |part, outcome| {
            let mut all = heard.lock().unwrap();
            match outcome {
                Ok(()) => all.remove(part),
                Err(why) => all.insert(part, why),
            };
        });
        let running = tokio::spawn(run(client, shared.clone(), tell));
        Cluster {
            store: store.clone(),
            shared,
            trouble,
            running: Some(running),
            _directory: directory,
        }
    }

    /// Ends the controller as a crash would.
    async fn end(mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _ = running.await;
        }
    }

    async fn start(document: &str) -> Cluster {
        let store = Store::start().await;
        store.put(DOCUMENT, map(document));
        Cluster::join(&store, "one").await
    }

    /// Waits until something holds.
    async fn until<T>(&self, what: &str, look: impl Fn(&Store) -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(found) = look(&self.store) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found,
            Err(_) => panic!("no {what}; trouble: {:?}", self.trouble.lock().unwrap()),
        }
    }

    async fn ready(&self, node: &str) {
        self.until("ready node", |store| {
            let node = store.get(&format!("/api/v1/nodes/{node}"))?;
            let conditions = node["status"]["conditions"].as_array()?.clone();
            conditions
                .iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True")
                .then_some(())
        })
        .await;
    }

    /// Waits until the pods on a node's GPUs are these.
    async fn holders(&self, node: &str, pods: &[&str]) {
        self.until("such document", |store| {
            (holders(store, node)? == pods).then_some(())
        })
        .await;
    }

    /// Whether this controller itself says that these pods have a node's GPUs.
    fn says(&self, node: &str, pods: &[&str]) -> Option<()> {
        self.shared.look(|controller| {
            let document = controller.document(node)?;
            let held = document.gpus.iter().map(|gpu| &gpu.status.allocated_by);
            held.map(|by| by.as_ref().map_or("", |by| &*by.pod))
                .eq(pods.iter().copied())
                .then_some(())
        })
    }

    fn bind(&self, name: &str, node: &str, gpus: u32) {
        let path = format!("/api/v1/namespaces/team/pods/{name}");
        self.store.put(
            &path,
            json!({
                "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
                "spec": {
                    "nodeName": node,
                    "containers": [{ "name": "main", "image": "i", "resources": { "limits": { "nvidia.com/gpu": gpus.to_string() } } }],
                },
                "status": { "phase": "Pending" },
            }),
        );
    }

    async fn runs(&self, pod: &str) {
        let path = format!("/api/v1/namespaces/team/pods/{pod}");
        self.until("running pod", |store| {
            (store.get(&path)?["status"]["phase"] == "Running").then_some(())
        })
        .await;
    }
}

fn map(text: &str) -> Value {
    json!({ "metadata": {}, "data": { KEY: text } })
}

fn holders(store: &Store, node: &str) -> Option<Vec<String>> {
    let map = store.get(&format!(
        "/api/v1/namespaces/gpu-operator/configmaps/topology-{node}"
    ))?;
    let document = read_node(map["data"][KEY].as_str()?, node).ok()?;
    let gpus = document.gpus.into_iter();
    Some(
        gpus.map(|gpu| {
            gpu.status
                .allocated_by
                .map_or_else(String::new, |by| by.pod)
        })
        .collect(),
    )
}

#[tokio::test]
async fn a_document_becomes_nodes_and_their_pods_run() {
    let cluster = Cluster::start(TWO).await;
    cluster.ready("gpu-0").await;
    cluster.ready("gpu-1").await;
    let node = cluster.store.get("/api/v1/nodes/gpu-1").unwrap();
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "4");
    assert_eq!(node["spec"]["taints"][0]["key"], "mirage.dev/virtual-node");
    assert_eq!(
        node["metadata"]["labels"]["mirage.dev/virtual-node"],
        "true"
    );
    cluster
        .until("lease", |store| {
            store.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-1")
        })
        .await;
    cluster.bind("a", "gpu-1", 3);
    cluster.runs("a").await;
    cluster.holders("gpu-1", &["a", "a", "a", ""]).await;
    cluster.store.delete("/api/v1/namespaces/team/pods/a");
    cluster.holders("gpu-1", &["", "", "", ""]).await;
}

#[tokio::test]
async fn what_happened_behind_a_lost_watch_is_found_out() {
    let cluster = Cluster::start(TWO).await;
    cluster.ready("gpu-0").await;
    cluster.bind("a", "gpu-0", 1);
    cluster.bind("b", "gpu-0", 1);
    cluster.runs("a").await;
    cluster.runs("b").await;
    cluster.holders("gpu-0", &["a", "b", "", ""]).await;
    cluster
        .store
        .forget(|store| store.delete("/api/v1/namespaces/team/pods/a"));
    cluster.holders("gpu-0", &["", "b", "", ""]).await;
    // Requests that fail are made again.
    cluster.store.fail(6);
    cluster.bind("c", "gpu-0", 2);
    cluster.runs("c").await;
    cluster.holders("gpu-0", &["c", "b", "c", ""]).await;
}

#[tokio::test]
async fn a_bad_edit_keeps_the_old_topology_and_is_told() {
    let cluster = Cluster::start(TWO).await;
    cluster.ready("gpu-0").await;
    cluster
        .store
        .put(DOCUMENT, map("pools:\n  gpu: { model: t4, gpu: 9 }\n"));
    let event = cluster
        .until("event", |store| {
            let version = store.get(DOCUMENT)?["metadata"]["resourceVersion"]
                .as_str()?
                .to_owned();
            store.get(&format!(
                "/api/v1/namespaces/gpu-operator/events/topology.{version}"
            ))
        })
        .await;
    assert!(
        event["message"].as_str().unwrap().contains("topology:2"),
        "{event}"
    );
    // Each node says so.
    cluster
        .until("condition on a node", |store| {
            let node = store.get("/api/v1/nodes/gpu-1")?;
            let conditions = node["status"]["conditions"].as_array()?.clone();
            let refused = conditions
                .iter()
                .find(|one| one["type"] == "MirageTopology" && one["status"] == "False")?;
            refused["message"]
                .as_str()?
                .contains("topology:2")
                .then_some(())
        })
        .await;
    cluster.store.put(
        DOCUMENT,
        map("pools:\n  gpu: { model: t4, gpus: 2, virtual-nodes: 1 }\n"),
    );
    cluster
        .until("one node with two GPUs", |store| {
            let node = store.get("/api/v1/nodes/gpu-0")?;
            let smaller = node["status"]["allocatable"]["nvidia.com/gpu"] == "2";
            (smaller && store.get("/api/v1/nodes/gpu-1").is_none()).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_document_without_its_key_is_refused_like_any_bad_edit() {
    let store = Store::start().await;
    store.put(DOCUMENT, map(TWO));
    let first = Cluster::join(&store, "one").await;
    first.ready("gpu-0").await;
    first
        .until("record of what is in force", |store| {
            store.get("/api/v1/namespaces/gpu-operator/configmaps/mirage-accepted-topology")
        })
        .await;
    store.put(DOCUMENT, json!({ "data": { "topology.yaml": TWO } }));
    let refused = |store: &Store, node: &str| {
        let node = store.get(&format!("/api/v1/nodes/{node}"))?;
        let conditions = node["status"]["conditions"].as_array()?.clone();
        let words = conditions
            .iter()
            .find(|one| one["reason"] == "BadTopology")?["message"]
            .clone();
        let words = words.as_str()?;
        (words.contains("no `topology.yml`") && words.contains("`topology.yaml`")).then_some(())
    };
    first
        .until("condition on a node", |store| refused(store, "gpu-1"))
        .await;
    first
        .until("event", |store| {
            let version = store.get(DOCUMENT)?["metadata"]["resourceVersion"].clone();
            let version = version.as_str()?;
            store.get(&format!(
                "/api/v1/namespaces/gpu-operator/events/topology.{version}"
            ))
        })
        .await;
    // Whoever begins now goes by what was in force.
    first.end().await;
    let again = Cluster::join(&store, "one").await;
    again.bind("a", "gpu-0", 1);
    again.runs("a").await;
    again.holders("gpu-0", &["a", "", "", ""]).await;
    assert!(refused(&store, "gpu-0").is_some());
}

#[tokio::test]
async fn of_two_controllers_one_acts() {
    let first = Cluster::start(TWO).await;
    first.ready("gpu-1").await;
    let second = Cluster::join(&first.store, "two").await;
    // It knows all that the first knows, and writes nothing.
    first.bind("a", "gpu-0", 1);
    first.runs("a").await;
    second
        .until("pod in the mind of the second", |_| {
            second
                .shared
                .look(|controller| controller.seen.pod("team", "a").map(drop))
        })
        .await;
    assert!(*first.shared.leads().borrow());
    assert!(!*second.shared.leads().borrow());
    // Whoever asks the second is told the same as by the first.
    first.holders("gpu-0", &["a", "", "", ""]).await;
    second
        .until("the same document", |_| {
            second.says("gpu-0", &["a", "", "", ""])
        })
        .await;
    first.store.delete("/api/v1/namespaces/team/pods/a");
    second
        .until("the same document", |_| second.says("gpu-0", &[""; 4]))
        .await;
    assert!(second.shared.writes().is_empty());
}

#[tokio::test]
async fn who_acts_again_goes_by_what_others_did_meanwhile() {
    let first = Cluster::start(TWO).await;
    first.ready("gpu-1").await;
    first.bind("a", "gpu-0", 1);
    first.runs("a").await;
    first.holders("gpu-0", &["a", "", "", ""]).await;
    let mut leads = first.shared.leads();
    let mut lease = first.store.get(LEASE).unwrap();
    let mut hand = |to: &str| {
        lease["spec"]["holderIdentity"] = json!(to);
        first.store.put(LEASE, lease.clone());
    };
    hand("somebody");
    let stops = leads.wait_for(|leads| !*leads);
    tokio::time::timeout(PATIENCE, stops)
        .await
        .unwrap()
        .unwrap();
    // Somebody else gave the pod another GPU than this one remembers, and says so where both look.
    let pod = "/api/v1/namespaces/team/pods/a";
    let path = "/api/v1/namespaces/gpu-operator/configmaps/topology-gpu-0";
    let mut written = first.store.get(pod).unwrap();
    let held = &mut written["metadata"]["annotations"]["mirage.dev/held-devices"];
    let moved = held.as_str().unwrap().replace("[\"0\"]", "[\"2\"]");
    assert_ne!(held.as_str(), Some(&*moved));
    *held = json!(moved);
    first.store.put(pod, written);
    first.store.delete(path);
    hand("");
    first.holders("gpu-0", &["", "", "a", ""]).await;
}

#[tokio::test]
async fn a_lease_that_is_taken_ends_a_reign_and_one_that_is_free_begins_one() {
    let first = Cluster::start(TWO).await;
    first.ready("gpu-1").await;
    let lease = |holder: &str| {
        let mut lease = first.store.get(LEASE).unwrap();
        lease["spec"]["holderIdentity"] = json!(holder);
        lease
    };
    // Another has taken it: the first sees that and stops.
    let mut leads = first.shared.leads();
    first.store.put(LEASE, lease("somebody"));
    let stops = leads.wait_for(|leads| !*leads);
    tokio::time::timeout(PATIENCE, stops)
        .await
        .unwrap()
        .unwrap();
    first.bind("a", "gpu-0", 1);
    // Two want it when it is free: one gets it, and does what was left.
    let _second = Cluster::join(&first.store, "two").await;
    first.store.put(LEASE, lease(""));
    first.runs("a").await;
    first.holders("gpu-0", &["a", "", "", ""]).await;
    let holder = first.store.get(LEASE).unwrap()["spec"]["holderIdentity"].clone();
    assert!(holder == "one" || holder == "two", "{holder}");
}

#[tokio::test]
async fn conflicts_and_a_server_that_goes_away_are_outlasted() {
    let cluster = Cluster::start(TWO).await;
    cluster.ready("gpu-0").await;
    cluster.store.conflict("/", 12);
    cluster.bind("a", "gpu-0", 1);
    cluster.runs("a").await;
    cluster.holders("gpu-0", &["a", "", "", ""]).await;
    cluster.store.away(true);
    // Meanwhile the world goes on.
    cluster.store.delete("/api/v1/namespaces/team/pods/a");
    cluster.bind("b", "gpu-0", 2);
    cluster
        .until("trouble", |_| {
            let trouble = cluster.trouble.lock().unwrap();
            trouble.contains_key("topology-watch").then_some(())
        })
        .await;
    cluster.store.away(false);
    cluster.runs("b").await;
    cluster.holders("gpu-0", &["b", "b", "", ""]).await;
    // It is over for every part, also for one that has nothing new to tell.
    cluster
        .until("end of all trouble", |_| {
            cluster.trouble.lock().unwrap().is_empty().then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_document_that_is_lost_while_nobody_looks_is_written_as_it_was() {
    let store = Store::start().await;
    store.put(DOCUMENT, map(TWO));
    let first = Cluster::join(&store, "one").await;
    first.ready("gpu-0").await;
    for (pod, gpus) in [("a", 1), ("b", 2)] {
        first.bind(pod, "gpu-0", gpus);
        first.runs(pod).await;
    }
    first.holders("gpu-0", &["a", "b", "b", ""]).await;
    first.end().await;
    store.delete("/api/v1/namespaces/gpu-operator/configmaps/topology-gpu-0");
    store.delete("/api/v1/namespaces/team/pods/a");
    // The same name: nobody has to wait for the lease to run out.
    let again = Cluster::join(&store, "one").await;
    again.holders("gpu-0", &["", "b", "b", ""]).await;
}

#[tokio::test]
async fn everything_can_be_taken_back() {
    let store = Store::start().await;
    store.put(DOCUMENT, map(TWO));
    let directory = tempfile::tempdir().unwrap();
    let client = client(&store, &directory).await;
    let shared = Shared::new(Settings::default());
    let running = tokio::spawn(run(client.clone(), shared.clone(), Arc::new(|_, _| ())));
    let cluster = Cluster {
        store: store.clone(),
        shared,
        trouble: Arc::default(),
        running: None,
        _directory: directory,
    };
    cluster.ready("gpu-1").await;
    running.abort();
    let _ = running.await;
    remove(&client, "gpu-operator").await.unwrap();
    assert!(
        store.get("/api/v1/nodes/gpu-0").is_none() && store.get("/api/v1/nodes/gpu-1").is_none()
    );
    assert!(holders(&store, "gpu-0").is_none());
    assert!(store.get(DOCUMENT).is_some());
    assert!(store.get(LEASE).is_none());
}

#[tokio::test]
async fn what_was_said_of_nodes_that_stay_and_of_their_pods_is_taken_back() {
    const HELD: &str = "mirage.dev/held-devices";
    const RESERVED: &str = "run.ai/reserve_for_gpu_index";
    // More than a page of pods that hold nothing, one that does before them and one behind.
    let bystanders = 300;
    let cluster = Cluster::start(TWO).await;
    let (store, directory) = (&cluster.store, tempfile::tempdir().unwrap());
    let client = client(store, &directory).await;
    store.put(
        "/api/v1/nodes/kwok-0",
        json!({ "metadata": {
            "labels": { "run.ai/simulated-gpu-node-pool": "gpu" },
            "annotations": { "kwok.x-k8s.io/node": "fake" },
        } }),
    );
    cluster.ready("gpu-0").await;
    cluster.bind("a", "kwok-0", 1);
    cluster.bind("z", "kwok-0", 1);
    cluster.bind("v", "gpu-0", 1);
    let path = |pod: &str| format!("/api/v1/namespaces/team/pods/{pod}");
    let note = |store: &Store, pod: &str, key: &str| {
        let pod = store.get(&path(pod))?;
        pod["metadata"]["annotations"][key].as_str().map(drop)
    };
    for pod in ["a", "z", "v"] {
        cluster.until("note", |store| note(store, pod, HELD)).await;
    }
    let store = store.clone();
    cluster.end().await;
    for number in 0..bystanders {
        let bystander =
            json!({ "metadata": {}, "spec": { "nodeName": "kwok-0", "containers": [] } });
        store.put(&path(&format!("m-{number}")), bystander);
    }
    // Somebody else's word on one, the controller's on the other.
    for (pod, manager) in [("a", "binder"), ("z", "mirage-controller")] {
        let mut object = store.get(&path(pod)).unwrap();
        object["metadata"]["annotations"][RESERVED] = json!("GPU-1");
        object["metadata"]["annotations"]["mine"] = json!("stays");
        let fields = json!({ "f:metadata": { "f:annotations": { format!("f:{RESERVED}"): {} } } });
        object["metadata"]["managedFields"] =
            json!([{ "manager": manager, "operation": "Update", "fieldsV1": fields }]);
        store.put(&path(pod), object);
    }
    // Signs of life: by a controller, on a node that stays, and by its kubelet.
    let lease = |node: &str| {
        format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}")
    };
    for (node, manager) in [("kwok-0", "mirage-controller"), ("real", "kubelet")] {
        let managers = json!([{ "manager": manager, "operation": "Apply" }]);
        store.put(
            &lease(node),
            json!({ "metadata": { "managedFields": managers } }),
        );
    }
    let before = store.get(&path("m-7")).unwrap();
    let said = remove(&client, "gpu-operator").await.unwrap();
    assert!(said.contains("2 pods cleaned"), "{said}");
    for pod in ["a", "z"] {
        assert!(note(&store, pod, HELD).is_none(), "{pod}");
        assert!(note(&store, pod, "mine").is_some(), "{pod}");
    }
    assert!(note(&store, "a", RESERVED).is_some());
    assert!(store.get(&lease("kwok-0")).is_none() && store.get(&lease("real")).is_some());
    assert!(note(&store, "z", RESERVED).is_none());
    // Nobody wrote to those that carry nothing, nor to one whose node is gone.
    assert_eq!(store.get(&path("m-7")).unwrap(), before);
    assert!(note(&store, "v", HELD).is_some());
    let again = remove(&client, "gpu-operator").await.unwrap();
    assert!(again.starts_with("0 nodes deleted"), "{again}");
}

#[tokio::test]
async fn whoever_ends_gives_the_lease_back() {
    let cluster = Cluster::start(TWO).await;
    cluster.ready("gpu-0").await;
    let directory = tempfile::tempdir().unwrap();
    let client = client(&cluster.store, &directory).await;
    let (store, shared) = (cluster.store.clone(), cluster.shared.clone());
    cluster.end().await;
    let holder = |store: &Store| store.get(LEASE).unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(holder(&store), "one");
    resign(&client, &shared).await.unwrap();
    assert_eq!(holder(&store), Value::Null);
    // It is the next one's now, and not to be given back twice.
    let next = Cluster::join(&store, "two").await;
    next.until("next holder", |store| {
        (holder(store) == "two").then_some(())
    })
    .await;
    resign(&client, &shared).await.unwrap();
    assert_eq!(holder(&store), "two");
    next.end().await;
}

#[tokio::test]
async fn who_begins_without_a_good_document_goes_by_the_last_good_one() {
    let first = Cluster::start(TWO).await;
    first.ready("gpu-0").await;
    let accepted = "/api/v1/namespaces/gpu-operator/configmaps/mirage-accepted-topology";
    first
        .until("kept topology", |store| {
            (store.get(accepted)?["data"][KEY] == TWO).then_some(())
        })
        .await;
    let store = first.store.clone();
    first.end().await;
    let edits: [fn(&Store); 2] = [
        |store| store.put(DOCUMENT, map("pools: nonsense\n")),
        |store| store.delete(DOCUMENT),
    ];
    for (round, edit) in edits.into_iter().enumerate() {
        edit(&store);
        store.delete("/api/v1/nodes/gpu-1");
        let next = Cluster::join(&store, "one").await;
        next.ready("gpu-1").await;
        let pod = format!("late-{round}");
        next.bind(&pod, "gpu-1", 2);
        next.runs(&pod).await;
        assert_eq!(store.get(accepted).unwrap()["data"][KEY], TWO);
        next.end().await;
    }
}

#[tokio::test]
async fn a_lease_that_others_write_to_is_kept() {
    let cluster = Cluster::start(TWO).await;
    let mut leads = cluster.shared.leads();
    leads.wait_for(|leads| *leads).await.unwrap();
    cluster.ready("gpu-0").await;
    cluster.ready("gpu-1").await;
    // Whoever writes in between, it is still its holder's.
    let renewed = |store: &Store| store.get(LEASE).map(|it| it["spec"]["renewTime"].clone());
    let before = renewed(&cluster.store);
    cluster.store.conflict(LEASE, 5);
    let outcome = tokio::select! {
        lost = leads.wait_for(|leads| !*leads) => Err(lost.is_ok()),
        () = cluster.until("renewal", |store| {
            (renewed(store) != before && store.conflicts() == 0).then_some(())
        }) => Ok(()),
    };
    assert_eq!(outcome, Ok(()), "it gave up acting");
    cluster.end().await;
}

#[tokio::test]
async fn whoever_stands_by_knows_it() {
    let first = Cluster::start(TWO).await;
    first.ready("gpu-0").await;
    let second = Cluster::join(&first.store, "two").await;
    let told = |cluster: &Cluster| cluster.shared.stands_by();
    second
        .until("sight of the other", |_| told(&second).then_some(()))
        .await;
    assert!(!told(&first));
    second.end().await;
    first.end().await;
}
