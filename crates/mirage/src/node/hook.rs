//! The runtime hook: containers of pods that a cluster's scheduler gave GPUs get them, and everybody who asks learns of it.
//!
//! | Part | What it does |
//! |---|---|
//! | `plugin` | what the container runtime asks and tells, answered from memory |
//! | `adjust` | a container's GPUs in the runtime's words |
//! | `file` | `podlist.json`, for those who read a file |
//! | `service` | the kubelet's pod-resources once more with those GPUs in it, for those who ask a socket |
//!
//! The runtime may be away, or go and come back: it is looked for twice a second, and its first words are everything that
//! runs. Without us containers start as they are; nobody waits.

mod adjust;
mod file;
mod plugin;
mod service;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mirage_k8s::nri;
use mirage_k8s::nri::session::{self, Identity};
use mirage_k8s::podlist::book::{Book, Scope};
use mirage_k8s::podlist::write::{self, Entry, Writer};
use tokio::net::UnixStream;
use tokio::sync::watch;

use self::plugin::Hook;
use super::driver::Root;
use super::edits::Places;
use super::{Node, socket};

/// The name of this part in `/health`.
pub(super) const PART: &str = "runtime hook";
/// Time between two looks for a runtime that is away.
const AGAIN: Duration = Duration::from_millis(500);
/// Longest time between two looks at what the API server has.
const LOOK: Duration = Duration::from_secs(5);

/// Options.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Runtime hook")]
pub(super) struct HookArgs {
    /// Be a plugin of the container runtime: pods that a cluster's scheduler gave GPUs
    /// (scheduling.koordinator.sh/device-allocated) get them, and podlist.json is kept
    #[arg(long)]
    nri: bool,
    /// The socket on which the container runtime listens for plugins
    #[arg(long, value_name = "SOCKET", default_value = nri::SOCKET)]
    nri_socket: PathBuf,
    /// Name of this plugin with the container runtime
    #[arg(long, value_name = "NAME", default_value = "mirage", value_parser = plain_name)]
    nri_name: String,
    /// Place among the runtime's plugins, 00 to 99
    #[arg(long, value_name = "NN", default_value = "10", value_parser = two_digits)]
    nri_index: String,
    /// NVIDIA_VISIBLE_DEVICES holds minor numbers, as koordinator's own hook writes it, instead of UUIDs
    #[arg(long, requires = "nri")]
    hook_minors: bool,
    /// Where the hook keeps podlist.json [default: pod-resources/podlist.json in the kubelet's directory]
    #[arg(long, value_name = "FILE", requires = "nri")]
    hook_pod_list: Option<PathBuf>,
    /// podlist.json holds containers that the kubelet gave GPUs as well
    #[arg(long, requires = "nri")]
    hook_list_all: bool,
    /// Serve the kubelet's pod resources on this socket too, with the GPUs in it that a cluster's scheduler gave
    #[arg(long, value_name = "SOCKET", requires = "nri")]
    serve_pod_resources: Option<PathBuf>,
}

fn two_digits(text: &str) -> Result<String, String> {
    let good = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    match good {
        true => Ok(text.to_owned()),
        false => Err("write two digits, as in 10".to_owned()),
    }
}

fn plain_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !text.is_empty() && text.len() <= 63 && text.chars().all(good) {
        true => Ok(text.to_owned()),
        false => Err("write up to 63 letters, digits, dashes, dots or underscores".to_owned()),
    }
}

impl HookArgs {
    /// Where `podlist.json` is kept; `None` without the hook.
    pub(super) fn pod_list(&self, kubelet: &Path) -> Option<PathBuf> {
        self.nri.then(|| self.place(kubelet))
    }

    fn place(&self, kubelet: &Path) -> PathBuf {
        let usual = || kubelet.join("pod-resources").join("podlist.json");
        self.hook_pod_list.clone().unwrap_or_else(usual)
    }

    /// Makes an empty list if there is none, before anybody looks for it. What goes wrong is told later, by whoever tries again.
    pub(super) fn prepare(&self, kubelet: &Path) {
        let path = self.pod_list(kubelet);
        drop(path.map(|path| Writer::open(&path)));
    }
}

/// Takes away what the hook leaves on a node: on purpose the list, which outlives mirage as long as its pods do; its socket only if
/// it was killed.
pub(super) fn uninstall(args: &HookArgs, kubelet: &Path) -> anyhow::Result<()> {
    if let Some(path) = &args.serve_pod_resources {
        // What is somebody's stays.
        let _ = socket::clear(path);
    }
    let path = args.place(kubelet);
    if write::is_kept(&path) {
        Writer::open(&path)
            .context("removing the pod list")?
            .remove();
    }
    Ok(())
}

