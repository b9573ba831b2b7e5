//! Who was given what, as a source says it, and how that is laid over a node's state.
//!
//! [`Claims`] are what one source said, or several. [`Claims::attribute`] adds them to an [`Image`]: a container
//! that the engine knows already is not added again, and a claim on a device that has no
//! accounting yet gets an equal part of what nobody else accounts for. So the parts of a device never add up to
//! more than the device did.

pub(crate) mod overlay;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mirage_state::Image;

use crate::device;

/// Most claims of all sources together; a node has far fewer.
const MOST_CLAIMS: usize = 65_536;

/// Most bytes of a device id.
const MOST_ID: usize = 256;

/// Most bytes of a Kubernetes name.
const MOST_NAME: usize = 253;

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// Namespace.
    pub namespace: String,
    /// Pod.
    pub pod: String,
    /// Container; a source may not know it.
    pub container: String,
    /// UID of the pod, if the source knows it.
    pub uid: Option<String>,
}

impl Holder {
    /// Whether every name could be one of Kubernetes', so that it can stand in a label or a path.
    fn is_plausible(&self) -> bool {
        let name = |text: &str| {
            text.len() <= MOST_NAME
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        };
        !self.namespace.is_empty()
            && !self.pod.is_empty()
            && [&self.namespace, &self.pod, &self.container]
                .iter()
                .all(|text| name(text))
            && self.uid.as_deref().is_none_or(name)
    }
}

/// What is known of a pod beside who it is and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodFacts {
    /// UID; empty if nobody knows.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// The resource claim that a device came by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocation {
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

/// How a container came to hold a device, as sources tell it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// Place in the image's holdings.
    pub holding: u32,
    /// Which shares of the device, in the order of the ids.
    pub shares: Vec<String>,
    /// The resource claim, if it came by one.
    pub allocation: Option<Arc<Allocation>>,
}

/// One container and one device of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    holder: Arc<Holder>,
    keys: Vec<String>,
    share: Option<String>,
    allocation: Option<Arc<Allocation>>,
}

impl Claim {
    /// A device by the id its plugin gave it.
    pub fn of_id(holder: Arc<Holder>, id: &str) -> Claim {
        if id.len() > MOST_ID {
            return Claim::of_keys(holder, Vec::new());
        }
        let device::Keys { keys, share } = device::keys(id);
        Claim {
            holder,
            keys,
            share,
            allocation: None,
        }
    }

    /// A device by its minor number.
    pub fn of_minor(holder: Arc<Holder>, minor: u32) -> Claim {
        Claim::of_keys(holder, vec![device::minor_key(minor)])
    }

    /// A device of a resource claim.
    pub fn of_claim(holder: Arc<Holder>, pool: &str, device: &str) -> Claim {
        if pool.len() + device.len() > MOST_ID {
            return Claim::of_keys(holder, Vec::new());
        }
        Claim::of_keys(holder, vec![device::claim_key(pool, device)])
    }

    /// A device of a resource claim that is known by name.
    pub fn of_allocation(holder: Arc<Holder>, allocation: Allocation) -> Claim {
        let mut claim = Claim::of_claim(holder, &allocation.pool, &allocation.device);
        let long = [&allocation.name, &allocation.namespace, &allocation.driver]
            .iter()
            .any(|text| text.len() > MOST_NAME);
        if !long {
            claim.allocation = Some(Arc::new(allocation));
        }
        claim
    }

    fn of_keys(holder: Arc<Holder>, keys: Vec<String>) -> Claim {
        Claim {
            holder,
            keys,
            share: None,
            allocation: None,
        }
    }

    /// The same device in other hands.
    pub(crate) fn held_by(&self, holder: Arc<Holder>) -> Claim {
        Claim {
            holder,
            ..self.clone()
        }
    }

    /// Who.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Keys its device is found under; see [`device::keys`].
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// What tells it from other shares of the device.
    pub fn share(&self) -> Option<&str> {
        self.share.as_deref()
    }

