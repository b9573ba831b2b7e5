//! What the cluster says of and to one node: its own object, the document it is made from, and the words and documents
//! it answers with.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event as Word, EventSource, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::node::Labels;
use super::tell::{Complaint, clipped};
use super::watching::{self, Heard};
use super::{MANAGER, answered};
use crate::topology::KEY;

/// Annotations of nodes that mean something here begin so.
const KEPT: &str = "run.ai/";
/// Longest annotation kept.
const LONGEST: usize = 256 << 10;
/// Where Events about nodes are, which have no namespace.
const NODES_NAMESPACE: &str = "default";

/// A node's object, as far as it tells the node what to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Own {
    /// UID.
    pub uid: String,
    /// Labels.
    pub labels: Labels,
    /// Those annotations that mean something here.
    pub annotations: BTreeMap<String, String>,
}

impl Own {
    fn read(meta: ObjectMeta) -> Own {
        let annotations = meta.annotations.unwrap_or_default().into_iter();
        let means =
            |(key, value): &(String, String)| key.starts_with(KEPT) && value.len() <= LONGEST;
        Own {
            uid: meta.uid.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations: annotations.filter(means).collect(),
        }
    }

    /// An annotation, or else a label of that name.
    pub fn either(&self, key: &str) -> Option<&str> {
        let found = self.annotations.get(key).or_else(|| self.labels.get(key));
        found.map(String::as_str)
    }
}

/// A ConfigMap that holds a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// UID.
    pub uid: String,
    /// What tells this version from others.
    pub version: String,
    /// The document; `None` if the ConfigMap has no such key.
    pub text: Option<String>,
}

/// Follows the object of `node` for ever. `tell` hears of trouble and of its end.
pub async fn follow_node(
    client: Client,
    node: &str,
    tell: impl FnMut(Result<(), String>),
    mut hear: impl FnMut(Own),
) {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client);
    let what = format!("watching node {node}");
    let hear = |object: PartialObjectMeta<Node>| hear(Own::read(object.metadata));
    each(watching::begin(api, only(node), what), tell, hear).await;
}

/// Follows a ConfigMap for ever. One that is deleted is not told of: what it said stays said.
pub async fn follow_document(
    client: Client,
    namespace: &str,
    name: &str,
    tell: impl FnMut(Result<(), String>),
    mut hear: impl FnMut(Document),
) {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let what = format!("watching ConfigMap {namespace}/{name}");
    let hear = |map: ConfigMap| {
        hear(Document {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: map.metadata.uid.unwrap_or_default(),
            version: map.metadata.resource_version.unwrap_or_default(),
            text: map.data.and_then(|mut data| data.remove(KEY)),
        });
    };
    each(watching::begin(api, only(name), what), tell, hear).await;
}

fn only(name: &str) -> watcher::Config {
    watcher::Config::default().fields(&format!("metadata.name={name}"))
}

async fn each<K>(
    watch: impl Stream<Item = Heard<K>>,
    mut tell: impl FnMut(Result<(), String>),
    mut hear: impl FnMut(K),
) {
    let mut watch = std::pin::pin!(watch);
    while let Some(heard) = watch.next().await {
        match heard {
            Heard::Event(Event::InitApply(object) | Event::Apply(object)) => hear(object),
            Heard::Event(_) => {}
            Heard::Trouble(why) => tell(Err(why)),
            Heard::Well => tell(Ok(())),
        }
    }
}

/// Makes these the labels and annotations that `manager` has on a node: those of before that are not among them go.
pub async fn answer(
    client: &Client,
    node: &str,
    manager: &str,
    labels: &Labels,
    annotations: &Labels,
) -> Result<(), String> {
    let api: Api<Node> = Api::all(client.clone());
    let body = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node, "labels": labels, "annotations": annotations },
    });
    let how = PatchParams::apply(manager).force();
    let body = Patch::Apply(body);
    let write = api.patch(node, &how, &body);
    let done = answered(|| format!("answering on node {node}"), write);
    done.await.map(drop)
}

