//! MIG: what a GPU can be cut into, what it is cut into, and cutting it.

mod change;
mod compute;

pub use change::*;
pub use compute::*;
use mirage_state::layout::{GpuProfile, Instance, flags, text};

use crate::abi::{
    DeviceAttributes, GpuInstanceInfo, GpuProfileInfo, GpuProfileInfoV2, GpuProfileInfoV3,
    Placement, fixed,
};
use crate::arg::{Out, Versioned};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, MigDevice, Target, gpu_instance_handle};
use crate::handle::Handle;

/// GPU-instance profiles NVML numbers.
const PROFILES: u32 = 18;

/// Refuses GPUs that can never do MIG.
fn capable(gpu: &Gpu) -> Answer {
    if gpu.board().max_mig_instances > 0 {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// Refuses GPUs whose MIG mode is off.
fn enabled(gpu: &Gpu) -> Answer {
    if gpu.mig() {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// `nvmlDeviceGetMigMode`.
pub fn mig_mode(gpu: Gpu, current: Out<u32>, pending: Out<u32>) -> Answer {
    capable(&gpu)?;
    current.set(gpu.mig().into());
    pending.set(gpu.flag(flags::MIG_PENDING).into());
    Ok(())
}

/// `nvmlDeviceGetMaxMigDeviceCount`: none while MIG is off.
pub fn max_mig_device_count(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(if gpu.mig() {
        gpu.board().max_mig_instances
    } else {
        0
    });
    Ok(())
}

/// The number a client knows a MIG device by: where only some are visible, they are counted anew.
pub fn visible_index(gpu: &Gpu, index: u32) -> u32 {
    let session = gpu.session;
    session.tables(|tables| {
        let mut hidden = false;
        let mut before = 0;
        for other in tables
            .instances()
            .filter(|i| i.gpu as usize == gpu.index && i.ci != u32::MAX)
        {
            if !session.shows(&other) {
                hidden = true;
            } else if other.index < index {
                before += 1;
            }
        }
        if hidden { before } else { index }
    })
}

/// `nvmlDeviceGetMigDeviceHandleByIndex`: an empty slot is 6.
pub fn mig_device_handle_by_index(gpu: Gpu, index: u32, out: Out<Handle>) -> Answer {
    enabled(&gpu)?;
    if index >= gpu.board().max_mig_instances {
        return Err(Fault::InvalidArgument);
    }
    let here = |i: &Instance| {
        i.gpu as usize == gpu.index && i.ci != u32::MAX && visible_index(&gpu, i.index) == index
    };
    let instance = gpu.session.find_instance(here).ok_or(Fault::NotFound)?;
    out.set(gpu.mig_handle(&instance));
    Ok(())
}

/// `nvmlDeviceIsMigDeviceHandle`.
pub fn is_mig_device_handle(target: Target, out: Out<u32>) -> Answer {
    out.set(matches!(target, Target::Mig(_)).into());
    Ok(())
}

/// `nvmlDeviceGetDeviceHandleFromMigDeviceHandle`.
pub fn device_handle_from_mig_device_handle(target: Target, out: Out<Handle>) -> Answer {
    match target {
        Target::Gpu(_) => Err(Fault::InvalidArgument),
        Target::Mig(device) => {
            out.set(device.gpu.handle());
            Ok(())
        }
    }
}

/// `nvmlDeviceGetGpuInstanceId`.
pub fn gpu_instance_id(target: Target, out: Out<u32>) -> Answer {
    out.set(target.mig()?.instance.gi);
    Ok(())
}

/// `nvmlDeviceGetComputeInstanceId`.
pub fn compute_instance_id(target: Target, out: Out<u32>) -> Answer {
    out.set(target.mig()?.instance.ci);
    Ok(())
}

/// `nvmlDeviceGetAttributes`: the six words the struct once had.
pub fn attributes(target: Target, out: Out<[u32; 6]>) -> Answer {
    let all = describe(target.mig()?)?;
    out.set([
        all.sm_count,
        all.copy_engines,
        all.decoders,
        all.encoders,
        all.jpegs,
        all.ofas,
    ]);
    Ok(())
}

/// `nvmlDeviceGetAttributes_v2`.
pub fn attributes_v2(target: Target, out: Out<DeviceAttributes>) -> Answer {
    out.set(describe(target.mig()?)?);
    Ok(())
}

fn describe(device: &MigDevice) -> Result<DeviceAttributes, Fault> {
    let profile = device.profile()?;
    let compute = device.compute_profile()?;
    Ok(DeviceAttributes {
        sm_count: compute.sm_count,
        copy_engines: compute.shared_copy_engines,
        decoders: compute.shared_decoders,
        encoders: compute.shared_encoders,
        jpegs: compute.shared_jpeg_engines,
        ofas: compute.shared_ofa_engines,
        gi_slices: profile.slices,
        ci_slices: compute.slices,
        memory_mib: profile.memory >> 20,
    })
}

/// The profile NVML numbers so.
fn by_index<'s>(gpu: &Gpu<'s>, index: u32) -> Result<&'s GpuProfile, Fault> {
    if index >= PROFILES {
        return Err(Fault::InvalidArgument);
    }
    gpu.profiles()
        .iter()
        .find(|profile| profile.index == index)
        .ok_or(Fault::NotSupported)
}

/// The profile with this id.
fn by_id<'s>(gpu: &Gpu<'s>, id: u32) -> Result<&'s GpuProfile, Fault> {
    gpu.profiles()
        .iter()
        .find(|profile| profile.id == id)
        .ok_or(Fault::NotSupported)
}

