//! MIG instances of a GPU: creating, destroying, and what each one is doing.
//!
//! GPU and compute instance ids follow the driver's numbering (`Geometry::instance_id`; the
//! lowest free number for compute instances), so a layout made twice has the same ids twice.

use mirage_model::mig::{ComputeProfile, Geometry, GpuProfile, Placed};

use crate::gpu::Gpu;
use crate::input::{Answer, MigOp, Profile, Refusal};

/// Profiling ratios of a compute instance, parts per million of that instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named as in Readings")]
pub struct Ratios {
    pub gr_engine_ppm: u32,
    pub sm_active_ppm: u32,
    pub sm_occupancy_ppm: u32,
    pub tensor_ppm: u32,
    pub dram_ppm: u32,
    pub fp64_ppm: u32,
    pub fp32_ppm: u32,
    pub fp16_ppm: u32,
    pub int_ppm: u32,
}

/// A compute instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compute {
    /// Its id in its GPU instance.
    pub ci: u32,
    /// Position of its profile in `GpuProfile::compute`.
    pub profile: u32,
    /// First compute slice in its GPU instance.
    pub start: u32,
    /// Compute slices it covers.
    pub size: u32,
    /// Multiprocessors it has.
    pub sm_count: u32,
    /// What it is doing.
    pub ratios: Ratios,
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id on its GPU.
    pub gi: u32,
    /// Position of its profile in `Geometry::profiles`.
    pub profile: u32,
    /// First memory slice.
    pub start: u32,
    /// Memory slices it covers.
    pub size: u32,
    /// Multiprocessors it has.
    pub sm_count: u32,
    /// Its memory in bytes.
    pub memory_total: u64,
    /// Memory in use in bytes.
    pub memory_used: u64,
    /// Position in `GivenGpu::mig` it came from, where the config may give its id.
    pub given: Option<u32>,
    /// Its compute instances, in order of creation.
    pub compute: Vec<Compute>,
}

/// The MIG side of a GPU: instances in order of creation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mig {
    pub(crate) instances: Vec<Instance>,
}

/// Lays out the MIG devices the config gives; those that do not fit are left out.
pub(crate) fn lay_out_given(gpu: &mut Gpu) {
    let Some(given) = gpu.given.as_ref().and_then(|g| g.mig.clone()) else {
        return;
    };
    if apply(gpu, "", &MigOp::Enable(true)).is_err() {
        return;
    }
    for (number, instance) in given.iter().enumerate() {
        let create = MigOp::CreateGi {
            profile: Profile::Name(instance.profile.clone()),
            start: instance.start,
        };
        let Ok(Answer::GpuInstance { gi, .. }) = apply(gpu, "", &create) else {
            continue;
        };
        let fill = MigOp::CreateCi {
            gi,
            profile: None,
            start: None,
        };
        // The profile that fills a fresh GPU instance always fits.
        let _ = apply(gpu, "", &fill);
        if let Some(made) = gpu.mig.as_mut().and_then(|mig| mig.instances.last_mut()) {
            made.given = u32::try_from(number).ok();
        }
    }
}

/// Applies one change to `gpu`, which errors call `device`.
pub(crate) fn apply(gpu: &mut Gpu, device: &str, op: &MigOp) -> Result<Answer, Refusal> {
    let board = gpu.board.clone();
    let Some(geometry) = &board.mig else {
        return Err(Refusal::NotSupported {
            what: "MIG",
            device: device.into(),
            why: format!("{} has no MIG", board.name),
        });
    };
    if let MigOp::Enable(on) = op {
        return Ok(enable(gpu, *on));
    }
    let tasks: Vec<(u32, u32)> = gpu
        .tasks
        .iter()
        .filter_map(|task| task.instance)
        .map(|(gi, ci)| (u32::from(gi), u32::from(ci)))
        .collect();
    let Some(mig) = gpu.mig.as_deref_mut() else {
        return Err(Refusal::NotSupported {
            what: "changing MIG instances",
            device: device.into(),
            why: "MIG mode is off".into(),
        });
    };
    match op {
        MigOp::Enable(_) => Ok(Answer::Done),
        MigOp::CreateGi { profile, start } => create_gi(mig, geometry, device, profile, *start),
        MigOp::CreateCi { gi, profile, start } => {
            let instance = find(mig, device, *gi)?;
            create_ci(instance, geometry, device, profile.as_ref(), *start)
        }
        MigOp::DestroyGi { gi } => {
            let instance = find(mig, device, *gi)?;
            if !instance.compute.is_empty() {
                let by = format!("{} compute instances", instance.compute.len());
                return Err(in_use("destroying a GPU instance", device, by));
            }
            mig.instances.retain(|i| i.gi != *gi);
            Ok(Answer::Done)
        }
        MigOp::DestroyCi { gi, ci } => {
            let instance = find(mig, device, *gi)?;
            if !instance.compute.iter().any(|c| c.ci == *ci) {
                return Err(Refusal::NotFound {
                    what: format!("compute instance {ci} of GPU instance {gi} on {device}"),
                });
            }
            let users = tasks.iter().filter(|&&at| at == (*gi, *ci)).count();
            if users > 0 {
                let by = format!("{users} processes");
                return Err(in_use("destroying a compute instance", device, by));
            }
            instance.compute.retain(|c| c.ci != *ci);
            Ok(Answer::Done)
        }
    }
}

/// Switches MIG mode, at once on a free GPU; one in use takes it as pending.
fn enable(gpu: &mut Gpu, on: bool) -> Answer {
    gpu.readings.mig_pending = on;
    if gpu.mig.is_some() != on && !gpu.tasks.is_empty() {
        return Answer::InUse;
    }
    settle(gpu);
    Answer::Done
}

