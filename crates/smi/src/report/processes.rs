//! MIG devices, and the processes on a GPU.

use nvidia_ml::client::{AccountingStats, Device, Result as Answer};

use super::Subject;
use super::node::Node;
use super::sections::Part;
use crate::query::Value;
use crate::summary::{kind, process_name};

/// From this driver on, what else the GPU can do.
const CAPABILITIES: u32 = 565;

impl Subject<'_> {
    /// Extended memory, which is a thing of boards that share a module with their processor.
    pub(super) fn capabilities(&self) -> Option<Node> {
        let lines = vec![Node::leaf("EGM", "egm", "disabled")];
        (self.branch >= CAPABILITIES).then(|| Node::group("Capabilities", "capabilities", lines))
    }

    /// In text one group after another, in XML one element around them.
    pub(super) fn mig_devices(&self) -> Vec<Node> {
        let devices = self.gpu.device.mig_devices();
        if devices.is_empty() {
            return vec![Node::leaf("", "mig_devices", "None")];
        }
        let lines = |device: &Device| Node::group("MIG Device", "", self.mig_device(*device));
        let element = |device: &Device| Node::group("", "mig_device", self.mig_device(*device));
        let mut nodes: Vec<Node> = devices.iter().map(lines).collect();
        let elements = devices.iter().map(element).collect();
        nodes.push(Node::group("", "mig_devices", elements));
        nodes
    }

    fn mig_device(&self, device: Device) -> Vec<Node> {
        let number =
            |label: &str, tag, answer: Answer<u32>| Node::value(label, tag, &Value::of(answer));
        let mib = |label: &str, tag, bytes: Answer<u64>| {
            Node::amount(label, tag, &Value::mib(bytes), "MiB")
        };
        let has = device.attributes();
        let memory = device.memory();
        let bar1 = device.bar1();
        // SRAM errors are counted for the whole GPU.
        let errors = self.gpu.device.ecc_errors_at(1, 0, 7);
        let shared = vec![
            number(
                "Multiprocessor count",
                "multiprocessor_count",
                has.map(|a| a.sm_count),
            ),
            number(
                "Copy Engine count",
                "copy_engine_count",
                has.map(|a| a.copy_engines),
            ),
            number("Encoder count", "encoder_count", has.map(|a| a.encoders)),
            number("Decoder count", "decoder_count", has.map(|a| a.decoders)),
            number("OFA count", "ofa_count", has.map(|a| a.ofas)),
            number("JPG count", "jpg_count", has.map(|a| a.jpegs)),
        ];
        let volatile = Node::group(
            "Volatile",
            "volatile_count",
            vec![Node::value(
                "SRAM Uncorrectable",
                "sram_uncorrectable",
                &Value::of(errors),
            )],
        );
        vec![
            number("Index", "index", device.index()),
            number(
                "GPU Instance ID",
                "gpu_instance_id",
                device.gpu_instance_id(),
            ),
            number(
                "Compute Instance ID",
                "compute_instance_id",
                device.compute_instance_id(),
            ),
            Node::group(
                "Device Attributes",
                "device_attributes",
                vec![Node::group("Shared", "shared", shared)],
            ),
            Node::group("ECC Errors", "ecc_error_count", vec![volatile]),
            Node::group(
                "FB Memory Usage",
                "fb_memory_usage",
                vec![
                    mib("Total", "total", memory.map(|memory| memory.total)),
                    mib("Reserved", "reserved", memory.map(|memory| memory.reserved)),
                    mib("Used", "used", memory.map(|memory| memory.used)),
                    mib("Free", "free", memory.map(|memory| memory.free)),
                ],
            ),
            Node::group(
                "BAR1 Memory Usage",
                "bar1_memory_usage",
                vec![
                    mib("Total", "total", bar1.map(|bar1| bar1.total)),
                    mib("Used", "used", bar1.map(|bar1| bar1.used)),
                    mib("Free", "free", bar1.map(|bar1| bar1.free)),
                ],
            ),
        ]
    }

    pub(super) fn processes(&self) -> Vec<Node> {
        let running = self.gpu.device.processes().unwrap_or_default();
        let instance = |id: Option<u32>| id.map_or_else(|| "N/A".into(), |id| id.to_string());
        let (mut lines, mut elements) = (Vec::new(), Vec::new());
        for process in &running {
            let name = process_name(self.nvml, process.pid);
            let memory = format!("{} MiB", process.memory >> 20);
            let (gi, ci) = (instance(process.gi), instance(process.ci));
            lines.extend([
                Node::leaf("GPU instance ID", "", &gi),
                Node::leaf("Compute instance ID", "", &ci),
                Node::leaf("Process ID", "", process.pid).with(vec![
                    Node::leaf("Type", "", kind(process)),
                    Node::leaf("Name", "", &name),
                    Node::leaf("Used GPU Memory", "", &memory),
                ]),
            ]);
            let element = vec![
                Node::leaf("", "gpu_instance_id", gi),
                Node::leaf("", "compute_instance_id", ci),
                Node::leaf("", "pid", process.pid),
                Node::leaf("", "type", kind(process)),
                Node::leaf("", "process_name", name),
                Node::leaf("", "used_memory", memory),
            ];
            elements.push(Node::group("", "process_info", element));
        }
        let lines = if running.is_empty() {
            Node::leaf("Processes", "", "None")
        } else {
            Node::group("Processes", "", lines)
        };
        vec![
            lines.part(Part::Pids),
            Node::group("", "processes", elements).part(Part::Pids),
            Node::group("", "accounted_processes", self.accounted()).part(Part::Accounting),
        ]
    }

    /// Processes that accounting remembers.
    fn accounted(&self) -> Vec<Node> {
        let remembered = self.gpu.device.accounted().unwrap_or_default();
        let element = |(pid, stats): (u32, AccountingStats)| {
            let lines = vec![
                Node::leaf("", "pid", pid),
                Node::leaf("", "gpu_util", format!("{} %", stats.gpu_percent)),
                Node::leaf("", "memory_util", format!("{} %", stats.memory_percent)),
                Node::leaf(
                    "",
                    "max_memory_usage",
                    format!("{} MiB", stats.max_memory >> 20),
                ),
                Node::leaf("", "time", format!("{} ms", stats.time_ms)),
                Node::leaf("", "is_running", stats.running),
            ];
            Node::group("", "accounted_process_info", lines)
        };
        remembered.into_iter().map(element).collect()
    }
}
