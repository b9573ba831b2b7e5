//! The fields of a GPU, each read through NVML when asked for.

use nvidia_ml::client::{Code, Device, Result as Answer, chars};

use super::{Sample, Value};
use crate::gpus::Gpu;
use crate::report::{
    ADDRESSING_MODES, APPLICATION_CLOCKS_GONE, COMPUTE_MODES, DISPLAY_MODE_GONE, FABRIC_HEALTH,
    FABRIC_STATES, PEER_TYPES, RECOVERY_ACTIONS, RESET_STATUS_DEPRECATED, fabric_uuid,
};

/// The memory places NVML numbers, by the end of a field's name.
const PLACES: [(&str, u32); 8] = [
    ("l1_cache", 0),
    ("l2_cache", 1),
    ("device_memory", 2),
    ("dram", 2),
    ("register_file", 3),
    ("texture_memory", 4),
    ("cbu", 6),
    ("sram", 7),
];

/// Bits of the clock reasons.
const REASONS: [(&str, u64); 8] = [
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
];

/// From this driver on, power is managed and nobody asks.
const POWER_MANAGEMENT_GONE: u32 = 590;

/// Numbers of the fields that count time under a reason, in ns.
const REASON_TIMES: [(&str, u32); 5] = [
    ("sw_power_cap", 74),
    ("sync_boost", 76),
    ("sw_thermal_slowdown", 269),
    ("hw_thermal_slowdown", 270),
    ("hw_power_brake_slowdown", 271),
];

/// Fields of what no simulated board has: slices for virtual machines, peaks of power, a host's name set through NVML. Scripts ask for all
/// fields at once, and one that is unknown would fail them.
const ABSENT: [&str; 6] = [
    "vgpu_driver_capability.heterogenous_multivGPU",
    "vgpu_device_capability.fractional_multiVgpu",
    "vgpu_device_capability.heterogeneous_timeSlice_profile",
    "vgpu_device_capability.heterogeneous_timeSlice_sizes",
    "edpp_multiplier",
    "hostname",
];

fn find<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    let found = list.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value)
}

/// The value of a field by its name; nothing for a name that is no field.
pub(super) fn read(sample: &Sample, gpu: &Gpu, name: &str) -> Option<Value> {
    let device = gpu.device;
    if let Some(rest) = name.strip_prefix("ecc.errors.") {
        return errors(device, rest);
    }
    if let Some(rest) = name.strip_prefix("clocks_event_reasons_counters.") {
        let nanoseconds = device.field(find(&REASON_TIMES, rest)?, 0);
        return Some(Value::amount_of(nanoseconds.map(|ns| ns / 1000)));
    }
    if let Some(rest) = name.strip_prefix("clocks_event_reasons.") {
        return reasons(device, rest);
    }
    if let Some(rest) = name.strip_prefix("platform.") {
        return platform(device, rest);
    }
    identity(sample, gpu, name)
        .or_else(|| bus(device, name))
        .or_else(|| modes(sample, device, name))
        .or_else(|| memory(device, name))
        .or_else(|| power(sample.branch, device, name))
        .or_else(|| clocks(sample, device, name))
        .or_else(|| activity(device, name))
        .or_else(|| fabric(device, name))
        .or_else(|| ABSENT.contains(&name).then_some(Value::MISSING))
}

fn identity(sample: &Sample, gpu: &Gpu, name: &str) -> Option<Value> {
    let device = gpu.device;
    Some(match name {
        "timestamp" => Value::text(sample.now.precise()),
        "driver_version" => Value::of(sample.nvml.driver_version()),
        "count" => Value::of(sample.nvml.count()),
        "index" => Value::text(gpu.index),
        "name" => Value::of(device.name()),
        "serial" => Value::of(device.serial()),
        "uuid" => Value::of(device.uuid()),
        "vbios_version" => Value::of(device.vbios_version()),
        "inforom.img" => Value::of(device.inforom_image()),
        "inforom.oem" => Value::of(device.inforom_version(0)),
        "inforom.ecc" => Value::of(device.inforom_version(1)),
        "inforom.pwr" => Value::of(device.inforom_version(2)),
        "inforom.checksum_validation" => match device.validate_inforom() {
            Ok(()) => Value::text("Valid"),
            Err(Code(14)) => Value::text("Invalid"),
            Err(code) => Value::Refused(code),
        },
        "compute_cap" => {
            let capability = device.compute_capability();
            Value::of(capability.map(|(major, minor)| format!("{major}.{minor}")))
        }
        _ => return None,
    })
}

