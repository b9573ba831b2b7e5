//! Changing a device, which the engine does or refuses.

use super::{Code, Device, Nvml, Result, ask, check, visible};
use crate::control::request;
use crate::exports;

/// Methods for functions that take numbers and change something.
macro_rules! setters {
    ($( $(#[$doc:meta])* $name:ident($($arg:ident),*) = $function:ident; )*) => { impl Device { $(
        $(#[$doc])*
        pub fn $name(self, $($arg: u32),*) -> Result<()> {
            check(exports::$function(self.0, $($arg),*))
        }
    )* } };
}

setters! {
    /// Persistence mode on or off.
    set_persistence(on) = nvmlDeviceSetPersistenceMode;
    /// Power limit, mW.
    set_power_limit(milliwatts) = nvmlDeviceSetPowerManagementLimit;
    /// Range of the graphics clock, MHz.
    lock_clocks(min, max) = nvmlDeviceSetGpuLockedClocks;
    /// Undoes the former.
    reset_locked_clocks() = nvmlDeviceResetGpuLockedClocks;
    /// Range of the memory clock, MHz.
    lock_memory_clocks(min, max) = nvmlDeviceSetMemoryLockedClocks;
    /// Undoes the former.
    reset_locked_memory_clocks() = nvmlDeviceResetMemoryLockedClocks;
    /// Application clocks, MHz.
    set_application_clocks(memory, graphics) = nvmlDeviceSetApplicationsClocks;
    /// Undoes the former.
    reset_application_clocks() = nvmlDeviceResetApplicationsClocks;
    /// Compute mode, by number.
    set_compute_mode(mode) = nvmlDeviceSetComputeMode;
    /// ECC on or off after the next reset.
    set_ecc(on) = nvmlDeviceSetEccMode;
    /// Clears error counters: 0 since load, 1 ever.
    clear_ecc(lifetime) = nvmlDeviceClearEccErrorCounts;
    /// Accounting on or off.
    set_accounting(on) = nvmlDeviceSetAccountingMode;
    /// Forgets accounted processes.
    clear_accounting() = nvmlDeviceClearAccountingPids;
}

impl Device {
    /// MIG on or off. The inner result tells whether it is in force already: a reset may have to come first.
    pub fn set_mig(self, on: bool) -> Result<Result<()>> {
        let mut activation = 0;
        check(exports::nvmlDeviceSetMigMode(
            self.0,
            on.into(),
            &raw mut activation,
        ))?;
        Ok(if activation == 0 {
            Ok(())
        } else {
            Err(Code(activation))
        })
    }
}

impl Nvml {
    /// Resets a GPU by number, for which there is no public function; also one that answers nothing else.
    pub fn reset(&self, index: u32) -> Result<()> {
        ask(|session| request(&visible(session, index)?, "reset", &[]).map(drop))
    }
}
