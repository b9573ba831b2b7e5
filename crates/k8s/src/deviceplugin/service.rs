//! What the kubelet asks of a plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::generated::device_plugin_server::DevicePlugin;
use super::generated::{
    self, AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse,
    DevicePluginOptions, Empty, ListAndWatchResponse, NumaNode, PreStartContainerRequest,
    PreStartContainerResponse, PreferredAllocationRequest, PreferredAllocationResponse,
    TopologyInfo,
};
use super::{Policy, Resource};

/// What plugins of this kind can do.
pub(super) const OPTIONS: DevicePluginOptions = DevicePluginOptions {
    pre_start_required: false,
    get_preferred_allocation_available: true,
};

/// One server. It ends its answers when `closing` becomes true, so that the server can end.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) resource: watch::Receiver<Option<Resource>>,
    pub(super) policy: Arc<dyn Policy>,
    pub(super) closing: watch::Receiver<bool>,
    pub(super) watches: Arc<Watches>,
}

/// How many watches there have been, and how many of them have ended.
#[derive(Debug, Default)]
pub(super) struct Watches {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Watches {
    /// How many have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether there has been one since there were so many, and none is left.
    pub(super) fn are_over(&self, since: u64) -> bool {
        // In this order: one that begins meanwhile is not over.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun();
        begun > since && ended == begun
    }
}

/// Counts a watch as ended when it goes, however that comes.
struct Watched(Arc<Watches>);

impl Watched {
    fn begin(watches: &Arc<Watches>) -> Watched {
        watches.begun.fetch_add(1, Ordering::AcqRel);
        Watched(Arc::clone(watches))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Service {
    /// The resource; an error once it was told to leave.
    fn resource(&self) -> Result<Resource, Status> {
        let resource = self.resource.borrow().clone();
        resource.ok_or_else(|| Status::unavailable("the resource is no longer there"))
    }

    /// Lets `work` happen, unless the plugin hangs or ends.
    async fn answer<T>(
        &self,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<Response<T>, Status> {
        let mut resource = self.resource.clone();
        let mut closing = self.closing.clone();
        let work = async {
            // Gone, or well again: then it goes on.
            let _ = resource.wait_for(|resource| !hangs(resource)).await;
            work.await
        };
        tokio::select! {
            answer = work => answer.map(Response::new),
            _ = closing.wait_for(|closing| *closing) => Err(Status::unavailable("the plugin ends")),
        }
    }
}

fn hangs(resource: &Option<Resource>) -> bool {
    resource.as_ref().is_some_and(|it| it.mischief.hangs)
}

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = ReceiverStream<Result<ListAndWatchResponse, Status>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        self.answer(async { Ok(OPTIONS) }).await
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        let (resource, closing) = (self.resource.clone(), self.closing.clone());
        let watched = Watched::begin(&self.watches);
        tokio::spawn(async move {
            let _watched = watched;
            let mut closing = closing;
            tokio::select! {
                () = tell(resource, &sender) => {}
                () = sender.closed() => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        self.answer(async {
            let name = self.resource()?.name;
            let requests = request.into_inner().container_requests;
            let responses = requests.into_iter().map(|wanted| {
                let size = usize::try_from(wanted.allocation_size).unwrap_or(0);
                let (available, must) = (
                    wanted.available_device_i_ds,
                    wanted.must_include_device_i_ds,
                );
                ContainerPreferredAllocationResponse {
                    device_i_ds: self.policy.prefer(&name, &available, &must, size),
                }
            });
            Ok(PreferredAllocationResponse {
                container_responses: responses.collect(),
            })
        })
        .await
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        self.answer(async {
            let Resource { name, devices, .. } = self.resource()?;
            let mut answer = AllocateResponse::default();
            for container in request.into_inner().container_requests {
                let ids = container.devices_ids;
                let unknown = |id: &&String| !devices.iter().any(|device| device.id == **id);
                if let Some(id) = ids.iter().find(unknown) {
                    let id: String = id.chars().take(2 * super::LONGEST_ID).collect();
                    return Err(Status::unknown(format!(
                        "invalid allocation request for {name:?}: unknown device {id:?}"
                    )));
                }
                let given = self.policy.allocate(&name, &ids).await;
                // Pods' events show the code: this is the one that plugins written in Go have for every error.
                answer
                    .container_responses
                    .push(given.map_err(Status::unknown)?);
            }
            Ok(answer)
        })
        .await
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        self.answer(async { Ok(PreStartContainerResponse {}) })
            .await
    }
}

/// Sends the list, and every later one that differs, until the resource is gone.
async fn tell(
    mut resource: watch::Receiver<Option<Resource>>,
    sender: &mpsc::Sender<Result<ListAndWatchResponse, Status>>,
) {
    let mut told = None;
    loop {
        let now = match resource.borrow_and_update().as_ref() {
            Some(resource) if resource.mischief.hangs => None,
            Some(resource) => Some(resource.devices.clone()),
            None => return,
        };
        if now.is_some() && now != told {
            let devices = now.iter().flat_map(|list| list.iter()).map(wire).collect();
            if sender
                .send(Ok(ListAndWatchResponse { devices }))
                .await
                .is_err()
            {
                return;
            }
            told = now;
        }
        if resource.changed().await.is_err() {
            return;
        }
    }
}

fn wire(device: &super::Device) -> generated::Device {
    let health = if device.healthy {
        "Healthy"
    } else {
        "Unhealthy"
    };
    generated::Device {
        id: device.id.clone(),
        health: health.into(),
        topology: device.numa.map(|id| TopologyInfo {
            nodes: vec![NumaNode { id }],
        }),
    }
}
