//! What happened, in a few lines.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use mirage_model::quantity::show_duration;
use mirage_sim::{Event, Phase};

use super::Offline;
use super::csv::thousandths;
use crate::page;
use crate::view::{FaultView, device_name};

/// GPUs, workloads and faults told one by one; more are only counted.
const TOLD: usize = 64;

/// Gathers what each tick brings.
#[derive(Default)]
pub(super) struct Summary {
    gpus: Vec<Gpu>,
    events: BTreeMap<String, u64>,
    ticks: u64,
}

/// One GPU over the whole run; integers, so that nothing depends on the machine.
#[derive(Default, Clone)]
struct Gpu {
    busy_sum: u64,
    power_sum_mw: u64,
    power_max_mw: u64,
    temperature_max_c: i16,
    memory_max: u64,
}

impl Summary {
    pub(super) fn begin(&mut self, offline: &Offline) {
        let count = offline.world.nodes().iter().map(|n| n.gpus().len()).sum();
        let cold = Gpu {
            temperature_max_c: i16::MIN,
            ..Gpu::default()
        };
        self.gpus = vec![cold; count];
    }

    pub(super) fn tick(&mut self, offline: &Offline, events: &[Event]) {
        self.ticks += 1;
        let gpus = offline.world.nodes().iter().flat_map(|node| node.gpus());
        for (sum, gpu) in self.gpus.iter_mut().zip(gpus) {
            let now = gpu.readings();
            // Under MIG there is no GPU utilisation; the engine's activity is the same thing.
            sum.busy_sum += u64::from(now.gr_engine_ppm);
            sum.power_sum_mw += u64::from(now.power_mw);
            sum.power_max_mw = sum.power_max_mw.max(now.power_mw.into());
            sum.temperature_max_c = sum.temperature_max_c.max(now.temperature_c);
            sum.memory_max = sum.memory_max.max(now.memory_used);
        }
        for event in events {
            let name = format!("{:?}", event.kind).to_lowercase();
            *self.events.entry(name).or_default() += 1;
        }
    }

    pub(super) fn finish(&self, offline: &Offline, out: &mut impl Write) -> Result<()> {
        let length = show_duration(offline.world.now());
        let seed = offline.plan.seed;
        writeln!(out, "{}", page::summary(&offline.plan))?;
        writeln!(out, "{length} simulated, seed {seed}")?;
        self.gpus(offline, out)?;
        workloads(offline, out)?;
        faults(offline, out)?;
        if !self.events.is_empty() {
            let counts: Vec<_> = self
                .events
                .iter()
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            writeln!(out, "\nEVENTS  {}", counts.join(", "))?;
        }
        Ok(())
    }

    fn gpus(&self, offline: &Offline, out: &mut impl Write) -> Result<()> {
        let ticks = self.ticks.max(1);
        let mut energy = 0;
        let mut shown = 0;
        let mut sums = self.gpus.iter();
        writeln!(
            out,
            "\n{:24} {:>6} {:>10} {:>10} {:>6} {:>10} {:>12} {:>5}",
            "GPU", "BUSY", "POWER", "PEAK", "TEMP", "MEMORY", "ENERGY", "XIDS"
        )?;
        for (node, at) in offline.world.nodes().iter().zip(0u32..) {
            for (gpu, slot) in node.gpus().iter().zip(0u32..) {
                let Some(sum) = sums.next() else { break };
                let readings = gpu.readings();
                energy += readings.energy_mj;
                shown += 1;
                if shown > TOLD {
                    continue;
                }
                let device = mirage_model::plan::DeviceRef {
                    node: at,
                    gpu: slot,
                    instance: None,
                };
                writeln!(
                    out,
                    "{:24} {:>5}% {:>8} W {:>8} W {:>4}°C {:>6} MiB {:>10} J {:>5}",
                    device_name(device, &offline.plan),
                    sum.busy_sum / ticks / 10_000,
                    sum.power_sum_mw / ticks / 1000,
                    sum.power_max_mw / 1000,
                    sum.temperature_max_c,
                    sum.memory_max >> 20,
                    readings.energy_mj / 1000,
                    readings.xid_count,
                )?;
            }
        }
        if shown > TOLD {
            writeln!(out, "… and {} more", shown - TOLD)?;
        }
        writeln!(out, "total energy {} J", thousandths(energy))?;
        Ok(())
    }
}

fn workloads(offline: &Offline, out: &mut impl Write) -> Result<()> {
    let mut count = 0;
    for workload in offline.world.workloads() {
        count += 1;
        if count == 1 {
            writeln!(out, "\nWORKLOADS")?;
        }
        if count > TOLD {
            continue;
        }
        let phase = match workload.phase() {
            Phase::Pending => "pending".into(),
            Phase::Running => "running".into(),
            Phase::Ended(ending) => {
                let at = show_duration(ending.at);
                format!(
                    "ended at {at}, exit code {}: {}",
                    ending.code, ending.reason
                )
            }
        };
        writeln!(out, "{:24} {phase}", workload.name())?;
    }
    if count > TOLD {
        writeln!(out, "… and {} more", count - TOLD)?;
    }
    Ok(())
}

fn faults(offline: &Offline, out: &mut impl Write) -> Result<()> {
    let faults = offline.world.faults();
    if faults.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nFAULTS")?;
    for fault in faults.iter().take(TOLD) {
        let since = show_duration(fault.since);
        let view = FaultView::new(fault, &offline.plan);
        let state = if fault.active { "active" } else { "healed" };
        writeln!(out, "{:24} {} at {since}, {state}", view.device, view.fault)?;
    }
    if faults.len() > TOLD {
        writeln!(out, "… and {} more", faults.len() - TOLD)?;
    }
    Ok(())
}
