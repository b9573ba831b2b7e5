//! Settings of a device: NVML's setters with the board's limits, and the reset that makes pending ones real.

use mirage_model::board::Board;
use mirage_model::power_profile;

use crate::gpu::{Gpu, mhz, milli};
use crate::input::{Answer, Change, EccScope, Refusal, Setting};
use crate::readings::Ecc;

/// Applies one setting to `gpu`, which errors call `device`.
pub(crate) fn apply(gpu: &mut Gpu, device: &str, setting: &Setting) -> Result<Answer, Refusal> {
    let board = gpu.board.clone();
    let r = &mut gpu.readings;
    match *setting {
        Setting::PowerLimit(limit) => {
            let limit = limit.unwrap_or(milli(board.power.default_w));
            let (low, high) = (milli(board.power.min_w), milli(board.power.max_w));
            within("power limit in mW", device, limit, low, high)?;
            r.power_limit_mw = limit;
            r.enforced_limit_mw = limit;
        }
        Setting::LockedClocks(None) => (r.lock_sm_min_mhz, r.lock_sm_max_mhz) = (0, 0),
        Setting::LockedClocks(Some(range)) => {
            let (low, high) = (lowest(&board), board.clocks.sm_max_mhz);
            let locked = lock("locked clock in MHz", device, range, low, high)?;
            (r.lock_sm_min_mhz, r.lock_sm_max_mhz) = locked;
        }
        Setting::LockedMemoryClocks(None) => (r.lock_mem_min_mhz, r.lock_mem_max_mhz) = (0, 0),
        Setting::LockedMemoryClocks(Some(range)) => {
            let (low, high) = (board.clocks.mem_idle_mhz, board.clocks.mem_max_mhz);
            let locked = lock("locked memory clock in MHz", device, range, low, high)?;
            (r.lock_mem_min_mhz, r.lock_mem_max_mhz) = locked;
        }
        Setting::ApplicationClocks(None) => {
            r.app_sm_mhz = mhz(board.clocks.sm_default_mhz);
            r.app_mem_mhz = mhz(board.clocks.mem_max_mhz);
            gpu.app_clocks_set = false;
        }
        Setting::ApplicationClocks(Some((mem, sm))) => {
            let clocks = &board.clocks;
            let what = "application clock in MHz";
            within(what, device, sm, lowest(&board), clocks.sm_max_mhz)?;
            let what = "application memory clock in MHz";
            within(what, device, mem, clocks.mem_idle_mhz, clocks.mem_max_mhz)?;
            r.app_sm_mhz = mhz(sm);
            r.app_mem_mhz = mhz(mem);
            gpu.app_clocks_set = true;
        }
        Setting::FanSpeed { fan, percent } => {
            has_fan(&board, device, fan)?;
            within("fan speed in percent", device, percent, 0, 100)?;
            r.fan_percent = percent as u8;
            r.fan_manual = true;
        }
        Setting::FanDefault { fan } => {
            has_fan(&board, device, fan)?;
            r.fan_manual = false;
        }
        Setting::Persistence(on) => r.persistence = on,
        Setting::Cooling(factor) => {
            if !(0.1..=100.0).contains(&factor) {
                return Err(out_of_range("cooling factor", device, factor, 0.1, 100.0));
            }
            gpu.cooling = factor as f32;
        }
        Setting::EccMode(on) => {
            has_ecc(&board, device)?;
            r.ecc_pending = on;
            return Ok(if r.ecc == on {
                Answer::Done
            } else {
                Answer::AfterReset
            });
        }
        Setting::EccClear(scope) => {
            has_ecc(&board, device)?;
            match scope {
                EccScope::Volatile => r.ecc_volatile = Ecc::default(),
                EccScope::Aggregate => r.ecc_aggregate = Ecc::default(),
            }
        }
        Setting::ComputeMode(mode) => {
            // 1 (exclusive thread) has been gone for a decade.
            if !matches!(mode, 0 | 2 | 3) {
                return Err(Refusal::Invalid {
                    what: format!("compute mode on {device}"),
                    why: format!("{mode} is none of 0, 2 and 3"),
                });
            }
            r.compute_mode = mode as u8;
        }
        Setting::Accounting(on) => r.accounting = on,
        // The list is the node's, so the world clears it.
        Setting::AccountingClear => {}
        Setting::WorkloadProfiles(change, mask) => {
            let offered = &board.power.workload_profiles;
            has_profiles(&board, device, mask)?;
            r.profiles_requested = match change {
                Change::Remove => r.profiles_requested & !mask,
                Change::Add => r.profiles_requested | mask,
                Change::Replace => mask,
            };
            r.profiles_enforced = power_profile::enforced(offered, r.profiles_requested);
        }
        Setting::AutoBoost(on) => {
            has_auto_boost(&board, device)?;
            r.auto_boost = on;
        }
        Setting::AutoBoostDefault(on) => {
            has_auto_boost(&board, device)?;
            r.auto_boost_default = on;
        }
        Setting::DriverModel(_) => {
            return Err(Refusal::NotSupported {
                what: "driver model",
                device: device.into(),
                why: "it exists on Windows only".into(),
            });
        }
    }
    Ok(Answer::Done)
}

