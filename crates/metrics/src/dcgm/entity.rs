//! What DCGM tells of a node beside its GPUs: NVSwitches and their ports, and Grace CPUs and their cores.
//!
//! State holds GPUs only. Of the rest this shows what follows from them: the traffic of links at the other end,
//! and first-order figures of heat and load that move with the GPUs beside them. What does not follow (voltages,
//! latencies, SXids, thresholds) stays blank.

use mirage_state::Node;
use mirage_state::layout::{board_flags, flags, valid, vendors};

use crate::dcgm::fields::Level;
use crate::dcgm::labels::{Style, push_host, push_label_fields};
use crate::dcgm::plan::Family;
use crate::decimal::{Decimal, push_uint};
use crate::device::Device;

/// What can be read of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SwitchRead {
    /// Degrees.
    Temperature,
    /// Bytes sent to GPUs.
    Sent,
    /// Bytes received from GPUs.
    Received,
}

/// What can be read of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuRead {
    Busy,
    User,
    Nice,
    System,
    Interrupts,
    Temperature,
    Power,
}

/// NVSwitches on a baseboard. Those of a rack are in trays of their own, where no GPU is.
fn switches(gpu: &Device<'_>) -> u32 {
    match gpu.board.flags & board_flags::PLATFORM {
        0 => gpu.board.nvlink_switches,
        _ => 0,
    }
}

/// A port of a switch: the far end of a GPU's link.
struct Port<'a> {
    switch: u32,
    number: u32,
    gpu: Device<'a>,
    link: u32,
}

/// The GPUs that have links to switches, and how many switches there are.
fn switched<'a>(node: &'a Node<'a>) -> (Vec<Device<'a>>, u32) {
    let gpus: Vec<_> = Device::gpus(node)
        .filter(|gpu| {
            gpu.board.vendor == vendors::NVIDIA && gpu.knows(valid::NVLINK) && switches(gpu) > 0
        })
        .collect();
    let count = gpus.first().map_or(0, switches);
    (gpus, count)
}

/// All ports that lead to a GPU, by switch and number. Links are dealt out over the switches, and a switch
/// numbers its ports in the order of the GPUs.
fn ports<'a>(gpus: &[Device<'a>], switches: u32) -> Vec<Port<'a>> {
    let mut ports = Vec::new();
    for switch in 0..switches {
        let links = gpus.iter().flat_map(|gpu| {
            let all = 0..gpu.board.nvlink_links.min(32);
            all.filter(move |link| link % switches == switch)
                .map(move |link| (*gpu, link))
        });
        ports.extend(links.zip(0..).map(|((gpu, link), number)| Port {
            switch,
            number,
            gpu,
            link,
        }));
    }
    ports
}

impl Port<'_> {
    fn is_up(&self) -> bool {
        self.gpu.links_up().any(|link| link == self.link)
    }

    /// Bytes through the port since the start, up or not; what a GPU receives, its switch has sent.
    fn bytes(&self, read: SwitchRead) -> u64 {
        let live = self.gpu.live;
        let all = match read {
            SwitchRead::Sent => live.nvlink_rx_bytes,
            SwitchRead::Received => live.nvlink_tx_bytes,
            SwitchRead::Temperature => 0,
        };
        self.gpu.link_share(self.link, all)
    }
}

/// Appends the samples of switches, or of their ports.
pub(crate) fn switch_samples(
    family: &Family,
    style: &Style,
    node: &Node<'_>,
    read: SwitchRead,
    out: &mut Vec<u8>,
) {
    let (gpus, count) = switched(node);
    let Some(first) = gpus.first() else {
        return;
    };
    let ports = ports(&gpus, count);
    if family.field.level == Level::Port {
        for port in ports.iter().filter(|port| port.is_up()) {
            let shown = style.options.switches.has_part(port.number)
                || style.options.switches.has_whole(port.switch) && is_all(style);
            if !shown {
                continue;
            }
            out.extend_from_slice(&family.open);
            out.extend_from_slice(b"nvlink=\"");
            push_uint(out, port.number.into());
            out.extend_from_slice(b"\",nvswitch=\"nvswitch");
            push_uint(out, port.switch.into());
            out.push(b'"');
            push_host(out, style, node, "hostname");
            push_label_fields(out, &style.global_labels, first);
            family.close(Decimal::whole(port.bytes(read)), out);
        }
        return;
    }
    for switch in (0..count).filter(|&switch| style.options.switches.has_whole(switch)) {
        let value = match read {
            SwitchRead::Temperature => switch_temperature(&gpus),
            SwitchRead::Sent | SwitchRead::Received => {
                let own = ports.iter().filter(|port| port.switch == switch);
                let bytes = own.fold(0u64, |sum, port| sum.saturating_add(port.bytes(read)));
                Some(Decimal::whole(bytes))
            }
        };
        let Some(value) = value else {
            continue;
        };
        out.extend_from_slice(&family.open);
        out.extend_from_slice(b"nvswitch=\"nvswitch");
        push_uint(out, switch.into());
        out.push(b'"');
        push_host(out, style, node, style.hostname);
        push_label_fields(out, &style.global_labels, first);
        family.close(value, out);
    }
}

fn is_all(style: &Style) -> bool {
    style.options.switches == crate::Devices::Flexible
}

