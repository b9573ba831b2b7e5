//! Faults: what, where, when, and for how long.

use super::form::{Form, Parsed};
use super::language::tables::fault::FAULT_KINDS;
use super::workload::{Uses, devices};
use crate::board::Board;
use crate::plan::{DeviceRef, Fault, FaultPlan, Plan, When};
use crate::select::Index;
use crate::xid;
use crate::yaml::Problem;

/// Reads one fault; `None` when it has problems.
pub(super) fn read(
    form: &Form<'_>,
    index: Option<&Index<'_>>,
    plan: &Plan,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Option<FaultPlan> {
    let before = problems.len();
    let devices = form
        .get("device")
        .map(|entry| devices(entry, index, uses, problems))
        .unwrap_or_default();
    let fault = FAULT_KINDS
        .iter()
        .find_map(|key| Some((*key, kind(form, key)?)));
    let (key, fault) = fault?;
    if let Some(entry) = form.get(key) {
        if let Some(lack) = lack(&fault, &devices, plan) {
            let problem = Problem::new(entry.span, lack);
            problems.push(problem.help("choose other devices or another fault"));
        }
        if let Fault::Xid(number) = fault
            && xid::xid(number).is_none()
        {
            let message = format!("Xid {number} is not in the Xid table");
            let help = "it will be reported, without side effects";
            warnings.push(Problem::new(entry.span, message).help(help));
        }
    }
    let fault = FaultPlan {
        devices,
        fault,
        when: when(form),
        heal_after: form.duration("heal-after"),
    };
    (problems.len() == before && !fault.devices.is_empty()).then_some(fault)
}

fn when(form: &Form<'_>) -> When {
    let at = form.duration("at");
    match (form.number("rate"), form.duration("every")) {
        (Some(rate), _) => When::Rate(rate),
        (None, Some(period)) => When::Every {
            period,
            first: at.unwrap_or(period),
        },
        (None, None) => When::At(at.unwrap_or_default()),
    }
}

fn kind(form: &Form<'_>, key: &str) -> Option<Fault> {
    let entry = form.get(key)?;
    let small = |number: u64| u32::try_from(number).ok();
    Some(match key {
        "xid" => Fault::Xid(small(form.integer(key)?)?),
        "ecc" => ecc(form)?,
        "lost" => Fault::Lost,
        "hang" => Fault::Hang,
        "link-down" => Fault::LinkDown(links(&entry.value)),
        "cooling" => Fault::Cooling(form.number(key)?),
        "power-brake" => Fault::PowerBrake,
        "slow-api" => Fault::SlowApi(form.duration(key)?),
        "fail-api" => Fault::FailApi(small(form.integer(key)?)?),
        "row-remap" => {
            let word = form.choice(key)?;
            Fault::RowRemap {
                uncorrectable: word != "correctable",
                failed: word == "failed",
            }
        }
        "device-plugin" => Fault::DevicePlugin(form.choice(key)?.into()),
        _ => return None,
    })
}

fn ecc(form: &Form<'_>) -> Option<Fault> {
    let table = form.form("ecc");
    let word = match table {
        Some(table) => table.choice("kind"),
        None => form.choice("ecc"),
    };
    Some(Fault::Ecc {
        uncorrected: word == Some("uncorrected"),
        sram: table.and_then(|table| table.choice("location")) == Some("sram"),
        count: table.and_then(|table| table.integer("count")).unwrap_or(1),
    })
}

/// Links as a mask; `all` is every bit.
fn links(value: &Parsed<'_>) -> u32 {
    let bit = |link: u64| {
        1u32.checked_shl(u32::try_from(link).unwrap_or(32))
            .unwrap_or(0)
    };
    match value {
        Parsed::Integer(link) => bit(*link),
        Parsed::List(links) => links
            .iter()
            .map(|entry| match entry.value {
                Parsed::Integer(link) => bit(link),
                _ => 0,
            })
            .fold(0, |mask, bit| mask | bit),
        _ => u32::MAX,
    }
}

/// Why none of the devices can have this fault.
fn lack(fault: &Fault, devices: &[DeviceRef], plan: &Plan) -> Option<String> {
    let board = |device: &DeviceRef| -> Option<&Board> {
        let node = plan.nodes.get(device.node as usize)?;
        Some(&node.gpus.get(device.gpu as usize)?.board)
    };
    let mut boards = devices.iter().filter_map(board);
    let first = devices.first().and_then(board)?;
    let (able, what) = match fault {
        Fault::LinkDown(mask) => {
            let reach = |links: u32| u32::MAX.checked_shr(32 - links.min(32)).unwrap_or(0);
            let has = |board: &Board| {
                let links = board.nvlink.as_ref().map_or(0, |nvlink| nvlink.links);
                mask & reach(links) != 0
            };
            (boards.any(has), "such NVLinks")
        }
        Fault::RowRemap { .. } => (
            boards.any(|board| board.row_remap_banks.is_some()),
            "row remapping",
        ),
        Fault::Ecc { .. } => (boards.any(|board| board.ecc.is_some()), "ECC"),
        _ => return None,
    };
    (!able).then(|| format!("`{}` has no {what}", first.key))
}
