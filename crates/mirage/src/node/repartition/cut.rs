//! The engine's GPUs cut anew: what is there already stays, what is in use is not touched, and all of it happens or nothing.

use std::collections::BTreeSet;

use mirage_k8s::migconfig::{Device, Ids, Layout, Mapping};
use mirage_k8s::topology::report::Held;
use mirage_model::plan::DeviceRef;
use mirage_sim::{Answer, Gpu, Input, Instance, MigOp, Phase, Profile};
use mirage_state::layout::text;

use crate::engine::Core;

/// Why GPUs are not cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Somebody is in the way, or it cannot be.
    No(String),
    /// Something of a pod that has ended is still there, and will be gone in a moment.
    Soon,
}

/// What is to be done to one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    gpu: u32,
    /// MIG mode, where it changes.
    switch: Option<bool>,
    /// Instances to destroy: id, first memory slice, and the compute instances in it.
    destroy: Vec<(u32, u32, Vec<u32>)>,
    /// Instances to create.
    create: Vec<Device>,
}

/// Where the node is in the plan.
pub(super) fn position(core: &Core, name: &str) -> Result<usize, String> {
    let mut nodes = core.plan().nodes.iter();
    let found = nodes.position(|node| *node.name == *name);
    found.ok_or_else(|| format!("there is no node {name}"))
}

/// What a layout takes; nothing where it is in force.
pub(super) fn steps(core: &Core, node: usize, layout: &Layout) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let gpus = core.world().node(node).map_or(&[][..], |node| node.gpus());
    if let Some(beyond) = layout.gpus.keys().find(|gpu| **gpu as usize >= gpus.len()) {
        return Err(format!(
            "there is no GPU {beyond}, the node has {}",
            gpus.len()
        ));
    }
    for (gpu, index) in gpus.iter().zip(0u32..) {
        let Some(asked) = layout.of(index) else {
            continue;
        };
        let mut wanted = asked
            .place(gpu.board())
            .map_err(|error| error.to_string())?;
        let is_on = gpu.readings().mig;
        let mut destroy = Vec::new();
        for instance in gpu.instances() {
            let same = |device: &Device| {
                asked.enabled
                    && device.start == instance.start
                    && device.instance == instance.gi
                    && is_whole(gpu, instance)
            };
            match wanted.iter().position(same) {
                Some(at) => drop(wanted.remove(at)),
                None => {
                    let parts = instance.compute.iter().map(|part| part.ci).collect();
                    destroy.push((instance.gi, instance.start, parts));
                }
            }
        }
        let step = Step {
            gpu: index,
            switch: (is_on != asked.enabled).then_some(asked.enabled),
            destroy,
            create: wanted,
        };
        if step.switch.is_some() || !step.destroy.is_empty() || !step.create.is_empty() {
            steps.push(step);
        }
    }
    Ok(steps)
}

/// Whether one compute instance fills a GPU instance.
fn is_whole(gpu: &Gpu, instance: &Instance) -> bool {
    let geometry = gpu.board().mig.as_ref();
    let profile = geometry.and_then(|all| all.profiles.get(instance.profile as usize));
    let [only] = instance.compute.as_slice() else {
        return false;
    };
    profile.is_some_and(|profile| {
        let is = profile
            .compute
            .get(only.profile as usize)
            .map(|one| one.index);
        is.is_some() && is == profile.whole().map(|one| one.index)
    })
}

/// Cuts the node's GPUs as a layout says, unless somebody holds what would go.
pub(super) fn apply(
    core: &mut Core,
    name: &str,
    layout: &Layout,
    held: &[Held],
) -> Result<(), Refusal> {
    let node = position(core, name).map_err(Refusal::No)?;
    let steps = steps(core, node, layout).map_err(Refusal::No)?;
    for step in &steps {
        let takes = |one: &&Held| {
            let gone = step
                .destroy
                .iter()
                .any(|(_, start, _)| one.start == Some(*start));
            one.gpu == step.gpu && (step.switch.is_some() || gone)
        };
        if let Some(one) = held.iter().find(takes) {
            let by = &one.by;
            return Err(Refusal::No(format!(
                "GPU {} is in use by pod {}/{} (container {}); it is cut when that has ended",
                step.gpu, by.namespace, by.pod, by.container
            )));
        }
        works(core, node, step)?;
    }
    for step in steps {
        perform(core, node as u32, &step).map_err(Refusal::No)?;
    }
    Ok(())
}

