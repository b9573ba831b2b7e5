//! Everything a controller wrote, taken back.

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::beat::LEASES;
use super::perform::patch;
use crate::allocate::HELD;
use crate::controller::body::nothing;
use crate::controller::settle::RESERVED;
use crate::controller::{MANAGER, VIRTUAL};
use crate::error::chain;

/// Nodes, pods and leases asked for at a time. Of a fleet of thousands, nothing but names is kept.
const PAGE: u32 = 250;
/// Pods written to at a time.
const PARALLEL: usize = 16;

/// How much of a node a controller wrote.
#[derive(PartialEq, Eq)]
enum Wrote {
    All,
    Some,
}

impl Wrote {
    /// What was written of a node, by name; nothing if nothing was.
    fn on(node: Node) -> Option<(String, Wrote)> {
        let made = node.annotations().get(VIRTUAL);
        let mut managers = node.managed_fields().iter();
        let wrote = if made.is_some_and(|value| value == "true") {
            Wrote::All
        } else if managers.any(|entry| entry.manager.as_deref() == Some(MANAGER)) {
            Wrote::Some
        } else {
            return None;
        };
        Some((node.name_any(), wrote))
    }
}

/// A pod, and the annotations on it that a controller wrote.
struct Noted {
    namespace: String,
    name: String,
    keys: Vec<&'static str>,
}

impl Noted {
    /// What was written on a pod; nothing if nothing was, or if the pod goes with its node.
    fn on(pod: &Pod, gone: &BTreeSet<String>) -> Option<Noted> {
        let node = pod.spec.as_ref()?.node_name.as_ref()?;
        let annotations = pod.annotations();
        let mut keys = Vec::new();
        if annotations.contains_key(HELD) {
            keys.push(HELD);
        }
        // Others write that one too.
        if annotations.contains_key(RESERVED) && wrote(pod, RESERVED) {
            keys.push(RESERVED);
        }
        (!gone.contains(node) && !keys.is_empty()).then(|| Noted {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            keys,
        })
    }
}

/// Whether it was a controller that wrote an annotation of a pod.
fn wrote(pod: &Pod, key: &str) -> bool {
    let field = format!("f:{key}");
    let own = pod.managed_fields().iter();
    let mut own = own.filter(|entry| entry.manager.as_deref() == Some(MANAGER));
    own.any(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:metadata"]["f:annotations"][&field].is_null())
    })
}

/// Takes back whatever the controller wrote: nodes that it made, labels and resources on nodes of others, what it noted on their pods,
/// leases of nodes, documents, its own lease.
/// The document that says what there is to be is its author's, and stays. Says what was done.
pub async fn remove(client: &Client, namespace: &str) -> Result<String, String> {
    let trouble = |what: &str, error: kube::Error| format!("{what}: {}", chain(&error));
    let lease: Api<Lease> = Api::namespaced(client.clone(), namespace);
    gone(lease.delete(MANAGER, &DeleteParams::default()).await)
        .map_err(|error| trouble("deleting the lease", error))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let (mut deleted, mut cleaned) = (0, 0);
    let apply = PatchParams::apply(MANAGER).force();
    let mut listed = Vec::new();
    // Names first: a list goes on only as long as the server remembers where it was.
    let every = ListParams::default();
    each(&nodes, every, |node| listed.extend(Wrote::on(node)))
        .await
        .map_err(|error| trouble("listing nodes", error))?;
    let mut gone_with = BTreeSet::new();
    for (name, wrote) in listed {
        if wrote == Wrote::All {
            let done = nodes.delete(&name, &DeleteParams::default()).await;
            gone(done).map_err(|error| trouble(&format!("deleting node {name}"), error))?;
            deleted += 1;
            gone_with.insert(name);
        } else {
            // Saying nothing about it any more takes away what was said.
            let nothing = nothing(&name);
            let what = format!("cleaning node {name}");
            let done = nodes.patch(&name, &apply, &Patch::Apply(&nothing)).await;
            gone(done).map_err(|error| trouble(&what, error))?;
            let done = nodes
                .patch_status(&name, &apply, &Patch::Apply(&nothing))
                .await;
            gone(done).map_err(|error| trouble(&what, error))?;
            cleaned += 1;
        }
    }
    let forgot = forget(client, &gone_with).await?;
    silence(client, &gone_with).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let ours = ListParams::default().labels(&format!("app.kubernetes.io/managed-by={MANAGER}"));
    let done = maps
        .delete_collection(&DeleteParams::default(), &ours)
        .await;
    done.map_err(|error| trouble("deleting documents", error))?;
    Ok(format!(
        "{deleted} nodes deleted, {cleaned} cleaned; {forgot} pods cleaned"
    ))
}

/// Takes the controller's annotations off pods, but for those that go with their nodes. Says how many.
async fn forget(client: &Client, gone_with: &BTreeSet<String>) -> Result<usize, String> {
    let all: Api<Pod> = Api::all(client.clone());
    let bound = ListParams::default().fields("spec.nodeName!=");
    let mut noted = Vec::new();
    each(&all, bound, |pod| noted.extend(Noted::on(&pod, gone_with)))
        .await
        .map_err(|error| format!("listing pods: {}", chain(&error)))?;
    let count = noted.len();
    let how = PatchParams::default();
    let clean = |pod: Noted| {
        let how = &how;
        async move {
            let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
            // Nothing, in place of what is written there: of a pod that was made anew meanwhile, nothing is taken.
            let nothing = pod.keys.iter().map(|key| ((*key).to_owned(), Value::Null));
            let body = json!({ "metadata": { "annotations": nothing.collect::<Map<_, _>>() } });
            let done = patch(client, &pods, &pod.name, None, how, &Patch::Merge(&body)).await;
            gone(done).map_err(|error| {
                let Noted {
                    namespace, name, ..
                } = &pod;
                format!("cleaning pod {namespace}/{name}: {}", chain(&error))
            })
        }
    };
    let cleaned = stream::iter(noted).map(clean);
    cleaned
        .buffer_unordered(PARALLEL)
        .try_for_each(|()| async { Ok(()) })
        .await?;
    Ok(count)
}

/// Deletes the signs of life of nodes that the controller kept and that stay; those of others go with their nodes.
async fn silence(client: &Client, gone_with: &BTreeSet<String>) -> Result<(), String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let mut own = Vec::new();
    each(&leases, ListParams::default(), |lease| {
        let mut managers = lease.managed_fields().iter();
        let is_own = managers.any(|entry| entry.manager.as_deref() == Some(MANAGER));
        let name = lease.name_any();
        own.extend((is_own && !gone_with.contains(&name)).then_some(name));
    })
    .await
    .map_err(|error| format!("listing leases in {LEASES}: {}", chain(&error)))?;
    for name in own {
        let done = leases.delete(&name, &DeleteParams::default()).await;
        gone(done).map_err(|error| format!("deleting lease {LEASES}/{name}: {}", chain(&error)))?;
    }
    Ok(())
}

/// Goes through all there are, a page at a time.
async fn each<K>(
    api: &Api<K>,
    which: ListParams,
    mut take: impl FnMut(K),
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = which.limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => return Ok(()),
        }
    }
}

/// What is gone already is gone.
fn gone<T>(done: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done.map(drop),
    }
}
