//! Cutting a GPU: MIG mode, GPU instances and compute instances, all done by the engine.

use mirage_state::layout::Instance;

use super::{by_id, capable, enabled, places};
use crate::abi::Placement;
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::control::{Value, request};
use crate::device::{Gpu, MigDevice, Part, compute_instance_handle, gpu_instance_handle};
use crate::handle::Handle;
use crate::session;

/// `nvmlDeviceSetMigMode`: two results, that of the call and that of the activation.
pub fn set_mig_mode(gpu: Gpu, mode: u32, activation: Out<u32>) -> Answer {
    capable(&gpu)?;
    let reply = request(&gpu, "set_mig", &[("on", Value::Flag(mode == 1))])?;
    activation.set(reply.number("activation").unwrap_or(0));
    Ok(())
}

/// A placement the profile knows.
fn checked(mask: u64, size: u32, asked: Placement) -> Result<Value, Fault> {
    let known = asked.size == size && places(mask).any(|start| start == asked.start);
    if known {
        Ok(Value::Number(asked.start))
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// The record of a new instance. The engine may have moved to a larger file to make room, so the state of now is asked.
fn fresh(wanted: impl Fn(&Instance) -> bool) -> Result<Instance, Fault> {
    session::with(|session| session.find_instance(&wanted).ok_or(Fault::Unknown))
}

/// `nvmlDeviceCreateGpuInstance`.
pub fn create_gpu_instance(gpu: Gpu, id: u32, out: Out<Handle>) -> Answer {
    create_gpu(&gpu, id, None, out)
}

/// `nvmlDeviceCreateGpuInstanceWithPlacement`.
pub fn create_gpu_instance_with_placement(
    gpu: Gpu,
    id: u32,
    placement: Out<Placement>,
    out: Out<Handle>,
) -> Answer {
    create_gpu(&gpu, id, Some(placement.get()), out)
}

fn create_gpu(gpu: &Gpu, id: u32, at: Option<Placement>, out: Out<Handle>) -> Answer {
    enabled(gpu)?;
    let profile = by_id(gpu, id)?;
    let start = match at {
        Some(at) => checked(profile.placements, profile.placement_size, at)?,
        None => Value::Null,
    };
    let args = [("profile", Value::Number(profile.index)), ("start", start)];
    let made = request(gpu, "create_gi", &args)?
        .number("gi")
        .ok_or(Fault::Unknown)?;
    let instance = fresh(|i| i.gpu as usize == gpu.index && i.gi == made)?;
    out.set(gpu_instance_handle(&Part::from(&instance)));
    Ok(())
}

/// `nvmlGpuInstanceDestroy`: one that still has compute instances is in use.
pub fn destroy_gpu_instance(part: MigDevice) -> Answer {
    let gi = part.instance.gi;
    let holds = |i: &Instance| (i.gpu, i.gi) == (part.instance.gpu, gi) && i.ci != u32::MAX;
    if part.gpu.session.find_instance(holds).is_some() {
        return Err(Fault::InUse);
    }
    request(&part.gpu, "destroy_gi", &[("gi", Value::Number(gi))]).map(drop)
}

/// `nvmlGpuInstanceCreateComputeInstance`.
pub fn create_compute_instance(part: MigDevice, id: u32, out: Out<Handle>) -> Answer {
    create_compute(&part, id, None, out)
}

/// `nvmlGpuInstanceCreateComputeInstanceWithPlacement`.
pub fn create_compute_instance_with_placement(
    part: MigDevice,
    id: u32,
    placement: Out<Placement>,
    out: Out<Handle>,
) -> Answer {
    create_compute(&part, id, Some(placement.get()), out)
}

fn create_compute(part: &MigDevice, id: u32, at: Option<Placement>, out: Out<Handle>) -> Answer {
    let profile = super::compute::by_id(part, id)?;
    let start = match at {
        Some(at) => checked(profile.placements, profile.placement_size, at)?,
        None => Value::Null,
    };
    let gi = part.instance.gi;
    let args = [
        ("gi", Value::Number(gi)),
        ("profile", Value::Number(profile.index)),
        ("start", start),
    ];
    let made = request(&part.gpu, "create_ci", &args)?
        .number("ci")
        .ok_or(Fault::Unknown)?;
    let gpu = part.gpu.index;
    let instance = fresh(|i| (i.gpu as usize, i.gi, i.ci) == (gpu, gi, made))?;
    out.set(compute_instance_handle(gpu, &instance));
    Ok(())
}

/// `nvmlComputeInstanceDestroy`.
pub fn destroy_compute_instance(part: MigDevice) -> Answer {
    let Part { gi, ci, .. } = part.instance;
    let args = [("gi", Value::Number(gi)), ("ci", Value::Number(ci))];
    request(&part.gpu, "destroy_ci", &args).map(drop)
}
