//! What the container runtime asks and tells. Every container of the node waits for the answers, so they come from memory.

use mirage_k8s::koordinator::{self, ALLOCATED};
use mirage_k8s::nri::Plugin;
use mirage_k8s::nri::generated::{
    ConfigureRequest, Container, ContainerAdjustment, Event, PodSandbox, SynchronizeRequest,
};
use tokio::sync::watch;

use super::adjust::adjustment;
use super::{PART, Told};
use crate::cli::say;
use crate::node::Node;
use crate::node::edits::{Edits, Places};

/// What the runtime is asked to tell. All runtimes have these.
const EVENTS: &[Event] = &[
    Event::CreateContainer,
    Event::PostStartContainer,
    Event::StopContainer,
    Event::RemoveContainer,
    Event::StopPodSandbox,
    Event::RemovePodSandbox,
];

/// The plugin, for one connection.
pub(super) struct Hook {
    pub(super) node: Node,
    pub(super) told: Told,
    /// Whether variables hold minor numbers.
    pub(super) minors: bool,
    /// Where things lie; nothing when there is nothing to mount: variables are set all the same.
    pub(super) places: watch::Receiver<Option<Places>>,
}

impl Hook {
    /// What a container of the pod gets; `None` if no scheduler gave it anything.
    fn edits(&self, pod: &PodSandbox) -> Option<Edits> {
        let annotation = pod.annotations.get(ALLOCATED)?;
        let tell = |what: String| say(&format!("pod {}/{}: {what}", pod.namespace, pod.name));
        let gpus = match koordinator::parse(annotation) {
            Ok(gpus) => gpus,
            Err(problem) => {
                tell(format!("{ALLOCATED}: {problem}; it gets no GPUs"));
                return None;
            }
        };
        let image = self.node.image()?;
        let found = koordinator::resolve(&gpus, &image);
        if !found.unknown.is_empty() {
            tell(format!(
                "{ALLOCATED} names {}, which this node does not have",
                found.unknown.join(", ")
            ));
        }
        if found.uuids.is_empty() {
            return None;
        }
        let mut edits = match &*self.places.borrow() {
            Some(places) => places.edits(&image, &found.uuids).ok()?,
            None => Edits::default(),
        };
        let minors = || found.minors.iter().map(u32::to_string).collect();
        let visible: Vec<String> = if self.minors { minors() } else { found.uuids };
        edits.env = vec![("NVIDIA_VISIBLE_DEVICES".to_owned(), visible.join(","))];
        Some(edits)
    }
}

impl Plugin for Hook {
    fn configure(&mut self, _: &ConfigureRequest) -> Vec<Event> {
        EVENTS.to_vec()
    }

    fn synchronize(&mut self, part: SynchronizeRequest) {
        let Some(image) = self.node.image() else {
            return;
        };
        let is_last = !part.more;
        let missed = self.told.book().synchronize(part, &image);
        for container in missed {
            say(&format!(
                "container {} was made while the runtime hook was away and lacks its GPUs; make its pod anew",
                container.container
            ));
        }
        if is_last {
            self.told.publish_first();
            self.node.inside.health.good(PART);
        }
    }

    fn create(&mut self, pod: &PodSandbox, container: &Container) -> ContainerAdjustment {
        match self.edits(pod) {
            Some(edits) => adjustment(&edits, container),
            None => ContainerAdjustment::default(),
        }
    }

    fn event(&mut self, event: Event, pod: &PodSandbox, container: Option<&Container>) {
        match (event, container) {
            (Event::PostStartContainer, Some(container)) => {
                let Some(image) = self.node.image() else {
                    return;
                };
                self.told.book().started(pod, container, &image);
            }
            (Event::StopContainer | Event::RemoveContainer, Some(container)) => {
                self.told.book().stopped(&container.id);
            }
            (Event::StopPodSandbox | Event::RemovePodSandbox, _) => {
                self.told.book().pod_stopped(&pod.id);
            }
            _ => return,
        }
        self.told.publish();
    }
}
