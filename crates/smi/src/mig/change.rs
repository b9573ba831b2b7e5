//! Making and giving back instances.

use std::io::Write;

use nvidia_ml::client::{GpuInstance, Placement, chars};

use super::show::{instances, parts};
use super::{Action, nothing};
use crate::Stop;
use crate::gpus::Gpu;

/// A profile by number or by name, with or without `MIG ` before it.
fn is_named(asked: &str, id: u32, name: &str) -> bool {
    let bare = |name: &str| name.trim_start_matches("MIG ").to_owned();
    asked.parse() == Ok(id) || bare(asked).eq_ignore_ascii_case(&bare(name))
}

fn no_profile(asked: &str, gpu: &Gpu, list: &str) -> Stop {
    Stop::usage(format!(
        "\"{asked}\" is no profile of GPU {:>2}: `nvidia-smi mig {list}` lists them.",
        gpu.index
    ))
}

/// Creates GPU instances on every GPU, in the order given; `9:4` asks for a place.
pub(super) fn create(
    gpus: &[Gpu],
    profiles: &[String],
    compute: bool,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    if profiles.is_empty() {
        return Err(Stop::usage("Name profiles to create: mig -cgi 9,3g.20gb."));
    }
    for gpu in gpus {
        let known = gpu.device.gpu_profiles();
        for asked in profiles {
            let (name, start) = match asked.split_once(':') {
                None => (asked.as_str(), None),
                Some((name, start)) => {
                    let number = start.parse::<u32>();
                    let number = number.map_err(|_| {
                        Stop::usage(format!("\"{start}\" is not where an instance may start."))
                    })?;
                    (name, Some(number))
                }
            };
            let profile = known
                .iter()
                .find(|profile| is_named(name, profile.id, &chars(&profile.name)))
                .ok_or_else(|| no_profile(asked, gpu, "-lgip"))?;
            let (index, id, name) = (gpu.index, profile.id, chars(&profile.name));
            let place = match start {
                None => None,
                Some(start) => {
                    let places = gpu.device.placements(id)?;
                    let size = places.first().map_or(0, |place| place.size);
                    Some(Placement { start, size })
                }
            };
            let made = gpu.device.create_gpu_instance(id, place).map_err(|code| {
                Stop::refused(
                    code,
                    format!(
                        "Unable to create a GPU instance on GPU {index:>2} using profile {id}: {code}\n\
                         Failed to create GPU instances: {code}"
                    ),
                )
            })?;
            let number = made.info()?.id;
            writeln!(
                out,
                "Successfully created GPU instance ID {number:>2} on GPU {index:>2} using profile {name} (ID {id:>2})"
            )?;
            if compute {
                fill(gpu, made, &[], out)?;
            }
        }
    }
    Ok(())
}

/// Creates compute instances in a GPU instance: those asked for, or the one that fills it.
fn fill(
    gpu: &Gpu,
    instance: GpuInstance,
    profiles: &[String],
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let info = instance.info()?;
    let known = instance.compute_profiles();
    let largest = known.iter().map(|profile| profile.slices).max();
    let wanted: Vec<_> = if profiles.is_empty() {
        let whole = known.iter().find(|profile| Some(profile.slices) == largest);
        whole.into_iter().collect()
    } else {
        let find = |asked: &String| {
            known
                .iter()
                .find(|profile| is_named(asked, profile.id, &chars(&profile.name)))
                .ok_or_else(|| no_profile(asked, gpu, "-lcip"))
        };
        profiles.iter().map(find).collect::<Result<_, _>>()?
    };
    for profile in wanted {
        let (index, id, name) = (gpu.index, profile.id, chars(&profile.name));
        let made = instance.create_compute_instance(id).map_err(|code| {
            Stop::refused(
                code,
                format!(
                    "Unable to create a compute instance on GPU {index:>2} GPU instance ID {:>2} using profile {id}: {code}\n\
                     Failed to create compute instances: {code}",
                    info.id
                ),
            )
        })?;
        writeln!(
            out,
            "Successfully created compute instance ID {:>2} on GPU {index:>2} GPU instance ID {:>2} using profile {name} (ID {id:>2})",
            made.info()?.id,
            info.id
        )?;
    }
    Ok(())
}

pub(super) fn create_compute(
    gpus: &[Gpu],
    profiles: &[String],
    action: &Action,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut any = false;
    for gpu in gpus {
        for (instance, info, _) in instances(gpu)? {
            if action.wants_gpu_instance(info.id) {
                any = true;
                fill(gpu, instance, profiles, out)?;
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(nothing("GPU instances"))
    }
}

pub(super) fn destroy(gpus: &[Gpu], action: &Action, out: &mut Vec<u8>) -> Result<(), Stop> {
    let mut any = false;
    for gpu in gpus {
        for (instance, info, _) in instances(gpu)? {
            if !action.wants_gpu_instance(info.id) {
                continue;
            }
            any = true;
            let (index, id) = (gpu.index, info.id);
            instance.destroy().map_err(|code| {
                Stop::refused(
                    code,
                    format!(
                        "Unable to destroy GPU instance ID {id:>2} from GPU {index:>2}: {code}\n\
                         Failed to destroy GPU instances: {code}"
                    ),
                )
            })?;
            writeln!(
                out,
                "Successfully destroyed GPU instance ID {id:>2} from GPU {index:>2}"
            )?;
        }
    }
    if any {
        Ok(())
    } else {
        Err(nothing("GPU instances"))
    }
}

pub(super) fn destroy_compute(
    gpus: &[Gpu],
    action: &Action,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let mut any = false;
    for gpu in gpus {
        for (instance, info, _) in instances(gpu)? {
            if !action.wants_gpu_instance(info.id) {
                continue;
            }
            for (part, which, _) in parts(instance)? {
                if !action.wants_compute_instance(which.id) {
                    continue;
                }
                any = true;
                let (index, gi, id) = (gpu.index, info.id, which.id);
                part.destroy().map_err(|code| {
                    Stop::refused(
                        code,
                        format!(
                            "Unable to destroy compute instance ID {id:>2} from GPU {index:>2} GPU instance ID {gi:>2}: {code}\n\
                             Failed to destroy compute instances: {code}"
                        ),
                    )
                })?;
                writeln!(
                    out,
                    "Successfully destroyed compute instance ID {id:>2} from GPU {index:>2} GPU instance ID {gi:>2}"
                )?;
            }
        }
    }
    if any {
        Ok(())
    } else {
        Err(nothing("compute instances"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_go_by_number_and_by_name() {
        for asked in ["9", "3g.20gb", "MIG 3g.20gb", "3G.20GB"] {
            assert!(is_named(asked, 9, "MIG 3g.20gb"), "{asked}");
        }
        assert!(!is_named("19", 9, "MIG 3g.20gb"));
        assert!(!is_named("3g", 9, "MIG 3g.20gb"));
    }
}