/// `nvmlDeviceGetGpuInstanceProfileInfo`.
pub fn gpu_instance_profile_info(gpu: Gpu, index: u32, out: Out<GpuProfileInfo>) -> Answer {
    let profile = by_index(&gpu, index)?;
    out.set(GpuProfileInfo {
        id: profile.id,
        p2p: profile.p2p,
        slices: profile.slices,
        instances: profile.max_instances,
        sm_count: profile.sm_count,
        copy_engines: profile.copy_engines,
        decoders: profile.decoders,
        encoders: profile.encoders,
        jpegs: profile.jpeg_engines,
        ofas: profile.ofa_engines,
        memory_mib: profile.memory >> 20,
    });
    Ok(())
}

/// `nvmlDeviceGetGpuInstanceProfileInfoV`.
pub fn gpu_instance_profile_info_v(gpu: Gpu, index: u32, out: Out<u32>) -> Answer {
    known_version(out)?;
    profile_info(by_index(&gpu, index)?, out);
    Ok(())
}

/// `nvmlDeviceGetGpuInstanceProfileInfoByIdV`.
pub fn gpu_instance_profile_info_by_id(gpu: Gpu, id: u32, out: Out<u32>) -> Answer {
    known_version(out)?;
    profile_info(by_id(&gpu, id)?, out);
    Ok(())
}

fn known_version(out: Out<u32>) -> Answer {
    match out.get() {
        GpuProfileInfoV2::WORD | GpuProfileInfoV3::WORD => Ok(()),
        _ => Err(Fault::VersionMismatch),
    }
}

/// `MIG 1g.5gb`, as profiles are called in text.
fn long_name(name: &[u8]) -> [u8; 96] {
    let mut long = fixed("MIG ");
    let name = text(name).as_bytes();
    long[4..4 + name.len()].copy_from_slice(name);
    long
}

fn profile_info(profile: &GpuProfile, out: Out<u32>) {
    let version = out.get();
    let name = long_name(&profile.name);
    let memory_mib = profile.memory >> 20;
    if version == GpuProfileInfoV2::WORD {
        out.cast().set(GpuProfileInfoV2 {
            version,
            id: profile.id,
            p2p: profile.p2p,
            slices: profile.slices,
            instances: profile.max_instances,
            sm_count: profile.sm_count,
            copy_engines: profile.copy_engines,
            decoders: profile.decoders,
            encoders: profile.encoders,
            jpegs: profile.jpeg_engines,
            ofas: profile.ofa_engines,
            pad: 0,
            memory_mib,
            name,
        });
    } else {
        let graphics = matches!(profile.index, 10..=12 | 17);
        out.cast().set(GpuProfileInfoV3 {
            version,
            id: profile.id,
            slices: profile.slices,
            instances: profile.max_instances,
            sm_count: profile.sm_count,
            copy_engines: profile.copy_engines,
            decoders: profile.decoders,
            encoders: profile.encoders,
            jpegs: profile.jpeg_engines,
            ofas: profile.ofa_engines,
            memory_mib,
            name,
            capabilities: u32::from(profile.p2p != 0) | u32::from(graphics) << 1,
            pad: 0,
        });
    }
}

/// The places a bit mask names.
fn places(mask: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |start| mask >> start & 1 != 0)
}

/// Bits `start..start + size`.
fn span(start: u32, size: u32) -> u64 {
    let ones = 1_u64.checked_shl(size).map_or(u64::MAX, |bit| bit - 1);
    ones.checked_shl(start).unwrap_or(0)
}

/// Writes placements; the caller's buffer is as large as the profile allows, or NULL.
fn write_placements(mask: u64, size: u32, to: *mut Placement, count: Out<u32>) -> Answer {
    let mut written = 0;
    for start in places(mask) {
        if !to.is_null() {
            crate::arg::out(to)?
                .nth(written)
                .set(Placement { start, size });
        }
        written += 1;
    }
    count.set(written as u32);
    Ok(())
}

