//! A plugin against a runtime of our own, of either generation, well-behaved and not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/runtime.rs"]
#[allow(dead_code, reason = "others use the rest")]
mod runtime;

use std::os::unix::net::UnixStream;

use mirage_k8s::nri::generated::{
    ConfigureRequest, Container, ContainerAdjustment, Empty, Event, KeyValue, PodSandbox,
    SynchronizeRequest,
};
use mirage_k8s::nri::session::{self, Ended, Identity, UNIMPLEMENTED};
use mirage_k8s::nri::{Plugin, mask};
use runtime::{Era, Peer};

/// Writes down what it hears.
#[derive(Default)]
struct Scribe {
    heard: Vec<String>,
}

impl Plugin for Scribe {
    fn configure(&mut self, runtime: &ConfigureRequest) -> Vec<Event> {
        self.heard
            .push(format!("configure {}", runtime.runtime_version));
        vec![
            Event::CreateContainer,
            Event::PostStartContainer,
            Event::StopContainer,
            Event::StopPodSandbox,
        ]
    }

    fn synchronize(&mut self, part: SynchronizeRequest) {
        let (pods, containers) = (part.pods.len(), part.containers.len());
        self.heard
            .push(format!("synchronize {pods} {containers} {}", part.more));
    }

    fn create(&mut self, pod: &PodSandbox, container: &Container) -> ContainerAdjustment {
        self.heard
            .push(format!("create {}/{}", pod.name, container.name));
        ContainerAdjustment {
            env: vec![KeyValue {
                key: "POD".to_owned(),
                value: pod.name.clone(),
            }],
            ..ContainerAdjustment::default()
        }
    }

    fn event(&mut self, event: Event, pod: &PodSandbox, container: Option<&Container>) {
        let container = container.map_or("", |container| &container.name);
        self.heard
            .push(format!("{event:?} {}/{container}", pod.name));
    }
}

/// Runs a plugin against what `script` does; tells what it heard and why it ended.
fn play(era: Era, script: impl FnOnce(Peer) + Send + 'static) -> (Vec<String>, Ended) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let runtime = std::thread::spawn(move || script(Peer::new(theirs, era)));
    let identity = Identity {
        name: "scribe".to_owned(),
        index: "07".to_owned(),
    };
    let mut scribe = Scribe::default();
    let rt = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let ended = rt.block_on(async {
        let stream = tokio::net::UnixStream::from_std(ours).unwrap();
        session::run(stream, &identity, &mut scribe).await
    });
    runtime.join().unwrap();
    (scribe.heard, ended)
}

fn pod(name: &str) -> PodSandbox {
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.to_owned(),
        ..PodSandbox::default()
    }
}

fn container(name: &str) -> Container {
    Container {
        id: format!("id-{name}"),
        name: name.to_owned(),
        ..Container::default()
    }
}

fn begin(peer: &mut Peer) {
    peer.register(None);
    let request = ConfigureRequest {
        runtime_version: "1".to_owned(),
        ..ConfigureRequest::default()
    };
    let answer: mirage_k8s::nri::generated::ConfigureResponse =
        peer.call("Configure", &request).unwrap();
    peer.mask = answer.events;
}

#[test]
fn both_generations_are_served() {
    for era in [Era::StateChange, Era::Dedicated] {
        let (heard, ended) = play(era, |mut peer| {
            begin(&mut peer);
            assert_eq!(peer.name, "07-scribe");
            assert_eq!(peer.mask, 0b10_0100_1010);
            // A list longer than any buffer, in two parts.
            let mut big = pod("big");
            big.annotations.insert("x".to_owned(), "y".repeat(3 << 20));
            peer.synchronize(vec![
                (vec![big], vec![container("a")]),
                (vec![pod("b"), pod("c")], vec![]),
            ]);
            let adjust = peer.create(&pod("p"), &container("main"));
            assert_eq!(adjust.env[0].value, "p");
            for event in [
                Event::PostStartContainer,
                // Not asked for, so not told.
                Event::StartContainer,
                Event::StopContainer,
            ] {
                peer.tell(event, &pod("p"), Some(&container("main")));
            }
            peer.tell(Event::StopPodSandbox, &pod("p"), None);
        });
        assert_eq!(
            heard,
            [
                "configure 1",
                "synchronize 1 1 true",
                "synchronize 2 0 false",
                "create p/main",
                "PostStartContainer p/main",
                "StopContainer p/main",
                "StopPodSandbox p/",
            ]
        );
        assert!(matches!(ended, Ended::Closed), "{ended}");
    }
}

#[test]
fn what_is_not_known_is_said_to_be_unimplemented() {
    let (heard, ended) = play(Era::Dedicated, |mut peer| {
        begin(&mut peer);
        for method in [
            "UpdatePodSandbox",
            "ValidateContainerAdjustment",
            "Später",
            "",
        ] {
            let refused = peer.call::<_, Empty>(method, &Empty {}).unwrap_err();
            assert_eq!(refused.code, UNIMPLEMENTED, "{method}");
        }
        // And the connection still works.
        let _: Empty = peer.call("Shutdown", &Empty {}).unwrap();
    });
    assert_eq!(heard, ["configure 1"]);
    assert!(matches!(ended, Ended::Closed), "{ended}");
}

#[test]
fn events_of_a_later_age_are_passed_over() {
    use mirage_k8s::nri::generated::StateChangeEvent;
    let (heard, _) = play(Era::StateChange, |mut peer| {
        begin(&mut peer);
        let change = StateChangeEvent {
            event: 99,
            ..StateChangeEvent::default()
        };
        let _: Empty = peer.call("StateChange", &change).unwrap();
    });
    assert_eq!(heard, ["configure 1", "Unknown /"]);
}

#[test]
fn a_refusal_keeps_the_runtimes_words() {
    let (_, ended) = play(Era::StateChange, |mut peer| {
        peer.register(Some("invalid plugin index\n\"x\""));
    });
    let shown = ended.to_string();
    assert_eq!(
        shown,
        "the runtime refuses the registration: invalid plugin index\"x\""
    );
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let (_, ended) = play(Era::StateChange, |mut peer| {
        peer.send_raw(&[0xff; 64]);
        peer.stay();
    });
    assert!(matches!(ended, Ended::Malformed(_)), "{ended}");
    let (_, ended) = play(Era::StateChange, |mut peer| {
        begin(&mut peer);
        // A text that is longer than the message it is in.
        peer.call_raw("CreateContainer", vec![0x0a, 0x7f, 0x01]);
        peer.stay();
    });
    let shown = ended.to_string();
    assert!(shown.starts_with("reading CreateContainer: "), "{shown}");
    let (_, ended) = play(Era::StateChange, drop);
    assert!(matches!(ended, Ended::Closed | Ended::Io(_)), "{ended}");
}

#[test]
fn events_become_bits() {
    assert_eq!(mask(&[]), 0);
    assert_eq!(mask(&[Event::Unknown]), 0);
    assert_eq!(mask(&[Event::RunPodSandbox]), 1);
    assert_eq!(mask(&[Event::RemoveContainer, Event::RunPodSandbox]), 0x401);
}
