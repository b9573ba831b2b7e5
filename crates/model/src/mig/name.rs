//! What MIG profiles are called, and how a name finds its profile.
//!
//! The driver prints `1g.5gb+me`, Kubernetes resources and mig-parted keys cannot carry a
//! `+` and write `1g.5gb.me`, and nvidia-smi puts `MIG ` in front. All three find the
//! profile here.

use std::borrow::Cow;

use super::{ComputeProfile, Geometry, GpuProfile};

/// Attributes a profile name may end in.
const SUFFIXES: [&str; 4] = ["+me.all", "+me", "+gfx", "-me"];

impl Geometry {
    /// The GPU-instance profile called `name`: `1g.5gb`, `1g.5gb+me`, `1g.5gb.me` or
    /// `MIG 1g.5gb`.
    pub fn profile_by_name(&self, name: &str) -> Option<&GpuProfile> {
        let wanted = canonical(name);
        self.profiles.iter().find(|p| p.name == wanted)
    }

    /// The GPU-instance profile with the id `nvidia-smi mig -lgip` prints.
    pub fn profile_by_id(&self, id: u32) -> Option<&GpuProfile> {
        self.profiles.iter().find(|p| p.id == id)
    }

    /// The GPU-instance profile with this `NVML_GPU_INSTANCE_PROFILE_*` index.
    pub fn profile_by_index(&self, index: u32) -> Option<&GpuProfile> {
        self.profiles.iter().find(|p| p.index == index)
    }
}

impl GpuProfile {
    /// The compute-instance profile called `name`: `1c.2g.10gb`, `2g.10gb`, `1c`.
    pub fn compute_by_name(&self, name: &str) -> Option<&ComputeProfile> {
        let wanted = canonical(name);
        self.compute.iter().find(|c| {
            c.name == wanted
                || wanted
                    .strip_suffix('c')
                    .is_some_and(|n| n.parse() == Ok(c.slices))
        })
    }

    /// The compute-instance profile with this `NVML_COMPUTE_INSTANCE_PROFILE_*` index.
    pub fn compute_by_index(&self, index: u32) -> Option<&ComputeProfile> {
        self.compute.iter().find(|c| c.index == index)
    }

    /// The compute-instance profile that fills the GPU instance.
    pub fn whole(&self) -> Option<&ComputeProfile> {
        self.compute.iter().find(|c| c.whole)
    }

    /// The attribute part of the name with its sign: `+me`, `-me`, `+gfx`, or nothing.
    pub fn attributes(&self) -> &str {
        SUFFIXES
            .into_iter()
            .find(|suffix| self.name.ends_with(suffix))
            .unwrap_or("")
    }

    /// The name as a Kubernetes resource carries it: `1g.5gb.me`.
    pub fn resource_name(&self) -> String {
        resource(&self.name)
    }
}

/// A profile name as a Kubernetes resource carries it: `+` becomes `.`.
pub fn resource(name: &str) -> String {
    name.replace('+', ".")
}

/// A profile name as the driver prints it, from any of its spellings.
pub fn canonical(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    let name = name.strip_prefix("MIG ").unwrap_or(name);
    // Only what follows "gb" is an attribute; the dots before it belong to the size.
    match name.find("gb.") {
        Some(at) => {
            let (size, attributes) = name.split_at(at + 2);
            Cow::Owned(format!("{size}+{}", &attributes[1..]))
        }
        None => Cow::Borrowed(name),
    }
}

/// The name NVIDIA's libraries derive from a profile's memory and the board's total.
///
/// Memory is counted in eighths of the board, rounded up, and those eighths are taken of
/// the total in whole GiB. So a board with another total has other names.
pub fn derived(slices: u32, memory_mib: u64, total_mib: u64, attributes: &str) -> String {
    let total_gib = total_mib.div_ceil(1024);
    let eighths = memory_mib.saturating_mul(8).div_ceil(total_mib.max(1));
    // Halves round up, as Go's math.Round does.
    let gb = eighths.saturating_mul(total_gib).saturating_add(4) / 8;
    format!("{slices}g.{gb}gb{attributes}")
}
