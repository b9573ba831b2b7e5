//! Adds up what workloads want from a GPU, clamps it to what there is, and writes back what each
//! one got. Under MIG every compute instance is clamped on its own.

use std::time::Duration;

use crate::activity::{Want, want};
use crate::chance::{Channel, Noise};
use crate::gpu::{Gpu, Task};
use crate::mig::Ratios;
use crate::workload::WorkloadState;

/// The load on a whole device: shares 0–1, and averages weighted by load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) busy: f64,
    pub(crate) band: f64,
    pub(crate) link: f64,
    /// Power intensity of the mix.
    pub(crate) intensity: f64,
    /// Share of the tensor pipe while busy.
    pub(crate) tensor: f64,
    pub(crate) memory: u64,
}

impl Load {
    /// Bandwidth does not wait for the clock: the memory is the bottleneck.
    pub(crate) fn memory_bound(&self) -> bool {
        self.band >= self.busy
    }

    /// Adds a place's load, the place being this share of the device.
    fn add(&mut self, place: &Load, compute_share: f64, memory_share: f64) {
        let busy = place.busy * compute_share;
        let sum = self.busy + busy;
        if sum > 0.0 {
            let old = self.busy / sum;
            self.intensity = self.intensity * old + place.intensity * (1.0 - old);
            self.tensor = self.tensor * old + place.tensor * (1.0 - old);
        }
        self.busy = sum.min(1.0);
        self.band = (self.band + place.band * memory_share).min(1.0);
        self.link = (self.link + place.link * compute_share).min(1.0);
        self.memory += place.memory;
    }
}

/// A workload that found no memory left, by slot.
pub(crate) type Overflows = Vec<u32>;

/// Takes the load of all tasks of `gpu` at `now`.
pub(crate) fn gather(
    gpu: &mut Gpu,
    workloads: &[Option<WorkloadState>],
    noise: &Noise,
    now: Duration,
    overflows: &mut Overflows,
) -> Load {
    let capacity = gpu.memory_capacity();
    let mut load = Load::default();
    let Some(mig) = gpu.mig.as_deref_mut() else {
        let place = fill(
            &mut gpu.tasks,
            |_| true,
            workloads,
            noise,
            now,
            capacity,
            overflows,
        );
        load.add(&place, 1.0, 1.0);
        apportion(&mut gpu.tasks, load.busy, |_| 1.0);
        return load;
    };
    let all_sms = f64::from(gpu.board.sm_count.max(1));
    let slices = gpu.board.mig.as_ref().map_or(1, |g| g.memory_slices.max(1));
    for instance in &mut mig.instances {
        let memory_share = f64::from(instance.size) / f64::from(slices);
        let gi_sms: u32 = instance.compute.iter().map(|ci| ci.sm_count).sum();
        instance.memory_used = 0;
        for ci in &mut instance.compute {
            let here = (instance.gi as u8, ci.ci as u8);
            // Compute instances share the memory of their GPU instance.
            let rest = instance.memory_total.saturating_sub(instance.memory_used);
            let mut place = fill(
                &mut gpu.tasks,
                |task| task.instance == Some(here),
                workloads,
                noise,
                now,
                rest,
                overflows,
            );
            let part = f64::from(ci.sm_count) / f64::from(gi_sms.max(1));
            place.band *= part;
            instance.memory_used += place.memory;
            ci.ratios = ratios(&place, noise);
            load.add(&place, f64::from(ci.sm_count) / all_sms, memory_share);
        }
    }
    let share = |task: &Task| {
        mig.instances
            .iter()
            .flat_map(|gi| gi.compute.iter().map(move |ci| (gi, ci)))
            .find(|(gi, ci)| task.instance == Some((gi.gi as u8, ci.ci as u8)))
            .map_or(0.0, |(_, ci)| f64::from(ci.sm_count) / all_sms)
    };
    apportion(&mut gpu.tasks, load.busy, share);
    load
}

/// Fills one place (a device or an instance) with those tasks that are in it.
fn fill(
    tasks: &mut [Task],
    here: impl Fn(&Task) -> bool,
    workloads: &[Option<WorkloadState>],
    noise: &Noise,
    now: Duration,
    capacity: u64,
    overflows: &mut Overflows,
) -> Load {
    let mut sum = Load::default();
    for task in tasks.iter_mut().filter(|task| here(task)) {
        let Some(workload) = workloads.get(task.slot as usize).and_then(Option::as_ref) else {
            continue;
        };
        let wander = noise.level_of(workload.salt);
        let Want {
            busy,
            band,
            link,
            memory,
        } = want(workload, now, wander, capacity, &mut task.position);
        let left = capacity.saturating_sub(sum.memory);
        if memory > left {
            overflows.push(task.slot);
        }
        task.memory = memory.min(left);
        task.peak_memory = task.peak_memory.max(task.memory);
        (task.busy, task.band, task.link) = (busy as f32, band as f32, link as f32);
        sum.memory += task.memory;
        sum.busy += busy;
        sum.band += band;
        sum.link += link;
        sum.intensity += busy * workload.shape.intensity;
        sum.tensor += busy * workload.shape.tensor;
    }
    if sum.busy > 0.0 {
        sum.intensity /= sum.busy;
        sum.tensor /= sum.busy;
    }
    let over = |x: f64| if x > 1.0 { 1.0 / x } else { 1.0 };
    let scale = (over(sum.busy), over(sum.band), over(sum.link));
    if scale != (1.0, 1.0, 1.0) {
        for task in tasks.iter_mut().filter(|task| here(task)) {
            task.busy *= scale.0 as f32;
            task.band *= scale.1 as f32;
            task.link *= scale.2 as f32;
        }
    }
    sum.busy = sum.busy.min(1.0);
    sum.band = sum.band.min(1.0);
    sum.link = sum.link.min(1.0);
    sum
}

fn apportion(tasks: &mut [Task], busy: f64, share: impl Fn(&Task) -> f64) {
    for task in tasks {
        let own = f64::from(task.busy) * share(task);
        task.part = if busy > 0.0 {
            (own / busy).min(1.0) as f32
        } else {
            0.0
        };
    }
}

/// Parts per million of a share.
pub(crate) fn ppm(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 1e6).round() as u32
}

/// What the profiling counters of a place show under this load.
pub(crate) fn ratios(load: &Load, noise: &Noise) -> Ratios {
    let filled = 0.90 + 0.08 * noise.level(Channel::Occupancy);
    let active = load.busy * filled;
    let tensor = active * load.tensor;
    let vector = active - tensor;
    Ratios {
        gr_engine_ppm: ppm(load.busy),
        sm_active_ppm: ppm(active),
        sm_occupancy_ppm: ppm(active * (0.35 + 0.25 * noise.level(Channel::Occupancy))),
        tensor_ppm: ppm(tensor),
        dram_ppm: ppm(load.band),
        fp64_ppm: ppm(vector * 0.02),
        fp32_ppm: ppm(vector * 0.45),
        fp16_ppm: ppm(vector * 0.15),
        int_ppm: ppm(vector * 0.25),
    }
}
