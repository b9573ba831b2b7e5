//! Nodes to render: small, fixed, and each with something only it has.

use std::sync::Arc;

use mirage_state::layout::{
    Board, Card, Container, Event, GpuProfile, Header, Holding, Instance, Live, TextRef,
    board_flags, event_kinds, fixed, flags, header_flags, valid, vendors,
};
use mirage_state::{Image, Statics};

const MIB: u64 = 1 << 20;
const WHOLE: u32 = u32::MAX;
const NOW: u64 = 1_700_000_000_000;

/// Groups that a data-centre NVIDIA board knows.
const MODERN: u64 = valid::UTILIZATION
    | valid::MEMORY_TEMPERATURE
    | valid::PROFILING
    | valid::NVLINK
    | valid::ECC
    | valid::REMAP
    | valid::ENCODER
    | valid::DECODER
    | valid::AVERAGE_POWER
    | valid::ENERGY
    | valid::JPEG
    | valid::OFA;

fn a100_board() -> Board {
    Board {
        name: fixed("NVIDIA A100-SXM4-40GB"),
        product: fixed("NVIDIA-A100-SXM4-40GB"),
        key: fixed("a100-sxm4-40gb"),
        brand_name: fixed("NVIDIA"),
        architecture_name: fixed("Ampere"),
        architecture: 7,
        vbios: fixed("92.00.45.00.03"),
        part_number: fixed("692-2G506-0200-002"),
        inforom_image: fixed("G506.0200.00.04"),
        inforom_oem: fixed("2.0"),
        inforom_ecc: fixed("6.16"),
        vendor: vendors::NVIDIA,
        cc_major: 8,
        pci_device_id: 0x20B0_10DE,
        pci_subsystem_id: 0x134F_10DE,
        pcie_gen_max: 4,
        pcie_width_max: 16,
        pcie_host_gen_max: 4,
        nvlink_version: 3,
        nvlink_links: 12,
        power_min_mw: 100_000,
        power_default_mw: 400_000,
        power_max_mw: 400_000,
        sm_min_mhz: 210,
        sm_max_mhz: 1410,
        mem_max_mhz: 1215,
        video_max_mhz: 1290,
        slowdown_c: 89,
        shutdown_c: 92,
        max_operating_c: 85,
        memory_max_c: 95,
        row_remap_banks: 640,
        max_mig_instances: 7,
        decoders: 5,
        jpeg_engines: 1,
        ofa_engines: 1,
        memory_bandwidth_mbs: 1_555_000,
        memory_reserved: 518 * MIB,
        bar1_total: 65_536 * MIB,
        flags: board_flags::ECC | board_flags::ROW_REMAP | board_flags::PROFILING,
        ..Board::default()
    }
}

fn h100_board() -> Board {
    Board {
        name: fixed("NVIDIA H100 80GB HBM3"),
        product: fixed("NVIDIA-H100-80GB-HBM3"),
        architecture: 9,
        vbios: fixed("96.00.99.00.01"),
        cc_major: 9,
        pci_device_id: 0x2330_10DE,
        nvlink_version: 4,
        nvlink_links: 18,
        power_max_mw: 700_000,
        sm_max_mhz: 1980,
        mem_max_mhz: 2619,
        memory_reserved: 480 * MIB,
        ..a100_board()
    }
}

fn k80_board() -> Board {
    Board {
        name: fixed("Tesla K80"),
        product: fixed("Tesla-K80"),
        architecture: 2,
        vbios: fixed("80.21.1F.00.02"),
        vendor: vendors::NVIDIA,
        cc_major: 3,
        cc_minor: 7,
        pci_device_id: 0x102D_10DE,
        pcie_gen_max: 3,
        pcie_width_max: 16,
        power_min_mw: 100_000,
        power_default_mw: 149_000,
        power_max_mw: 175_000,
        sm_max_mhz: 875,
        mem_max_mhz: 2505,
        slowdown_c: 88,
        shutdown_c: 93,
        ..Board::default()
    }
}

