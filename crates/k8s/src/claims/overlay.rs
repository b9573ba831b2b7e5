//! Claims laid over a node's tables: containers and holdings that the engine does not have.

mod hands;

use std::collections::{BTreeMap, HashMap};

use mirage_state::Image;
use mirage_state::layout::text;

use self::hands::Hands;
use super::{Claim, Claims, Grant, IdType};
use crate::device;

/// [`Holding::gi`] of a whole GPU.
const WHOLE: u32 = u32::MAX;

/// Most shares of a device that one container may have.
const MOST_SHARES: usize = 256;

/// A GPU, or one of its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    gpu: u32,
    gi: u32,
}

/// A device that a claim means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meant {
    place: Place,
    /// Which MIG device of its GPU; the first one when the claim means a GPU instance.
    pub(crate) index: Option<u32>,
    /// Position of the claim.
    pub(crate) claim: u32,
}

impl Meant {
    /// GPU index on the node.
    pub(crate) fn gpu(&self) -> u32 {
        self.place.gpu
    }
}

/// Adds what the node does not know; returns how each container came to hold what claims give it.
pub(super) fn lay(claims: &Claims, image: &mut Image, found: Vec<Meant>) -> Vec<Grant> {
    let found = found.into_iter();
    let mut found: Vec<(Place, u32)> = found.map(|meant| (meant.place, meant.claim)).collect();
    // In the source's order: of several claims on a device the last one counts.
    found.sort_by_key(|&(place, claim)| (claim, place));
    found.dedup();
    let holders = found
        .iter()
        .map(|&(place, claim)| (place, claims.list[claim as usize].holder()));
    let mut hands = Hands::new(image, holders);
    let mut added: Vec<(Place, usize)> = Vec::new();
    let mut grants: Vec<Grant> = Vec::new();
    let mut granted: HashMap<u32, usize> = HashMap::new();
    let mut last: BTreeMap<Place, usize> = BTreeMap::new();
    for (place, claim) in found {
        let claim = &claims.list[claim as usize];
        let (holding, is_new) = hands.give(image, &claim.holder, place);
        if is_new {
            added.push((place, holding));
        }
        last.insert(place, holding);
        if claim.share.is_none() && claim.allocation.is_none() {
            continue;
        }
        let holding = holding as u32;
        let at = *granted.entry(holding).or_insert_with(|| {
            grants.push(Grant {
                holding,
                ..Grant::default()
            });
            grants.len() - 1
        });
        grant(&mut grants[at], claim);
    }
    added.sort_unstable();
    for group in added.chunk_by(|a, b| a.0 == b.0) {
        share(image, group[0].0, group);
    }
    for (place, holding) in last {
        count_last(image, &mut grants, place, holding);
    }
    grants
}

/// Moves a holding behind the others of its device, wherever the engine has it: whoever shows one holder of a device shows the last.
fn count_last(image: &mut Image, grants: &mut [Grant], place: Place, holding: usize) {
    let of_device = |&at: &usize| {
        let holding = &image.holdings[at];
        (holding.gpu, holding.gi) == (place.gpu, place.gi)
    };
    let slots: Vec<usize> = (holding..image.holdings.len()).filter(of_device).collect();
    let mut moved: HashMap<u32, u32> = HashMap::with_capacity(slots.len());
    for pair in slots.windows(2) {
        image.holdings.swap(pair[0], pair[1]);
        moved.insert(pair[1] as u32, pair[0] as u32);
    }
    if let [first, .., last] = slots[..] {
        moved.insert(first as u32, last as u32);
    }
    for grant in grants {
        grant.holding = moved.get(&grant.holding).copied().unwrap_or(grant.holding);
    }
}

/// Notes by which id or claim a container holds a device. The same share twice is one: two sources say so.
fn grant(grant: &mut Grant, claim: &Claim) {
    if let Some(share) = &claim.share
        && grant.shares.len() < MOST_SHARES
        && !grant.shares.contains(share)
    {
        grant.shares.push(share.clone());
    }
    // As dcgm-exporter has it, the last claim counts.
    if let Some(allocation) = &claim.allocation {
        grant.allocation = Some(allocation.clone());
    }
}

