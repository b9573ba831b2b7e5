//! What the GPU does: performance, memory in use, utilisation.

use nvidia_ml::client::Result as Answer;

use super::node::Node;
use super::samples::Unit;
use super::sections::Part;
use super::{COMPUTE_MODES, Subject};
use crate::query::Value;

/// From this driver on, reasons are those of an event and not of throttling.
const EVENT_REASONS: u32 = 535;

/// From this driver on, the time under a reason is told as well.
const REASON_TIMES: u32 = 575;
/// From this driver on, whether the GPU runs in its mode for sparse operations.
const SPARSE: u32 = 550;
/// The one architecture that has that mode.
const HOPPER: u32 = 9;
/// From this driver on, a GPU is written in capitals.
const CAPITALS: u32 = 570;
/// From this driver on, whether memory is encrypted.
const ENCRYPTION: u32 = 570;

/// Label, tag by event, tag by throttling, bit.
const REASONS: [(&str, &str, &str, u64); 9] = [
    (
        "Idle",
        "clocks_event_reason_gpu_idle",
        "clocks_throttle_reason_gpu_idle",
        0x1,
    ),
    (
        "Applications Clocks Setting",
        "clocks_event_reason_applications_clocks_setting",
        "clocks_throttle_reason_applications_clocks_setting",
        0x2,
    ),
    (
        "SW Power Cap",
        "clocks_event_reason_sw_power_cap",
        "clocks_throttle_reason_sw_power_cap",
        0x4,
    ),
    (
        "HW Slowdown",
        "clocks_event_reason_hw_slowdown",
        "clocks_throttle_reason_hw_slowdown",
        0x8,
    ),
    (
        "HW Thermal Slowdown",
        "clocks_event_reason_hw_thermal_slowdown",
        "clocks_throttle_reason_hw_thermal_slowdown",
        0x40,
    ),
    (
        "HW Power Brake Slowdown",
        "clocks_event_reason_hw_power_brake_slowdown",
        "clocks_throttle_reason_hw_power_brake_slowdown",
        0x80,
    ),
    (
        "Sync Boost",
        "clocks_event_reason_sync_boost",
        "clocks_throttle_reason_sync_boost",
        0x10,
    ),
    (
        "SW Thermal Slowdown",
        "clocks_event_reason_sw_thermal_slowdown",
        "clocks_throttle_reason_sw_thermal_slowdown",
        0x20,
    ),
    (
        "Display Clock Setting",
        "clocks_event_reason_display_clocks_setting",
        "clocks_throttle_reason_display_clocks_setting",
        0x100,
    ),
];

/// Label, tag and NVML's field of the time under a reason.
const TIMES: [(&str, &str, u32); 5] = [
    (
        "SW Power Capping",
        "clocks_event_reasons_counters_sw_power_cap",
        74,
    ),
    ("Sync Boost", "clocks_event_reasons_counters_sync_boost", 76),
    (
        "SW Thermal Slowdown",
        "clocks_event_reasons_counters_sw_therm_slowdown",
        269,
    ),
    (
        "HW Thermal Slowdown",
        "clocks_event_reasons_counters_hw_therm_slowdown",
        270,
    ),
    (
        "HW Power Braking",
        "clocks_event_reasons_counters_hw_power_brake",
        271,
    ),
];

