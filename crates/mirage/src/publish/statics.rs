//! What is fixed about a node: its boards, their MIG profiles, and who each card is.
//! Nodes of the same make share one set of board tables.

use std::collections::HashMap;
use std::sync::Arc;

use mirage_model::board::{Board, C2c, LimitStyle, NvLink, Vendor};
use mirage_model::identity::{Identity, instance_uuid};
use mirage_model::mig::{ComputeProfile, Geometry, GpuProfile};
use mirage_model::plan::NodePlan;
use mirage_model::power_profile::PowerProfile;
use mirage_state::Statics;
use mirage_state::layout::{self, Card, board_flags, fixed, vendors};

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;
/// Nodes that share one NVLink domain in a rack system.
const NODES_PER_RACK: usize = 18;
/// `nvmlGpuFabricState_t`: registration completed.
const FABRIC_COMPLETED: u32 = 3;
/// First NVLink generation whose GPUs register with a fabric manager.
const FABRIC_SINCE: u32 = 4;

/// Board tables made so far, by the boards they hold.
#[derive(Default)]
pub(super) struct Shared {
    tables: HashMap<Vec<usize>, Arc<Statics>>,
}

impl Shared {
    /// The board tables of a node, and for each of its GPUs the index of its board.
    pub(super) fn tables(&mut self, node: &NodePlan) -> (Arc<Statics>, Vec<u32>) {
        let mut boards: Vec<&Arc<Board>> = Vec::new();
        let mut indices = Vec::with_capacity(node.gpus.len());
        for gpu in &node.gpus {
            let known = boards.iter().position(|b| Arc::ptr_eq(b, &gpu.board));
            let index = known.unwrap_or_else(|| {
                boards.push(&gpu.board);
                boards.len() - 1
            });
            indices.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        let key = boards.iter().map(|b| Arc::as_ptr(b).addr()).collect();
        let tables = self
            .tables
            .entry(key)
            .or_insert_with(|| Arc::new(statics(&boards)));
        (tables.clone(), indices)
    }
}

/// The cards of node number `index`.
pub(super) fn cards(node: &NodePlan, index: usize, boards: &[u32]) -> Arc<[Card]> {
    let count = u32::try_from(node.gpus.len()).unwrap_or(u32::MAX);
    let gpus = node.gpus.iter().zip(boards).zip(0..count);
    gpus.map(|((gpu, &board), slot)| {
        let identity = Identity::of(&node.name, slot, count, &gpu.board, gpu.given.as_deref());
        card(&identity, &gpu.board, board, index, slot)
    })
    .collect()
}

fn card(identity: &Identity, board: &Board, board_index: u32, node: usize, slot: u32) -> Card {
    let Identity {
        uuid,
        serial,
        pci,
        minor,
        numa,
        module_id,
        board_id,
    } = identity;
    let rack = is_rack(board);
    let fabric = board
        .nvlink
        .as_ref()
        .is_some_and(|link| link.is_switched() && link.version >= FABRIC_SINCE);
    let domain = node / NODES_PER_RACK;
    let tray = u32::try_from(node % NODES_PER_RACK).unwrap_or(0);
    Card {
        uuid: fixed(uuid),
        serial: fixed(serial),
        chassis: if rack {
            fixed(&format!("18{domain:011}"))
        } else {
            [0; 16]
        },
        memory_total: board.memory_total_mib.saturating_mul(MIB),
        board: board_index,
        minor: *minor,
        pci_domain: pci.domain,
        pci_bus: pci.bus.into(),
        pci_device: pci.device.into(),
        numa: *numa,
        board_id: *board_id,
        module_id: *module_id,
        slot: if rack { tray + 1 } else { slot },
        tray: if rack { tray } else { 0 },
        clique: 0,
        fabric_state: if fabric { FABRIC_COMPLETED } else { 0 },
        cluster: if rack { cluster(domain) } else { [0; 16] },
    }
}

/// A stable id for an NVLink domain.
fn cluster(domain: usize) -> [u8; 16] {
    let id = instance_uuid("nvlink-domain", u32::try_from(domain).unwrap_or(0), 0);
    let digits: Vec<u8> = id
        .chars()
        .skip("MIG-".len())
        .filter_map(|digit| digit.to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    bytes
}

/// Superchips on a shared NVLink fabric come in racks.
fn is_rack(board: &Board) -> bool {
    let switched = board.nvlink.as_ref().is_some_and(NvLink::is_switched);
    switched && board.c2c == C2c::Enabled
}

fn statics(boards: &[&Arc<Board>]) -> Statics {
    let mut tables = Statics::default();
    for board in boards {
        let first = tables.gpu_profiles.len();
        if let Some(geometry) = &board.mig {
            profiles(geometry, &mut tables);
        }
        let count = tables.gpu_profiles.len() - first;
        let record = record(board, index(first), index(count));
        tables.boards.push(record);
    }
    tables
}

fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn profiles(geometry: &Geometry, tables: &mut Statics) {
    for profile in &geometry.profiles {
        let compute_first = index(tables.compute_profiles.len());
        let compute = profile.compute.iter().map(compute_record);
        tables.compute_profiles.extend(compute);
        tables
            .gpu_profiles
            .push(profile_record(profile, compute_first));
    }
}

fn profile_record(profile: &GpuProfile, compute_first: u32) -> layout::GpuProfile {
    let GpuProfile {
        name,
        index: number,
        id,
        slices,
        memory_mib,
        sm_count,
        copy_engines,
        decoders,
        encoders,
        jpeg_engines,
        ofa_engines,
        p2p,
        max_instances,
        placement_starts,
        placement_size,
        compute,
    } = profile;
    layout::GpuProfile {
        name: fixed(name),
        memory: memory_mib.saturating_mul(MIB),
        placements: bits(placement_starts),
        index: *number,
        id: *id,
        slices: *slices,
        sm_count: *sm_count,
        placement_size: *placement_size,
        max_instances: *max_instances,
        copy_engines: *copy_engines,
        decoders: *decoders,
        encoders: *encoders,
        jpeg_engines: *jpeg_engines,
        ofa_engines: *ofa_engines,
        p2p: u32::from(*p2p),
        compute_first,
        compute_count: index(compute.len()),
    }
}

fn compute_record(profile: &ComputeProfile) -> layout::ComputeProfile {
    let ComputeProfile {
        name,
        index,
        id,
        slices,
        sm_count,
        max_instances,
        placement_starts,
        placement_size,
        shared_copy_engines,
        shared_decoders,
        shared_encoders,
        shared_jpeg_engines,
        shared_ofa_engines,
        whole,
    } = profile;
    layout::ComputeProfile {
        name: fixed(name),
        placements: bits(placement_starts),
        index: *index,
        id: *id,
        slices: *slices,
        sm_count: *sm_count,
        placement_size: *placement_size,
        max_instances: *max_instances,
        shared_copy_engines: *shared_copy_engines,
        shared_decoders: *shared_decoders,
        shared_encoders: *shared_encoders,
        shared_jpeg_engines: *shared_jpeg_engines,
        shared_ofa_engines: *shared_ofa_engines,
        whole: u32::from(*whole),
    }
}

/// A bit per slice a profile may begin at.
fn bits(starts: &[u32]) -> u64 {
    let set = starts.iter().filter_map(|&start| 1u64.checked_shl(start));
    set.fold(0, |all, bit| all | bit)
}

fn record(board: &Board, gpu_profile_first: u32, gpu_profile_count: u32) -> layout::Board {
    let power = &board.power;
    let clocks = &board.clocks;
    let thermal = &board.thermal;
    let link = board.nvlink.as_ref();
    layout::Board {
        name: fixed(&board.name),
        product: fixed(&board.product),
        key: fixed(&board.key),
        brand_name: fixed(&board.brand),
        architecture_name: fixed(&board.architecture),
        vbios: fixed(&board.vbios),
        part_number: fixed(&board.board_part_number),
        gpu_part_number: fixed(&board.gpu_part_number),
        vendor: match board.vendor {
            Vendor::Nvidia => vendors::NVIDIA,
            Vendor::Amd => vendors::AMD,
            Vendor::Intel => vendors::INTEL,
        },
        brand: board.brand_code,
        architecture: board.architecture_code,
        cc_major: board.compute_capability.0,
        cc_minor: board.compute_capability.1,
        sm_count: board.sm_count,
        core_count: board.core_count,
        memory_bus_bits: board.memory_bus_bits,
        pci_device_id: board.pci_device_id,
        pci_subsystem_id: board.pci_subsystem_id,
        pcie_gen_max: board.pcie_gen_max,
        pcie_width_max: board.pcie_width_max,
        nvlink_version: link.map_or(0, |link| link.version),
        nvlink_links: link.map_or(0, |link| link.links),
        nvlink_mbs: link.map_or(0, |link| whole(link.gbs_per_link * 1e3)),
        power_idle_mw: whole(power.idle_w * 1e3),
        power_min_mw: whole(power.min_w * 1e3),
        power_default_mw: whole(power.default_w * 1e3),
        power_max_mw: whole(power.max_w * 1e3),
        module_power_mw: power.module.map_or(0, |module| whole(module.max_w * 1e3)),
        module_min_mw: power.module.map_or(0, |module| whole(module.min_w * 1e3)),
        sm_idle_mhz: clocks.sm_idle_mhz,
        sm_max_mhz: clocks.sm_max_mhz,
        sm_default_mhz: clocks.sm_default_mhz,
        sm_step_mhz: clocks.sm_step_mhz,
        sm_min_mhz: clocks.sm_min_mhz,
        mem_idle_mhz: clocks.mem_idle_mhz,
        mem_max_mhz: clocks.mem_max_mhz,
        video_max_mhz: clocks.video_max_mhz,
        slowdown_c: degrees(thermal.slowdown_c),
        shutdown_c: degrees(thermal.shutdown_c),
        max_operating_c: degrees(thermal.max_operating_c),
        memory_max_c: thermal.memory_max_c.map_or(0, degrees),
        margin_slowdown_c: thermal.margin_slowdown_c,
        margin_shutdown_c: thermal.margin_shutdown_c,
        row_remap_banks: board.row_remap_banks.unwrap_or(0),
        max_mig_instances: board.mig.as_ref().map_or(0, |mig| mig.max_instances),
        memory_slices: board.mig.as_ref().map_or(0, |mig| mig.memory_slices),
        gpu_profile_first,
        gpu_profile_count,
        fans: board.fans,
        encoders: board.encoders,
        decoders: board.decoders,
        jpeg_engines: board.jpeg_engines,
        ofa_engines: board.ofa_engines,
        copy_engines: board.copy_engines,
        memory_bandwidth_mbs: whole(board.memory_bandwidth_gbs * 1e3),
        pcie_host_gen_max: board.pcie_host_gen_max.unwrap_or(board.pcie_gen_max),
        memory_reserved: board.memory_reserved_mib.saturating_mul(MIB),
        bar1_total: board.bar1_mib.unwrap_or(0).saturating_mul(MIB),
        flags: flags(board, link),
        l2_kib: board.l2_kib,
        inforom_image: fixed(&board.inforom.image),
        inforom_oem: fixed(&board.inforom.oem),
        inforom_ecc: fixed(&board.inforom.ecc),
        // Not in the catalogue: empty reads as "not known".
        inforom_power: [0; 16],
        workload_profiles: board.power.profiles_mask(),
        bridge_firmware: board.bridge_firmware.unwrap_or(0),
        nvlink_switches: link.map_or(0, |link| link.switches),
        workload_priority: by_profile(board, |profile| profile.priority),
        workload_conflicts: by_profile(board, |profile| profile.conflicts),
    }
}

/// A figure of each workload power profile the board offers, at its number.
fn by_profile<T: Default + Copy>(board: &Board, of: impl Fn(&PowerProfile) -> T) -> [T; 32] {
    let mut figures = [T::default(); 32];
    for profile in &board.power.workload_profiles {
        if let Some(place) = figures.get_mut(profile.id as usize) {
            *place = of(profile);
        }
    }
    figures
}

fn flags(board: &Board, link: Option<&NvLink>) -> u64 {
    let thermal = &board.thermal;
    let two_on_a_board = board.gpus_per_serial > 1 && board.c2c == C2c::Absent;
    let set = [
        (
            thermal.style == LimitStyle::Margin,
            board_flags::MARGIN_LIMITS,
        ),
        (thermal.has_memory_sensor, board_flags::MEMORY_SENSOR),
        (board.ecc.is_some(), board_flags::ECC),
        (board.ecc == Some(true), board_flags::ECC_DEFAULT),
        (board.row_remap_banks.is_some(), board_flags::ROW_REMAP),
        (link.is_some_and(NvLink::is_switched), board_flags::SWITCHED),
        (board.hbm, board_flags::HBM),
        (board.profiling, board_flags::PROFILING),
        (board.c2c != C2c::Absent, board_flags::C2C),
        (board.c2c == C2c::Enabled, board_flags::C2C_ENABLED),
        (two_on_a_board, board_flags::MULTI_GPU_BOARD),
        (is_rack(board), board_flags::PLATFORM),
    ];
    set.iter()
        .filter(|(is, _)| *is)
        .fold(0, |all, (_, bit)| all | bit)
}

/// The nearest whole number; what does not fit is as large as fits.
fn whole(value: f64) -> u32 {
    value.round() as u32
}

fn degrees(value: f64) -> i32 {
    value.round() as i32
}
