//! Random events against the whole controller: wherever they lead, the documents say what is true, and then nothing is written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    Create {
        node: u8,
        gpus: u8,
    },
    End(u8),
    Evict(u8),
    /// Gone without being told to: a force deletion that nobody saw.
    Vanish(u8),
    Edit {
        model: &'static str,
        gpus: u8,
        nodes: u8,
    },
    /// The pool goes altogether.
    NoPool,
    Restart,
    /// Another may have acted for a while; this one looked on, or did not.
    Lapse(bool),
    /// Somebody deletes a document.
    NoDocument(u8),
    /// Somebody deletes a node.
    NoNode(u8),
}

/// Events, and whether the controller gets to act before the next.
fn events() -> impl Strategy<Value = Vec<(Event, bool)>> {
    let event = prop_oneof![
        6 => (0..3u8, 0..5u8).prop_map(|(node, gpus)| Event::Create { node, gpus }),
        2 => any::<u8>().prop_map(Event::End),
        2 => any::<u8>().prop_map(Event::Evict),
        1 => any::<u8>().prop_map(Event::Vanish),
        2 => (prop::sample::select(vec!["t4", "l4"]), 1..9u8, 0..4u8)
            .prop_map(|(model, gpus, nodes)| Event::Edit { model, gpus, nodes }),
        1 => Just(Event::NoPool),
        1 => Just(Event::Restart),
        1 => any::<bool>().prop_map(Event::Lapse),
        1 => (0..3u8).prop_map(Event::NoDocument),
        1 => (0..3u8).prop_map(Event::NoNode),
    ];
    prop::collection::vec((event, any::<bool>()), 1..30)
}

fn check(stage: &Stage) -> Result<(), TestCaseError> {
    let seen = &stage.controller.seen;
    for (name, node) in &seen.nodes {
        let held = stage.holders(name);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in held.iter().filter(|pod| !pod.is_empty()) {
            *counts.entry(pod).or_default() += 1;
        }
        let mut wanted = BTreeMap::new();
        let pods = seen.pods_of(name);
        for bound in pods.iter().filter(|bound| !bound.ended) {
            prop_assert_eq!(&*bound.pod.phase, "Running");
            let gpus = bound.pod.containers[0]
                .resources
                .get("nvidia.com/gpu")
                .copied()
                .unwrap_or(0);
            if gpus > 0 {
                wanted.insert(&*bound.pod.name, gpus);
            }
        }
        prop_assert_eq!(counts, wanted, "on {}", name);
        prop_assert!(node.is_ready);
    }
    Ok(())
}

/// The GPUs of each pod that has some.
fn places(stage: &Stage) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut places: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for node in stage.controller.seen.nodes.keys() {
        for (index, pod) in stage.holders(node).into_iter().enumerate() {
            if !pod.is_empty() {
                places.entry(pod).or_default().push((node.clone(), index));
            }
        }
    }
    places
}

/// The same few lives on every run; `MIRAGE_LIVES=1000` plays more of them, and `MIRAGE_SEED` others.
fn lives() -> ProptestConfig {
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    ProptestConfig {
        cases: u32::try_from(number("MIRAGE_LIVES", 24)).unwrap(),
        rng_seed: RngSeed::Fixed(number("MIRAGE_SEED", 7)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(lives())]

    #[test]
    fn whatever_happens_the_documents_say_what_is_true(events in events()) {
        let mut stage = Stage::new("pools:\n  gpu: { model: t4, gpus: 4, virtual-nodes: 3 }\n");
        stage.settle();
        let mut number = 0;
        let mut had = BTreeMap::new();
        for (event, acts) in events {
            let pods = stage.pods();
            let pick = |index: &u8| (!pods.is_empty()).then(|| pods[*index as usize % pods.len()].1.clone());
            match &event {
                Event::Create { node, gpus } => {
                    let node = format!("gpu-{node}");
                    if stage.controller.seen.nodes.contains_key(&node) {
                        number += 1;
                        stage.gpu_pod(&node, &format!("p{number}"), number, u32::from(*gpus));
                    }
                }
                Event::End(index) => if let Some(name) = pick(index) {
                    stage.change_pod(&name, |bound| {
                        bound.ended = true;
                        bound.pod.phase = "Succeeded".into();
                    });
                },
                Event::Evict(index) => if let Some(name) = pick(index) {
                    stage.change_pod(&name, |bound| bound.pod.is_ending = true);
                },
                Event::Vanish(index) => if let Some(name) = pick(index) {
                    stage.controller.seen.drop_pod("default", &name, None);
                },
                Event::Edit { model, gpus, nodes } => {
                    stage.want(&format!("pools:\n  gpu: {{ model: {model}, gpus: {gpus}, virtual-nodes: {nodes} }}\n"));
                }
                Event::NoPool => stage.want("pools:\n  other: { model: t4, gpus: 1, virtual-nodes: 1 }\n"),
                Event::Restart => stage.restart(),
                Event::Lapse(looks_on) => {
                    if *looks_on {
                        for node in stage.controller.names() {
                            stage.controller.look_on(&node);
                        }
                    }
                    stage.controller.begin();
                }
                Event::NoDocument(node) => {
                    stage.controller.seen.documents.remove(&format!("gpu-{node}"));
                }
                Event::NoNode(node) => {
                    let node = format!("gpu-{node}");
                    stage.controller.seen.nodes.remove(&node);
                    // Its pods and documents go with it.
                    for bound in stage.controller.seen.pods_of(&node) {
                        stage.controller.seen.drop_pod("default", &bound.pod.name, None);
                    }
                    stage.controller.seen.documents.remove(&node);
                }
            }
            if !acts {
                continue;
            }
            stage.settle();
            check(&stage)?;
            // Whoever lives on has what it had.
            let now = places(&stage);
            for (pod, had) in &had {
                if let Some(has) = now.get(pod) {
                    prop_assert_eq!(has, had, "{} after {:?}", pod, event);
                }
            }
            had = now;
            let writes = stage.writes;
            stage.settle();
            prop_assert_eq!(stage.writes, writes, "after {:?}", event);
        }
    }
}
