//! The pod-resources service of our own, before a kubelet that answers, one that refuses, and none.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::podlist::write::Entry;
use mirage_k8s::podresources::generated::pod_resources_lister_client::PodResourcesListerClient;
use mirage_k8s::podresources::generated::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use mirage_k8s::podresources::generated::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
};
use mirage_k8s::podresources::serve::{Merged, RESOURCE, serve};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A kubelet with one pod, or one that refuses.
struct Kubelet(Option<Status>);

impl Kubelet {
    fn pod() -> PodResources {
        let container = |name: &str, ids: &[&str]| ContainerResources {
            name: name.to_owned(),
            devices: ids
                .iter()
                .map(|&id| ContainerDevices {
                    resource_name: RESOURCE.to_owned(),
                    device_ids: vec![id.to_owned()],
                    topology: None,
                })
                .collect(),
            ..ContainerResources::default()
        };
        PodResources {
            name: "train".to_owned(),
            namespace: "team".to_owned(),
            containers: vec![container("main", &["GPU-0"]), container("side", &[])],
            cpu_ids: vec![3, 4],
            ..PodResources::default()
        }
    }

    fn refuse(&self) -> Result<(), Status> {
        self.0.clone().map_or(Ok(()), Err)
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.refuse()?;
        let pod_resources = vec![Kubelet::pod()];
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.refuse()?;
        Ok(Response::new(AllocatableResourcesResponse {
            cpu_ids: vec![1, 2],
            ..AllocatableResourcesResponse::default()
        }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.refuse()?;
        match request.into_inner().pod_name.as_str() {
            "train" => Ok(Response::new(GetPodResourcesResponse {
                pod_resources: Some(Kubelet::pod()),
            })),
            _ => Err(Status::not_found("no such pod")),
        }
    }
}

/// A service of ours, and a kubelet behind it or none.
struct Stage {
    dir: tempfile::TempDir,
    entries: watch::Sender<Arc<[Entry]>>,
    trouble: watch::Receiver<Option<String>>,
}

impl Stage {
    fn new(kubelet: Option<Kubelet>) -> Stage {
        let dir = tempfile::tempdir().unwrap();
        let behind = dir.path().join("kubelet.sock");
        if let Some(kubelet) = kubelet {
            let listener = UnixListener::bind(&behind).unwrap();
            tokio::spawn(
                tonic::transport::Server::builder()
                    .add_service(PodResourcesListerServer::new(kubelet))
                    .serve_with_incoming(UnixListenerStream::new(listener)),
            );
        }
        let entries = watch::Sender::new(Arc::from([]));
        let (tell, trouble) = watch::channel(None);
        let merged = Merged {
            kubelet: behind,
            entries: entries.subscribe(),
            trouble: tell,
        };
        let listener = UnixListener::bind(dir.path().join("ours.sock")).unwrap();
        tokio::spawn(serve(listener, merged, std::future::pending()));
        Stage {
            dir,
            entries,
            trouble,
        }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("ours.sock")
    }

    fn tell(&self, entries: &[(&str, &str, &[&str])]) {
        let entry = |&(name, container, gpus): &(&str, &str, &[&str])| Entry {
            namespace: "team".to_owned(),
            name: name.to_owned(),
            container: container.to_owned(),
            gpu_list: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
            ..Entry::default()
        };
        self.entries
            .send_replace(entries.iter().map(entry).collect());
    }

    async fn list(&self) -> Result<Vec<String>, Status> {
        let mut client = client(&self.socket()).await;
        let answer = client.list(ListPodResourcesRequest {}).await?;
        Ok(lines(&answer.into_inner().pod_resources))
    }
}

async fn client(socket: &Path) -> PodResourcesListerClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
    let channel = endpoint.timeout(PATIENCE).connect().await.unwrap();
    PodResourcesListerClient::new(channel)
}

fn lines(pods: &[PodResources]) -> Vec<String> {
    let mut lines = Vec::new();
    for pod in pods {
        for container in &pod.containers {
            let ids: Vec<String> = container
                .devices
                .iter()
                .map(|devices| {
                    format!("{}={}", devices.resource_name, devices.device_ids.join("+"))
                })
                .collect();
            lines.push(format!("{}/{} {}", pod.name, container.name, ids.join(" ")));
        }
    }
    lines
}

#[tokio::test]
async fn both_kinds_of_gpus_are_in_one_list() {
    let stage = Stage::new(Some(Kubelet(None)));
    assert_eq!(
        stage.list().await.unwrap(),
        ["train/main nvidia.com/gpu=GPU-0", "train/side "]
    );
    stage.tell(&[
        ("central", "main", &["GPU-2", "GPU-3"]),
        ("train", "main", &["GPU-0", "GPU-1"]),
        ("train", "init", &["GPU-4"]),
    ]);
    assert_eq!(
        stage.list().await.unwrap(),
        [
            "train/main nvidia.com/gpu=GPU-0 nvidia.com/gpu=GPU-1",
            "train/side ",
            "train/init nvidia.com/gpu=GPU-4",
            "central/main nvidia.com/gpu=GPU-2 nvidia.com/gpu=GPU-3",
        ]
    );
    stage.tell(&[]);
    assert_eq!(stage.list().await.unwrap().len(), 2);
    assert_eq!(*stage.trouble.borrow(), None);
}

#[tokio::test]
async fn other_questions_are_passed_on() {
    let stage = Stage::new(Some(Kubelet(None)));
    stage.tell(&[
        ("train", "side", &["GPU-1"]),
        ("central", "main", &["GPU-2"]),
    ]);
    let mut client = client(&stage.socket()).await;
    let answer = client
        .get_allocatable_resources(AllocatableResourcesRequest {})
        .await
        .unwrap();
    assert_eq!(answer.into_inner().cpu_ids, [1, 2]);
    let mut get = async |name: &str| {
        let request = GetPodResourcesRequest {
            pod_name: name.to_owned(),
            pod_namespace: "team".to_owned(),
        };
        let answer = client.get(request).await?;
        Ok::<_, Status>(answer.into_inner().pod_resources.unwrap())
    };
    let train = get("train").await.unwrap();
    assert_eq!(train.cpu_ids, [3, 4], "what we do not read is passed on");
    assert_eq!(
        lines(&[train]),
        [
            "train/main nvidia.com/gpu=GPU-0",
            "train/side nvidia.com/gpu=GPU-1"
        ]
    );
    assert_eq!(
        lines(&[get("central").await.unwrap()]),
        ["central/main nvidia.com/gpu=GPU-2"]
    );
    assert_eq!(get("unknown").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn without_a_kubelet_there_are_ours_and_a_reason() {
    let stage = Stage::new(None);
    stage.tell(&[("central", "main", &["GPU-2"])]);
    assert_eq!(
        stage.list().await.unwrap(),
        ["central/main nvidia.com/gpu=GPU-2"]
    );
    let trouble = stage.trouble.borrow().clone().unwrap();
    assert!(trouble.contains("kubelet.sock"), "{trouble}");
    let mut client = client(&stage.socket()).await;
    let refused = client
        .get_allocatable_resources(AllocatableResourcesRequest {})
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn what_the_kubelet_refuses_is_refused() {
    let limit = Status::resource_exhausted("rejected by rate limit");
    let stage = Stage::new(Some(Kubelet(Some(limit))));
    let refused = stage.list().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let trouble = stage.trouble.borrow().clone().unwrap();
    assert!(trouble.contains("rejected by rate limit"), "{trouble}");
}
