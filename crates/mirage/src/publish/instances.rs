//! The MIG devices of a node's GPUs.

use mirage_model::identity::instance_uuid;
use mirage_model::plan::NodePlan;
use mirage_sim::{Compute, Gpu, Instance, Ratios};
use mirage_state::Image;
use mirage_state::layout::{self, fixed, text};

/// "None" in every id field.
const NONE: u32 = u32::MAX;

/// Rewrites the instances table.
pub(super) fn refresh(image: &mut Image, plan: &NodePlan, gpus: &[Gpu]) {
    image.instances.clear();
    for (slot, gpu) in gpus.iter().enumerate() {
        if gpu.instances().is_empty() {
            continue;
        }
        let Some(card) = image.cards.get(slot) else {
            continue;
        };
        let Some(board) = image.statics.boards.get(card.board as usize) else {
            continue;
        };
        let given = plan
            .gpus
            .get(slot)
            .and_then(|gpu| gpu.given.as_deref()?.mig.as_deref());
        let parent = Parent {
            slot: u32::try_from(slot).unwrap_or(NONE),
            uuid: text(&card.uuid),
            first_profile: board.gpu_profile_first,
        };
        let mut next = 0;
        for instance in gpu.instances() {
            let profile = parent.first_profile.saturating_add(instance.profile);
            let first_compute = image
                .statics
                .gpu_profiles
                .get(profile as usize)
                .map_or(0, |profile| profile.compute_first);
            if instance.compute.is_empty() {
                image.instances.push(parent.record(instance, profile, None));
            }
            for compute in &instance.compute {
                // The config names MIG devices by GPU instance: its id goes to the first.
                let named = instance.given.filter(|_| compute.ci == 0);
                let uuid = named
                    .and_then(|at| given?.get(at as usize)?.uuid.clone())
                    .unwrap_or_else(|| instance_uuid(parent.uuid, instance.gi, compute.ci));
                let device = Device {
                    compute,
                    uuid,
                    index: next,
                    profile: first_compute.saturating_add(compute.profile),
                };
                image
                    .instances
                    .push(parent.record(instance, profile, Some(&device)));
                next += 1;
            }
        }
    }
}

struct Parent<'a> {
    slot: u32,
    uuid: &'a str,
    first_profile: u32,
}

struct Device<'a> {
    compute: &'a Compute,
    uuid: String,
    index: u32,
    profile: u32,
}

impl Parent<'_> {
    fn record(
        &self,
        instance: &Instance,
        gpu_profile: u32,
        device: Option<&Device<'_>>,
    ) -> layout::Instance {
        let Instance {
            gi,
            profile: _,
            start,
            // The profile says how much it covers and holds.
            size: _,
            sm_count: _,
            memory_total: _,
            memory_used,
            given: _,
            compute: _,
        } = instance;
        let Ratios {
            gr_engine_ppm,
            sm_active_ppm,
            sm_occupancy_ppm,
            tensor_ppm,
            dram_ppm,
            fp64_ppm,
            fp32_ppm,
            fp16_ppm,
            // The record has no room for it.
            int_ppm: _,
        } = device
            .map(|device| device.compute.ratios)
            .unwrap_or_default();
        layout::Instance {
            uuid: device.map_or([0; 48], |device| fixed(&device.uuid)),
            memory_used: *memory_used,
            gpu: self.slot,
            gi: *gi,
            ci: device.map_or(NONE, |device| device.compute.ci),
            gpu_profile,
            compute_profile: device.map_or(NONE, |device| device.profile),
            start: *start,
            compute_start: device.map_or(0, |device| device.compute.start),
            index: device.map_or(NONE, |device| device.index),
            gr_engine_ppm,
            sm_active_ppm,
            sm_occupancy_ppm,
            tensor_ppm,
            dram_ppm,
            fp64_ppm,
            fp32_ppm,
            fp16_ppm,
        }
    }
}
