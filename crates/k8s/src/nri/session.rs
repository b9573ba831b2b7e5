//! One connection to a runtime: we register, it configures and synchronises us, then it tells what happens, until one of
//! us goes. A session never ends well: it ends because the runtime has gone, or because one of us did not keep to the protocol.

use std::time::Duration;

use prost::Message as _;
use prost::bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout, timeout_at};

use super::generated::{
    Answer, Call, ConfigureRequest, ConfigureResponse, CreateContainerResponse, Empty, Event,
    PodEvent, RegisterPluginRequest, StateChangeEvent, Status, SynchronizeRequest,
    SynchronizeResponse,
};
use super::wire::{self, Decoder, Kind, Malformed, Message};
use super::{Plugin, mask};

/// The service on which we are called.
pub const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";
/// The service we call.
pub const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";
/// What tells a runtime of 0.12 or later to use `StateChange` instead.
pub const UNIMPLEMENTED: i32 = 12;

/// The version of the interface whose calls we know.
const VERSION: &str = "v0.12.0";
/// Our only call.
const REGISTER: u32 = 1;
/// How long the answer to it, or the taking of one of ours, may last. The runtime's own patience is shorter.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// How a runtime knows us: plugins are called in the order of their index and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// Two digits.
    pub index: String,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The runtime has closed the connection: it ends, restarts, or found us too slow.
    #[error("the runtime has closed the connection")]
    Closed,
    /// The socket broke.
    #[error("talking to the runtime: {0}")]
    Io(#[from] std::io::Error),
    /// The runtime does not want us.
    #[error("the runtime refuses the registration: {0}")]
    Refused(String),
    /// It did not answer, or does not read.
    #[error("{what}: the runtime did nothing for {PATIENCE:?}")]
    Silent {
        /// What we waited for.
        what: &'static str,
    },
    /// It sent what no runtime sends.
    #[error("the runtime sent {0}")]
    Malformed(#[from] Malformed),
    /// A message that its protocol cannot read.
    #[error("reading {what}: {source}")]
    Unreadable {
        /// Which message.
        what: String,
        /// What is wrong with it.
        source: prost::DecodeError,
    },
}

/// Serves a plugin over a stream until it ends.
pub async fn run<S>(mut stream: S, identity: &Identity, plugin: &mut impl Plugin) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match attempt(&mut stream, identity, plugin).await {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

async fn attempt<S>(
    stream: &mut S,
    identity: &Identity,
    plugin: &mut impl Plugin,
) -> Result<std::convert::Infallible, Ended>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    send(stream, &register(identity)).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut registered = false;
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = stream.read(&mut chunk);
        let count = match registered {
            true => read.await?,
            false => timeout_at(deadline, read)
                .await
                .map_err(|_| Ended::Silent {
                    what: "registering",
                })??,
        };
        if count == 0 {
            return Err(Ended::Closed);
        }
        decoder.feed(&chunk[..count], &mut messages)?;
        for message in messages.drain(..) {
            match (message.connection, message.kind) {
                (wire::PLUGIN, Kind::Request) => {
                    let reply = reply(plugin, &message)?;
                    send(stream, &reply).await?;
                }
                (wire::RUNTIME, Kind::Response) if message.call == REGISTER => {
                    accepted(&message)?;
                    registered = true;
                }
                // Answers to what nobody asked change nothing.
                _ => {}
            }
        }
    }
}

fn register(identity: &Identity) -> Message {
    let request = RegisterPluginRequest {
        plugin_name: identity.name.clone(),
        plugin_idx: identity.index.clone(),
        nri_version: VERSION.to_owned(),
    };
    let call = Call {
        service: RUNTIME_SERVICE.to_owned(),
        method: "RegisterPlugin".to_owned(),
        payload: request.encode_to_vec(),
        timeout_nano: i64::try_from(PATIENCE.as_nanos()).unwrap_or(i64::MAX),
    };
    Message {
        connection: wire::RUNTIME,
        call: REGISTER,
        kind: Kind::Request,
        body: call.encode_to_vec().into(),
    }
}

