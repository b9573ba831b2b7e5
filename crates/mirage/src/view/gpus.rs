//! Nodes and GPUs, read from a node's tables like every other surface.

use mirage_state::Node;
use mirage_state::layout::{Live, flags, text, valid};
use serde::Serialize;

/// A node in a few words.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct NodeView<'a> {
    pub name: &'a str,
    pub driver: &'a str,
    pub cuda: String,
    pub gpus: usize,
    pub models: Vec<&'a str>,
    pub mig_strategy: &'static str,
    pub tick: u64,
    pub time_s: f64,
    pub unix_ms: u64,
}

/// The view of a node.
pub fn node_view<'a>(node: &Node<'a>) -> NodeView<'a> {
    let cuda = node.facts.cuda_version;
    NodeView {
        name: node.name,
        driver: node.driver,
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        gpus: node.cards.len(),
        models: node.boards.iter().map(|board| text(&board.key)).collect(),
        mig_strategy: match node.facts.mig_strategy {
            1 => "single",
            2 => "mixed",
            _ => "none",
        },
        tick: node.facts.tick,
        time_s: node.facts.sim_ms as f64 / 1e3,
        unix_ms: node.facts.unix_ms,
    }
}

/// A GPU with everything people ask about first. What the board cannot tell is absent.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GpuView<'a> {
    pub node: &'a str,
    pub index: usize,
    pub uuid: &'a str,
    pub model: &'a str,
    pub name: &'a str,
    pub serial: &'a str,
    pub pci_bus_id: String,
    pub minor: u32,
    pub numa_node: i32,
    pub healthy: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_utilization_percent: Option<u32>,
    pub memory_total_bytes: u64,
    /// Kept by the driver, in neither used nor free.
    pub memory_reserved_bytes: u64,
    pub memory_used_bytes: u64,
    pub temperature_c: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_temperature_c: Option<i32>,
    pub power_w: f64,
    /// Over the last second: what most tools call power on boards that have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_average_w: Option<f64>,
    pub power_limit_w: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    pub sm_clock_mhz: u32,
    pub memory_clock_mhz: u32,
    pub performance_state: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub throttle_reasons: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fan_percent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_xid: Option<u32>,
    pub xid_count: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mig_devices: Vec<InstanceView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<HolderView<'a>>,
}

/// A container that holds the GPU, or a part of it.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HolderView<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub container: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    pub utilization_percent: u32,
    pub memory_bytes: u64,
}

/// Who holds a GPU, the last to take it last.
fn holders<'a>(node: &Node<'a>, index: usize) -> Vec<HolderView<'a>> {
    let held = node.holdings.iter().filter(|h| h.gpu as usize == index);
    held.filter_map(|holding| {
        let container = node.containers.get(holding.container as usize)?;
        Some(HolderView {
            namespace: node.text(container.namespace),
            pod: node.text(container.pod),
            container: node.text(container.name),
            uid: node.text(container.uid),
            gpu_instance: (holding.gi != u32::MAX).then_some(holding.gi),
            utilization_percent: holding.gpu_percent,
            memory_bytes: holding.memory,
        })
    })
    .filter(|holder| !holder.pod.is_empty())
    .collect()
}

/// A MIG device.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct InstanceView<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uuid: &'a str,
    pub profile: &'a str,
    pub gpu_instance: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_instance: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    pub start: u32,
    pub memory_total_bytes: u64,
    pub memory_used_bytes: u64,
    pub sm_active_percent: f64,
}

/// A living process.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProcessView<'a> {
    pub pid: u32,
    pub name: &'a str,
    pub sm_percent: u32,
    pub memory_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_instance: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

const FLAGS: &[(u64, &str)] = &[
    (flags::LOST, "lost"),
    (flags::HUNG, "hung"),
    (flags::MIG, "mig"),
    (flags::MIG_PENDING, "mig-pending"),
    (flags::PERSISTENCE, "persistence"),
    (flags::ECC, "ecc"),
    (flags::ECC_PENDING, "ecc-pending"),
    (flags::ACCOUNTING, "accounting"),
    (flags::RESET_REQUIRED, "reset-required"),
    (flags::REMAP_PENDING, "remap-pending"),
    (flags::REMAP_FAILED, "remap-failed"),
    (flags::RETIRE_PENDING, "retire-pending"),
    (flags::FAN_MANUAL, "fan-manual"),
];

