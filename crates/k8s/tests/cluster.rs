//! The watch on pods, Events and the node's labels against an API server of our own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/api.rs"]
mod api;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use mirage_k8s::cluster::follow::{Pods, follow};
use mirage_k8s::cluster::node::{self, Condition, Labels};
use mirage_k8s::cluster::pod::{MOST_ANNOTATION, Pod, Role};
use mirage_k8s::cluster::tell::{Complaint, warn};
use mirage_k8s::cluster::{Access, Client, connect};
use serde_json::json;
use tempfile::TempDir;

use self::api::{Api, pod};

const NODE: &str = "node-a";
/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn client(api: &Api, directory: &TempDir) -> Client {
    let path = directory.path().join("kubeconfig");
    api.kubeconfig(&path);
    let access = Access {
        kubeconfig: Some(path),
        context: None,
    };
    connect(&access).await.unwrap()
}

/// A watch that runs by itself, and what it tells.
struct Watch {
    api: Api,
    pods: Arc<Pods>,
    told: Arc<Mutex<Vec<Result<(), String>>>>,
    _directory: TempDir,
}

impl Watch {
    async fn start(prepare: impl FnOnce(&Api)) -> Watch {
        let api = Api::start(NODE).await;
        prepare(&api);
        let directory = tempfile::tempdir().unwrap();
        let client = client(&api, &directory).await;
        let (pods, told) = (Arc::new(Pods::default()), Arc::new(Mutex::new(Vec::new())));
        let (seen, heard) = (pods.clone(), told.clone());
        tokio::spawn(async move {
            let tell = |outcome| heard.lock().unwrap().push(outcome);
            follow(client, NODE, &seen, tell).await;
        });
        Watch {
            api,
            pods,
            told,
            _directory: directory,
        }
    }

    /// Waits until exactly these pods are seen, by name and UID.
    async fn sees(&self, wanted: &[(&str, &str)]) {
        let mut changes = self.pods.changes();
        let is_so = || {
            let mut now: Vec<(String, String)> = self
                .pods
                .all()
                .iter()
                .map(|pod| (pod.name.clone(), pod.uid.clone()))
                .collect();
            now.sort();
            self.pods.is_complete()
                && now.len() == wanted.len()
                && now.iter().zip(wanted).all(|(a, b)| (&*a.0, &*a.1) == *b)
        };
        let wait = async {
            while !is_so() {
                changes.changed().await.unwrap();
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, wait).await;
        assert!(
            outcome.is_ok(),
            "waited for {wanted:?}, saw {:?}",
            self.pods.all()
        );
    }
}

#[tokio::test]
async fn pods_of_this_node_are_followed_and_no_others() {
    let watch = Watch::start(|api| {
        api.put(pod(NODE, "a", "1", &[("main", true)]));
        api.put(pod("node-b", "far", "2", &[("main", true)]));
    })
    .await;
    watch.sees(&[("a", "1")]).await;
    watch.api.put(pod(NODE, "b", "3", &[("main", false)]));
    watch.sees(&[("a", "1"), ("b", "3")]).await;
    watch.api.delete("team", "a");
    watch.sees(&[("b", "3")]).await;
    assert_eq!(
        watch.api.asked("list pods spec.nodeName=node-a"),
        watch.api.asked("list")
    );
    assert_eq!(
        watch.api.asked("watch pods spec.nodeName=node-a"),
        watch.api.asked("watch")
    );
}

#[tokio::test]
async fn what_is_kept_of_a_pod_is_what_matters() {
    let mut big = pod(NODE, "a", "1", &[("main", true), ("second", false)]);
    big["metadata"]["annotations"] = json!({
        "gpu-fraction": "0.5", "mirage.dev/gpu-schedule": "é".repeat(100_000), "huge": "x".repeat(10_000),
    });
    big["metadata"]["labels"] = json!({ "app": "train" });
    big["spec"]["initContainers"] = json!([
        { "name": "fetch", "resources": { "limits": { "nvidia.com/gpu": "2", "cpu": "1" } } },
        { "name": "side", "restartPolicy": "Always" },
    ]);
    big["status"]["initContainerStatuses"] = json!([
        { "name": "side", "restartCount": 3, "state": { "running": { "startedAt": "2026-01-02T03:04:05Z" } } },
    ]);
    big["status"]["containerStatuses"][0]["state"] = json!({ "running": { "startedAt": 7 } });
    let watch = Watch::start(|api| api.put(big)).await;
    watch.sees(&[("a", "1")]).await;
    let pod: Arc<Pod> = watch.pods.get("team", "a").unwrap();
    let keys: Vec<&str> = pod.annotations.keys().map(String::as_str).collect();
    assert_eq!(keys, ["gpu-fraction", "mirage.dev/gpu-schedule"]);
    // So much that it is seen to be too long.
    let kept = pod.annotations["mirage.dev/gpu-schedule"].len();
    assert!(
        (MOST_ANNOTATION + 1..MOST_ANNOTATION + 4).contains(&kept),
        "{kept}"
    );
    assert_eq!(pod.labels["app"], "train");
    let containers: Vec<_> = pod
        .containers
        .iter()
        .map(|c| (c.name.as_str(), c.role, c.is_running, c.restarts))
        .collect();
    assert_eq!(
        containers,
        [
            ("fetch", Role::Init, false, 0),
            ("side", Role::Sidecar, true, 3),
            ("main", Role::App, true, 0),
            ("second", Role::App, false, 0),
        ]
    );
    let since: Vec<_> = pod.containers.iter().map(|c| c.since).collect();
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_323_045);
    assert_eq!(since, [None, Some(started), None, None]);
    assert_eq!(pod.containers[0].resources.len(), 1);
    assert_eq!(pod.containers[0].resources["nvidia.com/gpu"], 2);
}

