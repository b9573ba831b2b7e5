//! Who the GPU is, where it sits on the bus, and its place in a fabric.

use nvidia_ml::client::{Code, Device, Result as Answer, chars};

use super::names::{VIRTUALIZATION, architecture, brand};
use super::node::Node;
use super::sections::Part;
use super::{
    ADDRESSING_MODES, DEPRECATED, DISPLAY_MODE_GONE, FABRIC_STATES, PEER_TYPES, RECOVERY_ACTIONS,
    Subject, fabric_uuid,
};
use crate::query::Value;

/// Drivers from which on the report tells the place in a rack, and what brings a GPU back to health.
const PLATFORM_INFO: u32 = 570;
const RECOVERY_ACTION: u32 = 570;

/// What has no counterpart in the simulation, or in hardware without it.
const NA: &str = "N/A";

/// A group of a present and a future setting.
fn pair(
    label: &str,
    tag: &'static str,
    tags: [&'static str; 2],
    values: Answer<(u32, u32)>,
) -> Node {
    let now = Value::enabled(values.map(|(now, _)| now));
    let then = Value::enabled(values.map(|(_, then)| then));
    let children = vec![
        Node::value("Current", tags[0], &now),
        Node::value("Pending", tags[1], &then),
    ];
    Node::group(label, tag, children)
}

impl Subject<'_> {
    pub(super) fn identity(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let value =
            |label: &str, tag, answer: Answer<String>| Node::value(label, tag, &Value::of(answer));
        let brand = device.brand().map(|number| brand(number).to_owned());
        let architecture = device
            .architecture()
            .map(|number| architecture(number).to_owned());
        let addressing = device.addressing().map(|mode| mode.mode);
        let module = device.module_id().map(|id| id.to_string());
        let board_id = device.board_id().map(|id| format!("0x{id:x}"));
        let mut nodes = vec![
            value("Product Name", "product_name", device.name()),
            value("Product Brand", "product_brand", brand),
            value("Product Architecture", "product_architecture", architecture),
            self.display_mode(),
            Node::value(
                "Display Active",
                "display_active",
                &Value::enabled(device.display_active()),
            ),
            Node::value(
                "Persistence Mode",
                "persistence_mode",
                &Value::enabled(device.persistence_mode()),
            ),
            Node::value(
                "Addressing Mode",
                "addressing_mode",
                &Value::named(addressing, &ADDRESSING_MODES),
            ),
            pair(
                "MIG Mode",
                "mig_mode",
                ["current_mig", "pending_mig"],
                device.mig_mode(),
            ),
        ];
        nodes.extend(self.mig_devices());
        nodes.extend([
            Node::value(
                "Accounting Mode",
                "accounting_mode",
                &Value::enabled(device.accounting_mode()),
            )
            .part(Part::Accounting),
            Node::value(
                "Accounting Mode Buffer Size",
                "accounting_mode_buffer_size",
                &Value::of(device.accounting_buffer_size()),
            )
            .part(Part::Accounting),
            Node::group(
                "Driver Model",
                "driver_model",
                vec![
                    Node::leaf("Current", "current_dm", NA),
                    Node::leaf("Pending", "pending_dm", NA),
                ],
            ),
            value("Serial Number", "serial", device.serial()),
            value("GPU UUID", "uuid", device.uuid()),
            value(
                "Minor Number",
                "minor_number",
                device.minor_number().map(|minor| minor.to_string()),
            ),
            value("VBIOS Version", "vbios_version", device.vbios_version()),
            Node::value(
                "MultiGPU Board",
                "multigpu_board",
                &Value::yes(device.multi_gpu_board()),
            ),
            value("Board ID", "board_id", board_id),
            value(
                "Board Part Number",
                "board_part_number",
                device.board_part_number(),
            ),
            value(
                "GPU Part Number",
                "gpu_part_number",
                device.gpu_part_number(),
            ),
            Node::leaf("FRU Part Number", "gpu_fru_part_number", NA),
            value("Module ID", "gpu_module_id", module),
        ]);
        nodes.extend(self.platform());
        nodes.extend([
            self.inforom(),
            Node::group(
                "GPU Operation Mode",
                "gpu_operation_mode",
                vec![
                    Node::leaf("Current", "current_gom", NA),
                    Node::leaf("Pending", "pending_gom", NA),
                ],
            ),
            Node::value(
                "GPU C2C Mode",
                "c2c_mode",
                &Value::enabled(device.c2c_mode()),
            ),
            Node::group(
                "GPU Virtualization Mode",
                "gpu_virtualization_mode",
                vec![
                    Node::value(
                        "Virtualization Mode",
                        "virtualization_mode",
                        &Value::named(device.virtualization_mode(), &VIRTUALIZATION),
                    ),
                    Node::leaf("Host VGPU Mode", "host_vgpu_mode", NA),
                    Node::leaf("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NA),
                ],
            ),
            self.reset_status(),
        ]);
        nodes.extend(self.recovery());
        nodes.extend([
            value(
                "GSP Firmware Version",
                "gsp_firmware_version",
                device.gsp_version(),
            )
            .part(Part::GspFirmware),
            Node::group(
                "IBMNPU",
                "ibmnpu",
                vec![Node::leaf(
                    "Relaxed Ordering Mode",
                    "relaxed_ordering_mode",
                    NA,
                )],
            ),
        ]);
        nodes
    }

    fn display_mode(&self) -> Node {
        if self.branch >= DISPLAY_MODE_GONE {
            return Node::leaf("Display Mode", "display_mode", DEPRECATED);
        }
        let mode = Value::enabled(self.gpu.device.display_mode());
        Node::value("Display Mode", "display_mode", &mode)
    }

    /// Where the GPU sits in a rack.
    fn platform(&self) -> Option<Node> {
        if self.branch < PLATFORM_INFO {
            return None;
        }
        let place = self.gpu.device.platform();
        let line = |label: &str, tag, value: Value| Node::value(label, tag, &value);
        let guid = place.map(|place| {
            let digits = place.ib_guid[..8].iter().map(|byte| format!("{byte:02x}"));
            format!("0x{}", digits.collect::<String>())
        });
        let children = vec![
            line(
                "Chassis Serial Number",
                "chassis_serial_number",
                Value::of(place.map(|place| chars(&place.chassis_serial))),
            ),
            line(
                "Slot Number",
                "slot_number",
                Value::of(place.map(|place| place.slot)),
            ),
            line(
                "Tray Index",
                "tray_index",
                Value::of(place.map(|place| place.tray)),
            ),
            line(
                "Host ID",
                "host_id",
                Value::of(place.map(|place| place.host)),
            ),
            line(
                "Peer Type",
                "peer_type",
                Value::named(place.map(|place| place.peer_type), &PEER_TYPES),
            ),
            line(
                "Module Id",
                "module_id",
                Value::of(self.gpu.device.module_id()),
            ),
            line("GPU Fabric GUID", "gpu_fabric_guid", Value::of(guid)),
        ];
        Some(Node::group("Platform Info", "platformInfo", children))
    }

    fn recovery(&self) -> Option<Node> {
        if self.branch < RECOVERY_ACTION {
            return None;
        }
        let action = Value::named(self.gpu.device.field(230, 0), &RECOVERY_ACTIONS);
        Some(
            Node::value("GPU Recovery Action", "gpu_recovery_action", &action)
                .part(Part::ResetStatus),
        )
    }

    fn reset_status(&self) -> Node {
        let device = self.gpu.device;
        let required = Value::yes(device.field(226, 0));
        let advised = Value::yes(device.field(227, 0));
        let children = vec![
            Node::value("Reset Required", "reset_required", &required),
            Node::value(
                "Drain and Reset Recommended",
                "drain_and_reset_recommended",
                &advised,
            ),
        ];
        Node::group("GPU Reset Status", "gpu_reset_status", children).part(Part::ResetStatus)
    }

    fn inforom(&self) -> Node {
        let device = self.gpu.device;
        let value =
            |label: &str, tag, answer: Answer<String>| Node::value(label, tag, &Value::of(answer));
        Node::group(
            "Inforom Version",
            "inforom_version",
            vec![
                value("Image Version", "img_version", device.inforom_image()),
                value("OEM Object", "oem_object", device.inforom_version(0)),
                value("ECC Object", "ecc_object", device.inforom_version(1)),
                value(
                    "Power Management Object",
                    "pwr_object",
                    device.inforom_version(2),
                ),
            ],
        )
    }

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
                Node::leaf("Atomic Caps Inbound", "atomic_caps_inbound", NA),
                Node::leaf("Atomic Caps Outbound", "atomic_caps_outbound", NA),
            ],
        )]
    }

    pub(super) fn fabric(&self) -> Vec<Node> {
        let fabric = self.gpu.device.fabric();
        let status = fabric.map(|fabric| Code(fabric.status).to_string());
        let value = |label: &str, tag, value: Value| Node::value(label, tag, &value);
        let bandwidth = Value::named(fabric.map(|f| f.health & 3), &[NA, "Degraded", "Full"]);
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
                Node::group(
                    "Health",
                    "health",
                    vec![value("Bandwidth", "bandwidth", bandwidth)],
                ),
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
