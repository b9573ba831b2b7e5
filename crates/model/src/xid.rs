//! The Xid table: what each Xid means, how the software around GPUs reacts to it, and what
//! it does to the device that reports it.
//!
//! The table is `data/xid.csv`, read once when first asked for.

use std::sync::LazyLock;

mod table;
#[cfg(test)]
mod tests;

/// One Xid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xid {
    /// Its number.
    pub number: u32,
    /// The driver's name for it.
    pub mnemonic: &'static str,
    /// What kind of trouble it is.
    pub class: Class,
    /// What happened, in a sentence.
    pub meaning: &'static str,
    /// The device plugin takes it for the application's fault and keeps the device healthy.
    pub ignored_by_plugin: bool,
    /// NVML event bits delivered besides `nvmlEventTypeXidCriticalError`.
    pub extra_events: u64,
    /// What DCGM's health watches make of it.
    pub health: Option<Health>,
    /// The recovery the driver advises.
    pub recovery: Recovery,
    /// The immediate action of NVIDIA's catalog (`RESTART_APP`, `RESET_GPU`), empty when unknown.
    pub action: &'static str,
    /// What an operator should do.
    pub advice: &'static str,
    /// Which boards can report it.
    pub only: Only,
    /// What it does to the device.
    pub effects: Vec<Effect>,
}

/// What kind of trouble an Xid is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Class {
    Application,
    Driver,
    Memory,
    Power,
    Firmware,
    Link,
    Bus,
    Security,
    Virtual,
    Init,
    Info,
}

/// DCGM's verdict on an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// The watch that raises it.
    pub watch: Watch,
    /// Failure rather than warning.
    pub fails: bool,
    /// `dcgmError_t`.
    pub code: u32,
    /// Its name, `DCGM_FR_XID_ERROR`.
    pub code_name: &'static str,
}

/// DCGM's health watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "DCGM's own names")]
pub enum Watch {
    All,
    Memory,
    Pcie,
    NvLink,
    Power,
    Thermal,
    InfoRom,
}

/// `nvmlDeviceGpuRecoveryAction_t`, as far as Xids set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "NVML's own names")]
pub enum Recovery {
    None = 0,
    GpuReset = 1,
    NodeReboot = 2,
}

/// Which boards can report an Xid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// All of them.
    Any,
    /// Blackwell and later (NVLink 5).
    Blackwell,
    /// Everything before Blackwell.
    BeforeBlackwell,
    /// Boards with a chip-to-chip link.
    ChipToChip,
}

/// What an Xid does to the device that reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// One process on the device dies.
    KillOne,
    /// Every process on the device dies.
    KillAll,
    /// Busy without progress until the process is killed.
    Hang,
    /// Gone from the bus; NVML answers `GPU_IS_LOST`.
    Lost,
    /// Missing when devices are enumerated next.
    Missing,
    /// One more uncorrected ECC error in device memory.
    EccDram,
    /// One more uncorrected ECC error in SRAM.
    EccSram,
    /// Corrected ECC errors climb.
    EccCorrected,
    /// A row is remapped (a page retired before Ampere), pending a reset.
    RemapRow,
    /// Remapping failed.
    RemapFailed,
    /// NVLinks go down.
    LinkDown,
    /// NVLink error counters rise.
    LinkErrors,
    /// The power brake is on.
    PowerBrake,
    /// Clocks and power control stay where they are.
    ClocksStuck,
    /// NVML calls are slow.
    SlowApi,
    /// No new work until a reset.
    RefuseWork,
    /// A channel or TPC repair waits for a reset.
    RepairPending,
    /// Memory cannot be repaired.
    RepairFailed,
    /// That Xid is reported too, without its effects.
    Follow(u32),
    /// As `Follow`, when several processes share the device.
    FollowIfShared(u32),
    /// As `Follow`, on boards that remap rows.
    FollowIfRemapping(u32),
}

static TABLE: LazyLock<Vec<Xid>> = LazyLock::new(table::parse);

/// All Xids in the table, by number.
pub fn all() -> &'static [Xid] {
    &TABLE
}

/// The Xid with this number, if it is known.
pub fn xid(number: u32) -> Option<&'static Xid> {
    let at = TABLE.binary_search_by_key(&number, |x| x.number).ok()?;
    TABLE.get(at)
}