/// What the runtime has told, shared by those who tell it on.
#[derive(Debug, Clone)]
struct Told {
    book: Arc<Mutex<Book>>,
    /// What goes into the list; `None` until the runtime has said what runs.
    listed: watch::Sender<Option<Arc<[Entry]>>>,
    /// What the kubelet does not know.
    central: watch::Sender<Arc<[Entry]>>,
}

impl Told {
    fn new(scope: Scope) -> Told {
        Told {
            book: Arc::new(Mutex::new(Book::new(scope))),
            listed: watch::Sender::new(None),
            central: watch::Sender::new(Arc::new([])),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells on what has changed, once the runtime has said what runs.
    fn publish(&self) {
        if self.listed.borrow().is_some() {
            self.publish_first();
        }
    }

    /// Tells on what the runtime says.
    fn publish_first(&self) {
        // Held until all is told, so that an older list never takes a newer one's place.
        let (book, now) = (self.book(), Instant::now());
        let (listed, central) = (book.entries(now), book.central(now));
        self.listed.send_if_modified(|known| {
            let changed = known.as_deref() != Some(&listed);
            if changed {
                *known = Some(listed.into());
            }
            changed
        });
        self.central.send_if_modified(|known| {
            let changed = **known != *central;
            if changed {
                *known = central.into();
            }
            changed
        });
    }
}

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &HookArgs) {
    let Some(path) = args.pod_list(&node.kubelet_dir) else {
        return;
    };
    let scope = match args.hook_list_all {
        true => Scope::All,
        false => Scope::Central,
    };
    let told = Told::new(scope);
    let socket = args.serve_pod_resources.clone();
    let (found, places) = watch::channel(None);
    tokio::join!(
        look(&node, &found),
        attend(&node, args, &told, places),
        file::keep(&node, path, told.listed.subscribe()),
        reconcile(&node, &told),
        async {
            if let Some(socket) = socket {
                service::serve(&node, &socket, told.central.subscribe()).await;
            }
        },
    );
}

/// Looks where the things lie that containers get, whenever the driver root changes: files are read now, so that no
/// container waits for them.
async fn look(node: &Node, found: &watch::Sender<Option<Places>>) {
    let mut root = node.root.clone();
    let mut ending = node.inside.ending.clone();
    loop {
        let asked = node.clone();
        let is_known = *root.borrow_and_update() != Root::Awaited;
        if is_known {
            let places = tokio::task::spawn_blocking(move || asked.places(asked.root().path()));
            found.send_replace(places.await.unwrap_or_default());
        }
        tokio::select! {
            Ok(()) = root.changed() => {}
            _ = ending.wait_for(|end| *end) => return,
        }
    }
}

/// Finds the runtime, serves it, finds it again.
async fn attend(
    node: &Node,
    args: &HookArgs,
    told: &Told,
    mut places: watch::Receiver<Option<Places>>,
) {
    let identity = Identity {
        name: args.nri_name.clone(),
        index: args.nri_index.clone(),
    };
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        // Containers that come before the driver root would go without its libraries.
        _ = places.changed() => {}
        _ = ending.wait_for(|end| *end) => return,
    }
    loop {
        let session = async {
            let socket = &args.nri_socket;
            match UnixStream::connect(socket).await {
                Ok(stream) => {
                    let mut hook = Hook {
                        node: node.clone(),
                        told: told.clone(),
                        minors: args.hook_minors,
                        places: places.clone(),
                    };
                    let ended = session::run(stream, &identity, &mut hook).await;
                    told.book().forget_parts();
                    format!("{}: {ended}", socket.display())
                }
                Err(error) => format!(
                    "connecting to the container runtime's NRI socket {}: {error}",
                    socket.display()
                ),
            }
        };
        tokio::select! {
            why = session => node.inside.health.trouble(PART, why),
            _ = ending.wait_for(|end| *end) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = ending.wait_for(|end| *end) => return,
        }
    }
}

/// Compares with the pods that the API server has on this node, as long as it tells.
async fn reconcile(node: &Node, told: &Told) {
    let pods = node.cluster.pods();
    let mut changes = pods.changes();
    let mut ending = node.inside.ending.clone();
    loop {
        changes.borrow_and_update();
        // A watch that is broken says nothing of pods that came since.
        let is_current = pods.is_complete() && node.cluster.is_followed(node);
        let alive: Option<HashSet<String>> =
            is_current.then(|| pods.all().iter().map(|pod| pod.uid.clone()).collect());
        let now = Instant::now();
        let next = told.book().reconcile(alive.as_ref(), now);
        told.publish();
        let pause = next.map_or(LOOK, |next| (next - now).min(LOOK));
        tokio::select! {
            Ok(()) = changes.changed() => {}
            () = tokio::time::sleep(pause) => {}
            _ = ending.wait_for(|end| *end) => return,
        }
    }
}
