//! Where the GPU sits: on the bus, and in a fabric.

use nvidia_ml::client::{Code, Device, Result as Answer, chars};

use super::node::Node;
use super::{FABRIC_HEALTH, FABRIC_STATES, Subject, fabric_uuid};
use crate::query::Value;

/// From this driver on, what goes out comes before what comes in.
const OUTBOUND_FIRST: u32 = 565;
/// Drivers from which on more of the fabric is told: its routes, and its health in one word.
const FABRIC_ROUTES: u32 = 570;
const FABRIC_SUMMARY: u32 = 580;

/// What has no counterpart in the simulation.
const NA: &str = "N/A";

impl Subject<'_> {
    pub(super) fn bus(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let pci = device.pci().unwrap_or_default();
        let hex = |label: &str, tag, number: u32, digits: usize| {
            let digits = format!("{number:0digits$X}");
            Node::leaf(label, tag, format!("0x{digits}")).in_xml(digits)
        };
        let class = |label: &str, tag, number: Answer<u32>| {
            let digits = Value::of(number.map(|number| format!("{number:X}")));
            let value = Value::of(number.map(|number| format!("0x{number:X}")));
            Node::value(label, tag, &value).in_xml(digits.plain(""))
        };
        let number =
            |label: &str, tag, answer: Answer<u32>| Node::value(label, tag, &Value::of(answer));
        let lanes = |label: &str, tag, answer: Answer<u32>| {
            Node::value(
                label,
                tag,
                &Value::of(answer.map(|lanes| format!("{lanes}x"))),
            )
        };
        let throughput = |label: &str, tag, direction| {
            let value = Value::amount_of(device.pcie_throughput(direction));
            Node::amount(label, tag, &value, "KB/s")
        };
        let generations = Node::group(
            "PCIe Generation",
            "pcie_gen",
            vec![
                number("Max", "max_link_gen", device.max_pcie_generation()),
                number("Current", "current_link_gen", device.pcie_generation()),
                number(
                    "Device Current",
                    "device_current_link_gen",
                    device.pcie_generation(),
                ),
                number(
                    "Device Max",
                    "max_device_link_gen",
                    device.gpu_max_pcie_generation(),
                ),
                number(
                    "Host Max",
                    "max_host_link_gen",
                    device.host_max_pcie_generation(),
                ),
            ],
        );
        let widths = Node::group(
            "Link Width",
            "link_widths",
            vec![
                lanes("Max", "max_link_width", device.max_pcie_width()),
                lanes("Current", "current_link_width", device.pcie_width()),
            ],
        );
        let inbound = Node::leaf("Atomic Caps Inbound", "atomic_caps_inbound", NA);
        let outbound = Node::leaf("Atomic Caps Outbound", "atomic_caps_outbound", NA);
        let [first, second] = match self.branch >= OUTBOUND_FIRST {
            true => [outbound, inbound],
            false => [inbound, outbound],
        };
        let classes = device.pci_ext();
        let base = classes.map(|classes| classes.base_class);
        let sub = classes.map(|classes| classes.sub_class);
        vec![Node::group(
            "PCI",
            "pci",
            vec![
                hex("Bus", "pci_bus", pci.bus, 2),
                hex("Device", "pci_device", pci.device, 2),
                hex("Domain", "pci_domain", pci.domain, 4),
                class("Base Classcode", "pci_base_class", base),
                class("Sub Classcode", "pci_sub_class", sub),
                hex("Device Id", "pci_device_id", pci.device_id, 8),
                Node::leaf("Bus Id", "pci_bus_id", chars(&pci.bus_id)),
                hex("Sub System Id", "pci_sub_system_id", pci.subsystem_id, 8),
                Node::group(
                    "GPU Link Info",
                    "pci_gpu_link_info",
                    vec![generations, widths],
                ),
                Node::group("Bridge Chip", "pci_bridge_chip", bridge(device)),
                number(
                    "Replays Since Reset",
                    "replay_counter",
                    device.pcie_replays(),
                ),
                Node::value(
                    "Replay Number Rollovers",
                    "replay_rollover_counter",
                    &Value::of(device.field(95, 0)),
                ),
                throughput("Tx Throughput", "tx_util", 0),
                throughput("Rx Throughput", "rx_util", 1),
                first,
                second,
            ],
        )]
    }

    pub(super) fn fabric(&self) -> Vec<Node> {
        let fabric = self.gpu.device.fabric();
        let status = fabric.map(|fabric| Code(fabric.status).to_string());
        let value = |label: &str, tag, value: Value| Node::value(label, tag, &value);
        // Two bits of the mask for each: not known, so, not so.
        let bits = |label: &str, tag, shift: u32, names: &[&str]| {
            let known = Value::named(fabric.map(|f| f.health >> shift & 3), names);
            Node::value(label, tag, &known)
        };
        let mut health = Vec::new();
        if self.branch >= FABRIC_SUMMARY {
            let summary = Value::named(fabric.map(|f| f.summary), &FABRIC_HEALTH);
            health.push(value("Summary", "summary", summary));
        }
        health.push(bits("Bandwidth", "bandwidth", 0, &[NA, "Degraded", "Full"]));
        if self.branch >= FABRIC_ROUTES {
            let truth = [NA, "True", "False"];
            health.extend([
                bits(
                    "Route Recovery in progress",
                    "route_recovery_in_progress",
                    2,
                    &truth,
                ),
                bits("Route Unhealthy", "route_unhealthy", 4, &truth),
                bits(
                    "Access Timeout Recovery",
                    "access_timeout_recovery",
                    6,
                    &truth,
                ),
            ]);
        }
        vec![Node::group(
            "Fabric",
            "fabric",
            vec![
                value(
                    "State",
                    "state",
                    Value::named(fabric.map(|f| f.state), &FABRIC_STATES),
                ),
                value("Status", "status", Value::of(status)),
                value("CliqueId", "cliqueId", Value::of(fabric.map(|f| f.clique))),
                value(
                    "ClusterUUID",
                    "clusterUuid",
                    Value::of(fabric.map(|f| fabric_uuid(&f.cluster))),
                ),
                Node::group("Health", "health", health),
            ],
        )]
    }
}

/// What joins the GPUs of one board: NVML knows one kind.
fn bridge(device: Device) -> Vec<Node> {
    let (kind, firmware) = match device.bridge_firmware() {
        Ok(firmware) => ("PLX".to_owned(), format!("0x{firmware:08X}")),
        Err(_) => (NA.to_string(), NA.to_string()),
    };
    vec![
        Node::leaf("Type", "bridge_chip_type", kind),
        Node::leaf("Firmware", "bridge_chip_fw", firmware),
    ]
}