/// Switches sit in the air of the GPUs they join: half of what these are above a cool 30 °C, and warmer the
/// more passes through, up to 15 °C.
fn switch_temperature(gpus: &[Device<'_>]) -> Option<Decimal> {
    let alive: Vec<_> = gpus.iter().filter(|gpu| !gpu.has(flags::LOST)).collect();
    let count = i64::try_from(alive.len()).ok().filter(|count| *count > 0)?;
    let mean = alive
        .iter()
        .map(|gpu| i64::from(gpu.live.temperature_c.clamp(0, 150)))
        .sum::<i64>()
        / count;
    let capacity = alive.iter().fold(0u64, |sum, gpu| {
        let each = u64::from(gpu.board.nvlink_mbs) * 2_000_000;
        sum.saturating_add(each.saturating_mul(u64::from(gpu.board.nvlink_links)))
    });
    let moved = alive.iter().fold(0u64, |sum, gpu| {
        let live = gpu.live;
        sum.saturating_add(live.nvlink_tx_bps.saturating_add(live.nvlink_rx_bps))
    });
    let warmer = match capacity {
        0 => 0,
        capacity => (u128::from(moved) * 15 / u128::from(capacity)).min(15) as i64,
    };
    let celsius = 33 + (mean - 30).max(0) / 2 + warmer;
    Some(Decimal::whole(u64::try_from(celsius).unwrap_or(0)))
}

/// Cores of a Grace CPU.
const CORES: u32 = 72;

/// A CPU: the GPUs on its module.
struct Cpu<'a> {
    gpus: Vec<Device<'a>>,
}

/// The Grace CPUs of a node: one for each module, which its GPUs tell by their serial number.
fn cpus<'a>(node: &'a Node<'a>) -> Vec<Cpu<'a>> {
    let mut modules: Vec<(&[u8], Cpu<'a>)> = Vec::new();
    for gpu in Device::gpus(node) {
        if gpu.board.flags & board_flags::C2C_ENABLED == 0 || gpu.board.vendor != vendors::NVIDIA {
            continue;
        }
        let serial = &gpu.card.serial[..];
        match modules.iter_mut().find(|(known, _)| *known == serial) {
            Some((_, cpu)) => cpu.gpus.push(gpu),
            None => modules.push((serial, Cpu { gpus: vec![gpu] })),
        }
    }
    modules.into_iter().map(|(_, cpu)| cpu).collect()
}

impl Cpu<'_> {
    /// Share of time it is busy, ppm: a little by itself, and feeding its GPUs.
    fn busy_ppm(&self) -> u64 {
        let percent: u64 = self
            .gpus
            .iter()
            .filter(|gpu| !gpu.has(flags::LOST))
            .map(|gpu| u64::from(gpu.live.gpu_percent.min(100)))
            .sum();
        15_000 + percent * 1_500 / self.gpus.len().max(1) as u64
    }

    /// The same of one of its cores. The first have more to do than the last; together they make up the CPU.
    fn core_ppm(&self, core: u32) -> u64 {
        let weight = 1_500_000 - 1_000_000 * u64::from(core) / u64::from(CORES - 1);
        self.busy_ppm() * weight / 1_000_000
    }

    /// Power in mW: what the module draws beside its GPUs, where that is known.
    fn power_mw(&self, busy: u64) -> u64 {
        let module = self.gpus.iter().find(|gpu| gpu.knows(valid::MODULE_POWER));
        let gpus = self.gpus.iter().map(|gpu| u64::from(gpu.live.power_mw));
        match module {
            Some(gpu) => u64::from(gpu.live.module_power_mw).saturating_sub(gpus.sum()),
            // 45 W when idle, 250 W when all cores are busy.
            None => 45_000 + busy * 205 / 1_000,
        }
    }

    fn value(&self, read: CpuRead, busy: u64) -> Decimal {
        let ratio = |ppm: u64| Decimal::of(ppm, 6);
        let (system, interrupts) = (busy / 4, busy / 20);
        match read {
            CpuRead::Busy => ratio(busy),
            CpuRead::User => ratio(busy - system - interrupts),
            CpuRead::Nice => ratio(0),
            CpuRead::System => ratio(system),
            CpuRead::Interrupts => ratio(interrupts),
            // 34 °C when idle, 84 °C when all cores are busy.
            CpuRead::Temperature => Decimal::whole(34 + busy * 50 / 1_000_000),
            CpuRead::Power => Decimal::of(self.power_mw(busy), 3),
        }
    }
}

/// Appends the samples of CPUs and, for what cores have too, of their cores.
pub(crate) fn cpu_samples(
    family: &Family,
    style: &Style,
    node: &Node<'_>,
    read: CpuRead,
    out: &mut Vec<u8>,
) {
    let cpus = cpus(node);
    let cores = if family.field.level == Level::Core {
        CORES
    } else {
        0
    };
    let finish = |cpu: &Cpu<'_>, value: Decimal, out: &mut Vec<u8>| {
        push_host(out, style, node, style.hostname);
        if let Some(gpu) = cpu.gpus.first() {
            push_label_fields(out, &style.global_labels, gpu);
        }
        family.close(value, out);
    };
    for (number, cpu) in (0..).zip(&cpus) {
        if style.options.cpus.has_whole(number) {
            out.extend_from_slice(&family.open);
            out.extend_from_slice(b"cpu=\"");
            push_uint(out, number.into());
            out.push(b'"');
            finish(cpu, cpu.value(read, cpu.busy_ppm()), out);
        }
    }
    for (number, cpu) in (0..).zip(&cpus) {
        for core in 0..cores {
            let id = number * CORES + core;
            if !style.options.cpus.has_part(id) {
                continue;
            }
            out.extend_from_slice(&family.open);
            out.extend_from_slice(b"cpucore=\"");
            push_uint(out, id.into());
            out.extend_from_slice(b"\",cpu=\"");
            push_uint(out, number.into());
            out.push(b'"');
            finish(cpu, cpu.value(read, cpu.core_ppm(core)), out);
        }
    }
}
