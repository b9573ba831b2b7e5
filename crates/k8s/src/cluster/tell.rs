//! Events about pods: what `kubectl describe pod` shows of what mirage could not make sense of.
//!
//! The name of an Event follows from what it says, so that saying it again, from whichever process, finds it
//! there already: one Event per pod and value, however often mirage starts.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::pod::Pod;
use super::{MANAGER, answered};

/// Most bytes of a message; the server takes 1024.
const MOST_MESSAGE: usize = 1000;
/// Most bytes of a pod's name in the name of an Event.
const MOST_NAME: usize = 200;

/// What is wrong with a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Complaint {
    /// One word, as `BadGpuAnnotation`.
    pub reason: &'static str,
    /// What, and what was done instead.
    pub message: String,
}

/// Puts an Event on a pod, unless it is there already.
pub async fn warn(
    client: Client,
    node: &str,
    pod: &Pod,
    complaint: &Complaint,
) -> Result<(), String> {
    let api: Api<Event> = Api::namespaced(client, &pod.namespace);
    let event = event(node, pod, complaint, Timestamp::now());
    let what = || format!("writing an event on pod {}/{}", pod.namespace, pod.name);
    let write = async {
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    };
    answered(what, write).await
}

/// The Event itself.
fn event(node: &str, pod: &Pod, complaint: &Complaint, now: Timestamp) -> Event {
    let mut hasher = DefaultHasher::new();
    (&pod.uid, complaint).hash(&mut hasher);
    let end = pod.name.floor_char_boundary(MOST_NAME);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:016x}", &pod.name[..end], hasher.finish())),
            namespace: Some(pod.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(pod.name.clone()),
            namespace: Some(pod.namespace.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".into()),
        reason: Some(complaint.reason.into()),
        message: Some(clipped(&complaint.message)),
        source: Some(EventSource {
            component: Some(MANAGER.into()),
            host: Some(node.into()),
        }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// Text as an Event may carry it.
pub(super) fn clipped(text: &str) -> String {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let end = clean.floor_char_boundary(MOST_MESSAGE);
    clean[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uid: &str, message: &str) -> String {
        let pod = Pod {
            uid: uid.into(),
            name: "p".into(),
            ..Pod::default()
        };
        let complaint = Complaint {
            reason: "BadGpuAnnotation",
            message: message.into(),
        };
        let event = event("n", &pod, &complaint, Timestamp::UNIX_EPOCH);
        event.metadata.name.expect("it has one")
    }

    #[test]
    fn the_same_words_on_the_same_pod_are_the_same_event() {
        assert_eq!(name("a", "x"), name("a", "x"));
        assert_ne!(name("a", "x"), name("a", "y"));
        assert_ne!(name("a", "x"), name("b", "x"));
    }

    #[test]
    fn long_and_hostile_words_are_cut_between_letters() {
        let text = clipped(&"é\n".repeat(1000));
        assert!(text.len() <= MOST_MESSAGE && !text.contains('\n'));
    }
}
