//! A pod as far as it matters here: who it is, what its author says it does, which of its containers run.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::jiff::Timestamp;
use kube::core::Object;
use serde::Deserialize;

/// Annotations with these beginnings are kept; the rest may be large and means nothing here.
const KEPT: &[&str] = &[
    "mirage.dev/",
    "run.ai/",
    "gpu-fraction",
    "runai-",
    "pod-group-name",
    "scheduling.koordinator.sh/",
];

/// Most bytes of an annotation that is kept whole. Of a longer one so much is kept that whoever reads it knows.
pub const MOST_ANNOTATION: usize = 64 << 10;
/// Most annotations and labels kept of one pod.
const MOST_ENTRIES: usize = 256;
/// Most containers looked at of one pod.
const MOST_CONTAINERS: usize = 256;

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod {
    /// UID.
    pub uid: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Those annotations that mirage reads.
    pub annotations: BTreeMap<String, String>,
    /// `Running` and the like.
    pub phase: String,
    /// On its way out.
    pub is_ending: bool,
    /// Its containers: plain init containers and sidecars first, as they start.
    pub containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Container {
    /// Name.
    pub name: String,
    /// What part it plays.
    pub role: Role,
    /// It runs now.
    pub is_running: bool,
    /// Since when, if it runs and the server says so.
    pub since: Option<SystemTime>,
    /// How often it has been started again.
    pub restarts: u32,
    /// Extended resources it asks for, with their counts.
    pub resources: BTreeMap<String, u32>,
}

impl Container {
    /// How many devices it asks for.
    pub(crate) fn count(&self, filter: &crate::podresources::Filter) -> usize {
        let asked = self.resources.iter().filter(|(name, _)| filter.takes(name));
        asked.map(|(_, count)| *count as usize).sum()
    }
}

/// What part a container plays in its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Runs and ends before the others start.
    Init,
    /// An init container that keeps running.
    Sidecar,
    /// An ordinary one.
    #[default]
    App,
}

/// A pod as the server sends it, with what is read of it.
pub(super) type Raw = Object<Spec, Status>;

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    containers: Vec<SpecContainer>,
    init_containers: Vec<SpecContainer>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SpecContainer {
    name: String,
    restart_policy: Option<String>,
    resources: Resources,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default)]
struct Resources {
    limits: Option<BTreeMap<String, serde_json::Value>>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    phase: String,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    restart_count: u32,
    state: State,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(default)]
struct State {
    running: Option<Running>,
}

#[derive(Debug, Clone, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: serde_json::Value,
}

impl Running {
    /// A time that makes no sense is no reason to do without the pod.
    fn since(&self) -> Option<SystemTime> {
        let text = self.started_at.as_str()?;
        text.parse::<Timestamp>().ok().map(SystemTime::from)
    }
}

impl Pod {
    /// What is kept of a pod as the server sends it; `None` without a UID or a name.
    pub(super) fn read(raw: Raw) -> Option<Pod> {
        let meta = raw.metadata;
        let status = raw.status.unwrap_or_default();
        let annotations = meta.annotations.unwrap_or_default().into_iter();
        let annotations =
            annotations.filter(|(key, _)| KEPT.iter().any(|start| key.starts_with(start)));
        let annotations = annotations.map(|(key, mut value)| {
            value.truncate(value.ceil_char_boundary(MOST_ANNOTATION + 1));
            value.shrink_to_fit();
            (key, value)
        });
        let init = raw.spec.init_containers.into_iter().map(|container| {
            let role = match container.restart_policy.as_deref() {
                Some("Always") => Role::Sidecar,
                _ => Role::Init,
            };
            (role, container)
        });
        let app = raw.spec.containers.into_iter();
        let containers = init.chain(app.map(|container| (Role::App, container)));
        let containers = containers.take(MOST_CONTAINERS).map(|(role, container)| {
            let statuses = match role {
                Role::App => &status.container_statuses,
                Role::Init | Role::Sidecar => &status.init_container_statuses,
            };
            container.read(role, statuses)
        });
        Some(Pod {
            uid: meta.uid?,
            namespace: meta.namespace?,
            name: meta.name?,
            labels: meta
                .labels
                .unwrap_or_default()
                .into_iter()
                .take(MOST_ENTRIES)
                .collect(),
            annotations: annotations.take(MOST_ENTRIES).collect(),
            is_ending: meta.deletion_timestamp.is_some(),
            containers: containers.collect(),
            phase: status.phase,
        })
    }
}

impl SpecContainer {
    fn read(self, role: Role, statuses: &[ContainerStatus]) -> Container {
        let status = statuses.iter().find(|status| status.name == self.name);
        let running = status.and_then(|status| status.state.running.as_ref());
        let limits = self.resources.limits.unwrap_or_default().into_iter();
        let resources = limits.filter_map(|(name, amount)| {
            // Extended resources have a domain, and come in whole numbers.
            let whole = match &amount {
                serde_json::Value::String(text) => text.parse().ok(),
                other => other.as_u64().and_then(|n| u32::try_from(n).ok()),
            };
            whole.filter(|_| name.contains('/')).map(|n| (name, n))
        });
        Container {
            name: self.name,
            role,
            is_running: running.is_some(),
            since: running.and_then(Running::since),
            restarts: status.map_or(0, |status| status.restart_count),
            resources: resources.take(MOST_ENTRIES).collect(),
        }
    }
}
