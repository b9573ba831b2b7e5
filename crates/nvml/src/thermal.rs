//! Temperatures and fans.

use mirage_state::layout::{flags, valid};

use crate::abi::{
    CoolerInfo, FanSpeedInfo, MarginTemperature, Temperature, ThermalSensor, ThermalSettings,
};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};

/// What a data-centre fan does flat out.
const FULL_SPEED_RPM: u32 = 5_000;
/// The lowest speed a fan can be set to, percent.
pub const FAN_MIN: u32 = 30;

/// `nvmlDeviceGetTemperature`: the only sensor it knows is the GPU's.
pub fn temperature(gpu: Gpu, sensor: u32, out: Out<u32>) -> Answer {
    if sensor != 0 {
        return Err(Fault::InvalidArgument);
    }
    out.set(live!(gpu, temperature_c).max(0) as u32);
    Ok(())
}

/// `nvmlDeviceGetTemperatureV`.
pub fn temperature_v(gpu: Gpu, out: Out<Temperature>) -> Answer {
    let mut info = out.get();
    if info.sensor != 0 {
        return Err(Fault::InvalidArgument);
    }
    info.temperature = live!(gpu, temperature_c);
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetTemperatureThreshold`. The acoustic ones are a matter of desktop boards.
pub fn temperature_threshold(gpu: Gpu, kind: u32, out: Out<u32>) -> Answer {
    let board = gpu.board();
    let limit = match kind {
        0 => board.shutdown_c,
        1 => board.slowdown_c,
        2 if gpu.has(valid::MEMORY_TEMPERATURE) => board.memory_max_c,
        3 => board.max_operating_c,
        _ => 0,
    };
    if limit <= 0 {
        return Err(Fault::NotSupported);
    }
    out.set(limit as u32);
    Ok(())
}

/// `nvmlDeviceGetMarginTemperature`.
pub fn margin_temperature(gpu: Gpu, out: Out<MarginTemperature>) -> Answer {
    gpu.require(valid::MARGIN)?;
    let mut info = out.get();
    info.margin = live!(gpu, margin_c);
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetThermalSettings`: the GPU's own sensor and the memory's; index 15 asks for all.
pub fn thermal_settings(gpu: Gpu, index: u32, out: Out<ThermalSettings>) -> Answer {
    let live = gpu.live();
    let board = gpu.board();
    let sensor = |target, current, max| ThermalSensor {
        controller: 1,
        default_min: 0,
        default_max: max,
        current,
        target,
    };
    let mut all = [ThermalSensor::default(); 3];
    let mut count = 1;
    all[0] = sensor(1, live.temperature_c, board.slowdown_c);
    if live.valid & valid::MEMORY_TEMPERATURE != 0 {
        all[1] = sensor(2, live.memory_temperature_c, board.memory_max_c);
        count = 2;
    }
    let mut info = ThermalSettings {
        count,
        sensors: all,
    };
    if index != 15 {
        let one = all[..count as usize]
            .get(index as usize)
            .ok_or(Fault::InvalidArgument)?;
        info = ThermalSettings {
            count: 1,
            ..ThermalSettings::default()
        };
        info.sensors[0] = *one;
    }
    out.set(info);
    Ok(())
}

/// Refuses boards without fans, and fans past the last.
pub fn fan(gpu: &Gpu, fan: u32) -> Answer {
    gpu.require(valid::FAN)?;
    if fan < gpu.board().fans {
        Ok(())
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// `nvmlDeviceGetNumFans`.
pub fn num_fans(gpu: Gpu, out: Out<u32>) -> Answer {
    gpu.require(valid::FAN)?;
    out.set(gpu.board().fans);
    Ok(())
}

/// `nvmlDeviceGetFanSpeed`.
pub fn fan_speed(gpu: Gpu, out: Out<u32>) -> Answer {
    fan_speed_v2(gpu, 0, out)
}

/// `nvmlDeviceGetFanSpeed_v2`, `nvmlDeviceGetTargetFanSpeed`: a simulated fan does at once what it is told.
pub fn fan_speed_v2(gpu: Gpu, index: u32, out: Out<u32>) -> Answer {
    fan(&gpu, index)?;
    out.set(live!(gpu, fan_percent));
    Ok(())
}

/// `nvmlDeviceGetFanSpeedRPM`.
pub fn fan_speed_rpm(gpu: Gpu, out: Out<FanSpeedInfo>) -> Answer {
    let mut info = out.get();
    fan(&gpu, info.fan)?;
    info.speed = live!(gpu, fan_percent) * FULL_SPEED_RPM / 100;
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetMinMaxFanSpeed`.
pub fn min_max_fan_speed(gpu: Gpu, min: Out<u32>, max: Out<u32>) -> Answer {
    gpu.require(valid::FAN)?;
    min.set(FAN_MIN);
    max.set(100);
    Ok(())
}

/// `nvmlDeviceGetFanControlPolicy_v2`.
pub fn fan_control_policy(gpu: Gpu, index: u32, out: Out<u32>) -> Answer {
    fan(&gpu, index)?;
    out.set(gpu.flag(flags::FAN_MANUAL).into());
    Ok(())
}

/// `nvmlDeviceGetCoolerInfo`: a variable fan that cools all of the board.
pub fn cooler_info(gpu: Gpu, out: Out<CoolerInfo>) -> Answer {
    let mut info = out.get();
    fan(&gpu, info.index)?;
    info.signal = 2;
    info.target = 0b1110;
    out.set(info);
    Ok(())
}