/// `nvmlDeviceGetGpuInstancePossiblePlacements` and its second form.
pub fn possible_placements(gpu: Gpu, id: u32, to: *mut Placement, count: Out<u32>) -> Answer {
    capable(&gpu)?;
    let profile = by_id(&gpu, id)?;
    write_placements(profile.placements, profile.placement_size, to, count)
}

/// Hands each GPU instance of a GPU to `each`, once.
fn each_gpu_instance(gpu: &Gpu, each: impl FnMut(&Instance)) {
    // The tables may be read more than once; a copy of what matters makes `each` run once.
    let mut found = [None; 64];
    gpu.session.tables(|tables| {
        found = [None; 64];
        let shown = |i: &Instance| i.gpu as usize == gpu.index && gpu.session.shows(i);
        for instance in tables.instances().filter(shown) {
            if let Some(slot) = found.get_mut(instance.gi as usize) {
                slot.get_or_insert(instance);
            }
        }
    });
    found.iter().flatten().for_each(each);
}

/// How often more a thing of `size` fits at the places of `mask` when `taken` is taken.
fn fits(mask: u64, size: u32, mut taken: u64) -> u32 {
    let mut count = 0;
    for start in places(mask) {
        let wanted = span(start, size);
        if taken & wanted == 0 {
            taken |= wanted;
            count += 1;
        }
    }
    count
}

/// `nvmlDeviceGetGpuInstanceRemainingCapacity`: limited by memory slices, compute slices and the profile's own number.
pub fn remaining_capacity(gpu: Gpu, id: u32, out: Out<u32>) -> Answer {
    enabled(&gpu)?;
    let profile = by_id(&gpu, id)?;
    let slices = gpu
        .profiles()
        .iter()
        .map(|profile| profile.slices)
        .max()
        .unwrap_or_default();
    let (mut taken, mut used, mut same) = (0, 0, 0);
    each_gpu_instance(&gpu, |instance| {
        if let Some(its) = gpu.session.gpu_profile(instance.gpu_profile) {
            taken |= span(instance.start, its.placement_size);
            used += its.slices;
            same += u32::from(its.id == id);
        }
    });
    let by_slices = slices.saturating_sub(used) / profile.slices.max(1);
    let by_number = profile.max_instances.saturating_sub(same);
    let by_place = fits(profile.placements, profile.placement_size, taken);
    out.set(by_place.min(by_slices).min(by_number));
    Ok(())
}

/// `nvmlDeviceGetGpuInstances`: the count is output only.
pub fn gpu_instances(gpu: Gpu, id: u32, to: Out<Handle>, count: Out<u32>) -> Answer {
    enabled(&gpu)?;
    by_id(&gpu, id).map_err(|_| Fault::InvalidArgument)?;
    let mut written = 0;
    each_gpu_instance(&gpu, |instance| {
        let profile = gpu.session.gpu_profile(instance.gpu_profile);
        if profile.is_some_and(|profile| profile.id == id) {
            to.nth(written).set(gpu_instance_handle(&instance.into()));
            written += 1;
        }
    });
    count.set(written as u32);
    Ok(())
}

/// `nvmlDeviceGetGpuInstanceById`.
pub fn gpu_instance_by_id(gpu: Gpu, id: u32, out: Out<Handle>) -> Answer {
    enabled(&gpu)?;
    out.set(gpu_instance_of(&gpu, id).ok_or(Fault::NotFound)?);
    Ok(())
}

fn gpu_instance_of(gpu: &Gpu, id: u32) -> Option<Handle> {
    let here = |i: &Instance| i.gpu as usize == gpu.index && i.gi == id;
    let instance = gpu.session.find_instance(here)?;
    Some(gpu_instance_handle(&(&instance).into()))
}

/// `nvmlGpuInstanceGetInfo`.
pub fn gpu_instance_info(part: MigDevice, out: Out<GpuInstanceInfo>) -> Answer {
    let profile = part.profile()?;
    out.set(GpuInstanceInfo {
        device: part.gpu.handle(),
        id: part.instance.gi,
        profile_id: profile.id,
        placement: Placement {
            start: part.instance.start,
            size: profile.placement_size,
        },
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_long_as_they_say() {
        assert_eq!(span(0, 8), 0xFF);
        assert_eq!(span(4, 2), 0x30);
        assert_eq!(span(0, 64), u64::MAX);
        assert_eq!(span(64, 1), 0);
    }

    #[test]
    fn what_is_taken_is_not_given_again() {
        // Places of a two-slice profile on eight slices.
        assert_eq!(fits(0b1_0101, 2, 0), 3);
        assert_eq!(fits(0b1_0101, 2, 0b10), 2);
        assert_eq!(fits(0b1, 8, 1 << 7), 0);
    }
}
