//! What becomes of a pod on a node that no kubelet keeps: it starts, is turned away, or ends.

use k8s_openapi::jiff::Timestamp;

use super::body::{self, Write};
use super::settle::{Controller, Kept};

impl Controller {
    /// What is to be written about one pod. Nothing for pods of kubelets, and of nodes that are not settled yet.
    pub fn phase(&self, namespace: &str, name: &str, now: Timestamp) -> Option<Write> {
        let bound = self.seen.pod(namespace, name)?;
        let node = self.seen.nodes.get(&bound.node)?;
        if !self.is_alive(node) {
            return None;
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        if bound.pod.is_ending {
            return Some(Write::NoPod {
                namespace,
                name,
                uid: bound.pod.uid.clone(),
            });
        }
        if bound.ended || bound.pod.phase == "Running" {
            return None;
        }
        let kept = self.kept.get(&bound.node)?;
        if !kept.considered.contains(&bound.pod.uid) || kept.told.contains(&bound.pod.uid) {
            return None;
        }
        let body = match kept.refused.get(&bound.pod.uid) {
            // Who goes is gone in a moment, and then it is thought of again: which of the two was seen first must not matter.
            Some(_) if self.gives_back(kept, &bound.node) => return None,
            Some(resource) => body::refused(resource),
            None => body::running(bound, &self.notes(kept, bound), now),
        };
        Some(Write::PodStatus {
            namespace,
            name,
            body,
        })
    }

    /// Whether a pod that is on its way out still holds devices of a node.
    fn gives_back(&self, kept: &Kept, node: &str) -> bool {
        let mut pods = self.seen.pods_of(node).into_iter();
        pods.any(|bound| {
            let holds = || kept.ledger.values().any(|hold| hold.uid == bound.pod.uid);
            bound.pod.is_ending && holds()
        })
    }
}