const REASONS: &[(u64, &str)] = &[
    (0x1, "idle"),
    (0x2, "application-clocks"),
    (0x4, "power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal"),
    (0x40, "hw-thermal"),
    (0x80, "power-brake"),
    (0x100, "display"),
];

/// The view of GPU `index`; `None` if the node has no such GPU.
pub fn gpu_view<'a>(node: &Node<'a>, index: usize) -> Option<GpuView<'a>> {
    let (card, live) = (node.cards.get(index)?, node.lives.get(index)?);
    let board = node.board(card)?;
    let has = |bit| live.valid & bit != 0;
    Some(GpuView {
        node: node.name,
        index,
        uuid: text(&card.uuid),
        model: text(&board.key),
        name: text(&board.name),
        serial: text(&card.serial),
        pci_bus_id: format!(
            "{:08X}:{:02X}:{:02X}.0",
            card.pci_domain, card.pci_bus, card.pci_device
        ),
        minor: card.minor,
        numa_node: card.numa,
        healthy: is_healthy(live),
        flags: names(FLAGS, live.flags),
        utilization_percent: has(valid::UTILIZATION).then_some(live.gpu_percent),
        memory_utilization_percent: has(valid::UTILIZATION).then_some(live.memory_percent),
        memory_total_bytes: card.memory_total,
        memory_reserved_bytes: board.memory_reserved,
        memory_used_bytes: live.memory_used,
        temperature_c: live.temperature_c,
        memory_temperature_c: has(valid::MEMORY_TEMPERATURE).then_some(live.memory_temperature_c),
        power_w: f64::from(live.power_mw) / 1e3,
        power_average_w: has(valid::AVERAGE_POWER)
            .then_some(f64::from(live.power_average_mw) / 1e3),
        power_limit_w: f64::from(live.enforced_limit_mw) / 1e3,
        energy_j: has(valid::ENERGY).then_some(live.energy_mj as f64 / 1e3),
        sm_clock_mhz: live.sm_mhz,
        memory_clock_mhz: live.mem_mhz,
        performance_state: live.pstate,
        throttle_reasons: names(REASONS, live.reasons),
        fan_percent: has(valid::FAN).then_some(live.fan_percent),
        last_xid: has(valid::XID).then_some(live.xid),
        xid_count: live.xid_count,
        mig_devices: instances(node, index),
        processes: processes(node, index),
        holders: holders(node, index),
    })
}

/// Usable for new work.
fn is_healthy(live: &Live) -> bool {
    let broken = flags::LOST | flags::HUNG | flags::RESET_REQUIRED | flags::REMAP_FAILED;
    live.flags & broken == 0
}

fn names(table: &[(u64, &'static str)], bits: u64) -> Vec<&'static str> {
    let set = table.iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, name)| *name).collect()
}

fn given(id: u32) -> Option<u32> {
    (id != u32::MAX).then_some(id)
}

fn instances<'a>(node: &Node<'a>, gpu: usize) -> Vec<InstanceView<'a>> {
    let of_gpu = node.instances.iter().filter(|i| i.gpu as usize == gpu);
    of_gpu
        .filter_map(|instance| {
            let profile = node.gpu_profiles.get(instance.gpu_profile as usize)?;
            Some(InstanceView {
                uuid: text(&instance.uuid),
                profile: text(&profile.name),
                gpu_instance: instance.gi,
                compute_instance: given(instance.ci),
                index: given(instance.index),
                start: instance.start,
                memory_total_bytes: profile.memory,
                memory_used_bytes: instance.memory_used,
                sm_active_percent: f64::from(instance.sm_active_ppm) / 1e4,
            })
        })
        .collect()
}

fn processes<'a>(node: &Node<'a>, gpu: usize) -> Vec<ProcessView<'a>> {
    let living = node
        .processes
        .iter()
        .filter(|p| p.gpu as usize == gpu && p.end_ms == 0);
    living
        .map(|process| ProcessView {
            pid: process.pid,
            name: node.text(process.name),
            sm_percent: process.sm_percent,
            memory_bytes: process.memory,
            gpu_instance: given(process.gi),
            pod: node
                .containers
                .get(process.container as usize)
                .map(|c| format!("{}/{}", node.text(c.namespace), node.text(c.pod))),
        })
        .collect()
}
