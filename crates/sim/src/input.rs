//! What the outside may ask of the world, and what it answers. Every request is checked here
//! or in the module it concerns; a refused one changes nothing.

use std::time::Duration;

use mirage_model::plan::{DeviceRef, FaultPlan, WorkloadPlan};

/// A request to the world, applied before the step it is given to.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "inputs are few and short-lived, and plans are written without boxes"
)]
pub enum Input {
    /// Run a workload; its `at` counts from now.
    AddWorkload(WorkloadPlan),
    /// Run a workload whose steps have been under way for so long already, as if it had run here all the time.
    ResumeWorkload(WorkloadPlan, Duration),
    /// Let a living workload of this name go on with another activity: its processes and what they have counted
    /// stay. Steps that take the same times as before go on where they are, others begin anew. Devices and owner must be
    /// those it has.
    ChangeWorkload(WorkloadPlan),
    /// End and forget a workload.
    RemoveWorkload(String),
    /// Add faults; `When::At` and `When::Every` count from now, so `At(0)` strikes at once.
    Inject(FaultPlan),
    /// Heal faults, and stop their repetitions.
    Heal(FaultSelector),
    /// Change a setting of a device.
    Set {
        /// Whose.
        device: DeviceRef,
        /// What.
        setting: Setting,
    },
    /// Change the MIG layout of a device.
    Mig {
        /// Whose.
        device: DeviceRef,
        /// How.
        op: MigOp,
    },
    /// Reset a device that nothing uses: pending modes take effect, volatile counters clear.
    Reset {
        /// Which.
        device: DeviceRef,
    },
}

/// Which faults to heal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultSelector {
    /// The one with this id.
    Id(u64),
    /// All on these devices.
    Devices(Vec<DeviceRef>),
    /// All there are, and whatever was still to come.
    All,
}

/// A setting of a device, as NVML's setters and the control commands know them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Setting {
    /// Power limit in mW; `None` for the default.
    PowerLimit(Option<u32>),
    /// Lock the SM clock into a range, MHz; `None` unlocks.
    LockedClocks(Option<(u32, u32)>),
    /// Lock the memory clock into a range, MHz; `None` unlocks.
    LockedMemoryClocks(Option<(u32, u32)>),
    /// Application clocks (memory, SM), MHz; `None` for the defaults.
    ApplicationClocks(Option<(u32, u32)>),
    /// Fan speed by hand, percent.
    FanSpeed {
        /// Fan index.
        fan: u32,
        /// Percent.
        percent: u32,
    },
    /// Fan back to automatic.
    FanDefault {
        /// Fan index.
        fan: u32,
    },
    /// Persistence mode.
    Persistence(bool),
    /// Thermal resistance times this factor (1 is sound cooling).
    Cooling(f64),
    /// ECC mode, in force after the next reset.
    EccMode(bool),
    /// Clear ECC counters.
    EccClear(EccScope),
    /// `nvmlComputeMode_t`: 0 default, 2 prohibited, 3 exclusive process.
    ComputeMode(u32),
    /// Accounting mode.
    Accounting(bool),
    /// Forget ended processes of this device.
    AccountingClear,
    /// Workload power profiles to ask for, a bit each.
    WorkloadProfiles(Change, u32),
    /// Whether the clock may rise above the application clock by itself (Kepler).
    AutoBoost(bool),
    /// The same, as it is after a reset.
    AutoBoostDefault(bool),
    /// Windows driver model; never supported, as on any Linux node.
    DriverModel(u32),
}

/// What to do with a set of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Take these out.
    Remove,
    /// Put these in.
    Add,
    /// These and no others.
    Replace,
}

/// Which ECC counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EccScope {
    /// Since the last reset.
    Volatile,
    /// Over the board's life.
    Aggregate,
}

/// A MIG profile by whichever name the caller has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// NVML's profile index.
    Index(u32),
    /// The id `nvidia-smi mig -lgip` prints.
    Id(u32),
    /// `1g.5gb`.
    Name(String),
}

