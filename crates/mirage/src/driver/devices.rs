//! Device nodes of a node: names, majors and minors, for `/dev`, the substitute `/proc/devices` and CDI alike.

use mirage_state::Image;
use mirage_state::layout::Instance;

use super::host::{Majors, NVIDIA};
use super::item::{List, Part, Place};

/// GPUs, GPU instances and compute instances that have capability minors.
const GPUS: u32 = 32;
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;
/// Minors before the first GPU's: `mig/config` and `mig/monitor`.
pub(super) const CONFIG: u32 = 1;
pub(super) const MONITOR: u32 = 2;
/// The capability to manage the memory exchange between machines: right after the last of MIG.
pub(super) const IMEX: u32 = MONITOR + GPUS * GPU_INSTANCES * (COMPUTE_INSTANCES + 1) + 1;
/// Memory exchange channels a driver has.
pub(super) const IMEX_CHANNELS: u32 = 2048;

/// A character device below `/dev`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) major: u32,
    pub(super) minor: u32,
}

fn node(name: impl Into<String>, major: u32, minor: u32) -> Node {
    Node {
        name: name.into(),
        major,
        minor,
    }
}

/// Nodes that every user of the driver needs.
pub(super) fn control(majors: Majors) -> Vec<Node> {
    vec![
        node("nvidiactl", NVIDIA, 255),
        node("nvidia-modeset", NVIDIA, 254),
        node("nvidia-uvm", majors.uvm, 0),
        node("nvidia-uvm-tools", majors.uvm, 1),
    ]
}

/// The node of a GPU, by its minor.
pub(super) fn gpu(minor: u32) -> Node {
    node(format!("nvidia{minor}"), NVIDIA, minor)
}

/// The node of a capability.
pub(super) fn capability(majors: Majors, minor: u32) -> Node {
    node(format!("nvidia-caps/nvidia-cap{minor}"), majors.caps, minor)
}

/// The minor of a GPU instance's capability; `None` beyond what the driver numbers.
pub(super) fn gpu_instance(gpu: u32, gi: u32) -> Option<u32> {
    let per_gpu = GPU_INSTANCES * (COMPUTE_INSTANCES + 1);
    (gpu < GPUS && gi < GPU_INSTANCES)
        .then(|| MONITOR + 1 + per_gpu * gpu + (COMPUTE_INSTANCES + 1) * gi)
}

/// The minor of a compute instance's capability.
pub(super) fn compute_instance(gpu: u32, gi: u32, ci: u32) -> Option<u32> {
    let first = gpu_instance(gpu, gi)? + 1;
    (ci < COMPUTE_INSTANCES).then(|| first + ci)
}

/// The table of all capability minors there can be, `/proc/driver/nvidia-caps/mig-minors`.
pub(super) fn minors() -> String {
    let mut text = format!("config {CONFIG}\nmonitor {MONITOR}\n");
    for gpu in 0..GPUS {
        for gi in 0..GPU_INSTANCES {
            if let Some(minor) = gpu_instance(gpu, gi) {
                text.push_str(&format!("gpu{gpu}/gi{gi}/access {minor}\n"));
            }
            for ci in 0..COMPUTE_INSTANCES {
                if let Some(minor) = compute_instance(gpu, gi, ci) {
                    text.push_str(&format!("gpu{gpu}/gi{gi}/ci{ci}/access {minor}\n"));
                }
            }
        }
    }
    text
}

/// The capability nodes of a MIG device: its GPU instance, and its compute instance if there is one.
pub(super) fn capabilities(image: &Image, majors: Majors, instance: &Instance) -> Vec<Node> {
    let Some(card) = image.cards.get(instance.gpu as usize) else {
        return Vec::new();
    };
    let minors = [
        gpu_instance(card.minor, instance.gi),
        compute_instance(card.minor, instance.gi, instance.ci),
    ];
    let minors = minors.into_iter().flatten();
    minors.map(|minor| capability(majors, minor)).collect()
}

/// The channels of the memory exchange, and the capability to manage it.
fn exchange(majors: Majors, channels: u32) -> impl Iterator<Item = Node> {
    let manage = (channels > 0).then(|| capability(majors, IMEX));
    let each = (0..channels).map(move |number| channel(majors, number));
    manage.into_iter().chain(each)
}

/// A channel of the memory exchange.
pub(super) fn channel(majors: Majors, number: u32) -> Node {
    let name = format!("nvidia-caps-imex-channels/channel{number}");
    node(name, majors.imex, number)
}

/// All nodes of a machine.
pub(super) fn all(image: &Image, majors: Majors, channels: u32) -> Vec<Node> {
    let mut nodes = control(majors);
    nodes.extend(image.cards.iter().map(|card| gpu(card.minor)));
    // The driver makes these two on every machine whose GPUs know MIG.
    if image
        .statics
        .boards
        .iter()
        .any(|board| board.max_mig_instances > 0)
    {
        nodes.extend([CONFIG, MONITOR].map(|minor| capability(majors, minor)));
    }
    for instance in &image.instances {
        for node in capabilities(image, majors, instance) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }
    nodes.extend(exchange(majors, channels));
    nodes
}

/// Puts the nodes on the list.
pub(super) fn list(list: &mut List, image: &Image, majors: Majors, channels: u32) {
    list.begin(Part::Nodes, Place::Dev);
    for node in all(image, majors, channels) {
        list.node(node.name, node.major, node.minor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capability_minors_are_the_drivers() {
        assert_eq!(compute_instance(3, 3, 3), Some(439));
        assert_eq!(compute_instance(6, 11, 5), Some(918));
        assert_eq!(compute_instance(31, 14, 7), Some(4322));
        assert_eq!(gpu_instance(0, 0), Some(3));
        assert_eq!(gpu_instance(32, 0), None);
        assert_eq!(compute_instance(0, 0, u32::MAX), None);
        let table = minors();
        assert_eq!(table.lines().count(), 4322);
        assert_eq!(IMEX, 4323);
        assert_eq!(table.lines().last(), Some("gpu31/gi14/ci7/access 4322"));
    }
}
