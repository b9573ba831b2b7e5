//! The kubelet's pod-resources API once more, on a socket of our own: its answers, and in them the GPUs that a cluster's scheduler gave
//! out, of which the kubelet knows nothing. So a dcgm-exporter that is pointed there finds all of them.
//!
//! When the kubelet is away, ours are still told; what it refuses is passed on as it stands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};

use super::generated::pod_resources_lister_client::PodResourcesListerClient;
use super::generated::pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer};
use super::generated::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices,
    ContainerResources, GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
};
use super::{MOST_BYTES, connect};
use crate::authority;
use crate::podlist::write::Entry;

/// The resource that centrally given GPUs are told under.
pub const RESOURCE: &str = "nvidia.com/gpu";
/// How long the kubelet may take; clients of ours wait ten seconds.
const DEADLINE: Duration = Duration::from_secs(5);

/// What is served.
#[derive(Debug)]
pub struct Merged {
    /// The kubelet's socket.
    pub kubelet: PathBuf,
    /// Containers with GPUs that the kubelet did not give.
    pub entries: watch::Receiver<Arc<[Entry]>>,
    /// Why the kubelet's part is missing, while it is.
    pub trouble: watch::Sender<Option<String>>,
}

/// Serves until `ending`.
pub async fn serve(
    listener: UnixListener,
    merged: Merged,
    ending: impl Future<Output = ()>,
) -> Result<(), tonic::transport::Error> {
    let service = PodResourcesListerServer::new(merged).max_encoding_message_size(MOST_BYTES);
    Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(authority::incoming(listener), ending)
        .await
}

/// Adds containers to what a kubelet says.
pub fn merge(pods: &mut Vec<PodResources>, entries: &[Entry]) {
    for entry in entries {
        let of_entry =
            |pod: &PodResources| pod.name == entry.name && pod.namespace == entry.namespace;
        let pod = match pods.iter().position(of_entry) {
            Some(at) => &mut pods[at],
            None => {
                pods.push(PodResources {
                    name: entry.name.clone(),
                    namespace: entry.namespace.clone(),
                    ..PodResources::default()
                });
                pods.last_mut().expect("one was just added")
            }
        };
        let of_name = |container: &ContainerResources| container.name == entry.container;
        let container = match pod.containers.iter().position(of_name) {
            Some(at) => &mut pod.containers[at],
            None => {
                pod.containers.push(ContainerResources {
                    name: entry.container.clone(),
                    ..ContainerResources::default()
                });
                pod.containers.last_mut().expect("one was just added")
            }
        };
        for gpu in &entry.gpu_list {
            let known = container.devices.iter().flat_map(|d| &d.device_ids);
            if known.into_iter().all(|id| id != gpu) {
                // One entry for each device, as the kubelet answers.
                container.devices.push(ContainerDevices {
                    resource_name: RESOURCE.to_owned(),
                    device_ids: vec![gpu.clone()],
                    topology: None,
                });
            }
        }
    }
}

/// Why there is no answer of the kubelet's.
enum Away {
    /// It is not there.
    Gone(String),
    /// It is, and refuses.
    Refused(Status),
}

impl Merged {
    fn entries(&self) -> Arc<[Entry]> {
        self.entries.borrow().clone()
    }

    /// The kubelet's answer to a question.
    async fn ask<T, F>(
        &self,
        question: impl FnOnce(PodResourcesListerClient<Channel>) -> F,
    ) -> Result<T, Away>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = async {
            let client = connect(&self.kubelet).await;
            let client = client.map_err(|error| Away::Gone(error.to_string()))?;
            question(client)
                .await
                .map_err(|status| match status.code() {
                    Code::Unavailable | Code::Unknown | Code::DeadlineExceeded => {
                        Away::Gone(refusal(&self.kubelet, &status))
                    }
                    _ => Away::Refused(status),
                })
        };
        let answer = match tokio::time::timeout(DEADLINE, answer).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Away::Gone(format!(
                "asking {}: no answer within {DEADLINE:?}",
                self.kubelet.display()
            ))),
        };
        let trouble = match &answer {
            Ok(_) => None,
            Err(Away::Gone(why)) => Some(why.clone()),
            Err(Away::Refused(status)) => Some(refusal(&self.kubelet, status)),
        };
        self.trouble.send_if_modified(|now| {
            let changed = *now != trouble;
            *now = trouble;
            changed
        });
        answer
    }
}

fn refusal(socket: &Path, status: &Status) -> String {
    format!(
        "asking {}: {:?}: {}",
        socket.display(),
        status.code(),
        super::printable(status.message())
    )
}

#[tonic::async_trait]
impl PodResourcesLister for Merged {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let answer = self
            .ask(|mut client| async move { client.list(ListPodResourcesRequest {}).await })
            .await;
        let mut pods = match answer {
            Ok(answer) => answer.pod_resources,
            Err(Away::Gone(_)) => Vec::new(),
            Err(Away::Refused(status)) => return Err(status),
        };
        merge(&mut pods, &self.entries());
        Ok(Response::new(ListPodResourcesResponse {
            pod_resources: pods,
        }))
    }

    async fn get_allocatable_resources(
        &self,
        request: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        let request = request.into_inner();
        let answer = self
            .ask(|mut client| async move { client.get_allocatable_resources(request).await })
            .await;
        match answer {
            Ok(answer) => Ok(Response::new(answer)),
            // Ours are given from what the kubelet would have told; without it there is nothing to say.
            Err(Away::Gone(why)) => Err(Status::unavailable(why)),
            Err(Away::Refused(status)) => Err(status),
        }
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        let wanted = request.into_inner();
        let entries: Vec<Entry> = self
            .entries()
            .iter()
            .filter(|e| e.name == wanted.pod_name && e.namespace == wanted.pod_namespace)
            .cloned()
            .collect();
        let answer = self
            .ask(|mut client| async move { client.get(wanted).await })
            .await;
        let mut pods: Vec<PodResources> = match answer {
            Ok(answer) => answer.pod_resources.into_iter().collect(),
            Err(_) if !entries.is_empty() => Vec::new(),
            Err(Away::Gone(why)) => return Err(Status::unavailable(why)),
            Err(Away::Refused(status)) => return Err(status),
        };
        merge(&mut pods, &entries);
        Ok(Response::new(GetPodResourcesResponse {
            pod_resources: pods.into_iter().next(),
        }))
    }
}
