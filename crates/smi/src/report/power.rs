//! Heat, power and clocks.

use nvidia_ml::client::Result as Answer;

use super::node::Node;
use super::samples::Unit;
use super::sections::Part;
use super::{APPLICATION_CLOCKS_GONE, DEPRECATED, Subject, TWO_DRAWS};
use crate::query::Value;

/// From this driver on, power smoothing and power profiles are told.
const PROFILES: u32 = 570;
/// Drivers that no longer answer for voltages, and those that no longer ask.
const VOLTAGE_DEPRECATED: u32 = 575;
const VOLTAGE_GONE: u32 = 580;

/// NVML's numbers of temperature limits, and of the fields that tell them as margins.
const SHUTDOWN: (u32, u32) = (0, 193);
const SLOWDOWN: (u32, u32) = (1, 194);
const MEMORY: (u32, u32) = (2, 195);
const OPERATING: (u32, u32) = (3, 196);

/// Scopes of power fields.
const GPU: u32 = 0;
const MODULE: u32 = 1;
const HBM: u32 = 2;

const GRAPHICS_CLOCK: u32 = 0;
const SM_CLOCK: u32 = 1;
const MEMORY_CLOCK: u32 = 2;
const VIDEO_CLOCK: u32 = 3;

/// Power smoothing and profiles of workloads: boards have them from Blackwell on, and nobody sets them here.
fn profiles() -> [Node; 2] {
    let lines = vec![
        Node::leaf(
            "Requested Profiles",
            "power_profile_requested_profiles",
            "N/A",
        ),
        Node::leaf(
            "Enforced Profiles",
            "power_profile_enforced_profiles",
            "N/A",
        ),
    ];
    [
        Node::leaf("Power Smoothing", "power_smoothing", "N/A").part(Part::PowerSmoothing),
        Node::group("Workload Power Profiles", "power_profiles", lines).part(Part::PowerProfiles),
    ]
}

fn watts(label: &str, tag: &'static str, value: &Value) -> Node {
    Node::amount(label, tag, value, "W")
}

fn mhz(label: &str, tag: &'static str, answer: Answer<u32>) -> Node {
    Node::amount(label, tag, &Value::amount_of(answer), "MHz")
}