/// Whether something runs on what would go.
fn works(core: &Core, node: usize, step: &Step) -> Result<(), Refusal> {
    let world = core.world();
    let gpus = world.node(node).map_or(&[][..], |node| node.gpus());
    let Some(gpu) = gpus.get(step.gpu as usize) else {
        return Ok(());
    };
    let goes: BTreeSet<u32> = step.destroy.iter().map(|(gi, ..)| *gi).collect();
    let gone: Vec<bool> = gpu
        .mig_devices()
        .map(|(instance, _)| goes.contains(&instance.gi))
        .collect();
    let struck = |device: &DeviceRef| {
        let of_it = device.instance.and_then(|at| gone.get(at as usize));
        (device.node as usize, device.gpu) == (node, step.gpu)
            && (step.switch.is_some() || of_it == Some(&true))
    };
    for workload in world.workloads() {
        let alive = !matches!(workload.phase(), Phase::Ended(_));
        if alive && workload.devices().iter().any(struck) {
            return Err(match workload.owner() {
                Some(_) => Refusal::Soon,
                None => Refusal::No(format!(
                    "GPU {} is in use by workload {}",
                    step.gpu,
                    workload.name()
                )),
            });
        }
    }
    Ok(())
}

fn perform(core: &mut Core, node: u32, step: &Step) -> Result<(), String> {
    let device = DeviceRef {
        node,
        gpu: step.gpu,
        instance: None,
    };
    let mut act = |op: MigOp| {
        let answers = core.apply(&[Input::Mig { device, op }]);
        match answers.into_iter().next() {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(refusal)) => Err(refusal.to_string()),
            None => Err("the engine did not answer".to_owned()),
        }
    };
    for (gi, _, parts) in &step.destroy {
        for ci in parts {
            act(MigOp::DestroyCi { gi: *gi, ci: *ci })?;
        }
        act(MigOp::DestroyGi { gi: *gi })?;
    }
    if let Some(on) = step.switch {
        // A GPU in use only notes the mode for its next reset, and cannot be cut now.
        if act(MigOp::Enable(on))? == Answer::InUse {
            return Err(format!(
                "GPU {} is in use, MIG mode stays as it is",
                step.gpu
            ));
        }
    }
    for wanted in &step.create {
        let made = act(MigOp::CreateGi {
            profile: Profile::Id(wanted.profile_id),
            start: Some(wanted.start),
        })?;
        if let Answer::GpuInstance { gi, .. } = made {
            act(MigOp::CreateCi {
                gi,
                profile: None,
                start: None,
            })?;
        }
    }
    Ok(())
}

/// The answer for a scheduler: which devices there are.
pub(super) fn mapping(core: &Core, name: &str, layout: &Layout) -> String {
    let mut mapping = Mapping::default();
    let snapshot = core.fleet().one(name);
    let image = snapshot.and_then(|snapshot| snapshot.nodes.into_iter().next());
    let plan = core.plan();
    let node = plan.nodes.iter().find(|node| *node.name == *name);
    if let (Some(image), Some(node)) = (image, node) {
        let gpus = node.gpus.iter().zip(image.cards.iter()).zip(0u32..);
        for ((gpu, card), index) in gpus {
            let cut = layout.of(index).filter(|cut| cut.enabled);
            if let Some(Ok(devices)) = cut.map(|cut| cut.place(&gpu.board)) {
                mapping.add(index, text(&card.uuid), &devices, Ids::Instance);
            }
        }
    }
    mapping.write()
}

#[cfg(test)]
mod tests;
