//! Compute instances inside a GPU instance.

use mirage_state::layout::{ComputeProfile, Instance, text};

use super::{long_name, span, write_placements};
use crate::abi::{
    ComputeInstanceInfo, ComputeProfileInfo, ComputeProfileInfoV2, ComputeProfileInfoV3, Placement,
};
use crate::arg::{Out, Versioned};
use crate::code::{Answer, Fault};
use crate::device::{MigDevice, compute_instance_handle, gpu_instance_handle};
use crate::handle::Handle;

/// Compute-instance profiles NVML numbers.
const PROFILES: u32 = 9;

/// The compute profiles of a GPU instance.
fn profiles<'s>(part: &MigDevice<'s>) -> Result<&'s [ComputeProfile], Fault> {
    Ok(part.gpu.session.compute_profiles(part.profile()?))
}

pub(super) fn by_id<'s>(part: &MigDevice<'s>, id: u32) -> Result<&'s ComputeProfile, Fault> {
    profiles(part)?
        .iter()
        .find(|profile| profile.id == id)
        .ok_or(Fault::NotSupported)
}

/// A profile by NVML's number; the only engine profile is the shared one.
fn by_index<'s>(
    part: &MigDevice<'s>,
    index: u32,
    engine: u32,
) -> Result<&'s ComputeProfile, Fault> {
    if index >= PROFILES || engine != 0 {
        return Err(Fault::InvalidArgument);
    }
    profiles(part)?
        .iter()
        .find(|profile| profile.index == index)
        .ok_or(Fault::NotSupported)
}

/// `nvmlGpuInstanceGetComputeInstanceProfileInfo`.
pub fn compute_profile_info(
    part: MigDevice,
    index: u32,
    engine: u32,
    out: Out<ComputeProfileInfo>,
) -> Answer {
    let profile = by_index(&part, index, engine)?;
    out.set(ComputeProfileInfo {
        id: profile.id,
        slices: profile.slices,
        instances: profile.max_instances,
        sm_count: profile.sm_count,
        copy_engines: profile.shared_copy_engines,
        decoders: profile.shared_decoders,
        encoders: profile.shared_encoders,
        jpegs: profile.shared_jpeg_engines,
        ofas: profile.shared_ofa_engines,
    });
    Ok(())
}

/// `nvmlGpuInstanceGetComputeInstanceProfileInfoV`.
pub fn compute_profile_info_v(part: MigDevice, index: u32, engine: u32, out: Out<u32>) -> Answer {
    let version = out.get();
    if version != ComputeProfileInfoV2::WORD && version != ComputeProfileInfoV3::WORD {
        return Err(Fault::VersionMismatch);
    }
    let profile = by_index(&part, index, engine)?;
    let whole = &part.profile()?.name;
    let name = if profile.whole != 0 || text(&profile.name).is_empty() {
        whole
    } else {
        &profile.name
    };
    // The second form is the third without its last word.
    let info = ComputeProfileInfoV2 {
        version,
        id: profile.id,
        slices: profile.slices,
        instances: profile.max_instances,
        sm_count: profile.sm_count,
        copy_engines: profile.shared_copy_engines,
        decoders: profile.shared_decoders,
        encoders: profile.shared_encoders,
        jpegs: profile.shared_jpeg_engines,
        ofas: profile.shared_ofa_engines,
        name: long_name(name),
    };
    out.cast().set(info);
    if version == ComputeProfileInfoV3::WORD {
        out.field::<u32>(std::mem::offset_of!(ComputeProfileInfoV3, capabilities))
            .set(0);
    }
    Ok(())
}

/// Hands the compute instances of a GPU instance to `each`, once each.
fn each_instance(part: &MigDevice, each: impl FnMut(&Instance)) {
    let mut found = [None; 16];
    let session = part.gpu.session;
    let here = |i: &Instance| {
        (i.gpu, i.gi) == (part.instance.gpu, part.instance.gi)
            && i.ci != u32::MAX
            && session.shows(i)
    };
    session.tables(|tables| {
        found = [None; 16];
        for instance in tables.instances().filter(here) {
            if let Some(slot) = found.get_mut(instance.ci as usize) {
                slot.get_or_insert(instance);
            }
        }
    });
    found.iter().flatten().for_each(each);
}

/// Compute slices that are taken.
fn taken(part: &MigDevice) -> u64 {
    let mut taken = 0;
    each_instance(part, |instance| {
        if let Some(its) = part.gpu.session.compute_profile(instance.compute_profile) {
            taken |= span(instance.compute_start, its.placement_size);
        }
    });
    taken
}

/// `nvmlGpuInstanceGetComputeInstanceRemainingCapacity`.
pub fn compute_remaining_capacity(part: MigDevice, id: u32, out: Out<u32>) -> Answer {
    let profile = by_id(&part, id)?;
    let by_place = super::fits(profile.placements, profile.placement_size, taken(&part));
    out.set(by_place.min(profile.max_instances));
    Ok(())
}

/// `nvmlGpuInstanceGetComputeInstancePossiblePlacements`: those the profile has, taken or not, as for GPU instances.
pub fn compute_possible_placements(
    part: MigDevice,
    id: u32,
    to: *mut Placement,
    count: Out<u32>,
) -> Answer {
    let profile = by_id(&part, id)?;
    write_placements(profile.placements, profile.placement_size, to, count)
}

/// `nvmlGpuInstanceGetComputeInstances`: the count is output only.
pub fn compute_instances(part: MigDevice, id: u32, to: Out<Handle>, count: Out<u32>) -> Answer {
    by_id(&part, id).map_err(|_| Fault::InvalidArgument)?;
    let mut written = 0;
    each_instance(&part, |instance| {
        let profile = part.gpu.session.compute_profile(instance.compute_profile);
        if profile.is_some_and(|profile| profile.id == id) {
            to.nth(written)
                .set(compute_instance_handle(part.gpu.index, instance));
            written += 1;
        }
    });
    count.set(written as u32);
    Ok(())
}

/// `nvmlGpuInstanceGetComputeInstanceById`.
pub fn compute_instance_by_id(part: MigDevice, id: u32, out: Out<Handle>) -> Answer {
    let mut found = None;
    each_instance(&part, |instance| {
        if instance.ci == id {
            found = Some(compute_instance_handle(part.gpu.index, instance));
        }
    });
    out.set(found.ok_or(Fault::NotFound)?);
    Ok(())
}

fn describe(part: &MigDevice) -> Result<ComputeInstanceInfo, Fault> {
    let profile = part.compute_profile()?;
    Ok(ComputeInstanceInfo {
        device: part.gpu.handle(),
        gpu_instance: gpu_instance_handle(&part.instance),
        id: part.instance.ci,
        profile_id: profile.id,
        placement: Placement {
            start: part.instance.compute_start,
            size: profile.placement_size,
        },
    })
}

/// `nvmlComputeInstanceGetInfo`: the struct once ended before the placement.
pub fn compute_instance_info(part: MigDevice, out: Out<ComputeInstanceInfo>) -> Answer {
    let info = describe(&part)?;
    out.field::<Handle>(0).set(info.device);
    out.field::<Handle>(8).set(info.gpu_instance);
    out.field::<u32>(16).set(info.id);
    out.field::<u32>(20).set(info.profile_id);
    Ok(())
}

/// `nvmlComputeInstanceGetInfo_v2`.
pub fn compute_instance_info_v2(part: MigDevice, out: Out<ComputeInstanceInfo>) -> Answer {
    out.set(describe(&part)?);
    Ok(())
}
