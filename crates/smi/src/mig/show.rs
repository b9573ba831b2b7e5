//! The tables of profiles and instances.

use std::io::Write;

use nvidia_ml::client::{
    ComputeInstance, ComputeInstanceInfo, ComputeProfileInfoV2, GpuInstance, GpuInstanceInfo,
    GpuProfileInfoV2, chars,
};

use super::{Action, nothing};
use crate::Stop;
use crate::gpus::Gpu;

/// A framed table: a title, headings, and rows of one or two lines with a rule after each.
struct Frame {
    width: usize,
}

impl Frame {
    fn open(&self, lines: &[&str], out: &mut Vec<u8>) -> Result<(), Stop> {
        self.rule(out)?;
        for line in lines {
            self.line(line, out)?;
        }
        writeln!(out, "|{}|", "=".repeat(self.width))?;
        Ok(())
    }

    fn line(&self, text: &str, out: &mut Vec<u8>) -> Result<(), Stop> {
        let width = self.width;
        writeln!(out, "|{text:<width$}|")?;
        Ok(())
    }

    fn rule(&self, out: &mut Vec<u8>) -> Result<(), Stop> {
        writeln!(out, "+{}+", "-".repeat(self.width))?;
        Ok(())
    }
}

pub(super) fn gpu_profiles(gpus: &[Gpu], out: &mut Vec<u8>) -> Result<(), Stop> {
    let frame = Frame { width: 77 };
    frame.open(
        &[
            " GPU instance profiles:",
            " GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  ",
            "                              Free/Total   GiB              CE    JPEG  OFA  ",
        ],
        out,
    )?;
    for gpu in gpus {
        for profile in gpu.device.gpu_profiles() {
            let free = gpu.device.remaining(profile.id)?;
            let memory = format!("{:.2}", profile.memory_mib as f64 / 1024.0);
            let p2p = if profile.p2p == 0 { "No" } else { "Yes" };
            frame.line(
                &format!(
                    "{:>4}  {:<18}{:>2}{free:>6}/{:<9}{memory:<11}{p2p:<7}{:<7}{:<6}{:<4}",
                    gpu.index,
                    chars(&profile.name),
                    profile.id,
                    profile.instances,
                    profile.sm_count,
                    profile.decoders,
                    profile.encoders
                ),
                out,
            )?;
            let GpuProfileInfoV2 {
                copy_engines,
                jpegs,
                ofas,
                ..
            } = profile;
            frame.line(
                &format!("{:60}{copy_engines:>2}     {jpegs:<6}{ofas:<4}", ""),
                out,
            )?;
            frame.rule(out)?;
        }
    }
    Ok(())
}

pub(super) fn gpu_placements(gpus: &[Gpu], out: &mut Vec<u8>) -> Result<(), Stop> {
    for gpu in gpus {
        for profile in gpu.device.gpu_profiles() {
            let places = gpu.device.placements(profile.id)?;
            let starts: Vec<String> = places.iter().map(|p| p.start.to_string()).collect();
            let size = places.first().map_or(0, |place| place.size);
            let word = if places.len() == 1 {
                "Placement "
            } else {
                "Placements"
            };
            writeln!(
                out,
                "GPU {:>2} Profile ID {:>2} {word}: {{{}}}:{size}",
                gpu.index,
                profile.id,
                starts.join(",")
            )?;
        }
    }
    Ok(())
}

/// The GPU instances of a GPU with their profiles, in the order of the profiles.
pub(super) fn instances(
    gpu: &Gpu,
) -> Result<Vec<(GpuInstance, GpuInstanceInfo, GpuProfileInfoV2)>, Stop> {
    let mut found = Vec::new();
    for profile in gpu.device.gpu_profiles() {
        for instance in gpu.device.gpu_instances(profile.id)? {
            found.push((instance, instance.info()?, profile));
        }
    }
    Ok(found)
}

