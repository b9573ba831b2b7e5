//! A model file into a [`Board`]. Strict: a figure without a known source, a figure nobody
//! reads and a figure that is missing are all problems, so a typo cannot hide.

use crate::board::{
    Board, C2c, Clocks, FormFactor, Governor, InfoRom, LimitStyle, ModulePower, NvLink, Power,
    Thermal, Vendor,
};
use crate::identity::PciAddress;
use crate::power_profile::{self, PowerProfile};
use crate::yaml::{Node, Problem, Value};

use super::{geometry, sense};

/// Sections that hold figures; every key in them must be read.
const SECTIONS: [&str; 8] = [
    "identity", "compute", "memory", "links", "power", "clocks", "thermal", "host",
];
/// What else a file may have at the top.
const OTHERS: [&str; 5] = ["key", "aliases", "mig", "sources", "notes"];

/// Reads a board out of a parsed file.
pub(super) fn board(root: &Node) -> Result<Board, Vec<Problem>> {
    let mut file = Reader::new(root);
    let key = file.top_text("key");
    let step_khz = (file.need("clocks", "sm-step-mhz", Node::f64) * 1000.0).round() as u32;
    let gen_max = file.need("links", "pcie-gen-max", u32_of);
    let board = Board {
        key,
        name: file.need("identity", "name", string_of),
        product: file.need("identity", "product", string_of),
        vendor: file.choose("identity", "vendor", VENDORS),
        brand: file.need("identity", "brand", string_of),
        brand_code: file.need("identity", "brand-code", u32_of),
        architecture: file.need("identity", "architecture", string_of),
        architecture_code: file.need("identity", "architecture-code", u32_of),
        compute_capability: file.need("identity", "compute-capability", version_of),
        sm_count: file.need("compute", "sm-count", u32_of),
        core_count: file.need("compute", "core-count", u32_of),
        l2_kib: file.need("compute", "l2-kib", u32_of),
        memory_total_mib: file.need("memory", "total-mib", Node::u64),
        memory_reserved_mib: file.need("memory", "reserved-mib", Node::u64),
        bar1_mib: file.maybe("memory", "bar1-mib", Node::u64),
        memory_bus_bits: file.need("memory", "bus-bits", u32_of),
        memory_bandwidth_gbs: file.need("memory", "bandwidth-gbs", Node::f64),
        hbm: file.need("memory", "hbm", Node::bool),
        pci_device_id: file.need("identity", "pci-device-id", u32_of),
        pci_subsystem_id: file
            .maybe("identity", "pci-subsystem-id", u32_of)
            .unwrap_or(0),
        pci_slots: file.need("host", "pci-slots", slots_of),
        pcie_gen_max: gen_max,
        pcie_device_gen_max: file
            .maybe("links", "pcie-device-gen-max", u32_of)
            .unwrap_or(gen_max),
        pcie_host_gen_max: file.maybe("links", "pcie-host-gen-max", u32_of),
        pcie_width_max: file.need("links", "pcie-width-max", u32_of),
        bridge_firmware: file.maybe("links", "bridge-firmware", u32_of),
        nvlink: nvlink(&mut file),
        c2c: file.choose("links", "c2c", C2CS),
        power: Power {
            idle_w: file.need("power", "idle-w", Node::f64),
            min_w: file.need("power", "min-w", Node::f64),
            default_w: file.need("power", "default-w", Node::f64),
            max_w: file.need("power", "max-w", Node::f64),
            module: module(&mut file),
            workload_profiles: file
                .maybe("power", "workload-profiles", profiles_of)
                .unwrap_or_default(),
        },
        clocks: Clocks {
            sm_idle_mhz: file.need("clocks", "sm-idle-mhz", u32_of),
            sm_max_mhz: file.need("clocks", "sm-max-mhz", u32_of),
            mem_idle_mhz: file.need("clocks", "mem-idle-mhz", u32_of),
            mem_max_mhz: file.need("clocks", "mem-max-mhz", u32_of),
            video_max_mhz: file.need("clocks", "video-max-mhz", u32_of),
            sm_default_mhz: file.need("clocks", "sm-default-mhz", u32_of),
            sm_min_mhz: file.need("clocks", "sm-min-mhz", u32_of),
            sm_step_mhz: whole_step(step_khz),
            sm_step_khz: step_khz,
        },
        thermal: thermal(&mut file),
        row_remap_banks: file.maybe("memory", "row-remap-banks", u32_of),
        mig: root
            .get("mig")
            .and_then(|mig| geometry::read(mig, &mut file)),
        ecc: file.maybe("memory", "ecc", Node::bool),
        fans: file.need("compute", "fans", u32_of),
        encoders: file.need("compute", "encoders", u32_of),
        decoders: file.need("compute", "decoders", u32_of),
        jpeg_engines: file.need("compute", "jpeg-engines", u32_of),
        ofa_engines: file.need("compute", "ofa-engines", u32_of),
        copy_engines: file.need("compute", "copy-engines", u32_of),
        gpus_per_node: file.need("host", "gpus-per-node", u32_of),
        slot_offset_c: file.need("thermal", "slot-offset-c", Node::f64),
        governor: file.choose("clocks", "governor", GOVERNORS),
        driver_version: file.need("host", "driver", string_of),
        cuda_version: file.need("host", "cuda", string_of),
        vbios: file.need("identity", "vbios", string_of),
        board_part_number: file.text_or_empty("identity", "board-part-number"),
        gpu_part_number: file.text_or_empty("identity", "gpu-part-number"),
        inforom: InfoRom {
            image: file.text_or_empty("identity", "inforom-image"),
            oem: file.text_or_empty("identity", "inforom-oem"),
            ecc: file.text_or_empty("identity", "inforom-ecc"),
        },
        form_factor: file.choose("identity", "form-factor", FORM_FACTORS),
        gpus_per_serial: file
            .maybe("identity", "gpus-per-serial", u32_of)
            .unwrap_or(1),
        multi_gpu_board: file.flag("identity", "multi-gpu-board"),
        platform: file.flag("identity", "platform"),
        profiling: file.need("compute", "profiling", Node::bool),
    };
    // Figures that are missing read as 0; do not report those twice.
    if file.problems.is_empty() {
        for rule in sense::check(&board) {
            file.problem(root, rule);
        }
    }
    file.finish().map(|()| board)
}

