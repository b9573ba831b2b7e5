//! What a pod holds, as it stands on the pod itself: a word that lasts as long as the pod does, whatever becomes of its node's
//! document.

use mirage_model::config::limits::MAX_GPUS_PER_NODE;
use serde_json::{Map, Value, json};

use super::{Ledger, Place};

/// Annotation of a pod on a node that no kubelet keeps: the devices that its containers have.
pub const HELD: &str = "mirage.dev/held-devices";
/// Most devices believed of one pod.
const MOST: usize = 1024;

/// The annotation of the pod with this UID; `None` if it holds nothing.
pub fn note(ledger: &Ledger, uid: &str) -> Option<String> {
    let mut containers: Map<String, Value> = Map::new();
    for (place, hold) in ledger.iter().filter(|(_, hold)| hold.uid == uid) {
        let word = match place.start {
            None => place.gpu.to_string(),
            Some(start) => format!("{}/{start}", place.gpu),
        };
        let list = containers
            .entry(hold.container.clone())
            .or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.push(word.into());
        }
    }
    // Whoever copies a pod copies its annotations, and has not what it had.
    (!containers.is_empty()).then(|| json!({ "pod": uid, "devices": containers }).to_string())
}

/// Devices by container, as the annotation of the pod with this UID tells them; nothing if it is not its own.
pub fn held(text: &str, uid: &str) -> Vec<(Place, String)> {
    let Ok(note) = serde_json::from_str::<Value>(text) else {
        return Vec::new();
    };
    if note["pod"] != uid {
        return Vec::new();
    }
    let containers = note["devices"].as_object().into_iter().flatten();
    let listed = containers.flat_map(|(container, list)| {
        let words = list.as_array().into_iter().flatten();
        words.filter_map(|word| Some((place(word.as_str()?)?, container.clone())))
    });
    listed.take(MOST).collect()
}

fn place(word: &str) -> Option<Place> {
    let (gpu, start) = match word.split_once('/') {
        Some((gpu, start)) => (gpu, Some(start.parse().ok()?)),
        None => (word, None),
    };
    // Whoever may write to a pod may write this.
    let gpu: u32 = gpu.parse().ok()?;
    ((gpu as usize) < MAX_GPUS_PER_NODE).then_some(Place { gpu, start })
}

#[cfg(test)]
mod tests {
    use super::super::Hold;
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_only_by_its_pod() {
        let hold = |uid: &str, container: &str| Hold {
            uid: uid.into(),
            container: container.into(),
        };
        let at = |gpu, start| Place { gpu, start };
        let ledger = Ledger::from([
            (at(0, None), hold("a", "main")),
            (at(1, Some(4)), hold("a", "main")),
            (at(1, Some(6)), hold("a", "side")),
            (at(2, None), hold("b", "main")),
        ]);
        let text = note(&ledger, "a").expect("it holds three");
        let mut read = held(&text, "a");
        read.sort();
        let expected: Vec<(Place, String)> = ledger
            .iter()
            .filter(|(_, hold)| hold.uid == "a")
            .map(|(place, hold)| (*place, hold.container.clone()))
            .collect();
        assert_eq!(read, expected);
        assert!(held(&text, "b").is_empty());
        assert_eq!(note(&ledger, "c"), None);
        for bad in [
            "",
            "[]",
            r#"{"pod":"a"}"#,
            r#"{"pod":"a","devices":{"c":["x","-1","1/","/2",7]}}"#,
            r#"{"pod":"a","devices":{"c":["4000000000","128/0"]}}"#,
        ] {
            assert!(held(bad, "a").is_empty(), "{bad}");
        }
    }
}
