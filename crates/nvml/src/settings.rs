//! Calls that change a GPU. What can be refused by looking is refused here, as NVML does; the rest is the engine's to
//! decide.

use mirage_state::layout::{board_flags, valid};

use crate::abi::PowerValue;
use crate::arg::Out;
use crate::clocks;
use crate::code::{Answer, Fault};
use crate::control::{Value, request};
use crate::device::{Gpu, Target};
use crate::thermal;

fn ask(gpu: &Gpu, call: &str, args: &[(&str, Value)]) -> Answer {
    request(gpu, call, args).map(drop)
}

fn on(state: u32) -> [(&'static str, Value); 1] {
    [("on", Value::Flag(state == 1))]
}

/// `nvmlDeviceSetPowerManagementLimit`.
pub fn set_power_management_limit(gpu: Gpu, milliwatts: u32) -> Answer {
    let board = gpu.board();
    if board.power_max_mw == 0 {
        return Err(Fault::NotSupported);
    }
    if !(board.power_min_mw..=board.power_max_mw).contains(&milliwatts) {
        return Err(Fault::InvalidArgument);
    }
    ask(
        &gpu,
        "set_power_limit",
        &[("mw", Value::Number(milliwatts))],
    )
}

/// `nvmlDeviceSetPowerManagementLimit_v2`: scope 0 is the GPU; a module's limit is not settable.
pub fn set_power_management_limit_v2(gpu: Gpu, asked: Out<PowerValue>) -> Answer {
    let PowerValue {
        scope, milliwatts, ..
    } = asked.get();
    match scope {
        0 => set_power_management_limit(gpu, milliwatts),
        1..=3 => Err(Fault::NotSupported),
        _ => Err(Fault::InvalidArgument),
    }
}

/// `nvmlDeviceSetPersistenceMode`.
pub fn set_persistence_mode(gpu: Gpu, state: u32) -> Answer {
    ask(&gpu, "set_persistence", &on(state))
}

/// `nvmlDeviceSetGpuLockedClocks`: the two highest numbers stand for "TDP" and "unlimited".
pub fn set_gpu_locked_clocks(gpu: Gpu, min: u32, max: u32) -> Answer {
    const SYMBOLIC: u32 = 0xffff_ff00;
    let board = gpu.board();
    let meant = |clock: u32, is_max: bool| match clock {
        clock if clock <= SYMBOLIC => clock,
        _ if is_max => board.sm_max_mhz,
        _ => board.sm_min_mhz,
    };
    let (min, max) = (meant(min, false), meant(max, true));
    if board.architecture < 5 {
        return Err(Fault::NotSupported);
    }
    if min > max || min > board.sm_max_mhz {
        return Err(Fault::InvalidArgument);
    }
    ask(
        &gpu,
        "set_locked_clocks",
        &[("min", Value::Number(min)), ("max", Value::Number(max))],
    )
}

/// `nvmlDeviceResetGpuLockedClocks`.
pub fn reset_gpu_locked_clocks(gpu: Gpu) -> Answer {
    ask(&gpu, "reset_locked_clocks", &[])
}

/// `nvmlDeviceSetMemoryLockedClocks`.
pub fn set_memory_locked_clocks(gpu: Gpu, min: u32, max: u32) -> Answer {
    if gpu.board().architecture < 7 {
        return Err(Fault::NotSupported);
    }
    if min > max || min > gpu.board().mem_max_mhz {
        return Err(Fault::InvalidArgument);
    }
    ask(
        &gpu,
        "set_locked_mem_clocks",
        &[("min", Value::Number(min)), ("max", Value::Number(max))],
    )
}

/// `nvmlDeviceResetMemoryLockedClocks`.
pub fn reset_memory_locked_clocks(gpu: Gpu) -> Answer {
    ask(&gpu, "reset_locked_mem_clocks", &[])
}

/// `nvmlDeviceSetApplicationsClocks`: only pairs that the board lists.
pub fn set_applications_clocks(gpu: Gpu, memory: u32, sm: u32) -> Answer {
    let board = gpu.board();
    let listed = clocks::memory_clocks(board).any(|clock| clock == memory)
        && clocks::sm_clocks(board, memory).any(|clock| clock == sm);
    if !listed {
        return Err(Fault::InvalidArgument);
    }
    ask(
        &gpu,
        "set_app_clocks",
        &[("mem", Value::Number(memory)), ("sm", Value::Number(sm))],
    )
}

/// `nvmlDeviceResetApplicationsClocks`.
pub fn reset_applications_clocks(gpu: Gpu) -> Answer {
    ask(&gpu, "reset_app_clocks", &[])
}

/// `nvmlDeviceSetAutoBoostedClocksEnabled`.
pub fn set_auto_boosted_clocks(gpu: Gpu, state: u32) -> Answer {
    clocks::auto_boost(&gpu)?;
    ask(&gpu, "set_auto_boost", &on(state))
}

/// `nvmlDeviceSetDefaultAutoBoostedClocksEnabled`: as it is after a reset. The flags mean nothing.
pub fn set_default_auto_boosted_clocks(gpu: Gpu, state: u32, _: u32) -> Answer {
    clocks::auto_boost(&gpu)?;
    ask(&gpu, "set_default_auto_boost", &on(state))
}

/// `nvmlDeviceSetEccMode`: in force after the next reset.
pub fn set_ecc_mode(gpu: Gpu, state: u32) -> Answer {
    crate::ecc::capable(&gpu)?;
    ask(&gpu, "set_ecc", &on(state))
}

/// `nvmlDeviceClearEccErrorCounts`: the counters of a board's life can only be cleared where pages are retired.
pub fn clear_ecc_error_counts(gpu: Gpu, lifetime: u32) -> Answer {
    gpu.require(valid::ECC)?;
    if lifetime == 1 && gpu.board_has(board_flags::ROW_REMAP) {
        return Err(Fault::NotSupported);
    }
    ask(
        &gpu,
        "clear_ecc",
        &[("aggregate", Value::Flag(lifetime == 1))],
    )
}

/// `nvmlDeviceSetComputeMode`: exclusive-thread has not been a mode since Volta.
pub fn set_compute_mode(target: Target, mode: u32) -> Answer {
    if mode == 1 {
        return Err(Fault::NotSupported);
    }
    ask(
        &target.gpu(),
        "set_compute_mode",
        &[("mode", Value::Number(mode))],
    )
}

/// `nvmlDeviceSetFanSpeed_v2`.
pub fn set_fan_speed(gpu: Gpu, fan: u32, percent: u32) -> Answer {
    thermal::fan(&gpu, fan)?;
    if !(thermal::FAN_MIN..=100).contains(&percent) {
        return Err(Fault::InvalidArgument);
    }
    ask(
        &gpu,
        "set_fan",
        &[
            ("fan", Value::Number(fan)),
            ("percent", Value::Number(percent)),
        ],
    )
}

/// `nvmlDeviceSetDefaultFanSpeed_v2`.
pub fn set_default_fan_speed(gpu: Gpu, fan: u32) -> Answer {
    thermal::fan(&gpu, fan)?;
    ask(&gpu, "default_fan", &[("fan", Value::Number(fan))])
}

/// `nvmlDeviceSetFanControlPolicy`: manual keeps the speed of now.
pub fn set_fan_control_policy(gpu: Gpu, fan: u32, policy: u32) -> Answer {
    thermal::fan(&gpu, fan)?;
    if policy == 0 {
        return set_default_fan_speed(gpu, fan);
    }
    let percent = gpu.live().fan_percent.clamp(thermal::FAN_MIN, 100);
    set_fan_speed(gpu, fan, percent)
}

/// `nvmlDeviceSetAccountingMode`.
pub fn set_accounting_mode(gpu: Gpu, state: u32) -> Answer {
    ask(&gpu, "set_accounting", &on(state))
}

/// `nvmlDeviceClearAccountingPids`.
pub fn clear_accounting_pids(gpu: Gpu) -> Answer {
    ask(&gpu, "clear_accounting", &[])
}