fn nvlink(file: &mut Reader<'_>) -> Option<NvLink> {
    let links = file.maybe("links", "nvlink-links", u32_of)?;
    Some(NvLink {
        version: file.need("links", "nvlink-version", u32_of),
        links,
        gbs_per_link: file.need("links", "nvlink-gbs-per-link", Node::f64),
        switches: file.need("links", "nvlink-switches", u32_of),
    })
}

fn module(file: &mut Reader<'_>) -> Option<ModulePower> {
    let max_w = file.maybe("power", "module-w", Node::f64)?;
    Some(ModulePower {
        rest_w: file.need("power", "module-rest-w", Node::f64),
        min_w: file.need("power", "module-min-w", Node::f64),
        max_w,
    })
}

fn thermal(file: &mut Reader<'_>) -> Thermal {
    let style = file.choose("thermal", "style", STYLES);
    // Boards with absolute limits have no margins; 0 stands for that.
    let mut margin = |key| match style {
        LimitStyle::Margin => file.need("thermal", key, i32_of),
        LimitStyle::Absolute => 0,
    };
    let (margin_slowdown_c, margin_shutdown_c) =
        (margin("margin-slowdown-c"), margin("margin-shutdown-c"));
    Thermal {
        idle_c: file.need("thermal", "idle-c", Node::f64),
        slowdown_c: file.need("thermal", "slowdown-c", Node::f64),
        shutdown_c: file.need("thermal", "shutdown-c", Node::f64),
        max_operating_c: file.need("thermal", "max-operating-c", Node::f64),
        memory_max_c: file.maybe("thermal", "memory-max-c", Node::f64),
        has_memory_sensor: file.need("thermal", "memory-sensor", Node::bool),
        style,
        margin_slowdown_c,
        margin_shutdown_c,
        inlet_c: file.need("thermal", "inlet-c", Node::f64),
        resistance_c_per_w: file.need("thermal", "resistance-c-per-w", Node::f64),
        tau_s: file.need("thermal", "tau-s", Node::f64),
    }
}

/// Where a step is 7.5 MHz, every second supported clock is a whole 15 MHz apart.
fn whole_step(khz: u32) -> u32 {
    if khz.is_multiple_of(1000) {
        khz / 1000
    } else {
        (2 * khz).div_ceil(1000)
    }
}

/// Words a figure may be, and what they mean; the first stands in when none fits.
type Words<T> = &'static [(&'static str, T)];
const VENDORS: Words<Vendor> = &[
    ("nvidia", Vendor::Nvidia),
    ("amd", Vendor::Amd),
    ("intel", Vendor::Intel),
];
const C2CS: Words<C2c> = &[
    ("absent", C2c::Absent),
    ("disabled", C2c::Disabled),
    ("enabled", C2c::Enabled),
];
const GOVERNORS: Words<Governor> = &[
    ("race", Governor::Race),
    ("proportional", Governor::Proportional),
];
const STYLES: Words<LimitStyle> = &[
    ("absolute", LimitStyle::Absolute),
    ("margin", LimitStyle::Margin),
];
const FORM_FACTORS: Words<FormFactor> = &[
    ("pcie", FormFactor::Pcie),
    ("sxm", FormFactor::Sxm),
    ("superchip", FormFactor::Superchip),
];