#[tokio::test]
async fn a_watch_that_ends_is_begun_again() {
    let watch = Watch::start(|api| api.put(pod(NODE, "a", "1", &[("main", true)]))).await;
    watch.sees(&[("a", "1")]).await;
    watch.api.end_watches();
    watch.api.put(pod(NODE, "b", "2", &[("main", true)]));
    watch.sees(&[("a", "1"), ("b", "2")]).await;
}

#[tokio::test]
async fn what_happened_while_the_server_was_away_is_seen_afterwards() {
    let watch = Watch::start(|api| {
        api.put(pod(NODE, "a", "1", &[("main", true)]));
        api.put(pod(NODE, "b", "2", &[("main", true)]));
    })
    .await;
    watch.sees(&[("a", "1"), ("b", "2")]).await;
    watch.api.forget(|api| {
        api.delete("team", "a");
        api.delete("team", "b");
        // The same name, another pod.
        api.put(pod(NODE, "b", "3", &[("main", true)]));
    });
    watch.sees(&[("b", "3")]).await;
}

#[tokio::test]
async fn trouble_is_told_and_so_is_its_end() {
    let watch = Watch::start(|api| {
        api.put(pod(NODE, "a", "1", &[("main", true)]));
        api.fail(2);
    })
    .await;
    watch.sees(&[("a", "1")]).await;
    let told = watch.told.lock().unwrap().clone();
    let first = told.first().unwrap().as_ref().unwrap_err();
    assert!(first.contains("watching pods of node-a"), "{first}");
    assert!(told.iter().filter(|outcome| outcome.is_err()).count() >= 2);
}

