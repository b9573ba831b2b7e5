//! Events on pods whose annotations make no sense: each said once, and said later if the server is away.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::cluster::pod::Pod;
use mirage_k8s::cluster::tell::{Complaint, warn};
use tokio::sync::mpsc::{Receiver, Sender, channel as queue};

use crate::cli::say;
use crate::node::Node;

/// Complaints that may wait for the server; more are told another time.
const WAITING: usize = 64;
/// Attempts for each, and the pause after the first.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// Tells complaints that were not told before.
#[derive(Debug)]
pub(super) struct Teller {
    queue: Sender<(Arc<Pod>, Complaint)>,
    /// By UID of the pod.
    told: HashSet<(String, Complaint)>,
}

/// A teller, and what does the telling.
pub(super) fn channel(node: &Node) -> (Teller, impl Future<Output = ()> + use<>) {
    let (sender, receiver) = queue(WAITING);
    let teller = Teller {
        queue: sender,
        told: HashSet::new(),
    };
    (teller, telling(node.clone(), receiver))
}

impl Teller {
    /// Tells what is new; what was said of pods that are gone is forgotten.
    pub(super) fn tell(&mut self, pods: &[Arc<Pod>], complaints: Vec<(Arc<Pod>, Complaint)>) {
        if !self.told.is_empty() {
            let alive: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
            self.told.retain(|(uid, _)| alive.contains(uid.as_str()));
        }
        for (pod, complaint) in complaints {
            let key = (pod.uid.clone(), complaint.clone());
            if !self.told.contains(&key) && self.queue.try_send((pod, complaint)).is_ok() {
                self.told.insert(key);
            }
        }
    }
}

async fn telling(node: Node, mut queue: Receiver<(Arc<Pod>, Complaint)>) {
    while let Some((pod, complaint)) = queue.recv().await {
        say(&format!(
            "pod {}/{}: {}",
            pod.namespace, pod.name, complaint.message
        ));
        let mut pause = PAUSE;
        for _ in 0..ATTEMPTS {
            if let Some(client) = node.cluster.client() {
                match warn(client, &node.name, &pod, &complaint).await {
                    Ok(()) => break,
                    Err(why) => say(&why),
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Arc<Pod> {
        Arc::new(Pod {
            uid: uid.into(),
            ..Pod::default()
        })
    }

    #[test]
    fn a_complaint_is_told_once_for_each_pod_and_value() {
        let (sender, mut receiver) = queue(WAITING);
        let mut teller = Teller {
            queue: sender,
            told: HashSet::new(),
        };
        let complaint = |message: &str| Complaint {
            reason: "BadGpuAnnotation",
            message: message.into(),
        };
        let (a, b) = (pod("a"), pod("b"));
        let pods = [a.clone(), b.clone()];
        for _ in 0..3 {
            teller.tell(
                &pods,
                vec![(a.clone(), complaint("x")), (b.clone(), complaint("x"))],
            );
        }
        teller.tell(&pods, vec![(a.clone(), complaint("y"))]);
        let mut told = 0;
        while receiver.try_recv().is_ok() {
            told += 1;
        }
        assert_eq!(told, 3);
        teller.tell(&[b], Vec::new());
        assert_eq!(teller.told.len(), 1);
    }
}
