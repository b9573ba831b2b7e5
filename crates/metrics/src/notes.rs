//! What an exporter knows of a node beside its state: who gave a pod its device, what the pod is labelled
//! with, which jobs a scheduler put on a GPU, and what clocks were held back by in the recent past.
//!
//! Whoever serves pages gathers this between scrapes; a page only reads it.

use mirage_state::Node;

use crate::clock::CLOCK_EVENTS;

/// A node and what is known beside it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The node.
    pub node: Node<'a>,
    /// What else there is to say; nothing for most nodes.
    pub notes: Option<&'a Notes>,
}

impl<'a> From<Node<'a>> for Subject<'a> {
    fn from(node: Node<'a>) -> Subject<'a> {
        Subject { node, notes: None }
    }
}

/// What is known beside a node's state. Lists may be in any order and leave out whatever has nothing to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Samples of each clock event in the window, by GPU; see [`crate::ClockHistory`].
    pub clock_events: Vec<[u32; CLOCK_EVENTS]>,
    /// Labels of pods.
    pub pods: Vec<PodNote>,
    /// How holdings came about.
    pub grants: Vec<Grant>,
    /// Jobs on GPUs.
    pub jobs: Vec<Jobs>,
}

/// The labels of a container's pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodNote {
    /// Place in the node's containers.
    pub container: u32,
    /// Names and values, the names as a pod has them.
    pub labels: Vec<(String, String)>,
}

/// How a container came to hold a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Place in the node's holdings.
    pub holding: u32,
    /// Which shares of the device: the text behind `::` or `/vgpu` of its id.
    pub shares: Vec<String>,
    /// The resource claim, if it came by one.
    pub claim: Option<ClaimNote>,
}

/// A resource claim that gave a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNote {
    /// Name of the claim.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The driver.
    pub driver: String,
    /// The pool of the device.
    pub pool: String,
    /// The device in that pool.
    pub device: String,
}

/// The jobs of a GPU or of one of its instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jobs {
    /// GPU index.
    pub gpu: u32,
    /// GPU instance id; `None` for the whole GPU.
    pub gi: Option<u32>,
    /// Names, in the order of the source.
    pub names: Vec<String>,
}

impl Notes {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Notes::default()
    }

    pub(crate) fn labels(&self, container: u32) -> &[(String, String)] {
        let found = self.pods.iter().find(|pod| pod.container == container);
        found.map_or(&[], |pod| &pod.labels)
    }

    pub(crate) fn grant(&self, holding: u32) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.holding == holding)
    }

    /// Jobs of an instance are its own, or its GPU's if nobody speaks of the instance.
    pub(crate) fn jobs(&self, gpu: u32, gi: Option<u32>) -> &[String] {
        let of = |gi: Option<u32>| {
            let found = self
                .jobs
                .iter()
                .find(|jobs| (jobs.gpu, jobs.gi) == (gpu, gi));
            found.map(|jobs| jobs.names.as_slice())
        };
        of(gi).or_else(|| of(None)).unwrap_or_default()
    }
}
