//! Hand-made cases, and random lives of pods against an allocator that is slow and plain.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::topology::{Gpu, Mig, Node, Style, read_node};

fn node(gpus: usize) -> Node {
    Node {
        memory_mib: 40960,
        product: "NVIDIA-A100-SXM4-40GB".into(),
        gpus: (0..gpus)
            .map(|number| Gpu {
                id: format!("GPU-{number}"),
                ..Gpu::default()
            })
            .collect(),
        ..Node::default()
    }
}

fn demand(container: &str, resource: &str, count: u32) -> Demand {
    Demand {
        container: container.into(),
        resource: resource.into(),
        count,
        load: Load::default(),
    }
}

fn pod(name: &str, since: i64, demands: Vec<Demand>) -> Pod {
    Pod {
        uid: format!("uid-{name}"),
        namespace: "default".into(),
        name: name.into(),
        since,
        demands,
        ..Pod::default()
    }
}

fn whole(gpu: u32) -> Place {
    Place { gpu, start: None }
}

fn holders(allocation: &Allocation) -> Vec<(u32, &str, &str)> {
    let ledger = allocation.ledger.iter();
    ledger
        .map(|(place, hold)| (place.gpu, &*hold.uid, &*hold.container))
        .collect()
}

#[test]
fn each_container_gets_its_own_from_the_lowest() {
    let slots = slots(&node(4), 4, false);
    let pods = [
        pod("late", 2, vec![demand("c", GPU, 1)]),
        pod("early", 1, vec![demand("a", GPU, 1), demand("b", GPU, 2)]),
    ];
    let allocation = allocate(&slots, &Ledger::new(), &pods);
    assert_eq!(
        holders(&allocation),
        [
            (0, "uid-early", "a"),
            (1, "uid-early", "b"),
            (2, "uid-early", "b"),
            (3, "uid-late", "c"),
        ]
    );
}

#[test]
fn all_or_nothing_and_what_is_held_stays() {
    let slots = slots(&node(2), 2, false);
    let one = pod("one", 1, vec![demand("c", GPU, 1)]);
    let two = pod("two", 2, vec![demand("c", GPU, 2)]);
    let three = pod("three", 3, vec![demand("c", GPU, 1)]);
    let mut before = Ledger::new();
    before.insert(whole(1), Hold::new(&one, "c"));
    let allocation = allocate(&slots, &before, &[one, two, three]);
    assert_eq!(
        holders(&allocation),
        [(0, "uid-three", "c"), (1, "uid-one", "c")]
    );
    let lack = Lack::Resource(GPU.into());
    assert_eq!(allocation.refused, [("uid-two".into(), lack)]);
}

#[test]
fn gpus_in_use_are_drained_when_a_node_shrinks() {
    let pods = [
        pod("a", 1, vec![demand("c", GPU, 3)]),
        pod("b", 2, vec![demand("c", GPU, 1)]),
    ];
    let mut node = node(4);
    let full = allocate(&slots(&node, 4, false), &Ledger::new(), &pods);
    let shrunk = allocate(&slots(&node, 2, false), &full.ledger, &pods);
    assert_eq!(shrunk, full);
    // Nothing new goes there, and what leaves is gone.
    let next = [pods[0].clone(), pod("c", 3, vec![demand("c", GPU, 1)])];
    let drained = allocate(&slots(&node, 2, false), &shrunk.ledger, &next);
    let lack = Lack::Resource(GPU.into());
    assert_eq!(drained.refused, [("uid-c".into(), lack)]);
    assert!(!drained.ledger.contains_key(&whole(3)));
    fill(&mut node, None, &drained.ledger, &next);
    assert!(node.gpus[3].status.is_free());
    assert!(!node.gpus[2].status.is_free());
}

#[test]
fn containers_before_the_others_hand_their_devices_on() {
    let asked = |container: &str, role, count| Asked {
        container: container.into(),
        role,
        devices: vec![(GPU.into(), count)],
        load: Load::default(),
    };
    let reused = [asked("init", Role::Init, 2), asked("main", Role::Main, 2)];
    assert_eq!(demands(&reused), [demand("main", GPU, 2)]);
    let beside = [
        asked("proxy", Role::Sidecar, 1),
        asked("init", Role::Init, 3),
        asked("main", Role::Main, 1),
    ];
    assert_eq!(
        demands(&beside),
        [
            demand("proxy", GPU, 1),
            demand("main", GPU, 1),
            demand("init", GPU, 2),
        ]
    );
}