impl Subject<'_> {
    pub(super) fn heat(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let celsius = |label: &str, tag, value: Value| Node::amount(label, tag, &value, "C");
        let margin = device.margin_temperature().map(|margin| margin.margin);
        let current = Value::amount_of(device.temperature(0));
        let memory = Value::amount_of(device.field(82, 0));
        // Newer boards tell their limits as degrees from where they would slow down.
        let margins = margin.is_ok();
        let limit = |names: [&str; 2], tags: [&'static str; 2], (kind, field): (u32, u32)| {
            if margins {
                celsius(names[1], tags[1], Value::amount_of(device.field(field, 0)))
            } else {
                celsius(names[0], tags[0], Value::amount_of(device.threshold(kind)))
            }
        };
        let lines = vec![
            celsius("GPU Current Temp", "gpu_temp", current),
            celsius(
                "GPU T.Limit Temp",
                "gpu_temp_tlimit",
                Value::amount_of(margin),
            ),
            limit(
                ["GPU Shutdown Temp", "GPU Shutdown T.Limit Temp"],
                ["gpu_temp_max_threshold", "gpu_temp_max_tlimit_threshold"],
                SHUTDOWN,
            ),
            limit(
                ["GPU Slowdown Temp", "GPU Slowdown T.Limit Temp"],
                ["gpu_temp_slow_threshold", "gpu_temp_slow_tlimit_threshold"],
                SLOWDOWN,
            ),
            limit(
                ["GPU Max Operating Temp", "GPU Max Operating T.Limit Temp"],
                [
                    "gpu_temp_max_gpu_threshold",
                    "gpu_temp_max_gpu_tlimit_threshold",
                ],
                OPERATING,
            ),
            Node::leaf("GPU Target Temperature", "gpu_target_temperature", "N/A"),
            celsius("Memory Current Temp", "memory_temp", memory),
            limit(
                [
                    "Memory Max Operating Temp",
                    "Memory Max Operating T.Limit Temp",
                ],
                [
                    "gpu_temp_max_mem_threshold",
                    "gpu_temp_max_mem_tlimit_threshold",
                ],
                MEMORY,
            ),
        ];
        let target = vec![
            Node::leaf("GPU Target Temp Min", "gpu_target_temp_min", "N/A"),
            Node::leaf("GPU Target Temp Max", "gpu_target_temp_max", "N/A"),
        ];
        vec![
            Node::group("Temperature", "temperature", lines).part(Part::Temperature),
            Node::group(
                "Supported GPU Target Temp",
                "supported_gpu_target_temp",
                target,
            )
            .part(Part::TargetTemperature),
        ]
    }

    pub(super) fn power(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let state = Value::of(device.performance_state().map(|state| format!("P{state}")));
        let limits = device.power_limits();
        let mut gpu = vec![Node::value("", "power_state", &state)];
        gpu.extend(self.draws(GPU, Value::watts(device.power_usage())));
        gpu.extend([
            watts(
                "Current Power Limit",
                "current_power_limit",
                &Value::watts(device.enforced_power_limit()),
            ),
            watts(
                "Requested Power Limit",
                "requested_power_limit",
                &Value::watts(device.power_limit()),
            ),
            watts(
                "Default Power Limit",
                "default_power_limit",
                &Value::watts(device.default_power_limit()),
            ),
            watts(
                "Min Power Limit",
                "min_power_limit",
                &Value::watts(limits.map(|l| l.0)),
            ),
            watts(
                "Max Power Limit",
                "max_power_limit",
                &Value::watts(limits.map(|l| l.1)),
            ),
        ]);
        let field = |id, scope| Value::watts(device.field(id, scope));
        let memory = self.draws(HBM, field(185, HBM));
        let mut module = vec![Node::value("", "power_state", &state)];
        module.extend(self.draws(MODULE, field(186, MODULE)));
        module.extend([
            watts(
                "Current Power Limit",
                "current_power_limit",
                &field(190, MODULE),
            ),
            watts(
                "Requested Power Limit",
                "requested_power_limit",
                &field(192, MODULE),
            ),
            watts(
                "Default Power Limit",
                "default_power_limit",
                &field(189, MODULE),
            ),
            watts("Min Power Limit", "min_power_limit", &field(187, MODULE)),
            watts("Max Power Limit", "max_power_limit", &field(188, MODULE)),
        ]);
        let mut nodes = vec![
            Node::group("GPU Power Readings", "gpu_power_readings", gpu).part(Part::Power),
            self.samples("Power Samples", 0, Unit::Milliwatts),
            Node::group(
                // With a space at its end, as the real program writes it.
                "GPU Memory Power Readings ",
                "gpu_memory_power_readings",
                memory,
            )
            .part(Part::Power),
            Node::group("Module Power Readings", "module_power_readings", module).part(Part::Power),
        ];
        if self.branch >= PROFILES {
            nodes.extend(profiles());
        }
        nodes
    }

    /// The power draw, in one line or in two.
    fn draws(&self, scope: u32, one: Value) -> Vec<Node> {
        if self.branch < TWO_DRAWS {
            return vec![watts("Power Draw", "power_draw", &one)];
        }
        let field = |id| Value::watts(self.gpu.device.field(id, scope));
        vec![
            watts("Average Power Draw", "average_power_draw", &field(185)),
            watts(
                "Instantaneous Power Draw",
                "instant_power_draw",
                &field(186),
            ),
        ]
    }

    pub(super) fn clocks(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let gone = self.branch >= APPLICATION_CLOCKS_GONE;
        let applications = |read: &dyn Fn(u32) -> Answer<u32>| {
            if gone {
                return vec![
                    Node::leaf("Graphics", "graphics_clock", DEPRECATED),
                    Node::leaf("Memory", "mem_clock", DEPRECATED),
                ];
            }
            vec![
                mhz("Graphics", "graphics_clock", read(GRAPHICS_CLOCK)),
                mhz("Memory", "mem_clock", read(MEMORY_CLOCK)),
            ]
        };
        let all = |read: &dyn Fn(u32) -> Answer<u32>| {
            vec![
                mhz("Graphics", "graphics_clock", read(GRAPHICS_CLOCK)),
                mhz("SM", "sm_clock", read(SM_CLOCK)),
                mhz("Memory", "mem_clock", read(MEMORY_CLOCK)),
                mhz("Video", "video_clock", read(VIDEO_CLOCK)),
            ]
        };
        let boost = device.auto_boost();
        let on =
            |answer: Answer<u32>| Value::of(answer.map(|on| if on == 0 { "Off" } else { "On" }));
        let group = |label: &str, tag, lines| Node::group(label, tag, lines).part(Part::Clock);
        let mut nodes = vec![
            group("Clocks", "clocks", all(&|kind| device.clock(kind))),
            group(
                "Applications Clocks",
                "applications_clocks",
                applications(&|kind| device.application_clock(kind)),
            ),
            group(
                "Default Applications Clocks",
                "default_applications_clocks",
                applications(&|kind| device.default_application_clock(kind)),
            ),
            group(
                "Deferred Clocks",
                "deferred_clocks",
                vec![Node::leaf("Memory", "mem_clock", "N/A")],
            ),
            group(
                "Max Clocks",
                "max_clocks",
                all(&|kind| device.max_clock(kind)),
            ),
            group(
                "Max Customer Boost Clocks",
                "max_customer_boost_clocks",
                vec![mhz(
                    "Graphics",
                    "graphics_clock",
                    device.max_boost_clock(GRAPHICS_CLOCK),
                )],
            ),
            self.samples("SM Clock Samples", 5, Unit::Megahertz),
            self.samples("Memory Clock Samples", 6, Unit::Megahertz),
            group(
                "Clock Policy",
                "clock_policy",
                vec![
                    Node::value("Auto Boost", "auto_boost", &on(boost.map(|(now, _)| now))),
                    Node::value(
                        "Auto Boost Default",
                        "auto_boost_default",
                        &on(boost.map(|(_, default)| default)),
                    ),
                ],
            ),
        ];
        nodes.extend(self.voltage());
        nodes
    }

    fn voltage(&self) -> Option<Node> {
        let value = match self.branch {
            VOLTAGE_GONE.. => return None,
            VOLTAGE_DEPRECATED.. => DEPRECATED,
            // NVML has no public call for voltages.
            _ => "N/A",
        };
        let lines = vec![Node::leaf("Graphics", "graphics_volt", value)];
        Some(Node::group("Voltage", "voltage", lines).part(Part::Voltage))
    }

    pub(super) fn supported_clocks(&self) -> Vec<Node> {
        let device = self.gpu.device;
        let memories = device.supported_memory_clocks().unwrap_or_default();
        if memories.is_empty() {
            let none = Node::leaf("Supported Clocks", "supported_clocks", "N/A");
            return vec![none.part(Part::SupportedClocks)];
        }
        let (mut lines, mut elements) = (Vec::new(), Vec::new());
        for memory in memories {
            let clocks = device.supported_graphics_clocks(memory).unwrap_or_default();
            let under = |label: &str, tag| -> Vec<Node> {
                clocks
                    .iter()
                    .map(|&clock| mhz(label, tag, Ok(clock)))
                    .collect()
            };
            lines.push(mhz("Memory", "", Ok(memory)).with(under("Graphics", "")));
            let mut element = vec![mhz("", "value", Ok(memory))];
            element.extend(under("", "supported_graphics_clock"));
            elements.push(Node::group("", "supported_mem_clock", element));
        }
        vec![
            Node::group("Supported Clocks", "", lines).part(Part::SupportedClocks),
            Node::group("", "supported_clocks", elements).part(Part::SupportedClocks),
        ]
    }
}