impl Subject<'_> {
    pub(super) fn performance(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let fan = Value::amount_of(device.fan_speed());
        let state = Value::of(device.performance_state().map(|state| format!("P{state}")));
        let mut nodes = vec![
            Node::amount("Fan Speed", "fan_speed", &fan, "%"),
            Node::value("Performance State", "performance_state", &state).part(Part::Performance),
            self.reasons().part(Part::Performance),
        ];
        nodes.extend(self.reason_times());
        nodes.extend(self.sparse());
        nodes
    }

    /// Whether the mode for sparse operations is on; nothing here turns it on.
    fn sparse(&self) -> Option<Node> {
        if self.branch < SPARSE {
            return None;
        }
        let mode = if self.gpu.device.architecture() == Ok(HOPPER) {
            "Disabled"
        } else {
            "N/A"
        };
        let node = Node::leaf("Sparse Operation Mode", "sparse_operation_mode", mode);
        Some(node.part(Part::Performance))
    }

    /// For how long each reason has held the clock back so far.
    fn reason_times(&self) -> Option<Node> {
        if self.branch < REASON_TIMES {
            return None;
        }
        let line = |(label, tag, field): (&str, &'static str, u32)| {
            let nanoseconds = self.gpu.device.field(field, 0);
            let time = Value::amount_of(nanoseconds.map(|ns| ns / 1000));
            Node::amount(label, tag, &time, "us")
        };
        let lines = TIMES.map(line).into();
        let group = Node::group(
            "Clocks Event Reasons Counters",
            "clocks_event_reasons_counters",
            lines,
        );
        Some(group.part(Part::Performance))
    }

    /// Whether memory is encrypted, now and after a restart.
    fn encryption(&self) -> Option<Node> {
        if self.branch < ENCRYPTION {
            return None;
        }
        let modes = self.gpu.device.dram_encryption();
        let line = |label: &str, tag, mode| Node::value(label, tag, &Value::enabled(mode));
        let lines = vec![
            line(
                "Current",
                "current_dram_encryption",
                modes.map(|(now, _)| now),
            ),
            line(
                "Pending",
                "pending_dram_encryption",
                modes.map(|(_, then)| then),
            ),
        ];
        Some(Node::group(
            "DRAM Encryption Mode",
            "dram_encryption_mode",
            lines,
        ))
    }

    fn reasons(&self) -> Node {
        let bits = self.gpu.device.clock_reasons();
        let by_event = self.branch >= EVENT_REASONS;
        let line = |(label, event, throttle, bit): (&str, &'static str, &'static str, u64)| {
            let active = |bits: u64| {
                if bits & bit == 0 {
                    "Not Active"
                } else {
                    "Active"
                }
            };
            let tag = if by_event { event } else { throttle };
            Node::value(label, tag, &Value::of(bits.map(active)))
        };
        let [idle, set, power, slow, heat, brake, sync, warm, display] = REASONS.map(line);
        let lines = vec![
            idle,
            set,
            power,
            slow.with(vec![heat, brake]),
            sync,
            warm,
            display,
        ];
        if by_event {
            Node::group("Clocks Event Reasons", "clocks_event_reasons", lines)
        } else {
            Node::group("Clocks Throttle Reasons", "clocks_throttle_reasons", lines)
        }
    }

    pub(super) fn memory(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let memory = device.memory();
        let bar1 = device.bar1();
        let protected = device.protected_memory();
        let line = |label: &str, tag, bytes: Answer<u64>| {
            Node::amount(label, tag, &Value::mib(bytes), "MiB")
        };
        vec![
            Node::group(
                "FB Memory Usage",
                "fb_memory_usage",
                vec![
                    line("Total", "total", memory.map(|memory| memory.total)),
                    line("Reserved", "reserved", memory.map(|memory| memory.reserved)),
                    line("Used", "used", memory.map(|memory| memory.used)),
                    line("Free", "free", memory.map(|memory| memory.free)),
                ],
            )
            .part(Part::Memory),
            Node::group(
                "BAR1 Memory Usage",
                "bar1_memory_usage",
                vec![
                    line("Total", "total", bar1.map(|bar1| bar1.total)),
                    line("Used", "used", bar1.map(|bar1| bar1.used)),
                    line("Free", "free", bar1.map(|bar1| bar1.free)),
                ],
            )
            .part(Part::Memory),
            Node::group(
                "Conf Compute Protected Memory Usage",
                "cc_protected_memory_usage",
                vec![
                    line("Total", "total", protected.map(|memory| memory.total)),
                    line("Used", "used", protected.map(|memory| memory.used)),
                    line("Free", "free", protected.map(|memory| memory.free)),
                ],
            )
            .part(Part::Memory),
        ]
    }

    pub(super) fn load(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let busy = device.utilization();
        let line = |label: &str, tag, percent: Answer<u32>| {
            Node::amount(label, tag, &Value::amount_of(percent), "%")
        };
        let engine = |answer: Answer<(u32, u32)>| answer.map(|(percent, _)| percent);
        let encoder = device.encoder_stats();
        let capture = device.fbc_stats();
        let capture = capture.map(|stats| [stats.sessions, stats.fps, stats.latency]);
        let gpu = if self.branch >= CAPITALS {
            "GPU"
        } else {
            "Gpu"
        };
        let mut nodes = vec![
            Node::value(
                "Compute Mode",
                "compute_mode",
                &Value::named(device.compute_mode(), &COMPUTE_MODES),
            )
            .part(Part::Compute),
            Node::group(
                "Utilization",
                "utilization",
                vec![
                    line(gpu, "gpu_util", busy.map(|busy| busy.gpu)),
                    line("Memory", "memory_util", busy.map(|busy| busy.memory)),
                    line(
                        "Encoder",
                        "encoder_util",
                        engine(device.encoder_utilization()),
                    ),
                    line(
                        "Decoder",
                        "decoder_util",
                        engine(device.decoder_utilization()),
                    ),
                    line("JPEG", "jpeg_util", engine(device.jpeg_utilization())),
                    line("OFA", "ofa_util", engine(device.ofa_utilization())),
                ],
            )
            .part(Part::Utilization),
            self.samples("GPU Utilization Samples", 1, Unit::Percent),
            self.samples("Memory Utilization Samples", 2, Unit::Percent),
            self.samples("ENC Utilization Samples", 3, Unit::Percent),
            self.samples("DEC Utilization Samples", 4, Unit::Percent),
            sessions("Encoder Stats", "encoder_stats", encoder).part(Part::EncoderStats),
            sessions("FBC Stats", "fbc_stats", capture).part(Part::FbcStats),
        ];
        nodes.extend(self.encryption());
        nodes
    }
}

fn sessions(label: &str, tag: &'static str, stats: Answer<[u32; 3]>) -> Node {
    let line = |label: &str, tag, at: usize| {
        Node::value(label, tag, &Value::of(stats.map(|stats| stats[at])))
    };
    let lines = vec![
        line("Active Sessions", "session_count", 0),
        line("Average FPS", "average_fps", 1),
        line("Average Latency", "average_latency", 2),
    ];
    Node::group(label, tag, lines)
}
