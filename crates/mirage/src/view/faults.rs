//! Faults, written as one would inject them.

use mirage_model::plan::{Fault, Plan, When};
use mirage_model::quantity::show_duration;
use mirage_sim::{FaultState, PendingFault};
use serde::Serialize;

use super::device_name;

/// A fault that has struck.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FaultView {
    pub id: u64,
    pub device: String,
    pub fault: String,
    pub since_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heals_at_s: Option<f64>,
    pub active: bool,
    /// From the config rather than injected.
    pub planned: bool,
}

impl FaultView {
    /// The view of a fault.
    pub fn new(fault: &FaultState, plan: &Plan) -> Self {
        let FaultState {
            id,
            device,
            fault,
            since,
            heals_at,
            active,
            planned,
        } = fault;
        Self {
            id: *id,
            device: device_name(*device, plan),
            fault: fault_text(fault),
            since_s: since.as_secs_f64(),
            heals_at_s: heals_at.map(|time| time.as_secs_f64()),
            active: *active,
            planned: *planned,
        }
    }
}

/// A fault still to come.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PendingView {
    pub id: u64,
    pub devices: Vec<String>,
    pub fault: String,
    pub strikes_at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_s: Option<f64>,
    /// Strikes by chance, as often as this per hour and device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal_after_s: Option<f64>,
    /// From the config rather than injected.
    pub planned: bool,
}

impl PendingView {
    /// The view of a fault still to come.
    pub fn new(fault: PendingFault<'_>, plan: &Plan) -> Self {
        let (every, rate) = match fault.plan.when {
            When::At(_) => (None, None),
            When::Every { period, .. } => (Some(period), None),
            When::Rate(rate) => (None, Some(rate)),
        };
        let devices = fault.devices.iter();
        Self {
            id: fault.id,
            devices: devices.map(|device| device_name(*device, plan)).collect(),
            fault: fault_text(&fault.plan.fault),
            strikes_at_s: fault.next.as_secs_f64(),
            every_s: every.map(|period| period.as_secs_f64()),
            rate,
            heal_after_s: fault.plan.heal_after.map(|time| time.as_secs_f64()),
            planned: fault.planned,
        }
    }
}

/// A fault in one line, which `fault inject` takes back.
pub fn fault_text(fault: &Fault) -> String {
    match fault {
        Fault::Xid(number) => format!("xid={number}"),
        Fault::Ecc {
            uncorrected,
            sram,
            count,
        } => {
            let kind = if *uncorrected {
                "uncorrected"
            } else {
                "corrected"
            };
            let place = if *sram { "sram" } else { "dram" };
            format!("ecc={kind},{place},{count}")
        }
        Fault::Lost => "lost".into(),
        Fault::Hang => "hang".into(),
        Fault::LinkDown(u32::MAX) => "link-down=all".into(),
        Fault::LinkDown(links) => {
            let down = (0..32).filter(|link| links & (1 << link) != 0);
            let down: Vec<_> = down.map(|link: u32| link.to_string()).collect();
            format!("link-down={}", down.join(","))
        }
        Fault::Cooling(factor) => format!("cooling={factor}"),
        Fault::PowerBrake => "power-brake".into(),
        Fault::SlowApi(delay) => format!("slow-api={}", show_duration(*delay)),
        Fault::FailApi(code) => format!("fail-api={code}"),
        Fault::RowRemap {
            uncorrectable,
            failed,
        } => match (failed, uncorrectable) {
            (true, _) => "row-remap=failed".into(),
            (false, true) => "row-remap=uncorrectable".into(),
            (false, false) => "row-remap=correctable".into(),
        },
        Fault::DevicePlugin(what) => format!("device-plugin={what}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mirage_model::config::{self, Defaults};

    use super::*;

    #[test]
    fn what_is_listed_can_be_injected_again() {
        let text = "nodes: { a: { model: h100-sxm5-80gb } }";
        let loaded = config::load(text, "test", &Defaults::default()).unwrap();
        let ecc = |uncorrected, sram, count| Fault::Ecc {
            uncorrected,
            sram,
            count,
        };
        let remap = |uncorrectable, failed| Fault::RowRemap {
            uncorrectable,
            failed,
        };
        let faults = [
            Fault::Xid(79),
            ecc(false, false, 1),
            ecc(true, true, 1_000_000),
            Fault::Lost,
            Fault::Hang,
            Fault::LinkDown(u32::MAX),
            Fault::LinkDown(0b1),
            Fault::LinkDown(0b1001),
            Fault::Cooling(2.5),
            Fault::PowerBrake,
            Fault::SlowApi(Duration::from_millis(61_001)),
            Fault::FailApi(15),
            remap(false, false),
            remap(true, false),
            remap(true, true),
            Fault::DevicePlugin("hang".into()),
        ];
        for fault in faults {
            let words = format!("{} device=a/0", fault_text(&fault));
            let read = config::parse_fault(&words, &loaded.plan);
            assert_eq!(read.unwrap().fault, fault, "{words}");
        }
    }
}
