//! A container runtime as its plugins see it: the other side of NRI, of either generation.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use mirage_k8s::nri::generated::{
    Answer, Call, ConfigureRequest, ConfigureResponse, Container, ContainerAdjustment,
    CreateContainerResponse, Empty, Event, PodEvent, PodSandbox, RegisterPluginRequest,
    StateChangeEvent, Status, SynchronizeRequest, SynchronizeResponse,
};
use mirage_k8s::nri::session::PLUGIN_SERVICE;
use mirage_k8s::nri::wire::{self, Decoder, Kind, Message};
use prost::Message as _;

/// How long anything may take before a test gives up. Never reached when things work.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a runtime's buffer holds: longer messages come in several frames.
const BUFFER: usize = 4096;

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Most with `StateChange`, before 0.12.
    StateChange,
    /// Each with a call of its own.
    Dedicated,
}

/// A runtime that waits for plugins.
pub(crate) struct Runtime {
    listener: UnixListener,
    era: Era,
}

/// A plugin, as the runtime sees it.
pub(crate) struct Peer {
    stream: UnixStream,
    decoder: Decoder,
    inbox: VecDeque<Message>,
    last_call: u32,
    era: Era,
    /// How it called itself.
    pub(crate) name: String,
    /// The events it asked for.
    pub(crate) mask: i32,
}

impl Runtime {
    pub(crate) fn listen(path: &Path, era: Era) -> Runtime {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        Runtime { listener, era }
    }

