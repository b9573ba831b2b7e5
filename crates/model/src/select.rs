//! Which devices a text means: `node-a/0-3`, `node-*/0,2`, a UUID, `node-a/0:1`, `all`.
//!
//! A selector is a list of parts divided by commas. A part is `all`, an id (`GPU-…`,
//! `MIG-…`), a node pattern (all its GPUs), or a node pattern, a slash and indices. A part
//! that is only an index goes on with the node before it. In a fleet of one node the node
//! may be left out. Every refusal names the part, what exists, and stays short even in a
//! fleet of thousands.

mod names;
mod running;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use crate::identity::Identity;
use crate::plan::{DeviceRef, GpuPlan, Plan};
use crate::quantity::clip;

pub use names::{closest, matches};
pub use running::{MigDevices, Running};

/// Most devices one selector may mean.
pub const MAX_DEVICES: usize = 1_000_000;
/// Most errors reported for one selector.
const MAX_ERRORS: usize = 20;
/// Most MIG devices on one GPU; an index from here on cannot exist.
pub const MAX_INSTANCES: u32 = 16;

/// Why a selector names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What is wrong and what would do.
    pub message: String,
    /// Bytes of the selector it is about.
    pub at: Range<usize>,
}

/// The devices `text` means, sorted, each once. MIG devices must be in the plan.
pub fn parse(text: &str, plan: &Plan) -> Result<Vec<DeviceRef>, Error> {
    Index::new(plan).find(text)
}

/// The same for a running fleet, whose MIG devices the plan need not know.
pub fn parse_running<'p>(
    text: &str,
    fleet: impl Into<Running<'p>>,
) -> Result<Vec<DeviceRef>, Error> {
    Index::running(fleet).find(text)
}

/// A plan prepared for many selectors: names and ids are looked up, not searched.
#[derive(Debug)]
pub struct Index<'p> {
    plan: &'p Plan,
    /// The fleet it runs as; `None` before it does.
    running: Option<Running<'p>>,
    names: OnceLock<HashMap<&'p str, u32>>,
    ids: OnceLock<HashMap<String, DeviceRef>>,
}