/// Puts the pending MIG mode in force; returns whether that is another one.
pub(crate) fn settle(gpu: &mut Gpu) -> bool {
    let on = gpu.readings.mig_pending;
    if gpu.mig.is_some() == on {
        return false;
    }
    gpu.mig = on.then(Box::default);
    gpu.readings.mig = on;
    true
}

fn create_gi(
    mig: &mut Mig,
    geometry: &Geometry,
    device: &str,
    wanted: &Profile,
    start: Option<u32>,
) -> Result<Answer, Refusal> {
    let what = "creating a GPU instance";
    let (position, profile) = gpu_profile(geometry, wanted).ok_or_else(|| Refusal::NotFound {
        what: format!("GPU-instance profile {} on {device}", named(wanted)),
    })?;
    let existing: Vec<Placed> = mig
        .instances
        .iter()
        .filter_map(|i| {
            let profile = geometry.profiles.get(i.profile as usize)?;
            Some(Placed {
                profile_id: profile.id,
                start: i.start,
            })
        })
        .collect();
    if let Some(start) = start.filter(|s| !profile.placement_starts.contains(s)) {
        return Err(Refusal::Invalid {
            what: format!("{what} on {device}"),
            why: format!(
                "{} cannot begin at memory slice {start}, only at {:?}",
                profile.name, profile.placement_starts
            ),
        });
    }
    let possible = geometry.possible_placements(&existing, profile);
    let chosen = match start {
        Some(start) => possible.contains(&start).then_some(start),
        None => geometry.place(&existing, profile),
    };
    let Some(start) = chosen else {
        return Err(Refusal::InsufficientResources {
            what,
            device: device.into(),
            why: format!(
                "no room for {} beside {} others",
                profile.name,
                existing.len()
            ),
        });
    };
    let gi = geometry.instance_id(profile, start);
    mig.instances.push(Instance {
        gi,
        profile: position,
        start,
        size: profile.placement_size,
        sm_count: profile.sm_count,
        memory_total: profile.memory_mib.saturating_mul(1 << 20),
        memory_used: 0,
        given: None,
        compute: Vec::new(),
    });
    Ok(Answer::GpuInstance { gi, start })
}

fn create_ci(
    instance: &mut Instance,
    geometry: &Geometry,
    device: &str,
    wanted: Option<&Profile>,
    start: Option<u32>,
) -> Result<Answer, Refusal> {
    let what = "creating a compute instance";
    let missing = || Refusal::NotFound {
        what: match wanted {
            Some(wanted) => format!("compute-instance profile {} on {device}", named(wanted)),
            None => format!(
                "a profile that fills GPU instance {} on {device}",
                instance.gi
            ),
        },
    };
    let parent = geometry
        .profiles
        .get(instance.profile as usize)
        .ok_or_else(missing)?;
    let (position, profile) = compute_profile(parent, wanted).ok_or_else(missing)?;
    let existing: Vec<(u32, u32)> = instance.compute.iter().map(|c| (c.start, c.size)).collect();
    let possible = parent.possible_compute(&existing, profile);
    let chosen = match start {
        Some(start) => possible.contains(&start).then_some(start),
        None => possible.first().copied(),
    };
    let Some(start) = chosen else {
        return Err(Refusal::InsufficientResources {
            what,
            device: device.into(),
            why: format!(
                "no room for {} in GPU instance {}",
                profile.name, instance.gi
            ),
        });
    };
    let ci = (0..)
        .find(|id| instance.compute.iter().all(|c| c.ci != *id))
        .unwrap_or(0);
    instance.compute.push(Compute {
        ci,
        profile: position,
        start,
        size: profile.placement_size,
        sm_count: profile.sm_count,
        ratios: Ratios::default(),
    });
    Ok(Answer::ComputeInstance {
        gi: instance.gi,
        ci,
    })
}

fn find<'a>(mig: &'a mut Mig, device: &str, gi: u32) -> Result<&'a mut Instance, Refusal> {
    mig.instances
        .iter_mut()
        .find(|i| i.gi == gi)
        .ok_or_else(|| Refusal::NotFound {
            what: format!("GPU instance {gi} on {device}"),
        })
}

fn in_use(what: &'static str, device: &str, by: String) -> Refusal {
    Refusal::InUse {
        what,
        device: device.into(),
        by,
    }
}

fn gpu_profile<'a>(geometry: &'a Geometry, wanted: &Profile) -> Option<(u32, &'a GpuProfile)> {
    let at = match wanted {
        Profile::Index(index) => geometry.profiles.iter().position(|p| p.index == *index),
        Profile::Id(id) => geometry.profiles.iter().position(|p| p.id == *id),
        Profile::Name(name) => {
            let id = geometry.profile_by_name(name)?.id;
            geometry.profiles.iter().position(|p| p.id == id)
        }
    }?;
    Some((u32::try_from(at).ok()?, geometry.profiles.get(at)?))
}

fn compute_profile<'a>(
    parent: &'a GpuProfile,
    wanted: Option<&Profile>,
) -> Option<(u32, &'a ComputeProfile)> {
    let found = match wanted {
        None => parent.whole(),
        Some(Profile::Index(index)) => parent.compute_by_index(*index),
        Some(Profile::Id(id)) => parent.compute.iter().find(|p| p.id == *id),
        Some(Profile::Name(name)) => parent.compute_by_name(name),
    }?;
    let at = parent.compute.iter().position(|p| p.index == found.index)?;
    Some((u32::try_from(at).ok()?, parent.compute.get(at)?))
}

fn named(profile: &Profile) -> String {
    match profile {
        Profile::Index(index) => format!("with index {index}"),
        Profile::Id(id) => format!("with id {id}"),
        Profile::Name(name) => name.clone(),
    }
}