/// The lowest SM clock one may ask for: some boards idle above it.
fn lowest(board: &Board) -> u32 {
    board.clocks.sm_min_mhz.min(board.clocks.sm_idle_mhz)
}

/// Resets an unused device: pending modes take effect, volatile state is gone.
pub(crate) fn reset(gpu: &mut Gpu, device: &str) -> Result<Answer, Refusal> {
    if !gpu.tasks.is_empty() {
        return Err(Refusal::InUse {
            what: "reset",
            device: device.into(),
            by: format!("{} processes", gpu.tasks.len()),
        });
    }
    let top = gpu.board.clocks.sm_max_mhz;
    let r = &mut gpu.readings;
    r.ecc = r.ecc_pending;
    r.ecc_volatile = Ecc::default();
    r.remap_pending = false;
    r.retire_pending = false;
    r.reset_required = false;
    (r.profiles_requested, r.profiles_enforced) = (0, 0);
    r.auto_boost = r.auto_boost_default;
    (r.lock_sm_min_mhz, r.lock_sm_max_mhz) = (0, 0);
    (r.lock_mem_min_mhz, r.lock_mem_max_mhz) = (0, 0);
    gpu.heat.hold_s = 0.0;
    gpu.heat.cap_mhz = top as f32;
    Ok(Answer::Done)
}

fn lock(
    what: &'static str,
    device: &str,
    range: (u32, u32),
    low: u32,
    high: u32,
) -> Result<(u16, u16), Refusal> {
    if range.0 > range.1 {
        return Err(Refusal::Invalid {
            what: format!("{what} on {device}"),
            why: format!("minimum {} is above maximum {}", range.0, range.1),
        });
    }
    // The driver takes any range that touches what the board has, and locks to the part that does.
    within(what, device, range.1, low, u32::MAX)?;
    within(what, device, range.0, 0, high)?;
    Ok((mhz(range.0.max(low)), mhz(range.1.min(high))))
}

fn within(
    what: &'static str,
    device: &str,
    given: u32,
    low: u32,
    high: u32,
) -> Result<(), Refusal> {
    if (low..=high).contains(&given) {
        return Ok(());
    }
    let (given, low, high) = (f64::from(given), f64::from(low), f64::from(high));
    Err(out_of_range(what, device, given, low, high))
}

fn out_of_range(what: &'static str, device: &str, given: f64, low: f64, high: f64) -> Refusal {
    Refusal::OutOfRange {
        what,
        device: device.into(),
        given,
        low,
        high,
    }
}

fn has_fan(board: &Board, device: &str, fan: u32) -> Result<(), Refusal> {
    if board.fans == 0 {
        return Err(Refusal::NotSupported {
            what: "fan speed",
            device: device.into(),
            why: format!("{} has no fan of its own", board.name),
        });
    }
    within("fan index", device, fan, 0, board.fans - 1)
}

/// Refuses profiles that the board does not offer.
fn has_profiles(board: &Board, device: &str, mask: u32) -> Result<(), Refusal> {
    let offered = &board.power.workload_profiles;
    if offered.is_empty() {
        return Err(Refusal::NotSupported {
            what: "workload power profiles",
            device: device.into(),
            why: format!("{} has none", board.name),
        });
    }
    if mask & !board.power.profiles_mask() == 0 {
        return Ok(());
    }
    let names: Vec<_> = offered.iter().map(|profile| profile.name).collect();
    Err(Refusal::Invalid {
        what: format!("workload power profiles on {device}"),
        why: format!("{mask:#x} holds another than {}", names.join(", ")),
    })
}

fn has_auto_boost(board: &Board, device: &str) -> Result<(), Refusal> {
    if board.auto_boost() {
        return Ok(());
    }
    Err(Refusal::NotSupported {
        what: "auto boost",
        device: device.into(),
        why: format!("{} always boosts", board.name),
    })
}

fn has_ecc(board: &Board, device: &str) -> Result<(), Refusal> {
    if board.ecc.is_some() {
        return Ok(());
    }
    Err(Refusal::NotSupported {
        what: "ECC",
        device: device.into(),
        why: format!("{} has no ECC", board.name),
    })
}