fn bus(device: Device, name: &str) -> Option<Value> {
    let hex = |answer: Answer<u32>, digits: usize| {
        Value::of(answer.map(|number| format!("0x{number:0digits$X}")))
    };
    let pci = |read: fn(&nvidia_ml::client::PciInfo) -> u32| device.pci().map(|pci| read(&pci));
    Some(match name {
        "pci.bus_id" => Value::of(device.pci().map(|pci| chars(&pci.bus_id))),
        "pci.domain" => hex(pci(|pci| pci.domain), 4),
        "pci.bus" => hex(pci(|pci| pci.bus), 2),
        "pci.device" => hex(pci(|pci| pci.device), 2),
        "pci.baseClass" => hex(device.pci_ext().map(|pci| pci.base_class), 1),
        "pci.subClass" => hex(device.pci_ext().map(|pci| pci.sub_class), 1),
        "pci.device_id" => hex(pci(|pci| pci.device_id), 8),
        "pci.sub_device_id" => hex(pci(|pci| pci.subsystem_id), 8),
        "pcie.link.gen.current" | "pcie.link.gen.gpucurrent" => Value::of(device.pcie_generation()),
        "pcie.link.gen.max" => Value::of(device.max_pcie_generation()),
        "pcie.link.gen.gpumax" => Value::of(device.gpu_max_pcie_generation()),
        "pcie.link.gen.hostmax" => Value::of(device.host_max_pcie_generation()),
        "pcie.link.width.current" => Value::of(device.pcie_width()),
        "pcie.link.width.max" => Value::of(device.max_pcie_width()),
        _ => return None,
    })
}

fn modes(sample: &Sample, device: Device, name: &str) -> Option<Value> {
    let now = |answer: Answer<(u32, u32)>| Value::enabled(answer.map(|(now, _)| now));
    let then = |answer: Answer<(u32, u32)>| Value::enabled(answer.map(|(_, then)| then));
    Some(match name {
        "display_mode" if sample.branch >= DISPLAY_MODE_GONE => Value::deprecated(),
        "display_mode" => Value::enabled(device.display_mode()),
        "display_attached" => Value::yes(device.display_mode()),
        "display_active" => Value::enabled(device.display_active()),
        "persistence_mode" => Value::enabled(device.persistence_mode()),
        "addressing_mode" => {
            Value::named(device.addressing().map(|mode| mode.mode), &ADDRESSING_MODES)
        }
        "accounting.mode" => Value::enabled(device.accounting_mode()),
        "accounting.buffer_size" => Value::of(device.accounting_buffer_size()),
        "driver_model.current" => Value::of(device.driver_model().map(|(now, _)| now)),
        "driver_model.pending" => Value::of(device.driver_model().map(|(_, then)| then)),
        "gom.current" => Value::of(device.operation_mode().map(|(now, _)| now)),
        "gom.pending" => Value::of(device.operation_mode().map(|(_, then)| then)),
        "compute_mode" => Value::named(device.compute_mode(), &COMPUTE_MODES),
        "dramEncryption.mode.current" => now(device.dram_encryption()),
        "dramEncryption.mode.pending" => then(device.dram_encryption()),
        "ecc.mode.current" => now(device.ecc_mode()),
        "ecc.mode.pending" => then(device.ecc_mode()),
        "mig.mode.current" => now(device.mig_mode()),
        "mig.mode.pending" => then(device.mig_mode()),
        "gsp.mode.current" => now(device.gsp_mode()),
        "gsp.mode.default" => then(device.gsp_mode()),
        "c2c.mode" => Value::enabled(device.c2c_mode()),
        "gpu_recovery_action" => Value::named(device.field(230, 0), &RECOVERY_ACTIONS),
        "reset_status.reset_required" | "reset_status.drain_and_reset_recommended"
            if sample.branch >= RESET_STATUS_DEPRECATED =>
        {
            Value::deprecated()
        }
        "reset_status.reset_required" => Value::yes(device.field(226, 0)),
        "reset_status.drain_and_reset_recommended" => Value::yes(device.field(227, 0)),
        _ => return None,
    })
}

