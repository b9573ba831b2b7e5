//! A watch on the pods of one node, and what it has seen.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::StreamExt;
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;

use super::pod::{Pod, Raw};
use super::watching::{self, Heard};

/// Most pods kept; a kubelet runs a few hundred at best.
const MOST_PODS: usize = 8192;

/// The pods of a node, as last seen.
#[derive(Debug, Default)]
pub struct Pods {
    seen: RwLock<Seen>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By namespace and name: there is one of a name at a time.
    pods: HashMap<(String, String), Arc<Pod>>,
    is_complete: bool,
}

impl Pods {
    /// All of them.
    pub fn all(&self) -> Vec<Arc<Pod>> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.pods.values().cloned().collect()
    }

    /// The one of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        seen.pods.get(&key).cloned()
    }

    /// Whether the server has ever said which pods there are.
    pub fn is_complete(&self) -> bool {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.is_complete
    }

    /// Tells of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn change(&self, how: impl FnOnce(&mut Seen)) {
        {
            let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
            how(&mut seen);
        }
        self.changes.send_modify(|number| *number += 1);
    }
}

impl Seen {
    fn keep(&mut self, pod: Pod) {
        let key = (pod.namespace.clone(), pod.name.clone());
        if self.pods.len() < MOST_PODS || self.pods.contains_key(&key) {
            self.pods.insert(key, Arc::new(pod));
        }
    }
}

/// Follows the pods of `node` for ever. `tell` hears of every trouble, and of its end.
pub async fn follow(
    client: Client,
    node: &str,
    pods: &Pods,
    mut tell: impl FnMut(Result<(), String>),
) {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    let api: Api<Raw> = Api::all_with(client, &resource);
    let mine = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let mut watch = std::pin::pin!(watching::begin(
        api,
        mine,
        format!("watching pods of {node}")
    ));
    // A list comes in parts; what is missing from a whole one is gone.
    let mut listed: Option<Seen> = None;
    while let Some(heard) = watch.next().await {
        let event = match heard {
            Heard::Event(event) => event,
            Heard::Trouble(why) => {
                tell(Err(why));
                continue;
            }
            Heard::Well => {
                tell(Ok(()));
                continue;
            }
        };
        match event {
            Event::Init => listed = Some(Seen::default()),
            Event::InitApply(raw) => {
                if let (Some(listed), Some(pod)) = (&mut listed, Pod::read(raw)) {
                    listed.keep(pod);
                }
            }
            Event::InitDone => {
                let mut whole = listed.take().unwrap_or_default();
                whole.is_complete = true;
                pods.change(|seen| *seen = whole);
            }
            Event::Apply(raw) => {
                if let Some(pod) = Pod::read(raw) {
                    pods.change(|seen| seen.keep(pod));
                }
            }
            Event::Delete(raw) => {
                if let Some(pod) = Pod::read(raw) {
                    pods.change(|seen| {
                        let key = (pod.namespace, pod.name);
                        // A new one of the same name may have been seen already.
                        if seen.pods.get(&key).is_some_and(|now| now.uid == pod.uid) {
                            seen.pods.remove(&key);
                        }
                    });
                }
            }
        }
    }
}