/// The text of a document, if it is there.
pub async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<String>, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("reading ConfigMap {namespace}/{name}");
    let found = answered(what, api.get_opt(name)).await?;
    Ok(found.and_then(|map| map.data?.remove(KEY)))
}

/// Writes a document.
pub async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    body: &Value,
) -> Result<(), String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let how = PatchParams::apply(MANAGER).force();
    let body = Patch::Apply(body);
    let what = || format!("writing ConfigMap {namespace}/{name}");
    answered(what, api.patch(name, &how, &body)).await.map(drop)
}

/// Deletes a document; it need not be there.
pub async fn remove(client: &Client, namespace: &str, name: &str) -> Result<(), String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("deleting ConfigMap {namespace}/{name}");
    let delete = async {
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    };
    answered(what, delete).await
}

/// What an Event is about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// A node by name and UID.
    Node(&'a str, &'a str),
    /// A version of a ConfigMap.
    Document(&'a Document),
}

/// Puts an Event there, unless the same was said already.
pub async fn warn(
    client: &Client,
    host: &str,
    about: About<'_>,
    complaint: &Complaint,
) -> Result<(), String> {
    let event = event(host, about, complaint, Timestamp::now());
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Word> = Api::namespaced(client.clone(), &namespace);
    let what = || format!("writing an event in namespace {namespace}");
    let write = async {
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            outcome => outcome.map(drop),
        }
    };
    answered(what, write).await
}

fn event(host: &str, about: About<'_>, complaint: &Complaint, now: Timestamp) -> Word {
    let mut hasher = DefaultHasher::new();
    (host, complaint).hash(&mut hasher);
    let (kind, name, namespace, uid) = match about {
        About::Node(name, uid) => ("Node", name, None, uid),
        About::Document(map) => {
            // A bad edit is said once for each, also if the words are those of an earlier one.
            map.version.hash(&mut hasher);
            (
                "ConfigMap",
                &*map.name,
                Some(map.namespace.clone()),
                &*map.uid,
            )
        }
    };
    uid.hash(&mut hasher);
    let end = name.floor_char_boundary(200);
    Word {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:016x}", &name[..end], hasher.finish())),
            namespace: Some(namespace.clone().unwrap_or_else(|| NODES_NAMESPACE.into())),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some(kind.into()),
            name: Some(name.to_owned()),
            namespace,
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some(complaint.reason.into()),
        message: Some(clipped(&complaint.message)),
        source: Some(EventSource {
            component: Some(MANAGER.into()),
            host: Some(host.to_owned()),
        }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Word::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(about: About<'_>, message: &str) -> String {
        let complaint = Complaint {
            reason: "BadTopology",
            message: message.into(),
        };
        let event = event("n", about, &complaint, Timestamp::UNIX_EPOCH);
        event.metadata.name.expect("it has one")
    }

    #[test]
    fn every_bad_edit_is_an_event_of_its_own() {
        let map = |version: &str| Document {
            name: "topology".into(),
            version: version.into(),
            ..Document::default()
        };
        let (first, second) = (map("1"), map("2"));
        let say = |map| name(About::Document(map), "line 3");
        assert_eq!(say(&first), say(&first));
        assert_ne!(say(&first), say(&second));
        let node = About::Node("n", "u");
        assert_eq!(name(node, "a"), name(node, "a"));
        assert_ne!(name(node, "a"), name(node, "b"));
    }

    #[test]
    fn only_annotations_that_mean_something_are_kept() {
        let pairs = |list: &[(&str, &str)]| {
            let pairs = list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
            Some(pairs.collect::<BTreeMap<_, _>>())
        };
        let own = Own::read(ObjectMeta {
            annotations: pairs(&[("run.ai/mig.config", "a"), ("other", "b")]),
            labels: pairs(&[("run.ai/mig.config", "c"), ("l", "d")]),
            ..ObjectMeta::default()
        });
        assert_eq!(own.either("run.ai/mig.config"), Some("a"));
        assert_eq!(own.either("l"), Some("d"));
        assert_eq!(own.either("other"), None);
    }
}