fn memory(device: Device, name: &str) -> Option<Value> {
    let rows = |at: usize| device.remapped_rows().map(|rows| rows[at]);
    let banks = |read: fn(&nvidia_ml::client::RowRemapperHistogram) -> u32| {
        Value::of(device.remapper_histogram().map(|banks| read(&banks)))
    };
    Some(match name {
        "memory.total" => Value::mib(device.memory().map(|memory| memory.total)),
        "memory.reserved" => Value::mib(device.memory().map(|memory| memory.reserved)),
        "memory.used" => Value::mib(device.memory().map(|memory| memory.used)),
        "memory.free" => Value::mib(device.memory().map(|memory| memory.free)),
        "protected_memory.total" => Value::mib(device.protected_memory().map(|m| m.total)),
        "protected_memory.used" => Value::mib(device.protected_memory().map(|m| m.used)),
        "protected_memory.free" => Value::mib(device.protected_memory().map(|m| m.free)),
        "retired_pages.single_bit_ecc.count" => Value::of(device.field(29, 0)),
        "retired_pages.double_bit.count" => Value::of(device.field(30, 0)),
        "retired_pages.pending" => Value::yes(device.field(31, 0)),
        "remapped_rows.correctable_inactive" => Value::of(device.field(301, 0)),
        "remapped_rows.uncorrectable_inactive" => Value::of(device.field(302, 0)),
        "remapped_rows.correctable" => Value::of(rows(0)),
        "remapped_rows.uncorrectable" => Value::of(rows(1)),
        "remapped_rows.pending" => Value::yes(rows(2)),
        "remapped_rows.failure" => Value::yes(rows(3)),
        "remapped_rows.histogram.max" => banks(|banks| banks.max),
        "remapped_rows.histogram.high" => banks(|banks| banks.high),
        "remapped_rows.histogram.partial" => banks(|banks| banks.partial),
        "remapped_rows.histogram.low" => banks(|banks| banks.low),
        "remapped_rows.histogram.none" => banks(|banks| banks.none),
        _ => return None,
    })
}

fn power(branch: u32, device: Device, name: &str) -> Option<Value> {
    const MODULE: u32 = 1;
    Some(match name {
        "temperature.gpu" => Value::of(device.temperature(0)),
        "temperature.gpu.tlimit" => Value::of(device.margin_temperature().map(|t| t.margin)),
        "temperature.memory" => Value::of(device.field(82, 0)),
        "fan.speed" => Value::amount_of(device.fan_speed()),
        "power.management" if branch >= POWER_MANAGEMENT_GONE => Value::deprecated(),
        "power.management" => Value::enabled(device.power_management()),
        "power.draw" => Value::watts(device.power_usage()),
        "power.draw.average" => Value::watts(device.field(185, 0)),
        "power.draw.instant" => Value::watts(device.field(186, 0)),
        "power.limit" => Value::watts(device.power_limit()),
        "enforced.power.limit" => Value::watts(device.enforced_power_limit()),
        "power.default_limit" => Value::watts(device.default_power_limit()),
        "power.min_limit" => Value::watts(device.power_limits().map(|(min, _)| min)),
        "power.max_limit" => Value::watts(device.power_limits().map(|(_, max)| max)),
        "module.power.draw.average" => Value::watts(device.field(185, MODULE)),
        "module.power.draw.instant" => Value::watts(device.field(186, MODULE)),
        "module.power.limit" => Value::watts(device.field(192, MODULE)),
        "module.enforced.power.limit" => Value::watts(device.field(190, MODULE)),
        "module.power.default_limit" => Value::watts(device.field(189, MODULE)),
        "module.power.max_limit" => Value::watts(device.field(188, MODULE)),
        _ => return None,
    })
}

/// Clocks by the two parts of their name: which, and of what.
fn clocks(sample: &Sample, device: Device, name: &str) -> Option<Value> {
    let (which, kind) = name.strip_prefix("clocks.")?.rsplit_once('.')?;
    let kind = find(
        &[("graphics", 0), ("sm", 1), ("memory", 2), ("video", 3)],
        kind,
    )?;
    let gone = sample.branch >= APPLICATION_CLOCKS_GONE;
    Some(match which {
        "current" => Value::amount_of(device.clock(kind)),
        "max" => Value::amount_of(device.max_clock(kind)),
        "applications" | "default_applications" if gone => Value::deprecated(),
        "applications" => Value::amount_of(device.application_clock(kind)),
        "default_applications" => Value::amount_of(device.default_application_clock(kind)),
        _ => return None,
    })
}

fn activity(device: Device, name: &str) -> Option<Value> {
    let percent = |answer: Answer<(u32, u32)>| Value::amount_of(answer.map(|(percent, _)| percent));
    let encoder = |at: usize| Value::of(device.encoder_stats().map(|stats| stats[at]));
    Some(match name {
        "pstate" => Value::of(device.performance_state().map(|state| format!("P{state}"))),
        "utilization.gpu" => Value::amount_of(device.utilization().map(|busy| busy.gpu)),
        "utilization.memory" => Value::amount_of(device.utilization().map(|busy| busy.memory)),
        "utilization.encoder" => percent(device.encoder_utilization()),
        "utilization.decoder" => percent(device.decoder_utilization()),
        "utilization.jpeg" => percent(device.jpeg_utilization()),
        "utilization.ofa" => percent(device.ofa_utilization()),
        "encoder.stats.sessionCount" => encoder(0),
        "encoder.stats.averageFps" => encoder(1),
        "encoder.stats.averageLatency" => encoder(2),
        _ => return None,
    })
}

