//! Reading which GPUs a cluster's scheduler gave a pod: koordinator's annotation.
//!
//! `{"gpu":[{"minor":0,"id":"GPU-…","resources":{…}}],"rdma":[…]}`. A GPU is named by its UUID; only an entry without one
//! is found by its minor number, as older schedulers write it. What this node does not have is left out and told, never guessed.

use mirage_state::Image;
use mirage_state::layout::text;
use serde_json::Value;

/// The annotation.
pub const ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";

/// Most bytes of the annotation; Kubernetes allows 256 KiB for all of an object's together.
const MOST_BYTES: usize = 256 << 10;
/// Most GPUs of a pod on one node.
const MOST_GPUS: usize = 1024;

/// A GPU as the annotation names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its UUID, or a MIG device's, if the scheduler knew it.
    pub id: Option<String>,
    /// Its minor number.
    pub minor: Option<u32>,
}

/// A pod's GPUs on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocation {
    /// UUIDs as the node spells them, each once.
    pub uuids: Vec<String>,
    /// Minor numbers of the GPUs, in the same order.
    pub minors: Vec<u32>,
    /// What the node does not have.
    pub unknown: Vec<String>,
}

/// Reads the annotation's text.
pub fn parse(text: &str) -> Result<Vec<Gpu>, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("longer than {MOST_BYTES} bytes"));
    }
    let whole = match serde_json::from_str(text) {
        Ok(Value::Object(whole)) => whole,
        Ok(_) => return Err("an object {\"gpu\": [{minor, id}, …]} was expected".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let list = match whole.get("gpu") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err("`gpu` is no list".to_owned()),
    };
    if list.len() > MOST_GPUS {
        return Err(format!("{} GPUs; {MOST_GPUS} is the most", list.len()));
    }
    let gpus = list.iter().enumerate().map(|(at, entry)| {
        let id = entry.get("id").and_then(Value::as_str);
        let minor = entry.get("minor").and_then(Value::as_u64);
        let gpu = Gpu {
            id: id.filter(|id| !id.is_empty()).map(str::to_owned),
            minor: minor.and_then(|minor| u32::try_from(minor).ok()),
        };
        match gpu {
            Gpu {
                id: None,
                minor: None,
            } => Err(format!("entry {at} of `gpu` has neither id nor minor")),
            gpu => Ok(gpu),
        }
    });
    gpus.collect()
}

/// Finds the GPUs on a node.
pub fn resolve(gpus: &[Gpu], image: &Image) -> Allocation {
    let mut found = Allocation::default();
    for gpu in gpus {
        let device = match gpu {
            Gpu { id: Some(id), .. } => by_uuid(image, id),
            Gpu { minor, .. } => minor.and_then(|minor| by_minor(image, minor)),
        };
        match device {
            Some((uuid, minor)) => {
                if !found.uuids.iter().any(|known| known == uuid) {
                    found.uuids.push(uuid.to_owned());
                    found.minors.push(minor);
                }
            }
            None => found.unknown.push(match gpu {
                Gpu { id: Some(id), .. } => {
                    id.chars().filter(|c| !c.is_control()).take(64).collect()
                }
                Gpu { minor, .. } => format!("minor {}", minor.unwrap_or_default()),
            }),
        }
    }
    found
}

/// A GPU or MIG device as the node spells its UUID, and its GPU's minor number.
pub fn by_uuid<'a>(image: &'a Image, id: &str) -> Option<(&'a str, u32)> {
    let cards = image.cards.iter();
    let card = cards
        .map(|card| (text(&card.uuid), card.minor))
        .find(|(uuid, _)| uuid.eq_ignore_ascii_case(id));
    card.or_else(|| {
        let part = image
            .instances
            .iter()
            .filter(|part| part.ci != u32::MAX)
            .find(|part| text(&part.uuid).eq_ignore_ascii_case(id))?;
        let card = image.cards.get(part.gpu as usize)?;
        Some((text(&part.uuid), card.minor))
    })
}

fn by_minor(image: &Image, minor: u32) -> Option<(&str, u32)> {
    let card = image.cards.iter().find(|card| card.minor == minor)?;
    Some((text(&card.uuid), card.minor))
}

#[cfg(test)]
mod tests {
    use mirage_state::layout::{Card, Instance, fixed};
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = r#"{"gpu":[{"minor":1,"id":"GPU-b","resources":{"koordinator.sh/gpu-core":"100",
        "koordinator.sh/gpu-memory-ratio":"100","koordinator.sh/gpu-memory":"80Gi"}}],"rdma":[{"minor":0}]}"#;

    fn node() -> Image {
        let card = |uuid, minor| Card {
            uuid: fixed(uuid),
            minor,
            ..Card::default()
        };
        Image {
            cards: vec![card("GPU-a", 4), card("GPU-b", 1)].into(),
            instances: vec![Instance {
                uuid: fixed("MIG-c"),
                gpu: 0,
                ..Instance::default()
            }],
            ..Image::default()
        }
    }

    fn found(text: &str) -> (String, Vec<u32>, String) {
        let found = resolve(&parse(text).unwrap(), &node());
        (found.uuids.join(" "), found.minors, found.unknown.join(" "))
    }

    #[test]
    fn the_annotation_names_gpus_of_the_node() {
        for (text, uuids, minors, unknown) in [
            (REAL, "GPU-b", &[1][..], ""),
            (r#"{"gpu":[{"minor":4},{"id":"gpu-A"}]}"#, "GPU-a", &[4], ""),
            (
                r#"{"gpu":[{"minor":1},{"minor":4}]}"#,
                "GPU-b GPU-a",
                &[1, 4],
                "",
            ),
            (r#"{"gpu":[{"id":"MIG-c","minor":9}]}"#, "MIG-c", &[4], ""),
            // Another node's GPU is not the one that has its number here.
            (
                r#"{"gpu":[{"id":"GPU-z","minor":1},{"minor":7}]}"#,
                "",
                &[],
                "GPU-z minor 7",
            ),
            (r#"{"rdma":[{"minor":1}]}"#, "", &[], ""),
            (r#"{"gpu":null}"#, "", &[], ""),
        ] {
            let expected = (uuids.to_owned(), minors.to_vec(), unknown.to_owned());
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_says_why() {
        for (text, why) in [
            ("", "EOF"),
            ("[]", "object"),
            (r#"{"gpu":{}}"#, "no list"),
            (r#"{"gpu":[{}]}"#, "entry 0"),
            (r#"{"gpu":[{"minor":0},{"minor":-1,"id":""}]}"#, "entry 1"),
            (r#"{"gpu":[7]}"#, "entry 0"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(why), "{text}: {problem}");
        }
        let many = format!("{{\"gpu\":[{}{{}}]}}", "{\"minor\":0},".repeat(MOST_GPUS));
        assert!(parse(&many).unwrap_err().contains("the most"));
        let long = format!("{{\"x\":\"{}\"}}", "y".repeat(MOST_BYTES));
        assert!(parse(&long).unwrap_err().contains("longer"));
        // Deep enough to end a careless parser.
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn no_damage_breaks_it(at in 0..REAL.len(), with in "[\\x20-\\x7e]") {
            let mut text = REAL.to_owned();
            text.replace_range(at..=at, &with);
            if let Ok(gpus) = parse(&text) {
                let found = resolve(&gpus, &node());
                prop_assert!(found.uuids.len() + found.unknown.len() <= gpus.len());
                prop_assert_eq!(found.uuids.len(), found.minors.len());
            }
        }
    }
}
