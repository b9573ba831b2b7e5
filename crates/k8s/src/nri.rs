//! A plugin of a container runtime, by the node resource interface (NRI).
//!
//! | Module | What it is for |
//! |---|---|
//! | [`wire`] | bytes of the socket: frames of connections, messages in them |
//! | [`session`] | one connection to a runtime: registering, answering, until it ends |
//! | [`generated`] | the messages, made from `proto/nri.proto` |
//!
//! Both generations of the protocol are spoken: runtimes before 0.12 tell most events with `StateChange`, later ones
//! with a call for each. A runtime waits two seconds for an answer and holds every other container of the node
//! meanwhile, so a [`Plugin`] answers from memory. Whatever goes wrong ends the connection and nothing else: the
//! runtime then goes on without us, and learns of nothing we could not do.

/// Messages of the interface, made from `proto/nri.proto`.
#[rustfmt::skip]
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated; tests/codegen.rs compares it"
)]
pub mod generated;
pub mod session;
pub mod wire;

use self::generated::{
    ConfigureRequest, Container, ContainerAdjustment, Event, PodSandbox, SynchronizeRequest,
};

/// Where runtimes listen for plugins.
pub const SOCKET: &str = "/var/run/nri/nri.sock";

/// What a plugin does. No method may wait for anything.
pub trait Plugin {
    /// The runtime has told who it is; what is returned is asked for. Runtimes drop a plugin that asks for events they
    /// do not know, so [`generated::Event`] holds only those that all of them have.
    fn configure(&mut self, runtime: &ConfigureRequest) -> Vec<Event>;

    /// Everything the runtime has now, or a part of it: the last one has no `more`. A container may come before its pod.
    fn synchronize(&mut self, part: SynchronizeRequest);

    /// A container is about to be made. What is returned is changed in it.
    fn create(&mut self, pod: &PodSandbox, container: &Container) -> ContainerAdjustment;

    /// Something else has happened, or is about to. A pod's event has no container.
    fn event(&mut self, event: Event, pod: &PodSandbox, container: Option<&Container>);
}

/// The bit mask that asks for events.
pub fn mask(events: &[Event]) -> i32 {
    let bit = |event: &Event| match *event as i32 {
        number @ 1..=31 => 1 << (number - 1),
        _ => 0,
    };
    events.iter().map(bit).fold(0, |all, one| all | one)
}