fn reasons(device: Device, name: &str) -> Option<Value> {
    let bits = |answer: Answer<u64>| Value::of(answer.map(|bits| format!("0x{bits:016x}")));
    Some(match name {
        "supported" => bits(device.supported_clock_reasons()),
        "active" => bits(device.clock_reasons()),
        name => {
            let bit = find(&REASONS, name)?;
            let active = |bits: u64| {
                if bits & bit == 0 {
                    "Not Active"
                } else {
                    "Active"
                }
            };
            Value::of(device.clock_reasons().map(active))
        }
    })
}

/// ECC counters: `corrected.volatile.dram` and so on.
fn errors(device: Device, name: &str) -> Option<Value> {
    let mut parts = name.splitn(3, '.');
    let kind = find(&[("corrected", 0), ("uncorrected", 1)], parts.next()?)?;
    let lifetime = find(&[("volatile", 0), ("aggregate", 1)], parts.next()?)?;
    let place = parts.next()?;
    if let Some(origin) = place.strip_prefix("sram.") {
        let status = device.sram_status();
        let count =
            |volatile: u64, aggregate: u64| if lifetime == 0 { volatile } else { aggregate };
        return Some(match (origin, lifetime) {
            ("parity", _) => {
                Value::of(status.map(|s| count(s.volatile_parity, s.aggregate_parity)))
            }
            ("secded", _) => {
                Value::of(status.map(|s| count(s.volatile_secded, s.aggregate_secded)))
            }
            ("thresholdExceeded", 1) => Value::yes(status.map(|s| s.threshold_exceeded)),
            ("l2", 1) => Value::of(status.map(|s| s.bucket_l2)),
            ("sm", 1) => Value::of(status.map(|s| s.bucket_sm)),
            ("mcu", 1) => Value::of(status.map(|s| s.bucket_mcu)),
            ("pcie", 1) => Value::of(status.map(|s| s.bucket_pcie)),
            ("other", 1) => Value::of(status.map(|s| s.bucket_other)),
            _ => return None,
        });
    }
    Some(Value::of(match place {
        "total" => device.total_ecc_errors(kind, lifetime),
        place => device.ecc_errors_at(kind, lifetime, find(&PLACES, place)?),
    }))
}

fn fabric(device: Device, name: &str) -> Option<Value> {
    let fabric = device.fabric();
    Some(match name {
        "fabric.state" => Value::named(fabric.map(|f| f.state), &FABRIC_STATES),
        "fabric.status" => Value::of(fabric.map(|f| nvidia_ml::client::Code(f.status).to_string())),
        "fabric.cliqueId" => Value::of(fabric.map(|f| f.clique)),
        "fabric.clusterUuid" => Value::of(fabric.map(|f| fabric_uuid(&f.cluster))),
        "fabric.health.summary" => Value::named(fabric.map(|f| f.summary), &FABRIC_HEALTH),
        // Two bits: 1 degraded, 2 not.
        "fabric.health.bandwidth" => {
            let names = ["N/A", "Degraded", "Full"];
            Value::named(fabric.map(|f| f.health & 3), &names)
        }
        _ => return None,
    })
}

fn platform(device: Device, name: &str) -> Option<Value> {
    let place = device.platform();
    Some(match name {
        "chassis_serial_number" => Value::of(place.map(|p| chars(&p.chassis_serial))),
        "slot_number" => Value::of(place.map(|p| p.slot)),
        "tray_index" => Value::of(place.map(|p| p.tray)),
        "host_id" => Value::of(place.map(|p| p.host)),
        "peer_type" => Value::named(place.map(|p| p.peer_type), &PEER_TYPES),
        "module_id" => Value::of(place.map(|p| p.module)),
        "gpu_fabric_guid" => Value::of(place.map(|p| {
            let digits: String = p.ib_guid[..8].iter().map(|b| format!("{b:02x}")).collect();
            format!("0x{digits}")
        })),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nvidia_ml::client::Nvml;

    use super::super::{Table, fields};
    use super::*;
    use crate::gpus;
    use crate::stamp::Stamp;

    #[test]
    fn every_listed_field_has_an_answer_and_nothing_else_has() {
        let nvml = Nvml::open().expect("a node to read");
        let gpu = &gpus::choose(&nvml, &[]).expect("GPUs")[0];
        let sample = Sample {
            nvml: &nvml,
            now: Stamp::now(),
            branch: 550,
        };
        for field in fields(Table::Gpu) {
            let value = read(&sample, gpu, field.name);
            assert!(value.is_some(), "{} is listed and not read", field.name);
            let has_unit = matches!(value, Some(Value::Amount(_)));
            assert!(
                !has_unit || !field.unit.is_empty(),
                "{} lacks its unit",
                field.name
            );
        }
        for name in [
            "",
            "nonsense",
            "clocks.current.",
            "ecc.errors.corrected",
            "platform.",
        ] {
            assert_eq!(read(&sample, gpu, name), None, "{name}");
        }
    }
}
