//! What the API server tells, put into the controller's mind.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event as Word, EventSource, Node, ObjectReference, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::{Kind, Shared, Tell};
use crate::cluster::watching::{self, Heard};
use crate::controller::{MANAGER, seen};
use crate::error::chain;
use crate::topology::{KEY, NODE_MARK, NODE_NAME, Reporter};

/// What a watch tells.
enum Told<K> {
    /// An object is so; one of a list of all, or by itself.
    Is(K, bool),
    /// An object is gone.
    Gone(K),
    /// The list is complete: what was not in it is gone.
    Whole,
}

/// Follows objects for ever.
async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    part: &'static str,
    tell: Tell,
    mut hear: impl FnMut(Told<K>) + Send,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut watch = std::pin::pin!(watching::begin(api, config, format!("watching {part}")));
    while let Some(heard) = watch.next().await {
        match heard {
            Heard::Event(Event::Init) => {}
            Heard::Event(Event::InitApply(object)) => hear(Told::Is(object, true)),
            Heard::Event(Event::Apply(object)) => hear(Told::Is(object, false)),
            Heard::Event(Event::Delete(object)) => hear(Told::Gone(object)),
            Heard::Event(Event::InitDone) => hear(Told::Whole),
            Heard::Trouble(why) => tell(part, Err(why)),
            Heard::Well => tell(part, Ok(())),
        }
    }
}

/// The document that says what there is to be.
pub(super) async fn document(client: Client, shared: Arc<Shared>, tell: Tell) {
    // What it says, and whether it can be asked for, are two matters.
    const PART: &str = "topology";
    const WATCH: &str = "topology-watch";
    let (namespace, name) = shared.look(|controller| {
        let settings = &controller.settings;
        (settings.namespace.clone(), settings.document.clone())
    });
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let what = format!("watching ConfigMap {namespace}/{name}");
    let mut watch = std::pin::pin!(watching::begin(api, only, what));
    let mut is_there = false;
    while let Some(heard) = watch.next().await {
        let map = match heard {
            Heard::Event(Event::InitApply(map) | Event::Apply(map)) => {
                is_there = true;
                map
            }
            Heard::Event(Event::InitDone) if !is_there => {
                shared.no_document();
                continue;
            }
            // What was wanted stays wanted: a document that is deleted by mistake must not take a cluster with it.
            Heard::Event(_) => continue,
            Heard::Trouble(why) => {
                tell(WATCH, Err(why));
                continue;
            }
            Heard::Well => {
                tell(WATCH, Ok(()));
                continue;
            }
        };
        let outcome = match map.data.as_ref().and_then(|data| data.get(KEY)) {
            Some(text) => shared.want(text, &name),
            None => Err(shared.refuse(lacking(&map, &name))),
        };
        if let Err(why) = &outcome
            && let Err(error) = complain(&client, &map.metadata, why).await
        {
            tell("events", Err(error));
        }
        tell(
            PART,
            outcome.map_err(|why| format!("{why}; the old topology stays in force")),
        );
    }
}

/// Why a ConfigMap is no document.
fn lacking(map: &ConfigMap, name: &str) -> String {
    let keys = map.data.iter().flat_map(|data| data.keys());
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    let has = match &*keys {
        [] => "nothing".to_owned(),
        keys => format!("`{}`", keys.join("`, `")),
    };
    format!("{name} has no `{KEY}`, which is where the topology stands; it has {has}")
}