fn mi300x_board() -> Board {
    Board {
        name: fixed("AMD Instinct MI300X"),
        part_number: fixed("102-G30211-00"),
        vendor: vendors::AMD,
        pci_device_id: 0x74A1_1002,
        nvlink_links: 7,
        sm_min_mhz: 132,
        sm_max_mhz: 2100,
        mem_max_mhz: 1300,
        memory_bandwidth_mbs: 5_300_000,
        slowdown_c: 100,
        flags: board_flags::ECC,
        ..Board::default()
    }
}

fn max1550_board() -> Board {
    Board {
        name: fixed("Intel(R) Data Center GPU Max 1550"),
        vendor: vendors::INTEL,
        pci_device_id: 0x0BD5_8086,
        nvlink_links: 4,
        sm_max_mhz: 1600,
        memory_bandwidth_mbs: 3_276_800,
        slowdown_c: 105,
        flags: board_flags::ECC,
        ..Board::default()
    }
}

/// A node of `gpus` equal GPUs, at work, the more so the higher their index.
fn node(name: &str, board: Board, memory_mib: u64, valid: u64, gpus: u32) -> Image {
    let cards: Vec<Card> = (0..gpus)
        .map(|n| Card {
            uuid: fixed(&format!("GPU-{n:08x}-1111-2222-3333-444455556666")),
            serial: fixed(&format!("13209200{n:05}")),
            memory_total: memory_mib * MIB,
            minor: n,
            pci_bus: 0x07 + 8 * n,
            ..Card::default()
        })
        .collect();
    let lives = (0..gpus).map(|n| live(n, &board, valid)).collect();
    Image {
        header: Box::new(Header {
            node: fixed(name),
            driver: fixed("550.163.01"),
            cuda_version: 12_040,
            unix_ms: NOW,
            ..Header::default()
        }),
        statics: Arc::new(Statics {
            boards: vec![board],
            ..Statics::default()
        }),
        cards: cards.into(),
        lives,
        ..Image::default()
    }
}

fn live(n: u32, board: &Board, valid: u64) -> Live {
    let big = u64::from(n) + 1;
    let mut live = Live {
        valid,
        flags: flags::PERSISTENCE | flags::ECC | flags::ECC_PENDING,
        reasons: 1,
        memory_used: big * 5_000 * MIB,
        bar1_used: MIB,
        energy_mj: 9_876_543_210 * big,
        pcie_tx_bps: 1_234_567 * big,
        pcie_rx_bps: 7_654_321 * big,
        pcie_tx_bytes: 123_456_789_012 * big,
        pcie_rx_bytes: 987_654_321_098 * big,
        nvlink_tx_bps: 12_000_000_000 * big,
        nvlink_rx_bps: 11_000_000_000 * big,
        nvlink_tx_bytes: 5_000_000_000_000 * big,
        nvlink_rx_bytes: 4_000_000_000_000 * big,
        pcie_replays: big,
        gpu_percent: 40 + n * 5,
        memory_percent: 20 + n,
        decoder_percent: 3,
        gr_engine_ppm: 412_345 + n,
        sm_active_ppm: 380_000,
        sm_occupancy_ppm: 250_000,
        tensor_ppm: 120_050,
        dram_ppm: 201_000,
        fp64_ppm: 1,
        fp32_ppm: 90_000,
        fp16_ppm: 80_000,
        int_ppm: 70_000,
        sm_mhz: board.sm_max_mhz,
        mem_mhz: board.mem_max_mhz,
        video_mhz: 1275,
        app_sm_mhz: board.sm_max_mhz,
        app_mem_mhz: board.mem_max_mhz,
        power_mw: 221_713 + n,
        power_average_mw: 220_008 + n,
        power_limit_mw: board.power_default_mw,
        enforced_limit_mw: board.power_default_mw,
        temperature_c: 47 + n as i32,
        memory_temperature_c: 51,
        pcie_gen: board.pcie_gen_max,
        pcie_width: board.pcie_width_max,
        nvlink_up: (1u32 << board.nvlink_links) - 1,
        ..Live::default()
    };
    live.violations.power_ns = 1_500_000_000 * big;
    live.ecc_volatile.corrected_dram = 3;
    live.ecc_aggregate.corrected_dram = 17;
    live.ecc_aggregate.uncorrected_sram = 1;
    live.remapped_correctable = 2;
    live
}