#[test]
fn a_group_shares_the_gpu_its_reservation_holds() {
    let mut node = node(2);
    let taken = pod("other", 1, vec![demand("c", GPU, 1)]);
    let mut reservation = pod("reservation", 2, vec![demand("runai-reservation", GPU, 1)]);
    reservation.reserves = true;
    reservation.group = Some("g".into());
    let share = |name: &str, fraction| Pod {
        group: Some("g".into()),
        share: Load {
            min: 20,
            max: 40,
            fraction,
            ..Load::default()
        },
        ..pod(name, 3, Vec::new())
    };
    let mut ended = share("ended", 0.1);
    ended.ended = true;
    let pods = [
        taken,
        reservation,
        share("half", 0.5),
        share("third", 0.333),
        ended,
    ];
    let allocation = allocate(&slots(&node, 2, false), &Ledger::new(), &pods);
    fill(&mut node, None, &allocation.ledger, &pods);
    let status = &node.gpus[1].status;
    assert_eq!(status.allocated_by.as_ref().unwrap().pod, "reservation");
    let uses: Vec<(&str, u64, u32)> = status
        .usage
        .iter()
        .map(|(uid, usage)| (&**uid, usage.memory_mib, usage.max))
        .collect();
    assert_eq!(uses, [("uid-half", 20480, 40), ("uid-third", 13639, 40)]);
    assert_eq!(recall(Some(&node), &pods), allocation.ledger);
}

#[test]
fn mig_devices_go_by_profile_and_by_pin() {
    let mut node = node(2);
    let mig = |name: &str, position| Mig {
        name: name.into(),
        position: Some(position),
        ..Mig::default()
    };
    node.gpus[0].mig = Some(vec![mig("2g.10gb", 0), mig("1g.5gb", 4), mig("1g.5gb", 6)]);
    let small = "nvidia.com/mig-1g.5gb";
    let mut pinned = pod("pinned", 2, vec![demand("job", GPU, 0)]);
    pinned.pin = Some(Place {
        gpu: 0,
        start: Some(4),
    });
    let pods = [
        pod("small", 1, vec![demand("c", small, 1)]),
        pinned,
        pod("whole", 3, vec![demand("c", GPU, 1)]),
    ];
    // The pin names the device that the first pod was given: its scheduler has to choose another.
    let slots = slots(&node, 2, false);
    let allocation = allocate(&slots, &Ledger::new(), &pods);
    let place = Place {
        gpu: 0,
        start: Some(4),
    };
    let lack = Lack::Device(place);
    assert_eq!(allocation.refused, [("uid-pinned".into(), lack)]);
    assert_eq!(allocation.ledger[&whole(1)].uid, "uid-whole");
    let alone = allocate(&slots, &Ledger::new(), &pods[1..]);
    assert_eq!(alone.ledger[&place].uid, "uid-pinned");
    let board = mirage_model::catalogue::board("a100-sxm4-40gb");
    fill(&mut node, board.as_deref(), &alone.ledger, &pods);
    let status = &node.gpus[0].mig.as_ref().unwrap()[1].status;
    assert_eq!(status.usage["uid-pinned"].memory_mib, 4864);
}

#[test]
fn a_pod_made_again_under_its_name_is_another() {
    let mut node = node(2);
    let old = pod("web", 1, vec![demand("c", GPU, 1)]);
    let allocation = allocate(&slots(&node, 2, false), &Ledger::new(), &[old]);
    fill(
        &mut node,
        None,
        &allocation.ledger,
        &[pod("web", 1, vec![demand("c", GPU, 1)])],
    );
    let mut new = pod("web", 2, vec![demand("c", GPU, 1)]);
    new.uid = "uid-new".into();
    assert!(recall(Some(&node), &[new]).is_empty());
}

/// A device, its resource, and the pod and container that have it.
type Listed = (Place, String, Option<(String, String)>);

/// The slow and plain allocator: a list of devices, looked through from the start every time.
#[derive(Debug, Clone, Default)]
struct Plain {
    devices: Vec<Listed>,
    refused: Vec<String>,
}

impl Plain {
    fn settle(&mut self, slots: &[Slot], pods: &[Pod]) {
        let lives = |uid: &str| pods.iter().any(|pod| pod.uid == uid && !pod.ended);
        for device in &mut self.devices {
            if device.2.as_ref().is_some_and(|(uid, _)| !lives(uid)) {
                device.2 = None;
            }
        }
        let exists = |place: &Place| slots.iter().any(|slot| slot.place == *place);
        self.devices
            .retain(|device| device.2.is_some() || exists(&device.0));
        for slot in slots {
            if !self.devices.iter().any(|device| device.0 == slot.place) {
                self.devices.push((slot.place, slot.resource.clone(), None));
            }
        }
        self.devices.sort_by_key(|device| device.0);
        self.refused.clear();
        let mut pods: Vec<&Pod> = pods.iter().filter(|pod| !pod.ended).collect();
        pods.sort_by_key(|pod| pod.since);
        for pod in pods {
            let holds = |device: &Listed| device.2.as_ref().is_some_and(|(uid, _)| *uid == pod.uid);
            if self.devices.iter().any(holds) {
                continue;
            }
            let mut trial = self.devices.clone();
            let mut fits = true;
            for demand in &pod.demands {
                for _ in 0..demand.count {
                    let free = trial.iter_mut().find(|device| {
                        device.2.is_none() && device.1 == demand.resource && exists(&device.0)
                    });
                    match free {
                        Some(device) => {
                            device.2 = Some((pod.uid.clone(), demand.container.clone()))
                        }
                        None => fits = false,
                    }
                }
            }
            if fits {
                self.devices = trial;
            } else {
                self.refused.push(pod.uid.clone());
            }
        }
    }

