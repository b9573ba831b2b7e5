//! A GPU model as the catalogue describes it: everything about a board that does not
//! depend on which node it sits in or what it is doing.

use crate::identity::PciAddress;
use crate::mig::Geometry;
use crate::mig::name::derived;
use crate::power_profile::PowerProfile;

/// Who made the board; decides identities, device names and the clock governor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
}

/// How clocks follow load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governor {
    /// Idle clock while idle, full clock otherwise (NVIDIA, AMD).
    Race,
    /// Clock rises with the square root of the load (Intel).
    Proportional,
}

/// How a board reports its temperature limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitStyle {
    /// Absolute thresholds in degrees.
    Absolute,
    /// Margins below the maximum operating temperature ("T.Limit").
    Margin,
}

/// State of the chip-to-chip link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum C2c {
    /// The board has none.
    Absent,
    /// Present and off.
    Disabled,
    /// Present and on.
    Enabled,
}

/// How a board is mounted; decides module numbers and what shares a serial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormFactor {
    /// A card in a slot.
    Pcie,
    /// A module on a baseboard (SXM, OAM).
    Sxm,
    /// A module with its own CPU (GH200, GB200, GB300).
    Superchip,
}

/// One entry of the catalogue. Units are in the names.
#[derive(Debug, Clone, PartialEq)]
pub struct Board {
    /// Catalogue key, `a100-sxm4-40gb`.
    pub key: String,
    /// The name NVML gives, `NVIDIA A100-SXM4-40GB`.
    pub name: String,
    /// The name GPU Feature Discovery writes, `NVIDIA-A100-SXM4-40GB`.
    pub product: String,
    /// Maker.
    pub vendor: Vendor,
    /// Brand text.
    pub brand: String,
    /// `nvmlBrandType_t`.
    pub brand_code: u32,
    /// Architecture text.
    pub architecture: String,
    /// `nvmlDeviceArchitecture_t`.
    pub architecture_code: u32,
    /// CUDA compute capability.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors (compute units, Xe cores).
    pub sm_count: u32,
    /// CUDA cores.
    pub core_count: u32,
    /// L2 cache.
    pub l2_kib: u32,
    /// Total as NVML returns it.
    pub memory_total_mib: u64,
    /// Kept back by the driver.
    pub memory_reserved_mib: u64,
    /// BAR1 aperture; none on GH200.
    pub bar1_mib: Option<u64>,
    /// Bus width.
    pub memory_bus_bits: u32,
    /// Peak bandwidth.
    pub memory_bandwidth_gbs: f64,
    /// Whether the memory is HBM, whose clock never drops.
    pub hbm: bool,
    /// Device id in the upper, vendor id in the lower half.
    pub pci_device_id: u32,
    /// Subsystem device and vendor, 0 when unknown.
    pub pci_subsystem_id: u32,
    /// Where the GPUs of a usual host sit, by index.
    pub pci_slots: Vec<PciAddress>,
    /// Highest PCIe generation of the link.
    pub pcie_gen_max: u32,
    /// Highest PCIe generation of the device itself; above the link's on GB200.
    pub pcie_device_gen_max: u32,
    /// Highest PCIe generation of the host, where boards tell.
    pub pcie_host_gen_max: Option<u32>,
    /// Highest link width.
    pub pcie_width_max: u32,
    /// Firmware of the PLX bridge between two GPUs of one board (K80).
    pub bridge_firmware: Option<u32>,
    /// NVLink, where the board has it.
    pub nvlink: Option<NvLink>,
    /// Chip-to-chip link.
    pub c2c: C2c,
    /// Power.
    pub power: Power,
    /// Clocks.
    pub clocks: Clocks,
    /// Temperatures and cooling.
    pub thermal: Thermal,
    /// Row-remapping banks; none where pages are retired instead.
    pub row_remap_banks: Option<u32>,
    /// MIG geometry, where the board can do MIG.
    pub mig: Option<Geometry>,
    /// Whether ECC is on by default; none where there is no ECC.
    pub ecc: Option<bool>,
    /// Fans the board itself has.
    pub fans: u32,
    /// Video encoders.
    pub encoders: u32,
    /// Video decoders.
    pub decoders: u32,
    /// JPEG engines.
    pub jpeg_engines: u32,
    /// Optical-flow engines.
    pub ofa_engines: u32,
    /// Async copy engines as CUDA counts them.
    pub copy_engines: u32,
    /// How many usually share a node; the default for `gpus`.
    pub gpus_per_node: u32,
    /// How far alternate slots sit apart at equal power.
    pub slot_offset_c: f64,
    /// How clocks follow load.
    pub governor: Governor,
    /// Driver version of the capture.
    pub driver_version: String,
    /// CUDA version of the capture.
    pub cuda_version: String,
    /// VBIOS version.
    pub vbios: String,
    /// Part number of the board, empty when unknown.
    pub board_part_number: String,
    /// Part number of the GPU, empty when unknown.
    pub gpu_part_number: String,
    /// Versions in the InfoROM.
    pub inforom: InfoRom,
    /// How it is mounted.
    pub form_factor: FormFactor,
    /// GPUs that share a serial number: 2 on GB200, GB300 and K80, else 1.
    pub gpus_per_serial: u32,
    /// Two GPUs share one board (K80).
    pub multi_gpu_board: bool,
    /// The board tells where in its rack it sits.
    pub platform: bool,
    /// Whether DCGM profiling series exist for it (Volta and newer NVIDIA).
    pub profiling: bool,
}