/// Adds a container, with its pod's names.
fn container(image: &mut Image, namespace: &str, pod: &str, name: &str, uid: &str) -> u32 {
    let mut text = |text: &str| {
        let at = TextRef {
            offset: image.heap.len() as u32,
            len: text.len() as u32,
        };
        image.heap.extend_from_slice(text.as_bytes());
        at
    };
    let record = Container {
        namespace: text(namespace),
        pod: text(pod),
        name: text(name),
        uid: text(uid),
    };
    image.containers.push(record);
    image.containers.len() as u32 - 1
}

fn hold(image: &mut Image, container: u32, gpu: u32, gi: u32, gpu_percent: u32, mib: u64) {
    image.holdings.push(Holding {
        container,
        gpu,
        gi,
        gpu_percent,
        memory: mib * MIB,
    });
}

fn xid(image: &mut Image, gpu: u32, xid: u32, ago_ms: u64) {
    image.events.push(Event {
        number: image.events.len() as u64 + 1,
        kind: event_kinds::XID,
        data: xid.into(),
        unix_ms: NOW - ago_ms,
        gpu,
        gi: WHOLE,
        ci: WHOLE,
        reserved: 0,
    });
    let live = &mut image.lives[gpu as usize];
    live.xid = xid;
    live.xid_count += 1;
    live.valid |= valid::XID;
}

/// Two A100s: the first held by a pod, the second with Xids in its past.
pub(crate) fn a100() -> Image {
    let mut image = node("node-a", a100_board(), 40_960, MODERN, 2);
    let train = container(&mut image, "team-a", "train-0", "main", "0e3f-uid");
    hold(&mut image, train, 0, WHOLE, 40, 5_000);
    xid(&mut image, 1, 43, 600_000);
    xid(&mut image, 1, 31, 200_000);
    xid(&mut image, 1, 31, 100_000);
    xid(&mut image, 1, 63, 1_000);
    // An empty slot of the ring.
    image.events.push(Event::default());
    image
}

/// An A100 that two pods share, beside a free one.
pub(crate) fn shared() -> Image {
    let mut image = node("node-s", a100_board(), 40_960, MODERN, 2);
    let one = container(&mut image, "team-a", "notebook-0", "jupyter", "uid-one");
    let two = container(&mut image, "team-b", "notebook-1", "jupyter", "uid-two");
    hold(&mut image, one, 0, WHOLE, 30, 1_000);
    hold(&mut image, two, 0, WHOLE, 10, 4_000);
    image
}

fn profile(name: &str, id: u32, mib: u64) -> GpuProfile {
    GpuProfile {
        name: fixed(name),
        id,
        memory: mib * MIB,
        ..GpuProfile::default()
    }
}

/// Two A100s: the first cut into four instances, the second whole.
pub(crate) fn mig() -> Image {
    let mut image = node("node-m", a100_board(), 40_960, MODERN, 2);
    let statics = Statics {
        boards: image.statics.boards.clone(),
        gpu_profiles: vec![
            profile("1g.5gb", 19, 4_864),
            profile("2g.10gb", 14, 9_856),
            profile("3g.20gb", 9, 19_968),
        ],
        compute_profiles: Vec::new(),
    };
    image.statics = Arc::new(statics);
    image.lives[0].flags |= flags::MIG | flags::MIG_PENDING;
    image.lives[0].valid &= !valid::UTILIZATION;
    // The last instance is split into two compute instances, and still one instance.
    for (gi, ci, gpu_profile) in [(7, 0, 0), (8, 0, 0), (5, 0, 1), (1, 0, 2), (1, 1, 2)] {
        image.instances.push(Instance {
            uuid: fixed(&format!("MIG-{gi:08x}-{ci:04x}-5139-a975-020bdc7f9cb1")),
            memory_used: u64::from(gi) * 100 * MIB,
            gi,
            ci,
            gpu_profile,
            gr_engine_ppm: 500_000 + gi,
            tensor_ppm: 250_000,
            dram_ppm: 125_000,
            ..Instance::default()
        });
    }
    let job = container(&mut image, "runai-pa", "job-0-0-0", "job-0", "e60f-uid");
    hold(&mut image, job, 0, 7, 20, 700);
    image
}

