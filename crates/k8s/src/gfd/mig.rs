//! Labels of MIG devices.

use std::collections::BTreeMap;

use mirage_model::plan::MigStrategy;
use mirage_state::Image;
use mirage_state::layout::{ComputeProfile, GpuProfile, Instance, text};

use super::{Gpu, Options, Shared, product};

/// A MIG device with what it is made of.
struct Device<'a> {
    board: &'a str,
    gpu: &'a GpuProfile,
    compute: &'a ComputeProfile,
}

impl Device<'_> {
    /// `1g.5gb`, or `1c.2g.10gb` for a part of one.
    fn profile(&self) -> &str {
        if self.is_whole() {
            text(&self.gpu.name)
        } else {
            text(&self.compute.name)
        }
    }

    fn is_whole(&self) -> bool {
        self.compute.slices == self.gpu.slices
    }
}

/// Adds what the strategy wants.
pub(super) fn labels(
    image: &Image,
    gpus: &[Gpu<'_>],
    options: &Options,
    put: &mut dyn FnMut(&str, String),
) {
    match options.strategy {
        MigStrategy::None => {}
        MigStrategy::Single => {
            put("mig.strategy", "single".into());
            single(image, gpus, options, put);
        }
        MigStrategy::Mixed => {
            put("mig.strategy", "mixed".into());
            mixed(image, gpus, options, put);
        }
    }
}

fn single(image: &Image, gpus: &[Gpu<'_>], options: &Options, put: &mut dyn FnMut(&str, String)) {
    let (with, without): (Vec<&Gpu<'_>>, Vec<&Gpu<'_>>) = gpus.iter().partition(|g| g.has_mig);
    let Some(first) = with.first() else {
        return;
    };
    let devices: Vec<Vec<Device<'_>>> = with.iter().map(|gpu| devices(image, gpu)).collect();
    let all: Vec<&Device<'_>> = devices.iter().flatten().collect();
    let profile = all.first().map(|device| device.profile());
    let is_valid = without.is_empty()
        && devices.iter().all(|devices| !devices.is_empty())
        && all.iter().all(|device| Some(device.profile()) == profile);
    match all.first().filter(|_| is_valid) {
        Some(device) => {
            let shared = Shared::of(&options.sharing, super::GPU, false);
            describe("gpu", device, all.len(), &shared, put);
        }
        None => {
            let none = Shared {
                replicas: 0,
                is_shown: false,
            };
            let name = product(first.board);
            put("gpu.product", none.product(&[name, "MIG", "INVALID"]));
            put("gpu.sharing-strategy", none.strategy().into());
            for key in ["gpu.count", "gpu.replicas", "gpu.memory"] {
                put(key, "0".into());
            }
        }
    }
}

fn mixed(image: &Image, gpus: &[Gpu<'_>], options: &Options, put: &mut dyn FnMut(&str, String)) {
    let mut kinds: BTreeMap<String, Vec<Device<'_>>> = BTreeMap::new();
    for device in gpus.iter().flat_map(|gpu| devices(image, gpu)) {
        // Parts of instances are no resource of their own, and labelled all the same.
        let name = format!("mig-{}", device.profile().replace('+', "."));
        kinds.entry(name).or_default().push(device);
    }
    for (name, devices) in &kinds {
        let Some(device) = devices.first() else {
            continue;
        };
        let shared = Shared::of(&options.sharing, &format!("{}{name}", super::PREFIX), false);
        describe(name, device, devices.len(), &shared, put);
    }
}

/// The MIG devices of a GPU.
fn devices<'a>(image: &'a Image, gpu: &Gpu<'a>) -> Vec<Device<'a>> {
    let own = image.instances.iter().filter(|i| i.gpu == gpu.index);
    let whole = own.filter_map(|instance: &Instance| {
        let statics = &image.statics;
        let gpu_profile = statics.gpu_profiles.get(instance.gpu_profile as usize)?;
        let compute = statics
            .compute_profiles
            .get(instance.compute_profile as usize)?;
        Some(Device {
            board: product(gpu.board),
            gpu: gpu_profile,
            compute,
        })
    });
    whole.collect()
}

fn describe(
    name: &str,
    device: &Device<'_>,
    count: usize,
    shared: &Shared,
    put: &mut dyn FnMut(&str, String),
) {
    let mut put = |key: &str, value: String| put(&format!("{name}.{key}"), value);
    let compute = device.compute;
    put(
        "product",
        shared.product(&[device.board, "MIG", device.profile()]),
    );
    put("count", count.to_string());
    put("replicas", shared.replicas.to_string());
    put("sharing-strategy", shared.strategy().into());
    put("memory", (device.gpu.memory >> 20).to_string());
    for (key, value) in [
        ("multiprocessors", compute.sm_count),
        ("slices.gi", device.gpu.slices),
        ("slices.ci", compute.slices),
        ("engines.copy", compute.shared_copy_engines),
        ("engines.decoder", compute.shared_decoders),
        ("engines.encoder", compute.shared_encoders),
        ("engines.jpeg", compute.shared_jpeg_engines),
        ("engines.ofa", compute.shared_ofa_engines),
    ] {
        put(key, value.to_string());
    }
}
