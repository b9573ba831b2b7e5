//! The device plugin: tells a kubelet which devices this node has, and hands them to containers. Device-plugin API,
//! version v1beta1, one server for each resource.
//!
//! | Part | What it does |
//! |---|---|
//! | [`run`] | keeps one server for each resource of a list that may change at any time |
//! | `endpoint` | one server's life: listen, register, register again when the kubelet came back, leave in order |
//! | `service` | what the kubelet asks: the list, preferences, allocations |
//! | [`prefer`] | which devices go well together |
//!
//! The list says what is true of the devices; a [`Policy`] says what a container is given. A resource may be told to
//! misbehave ([`Mischief`]), as real plugins do: that is what people who build on them want to try.

mod endpoint;
/// Messages, clients and servers of the API, made from `proto/deviceplugin.proto`.
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated; tests/codegen.rs compares it"
)]
pub mod generated;
pub mod prefer;
mod register;
mod service;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

/// For those who implement [`Policy`].
pub use tonic::async_trait;

use self::generated::ContainerAllocateResponse;

/// Where the kubelet keeps plugins' sockets, in its own directory.
pub const DIRECTORY: &str = "device-plugins";
/// Name of the socket that plugins register at.
pub const KUBELET: &str = "kubelet.sock";
/// The version that is spoken.
pub const VERSION: &str = "v1beta1";
/// Most characters the kubelet takes for a device.
pub const LONGEST_ID: usize = 63;

/// One device of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its id, at most [`LONGEST_ID`] characters.
    pub id: String,
    /// Whether containers may be given it.
    pub healthy: bool,
    /// The NUMA node it is near to.
    pub numa: Option<i64>,
}

/// An extended resource and its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// `nvidia.com/gpu`.
    pub name: String,
    /// File name of its socket.
    pub socket: String,
    /// All its devices.
    pub devices: Arc<[Device]>,
    /// What it does wrong.
    pub mischief: Mischief,
}

/// What a plugin does wrong, as real ones do at times. Several at once add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mischief {
    /// Ends as a crashed process does: connections break, its socket file stays, nobody listens.
    pub dies: bool,
    /// Keeps its connections and answers nothing.
    pub hangs: bool,
    /// Comes back, and lets so much time pass before it registers.
    pub late: Option<Duration>,
    /// Comes back, and registers under a version that no kubelet knows.
    pub wrong_version: bool,
    /// Ends the kubelet's watch, and does not come back.
    pub disconnects: bool,
    /// Its socket file is gone.
    pub unlinked: bool,
}

/// What containers are given.
#[tonic::async_trait]
pub trait Policy: Send + Sync + 'static {
    /// Answers for one container; an error's words reach the pod's events.
    async fn allocate(
        &self,
        resource: &str,
        ids: &[String],
    ) -> Result<ContainerAllocateResponse, String>;

    /// Which of the available devices to take, if `size` of them are wanted and some must be among them.
    fn prefer(
        &self,
        resource: &str,
        available: &[String],
        must: &[String],
        size: usize,
    ) -> Vec<String>;
}

/// How a resource stands with the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The kubelet knows it; so long after its socket appeared, or after we were able to.
    Registered(Duration),
    /// It does not, and why.
    Away(String),
    /// It was told to leave.
    Gone,
}

/// Where plugins meet the kubelet.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory of sockets.
    pub directory: PathBuf,
    /// The kubelet's own socket.
    pub kubelet: PathBuf,
}

impl Place {
    /// The usual places in a kubelet's directory.
    pub fn of(kubelet_directory: &std::path::Path) -> Self {
        let directory = kubelet_directory.join(DIRECTORY);
        Self {
            kubelet: directory.join(KUBELET),
            directory,
        }
    }
}

/// Told of every change of a resource's standing.
pub type Report = Arc<dyn Fn(&str, Standing) + Send + Sync>;

/// Serves resources until `ending` is true or nobody holds its other end, then leaves in order: watches end, sockets go.
pub async fn run(
    place: Place,
    mut resources: watch::Receiver<Arc<Vec<Resource>>>,
    policy: Arc<dyn Policy>,
    report: Report,
    mut ending: watch::Receiver<bool>,
) {
    let mut served: BTreeMap<(String, String), watch::Sender<Option<Resource>>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted = resources.borrow_and_update().clone();
        served.retain(|key, sender| {
            let stays = wanted.iter().any(|resource| is(key, resource));
            if !stays {
                // Its task sees this, leaves, and ends.
                sender.send_replace(None);
            }
            stays
        });
        for resource in wanted.iter() {
            let key = (resource.name.clone(), resource.socket.clone());
            match served.get(&key) {
                Some(sender) => {
                    sender.send_if_modified(|known| {
                        let changed = known.as_ref() != Some(resource);
                        if changed {
                            *known = Some(resource.clone());
                        }
                        changed
                    });
                }
                None => {
                    let (sender, receiver) = watch::channel(Some(resource.clone()));
                    served.insert(key, sender);
                    tasks.spawn(endpoint::run(
                        place.clone(),
                        receiver,
                        policy.clone(),
                        report.clone(),
                    ));
                }
            }
        }
        tokio::select! {
            changed = resources.changed() => if changed.is_err() { break },
            _ = ending.wait_for(|ending| *ending) => break,
            // Reaped, so that they do not pile up.
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    for sender in served.values() {
        sender.send_replace(None);
    }
    while tasks.join_next().await.is_some() {}
}

fn is(key: &(String, String), resource: &Resource) -> bool {
    key.0 == resource.name && key.1 == resource.socket
}

/// Whether the kubelet would take this name for a resource: a domain, a slash, a name.
pub fn is_resource_name(name: &str) -> bool {
    let Some((domain, name)) = name.split_once('/') else {
        return false;
    };
    let label = |text: &str, inner: &str| {
        let ends = |c: char| c.is_ascii_alphanumeric();
        text.starts_with(ends)
            && text.ends_with(ends)
            && text.chars().all(|c| ends(c) || inner.contains(c))
    };
    let lower = !domain.contains(|c: char| c.is_ascii_uppercase());
    let labels = domain.split('.').all(|part| label(part, "-"));
    // Reserved for what Kubernetes itself knows.
    let reserved = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    lower
        && labels
        && !reserved
        && domain.len() <= 253
        && name.len() <= 63
        && label(name, "-_.")
        && !domain.starts_with("requests.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_names_are_the_kubelets() {
        for good in [
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.5gb",
            "nvidia.com/mig-1g.5gb.me",
            "a/b",
        ] {
            assert!(is_resource_name(good), "{good}");
        }
        for bad in [
            "",
            "gpu",
            "nvidia.com/",
            "/gpu",
            "nvidia.com/mig-1g.5gb+me",
            "kubernetes.io/gpu",
            "x.kubernetes.io/gpu",
            "Nvidia.com/gpu",
            "a/b/c",
            "a b/c",
            "a/-b",
        ] {
            assert!(!is_resource_name(bad), "{bad}");
        }
        assert!(!is_resource_name(&format!("a/{}", "b".repeat(64))));
    }
}
