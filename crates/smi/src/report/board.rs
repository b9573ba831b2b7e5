//! Who the GPU is, and its place in a rack.

use nvidia_ml::client::{Result as Answer, chars};

use super::names::{VIRTUALIZATION, architecture, brand};
use super::node::Node;
use super::sections::Part;
use super::{
    ADDRESSING_MODES, DEPRECATED, DISPLAY_MODE_GONE, PEER_TYPES, RECOVERY_ACTIONS,
    RESET_STATUS_DEPRECATED, Subject,
};
use crate::query::Value;

/// Drivers from which on the report tells when the black box was last written, the place in a rack instead of the module alone, and
/// what brings a GPU back to health.
const BLACK_BOX: u32 = 535;
const PLATFORM_INFO: u32 = 570;
const RECOVERY_ACTION: u32 = 565;
/// From this driver on, nobody asks whether a reset is due.
const RESET_STATUS_GONE: u32 = 580;

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
        ];
        nodes.extend(self.display());
        nodes.extend([
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
        ]);
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
        ]);
        nodes.push(match self.platform() {
            Some(platform) => platform,
            None => value("Module ID", "gpu_module_id", module),
        });
        nodes.push(self.inforom());
        nodes.extend(self.black_box());
        nodes.extend([
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
        ]);
        nodes.extend(self.reset_status());
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

    fn display(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let mode = device.display_mode();
        let mut nodes = match self.branch >= DISPLAY_MODE_GONE {
            true => vec![
                Node::leaf("Display Mode", "display_mode", DEPRECATED),
                Node::value("Display Attached", "display_attached", &Value::yes(mode)),
            ],
            false => vec![Node::value(
                "Display Mode",
                "display_mode",
                &Value::enabled(mode),
            )],
        };
        let active = Value::enabled(device.display_active());
        nodes.push(Node::value("Display Active", "display_active", &active));
        nodes
    }

    /// When the board's flight recorder was last written, which NVML does not tell.
    fn black_box(&self) -> Option<Node> {
        let lines = vec![
            Node::leaf("Latest Timestamp", "latest_timestamp", NA),
            Node::leaf("Latest Duration", "latest_duration", NA),
        ];
        (self.branch >= BLACK_BOX)
            .then(|| Node::group("Inforom BBX Object Flush", "inforom_bbx_flush", lines))
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

    fn reset_status(&self) -> Option<Node> {
        if self.branch >= RESET_STATUS_GONE {
            return None;
        }
        let line = |label: &str, tag, field| match self.branch >= RESET_STATUS_DEPRECATED {
            true => Node::leaf(label, tag, DEPRECATED),
            false => Node::value(label, tag, &Value::yes(self.gpu.device.field(field, 0))),
        };
        let children = vec![
            line("Reset Required", "reset_required", 226),
            line(
                "Drain and Reset Recommended",
                "drain_and_reset_recommended",
                227,
            ),
        ];
        let group = Node::group("GPU Reset Status", "gpu_reset_status", children);
        Some(group.part(Part::ResetStatus))
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
}