#[tokio::test]
async fn an_event_is_written_once() {
    let api = Api::start(NODE).await;
    let directory = tempfile::tempdir().unwrap();
    let client = client(&api, &directory).await;
    let pod = Pod {
        uid: "1".into(),
        namespace: "team".into(),
        name: "a".into(),
        ..Pod::default()
    };
    let complaint = Complaint {
        reason: "BadGpuAnnotation",
        message: "annotation gpu-fraction=2: a fraction is at most 1".into(),
    };
    for _ in 0..3 {
        warn(client.clone(), NODE, &pod, &complaint).await.unwrap();
    }
    let events = api.events();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["involvedObject"]["uid"], "1");
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("Warning"), &json!("BadGpuAnnotation"))
    );
    assert!(
        event["message"]
            .as_str()
            .unwrap()
            .contains("gpu-fraction=2")
    );
    assert_eq!(
        event["source"],
        json!({ "component": "mirage", "host": NODE })
    );
    assert_eq!(api.asked("post event team"), 3);
    api.fail(1);
    let why = warn(client, NODE, &pod, &complaint).await.unwrap_err();
    assert!(why.contains("team/a") && why.contains("on demand"), "{why}");
}

fn labels(list: &[(&str, &str)]) -> Labels {
    let pairs = list
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    pairs.collect()
}

#[tokio::test]
async fn labels_are_ours_and_go_as_they_came() {
    let api = Api::start(NODE).await;
    let directory = tempfile::tempdir().unwrap();
    let client = client(&api, &directory).await;
    let before = api.node();
    let wanted = labels(&[
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.family", "ampere"),
    ]);
    assert!(
        node::standing(&client, NODE)
            .await
            .unwrap()
            .differs(&wanted, "")
    );
    node::apply(&client, NODE, &wanted).await.unwrap();
    let standing = node::standing(&client, NODE).await.unwrap();
    assert!(!standing.differs(&wanted, ""));
    assert_eq!(standing.labels["kubernetes.io/os"], "linux");

    // Somebody else changes one.
    api.change_node(|node| node["metadata"]["labels"]["nvidia.com/gpu.count"] = json!("7"));
    assert!(
        node::standing(&client, NODE)
            .await
            .unwrap()
            .differs(&wanted, "")
    );

    // One that is not wanted any more goes.
    let fewer = labels(&[("nvidia.com/gpu.count", "8")]);
    node::apply(&client, NODE, &fewer).await.unwrap();
    assert!(
        api.node()["metadata"]["labels"]
            .get("nvidia.com/gpu.family")
            .is_none()
    );

    node::apply(&client, NODE, &Labels::new()).await.unwrap();
    assert_eq!(api.node(), before);
    let why = node::standing(&client, "other").await.unwrap_err();
    assert!(why.contains("reading node other"), "{why}");
}

#[tokio::test]
async fn a_condition_is_written_when_it_changes_and_goes_as_it_came() {
    let api = Api::start(NODE).await;
    let directory = tempfile::tempdir().unwrap();
    let client = client(&api, &directory).await;
    let before = api.node();
    let lost = Condition {
        kind: "GPULost",
        is_true: true,
        reason: "GPUFallenOffBus",
        message: "fallen off the bus: GPU-1".into(),
    };
    for _ in 0..3 {
        node::condition(&client, NODE, &lost).await.unwrap();
    }
    assert_eq!(api.asked("merge node"), 1);
    let conditions = api.node()["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(conditions.len(), 2);
    assert_eq!(conditions[1]["status"], "True");
    let well = Condition {
        is_true: false,
        reason: "GPUsPresent",
        message: "all GPUs are on the bus".into(),
        ..lost
    };
    node::condition(&client, NODE, &well).await.unwrap();
    assert_eq!(api.node()["status"]["conditions"][1]["status"], "False");
    for _ in 0..2 {
        node::remove_condition(&client, NODE, "GPULost")
            .await
            .unwrap();
    }
    assert_eq!(api.node(), before);
    assert_eq!(api.asked("merge node"), 3);
}

#[tokio::test]
async fn a_kubeconfig_that_is_none_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    for text in [None, Some(": ["), Some("apiVersion: v1\nkind: Config\n")] {
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let access = Access {
            kubeconfig: Some(path.clone()),
            context: None,
        };
        let Err(error) = connect(&access).await else {
            panic!("{text:?} was taken");
        };
        assert!(error.to_string().contains("kubeconfig"), "{error}");
    }
}