impl<'p> Index<'p> {
    /// Prepares nothing yet; each table is made when first needed.
    pub fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            running: None,
            names: OnceLock::new(),
            ids: OnceLock::new(),
        }
    }

    /// The same for a running fleet, whose MIG devices the plan need not know.
    pub fn running(fleet: impl Into<Running<'p>>) -> Self {
        let fleet = fleet.into();
        Self {
            running: Some(fleet),
            ..Self::new(fleet.plan)
        }
    }

    /// The plan, unless the fleet is running and its MIG layout may have changed.
    pub(crate) fn fixed(&self) -> Option<&'p Plan> {
        self.running.is_none().then_some(self.plan)
    }

    /// The devices `text` means, sorted, each once; the first thing wrong with it.
    pub fn find(&self, text: &str) -> Result<Vec<DeviceRef>, Error> {
        let (found, errors) = self.find_all(text);
        match errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// The devices `text` means, and everything wrong with it.
    pub fn find_all(&self, text: &str) -> (Vec<DeviceRef>, Vec<Error>) {
        let mut errors = Vec::new();
        let mut found = Vec::new();
        let mut nodes: Option<&str> = None;
        let mut start = 0;
        for raw in text.split(',') {
            let from = start + (raw.len() - raw.trim_start().len());
            start += raw.len() + 1;
            let part = raw.trim();
            let at = from..from + part.len();
            if let Err(message) = self.part(part, &mut nodes, &mut found) {
                errors.push(Error { message, at });
            }
            if errors.len() >= MAX_ERRORS || found.len() > MAX_DEVICES {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        (found, errors)
    }

    fn part<'t>(
        &self,
        part: &'t str,
        nodes: &mut Option<&'t str>,
        found: &mut Vec<DeviceRef>,
    ) -> Result<(), String> {
        if part.is_empty() {
            return Err("a device is missing here; write for example `node-a/0-3` or `all`".into());
        }
        if part == "all" {
            *nodes = None;
            return self.take("*", None, found);
        }
        if part.starts_with("GPU-") || part.starts_with("MIG-") {
            *nodes = None;
            found.push(self.id(part)?);
            return Ok(());
        }
        if let Some((pattern, indices)) = part.split_once('/') {
            *nodes = Some(pattern);
            return self.take(pattern, Some(Indices::read(indices)?), found);
        }
        if let Ok(indices) = Indices::read(part)
            && !(nodes.is_none() && self.names().contains_key(part))
        {
            let pattern = match (*nodes, self.plan.nodes.as_slice()) {
                (Some(pattern), _) => pattern,
                (None, [_]) => "*",
                (None, _) => {
                    let first = self.plan.nodes.first().map_or("node", |node| &node.name);
                    return Err(format!(
                        "`{}` names no node; write for example `{first}/{}`",
                        clip(part),
                        clip(part)
                    ));
                }
            };
            return self.take(pattern, Some(indices), found);
        }
        *nodes = Some(part);
        self.take(part, None, found)
    }

    /// Adds the devices of all nodes a pattern means; `None` for all GPUs of each.
    fn take(
        &self,
        pattern: &str,
        indices: Option<Indices>,
        found: &mut Vec<DeviceRef>,
    ) -> Result<(), String> {
        let several = pattern.contains(['*', '?']);
        let mut reason = None;
        let mut any = false;
        let before = found.len();
        for node in self.nodes(pattern, several) {
            any = true;
            if let Err(message) = self.gpus(node, indices, found) {
                // With a pattern, nodes that lack the device are passed over.
                reason.get_or_insert(message);
            }
            if found.len() > MAX_DEVICES {
                return Err(format!("more devices than the limit of {MAX_DEVICES}"));
            }
        }
        if !any {
            return Err(self.no_node(pattern, several));
        }
        match reason {
            Some(message) if !several || found.len() == before => Err(message),
            None if found.len() == before => Err(format!("`{}` has no GPUs", clip(pattern))),
            _ => Ok(()),
        }
    }

    fn nodes(&self, pattern: &str, several: bool) -> Vec<u32> {
        if !several {
            return self.names().get(pattern).copied().into_iter().collect();
        }
        (0u32..)
            .zip(&self.plan.nodes)
            .filter(|(_, node)| matches(pattern, &node.name))
            .map(|(index, _)| index)
            .collect()
    }

    fn gpus(
        &self,
        node: u32,
        indices: Option<Indices>,
        found: &mut Vec<DeviceRef>,
    ) -> Result<(), String> {
        let plan = &self.plan.nodes[node as usize];
        let count = u32::try_from(plan.gpus.len()).unwrap_or(u32::MAX);
        let Some(indices) = indices else {
            found.extend((0..count).map(|gpu| device(node, gpu, None)));
            return Ok(());
        };
        let (first, last) = indices.gpus.unwrap_or((0, count.saturating_sub(1)));
        if last >= count {
            let name = &plan.name;
            return Err(match count {
                0 => format!("`{name}` has no GPUs"),
                1 => format!("`{name}` has one GPU, 0, so there is no {last}"),
                _ => format!("`{name}` has GPUs 0-{}, so there is no {last}", count - 1),
            });
        }
        let Some(wanted) = indices.instance else {
            found.extend((first..=last).map(|gpu| device(node, gpu, None)));
            return Ok(());
        };
        // Where either is `*`, GPUs that lack the device are passed over.
        let several = indices.gpus.is_none() || wanted.is_none();
        let before = found.len();
        let mut reason = None;
        for gpu in first..=last {
            if let Err(message) = self.instances(node, gpu, wanted, found) {
                reason.get_or_insert(message);
            }
        }
        match reason {
            Some(message) if !several || found.len() == before => Err(message),
            _ => Ok(()),
        }
    }

    fn instances(
        &self,
        node: u32,
        gpu: u32,
        wanted: Option<u32>,
        found: &mut Vec<DeviceRef>,
    ) -> Result<(), String> {
        let plan = &self.plan.nodes[node as usize];
        let known = self.running.and_then(|running| running.mig);
        let count = match known {
            Some(mig) => mig.count(node, gpu),
            None => instances(&plan.gpus[gpu as usize]),
        };
        let trusting = self.running.is_some() && known.is_none();
        match wanted {
            Some(instance) if trusting && instance < MAX_INSTANCES => {
                found.push(device(node, gpu, Some(instance)));
            }
            Some(instance) if instance < count => found.push(device(node, gpu, Some(instance))),
            None if count > 0 => {
                found.extend((0..count).map(|instance| device(node, gpu, Some(instance))));
            }
            _ if count == 0 => return Err(format!("`{}/{gpu}` has no MIG devices", plan.name)),
            _ => {
                return Err(format!(
                    "`{}/{gpu}` has {count} MIG devices, counted from 0",
                    plan.name
                ));
            }
        }
        Ok(())
    }

    fn names(&self) -> &HashMap<&'p str, u32> {
        self.names.get_or_init(|| {
            let names = self.plan.nodes.iter().map(|node| &*node.name);
            names.zip(0u32..).collect()
        })
    }

    fn id(&self, id: &str) -> Result<DeviceRef, String> {
        // MIG devices come and go, so a running fleet is asked, not the plan.
        let known = self.running.and_then(|running| running.mig);
        let found = match known.filter(|_| id.starts_with("MIG-")) {
            Some(mig) => mig.find(id),
            None => {
                let ids = self.ids.get_or_init(|| ids(self.plan));
                ids.get(id).or_else(|| ids.get(&small(id))).copied()
            }
        };
        found.ok_or_else(|| format!("no device has the id `{}`", clip(id)))
    }

    fn no_node(&self, pattern: &str, several: bool) -> String {
        let shown = clip(pattern);
        let names = || self.plan.nodes.iter().map(|node| &*node.name);
        let near = (!several).then(|| closest(pattern, names().take(10_000)));
        let hint = match near.flatten() {
            Some(near) => format!("did you mean `{near}`?"),
            None => names::some(names(), self.plan.nodes.len()),
        };
        let verb = if several { "matches" } else { "is called" };
        format!("no node {verb} `{shown}`; {hint}")
    }
}

