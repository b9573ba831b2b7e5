//! Where instances go: which placements are free, how many more would fit, and which one
//! the driver picks when it is not told.
//!
//! The driver's own choice is not documented, but its transcripts are: seven `1g` land on
//! slices 6, 4, 5, 0, 1, 2, 3; `2g` goes to 4, then 0, then 2; the first `3g` to 4. All of
//! them follow from one rule, used here: take the placement that takes away the fewest
//! placements of any profile, and the lowest start among equals.

use super::{ComputeProfile, Geometry, GpuProfile};

/// A GPU instance that exists: its profile and the memory slice it begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Placed {
    /// Id of its profile (`GpuProfile::id`).
    pub profile_id: u32,
    /// First memory slice.
    pub start: u32,
}

/// Whether `[a, a+an)` and `[b, b+bn)` share a slice.
fn overlaps(a: u32, an: u32, b: u32, bn: u32) -> bool {
    a < b.saturating_add(bn) && b < a.saturating_add(an)
}

/// Engines that instances divide between them; the order does not matter.
fn engines(p: &GpuProfile) -> [u32; 5] {
    [
        p.copy_engines,
        p.decoders,
        p.encoders,
        p.jpeg_engines,
        p.ofa_engines,
    ]
}

impl Geometry {
    /// Memory slices each existing instance covers; unknown profiles cover nothing.
    fn spans<'a>(&'a self, existing: &'a [Placed]) -> impl Iterator<Item = (u32, u32)> + 'a {
        existing.iter().filter_map(|placed| {
            let profile = self.profile_by_id(placed.profile_id)?;
            Some((placed.start, profile.placement_size))
        })
    }

    /// Whether the slices are free, whatever the limits on counts and engines say.
    fn is_free(&self, existing: &[Placed], profile: &GpuProfile, start: u32) -> bool {
        !self
            .spans(existing)
            .any(|(s, n)| overlaps(start, profile.placement_size, s, n))
    }

    /// How many more of `profile` the counts and the shared engines allow.
    ///
    /// Engines are why a second `+me` is refused while slices are free, and why nothing
    /// with a decoder fits beside `+me.all`.
    fn allowance(&self, existing: &[Placed], profile: &GpuProfile) -> u32 {
        let mut left = (self.max_instances as usize).saturating_sub(existing.len());
        let same = existing.iter().filter(|p| p.profile_id == profile.id);
        left = left.min((profile.max_instances as usize).saturating_sub(same.count()));

        let mut free = [0u32; 5];
        for other in &self.profiles {
            for (most, own) in free.iter_mut().zip(engines(other)) {
                *most = (*most).max(own);
            }
        }
        for placed in existing {
            if let Some(other) = self.profile_by_id(placed.profile_id) {
                for (rest, taken) in free.iter_mut().zip(engines(other)) {
                    *rest = rest.saturating_sub(taken);
                }
            }
        }
        for (rest, wanted) in free.into_iter().zip(engines(profile)) {
            if let Some(times) = rest.checked_div(wanted) {
                left = left.min(times as usize);
            }
        }
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Starts where another `profile` could be created now, lowest first.
    pub fn possible_placements(&self, existing: &[Placed], profile: &GpuProfile) -> Vec<u32> {
        if self.allowance(existing, profile) == 0 {
            return Vec::new();
        }
        let mut starts: Vec<u32> = profile
            .placement_starts
            .iter()
            .copied()
            .filter(|&start| self.is_free(existing, profile, start))
            .collect();
        starts.sort_unstable();
        starts
    }

    /// How many more of `profile` could be created beside what exists.
    pub fn remaining_capacity(&self, existing: &[Placed], profile: &GpuProfile) -> u32 {
        // Equal lengths on one line: taking the earliest that fits is the most.
        let mut fitting = 0;
        let mut end = 0;
        for start in self.possible_placements(existing, profile) {
            if fitting == 0 || start >= end {
                fitting += 1;
                end = start + profile.placement_size;
            }
        }
        fitting.min(self.allowance(existing, profile))
    }

    /// The start the driver would choose for another `profile`, if one fits.
    pub fn place(&self, existing: &[Placed], profile: &GpuProfile) -> Option<u32> {
        let harm = |start: u32| {
            self.profiles
                .iter()
                .flat_map(|other| other.placement_starts.iter().map(move |&at| (other, at)))
                .filter(|&(other, at)| {
                    overlaps(start, profile.placement_size, at, other.placement_size)
                        && self.is_free(existing, other, at)
                })
                .count()
        };
        // min_by_key keeps the first of equals, and the starts are sorted.
        self.possible_placements(existing, profile)
            .into_iter()
            .min_by_key(|&start| harm(start))
    }

    /// The id the driver gives a GPU instance: its node in the tree of halves, so 0 is the
    /// whole board and, on boards of eight slices, 1–2, 3–6 and 7–14 the smaller sizes.
    pub fn instance_id(&self, profile: &GpuProfile, start: u32) -> u32 {
        let size = profile.placement_size.max(1);
        (self.memory_slices / size).saturating_sub(1) + start / size
    }
}

impl GpuProfile {
    /// Starts where another `compute` instance could be created inside this GPU instance;
    /// `existing` are (start, size) of those it has.
    pub fn possible_compute(&self, existing: &[(u32, u32)], compute: &ComputeProfile) -> Vec<u32> {
        let mut starts: Vec<u32> = compute
            .placement_starts
            .iter()
            .copied()
            .filter(|&start| {
                !existing
                    .iter()
                    .any(|&(s, n)| overlaps(start, compute.placement_size, s, n))
            })
            .collect();
        starts.sort_unstable();
        starts
    }

    /// How many more `compute` instances would fit into this GPU instance.
    pub fn remaining_compute(&self, existing: &[(u32, u32)], compute: &ComputeProfile) -> u32 {
        let mut fitting = 0;
        let mut end = 0;
        for start in self.possible_compute(existing, compute) {
            if fitting == 0 || start >= end {
                fitting += 1;
                end = start + compute.placement_size;
            }
        }
        fitting.min(compute.max_instances)
    }

    /// The start the driver would choose for another `compute` instance: the lowest.
    pub fn place_compute(&self, existing: &[(u32, u32)], compute: &ComputeProfile) -> Option<u32> {
        self.possible_compute(existing, compute).first().copied()
    }
}
