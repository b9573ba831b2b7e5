//! Power and energy.

use mirage_state::layout::valid;

use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};

/// `nvmlDeviceGetPowerUsage`: the one-second average where the board has one, else the reading of now.
pub fn power_usage(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(if gpu.has(valid::AVERAGE_POWER) {
        live!(gpu, power_average_mw)
    } else {
        live!(gpu, power_mw)
    });
    Ok(())
}

/// `nvmlDeviceGetPowerManagementMode`: on wherever a limit exists.
pub fn power_management_mode(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set((gpu.board().power_default_mw > 0).into());
    Ok(())
}

/// `nvmlDeviceGetPowerManagementLimit`.
pub fn power_management_limit(gpu: Gpu, out: Out<u32>) -> Answer {
    known(live!(gpu, power_limit_mw), out)
}

/// `nvmlDeviceGetEnforcedPowerLimit`.
pub fn enforced_power_limit(gpu: Gpu, out: Out<u32>) -> Answer {
    known(live!(gpu, enforced_limit_mw), out)
}

/// `nvmlDeviceGetPowerManagementDefaultLimit`.
pub fn power_management_default_limit(gpu: Gpu, out: Out<u32>) -> Answer {
    known(gpu.board().power_default_mw, out)
}

/// `nvmlDeviceGetPowerManagementLimitConstraints`.
pub fn power_management_limit_constraints(gpu: Gpu, min: Out<u32>, max: Out<u32>) -> Answer {
    known(gpu.board().power_min_mw, min)?;
    known(gpu.board().power_max_mw, max)
}

fn known(milliwatts: u32, out: Out<u32>) -> Answer {
    if milliwatts == 0 {
        return Err(Fault::NotSupported);
    }
    out.set(milliwatts);
    Ok(())
}

/// `nvmlDeviceGetTotalEnergyConsumption`.
pub fn total_energy_consumption(gpu: Gpu, out: Out<u64>) -> Answer {
    gpu.require(valid::ENERGY)?;
    out.set(live!(gpu, energy_mj));
    Ok(())
}

/// `nvmlDeviceGetPowerSource`: mains.
pub fn power_source(_: Gpu, out: Out<u32>) -> Answer {
    out.set(0);
    Ok(())
}
