//! Reads `data/xid.csv`. Rows that do not make sense are left out rather than guessed; a
//! test holds the row count, so a bad edit cannot go unseen.

use super::{Class, Effect, Health, Only, Recovery, Watch, Xid};

static TEXT: &str = include_str!("../../data/xid.csv");

/// Lines that hold an Xid: no comments, no heading.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    TEXT.lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
}

/// All rows, sorted by number.
pub(super) fn parse() -> Vec<Xid> {
    let mut table: Vec<Xid> = rows().filter_map(row).collect();
    table.sort_by_key(|x| x.number);
    table
}

fn row(line: &'static str) -> Option<Xid> {
    let fields: Vec<&'static str> = line.split(',').collect();
    let [
        number,
        mnemonic,
        kind,
        plugin,
        event,
        watch,
        severity,
        code,
        code_name,
        recovery,
        action,
        boards,
        effects,
        meaning,
        advice,
    ] = fields[..]
    else {
        return None;
    };
    Some(Xid {
        number: number.parse().ok()?,
        mnemonic,
        class: class(kind)?,
        meaning,
        ignored_by_plugin: match plugin {
            "ignored" => true,
            "critical" => false,
            _ => return None,
        },
        extra_events: match event.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => 0,
        },
        health: match watch {
            "" => None,
            name => Some(Health {
                watch: self::watch(name)?,
                fails: match severity {
                    "fail" => true,
                    "warn" => false,
                    _ => return None,
                },
                code: code.parse().ok()?,
                code_name,
            }),
        },
        recovery: match recovery {
            "none" => Recovery::None,
            "gpu-reset" => Recovery::GpuReset,
            "node-reboot" => Recovery::NodeReboot,
            _ => return None,
        },
        action,
        advice,
        only: match boards {
            "" => Only::Any,
            "blackwell" => Only::Blackwell,
            "before-blackwell" => Only::BeforeBlackwell,
            "c2c" => Only::ChipToChip,
            _ => return None,
        },
        effects: effects
            .split_whitespace()
            .map(effect)
            .collect::<Option<Vec<_>>>()?,
    })
}

fn class(name: &str) -> Option<Class> {
    Some(match name {
        "application" => Class::Application,
        "driver" => Class::Driver,
        "memory" => Class::Memory,
        "power" => Class::Power,
        "firmware" => Class::Firmware,
        "link" => Class::Link,
        "bus" => Class::Bus,
        "security" => Class::Security,
        "virtual" => Class::Virtual,
        "init" => Class::Init,
        "info" => Class::Info,
        _ => return None,
    })
}

fn watch(name: &str) -> Option<Watch> {
    Some(match name {
        "all" => Watch::All,
        "mem" => Watch::Memory,
        "pcie" => Watch::Pcie,
        "nvlink" => Watch::NvLink,
        "power" => Watch::Power,
        "thermal" => Watch::Thermal,
        "inforom" => Watch::InfoRom,
        _ => return None,
    })
}

fn effect(word: &str) -> Option<Effect> {
    if let Some(n) = word.strip_prefix("then-") {
        return n.parse().ok().map(Effect::Follow);
    }
    if let Some(n) = word.strip_prefix("shared-") {
        return n.parse().ok().map(Effect::FollowIfShared);
    }
    if let Some(n) = word.strip_prefix("remapping-") {
        return n.parse().ok().map(Effect::FollowIfRemapping);
    }
    Some(match word {
        "kill-one" => Effect::KillOne,
        "kill-all" => Effect::KillAll,
        "hang" => Effect::Hang,
        "lost" => Effect::Lost,
        "missing" => Effect::Missing,
        "ecc-dram" => Effect::EccDram,
        "ecc-sram" => Effect::EccSram,
        "ecc-corrected" => Effect::EccCorrected,
        "remap-row" => Effect::RemapRow,
        "remap-failed" => Effect::RemapFailed,
        "link-down" => Effect::LinkDown,
        "link-errors" => Effect::LinkErrors,
        "power-brake" => Effect::PowerBrake,
        "clocks-stuck" => Effect::ClocksStuck,
        "slow-api" => Effect::SlowApi,
        "refuse-work" => Effect::RefuseWork,
        "repair-pending" => Effect::RepairPending,
        "repair-failed" => Effect::RepairFailed,
        _ => return None,
    })
}
