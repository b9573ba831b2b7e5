//! One server's life: listen, then register; again whenever the kubelet came back or our socket went; leave in order.
//!
//! A kubelet that starts removes every plugin's socket and makes its own anew, so both are looked at many times a
//! second: it costs two system calls, needs no directory to exist yet, and misses nothing.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;

use super::generated::device_plugin_server::DevicePluginServer;
use super::register::register;
use super::service::{Service, Watches};
use super::{Mischief, Place, Policy, Report, Resource, Standing, VERSION};
use crate::authority;

/// How often sockets are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// Time between attempts that fail: the first, and the longest.
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(5);
/// How long a server may take to end.
const FAREWELL: Duration = Duration::from_secs(2);
/// What a plugin of another age calls its version.
const WRONG_VERSION: &str = "v1alpha1";

/// A file, and when it became it: the number alone may be given out again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

/// Who lies at a path.
fn identity(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    Some(Identity {
        device: found.dev(),
        inode: found.ino(),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// A server that listens.
struct Listening {
    identity: Option<Identity>,
    since: SystemTime,
    closing: watch::Sender<bool>,
    watches: Arc<Watches>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Ends it: answers under way and watches first, then connections.
    async fn close(self) {
        self.closing.send_replace(true);
        let mut task = self.task;
        if tokio::time::timeout(FAREWELL, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Everything about one resource's server.
struct Endpoint {
    place: Place,
    resource: watch::Receiver<Option<Resource>>,
    policy: Arc<dyn Policy>,
    report: Report,
    name: String,
    socket: String,
    /// What it did wrong when last looked at.
    mischief: Mischief,
    listening: Option<Listening>,
    /// The kubelet it is registered with.
    known: Option<Identity>,
    /// How many watches there had been before it was.
    watches: u64,
    /// When it was seen that the kubelet watches no more.
    left: SystemTime,
    /// When it was registered last.
    since: Instant,
    /// How long that took.
    took: Duration,
    /// The kubelet there was when last looked at.
    seen: Option<Identity>,
    /// Not before then.
    due: Instant,
    pause: Duration,
}

/// Serves a resource until it is gone.
pub(super) async fn run(
    place: Place,
    resource: watch::Receiver<Option<Resource>>,
    policy: Arc<dyn Policy>,
    report: Report,
) {
    let Some(Resource { name, socket, .. }) = resource.borrow().clone() else {
        return;
    };
    let mut endpoint = Endpoint {
        place,
        resource,
        policy,
        report,
        name,
        socket,
        mischief: Mischief::default(),
        listening: None,
        known: None,
        watches: 0,
        left: UNIX_EPOCH,
        since: Instant::now(),
        took: Duration::ZERO,
        seen: None,
        due: Instant::now(),
        pause: SOON,
    };
    while endpoint.look().await {
        // An error would mean that nobody is left to say what there is; looking says so too.
        let _ = tokio::time::timeout(LOOK, endpoint.resource.changed()).await;
    }
    endpoint.leave().await;
}

impl Endpoint {
    /// Does what is to be done now; whether the resource is still there.
    async fn look(&mut self) -> bool {
        if self.resource.has_changed().is_err() {
            return false;
        }
        let Some(mischief) = self
            .resource
            .borrow_and_update()
            .as_ref()
            .map(|it| it.mischief)
        else {
            return false;
        };
        self.turn(mischief).await;
        let kubelet = identity(&self.place.kubelet);
        if kubelet != self.seen {
            // Another kubelet: whatever failed with the last one may work now.
            self.seen = kubelet;
            self.pause = SOON;
            self.due = Instant::now() + mischief.late.unwrap_or_default();
        }
        if mischief.dies || !self.listen().await {
            return true;
        }
        if mischief.hangs || mischief.disconnects || Instant::now() < self.due {
            return true;
        }
        match kubelet {
            None => {
                self.known = None;
                let at = self.place.kubelet.display();
                self.away(format!("waiting for the kubelet: {at} is not there"));
            }
            Some(kubelet) if self.known != Some(kubelet) => self.register(kubelet).await,
            Some(_) if self.is_left() => {
                // It has ended, and its socket outlives it; or it forgot us, and takes us again.
                self.known = None;
                if self.since.elapsed() > LATER {
                    self.pause = SOON;
                }
                self.wait();
                self.left = SystemTime::now();
                self.away("the kubelet watches its devices no more".into());
            }
            Some(_) => {}
        }
        true
    }

    /// Whether the kubelet has ended the watch that belongs to the registration.
    fn is_left(&self) -> bool {
        let listening = self.listening.as_ref();
        listening.is_some_and(|it| it.watches.are_over(self.watches))
    }

    /// Begins or ends misbehaving.
    async fn turn(&mut self, now: Mischief) {
        let before = std::mem::replace(&mut self.mischief, now);
        if now == before {
            return;
        }
        let begins = |of: fn(&Mischief) -> bool| of(&now) && !of(&before);
        let breaks = begins(|it| it.dies)
            || begins(|it| it.late.is_some())
            || begins(|it| it.wrong_version)
            || begins(|it| it.disconnects);
        if breaks {
            self.stop().await;
        }
        if now != Mischief::default() {
            self.away("misbehaves, as it was told to".into());
        }
        if begins(|it| it.unlinked) {
            self.unlink();
        }
        self.pause = SOON;
        self.due = Instant::now() + now.late.unwrap_or_default();
        let ends = |of: fn(&Mischief) -> bool| !of(&now) && of(&before);
        // One that was late and has come is known, and kubelets take no second word from who is connected.
        if ends(|it| it.wrong_version) || ends(|it| it.disconnects) {
            self.known = None;
        }
        if now == Mischief::default() && self.known.is_some() {
            (self.report)(&self.name, Standing::Registered(self.took));
        }
    }

    /// Makes sure that somebody listens at our socket; whether that is so.
    async fn listen(&mut self) -> bool {
        let path = self.place.directory.join(&self.socket);
        let there = identity(&path);
        if let Some(listening) = &self.listening {
            let ours = there.is_some() && there == listening.identity;
            if !listening.task.is_finished() && (ours || self.mischief.unlinked) {
                return true;
            }
            self.stop().await;
        }
        if Instant::now() < self.due && self.mischief.late.is_none() {
            return false;
        }
        match bind(&path) {
            Ok(listener) => {
                let (closing, closed) = watch::channel(false);
                let watches = Arc::new(Watches::default());
                let service = Service {
                    resource: self.resource.clone(),
                    policy: self.policy.clone(),
                    closing: closed.clone(),
                    watches: watches.clone(),
                };
                self.listening = Some(Listening {
                    identity: identity(&path),
                    since: SystemTime::now(),
                    closing,
                    watches,
                    task: tokio::spawn(serve(listener, service, closed)),
                });
                if self.mischief.unlinked {
                    self.unlink();
                }
                true
            }
            Err(problem) => {
                let directory = &self.place.directory;
                self.away(match problem.kind() {
                    ErrorKind::NotFound if !directory.exists() => {
                        let at = directory.display();
                        format!("waiting for the kubelet: its directory {at} is not there")
                    }
                    _ => format!("listening on {}: {problem}", path.display()),
                });
                self.wait();
                false
            }
        }
    }

    /// Tells the kubelet.
    async fn register(&mut self, kubelet: Identity) {
        let version = match self.mischief.wrong_version {
            true => WRONG_VERSION,
            false => VERSION,
        };
        let mut resource = self.resource.clone();
        let listening = self.listening.as_ref();
        // The kubelet connects back within the call.
        self.watches = listening.map_or(0, |it| it.watches.begun());
        let answer = tokio::select! {
            answer = register(&self.place.kubelet, &self.name, &self.socket, version) => answer,
            // Told to leave or to do something else: that comes first.
            () = changes(&mut resource, self.mischief) => return,
        };
        match answer {
            Ok(()) => {
                self.known = Some(kubelet);
                self.since = Instant::now();
                let ready = self.listening.as_ref().map_or(UNIX_EPOCH, |it| it.since);
                let since = ready.max(time(kubelet.changed)).max(self.left);
                self.took = since.elapsed().unwrap_or_default();
                (self.report)(&self.name, Standing::Registered(self.took));
            }
            Err(problem) => {
                self.away(problem);
                self.wait();
            }
        }
    }

    /// Lets some time pass before the next attempt, and more before the one after.
    fn wait(&mut self) {
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LATER);
    }

    fn away(&self, why: String) {
        (self.report)(&self.name, Standing::Away(why));
    }

    /// Ends the server; its socket file stays, as a process that ends leaves it.
    async fn stop(&mut self) {
        self.known = None;
        if let Some(listening) = self.listening.take() {
            listening.close().await;
        }
    }

    /// Removes our socket file, and nobody else's.
    fn unlink(&self) {
        let path = self.place.directory.join(&self.socket);
        let ours = self.listening.as_ref().and_then(|it| it.identity);
        if ours.is_some() && identity(&path) == ours {
            // Gone already, or the kubelet's to remove.
            let _ = fs::remove_file(&path);
        }
    }

    /// Leaves: the watch ends, so that the kubelet gives out no more; then the socket goes.
    async fn leave(&mut self) {
        if let Some(listening) = &self.listening {
            listening.closing.send_replace(true);
        }
        self.unlink();
        self.stop().await;
        (self.report)(&self.name, Standing::Gone);
    }
}

/// Serves until told to close.
async fn serve(listener: UnixListener, service: Service, mut closed: watch::Receiver<bool>) {
    let closed = async move {
        let _ = closed.wait_for(|closed| *closed).await;
    };
    // It ends with an error only if it cannot accept; then it is started anew.
    let _ = Server::builder()
        .add_service(DevicePluginServer::new(service))
        .serve_with_incoming_shutdown(authority::incoming(listener), closed)
        .await;
}

/// Waits until the resource goes or misbehaves in another way.
async fn changes(resource: &mut watch::Receiver<Option<Resource>>, mischief: Mischief) {
    let other = |now: &Option<Resource>| {
        now.as_ref()
            .is_none_or(|resource| resource.mischief != mischief)
    };
    let _ = resource.wait_for(other).await;
}

/// Listens at a path, in the place of a socket that nobody listens at.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        },
        Ok(_) => {
            return Err(io::Error::new(
                ErrorKind::AlreadyExists,
                "something that is no socket lies there; remove it",
            ));
        }
        Err(_) => {}
    }
    UnixListener::bind(path)
}

/// A file's time.
fn time((seconds, nanos): (i64, i64)) -> SystemTime {
    let whole = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let part = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    UNIX_EPOCH + whole + part
}
