//! `mirage node` between a kubelet and an API server of our own: whose GPUs are busy, and how.

use std::path::Path;
use std::sync::{Arc, Mutex};

use mirage_k8s::podresources::generated as wire;
use mirage_k8s::podresources::generated::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::api::{Api, pod};
use crate::support::{Background, Up, mirage, stderr, wait_for};

const NODE: &str = "node-a";

/// A kubelet that says what it is told to.
#[derive(Clone, Default)]
struct Kubelet(Arc<Mutex<Vec<wire::PodResources>>>);

impl Kubelet {
    /// Gives devices to containers: pod, container, ids.
    fn give(&self, list: &[(&str, &str, &[&str])]) {
        let list = list
            .iter()
            .map(|&(pod, container, ids)| (pod, container, "nvidia.com/gpu", ids));
        self.give_of(&list.collect::<Vec<_>>());
    }

    /// Gives devices of any resource: pod, container, resource, ids.
    fn give_of(&self, list: &[(&str, &str, &str, &[&str])]) {
        let pods = list.iter().map(|(pod, container, resource, ids)| {
            let devices = ids.iter().map(|&id| wire::ContainerDevices {
                resource_name: (*resource).into(),
                device_ids: vec![id.to_owned()],
                topology: None,
            });
            // `namespace:pod`, or a pod of the team.
            let (namespace, pod) = pod.split_once(':').unwrap_or(("team", pod));
            wire::PodResources {
                name: pod.into(),
                namespace: namespace.into(),
                containers: vec![wire::ContainerResources {
                    name: (*container).into(),
                    devices: devices.collect(),
                    ..Default::default()
                }],
                ..Default::default()
            }
        });
        *self.0.lock().expect("whole") = pods.collect();
    }

