//! What becomes of a pod on a node that no kubelet keeps: it starts, is turned away, or ends.

use k8s_openapi::jiff::Timestamp;
use mirage_model::quantity;

use super::body::{self, Write};
use super::seen::Bound;
use super::settle::{Controller, Kept};

/// Annotation of a pod on a node without a kubelet: how long its containers take, `5m`. It has succeeded then.
pub const RUN_FOR: &str = "mirage.dev/run-for";

impl Controller {
    /// What is to be written about one pod. Nothing for pods of kubelets, and of nodes that are not settled yet.
    pub fn phase(&self, namespace: &str, name: &str, now: Timestamp) -> Option<Write> {
        let bound = self.seen.pod(namespace, name)?;
        let node = self.seen.nodes.get(&bound.node)?;
        if !self.is_alive(node) {
            return None;
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        if bound.pod.is_ending && bound.is_kept && !bound.ended {
            // Whoever keeps it may wait for this word, as the Job controller does; and its devices are free again.
            return Some(Write::PodStatus {
                namespace,
                name,
                body: body::stopped(bound, now),
            });
        }
        if bound.pod.is_ending {
            // A finalizer may keep it. Telling it again would not make it go.
            let is_told = self.seen.is_released(&bound.pod.uid);
            return (!is_told).then(|| Write::NoPod {
                namespace,
                name,
                uid: bound.pod.uid.clone(),
            });
        }
        if bound.ended {
            return None;
        }
        if bound.pod.phase == "Running" {
            let is_over = self.end(bound).is_some_and(|end| end <= now);
            return is_over.then(|| Write::PodStatus {
                namespace,
                name,
                body: body::succeeded(bound, now),
            });
        }
        let kept = self.kept.get(&bound.node).filter(|kept| !kept.is_past)?;
        if !kept.considered.contains(&bound.pod.uid) || kept.told.contains(&bound.pod.uid) {
            return None;
        }
        let body = match kept.refused.get(&bound.pod.uid) {
            // Who goes is gone in a moment, and then it is thought of again: which of the two was seen first must not matter.
            Some(_) if self.gives_back(kept, &bound.node) => return None,
            Some(lack) => body::refused(bound, lack),
            None => body::running(bound, &self.notes(kept, bound), now),
        };
        Some(Write::PodStatus {
            namespace,
            name,
            body,
        })
    }

    /// When a pod that runs will have done its work, if that was said. One whose containers are started again when they end never has.
    pub fn end(&self, bound: &Bound) -> Option<Timestamp> {
        let lasts = quantity::duration(bound.pod.annotations.get(RUN_FOR)?).ok()?;
        let is_running = bound.pod.phase == "Running" && !bound.pod.is_ending;
        let start = bound.started.filter(|_| is_running && bound.may_end)?;
        Timestamp::from_second(start).ok()?.checked_add(lasts).ok()
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
