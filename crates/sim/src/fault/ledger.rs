//! The faults that have struck. Whoever asks about one device is led straight to what ails it: in a fleet,
//! 80,000 devices may be struck in the same tick.

use std::collections::HashMap;

use mirage_model::plan::{DeviceRef, Fault};

use super::FaultState;

/// Healed faults remembered.
const HEALED_KEPT: usize = 256;
/// Healed faults that may pile up while many strike at once.
const SURPLUS: usize = 16_384;

/// A fault that was just healed.
#[derive(Debug, Clone)]
pub(crate) struct Healed {
    pub(crate) id: u64,
    pub(crate) device: DeviceRef,
    pub(crate) fault: Fault,
}

/// Active faults and the last healed ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// In the order they struck, which is the order of their ids.
    all: Vec<FaultState>,
    /// Ids of the active ones, by GPU.
    active: HashMap<Place, Vec<u64>>,
    /// How many are not active.
    healed: usize,
}

/// Node and GPU: what ails an instance ails its GPU.
type Place = (u32, u32);

fn place(device: DeviceRef) -> Place {
    (device.node, device.gpu)
}

impl Ledger {
    /// All that are remembered, in the order they struck.
    pub(crate) fn all(&self) -> &[FaultState] {
        &self.all
    }

    /// The active ones of a GPU and its instances.
    pub(crate) fn of(&self, device: DeviceRef) -> impl Iterator<Item = &FaultState> {
        let ids = self.active.get(&place(device)).into_iter().flatten();
        ids.filter_map(|id| self.all.get(self.at(*id)?))
    }

    /// The active one that is this very fault of this very device.
    pub(crate) fn same(&mut self, device: DeviceRef, fault: &Fault) -> Option<&mut FaultState> {
        let found = self
            .of(device)
            .find(|f| f.device == device && f.fault == *fault)?;
        let at = self.at(found.id)?;
        self.all.get_mut(at)
    }

    /// Adds one, with an id above all others.
    pub(crate) fn push(&mut self, fault: FaultState) {
        if fault.active {
            let ids = self.active.entry(place(fault.device)).or_default();
            ids.push(fault.id);
        } else {
            self.healed += 1;
        }
        self.all.push(fault);
        if self.healed > HEALED_KEPT + SURPLUS {
            self.trim();
        }
    }

    /// Heals those that `which` picks.
    pub(crate) fn heal(&mut self, which: impl Fn(&FaultState) -> bool) -> Vec<Healed> {
        let picked = self.all.iter().filter(|f| f.active && which(f));
        let picked = picked.map(|f| f.id).collect();
        self.heal_ids(picked)
    }

    /// Heals those of one GPU that `which` picks.
    pub(crate) fn heal_of(
        &mut self,
        device: DeviceRef,
        which: impl Fn(&FaultState) -> bool,
    ) -> Vec<Healed> {
        let picked = self.of(device).filter(|f| which(f));
        let picked = picked.map(|f| f.id).collect();
        self.heal_ids(picked)
    }

    fn heal_ids(&mut self, ids: Vec<u64>) -> Vec<Healed> {
        let mut healed = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(at) = self.at(id) else { continue };
            let fault = &mut self.all[at];
            fault.active = false;
            let (device, fault) = (fault.device, fault.fault.clone());
            if let Some(left) = self.active.get_mut(&place(device)) {
                left.retain(|other| *other != id);
                if left.is_empty() {
                    self.active.remove(&place(device));
                }
            }
            healed.push(Healed { id, device, fault });
        }
        self.healed += healed.len();
        healed
    }

    /// Forgets all but the last healed ones.
    pub(crate) fn trim(&mut self) {
        let mut surplus = self.healed.saturating_sub(HEALED_KEPT);
        if surplus == 0 {
            return;
        }
        self.healed -= surplus;
        self.all.retain(|f| {
            let forget = !f.active && surplus > 0;
            surplus -= usize::from(forget);
            !forget
        });
    }

    /// Lets devices move; what struck one that is gone goes with it.
    pub(crate) fn follow(&mut self, moved: impl Fn(DeviceRef) -> Option<DeviceRef>) {
        for mut fault in std::mem::take(self).all {
            if let Some(device) = moved(fault.device) {
                fault.device = device;
                self.push(fault);
            }
        }
    }

    /// Where the fault with this id lies.
    fn at(&self, id: u64) -> Option<usize> {
        self.all.binary_search_by_key(&id, |f| f.id).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fault(id: u64, gpu: u32, active: bool) -> FaultState {
        FaultState {
            id,
            device: device(gpu),
            fault: Fault::Hang,
            since: Duration::ZERO,
            heals_at: None,
            active,
            planned: false,
        }
    }

    fn device(gpu: u32) -> DeviceRef {
        DeviceRef {
            node: 0,
            gpu,
            instance: None,
        }
    }

    fn ids<'f>(faults: impl Iterator<Item = &'f FaultState>) -> Vec<u64> {
        faults.map(|f| f.id).collect()
    }

    #[test]
    fn each_device_knows_its_own_through_everything() {
        let mut ledger = Ledger::default();
        for id in 1..=6 {
            ledger.push(fault(id, id as u32 % 2, id != 5));
        }
        assert_eq!(ids(ledger.of(device(1))), [1, 3]);
        assert_eq!(ids(ledger.of(device(0))), [2, 4, 6]);
        assert_eq!(ids(ledger.of(device(7))), [0u64; 0]);
        assert_eq!(ledger.same(device(0), &Fault::Hang).unwrap().id, 2);
        assert!(ledger.same(device(0), &Fault::Lost).is_none());

        let healed = ledger.heal_of(device(0), |f| f.id != 4);
        assert_eq!(healed.iter().map(|h| h.id).collect::<Vec<_>>(), [2, 6]);
        assert_eq!(ids(ledger.of(device(0))), [4]);
        assert_eq!(ledger.heal(|f| f.id < 3).len(), 1);
        assert_eq!(ids(ledger.of(device(1))), [3]);

        // The first GPU goes, the second takes its place.
        ledger.follow(|d| (d.gpu == 1).then(|| device(0)));
        assert_eq!(ids(ledger.all().iter()), [1, 3, 5]);
        assert_eq!(ids(ledger.of(device(0))), [3]);
        assert_eq!(ids(ledger.of(device(1))), [0u64; 0]);
    }

    #[test]
    fn only_the_last_healed_ones_are_remembered() {
        let mut ledger = Ledger::default();
        let most = HEALED_KEPT as u64;
        for id in 1..=most + 10 {
            ledger.push(fault(id, 0, id == 3));
        }
        ledger.trim();
        let kept = ids(ledger.all().iter());
        assert_eq!(kept.len(), HEALED_KEPT + 1);
        assert_eq!(kept[..2], [3, 11]);
        ledger.heal(|_| true);
        ledger.trim();
        assert_eq!(
            ids(ledger.all().iter()),
            (11..=most + 10).collect::<Vec<_>>()
        );
        for id in 1..=3 * SURPLUS as u64 {
            ledger.push(fault(most + 10 + id, 0, false));
        }
        assert!(ledger.all().len() <= HEALED_KEPT + SURPLUS + 1);
    }
}