    /// The resource claim it came by.
    pub fn allocation(&self) -> Option<&Arc<Allocation>> {
        self.allocation.as_ref()
    }
}

/// How a GPU is looked up: `--kubernetes-gpu-id-type` of dcgm-exporter. MIG instances are found in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdType {
    /// In every way a device plugin may name it: UUID, `nvidia0`, index, minor number.
    #[default]
    Any,
    /// By UUID alone.
    Uid,
    /// By `nvidia0` alone.
    DeviceName,
}

/// What sources say, in their order.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    list: Vec<Claim>,
    by_key: HashMap<String, Vec<u32>>,
    skipped: usize,
    /// What sources say of pods, by namespace and name.
    pods: HashMap<(String, String), PodFacts>,
    /// Whether some are of resource claims, whose keys cost more to look for.
    has_dra: bool,
}

impl Claims {
    /// Adds a claim; one with impossible names, no readable device, or beyond the limit is counted instead.
    pub fn push(&mut self, claim: Claim) {
        let known = !claim.keys.is_empty() && claim.keys.iter().all(|key| !key.is_empty());
        if !known || !claim.holder.is_plausible() || self.list.len() >= MOST_CLAIMS {
            self.skipped += 1;
            return;
        }
        let at = self.list.len() as u32;
        for key in &claim.keys {
            self.has_dra |= device::is_claim_key(key);
            self.by_key.entry(key.clone()).or_default().push(at);
        }
        self.list.push(claim);
    }

    /// Notes what is known of a pod; later facts of the same pod take the place of earlier ones.
    pub fn describe(&mut self, namespace: &str, pod: &str, facts: PodFacts) {
        if self.pods.len() < MOST_CLAIMS {
            self.pods
                .insert((namespace.to_owned(), pod.to_owned()), facts);
        }
    }

    /// What is known of pods, by namespace and name.
    pub fn pods(&self) -> &HashMap<(String, String), PodFacts> {
        &self.pods
    }

    /// Counts what could not be read.
    pub fn skip(&mut self, entries: usize) {
        self.skipped += entries;
    }

    /// Adds what another source says.
    pub fn extend(&mut self, other: &Claims) {
        for claim in &other.list {
            self.push(claim.clone());
        }
        for ((namespace, pod), facts) in &other.pods {
            self.describe(namespace, pod, facts.clone());
        }
        self.skipped += other.skipped;
    }

    /// Claims.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nobody was given anything.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Entries that were left out.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Adds them to what a node shows. UUIDs are looked for on every node; names that only mean something on
    /// their own node (`nvidia0`, an index, a minor number) on a `local` one.
    pub fn attribute(&self, image: &mut Image, how: IdType, local: bool) {
        let found = overlay::places(self, image, how, local);
        overlay::lay(self, image, found);
    }

    /// [`Claims::attribute`] for a node that others read too: it is copied only if there is something to add.
    pub fn laid_over(&self, image: &Arc<Image>, how: IdType, local: bool) -> Arc<Image> {
        self.granted_over(image, how, local).0
    }

    /// The claim at a position.
    pub(crate) fn at(&self, position: u32) -> Option<&Claim> {
        self.list.get(position as usize)
    }

    /// [`Claims::laid_over`], and how each container came to hold what it holds.
    pub fn granted_over(
        &self,
        image: &Arc<Image>,
        how: IdType,
        local: bool,
    ) -> (Arc<Image>, Vec<Grant>) {
        let found = overlay::places(self, image, how, local);
        if found.is_empty() {
            return (Arc::clone(image), Vec::new());
        }
        let mut image = Image::clone(image);
        let grants = overlay::lay(self, &mut image, found);
        (Arc::new(image), grants)
    }

    /// Claims under a key, in order.
    fn under(&self, key: &str) -> &[u32] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests;