    /// The next plugin, registered and configured.
    pub(crate) fn accept(&self) -> Peer {
        let begin = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let mut peer = Peer::new(stream, self.era);
                    peer.register(None);
                    peer.configure();
                    return peer;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(begin.elapsed() < PATIENCE, "no plugin came");
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Peer {
    pub(crate) fn new(stream: UnixStream, era: Era) -> Peer {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer {
            stream,
            decoder: Decoder::default(),
            inbox: VecDeque::new(),
            last_call: 0,
            era,
            name: String::new(),
            mask: 0,
        }
    }

    /// Waits for the registration and answers it, with a refusal if one is given.
    pub(crate) fn register(&mut self, refusal: Option<&str>) {
        let message = self.next();
        assert_eq!(
            (message.connection, message.kind),
            (wire::RUNTIME, Kind::Request)
        );
        let call = Call::decode(message.body).unwrap();
        assert_eq!(call.service, "nri.pkg.api.v1alpha1.Runtime");
        assert_eq!(call.method, "RegisterPlugin");
        let request = RegisterPluginRequest::decode(&*call.payload).unwrap();
        self.name = format!("{}-{}", request.plugin_idx, request.plugin_name);
        let status = refusal.map(|message| Status {
            code: 6,
            message: message.to_owned(),
        });
        let payload = Empty {}.encode_to_vec();
        self.send(&Message {
            connection: wire::RUNTIME,
            call: message.call,
            kind: Kind::Response,
            body: Answer { status, payload }.encode_to_vec().into(),
        });
    }

    fn configure(&mut self) {
        let request = match self.era {
            Era::StateChange => ConfigureRequest {
                runtime_name: "containerd".to_owned(),
                runtime_version: "2.1.9".to_owned(),
                ..ConfigureRequest::default()
            },
            Era::Dedicated => ConfigureRequest {
                runtime_name: "containerd".to_owned(),
                runtime_version: "2.3.4".to_owned(),
                registration_timeout: 5000,
                request_timeout: 2000,
                nri_version: "v0.12.0".to_owned(),
                ..ConfigureRequest::default()
            },
        };
        let answer: ConfigureResponse = self.call("Configure", &request).unwrap();
        self.mask = answer.events;
        // Old runtimes drop a plugin that asks for more than they have.
        assert_eq!(self.mask & !0x7ff, 0, "{:#x}", self.mask);
    }

    /// Tells everything there is, in parts.
    pub(crate) fn synchronize(&mut self, mut parts: Vec<(Vec<PodSandbox>, Vec<Container>)>) {
        let last = parts.pop().unwrap_or_default();
        let parts = parts.into_iter().map(|part| (part, true));
        for ((pods, containers), more) in parts.chain([(last, false)]) {
            let request = SynchronizeRequest {
                pods,
                containers,
                more,
            };
            let answer: SynchronizeResponse = self.call("Synchronize", &request).unwrap();
            assert_eq!(answer.more, more, "a part must be understood as one");
        }
    }

    /// Asks how a container is to be made.
    pub(crate) fn create(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> ContainerAdjustment {
        let answer: CreateContainerResponse = self
            .call("CreateContainer", &both(pod, Some(container)))
            .unwrap();
        answer.adjust.unwrap_or_default()
    }

    /// Tells an event, in the way of this runtime, if the plugin asked for it.
    pub(crate) fn tell(&mut self, event: Event, pod: &PodSandbox, container: Option<&Container>) {
        if self.mask & (1 << (event as i32 - 1)) == 0 {
            return;
        }
        let method = match (self.era, event) {
            (_, Event::StopContainer) => "StopContainer",
            (Era::StateChange, _) => {
                let change = StateChangeEvent {
                    event: event as i32,
                    pod: Some(pod.clone()),
                    container: container.cloned(),
                };
                let _: Empty = self.call("StateChange", &change).unwrap();
                return;
            }
            (_, Event::RunPodSandbox) => "RunPodSandbox",
            (_, Event::StopPodSandbox) => "StopPodSandbox",
            (_, Event::RemovePodSandbox) => "RemovePodSandbox",
            (_, Event::PostCreateContainer) => "PostCreateContainer",
            (_, Event::StartContainer) => "StartContainer",
            (_, Event::PostStartContainer) => "PostStartContainer",
            (_, Event::RemoveContainer) => "RemoveContainer",
            (_, other) => panic!("{other:?} is not told"),
        };
        let _: Empty = self.call(method, &both(pod, container)).unwrap();
    }

    /// Calls the plugin; what it refuses is a status.
    pub(crate) fn call<T, R>(&mut self, method: &str, request: &T) -> Result<R, Status>
    where
        T: prost::Message,
        R: prost::Message + Default,
    {
        self.call_raw(method, request.encode_to_vec());
        let message = self.next();
        assert_eq!(
            (message.connection, message.kind),
            (wire::PLUGIN, Kind::Response)
        );
        assert_eq!(message.call, self.last_call);
        let answer = Answer::decode(message.body).unwrap();
        match answer.status {
            Some(status) if status.code != 0 => Err(status),
            _ => Ok(R::decode(&*answer.payload).unwrap()),
        }
    }

    /// Sends a call and waits for nothing.
    pub(crate) fn call_raw(&mut self, method: &str, payload: Vec<u8>) {
        self.last_call += 1;
        let call = Call {
            service: PLUGIN_SERVICE.to_owned(),
            method: method.to_owned(),
            payload,
            timeout_nano: 2_000_000_000,
        };
        self.send(&Message {
            connection: wire::PLUGIN,
            call: self.last_call,
            kind: Kind::Request,
            body: call.encode_to_vec().into(),
        });
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Stays until the other side hangs up, so that whatever it still says is taken.
    pub(crate) fn stay(&mut self) {
        // An error is an end as well.
        let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
    }

    /// A message as a runtime's buffer cuts it.
    fn send(&mut self, message: &Message) {
        let whole = wire::encode(message).unwrap();
        for piece in whole[8..].chunks(BUFFER) {
            self.stream
                .write_all(&message.connection.to_be_bytes())
                .unwrap();
            let length = u32::try_from(piece.len()).unwrap();
            self.stream.write_all(&length.to_be_bytes()).unwrap();
            self.stream.write_all(piece).unwrap();
        }
    }

    fn next(&mut self) -> Message {
        let mut chunk = [0; BUFFER];
        loop {
            if let Some(message) = self.inbox.pop_front() {
                return message;
            }
            let count = self.stream.read(&mut chunk).unwrap();
            assert_ne!(count, 0, "the plugin has gone");
            let mut messages = Vec::new();
            self.decoder.feed(&chunk[..count], &mut messages).unwrap();
            self.inbox.extend(messages);
        }
    }
}

fn both(pod: &PodSandbox, container: Option<&Container>) -> PodEvent {
    PodEvent {
        pod: Some(pod.clone()),
        container: container.cloned(),
    }
}