/// Takes figures out of a file and remembers which, so that none is left unread.
pub(super) struct Reader<'a> {
    root: &'a Node,
    taken: Vec<(&'static str, &'static str)>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Node) -> Self {
        Self {
            root,
            taken: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Notes something wrong at a node.
    pub(super) fn problem(&mut self, at: &Node, message: impl Into<String>) {
        self.problems.push(Problem::new(at.span, message));
    }

    /// Checks that a source id is in the file's list.
    pub(super) fn check_source(&mut self, source: Option<&Node>, at: &Node) {
        let sources = self.root.get("sources");
        match source.and_then(Node::text) {
            Some(id) if sources.and_then(|all| all.get(id)).is_some() => {}
            Some(id) => self.problem(at, format!("source `{id}` is not under `sources`")),
            None => self.problem(at, "a figure needs a source: [value, source]"),
        }
    }

    /// The value of `[value, source]`.
    pub(super) fn value_of(&mut self, pair: &'a Node) -> Option<&'a Node> {
        let Some([value, source]) = pair.items() else {
            self.problem(pair, "a figure is written [value, source]");
            return None;
        };
        self.check_source(Some(source), source);
        Some(value)
    }

    fn maybe<T>(
        &mut self,
        section: &'static str,
        key: &'static str,
        convert: impl FnOnce(&Node) -> Option<T>,
    ) -> Option<T> {
        self.taken.push((section, key));
        let pair = self.root.get(section)?.get(key)?;
        let value = self.value_of(pair)?;
        let converted = convert(value);
        if converted.is_none() {
            self.problem(value, format!("`{key}` cannot be {}", value.shape()));
        }
        converted
    }

    fn need<T: Default>(
        &mut self,
        section: &'static str,
        key: &'static str,
        convert: impl FnOnce(&Node) -> Option<T>,
    ) -> T {
        let at = self.root.get(section).unwrap_or(self.root);
        if at.get(key).is_none() {
            self.problem(at, format!("`{section}.{key}` is missing"));
        }
        self.maybe(section, key, convert).unwrap_or_default()
    }

    fn choose<T: Copy>(&mut self, section: &'static str, key: &'static str, words: Words<T>) -> T {
        let index = self.need(section, key, |node| {
            let text = node.text()?;
            words.iter().position(|(word, _)| *word == text)
        });
        words[index].1
    }

    fn flag(&mut self, section: &'static str, key: &'static str) -> bool {
        self.maybe(section, key, Node::bool).unwrap_or(false)
    }

    fn text_or_empty(&mut self, section: &'static str, key: &'static str) -> String {
        self.maybe(section, key, string_of).unwrap_or_default()
    }

    fn top_text(&mut self, key: &'static str) -> String {
        let text = self.root.get(key).and_then(string_of);
        if text.is_none() {
            self.problem(self.root, format!("`{key}` is missing"));
        }
        text.unwrap_or_default()
    }

    fn finish(mut self) -> Result<(), Vec<Problem>> {
        for (section, node) in self.root.entries().unwrap_or_default() {
            let name = section.text.as_str();
            if OTHERS.contains(&name) {
                continue;
            }
            if !SECTIONS.contains(&name) {
                let message = format!("unknown section `{name}`");
                self.problems.push(Problem::new(section.span, message));
                continue;
            }
            let Value::Mapping(entries) = &node.value else {
                self.problem(node, format!("`{name}` must be a mapping"));
                continue;
            };
            for (key, _) in entries {
                if !self.taken.contains(&(name, key.text.as_str())) {
                    let message = format!("unknown figure `{name}.{}`", key.text);
                    self.problems.push(Problem::new(key.span, message));
                }
            }
        }
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(self.problems)
        }
    }
}

/// A whole number that fits 32 bits.
pub(super) fn u32_of(node: &Node) -> Option<u32> {
    u32::try_from(node.u64()?).ok()
}

fn i32_of(node: &Node) -> Option<i32> {
    node.plain()?.parse().ok()
}

/// Text that is not empty.
pub(super) fn string_of(node: &Node) -> Option<String> {
    node.text()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// `8.0` as (8, 0).
fn version_of(node: &Node) -> Option<(u32, u32)> {
    let (major, minor) = node.text()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `max-p max-q`: workload power profiles by name.
fn profiles_of(node: &Node) -> Option<Vec<&'static PowerProfile>> {
    node.text()?
        .split_whitespace()
        .map(power_profile::by_name)
        .collect()
}

/// `07 0F` or `0008:06 0009:06`: buses, with a domain where it is not 0.
fn slots_of(node: &Node) -> Option<Vec<PciAddress>> {
    node.text()?
        .split_whitespace()
        .map(|slot| {
            let (domain, bus) = slot.split_once(':').unwrap_or(("0", slot));
            Some(PciAddress {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: 0,
            })
        })
        .collect()
}