/// Says on the document what is wrong with it.
async fn complain(client: &Client, map: &ObjectMeta, why: &str) -> Result<(), String> {
    let (name, namespace) = (map.name.clone().unwrap_or_default(), map.namespace.clone());
    let api: Api<Word> = Api::namespaced(client.clone(), namespace.as_deref().unwrap_or("default"));
    let now = Time(Timestamp::now());
    let end = why.floor_char_boundary(1000);
    let version = map.resource_version.as_deref().unwrap_or("0");
    let word = Word {
        metadata: ObjectMeta {
            // One for each edit.
            name: Some(format!("{name}.{version}")),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("ConfigMap".into()),
            name: Some(name),
            namespace,
            uid: map.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some("BadTopology".into()),
        message: Some(why[..end].to_owned()),
        source: Some(EventSource {
            component: Some(MANAGER.into()),
            host: None,
        }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Word::default()
    };
    match api.create(&PostParams::default(), &word).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(format!(
            "writing an event on the topology: {}",
            chain(&error)
        )),
    }
}

/// All nodes.
pub(super) async fn nodes(client: Client, shared: Arc<Shared>, tell: Tell) {
    let mut listed = BTreeSet::new();
    let hear = |told: Told<Node>| match told {
        Told::Is(node, in_list) => {
            let Some((name, node)) = seen::Node::read(node) else {
                return;
            };
            if in_list {
                listed.insert(name.clone());
            }
            shared.change(|mind, now| {
                let before = mind.controller.seen.nodes.insert(name.clone(), node);
                if before.as_ref() != mind.controller.seen.nodes.get(&name) {
                    mind.nodes.push(name, now);
                }
            });
        }
        Told::Gone(node) => {
            if let Some(name) = node.metadata.name {
                shared.change(|mind, now| {
                    mind.controller.seen.nodes.remove(&name);
                    mind.nodes.push(name, now);
                });
            }
        }
        Told::Whole => {
            let all = std::mem::take(&mut listed);
            shared.change(|mind, now| {
                let nodes = &mut mind.controller.seen.nodes;
                let gone: Vec<String> = nodes
                    .keys()
                    .filter(|name| !all.contains(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    nodes.remove(&name);
                    mind.nodes.push(name, now);
                }
            });
            shared.listed(Kind::Nodes);
        }
    };
    let all = Api::all(client.clone());
    follow(all, watcher::Config::default(), "nodes", tell, hear).await;
}

/// All pods that have a node.
pub(super) async fn pods(client: Client, shared: Arc<Shared>, tell: Tell) {
    let mut listed = BTreeSet::new();
    let hear = |told: Told<Pod>| match told {
        Told::Is(pod, in_list) => {
            let Some(bound) = seen::Bound::read(pod) else {
                return;
            };
            let key = (bound.pod.namespace.clone(), bound.pod.name.clone());
            if in_list {
                listed.insert(key.clone());
            }
            shared.change(|mind, now| {
                let before = mind.controller.seen.pod(&key.0, &key.1);
                if before.is_some_and(|before| **before == bound) {
                    return;
                }
                for node in mind.controller.seen.put_pod(bound) {
                    mind.nodes.push(node, now);
                }
            });
        }
        Told::Gone(pod) => {
            let meta = pod.metadata;
            let (Some(namespace), Some(name)) = (meta.namespace, meta.name) else {
                return;
            };
            shared.change(|mind, now| {
                let uid = meta.uid.as_deref();
                if let Some(node) = mind.controller.seen.drop_pod(&namespace, &name, uid) {
                    mind.nodes.push(node, now);
                }
            });
        }
        Told::Whole => {
            let all = std::mem::take(&mut listed);
            shared.change(|mind, now| {
                for node in mind.controller.seen.keep_pods(&all) {
                    mind.nodes.push(node, now);
                }
            });
            shared.listed(Kind::Pods);
        }
    };
    let bound = watcher::Config::default().fields("spec.nodeName!=");
    follow(Api::all(client.clone()), bound, "pods", tell, hear).await;
}

/// The documents of nodes.
pub(super) async fn documents(client: Client, shared: Arc<Shared>, tell: Tell) {
    let namespace = shared.look(|controller| controller.settings.namespace.clone());
    let mut listed = BTreeSet::new();
    let node_of = |map: &ConfigMap| map.metadata.labels.as_ref()?.get(NODE_NAME).cloned();
    let hear = |told: Told<ConfigMap>| match told {
        Told::Is(mut map, in_list) => {
            let Some(node) = node_of(&map) else {
                return;
            };
            if in_list {
                listed.insert(node.clone());
            }
            let text = map.data.as_mut().and_then(|data| data.remove(KEY));
            let text = text.unwrap_or_default();
            let reporter = Reporter::of(map.metadata.labels.as_ref());
            shared.change(|mind, now| {
                if mind.controller.seen.put_document(&node, reporter, text) {
                    mind.nodes.push(node, now);
                }
            });
        }
        Told::Gone(map) => {
            if let Some(node) = node_of(&map) {
                shared.change(|mind, now| {
                    mind.controller.seen.drop_document(&node);
                    mind.nodes.push(node, now);
                });
            }
        }
        Told::Whole => {
            let all = std::mem::take(&mut listed);
            shared.change(|mind, now| {
                for node in mind.controller.seen.keep_documents(&all) {
                    mind.nodes.push(node, now);
                }
            });
            shared.listed(Kind::Documents);
        }
    };
    let api = Api::namespaced(client.clone(), &namespace);
    let marked = watcher::Config::default().labels(&format!("{NODE_MARK}=true"));
    follow(api, marked, "documents", tell, hear).await;
}
