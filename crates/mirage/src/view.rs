//! What the API and the control socket show, as JSON. Field names carry their unit; times are
//! simulated.

mod events;
mod faults;
mod gpus;
mod workloads;

pub use events::EventView;
pub use faults::{FaultView, PendingView, fault_text};
pub use gpus::{GpuView, NodeView, gpu_view, node_view};
pub use workloads::{WorkloadView, workload_views};

use mirage_model::plan::{DeviceRef, Plan};

/// A device as people name it: `node-a/3`, `node-a/3:1`.
pub fn device_name(device: DeviceRef, plan: &Plan) -> String {
    let node = plan
        .nodes
        .get(device.node as usize)
        .map_or("?", |node| &node.name);
    match device.instance {
        Some(instance) => format!("{node}/{}:{instance}", device.gpu),
        None => format!("{node}/{}", device.gpu),
    }
}