fn accepted(message: &Message) -> Result<(), Ended> {
    let answer: Answer = read("the answer to the registration", &message.body)?;
    match answer.status {
        Some(status) if status.code != 0 => {
            let clean = status.message.chars().filter(|c| !c.is_control());
            Err(Ended::Refused(clean.take(300).collect()))
        }
        _ => Ok(()),
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), Ended> {
    // Ours are small; one that is not would be a runtime's own name, sent back to it.
    let bytes = wire::encode(message).ok_or(Malformed::Message(u32::MAX))?;
    match timeout(PATIENCE, stream.write_all(&bytes)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(Ended::Silent { what: "answering" }),
    }
}

fn reply(plugin: &mut impl Plugin, message: &Message) -> Result<Message, Ended> {
    let call: Call = read("a call", &message.body)?;
    let answer = match answer(plugin, &call)? {
        Some(payload) => Answer {
            status: None,
            payload,
        },
        None => Answer {
            status: Some(Status {
                code: UNIMPLEMENTED,
                message: "not a call that this plugin knows".to_owned(),
            }),
            payload: Vec::new(),
        },
    };
    Ok(Message {
        connection: wire::PLUGIN,
        call: message.call,
        kind: Kind::Response,
        body: answer.encode_to_vec().into(),
    })
}

/// What a call gives; `None` for one we do not know.
fn answer(plugin: &mut impl Plugin, call: &Call) -> Result<Option<Vec<u8>>, Ended> {
    if call.service != PLUGIN_SERVICE {
        return Ok(None);
    }
    let body = Bytes::copy_from_slice(&call.payload);
    let payload = match call.method.as_str() {
        "Configure" => {
            let runtime: ConfigureRequest = read("Configure", &body)?;
            let events = mask(&plugin.configure(&runtime));
            ConfigureResponse { events }.encode_to_vec()
        }
        "Synchronize" => {
            let part: SynchronizeRequest = read("Synchronize", &body)?;
            let more = part.more;
            plugin.synchronize(part);
            SynchronizeResponse { more }.encode_to_vec()
        }
        "CreateContainer" => {
            let PodEvent { pod, container } = read("CreateContainer", &body)?;
            let adjust = plugin.create(&pod.unwrap_or_default(), &container.unwrap_or_default());
            let adjust = Some(adjust);
            CreateContainerResponse { adjust }.encode_to_vec()
        }
        "StateChange" => {
            let change: StateChangeEvent = read("StateChange", &body)?;
            let event = change.event();
            let pod = change.pod.unwrap_or_default();
            plugin.event(event, &pod, change.container.as_ref());
            Empty {}.encode_to_vec()
        }
        "Shutdown" => Empty {}.encode_to_vec(),
        method => match event(method) {
            Some(event) => {
                let PodEvent { pod, container } = read(method, &body)?;
                plugin.event(event, &pod.unwrap_or_default(), container.as_ref());
                Empty {}.encode_to_vec()
            }
            None => return Ok(None),
        },
    };
    Ok(Some(payload))
}

/// The event that a call of its own tells.
fn event(method: &str) -> Option<Event> {
    Some(match method {
        "RunPodSandbox" => Event::RunPodSandbox,
        "StopPodSandbox" => Event::StopPodSandbox,
        "RemovePodSandbox" => Event::RemovePodSandbox,
        "PostCreateContainer" => Event::PostCreateContainer,
        "StartContainer" => Event::StartContainer,
        "PostStartContainer" => Event::PostStartContainer,
        "UpdateContainer" => Event::UpdateContainer,
        "PostUpdateContainer" => Event::PostUpdateContainer,
        "StopContainer" => Event::StopContainer,
        "RemoveContainer" => Event::RemoveContainer,
        _ => return None,
    })
}

fn read<T: prost::Message + Default>(what: &str, body: &Bytes) -> Result<T, Ended> {
    T::decode(body.clone()).map_err(|source| Ended::Unreadable {
        what: what.chars().take(40).collect(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::generated::{Container, ContainerAdjustment, PodSandbox};
    use super::*;

    /// Counts what reaches it.
    #[derive(Default)]
    struct Counter(usize);

    impl Plugin for Counter {
        fn configure(&mut self, _: &ConfigureRequest) -> Vec<Event> {
            self.0 += 1;
            vec![Event::CreateContainer]
        }

        fn synchronize(&mut self, _: SynchronizeRequest) {
            self.0 += 1;
        }

        fn create(&mut self, _: &PodSandbox, _: &Container) -> ContainerAdjustment {
            self.0 += 1;
            ContainerAdjustment::default()
        }

        fn event(&mut self, _: Event, _: &PodSandbox, _: Option<&Container>) {
            self.0 += 1;
        }
    }

    const METHODS: &[&str] = &[
        "Configure",
        "Synchronize",
        "CreateContainer",
        "StateChange",
        "PostStartContainer",
        "StopContainer",
        "RemovePodSandbox",
    ];

    proptest! {
        #[test]
        fn any_payload_is_answered_or_ends_the_session(
            method in prop::sample::select(METHODS),
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut plugin = Counter::default();
            let call = Call {
                service: PLUGIN_SERVICE.to_owned(),
                method: method.to_owned(),
                payload,
                timeout_nano: 0,
            };
            match answer(&mut plugin, &call) {
                Ok(answer) => prop_assert!(answer.is_some() && plugin.0 == 1),
                Err(ended) => {
                    let is_unreadable = matches!(ended, Ended::Unreadable { .. });
                    prop_assert!(is_unreadable && plugin.0 == 0);
                }
            }
        }
    }

    #[test]
    fn calls_of_another_service_are_not_ours() {
        let call = Call {
            service: RUNTIME_SERVICE.to_owned(),
            method: "Configure".to_owned(),
            ..Call::default()
        };
        assert!(answer(&mut Counter::default(), &call).unwrap().is_none());
    }
}