/// Every device of the node that some claim means.
pub(crate) fn places(claims: &Claims, image: &Image, how: IdType, local: bool) -> Vec<Meant> {
    let mut found = Vec::new();
    if claims.list.is_empty() {
        return found;
    }
    let mut note = |place: Place, index: Option<u32>, key: &str| {
        let under = claims.under(key).iter();
        found.extend(under.map(|&claim| Meant {
            place,
            index,
            claim,
        }));
    };
    let node = text(&image.header.node);
    for (gpu, card) in image.cards.iter().enumerate() {
        let place = Place {
            gpu: gpu as u32,
            gi: WHOLE,
        };
        let mut look = |place, key: &str| note(place, None, key);
        if how != IdType::DeviceName {
            look(place, text(&card.uuid));
        }
        if local && how != IdType::Uid {
            look(place, &format!("nvidia{gpu}"));
        }
        if local && how == IdType::Any {
            look(place, &gpu.to_string());
        }
        if local {
            look(place, &device::minor_key(card.minor));
        }
        if claims.has_dra {
            look(
                place,
                &device::claim_key(node, &format!("gpu-{}", card.minor)),
            );
        }
    }
    let mut before = None;
    for instance in &image.instances {
        let Some(card) = image.cards.get(instance.gpu as usize) else {
            continue;
        };
        let place = Place {
            gpu: instance.gpu,
            gi: instance.gi,
        };
        let mut look = |place, key: &str| {
            note(
                place,
                Some(instance.index).filter(|&index| index != WHOLE),
                key,
            );
        };
        look(place, text(&instance.uuid));
        if local && how == IdType::Any {
            look(place, &format!("{}:{}", instance.gpu, instance.index));
        }
        // What names the GPU instance is asked once, however many compute instances it has.
        if before.replace(place) == Some(place) {
            continue;
        }
        look(place, &device::old_mig_key(text(&card.uuid), instance.gi));
        if local {
            look(place, &device::instance_key(instance.gpu, instance.gi));
        }
        let profile = image
            .statics
            .gpu_profiles
            .get(instance.gpu_profile as usize);
        if let Some(profile) = profile {
            let name: String = text(&profile.name).replace('.', "");
            let of = format!(
                "gpu-{}-mig-{name}-{}-{}",
                card.minor, profile.id, instance.start
            );
            look(place, &device::claim_key(node, &of));
        }
    }
    found
}

/// Gives new holdings of a device equal parts of what the others do not account for.
fn share(image: &mut Image, place: Place, new: &[(Place, usize)]) {
    let (percent, memory) = doing(image, place);
    let others = image
        .holdings
        .iter()
        .filter(|h| (h.gpu, h.gi) == (place.gpu, place.gi));
    let (mut free_percent, mut free_memory) = (percent, memory);
    for other in others {
        free_percent = free_percent.saturating_sub(other.gpu_percent);
        free_memory = free_memory.saturating_sub(other.memory);
    }
    let parts = new.len() as u64;
    for (at, &(_, holding)) in new.iter().enumerate() {
        // The first ones get what does not divide.
        let one = |free: u64| free / parts + u64::from((at as u64) < free % parts);
        image.holdings[holding].gpu_percent = one(free_percent.into()) as u32;
        image.holdings[holding].memory = one(free_memory);
    }
}

/// Utilisation in percent and memory in bytes of a device.
fn doing(image: &Image, place: Place) -> (u32, u64) {
    if place.gi == WHOLE {
        return image
            .lives
            .get(place.gpu as usize)
            .map_or((0, 0), |live| (live.gpu_percent, live.memory_used));
    }
    image
        .instances
        .iter()
        .find(|i| (i.gpu, i.gi) == (place.gpu, place.gi))
        .map_or((0, 0), |i| (i.gr_engine_ppm / 10_000, i.memory_used))
}
