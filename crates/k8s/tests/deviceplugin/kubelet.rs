//! A small kubelet: takes registrations, connects back within them, and follows every list.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirage_k8s::authority;
use mirage_k8s::deviceplugin::generated::device_plugin_client::DevicePluginClient;
use mirage_k8s::deviceplugin::generated::registration_server::{Registration, RegistrationServer};
use mirage_k8s::deviceplugin::generated::{ContainerAllocateResponse, Empty, RegisterRequest};
use mirage_k8s::deviceplugin::{self, Device, Mischief, Place, Policy, Resource, Standing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// Long enough for a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
pub(crate) async fn within(so: impl Fn() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
}

pub(crate) fn device(id: &str, healthy: bool, numa: Option<i64>) -> Device {
    Device {
        id: id.into(),
        healthy,
        numa,
    }
}

/// A resource whose devices are healthy and each near a NUMA node of its own.
pub(crate) fn resource(name: &str, socket: &str, ids: &[&str]) -> Resource {
    let devices = ids
        .iter()
        .zip(0..)
        .map(|(id, numa)| device(id, true, Some(numa)));
    Resource {
        name: name.into(),
        socket: socket.into(),
        devices: devices.collect(),
        mischief: Mischief::default(),
    }
}

/// A list as the kubelet was told it: id, healthy, NUMA node.
pub(crate) type List = Vec<(String, bool, Option<i64>)>;

#[derive(Default)]
struct Seen {
    requests: Vec<RegisterRequest>,
    accepted: HashMap<String, usize>,
    lists: HashMap<String, Vec<List>>,
    ended: HashMap<String, usize>,
    refusals: usize,
    watches: Vec<JoinHandle<()>>,
}

#[derive(Clone)]
struct Book {
    directory: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

impl Book {
    fn with<T>(&self, work: impl FnOnce(&mut Seen) -> T) -> T {
        work(&mut self.seen.lock().unwrap())
    }
}

#[tonic::async_trait]
impl Registration for Book {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let refuse = self.with(|seen| {
            seen.requests.push(request.clone());
            let refuse = seen.refusals > 0;
            seen.refusals = seen.refusals.saturating_sub(1);
            refuse
        });
        if refuse {
            return Err(Status::unavailable("busy"));
        }
        if request.version != "v1beta1" {
            let version = request.version;
            return Err(Status::invalid_argument(format!(
                "unsupported version {version}"
            )));
        }
        let mut plugin = dial(&self.directory.join(&request.endpoint))
            .await
            .map_err(|error| Status::unknown(error.to_string()))?;
        plugin.get_device_plugin_options(Empty {}).await?;
        let mut stream = plugin.list_and_watch(Empty {}).await?.into_inner();
        let (book, name) = (self.clone(), request.resource_name.clone());
        let watch = tokio::spawn(async move {
            let _plugin = plugin;
            while let Ok(Some(list)) = stream.message().await {
                let list = list.devices.into_iter().map(|device| {
                    let nodes = device.topology.map(|it| it.nodes).unwrap_or_default();
                    (
                        device.id,
                        device.health == "Healthy",
                        nodes.first().map(|it| it.id),
                    )
                });
                let list: List = list.collect();
                book.with(|seen| seen.lists.entry(name.clone()).or_default().push(list));
            }
            book.with(|seen| *seen.ended.entry(name).or_default() += 1);
        });
        self.with(|seen| {
            *seen.accepted.entry(request.resource_name).or_default() += 1;
            seen.watches.push(watch);
        });
        Ok(Response::new(Empty {}))
    }
}

pub(crate) async fn dial(
    socket: &std::path::Path,
) -> Result<DevicePluginClient<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?;
    Ok(DevicePluginClient::new(endpoint.connect().await?))
}

/// A kubelet that runs.
pub(crate) struct Kubelet {
    book: Book,
    closing: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl Kubelet {
    pub(crate) async fn start(place: Place) -> Self {
        Self::refusing(place, 0).await
    }

    /// One that refuses so many registrations first.
    pub(crate) async fn refusing(place: Place, refusals: usize) -> Self {
        let _ = std::fs::remove_file(&place.kubelet);
        let listener = UnixListener::bind(&place.kubelet).unwrap();
        let seen = Seen {
            refusals,
            ..Seen::default()
        };
        let book = Book {
            directory: place.directory,
            seen: Arc::new(Mutex::new(seen)),
        };
        let (closing, mut closed) = watch::channel(false);
        let service = RegistrationServer::new(book.clone());
        let server = tokio::spawn(async move {
            let closed = async move {
                let _ = closed.wait_for(|closed| *closed).await;
            };
            Server::builder()
                .add_service(service)
                .serve_with_incoming_shutdown(authority::incoming(listener), closed)
                .await
                .unwrap();
        });
        Self {
            book,
            closing,
            server,
        }
    }

    /// Watches nobody any more.
    pub(crate) fn forget(&self) {
        for watch in self.book.with(|seen| std::mem::take(&mut seen.watches)) {
            watch.abort();
        }
    }

    /// Ends it as a process ends: everything it follows breaks off, its socket file stays.
    pub(crate) async fn stop(self) {
        self.closing.send_replace(true);
        self.forget();
        tokio::time::timeout(PATIENCE, self.server)
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) fn requests(&self) -> Vec<RegisterRequest> {
        self.book.with(|seen| seen.requests.clone())
    }

    /// How many lists it was told.
    pub(crate) fn told(&self, name: &str) -> usize {
        self.book
            .with(|seen| seen.lists.get(name).map_or(0, Vec::len))
    }

    /// Waits for registrations, taken or not.
    pub(crate) async fn registered(&self, name: &str, times: usize) {
        within(|| {
            let requests = self.requests();
            let of_it = requests.iter().filter(|it| it.resource_name == name);
            of_it.count() >= times
        })
        .await;
    }

    /// Waits for registrations that it took.
    pub(crate) async fn accepted(&self, name: &str, times: usize) {
        within(|| {
            self.book
                .with(|seen| seen.accepted.get(name).copied().unwrap_or(0) >= times)
        })
        .await;
    }

    /// Waits for the lists of a resource.
    pub(crate) async fn lists(&self, name: &str, so: impl Fn(&[List]) -> bool) -> Vec<List> {
        let lists = || {
            self.book
                .with(|seen| seen.lists.get(name).cloned().unwrap_or_default())
        };
        within(|| so(&lists())).await;
        lists()
    }

    /// Waits until the plugin has ended so many watches.
    pub(crate) async fn ended(&self, name: &str, times: usize) {
        within(|| {
            self.book
                .with(|seen| seen.ended.get(name).copied().unwrap_or(0) >= times)
        })
        .await;
    }
}

/// Gives every container a variable with what it was given.
struct Plain;

#[tonic::async_trait]
impl Policy for Plain {
    async fn allocate(&self, _: &str, ids: &[String]) -> Result<ContainerAllocateResponse, String> {
        if ids.len() > 1 {
            return Err("too many".into());
        }
        let mut response = ContainerAllocateResponse::default();
        response.envs.insert("GIVEN".into(), ids.join(","));
        Ok(response)
    }