/// The same, under the dynamic-MIG design.
pub(crate) fn dynamic_mig() -> Image {
    let mut image = mig();
    image.header.flags |= header_flags::DYNAMIC_MIG;
    image
}

/// The GPU Mock design's own example.
pub(crate) fn k80() -> Image {
    let valid = valid::UTILIZATION | valid::ECC | valid::RETIRED | valid::ENCODER | valid::DECODER;
    let mut image = node("node-a", k80_board(), 11_441, valid, 2);
    let mut cards = image.cards.to_vec();
    cards[0].uuid = fixed("GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1");
    cards[1].uuid = fixed("GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8");
    image.cards = cards.into();
    for (gpu, percent, mib) in [(0, 10, 5_000), (1, 100, 10_000)] {
        image.lives[gpu as usize].gpu_percent = percent;
        image.lives[gpu as usize].memory_used = mib * MIB;
        let pod = container(&mut image, "runai-project-a", "pod", "container", "");
        hold(&mut image, pod, gpu, WHOLE, percent, mib);
    }
    image
}

/// Two H100s, one with a link down.
pub(crate) fn h100() -> Image {
    let mut image = node("node-h", h100_board(), 81_559, MODERN | valid::MARGIN, 2);
    image.lives[1].nvlink_up &= !(1 << 3);
    image.lives[1].health = 1 << 1;
    image.lives[1].nvlink_crc_errors = 12;
    image.lives[0].margin_c = 40;
    image
}

/// Two GPUs of a baseboard with switches and NVLink 5, of few links to keep pages short; a pod on the first, a
/// link of the second down.
pub(crate) fn switched() -> Image {
    let board = Board {
        name: fixed("NVIDIA B200"),
        architecture: 10,
        nvlink_version: 5,
        nvlink_links: 4,
        nvlink_mbs: 50_000,
        nvlink_switches: 2,
        flags: board_flags::ECC | board_flags::PROFILING | board_flags::SWITCHED,
        ..h100_board()
    };
    let mut image = node("node-b", board, 183_359, MODERN, 2);
    image.lives[1].nvlink_up &= !(1 << 2);
    image.lives[0].nvlink_recoveries = 6;
    image.lives[0].nvlink_replays = 3;
    let train = container(&mut image, "team-a", "train-0", "main", "0e3f-uid");
    hold(&mut image, train, 0, WHOLE, 40, 5_000);
    image
}

/// Two superchips: a CPU beside each GPU.
pub(crate) fn grace() -> Image {
    let board = Board {
        name: fixed("NVIDIA GH200 480GB"),
        flags: board_flags::ECC | board_flags::C2C | board_flags::C2C_ENABLED,
        ..h100_board()
    };
    node("node-g", board, 97_871, MODERN, 2)
}

/// An A100 that fell off the bus, beside a healthy one.
pub(crate) fn lost() -> Image {
    let mut image = node("node-l", a100_board(), 40_960, MODERN, 2);
    xid(&mut image, 0, 79, 400_000);
    image.lives[0].flags |= flags::LOST;
    image
}

/// An MI300X.
pub(crate) fn mi300x() -> Image {
    let valid = MODERN & !(valid::PROFILING | valid::REMAP | valid::OFA);
    let mut image = node("node-x", mi300x_board(), 196_592, valid, 1);
    let pod = container(&mut image, "team-c", "infer-0", "vllm", "uid-x");
    hold(&mut image, pod, 0, WHOLE, 40, 5_000);
    image
}

/// Two Max 1550.
pub(crate) fn max1550() -> Image {
    node(
        "node-i",
        max1550_board(),
        131_072,
        MODERN & !valid::REMAP,
        2,
    )
}

/// A node whose names try to break the page.
pub(crate) fn hostile() -> Image {
    let mut image = node("node-\"\\\nx", a100_board(), 40_960, MODERN, 1);
    let mut statics = Statics::clone(&image.statics);
    statics.boards[0].name = fixed("A\"100\\ {x=\"y\"}\n# TYPE boom gauge\nboom 1");
    image.statics = Arc::new(statics);
    let pod = container(&mut image, "a\nb", "p\"} 1\nx{y=\"", "c\\", "u\u{1F600}");
    hold(&mut image, pod, 0, WHOLE, 1, 1);
    image
}