    async fn serve(&self, directory: &Path) {
        std::fs::create_dir_all(directory).expect("a directory");
        let listener = tokio::net::UnixListener::bind(directory.join("kubelet.sock"));
        let connections = UnixListenerStream::new(listener.expect("it listens"));
        let service = PodResourcesListerServer::new(self.clone());
        tokio::spawn(
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(connections),
        );
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<wire::ListPodResourcesRequest>,
    ) -> Result<Response<wire::ListPodResourcesResponse>, Status> {
        let pod_resources = self.0.lock().expect("whole").clone();
        Ok(Response::new(wire::ListPodResourcesResponse {
            pod_resources,
        }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<wire::AllocatableResourcesRequest>,
    ) -> Result<Response<wire::AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get(
        &self,
        _: Request<wire::GetPodResourcesRequest>,
    ) -> Result<Response<wire::GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// A node between the two.
struct Stage {
    up: Up,
    api: Api,
    kubelet: Kubelet,
    kubeconfig: String,
    _background: Background,
    _root: TempDir,
}

impl Stage {
    fn start(args: &[&str]) -> Stage {
        Self::prepared(args, |_| ())
    }

    /// Starts it once the API server is prepared.
    fn prepared(args: &[&str], prepare: impl FnOnce(&Api)) -> Stage {
        let root = tempfile::tempdir().expect("a temporary directory");
        let kubelet = Kubelet::default();
        let place = root.path().join("kubelet");
        let (serving, socket) = (kubelet.clone(), place.join("pod-resources"));
        let (background, api) = Background::new(async move {
            serving.serve(&socket).await;
            Api::start(NODE).await
        });
        let kubeconfig = root.path().join("kubeconfig");
        api.kubeconfig(&kubeconfig);
        prepare(&api);
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        let (place, kubeconfig) = (text(&place), text(&kubeconfig));
        let common = [
            "--node-name",
            NODE,
            "--kubelet-dir",
            &place,
            "--kubeconfig",
            &kubeconfig,
            "--no-device-plugin",
            "--no-driver-root",
            "--model",
            "a100-sxm4-40gb",
            "--gpus",
            "3",
        ];
        let up = Up::role("node", &[&common[..], args].concat());
        Stage {
            up,
            api,
            kubelet,
            kubeconfig,
            _background: background,
            _root: root,
        }
    }

    /// UUIDs by GPU.
    fn uuids(&self) -> Vec<String> {
        let page = self.up.page("/metrics");
        let lines = page.lines();
        let series = lines.filter(|line| line.starts_with("DCGM_FI_DEV_GPU_UTIL{"));
        series
            .map(|line| label(line, "UUID").expect("it has one").to_owned())
            .collect()
    }

    /// Waits until utilisation, pod and container of every GPU are these.
    fn shows(&self, wanted: &[(&str, &str, &str)]) {
        wait_for(&format!("{wanted:?}"), || {
            let page = self.up.page("/metrics");
            let lines = page.lines();
            let series = lines.filter(|line| line.starts_with("DCGM_FI_DEV_GPU_UTIL{"));
            let now: Vec<_> = series
                .map(|line| {
                    let value = line.rsplit_once(' ').expect("a value").1;
                    let of = |name| label(line, name).unwrap_or("");
                    (value, of("pod"), of("container"))
                })
                .collect();
            (now == wanted).then_some(())
        });
    }
}

/// The value of a label on a line.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(&format!("{name}=\""))? + name.len() + 2;
    line[start..].split('"').next()
}

fn annotated(mut pod: Value, annotations: Value) -> Value {
    pod["metadata"]["annotations"] = annotations;
    pod
}

const FREE: (&str, &str, &str) = ("0", "", "");

#[test]
fn gpus_do_what_the_pods_that_hold_them_say() {
    let stage = Stage::start(&["--kubernetes-enable-pod-labels"]);
    let uuids = stage.uuids();
    stage.shows(&[FREE, FREE, FREE]);

    // Two pods, one of them not running yet.
    stage.kubelet.give(&[
        ("train", "main", &[&uuids[1]]),
        ("later", "main", &[&uuids[2]]),
    ]);
    let utilization = "run.ai/simulated-gpu-utilization";
    let train = |text: &str| {
        let mut train = pod(NODE, "train", "u1", &[("main", true)]);
        train["metadata"]["labels"] = json!({ "team": "blue" });
        annotated(train, json!({ utilization: text }))
    };
    stage.api.put(train("70"));
    stage.api.put(pod(NODE, "later", "u2", &[("main", false)]));
    stage.shows(&[FREE, ("70", "train", "main"), ("0", "later", "main")]);

    wait_for("the pod's label", || {
        let page = stage.up.page("/metrics");
        let mut lines = page.lines();
        let line = lines.find(|line| label(line, "pod") == Some("train"))?;
        (label(line, "team") == Some("blue")).then_some(())
    });

    // It starts, and the other one changes its mind.
    stage.api.put(pod(NODE, "later", "u2", &[("main", true)]));
    stage.api.put(train("20"));
    stage.shows(&[FREE, ("20", "train", "main"), ("100", "later", "main")]);

    // What makes no sense is said on the pod, and the default holds.
    stage.api.put(train("lots"));
    stage.shows(&[FREE, ("100", "train", "main"), ("100", "later", "main")]);
    let event = wait_for("an event", || stage.api.events().pop());
    assert_eq!(event["involvedObject"]["uid"], "u1");
    let message = event["message"].as_str().expect("text");
    assert!(message.contains("lots"), "{message}");

    // One goes; the API server forgets all about it before anybody could tell.
    stage.kubelet.give(&[("later", "main", &[&uuids[2]])]);
    stage.api.forget(|api| api.delete("team", "train"));
    stage.shows(&[FREE, FREE, ("100", "later", "main")]);

    // The same name, another pod, another GPU.
    stage.kubelet.give(&[("later", "main", &[&uuids[0]])]);
    stage.api.delete("team", "later");
    stage.api.put(annotated(
        pod(NODE, "later", "u3", &[("main", true)]),
        json!({ "mirage.dev/gpu-schedule": r#"[{"utilization": 55}]"# }),
    ));
    stage.shows(&[("55", "later", "main"), FREE, FREE]);
    assert_eq!(stage.api.events().len(), 1);
}

#[test]
fn whatever_the_plugin_offers_is_somebodys() {
    let stage = Stage::start(&["--time-slicing", "4,rename"]);
    let uuids = stage.uuids();
    let share = format!("{}::2", uuids[0]);
    stage.kubelet.give_of(&[
        ("share", "main", "nvidia.com/gpu.shared", &[&share]),
        ("amd", "main", "amd.com/gpu.shared", &[&uuids[1]]),
        ("other", "main", "example.com/gpu", &[&uuids[2]]),
    ]);
    for name in ["share", "amd", "other"] {
        stage.api.put(pod(NODE, name, name, &[("main", true)]));
    }
    stage.shows(&[("100", "share", "main"), ("100", "amd", "main"), FREE]);
    drop(stage);

    let stage = Stage::start(&[]);
    let uuids = stage.uuids();
    stage.kubelet.give_of(&[
        ("amd", "main", "amd.com/gpu", &[&uuids[0]]),
        ("intel", "main", "gpu.intel.com/i915", &[&uuids[2]]),
    ]);
    for name in ["amd", "intel"] {
        stage.api.put(pod(NODE, name, name, &[("main", true)]));
    }
    stage.shows(&[("100", "amd", "main"), FREE, ("100", "intel", "main")]);
}

#[test]
fn init_containers_and_sidecars_have_what_is_theirs() {
    let stage = Stage::start(&[]);
    let uuids = stage.uuids();
    stage
        .kubelet
        .give(&[("job", "side", &[&uuids[2]]), ("job", "main", &[&uuids[0]])]);
    let with = |fetches: bool| {
        let mut job = pod(NODE, "job", "u1", &[("main", !fetches)]);
        job["metadata"]["annotations"] = json!({
            "run.ai/simulated-gpu-utilization": "90",
            "run.ai/simulated-gpu-utilization.fetch": "10",
            "run.ai/simulated-gpu-utilization.side": "30",
        });
        job["spec"]["initContainers"] = json!([
            { "name": "side", "restartPolicy": "Always" },
            { "name": "fetch", "resources": { "limits": { "nvidia.com/gpu": "1" } } },
        ]);
        let mut statuses = vec![json!({ "name": "side", "state": { "running": {} } })];
        if fetches {
            statuses.push(json!({ "name": "fetch", "state": { "running": {} } }));
        }
        job["status"]["initContainerStatuses"] = json!(statuses);
        job
    };
    stage.api.put(with(true));
    stage.shows(&[("10", "job", "fetch"), FREE, ("30", "job", "side")]);
    stage.api.put(with(false));
    stage.shows(&[("90", "job", "main"), FREE, ("30", "job", "side")]);
}

#[test]
fn pods_that_share_a_gpu_use_the_one_that_their_reservation_holds() {
    let stage = Stage::start(&[]);
    let uuids = stage.uuids();
    let member = |mut pod: Value, annotations: Value| {
        pod["metadata"]["labels"] = json!({ "runai-gpu-group": "g" });
        annotated(pod, annotations)
    };
    let mut holder = member(pod(NODE, "holder", "u1", &[("hold", true)]), json!({}));
    holder["metadata"]["namespace"] = json!("runai-reservation");
    stage
        .kubelet
        .give(&[("runai-reservation:holder", "hold", &[&uuids[1]])]);
    stage.api.put(holder);
    stage.shows(&[FREE, ("0", "holder", "hold"), FREE]);
    let share = |name: &str, percent: &str| {
        let said = json!({ "gpu-fraction": "0.25", "run.ai/simulated-gpu-utilization": percent });
        let mut pod = member(pod(NODE, name, name, &[("main", true)]), said);
        pod["spec"]["containers"][0]["resources"] = json!({});
        pod
    };
    stage.api.put(share("a", "20"));
    stage.api.put(share("b", "30"));
    // As a kubelet knows it the GPU is the reservation's, whoever uses it.
    stage.shows(&[FREE, ("50", "holder", "hold"), FREE]);
    let used = |line: &&str| line.starts_with("DCGM_FI_DEV_FB_USED{") && line.contains(&uuids[1]);
    wait_for("half of the memory", || {
        let page = stage.up.page("/metrics");
        let line = page.lines().find(used)?;
        let mib: f64 = line.rsplit_once(' ')?.1.parse().ok()?;
        (19_000.0..22_000.0).contains(&mib).then_some(())
    });
    stage.api.delete("team", "a");
    stage.shows(&[FREE, ("30", "holder", "hold"), FREE]);
}

#[test]
fn the_class_of_its_group_says_what_a_pod_does() {
    let stage = Stage::start(&[]);
    let uuids = stage.uuids();
    stage
        .kubelet
        .give(&[("a", "main", &[&uuids[0]]), ("b", "main", &[&uuids[1]])]);
    stage.api.set_group("quiet", "build");
    for (name, group) in [("a", "quiet"), ("b", "unheard-of")] {
        let pod = pod(NODE, name, name, &[("main", true)]);
        stage
            .api
            .put(annotated(pod, json!({ "pod-group-name": group })));
    }
    stage.shows(&[("0", "a", "main"), ("100", "b", "main"), FREE]);
    wait_for("a question about the other group", || {
        (stage.api.asked("get podgroup team/unheard-of") > 0).then_some(())
    });
    // That nobody knows of it is no trouble.
    let health = stage.up.get("/health").text();
    assert!(!health.contains("reading pod group"), "{health}");
    assert_eq!(stage.api.asked("get podgroup team/quiet"), 1);
}

#[test]
fn the_node_is_labelled_and_left_as_it_was() {
    let stage = Stage::start(&["--label-present", "--condition", "--time-slicing", "4"]);
    let labels = |node: &Value| node["metadata"]["labels"].clone();
    let found = wait_for("labels", || {
        let labels = labels(&stage.api.node());
        labels
            .get("nvidia.com/gpu.present")
            .is_some()
            .then_some(labels)
    });
    assert_eq!(found["nvidia.com/gpu.count"], "3");
    assert_eq!(
        found["nvidia.com/gpu.product"],
        "NVIDIA-A100-SXM4-40GB-SHARED"
    );
    assert_eq!(found["nvidia.com/gpu.replicas"], "4");
    assert_eq!(found["kubernetes.io/os"], "linux");
    let condition = |status: &str| {
        let node = stage.api.node();
        let conditions = node["status"]["conditions"]
            .as_array()
            .expect("a list")
            .clone();
        let lost = conditions.into_iter().find(|c| c["type"] == "GPULost");
        lost.filter(|lost| lost["status"] == status)
    };
    wait_for("the condition", || condition("False"));
    assert_eq!(stage.api.asked("apply node"), 1);

    stage
        .up
        .ctl_ok(&["fault", "inject", "xid=79", "--device", "node-a/1"]);
    let lost = wait_for("a lost GPU", || condition("True"));
    assert_eq!(lost["reason"], "GPUFallenOffBus");

    let kubeconfig = stage.kubeconfig.clone();
    drop(stage.up);
    let output = mirage()
        .args(["node", "--uninstall", "--no-driver-root"])
        .args(["--node-name", NODE, "--kubeconfig", &kubeconfig])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let node = stage.api.node();
    assert_eq!(labels(&node), json!({ "kubernetes.io/os": "linux" }));
    assert_eq!(
        node["status"]["conditions"]
            .as_array()
            .expect("a list")
            .len(),
        1
    );
}

#[test]
fn until_the_api_server_answers_holders_are_shown_and_nothing_is_busy() {
    let stage = Stage::prepared(&[], |api| {
        api.fail(u32::MAX);
        api.put(pod(NODE, "train", "u1", &[("main", true)]));
    });
    let uuids = stage.uuids();
    stage.kubelet.give(&[("train", "main", &[&uuids[0]])]);
    stage.shows(&[("0", "train", "main"), FREE, FREE]);
    wait_for("trouble in /health", || {
        let health = stage.up.get("/health").text();
        health.contains("watching pods of node-a").then_some(())
    });
    stage.api.fail(0);
    stage.shows(&[("100", "train", "main"), FREE, FREE]);
}

#[test]
fn without_an_api_server_whoever_holds_a_gpu_is_busy() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let place = root.path().join("kubelet");
    let kubelet = Kubelet::default();
    let (serving, socket) = (kubelet.clone(), place.join("pod-resources"));
    let (_background, ()) = Background::new(async move { serving.serve(&socket).await });
    let place = place.to_str().expect("a plain path");
    let args = ["--node-name", NODE, "--kubelet-dir", place, "--gpus", "1"];
    let without = ["--no-api-server", "--no-device-plugin", "--no-driver-root"];
    let up = Up::role("node", &[&args[..], &without].concat());
    kubelet.give(&[("train", "main", &["nvidia0"])]);
    wait_for("a busy GPU", || {
        let page = up.page("/metrics");
        let mut lines = page.lines();
        let line = lines.find(|line| line.starts_with("DCGM_FI_DEV_GPU_UTIL{"))?;
        let is_so = label(line, "container") == Some("main") && line.ends_with(" 100");
        is_so.then_some(())
    });
}