    fn prefer(&self, _: &str, available: &[String], _: &[String], size: usize) -> Vec<String> {
        available.iter().take(size).cloned().collect()
    }
}

/// A plugin in a directory of its own.
pub(crate) struct Rig {
    directory: tempfile::TempDir,
    resources: watch::Sender<Arc<Vec<Resource>>>,
    ending: watch::Sender<bool>,
    reports: mpsc::UnboundedReceiver<(String, Standing)>,
    reporter: mpsc::UnboundedSender<(String, Standing)>,
    task: Option<JoinHandle<()>>,
}

impl Rig {
    /// Not running yet.
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("device-plugins")).unwrap();
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            directory,
            resources: watch::channel(Arc::default()).0,
            ending: watch::channel(false).0,
            reports,
            reporter,
            task: None,
        }
    }

    pub(crate) fn run(&mut self, resources: Vec<Resource>) {
        self.offer(resources);
        let reporter = self.reporter.clone();
        let report = move |name: &str, standing| {
            let _ = reporter.send((name.to_owned(), standing));
        };
        self.task = Some(tokio::spawn(deviceplugin::run(
            self.place(),
            self.resources.subscribe(),
            Arc::new(Plain),
            Arc::new(report),
            self.ending.subscribe(),
        )));
    }

    pub(crate) async fn start(resources: Vec<Resource>) -> Self {
        let mut rig = Self::empty();
        rig.run(resources);
        rig
    }

    pub(crate) fn place(&self) -> Place {
        Place::of(self.directory.path())
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.place().directory.join(name)
    }

    pub(crate) fn offer(&self, resources: Vec<Resource>) {
        self.resources.send_replace(Arc::new(resources));
    }

    /// Removes all sockets.
    pub(crate) fn clear(&self) {
        for entry in std::fs::read_dir(self.place().directory).unwrap() {
            let _ = std::fs::remove_file(entry.unwrap().path());
        }
    }

    /// The next report that is as wanted.
    pub(crate) async fn standing(
        &mut self,
        name: &str,
        so: impl Fn(&Standing) -> bool,
    ) -> Standing {
        let wait = async {
            loop {
                let (of, standing) = self.reports.recv().await.unwrap();
                if of == name && so(&standing) {
                    return standing;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap()
    }

    /// A connection to a plugin's socket.
    pub(crate) async fn client(&self, socket: &str) -> DevicePluginClient<Channel> {
        dial(&self.socket(socket)).await.unwrap()
    }

    /// Calls the plugin as a Go client does that dials the bare path, byte by byte. Whether it was answered.
    pub(crate) async fn asks_by_path(&self, socket: &str) -> bool {
        let mut stream = UnixStream::connect(self.socket(socket)).await.unwrap();
        let mut headers = vec![0x83, 0x86];
        let mut header = |name: &[u8], value: &str| {
            headers.extend(name);
            headers.push(u8::try_from(value.len()).unwrap());
            headers.extend(value.as_bytes());
        };
        header(&[0x04], "/v1beta1.DevicePlugin/GetDevicePluginOptions");
        header(&[0x41], "%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2Fx.sock");
        header(&[0x0f, 0x10], "application/grpc");
        header(&[0x00, 0x02, b't', b'e'], "trailers");
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend([0, 0, u8::try_from(headers.len()).unwrap(), 1, 4, 0, 0, 0, 1]);
        bytes.extend(headers);
        bytes.extend([0, 0, 5, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        for byte in bytes {
            stream.write_all(&[byte]).await.unwrap();
        }
        let answered = async {
            loop {
                let mut head = [0; 9];
                stream.read_exact(&mut head).await.unwrap();
                let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                let mut payload = vec![0; length];
                stream.read_exact(&mut payload).await.unwrap();
                match head[3] {
                    // An answer's first headers; a refused stream is reset.
                    1 => return true,
                    3 | 7 => return false,
                    _ => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap()
    }

    /// Ends it and waits until it has.
    pub(crate) async fn end(&mut self) {
        self.ending.send_replace(true);
        if let Some(task) = self.task.take() {
            tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
        }
    }
}
