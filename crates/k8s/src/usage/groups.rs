//! Groups of pods, which are other programs' (Run:ai's, KAI's): pods of one group share the GPU that one of them holds for them, and the
//! priority class of a pod's group tells what kind of workload it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};

use crate::activity::{GROUP, KIND, RESERVATIONS};
use crate::cluster::pod::Pod;
use crate::error::chain;

/// Label of pods that share a GPU.
const SHARED: &str = "runai-gpu-group";
/// The annotation that it was before.
const SHARED_BEFORE: &str = "runai-gpu";
/// Longest name of an object.
const LONGEST: usize = 253;

/// Priority classes by namespace and name of the group.
pub type Classes = BTreeMap<(String, String), String>;

/// The group of those that share a GPU with the pod.
pub fn sharing(pod: &Pod) -> Option<&str> {
    let found = pod.labels.get(SHARED);
    let found = found.or_else(|| pod.annotations.get(SHARED_BEFORE));
    found.map(String::as_str)
}

/// Whether a pod only holds its GPU for the others of its group.
pub fn reserves(pod: &Pod) -> bool {
    pod.namespace == RESERVATIONS
}

/// The priority class of the pod's group, where it is known.
pub(super) fn class<'a>(pod: &Pod, classes: &'a Classes) -> Option<&'a str> {
    if classes.is_empty() {
        return None;
    }
    let name = pod.annotations.get(GROUP)?;
    let class = classes.get(&(pod.namespace.clone(), name.clone()));
    class.map(String::as_str)
}

/// The groups whose class says what some of the pods do, by namespace and name.
pub fn wanted(pods: &[Arc<Pod>]) -> BTreeSet<(String, String)> {
    let named = pods.iter().filter_map(|pod| {
        let name = pod.annotations.get(GROUP)?;
        // Whoever writes pods writes this; it becomes a part of an address.
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let is_name = name.len() <= LONGEST
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(fits);
        let asks = is_name && !pod.labels.contains_key(KIND);
        asks.then(|| (pod.namespace.clone(), name.clone()))
    });
    named.collect()
}

/// Asks for the class of one group; `None` if there is no such group, it has none, or nobody knows of groups.
pub async fn ask(client: &Client, namespace: &str, name: &str) -> Result<Option<String>, String> {
    let kind = GroupVersionKind::gvk("scheduling.run.ai", "v2alpha2", "PodGroup");
    let kind = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let found = match api.get(name).await {
        Ok(group) => Some(group),
        Err(error) if is_unknown(&error) => None,
        Err(error) => {
            let why = chain(&error);
            return Err(format!("reading pod group {namespace}/{name}: {why}"));
        }
    };
    let class = found.and_then(|group| {
        let class = group.data["spec"]["priorityClassName"].as_str();
        class.map(str::to_owned)
    });
    Ok(class)
}

/// Whether there is no such group, or nobody knows of groups at all: a server says that with the same code, and in words that are no status.
pub(crate) fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