/// The compute instances of a GPU instance with their profiles.
pub(super) fn parts(
    instance: GpuInstance,
) -> Result<Vec<(ComputeInstance, ComputeInstanceInfo, ComputeProfileInfoV2)>, Stop> {
    let mut found = Vec::new();
    for profile in instance.compute_profiles() {
        for part in instance.compute_instances(profile.id)? {
            found.push((part, part.info()?, profile));
        }
    }
    Ok(found)
}

pub(super) fn gpu_instances(gpus: &[Gpu], out: &mut Vec<u8>) -> Result<(), Stop> {
    let frame = Frame { width: 57 };
    let mut rows = Vec::new();
    for gpu in gpus {
        for (_, info, profile) in instances(gpu)? {
            rows.push(format!(
                "{:>4}  {:<22}{:>2}{:>9}{:>11}:{:<6}",
                gpu.index,
                chars(&profile.name),
                profile.id,
                info.id,
                info.placement.start,
                info.placement.size
            ));
        }
    }
    if rows.is_empty() {
        return Err(nothing("GPU instances"));
    }
    frame.open(
        &[
            " GPU instances:",
            " GPU   Name               Profile  Instance   Placement  ",
            "                            ID       ID       Start:Size ",
        ],
        out,
    )?;
    for row in rows {
        frame.line(&row, out)?;
        frame.rule(out)?;
    }
    Ok(())
}

pub(super) fn compute_profiles(
    gpus: &[Gpu],
    action: &Action,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let frame = Frame { width: 86 };
    frame.open(
        &[
            " Compute instance profiles:",
            " GPU     GPU       Name             Profile  Instances   Exclusive       Shared       ",
            "       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  ",
            "         ID                                                          CE    JPEG       ",
        ],
        out,
    )?;
    for gpu in gpus {
        for (instance, info, whole) in instances(gpu)? {
            if !action.wants_gpu_instance(info.id) {
                continue;
            }
            for profile in instance.compute_profiles() {
                let free = instance.remaining(profile.id)?;
                // The profile that fills the instance.
                let star = if profile.slices == whole.slices {
                    "*"
                } else {
                    " "
                };
                frame.line(
                    &format!(
                        "{:>4}{:>7}       {:<20}{:>2}{star}{free:>6}/{:<11}{:>3}{:>9}{:>6}{:>6}   ",
                        gpu.index,
                        info.id,
                        chars(&profile.name),
                        profile.id,
                        profile.instances,
                        profile.sm_count,
                        profile.decoders,
                        profile.encoders,
                        profile.ofas
                    ),
                    out,
                )?;
                let (engines, jpegs) = (profile.copy_engines, profile.jpegs);
                frame.line(&format!("{engines:>71}{jpegs:>6}{:9}", ""), out)?;
                frame.rule(out)?;
            }
        }
    }
    Ok(())
}

pub(super) fn compute_instances(
    gpus: &[Gpu],
    action: &Action,
    out: &mut Vec<u8>,
) -> Result<(), Stop> {
    let frame = Frame { width: 68 };
    let mut rows = Vec::new();
    for gpu in gpus {
        for (instance, info, _) in instances(gpu)? {
            if !action.wants_gpu_instance(info.id) {
                continue;
            }
            for (_, part, profile) in parts(instance)? {
                rows.push(format!(
                    "{:>4}{:>7}       {:<20}{:>2}{:>10}{:>11}:{:<6}",
                    gpu.index,
                    info.id,
                    chars(&profile.name),
                    profile.id,
                    part.id,
                    part.placement.start,
                    part.placement.size
                ));
            }
        }
    }
    if rows.is_empty() {
        return Err(nothing("compute instances"));
    }
    frame.open(
        &[
            " Compute instances:",
            " GPU     GPU       Name             Profile   Instance   Placement  ",
            "       Instance                       ID        ID       Start:Size ",
            "         ID                                                         ",
        ],
        out,
    )?;
    for row in rows {
        frame.line(&row, out)?;
        frame.rule(out)?;
    }
    Ok(())
}