/// A change of the MIG layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigOp {
    /// Switch MIG mode; switching it off destroys all instances.
    Enable(bool),
    /// Create a GPU instance.
    CreateGi {
        /// Profile.
        profile: Profile,
        /// First memory slice; chosen when absent.
        start: Option<u32>,
    },
    /// Create a compute instance.
    CreateCi {
        /// GPU instance.
        gi: u32,
        /// Profile; the one that fills the GPU instance when absent.
        profile: Option<Profile>,
        /// First compute slice; chosen when absent.
        start: Option<u32>,
    },
    /// Destroy a GPU instance without compute instances.
    DestroyGi {
        /// GPU instance.
        gi: u32,
    },
    /// Destroy a compute instance that nothing uses.
    DestroyCi {
        /// GPU instance.
        gi: u32,
        /// Compute instance.
        ci: u32,
    },
}

/// What an applied input answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Applied.
    Done,
    /// Accepted, in force after the next reset.
    AfterReset,
    /// Accepted, but the device is in use: in force after a reset, which it must be free for.
    InUse,
    /// A workload was added.
    Workload {
        /// Its id.
        id: u64,
    },
    /// Faults were added or healed.
    Faults {
        /// Their ids; empty for those still to strike.
        ids: Vec<u64>,
    },
    /// A GPU instance was created.
    GpuInstance {
        /// Its id.
        gi: u32,
        /// Its first memory slice.
        start: u32,
    },
    /// A compute instance was created.
    ComputeInstance {
        /// Its GPU instance.
        gi: u32,
        /// Its id.
        ci: u32,
    },
}

/// Why an input was refused. The variants are what NVML tells apart.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The device is not in the plan.
    #[error("device {device}: there is no such device")]
    NoSuchDevice {
        /// As asked for.
        device: String,
    },
    /// A named thing is not there.
    #[error("{what}: not found")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// The board cannot do it.
    #[error("{what} on {device}: not supported, {why}")]
    NotSupported {
        /// What was attempted.
        what: &'static str,
        /// On which device.
        device: String,
        /// Why not.
        why: String,
    },
    /// A value outside what the board takes.
    #[error("{what} on {device}: {} is outside {low} to {high}", short(*.given))]
    OutOfRange {
        /// What was attempted.
        what: &'static str,
        /// On which device.
        device: String,
        /// The value given.
        given: f64,
        /// Lowest accepted.
        low: f64,
        /// Highest accepted.
        high: f64,
    },
    /// A value that means nothing here.
    #[error("{what}: {why}")]
    Invalid {
        /// What was attempted.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// Something still uses it.
    #[error("{what} on {device}: in use by {by}")]
    InUse {
        /// What was attempted.
        what: &'static str,
        /// On which device.
        device: String,
        /// By what.
        by: String,
    },
    /// No room for it.
    #[error("{what} on {device}: insufficient resources, {why}")]
    InsufficientResources {
        /// What was attempted.
        what: &'static str,
        /// On which device.
        device: String,
        /// What is short.
        why: String,
    },
    /// The name is taken.
    #[error("workload {name}: already there; remove it first")]
    Exists {
        /// The name.
        name: String,
    },
    /// The device has fallen off the bus.
    #[error("{what} on {device}: the device is lost; heal it first")]
    Lost {
        /// What was attempted.
        what: &'static str,
        /// On which device.
        device: String,
    },
}

/// A number without more digits than anybody reads.
fn short(number: f64) -> String {
    if number.abs() < 1e15 {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_no_line_of_digits() {
        let refusal = |given| Refusal::OutOfRange {
            what: "cooling factor",
            device: "a/0".into(),
            given,
            low: 0.1,
            high: 100.0,
        };
        let told = refusal(250.5).to_string();
        assert_eq!(told, "cooling factor on a/0: 250.5 is outside 0.1 to 100");
        let told = refusal(1e300).to_string();
        assert_eq!(told, "cooling factor on a/0: 1e300 is outside 0.1 to 100");
    }
}