/// Indices after the slash.
#[derive(Clone, Copy)]
struct Indices {
    /// First and last GPU; `None` for all.
    gpus: Option<(u32, u32)>,
    /// MIG device; `Some(None)` for all of them.
    instance: Option<Option<u32>>,
}

impl Indices {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{}` is no GPU index; write for example `3`, `0-3`, `*` or `0:1`",
                clip(text)
            )
        };
        let number = |text: &str| -> Result<u32, String> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or_else(wrong)
        };
        let (gpus, instance) = match text.split_once(':') {
            Some((gpus, "*")) => (gpus, Some(None)),
            Some((gpus, instance)) => (gpus, Some(Some(number(instance)?))),
            None => (text, None),
        };
        let gpus = match gpus.split_once('-') {
            _ if gpus == "*" => None,
            Some((first, last)) => Some((number(first)?, number(last)?)),
            None => Some((number(gpus)?, number(gpus)?)),
        };
        if gpus.is_some_and(|(first, last)| first > last) {
            return Err(format!("`{}` runs backwards", clip(text)));
        }
        Ok(Self { gpus, instance })
    }
}

fn device(node: u32, gpu: u32, instance: Option<u32>) -> DeviceRef {
    DeviceRef {
        node,
        gpu,
        instance,
    }
}

fn instances(gpu: &GpuPlan) -> u32 {
    let given = gpu.given.as_ref().and_then(|given| given.mig.as_ref());
    given.map_or(0, |mig| u32::try_from(mig.len()).unwrap_or(u32::MAX))
}

/// An id in small letters, but for `GPU-` and `MIG-`: as ids are derived.
fn small(id: &str) -> String {
    let (kind, rest) = id.split_at_checked(4).unwrap_or(("", id));
    format!("{kind}{}", rest.to_lowercase())
}

/// Every id, given or derived, and its device; given ones in small letters, too.
fn ids(plan: &Plan) -> HashMap<String, DeviceRef> {
    let mut ids = HashMap::new();
    let mut others = Vec::new();
    for (node, at) in plan.nodes.iter().zip(0u32..) {
        let count = u32::try_from(node.gpus.len()).unwrap_or(u32::MAX);
        for (gpu, index) in node.gpus.iter().zip(0u32..) {
            let given = gpu.given.as_deref();
            let own = Identity::of(&node.name, index, count, &gpu.board, given);
            if given.is_some_and(|given| given.uuid.is_some()) {
                others.push((small(&own.uuid), device(at, index, None)));
            }
            ids.insert(own.uuid, device(at, index, None));
            let mig = given.and_then(|given| given.mig.as_ref());
            for (instance, position) in mig.into_iter().flatten().zip(0u32..) {
                if let Some(id) = &instance.uuid {
                    others.push((small(id), device(at, index, Some(position))));
                    ids.insert(id.clone(), device(at, index, Some(position)));
                }
            }
        }
    }
    for (id, device) in others {
        ids.entry(id).or_insert(device);
    }
    ids
}
