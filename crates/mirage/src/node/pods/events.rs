//! Events on pods whose annotations make no sense: each said once, and said later if the server is away.
//!
//! One that the server did not take waits nowhere: as long as the pod is there and makes no sense, the next look at the pods finds
//! it again.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mirage_k8s::cluster::pod::Pod;
use mirage_k8s::cluster::tell::{Complaint, warn};
use tokio::sync::mpsc::{Receiver, Sender, channel as queue};

use crate::cli::say;
use crate::node::Node;

/// Complaints that may wait for the server; more are told another time.
const WAITING: usize = 64;
/// Pause after an attempt that fails: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// What became of a complaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Underway,
    Told,
    Failed,
}

/// Every complaint of the pods there are, by UID of the pod.
#[derive(Debug, Clone, Default)]
struct Known(Arc<Mutex<HashMap<(String, Complaint), Stand>>>);

impl Known {
    fn all(&self) -> MutexGuard<'_, HashMap<(String, Complaint), Stand>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the end of an attempt, unless the pod is gone.
    fn note(&self, pod: &Pod, complaint: Complaint, stand: Stand) {
        if let Some(known) = self.all().get_mut(&(pod.uid.clone(), complaint)) {
            *known = stand;
        }
    }
}

/// Tells complaints that were not told before.
#[derive(Debug)]
pub(super) struct Teller {
    queue: Sender<(Arc<Pod>, Complaint)>,
    known: Known,
}

/// A teller, and what does the telling.
pub(super) fn channel(node: &Node) -> (Teller, impl Future<Output = ()> + use<>) {
    let (teller, receiver) = Teller::new();
    let (node, known) = (node.clone(), teller.known.clone());
    let telling = async move {
        let attempt = |pod: Arc<Pod>, complaint: Complaint| {
            let node = node.clone();
            async move {
                let client = node.cluster.reached().await;
                warn(client, &node.name, &pod, &complaint).await
            }
        };
        telling(receiver, &known, PAUSES, attempt).await;
    };
    (teller, telling)
}

impl Teller {
    fn new() -> (Teller, Receiver<(Arc<Pod>, Complaint)>) {
        let (queue, receiver) = queue(WAITING);
        let known = Known::default();
        (Teller { queue, known }, receiver)
    }

    /// Tells what is new, or could not be told; what was said of pods that are gone is forgotten.
    pub(super) fn tell(&mut self, pods: &[Arc<Pod>], complaints: Vec<(Arc<Pod>, Complaint)>) {
        let mut known = self.known.all();
        if !known.is_empty() {
            let alive: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
            known.retain(|(uid, _), _| alive.contains(uid.as_str()));
        }
        for (pod, complaint) in complaints {
            let key = (pod.uid.clone(), complaint.clone());
            let stand = known.get(&key).copied();
            if matches!(stand, Some(Stand::Underway | Stand::Told)) {
                continue;
            }
            let Ok(place) = self.queue.try_reserve() else {
                return;
            };
            if stand.is_none() {
                let (namespace, name) = (&pod.namespace, &pod.name);
                say(&format!("pod {namespace}/{name}: {}", complaint.message));
            }
            place.send((pod, complaint));
            known.insert(key, Stand::Underway);
        }
    }
}

/// Tries one after the other, each once; with a pause after each that fails, longer as long as all do.
async fn telling<T: Future<Output = Result<(), String>>>(
    mut queue: Receiver<(Arc<Pod>, Complaint)>,
    known: &Known,
    (first, longest): (Duration, Duration),
    attempt: impl Fn(Arc<Pod>, Complaint) -> T,
) {
    let mut pause = first;
    let mut trouble = None;
    while let Some((pod, complaint)) = queue.recv().await {
        match attempt(pod.clone(), complaint.clone()).await {
            Ok(()) => {
                known.note(&pod, complaint, Stand::Told);
                (pause, trouble) = (first, None);
            }
            Err(why) => {
                known.note(&pod, complaint, Stand::Failed);
                if trouble.as_ref() != Some(&why) {
                    say(&why);
                    trouble = Some(why);
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn pod(uid: &str) -> Arc<Pod> {
        Arc::new(Pod {
            uid: uid.into(),
            ..Pod::default()
        })
    }

    fn complaint(message: &str) -> Complaint {
        Complaint {
            reason: "BadGpuAnnotation",
            message: message.into(),
        }
    }

    #[test]
    fn a_complaint_is_told_once_for_each_pod_and_value() {
        let (mut teller, mut receiver) = Teller::new();
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
        assert_eq!(teller.known.all().len(), 1);
    }

    #[tokio::test]
    async fn a_server_that_was_away_for_long_is_told_once_it_is_back() {
        const AWAY: u32 = 20;
        let (mut teller, receiver) = Teller::new();
        let known = teller.known.clone();
        let (attempts, told) = (Cell::new(0), Cell::new(0));
        let attempt = |_: Arc<Pod>, complaint: Complaint| {
            attempts.set(attempts.get() + 1);
            // One is never taken, and is in nobody's way.
            let fails = attempts.get() <= AWAY || complaint.message == "never";
            told.set(told.get() + u32::from(!fails));
            std::future::ready(match fails {
                true => Err("nobody answers".to_owned()),
                false => Ok(()),
            })
        };
        let short = Duration::from_millis(1);
        let telling = telling(receiver, &known, (short, short), attempt);
        let a = pod("a");
        let looking = async {
            while told.get() < 2 {
                let complaints = ["never", "x", "y"].map(|it| (a.clone(), complaint(it)));
                teller.tell(std::slice::from_ref(&a), complaints.into());
                tokio::time::sleep(short).await;
            }
        };
        let bounded = tokio::time::timeout(Duration::from_secs(60), looking);
        tokio::select! {
            () = telling => unreachable!("the teller is there"),
            looked = bounded => looked.expect("told in time"),
        }
        let stands: Vec<Stand> = ["x", "y"]
            .map(|it| known.all()[&("a".to_owned(), complaint(it))])
            .into();
        assert_eq!(stands, [Stand::Told; 2]);
        assert_eq!(known.all().len(), 3);
    }
}
