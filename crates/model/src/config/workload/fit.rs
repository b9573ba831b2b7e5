//! Whether a workload fits the devices it names: MIG layout and memory.

use crate::config::form::{Entry, Form};
use crate::plan::{ActivityStep, Amount, DeviceRef, GpuPlan, Plan};
use crate::yaml::{Problem, Span};

/// A whole GPU that is cut into MIG devices runs nothing itself.
pub(super) fn whole(devices: &[DeviceRef], plan: &Plan, entry: &Entry<'_>) -> Option<Problem> {
    let cut = |device: &&DeviceRef| {
        let given = gpu(plan, device).and_then(|gpu| gpu.given.as_ref());
        device.instance.is_none() && given.is_some_and(|given| given.mig.is_some())
    };
    let device = devices.iter().find(cut)?;
    let node = &plan.nodes.get(device.node as usize)?.name;
    let name = format!("{node}/{}", device.gpu);
    let message = format!("MIG is on for `{name}`, so only its MIG devices can run something");
    let help = format!("name one of them, as in `{name}:0`, or all with `{name}:*`");
    Some(Problem::new(entry.span, message).help(help))
}

/// A step that always holds more memory than a device has will end the workload.
pub(super) fn memory(
    form: &Form<'_>,
    devices: &[DeviceRef],
    steps: &[ActivityStep],
    plan: &Plan,
) -> Option<Problem> {
    let needed = steps.iter().filter_map(|step| match step.memory {
        Some(Amount::Bytes(range)) => Some(range.low),
        _ => None,
    });
    let needed = needed.fold(0.0, f64::max);
    let room = |device: &DeviceRef| gpu(plan, device)?.memory_usable_mib(device.instance);
    let short = devices.iter().find(|device| {
        room(device).is_some_and(|room| needed > (room as f64) * f64::from(1 << 20))
    })?;
    let node = &plan.nodes.get(short.node as usize)?.name;
    let instance = short.instance.map_or(String::new(), |at| format!(":{at}"));
    let message = format!(
        "more memory than the {} MiB workloads may use of `{node}/{}{instance}`",
        room(short)?,
        short.gpu
    );
    let problem = Problem::new(place(form), message);
    Some(problem.help("the workload will be ended when it gets there"))
}

/// Where the memory is written.
fn place(form: &Form<'_>) -> Span {
    let entry = ["memory", "activity"]
        .into_iter()
        .find_map(|key| form.get(key));
    entry.map_or(form.span, |entry| entry.span)
}

fn gpu<'p>(plan: &'p Plan, device: &DeviceRef) -> Option<&'p GpuPlan> {
    let node = plan.nodes.get(device.node as usize)?;
    node.gpus.get(device.gpu as usize)
}