/// A node whose tables do not fit together.
pub(crate) fn torn() -> Image {
    let mut image = mig();
    image.lives.truncate(1);
    image.instances[0].gpu_profile = 99;
    image.instances[1].gpu = 77;
    image.holdings[0].container = 99;
    let mut cards = image.cards.to_vec();
    cards[1].board = 9;
    image.cards = cards.into();
    image.lives[0].nvlink_up = u32::MAX;
    image.lives[0].energy_mj = u64::MAX;
    image.lives[0].memory_used = u64::MAX;
    image.lives[0].temperature_c = i32::MIN;
    image.lives[0].xid = u32::MAX;
    image.lives[0].valid = u64::MAX;
    image
}

/// A node whose records hold anything at all; the same for the same seed.
pub(crate) fn noise(seed: u64) -> Image {
    let mut image = mig();
    let mut state = seed;
    let mut any = || {
        // A linear congruential step; its upper bits choose between edges and plain numbers.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let edges = [
            0,
            1,
            7,
            31,
            32,
            33,
            1 << 31,
            1 << 63,
            u64::MAX,
            u64::MAX - 1,
        ];
        match state >> 60 {
            n @ 0..10 => edges[n as usize],
            _ => state >> 20,
        }
    };
    macro_rules! scatter {
        ($record:expr, $($field:ident: $kind:ty),*) => { $( $record.$field = any() as $kind; )* };
    }
    let mut statics = Statics::clone(&image.statics);
    scatter!(statics.boards[0], vendor: u32, nvlink_links: u32, nvlink_version: u32, decoders: u32,
        jpeg_engines: u32, memory_reserved: u64, bar1_total: u64, flags: u64, sm_max_mhz: u32, slowdown_c: i32,
        memory_bandwidth_mbs: u32, row_remap_banks: u32, pci_device_id: u32, cc_minor: u32, max_operating_c: i32);
    statics.boards[0].vendor %= 3;
    scatter!(statics.gpu_profiles[0], memory: u64, id: u32);
    image.statics = Arc::new(statics);
    let mut cards = image.cards.to_vec();
    for card in &mut cards {
        scatter!(card, memory_total: u64, board: u32, pci_domain: u32, pci_bus: u32, pci_device: u32,
            minor: u32, fabric_state: u32);
        card.board %= 2;
    }
    image.cards = cards.into();
    for live in &mut image.lives {
        scatter!(live, valid: u64, flags: u64, memory_used: u64, energy_mj: u64, nvlink_up: u32,
            nvlink_tx_bps: u64, nvlink_rx_bps: u64, xid: u32, gpu_percent: u32, gr_engine_ppm: u32,
            sm_active_ppm: u32, sm_mhz: u32, power_mw: u32, power_average_mw: u32, enforced_limit_mw: u32,
            temperature_c: i32, memory_temperature_c: i32, margin_c: i32, health: u32, bar1_used: u64);
    }
    for instance in &mut image.instances {
        scatter!(instance, gpu: u32, gi: u32, gpu_profile: u32, memory_used: u64, gr_engine_ppm: u32);
        instance.gpu %= 3;
        instance.gpu_profile %= 4;
    }
    for holding in &mut image.holdings {
        scatter!(holding, container: u32, gpu: u32, gi: u32, memory: u64);
    }
    for container in &mut image.containers {
        scatter!(container.pod, offset: u32, len: u32);
    }
    for _ in 0..4 {
        let mut event = Event::default();
        scatter!(event, number: u64, data: u64, unix_ms: u64, gpu: u32);
        event.kind = event_kinds::XID;
        image.events.push(event);
    }
    scatter!(image.header, unix_ms: u64, cuda_version: u32);
    image
}

/// A node of eight A100s with a pod on each, for measuring.
#[allow(dead_code, reason = "only the benchmark measures")]
pub(crate) fn busy(number: usize) -> Image {
    let mut image = node(
        &format!("node-{number:05}"),
        a100_board(),
        40_960,
        MODERN,
        8,
    );
    for gpu in 0..8 {
        let pod = container(&mut image, "team-a", &format!("train-{gpu}"), "main", "uid");
        hold(&mut image, pod, gpu, WHOLE, 40, 5_000);
    }
    image
}
