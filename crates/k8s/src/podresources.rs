//! Asking a kubelet which container was given which device: `List` of the pod-resources API, version 1.
//!
//! Each question is a connection of its own, as dcgm-exporter does it: the kubelet, or a proxy in its place, may
//! be replaced between two questions. The question has a deadline, the answer a size.

/// Messages, client and server of the API, made from `proto/podresources.proto`.
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated; tests/codegen.rs compares it"
)]
pub mod generated;
pub mod serve;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use self::generated::pod_resources_lister_client::PodResourcesListerClient;
use self::generated::{ContainerResources, ListPodResourcesRequest, PodResources};
use crate::claims::{Allocation, Claim, Claims, Holder};
use crate::error::{Error, Result, chain, printable};

/// Where the kubelet's socket lies.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

/// Most bytes of an answer; the kubelet's own client has the same limit.
const MOST_BYTES: usize = 16 << 20;

/// Most time an answer may take; dcgm-exporter's.
const DEADLINE: Duration = Duration::from_secs(10);

/// The driver whose resource claims count.
const DRA_DRIVER: &str = "gpu.nvidia.com";

/// Which of a pod's devices count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Resources beside `nvidia.com/gpu` and `nvidia.com/mig-…`.
    pub resources: Vec<String>,
    /// Devices of resource claims too.
    pub claims: bool,
}

impl Filter {
    /// Whether devices of this resource count.
    pub fn takes(&self, resource: &str) -> bool {
        resource == "nvidia.com/gpu"
            || resource.starts_with("nvidia.com/mig-")
            || self.resources.iter().any(|extra| extra == resource)
    }
}

/// Asks once.
pub async fn list(socket: &Path, filter: &Filter) -> Result<Claims> {
    list_within(socket, filter, DEADLINE).await
}

/// Asks once, with a deadline of the caller's.
pub async fn list_within(socket: &Path, filter: &Filter, deadline: Duration) -> Result<Claims> {
    if let Err(error) = std::fs::metadata(socket)
        && error.kind() == std::io::ErrorKind::NotFound
    {
        return Err(Error::Absent {
            what: "pod-resources socket",
            path: socket.to_path_buf(),
        });
    }
    match tokio::time::timeout(deadline, ask(socket, filter)).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::List {
            path: socket.to_path_buf(),
            problem: format!("no answer within {deadline:?}"),
        }),
    }
}

async fn ask(socket: &Path, filter: &Filter) -> Result<Claims> {
    let answer = connect(socket)
        .await?
        .list(ListPodResourcesRequest {})
        .await
        .map_err(|status| Error::List {
            path: socket.to_path_buf(),
            problem: format!("{:?}: {}", status.code(), printable(status.message())),
        })?;
    Ok(read(&answer.into_inner().pod_resources, filter))
}

/// A new connection to a kubelet.
async fn connect(socket: &Path) -> Result<PodResourcesListerClient<Channel>> {
    let connect = |problem: String| Error::Connect {
        path: socket.to_path_buf(),
        problem,
    };
    let path = socket
        .to_str()
        .ok_or_else(|| connect("the path is not UTF-8".to_owned()))?;
    let channel = Endpoint::from_shared(format!("unix:{path}"))
        .map_err(|error| connect(chain(&error)))?
        .connect()
        .await
        .map_err(|error| connect(chain(&error)))?;
    Ok(PodResourcesListerClient::new(channel).max_decoding_message_size(MOST_BYTES))
}

/// What an answer says.
pub fn read(pods: &[PodResources], filter: &Filter) -> Claims {
    let mut claims = Claims::default();
    for pod in pods {
        for container in &pod.containers {
            let holder = Holder {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
                uid: None,
            };
            add(&mut claims, container, Arc::new(holder), filter);
        }
    }
    claims
}

fn add(claims: &mut Claims, container: &ContainerResources, holder: Arc<Holder>, filter: &Filter) {
    for devices in &container.devices {
        if !filter.takes(&devices.resource_name) {
            continue;
        }
        for id in &devices.device_ids {
            claims.push(Claim::of_id(Arc::clone(&holder), id));
        }
    }
    if !filter.claims {
        return;
    }
    for resource in &container.dynamic_resources {
        for device in &resource.claim_resources {
            if device.driver_name != DRA_DRIVER {
                continue;
            }
            let allocation = Allocation {
                name: resource.claim_name.clone(),
                namespace: resource.claim_namespace.clone(),
                driver: device.driver_name.clone(),
                pool: device.pool_name.clone(),
                device: device.device_name.clone(),
            };
            claims.push(Claim::of_allocation(Arc::clone(&holder), allocation));
        }
    }
}
