//! The pod-resources client against servers of our own: one that answers, and those that do not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mirage_k8s::podresources::generated::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use mirage_k8s::podresources::generated::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ClaimResource, ContainerDevices,
    ContainerResources, DynamicResource, GetPodResourcesRequest, GetPodResourcesResponse,
    ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};
use mirage_k8s::podresources::{self, Filter};
use mirage_k8s::{Claims, Error};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Kubelet(Result<Vec<PodResources>, Status>);

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let pod_resources = self.0.clone()?;
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

fn device(resource: &str, ids: &[&str]) -> ContainerDevices {
    ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: ids.iter().map(|&id| id.to_owned()).collect(),
        topology: None,
    }
}

fn pod(name: &str, containers: Vec<ContainerResources>) -> PodResources {
    PodResources {
        name: name.to_owned(),
        namespace: "team".to_owned(),
        containers,
        ..PodResources::default()
    }
}

fn container(name: &str, devices: Vec<ContainerDevices>) -> ContainerResources {
    ContainerResources {
        name: name.to_owned(),
        devices,
        ..ContainerResources::default()
    }
}

fn lines(claims: &Claims) -> Vec<String> {
    claims
        .iter()
        .map(|claim| {
            let holder = claim.holder();
            format!("{} {} {}", holder.pod, holder.container, claim.keys()[0])
        })
        .collect()
}

struct Place {
    _dir: tempfile::TempDir,
    socket: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    Place { _dir: dir, socket }
}

fn serve(place: &Place, kubelet: Kubelet) {
    let listener = UnixListener::bind(&place.socket).unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(PodResourcesListerServer::new(kubelet))
        .serve_with_incoming(UnixListenerStream::new(listener));
    tokio::spawn(server);
}

async fn ask(socket: &Path, filter: &Filter) -> Result<Claims, Error> {
    podresources::list_within(socket, filter, PATIENCE).await
}

#[tokio::test]
async fn devices_of_wanted_resources_are_listed() {
    let place = place();
    let mut with_claim = container("claims", vec![]);
    with_claim.dynamic_resources = vec![DynamicResource {
        claim_resources: [("gpu.nvidia.com", "gpu-1"), ("other.example", "gpu-2")]
            .map(|(driver, device)| ClaimResource {
                driver_name: driver.to_owned(),
                pool_name: "node".to_owned(),
                device_name: device.to_owned(),
                ..ClaimResource::default()
            })
            .to_vec(),
        ..DynamicResource::default()
    }];
    serve(
        &place,
        Kubelet(Ok(vec![
            pod(
                "train",
                vec![
                    container(
                        "main",
                        vec![
                            // One entry for each device, as the kubelet answers.
                            device("nvidia.com/gpu", &["GPU-0"]),
                            device("nvidia.com/gpu", &["GPU-1"]),
                            device("example.com/nic", &["eth0"]),
                        ],
                    ),
                    container("side", vec![device("nvidia.com/mig-1g.5gb", &["MIG-7"])]),
                ],
            ),
            pod(
                "shared",
                vec![container(
                    "c",
                    vec![device("nvidia.com/gpu.shared", &["GPU-2::0", "GPU-2::1"])],
                )],
            ),
            pod("claims", vec![with_claim]),
        ])),
    );
    let claims = ask(&place.socket, &Filter::default()).await.unwrap();
    assert_eq!(
        lines(&claims),
        ["train main GPU-0", "train main GPU-1", "train side MIG-7"]
    );
    let filter = Filter {
        resources: vec!["nvidia.com/gpu.shared".to_owned()],
        claims: true,
    };
    let claims = ask(&place.socket, &filter).await.unwrap();
    assert_eq!(
        lines(&claims)[3..],
        [
            "shared c GPU-2",
            "shared c GPU-2",
            "claims claims dra:node/gpu-1"
        ]
    );
    assert_eq!(claims.iter().nth(4).unwrap().share(), Some("1"));
}

#[tokio::test]
async fn hostile_names_in_a_good_answer_are_left_out() {
    let place = place();
    let gpu = || vec![device("nvidia.com/gpu", &["GPU-0"])];
    serve(
        &place,
        Kubelet(Ok(vec![
            pod("bad\"} 1\n", vec![container("c", gpu())]),
            pod("", vec![container("c", gpu())]),
            pod("good", vec![container("c", gpu())]),
        ])),
    );
    let claims = ask(&place.socket, &Filter::default()).await.unwrap();
    assert_eq!(lines(&claims), ["good c GPU-0"]);
    assert_eq!(claims.skipped(), 2);
}

#[tokio::test]
async fn a_refusal_keeps_the_kubelets_words() {
    let place = place();
    serve(
        &place,
        Kubelet(Err(Status::resource_exhausted("rejected by\nrate limit"))),
    );
    let shown = ask(&place.socket, &Filter::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(shown.contains("listing pods at"), "{shown}");
    assert!(shown.contains("rejected by rate limit"), "{shown}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let place = place();
    let long = "x".repeat(17 << 20);
    serve(&place, Kubelet(Ok(vec![pod(&long, vec![])])));
    let shown = ask(&place.socket, &Filter::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(shown.contains("OutOfRange"), "{shown}");
}

#[tokio::test]
async fn no_socket_is_said_to_be_absent() {
    let place = place();
    let error = ask(&place.socket, &Filter::default()).await.unwrap_err();
    assert!(matches!(error, Error::Absent { .. }), "{error}");
}

#[tokio::test]
async fn what_is_no_socket_or_has_no_listener_does_not_connect() {
    let place = place();
    std::fs::write(&place.socket, "text").unwrap();
    let error = ask(&place.socket, &Filter::default()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    std::fs::remove_file(&place.socket).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&place.socket).unwrap());
    let error = ask(&place.socket, &Filter::default()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[tokio::test]
async fn garbage_on_the_wire_is_an_error() {
    for garbage in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\n\r\n",
        &[0xff; 4096],
        // A settings frame, then a frame that claims sixteen megabytes.
        b"\0\0\0\x04\0\0\0\0\0\xff\xff\xff\x01\x04\0\0\0\x01",
    ] {
        let place = place();
        let listener = std::os::unix::net::UnixListener::bind(&place.socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The client may be gone already; that is its right.
            let _ = stream.write_all(garbage);
        });
        let error = ask(&place.socket, &Filter::default()).await.unwrap_err();
        assert!(
            matches!(error, Error::Connect { .. } | Error::List { .. }),
            "{error}"
        );
        server.join().unwrap();
    }
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let place = place();
    let _listener = UnixListener::bind(&place.socket).unwrap();
    let error =
        podresources::list_within(&place.socket, &Filter::default(), Duration::from_millis(50))
            .await
            .unwrap_err();
    assert!(error.to_string().contains("no answer within"), "{error}");
}