    fn ledger(&self) -> Ledger {
        let held = self.devices.iter().filter_map(|(place, _, holder)| {
            let (uid, container) = holder.clone()?;
            Some((*place, Hold { uid, container }))
        });
        held.collect()
    }
}

#[derive(Debug, Clone)]
enum Event {
    /// Whole GPUs and small MIG devices, one entry for each container.
    Create(Vec<(u8, u8)>),
    /// The pod of this number succeeds or fails, evicted or not.
    End(u8),
    Delete(u8),
    /// Deleted, and made again under the same name.
    Again(u8),
    /// The node's number of GPUs changes.
    Count(u8),
    /// The process starts anew and knows only the document.
    Restart,
    /// The next event is not noticed when it comes.
    Asleep,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => prop::collection::vec((0..3u8, 0..3u8), 1..4).prop_map(Event::Create),
        2 => any::<u8>().prop_map(Event::End),
        2 => any::<u8>().prop_map(Event::Delete),
        1 => any::<u8>().prop_map(Event::Again),
        1 => (1..8u8).prop_map(Event::Count),
        1 => Just(Event::Restart),
        2 => Just(Event::Asleep),
    ];
    prop::collection::vec(event, 1..40)
}

const SMALL: &str = "nvidia.com/mig-1g.5gb";

/// Eight GPUs, of which the first is cut.
fn cut_node() -> Node {
    let mut node = node(8);
    let mig = |position| Mig {
        name: "1g.5gb".into(),
        position: Some(position),
        ..Mig::default()
    };
    node.gpus[0].mig = Some((0..3).map(mig).collect());
    node
}

fn created(number: usize, made: i64, containers: &[(u8, u8)]) -> Pod {
    let mut demands = Vec::new();
    for (index, (gpus, small)) in containers.iter().enumerate() {
        let name = format!("c{index}");
        for (resource, count) in [(GPU, *gpus), (SMALL, *small)] {
            if count > 0 {
                demands.push(demand(&name, resource, count.into()));
            }
        }
    }
    let mut pod = pod(&format!("p{number}"), made, demands);
    pod.uid = format!("uid-{number}-{made}");
    pod
}

proptest! {
    // The same lives on every run; other seeds are for looking further.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn random_lives_end_where_the_plain_allocator_ends(events in events()) {
        let mut document = cut_node();
        let mut count = 8;
        let mut ledger = Ledger::new();
        let mut plain = Plain::default();
        let mut pods: Vec<Pod> = Vec::new();
        let mut clock = 0;
        let mut number = 0;
        let mut asleep = false;
        for event in events {
            clock += 1;
            let pick = |index: &u8, pods: &[Pod]| (!pods.is_empty()).then(|| *index as usize % pods.len());
            match &event {
                Event::Create(containers) => {
                    pods.push(created(number, clock, containers));
                    number += 1;
                }
                Event::End(index) => {
                    if let Some(at) = pick(index, &pods) {
                        pods[at].ended = true;
                    }
                }
                Event::Delete(index) => {
                    if let Some(at) = pick(index, &pods) {
                        pods.remove(at);
                    }
                }
                Event::Again(index) => {
                    if let Some(at) = pick(index, &pods) {
                        let mut again = pods.remove(at);
                        again.since = clock;
                        again.uid = format!("{}-{clock}", again.uid);
                        again.ended = false;
                        pods.push(again);
                    }
                }
                Event::Count(gpus) => count = usize::from(*gpus),
                Event::Restart => {
                    let standing = read_node(&document.yaml(Style::Kebab), "n").unwrap();
                    ledger = recall(Some(&standing), &pods);
                }
                Event::Asleep => {
                    asleep = true;
                    continue;
                }
            }
            if std::mem::take(&mut asleep) {
                continue;
            }
            let slots = slots(&document, count, false);
            let allocation = allocate(&slots, &ledger, &pods);
            plain.settle(&slots, &pods);
            prop_assert_eq!(&allocation.ledger, &plain.ledger());
            let refused: Vec<String> = allocation.refused.iter().map(|(uid, _)| uid.clone()).collect();
            prop_assert_eq!(&refused, &plain.refused);
            // Settled is settled: asked again, nothing moves.
            let again = allocate(&slots, &allocation.ledger, &pods);
            prop_assert_eq!(&again.ledger, &allocation.ledger);
            prop_assert_eq!(again.refused.len(), allocation.refused.len());
            fill(&mut document, None, &allocation.ledger, &pods);
            ledger = allocation.ledger;
        }
    }
}