/// Versions in a board's InfoROM; empty when unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct InfoRom {
    pub image: String,
    pub oem: String,
    pub ecc: String,
}

/// NVLink of a board.
#[derive(Debug, Clone, PartialEq)]
pub struct NvLink {
    /// Generation.
    pub version: u32,
    /// Links per GPU.
    pub links: u32,
    /// One direction, per link.
    pub gbs_per_link: f64,
    /// NVSwitches that a GPU's links are dealt out over; 0 where links end at other GPUs.
    pub switches: u32,
}

impl NvLink {
    /// Whether links end at NVSwitches rather than at other GPUs.
    pub fn is_switched(&self) -> bool {
        self.switches > 0
    }
}

/// Power figures in watts.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Power {
    /// Drawn with persistence mode on and nothing running.
    pub idle_w: f64,
    pub min_w: f64,
    pub default_w: f64,
    pub max_w: f64,
    /// The whole module, on superchips.
    pub module: Option<ModulePower>,
    /// Workload power profiles it offers; none before Blackwell.
    pub workload_profiles: Vec<&'static PowerProfile>,
}

impl Power {
    /// Workload power profiles it offers, a bit each.
    pub fn profiles_mask(&self) -> u32 {
        let ids = self.workload_profiles.iter().map(|profile| profile.id);
        ids.fold(0, |all, id| all | 1 << id)
    }
}

/// Power of a superchip's module in watts: its GPUs and its CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ModulePower {
    /// What everything but the GPUs draws.
    pub rest_w: f64,
    pub min_w: f64,
    /// The default, and the highest.
    pub max_w: f64,
}

/// Clocks in MHz.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Clocks {
    pub sm_idle_mhz: u32,
    pub sm_max_mhz: u32,
    pub mem_idle_mhz: u32,
    pub mem_max_mhz: u32,
    pub video_max_mhz: u32,
    /// Default application clock; the maximum where unknown.
    pub sm_default_mhz: u32,
    /// Lowest supported graphics clock.
    pub sm_min_mhz: u32,
    /// Step between supported graphics clocks, in whole MHz: two steps where one is 7.5 MHz.
    pub sm_step_mhz: u32,
    /// The same step exactly.
    pub sm_step_khz: u32,
}

/// Temperatures in degrees Celsius and the cooling path.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Thermal {
    pub idle_c: f64,
    pub slowdown_c: f64,
    pub shutdown_c: f64,
    pub max_operating_c: f64,
    pub memory_max_c: Option<f64>,
    pub has_memory_sensor: bool,
    pub style: LimitStyle,
    pub margin_slowdown_c: i32,
    pub margin_shutdown_c: i32,
    /// Inlet air.
    pub inlet_c: f64,
    /// Degrees per watt.
    pub resistance_c_per_w: f64,
    /// Time constant.
    pub tau_s: f64,
}

impl Board {
    /// What workloads may hold: what the driver does not keep back.
    pub fn memory_usable_mib(&self) -> u64 {
        self.memory_total_mib
            .saturating_sub(self.memory_reserved_mib)
    }

    /// Whether auto boost is a setting: it was until Maxwell; later boards always boost.
    pub fn auto_boost(&self) -> bool {
        const MAXWELL: u32 = 3;
        self.vendor == Vendor::Nvidia && self.architecture_code <= MAXWELL
    }

    /// The same board with another amount of memory.
    ///
    /// MIG profiles keep their share of the memory, and because their names say how much
    /// that is, they are renamed by the rule the vendor's libraries use.
    #[must_use]
    pub fn with_memory_mib(&self, total_mib: u64) -> Self {
        let mut board = self.clone();
        let old = u128::from(self.memory_total_mib.max(1));
        let scaled = |mib: u64| {
            let new = u128::from(mib) * u128::from(total_mib) / old;
            u64::try_from(new).unwrap_or(u64::MAX)
        };
        board.memory_total_mib = total_mib;
        // The driver keeps back about as much on any board, but never most of a small one.
        board.memory_reserved_mib = self.memory_reserved_mib.min(total_mib / 8);
        for profile in board.mig.iter_mut().flat_map(|mig| &mut mig.profiles) {
            profile.memory_mib = scaled(profile.memory_mib);
            let attributes = profile.attributes();
            let name = derived(profile.slices, profile.memory_mib, total_mib, attributes);
            for compute in &mut profile.compute {
                compute.name = compute.name.replace(&profile.name, &name);
            }
            profile.name = name;
        }
        board
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue;

    #[test]
    fn memory_renames_the_profiles() {
        let board = catalogue::board("a100-sxm4-40gb").expect("listed");
        let big = board.with_memory_mib(81920);
        let names: Vec<&str> = big
            .mig
            .iter()
            .flat_map(|mig| &mig.profiles)
            .map(|profile| profile.name.as_str())
            .collect();
        let real = catalogue::board("a100-sxm4-80gb").expect("listed");
        let real = &real.mig.as_ref().expect("MIG").profiles;
        assert!(names.iter().eq(real.iter().map(|profile| &profile.name)));
        let mig = big.mig.as_ref().expect("MIG");
        let two = mig.profile_by_name("2g.20gb").expect("renamed");
        assert_eq!(two.compute[0].name, "1c.2g.20gb");
        assert_eq!(board.with_memory_mib(40960), *board);
        // Nonsense in, no panic out.
        assert_eq!(board.with_memory_mib(0).memory_reserved_mib, 0);
        assert_eq!(board.with_memory_mib(u64::MAX).memory_total_mib, u64::MAX);
    }
}
