//! The kubelet's pod resources on a socket of our own, with the GPUs in it that a cluster's scheduler gave.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::podlist::write::Entry;
use mirage_k8s::podresources::serve::{self, Merged};
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::node::{Node, socket};

/// The name of this part in `/health`.
const PART: &str = "pod-resources service";
/// Time between attempts, and between looks whether the socket is still ours.
const AGAIN: Duration = Duration::from_secs(1);
/// How long calls under way may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves until the machine ends.
pub(super) async fn serve(node: &Node, socket: &Path, entries: watch::Receiver<Arc<[Entry]>>) {
    let mut ending = node.inside.ending.clone();
    loop {
        let path = socket.to_path_buf();
        let bound = tokio::task::spawn_blocking(move || bind(&path)).await;
        match bound.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(bound) => {
                if let Err(error) = attend(node, socket, bound, entries.clone()).await {
                    tell(node, socket, error);
                }
            }
            Err(error) => tell(node, socket, error),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = ending.wait_for(|end| *end) => return,
        }
    }
}

fn tell(node: &Node, socket: &Path, error: impl std::fmt::Display) {
    let why = format!("serving pod resources at {}: {error}", socket.display());
    node.inside.health.trouble(PART, why);
}

/// A socket, and the file it is.
struct Bound {
    listener: net::UnixListener,
    file: (u64, u64),
}

/// Listens, in place of a socket that nobody listens on any more.
fn bind(path: &Path) -> io::Result<Bound> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    socket::clear(path)?;
    let listener = net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let found = fs::symlink_metadata(path)?;
    let file = (found.dev(), found.ino());
    Ok(Bound { listener, file })
}

/// Serves until the machine ends or somebody takes the socket away.
async fn attend(
    node: &Node,
    socket: &Path,
    bound: Bound,
    entries: watch::Receiver<Arc<[Entry]>>,
) -> Result<(), String> {
    let listener = UnixListener::from_std(bound.listener).map_err(|error| error.to_string())?;
    let (trouble, mut troubles) = watch::channel(None);
    let merged = Merged {
        kubelet: node.kubelet_dir.join("pod-resources").join("kubelet.sock"),
        entries,
        trouble,
    };
    let health = &node.inside.health;
    health.good(PART);
    let telling = async {
        while troubles.changed().await.is_ok() {
            match troubles.borrow_and_update().clone() {
                Some(why) => health.trouble(PART, format!("only centrally given GPUs: {why}")),
                None => health.good(PART),
            }
        }
        std::future::pending::<()>().await;
    };
    let (close, mut closing) = watch::channel(false);
    let watching = async {
        let mut ending = node.inside.ending.clone();
        while is_ours(socket.to_path_buf(), bound.file).await {
            let ended = ending.wait_for(|end| *end);
            if tokio::time::timeout(AGAIN, ended).await.is_ok() {
                break;
            }
        }
        close.send_replace(true);
        // Clients that stay are not waited for.
        tokio::time::sleep(FAREWELL).await;
    };
    let serving = serve::serve(listener, merged, async move {
        // An error would mean that nobody watches any more.
        let _ = closing.wait_for(|close| *close).await;
    });
    let served = tokio::select! {
        served = serving => served.map_err(|error| error.to_string()),
        () = watching => Ok(()),
        () = telling => Ok(()),
    };
    if is_ours(socket.to_path_buf(), bound.file).await {
        let _ = fs::remove_file(socket);
    }
    served
}

async fn is_ours(path: PathBuf, file: (u64, u64)) -> bool {
    let look = move || {
        let found = fs::symlink_metadata(path);
        found.is_ok_and(|found| (found.dev(), found.ino()) == file)
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}
