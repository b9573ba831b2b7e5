//! What the tables say about a world that is known.

use std::time::Duration;

use mirage_model::config::limits::{MAX_ID, MAX_SERIAL};
use mirage_model::config::{self, Defaults};
use mirage_model::plan::{Amount, Range};
use mirage_sim::{Input, MigOp, Profile};
use mirage_state::layout::{self, board_flags, event_kinds, flags, text, valid};

use super::*;

const CLOCK: Clock = Clock {
    start_unix_ms: 1_000_000,
    period: Duration::from_secs(1),
    epoch: 3,
};

const CONFIG: &str = "
driver: { version: 550.163.01, cuda: '12.4' }
mig-strategy: mixed
nodes:
  node-a: { model: a100-sxm4-40gb, gpus: 2 }
  node-b: { model: a100-sxm4-40gb, gpus: 2 }
  node-c: { model: tesla-k80, gpus: 1 }
workloads:
  - name: train
    devices: node-a/0
    pod: ml/trainer
    process: python3
    activity: [{ utilization: 90-100, memory: 30GiB }]
  - name: helper
    devices: node-a/0
    pod: ml/trainer
    activity: [{ utilization: 5, memory: 1GiB }]
";

struct Stage {
    plan: Plan,
    world: World,
    images: Vec<Arc<Image>>,
}

impl Stage {
    fn new() -> Self {
        let plan = config::load(CONFIG, "test", &Defaults::default())
            .unwrap()
            .plan;
        Self {
            world: World::new(&plan),
            images: images(&plan, CLOCK),
            plan,
        }
    }

    fn step(&mut self, inputs: &[Input], seconds: u64) {
        for answer in self.world.step(inputs, Duration::from_secs(seconds)) {
            answer.unwrap();
        }
        for (index, image) in self.images.iter_mut().enumerate() {
            refresh(Arc::make_mut(image), &self.plan, &self.world, index, CLOCK);
        }
    }
}

fn device(gpu: u32) -> mirage_model::plan::DeviceRef {
    mirage_model::plan::DeviceRef {
        node: 0,
        gpu,
        instance: None,
    }
}

#[test]
fn nodes_of_one_model_share_their_boards() {
    let stage = Stage::new();
    assert!(Arc::ptr_eq(
        &stage.images[0].statics,
        &stage.images[1].statics
    ));
    assert!(!Arc::ptr_eq(
        &stage.images[0].statics,
        &stage.images[2].statics
    ));
    let header = &stage.images[0].header;
    assert_eq!(text(&header.node), "node-a");
    assert_eq!(text(&header.driver), "550.163.01");
    assert_eq!((header.cuda_version, header.mig_strategy), (12_040, 2));
    assert_eq!((header.epoch, header.period_ms), (3, 1000));
}

#[test]
fn boards_say_what_the_catalogue_says() {
    let stage = Stage::new();
    let node = stage.images[0].node();
    let board = node.board(&node.cards[1]).unwrap();
    assert_eq!(text(&board.name), "NVIDIA A100-SXM4-40GB");
    assert_eq!(board.power_default_mw, 400_000);
    assert_eq!((board.cc_major, board.cc_minor), (8, 0));
    assert_eq!(text(&board.inforom_image), "G506.0200.00.04");
    assert_eq!(text(&board.inforom_oem), "2.0");
    assert_eq!(text(&board.inforom_ecc), "6.16");
    assert_eq!((board.l2_kib, board.sm_min_mhz), (40_960, 210));
    assert_ne!(board.flags & board_flags::ROW_REMAP, 0);
    assert_eq!(node.cards[0].memory_total, 40_960 << 20);
    let first = board.gpu_profile_first as usize;
    let profiles = &node.gpu_profiles[first..first + board.gpu_profile_count as usize];
    let small = profiles.iter().find(|p| text(&p.name) == "1g.5gb").unwrap();
    assert_eq!(small.placements.count_ones(), 7);
    assert_eq!(small.max_instances, 7);
    let compute = &node.compute_profiles[small.compute_first as usize];
    assert_eq!((text(&compute.name), compute.whole), ("1g.5gb", 1));
    let old = stage.images[2].node();
    assert_eq!(old.gpu_profiles.len(), 0);
}

/// Whatever the config accepts is published whole.
#[test]
fn ids_fit_their_fields() {
    let id = |kind: &str| format!("{kind}{:a<1$}", "", MAX_ID - kind.len());
    let (gpu, part) = (id("GPU-"), id("MIG-"));
    let serial = "1".repeat(MAX_SERIAL);
    let text_of = |config: &str| {
        let plan = config::load(config, "test", &Defaults::default())?.plan;
        let mut image = images(&plan, CLOCK).remove(0);
        refresh(
            Arc::make_mut(&mut image),
            &plan,
            &World::new(&plan),
            0,
            CLOCK,
        );
        let node = image.node();
        let card = &node.cards[0];
        let part = text(&node.instances[0].uuid).to_owned();
        Ok::<_, config::Diagnostics>((
            text(&card.uuid).to_owned(),
            text(&card.serial).to_owned(),
            part,
        ))
    };
    let config = |gpu: &str, serial: &str, part: &str| {
        format!(
            "nodes:\n  n:\n    model: a100-sxm4-40gb\n    gpus:\n    - {{ id: {gpu}, serial: '{serial}', mig: [{{ profile: 1g.5gb, id: {part} }}] }}\n"
        )
    };
    let whole = text_of(&config(&gpu, &serial, &part)).unwrap();
    assert_eq!(whole, (gpu.clone(), serial.clone(), part.clone()));
    let (long_gpu, long_part) = (format!("{gpu}a"), format!("{part}a"));
    assert!(text_of(&config(&long_gpu, &serial, &part)).is_err());
    assert!(text_of(&config(&gpu, &format!("{serial}1"), &part)).is_err());
    assert!(text_of(&config(&gpu, &serial, &long_part)).is_err());
}

#[test]
fn cards_carry_their_identity() {
    let stage = Stage::new();
    let uuids: Vec<_> = stage.images[..2]
        .iter()
        .flat_map(|image| image.cards.iter().map(|card| text(&card.uuid).to_owned()))
        .collect();
    assert_eq!(uuids.len(), 4);
    for (index, uuid) in uuids.iter().enumerate() {
        assert!(uuid.starts_with("GPU-"));
        assert!(!uuids[..index].contains(uuid));
    }
    assert_eq!(stage.images[0].cards[1].minor, 1);
}

#[test]
fn readings_become_live_records() {
    let mut stage = Stage::new();
    stage.step(&[], 30);
    let gpus = stage.world.node(0).unwrap().gpus();
    let image = &stage.images[0];
    assert_eq!(image.lives.len(), image.cards.len());
    for (live, gpu) in image.lives.iter().zip(gpus) {
        let now = gpu.readings();
        assert_eq!(live.power_mw, now.power_mw);
        assert_eq!(live.energy_mj, now.energy_mj);
        assert_eq!(live.temperature_c, i32::from(now.temperature_c));
        assert_eq!(live.memory_used, now.memory_used);
    }
    assert!(image.lives[0].gpu_percent > image.lives[1].gpu_percent);
    assert_eq!(image.header.sim_ms, 30_000);
    assert_eq!(image.header.unix_ms, 1_030_000);
    let has = |image: &Image, bit| image.lives[0].valid & bit != 0;
    assert!(has(image, valid::UTILIZATION) && has(image, valid::NVLINK));
    assert!(!has(image, valid::FAN) && !has(image, valid::XID));
    let old = &stage.images[2];
    assert!(has(old, valid::RETIRED) && !has(old, valid::REMAP));
    assert!(!has(old, valid::PROFILING) && !has(old, valid::NVLINK));
}

#[test]
fn processes_name_their_pod_and_share_one_holding() {
    let mut stage = Stage::new();
    stage.step(&[], 5);
    let node = stage.images[0].node();
    assert_eq!(node.processes.len(), 2);
    assert_eq!(node.containers.len(), 1);
    let container = &node.containers[0];
    assert_eq!(node.text(container.namespace), "ml");
    assert_eq!(node.text(container.pod), "trainer");
    assert_eq!(node.text(node.processes[0].name), "python3");
    assert_eq!(node.holdings.len(), 1);
    let memory: u64 = node.processes.iter().map(|process| process.memory).sum();
    assert_eq!(node.holdings[0].memory, memory);
    assert_eq!(node.holdings[0].gi, u32::MAX);
    assert!(stage.images[1].processes.is_empty());

    // Ended, it stays for accounting, and holds nothing.
    let end = [Input::RemoveWorkload("train".into())];
    stage.step(&end, 1);
    let node = stage.images[0].node();
    let living = node.processes.iter().filter(|process| process.end_ms == 0);
    assert_eq!(living.count(), 1);
    assert_eq!(node.holdings.len(), 1);
    assert!(node.holdings[0].memory < memory);
}

/// Three processes in each of many pods, on either GPU: each table in the order of first sight, each row its own.
#[test]
fn a_crowded_node_keeps_its_pods_apart() {
    const PODS: usize = 100;
    let mut stage = Stage::new();
    let mut plan = stage.plan.workloads[1].clone();
    let low = f64::from(8 << 20);
    plan.activity[0].memory = Some(Amount::Bytes(Range { low, high: low }));
    let adds: Vec<_> = (0..3 * PODS)
        .map(|number| {
            let mut plan = plan.clone();
            plan.name = format!("crowd-{number}");
            plan.process = format!("process-{}", number % PODS);
            plan.devices = vec![device((number % PODS % 2) as u32)];
            let owner = plan.owner.as_mut().unwrap();
            owner.pod = format!("pod-{}", number % PODS);
            Input::AddWorkload(plan)
        })
        .collect();
    stage.step(&adds, 1);
    let node = stage.images[0].node();
    assert_eq!(node.containers.len(), PODS + 1);
    assert_eq!(node.holdings.len(), PODS + 1);
    let crowd = |name: &str| name.strip_prefix("process-").map(str::to_owned);
    let mut met = 0;
    for process in node.processes.iter() {
        let Some(number) = crowd(node.text(process.name)) else {
            continue;
        };
        met += 1;
        let container = &node.containers[process.container as usize];
        assert_eq!(node.text(container.pod), format!("pod-{number}"));
        let mine = |held: &&layout::Holding| held.container == process.container;
        let holdings: Vec<_> = node.holdings.iter().filter(mine).collect();
        assert_eq!(holdings.len(), 1);
        assert_eq!(holdings[0].gpu, process.gpu);
        assert_eq!(holdings[0].memory, 3 * process.memory);
    }
    assert_eq!(met, 3 * PODS);
    let rows = node.holdings.iter().map(|held| held.container);
    assert!(rows.eq(0..=PODS as u32), "in the order of first sight");
}

#[test]
fn instances_point_at_their_profiles() {
    let mut stage = Stage::new();
    let mig = |op| Input::Mig {
        device: device(1),
        op,
    };
    let profile = Profile::Name("2g.10gb".into());
    let create = mig(MigOp::CreateGi {
        profile,
        start: None,
    });
    stage.step(&[mig(MigOp::Enable(true)), create], 1);
    let node = stage.images[0].node();
    assert_eq!(node.instances.len(), 1);
    // Without a compute instance there is no MIG device yet.
    assert_eq!(node.instances[0].ci, u32::MAX);
    assert_eq!(node.instances[0].index, u32::MAX);
    assert_eq!(text(&node.instances[0].uuid), "");
    let gi = node.instances[0].gi;

    let fill = mig(MigOp::CreateCi {
        gi,
        profile: None,
        start: None,
    });
    stage.step(&[fill], 1);
    let node = stage.images[0].node();
    let [instance] = node.instances else {
        panic!("{:?}", node.instances)
    };
    assert_eq!((instance.gpu, instance.gi, instance.index), (1, gi, 0));
    assert!(text(&instance.uuid).starts_with("MIG-"));
    let profile = &node.gpu_profiles[instance.gpu_profile as usize];
    assert_eq!(text(&profile.name), "2g.10gb");
    let compute = &node.compute_profiles[instance.compute_profile as usize];
    assert_eq!(compute.whole, 1);
    assert_ne!(node.lives[1].flags & flags::MIG, 0);
    assert_eq!(node.lives[1].valid & valid::UTILIZATION, 0);
}

#[test]
fn the_ring_keeps_the_last_events() {
    let mut image = Image::default();
    for number in 0..10u64 {
        let event = Event {
            time: Duration::from_millis(number),
            node: 0,
            gpu: 2,
            kind: mirage_sim::EventKind::Xid,
            data: number,
            gi: None,
            ci: Some(1),
            message: String::new(),
        };
        append(&mut image, &event, CLOCK, 4);
    }
    assert_eq!(image.header.event_head, 10);
    let mut kept: Vec<_> = image.events.iter().map(|e| (e.number, e.data)).collect();
    kept.sort_unstable();
    assert_eq!(kept, [(7, 6), (8, 7), (9, 8), (10, 9)]);
    // Where a reader looks for the newest: its number less one, modulo the ring.
    assert_eq!(image.events[9 % 4].number, 10);
    let last = image.events[9 % 4];
    assert_eq!(last.kind, event_kinds::XID);
    assert_eq!((last.unix_ms, last.gi, last.ci), (1_000_009, u32::MAX, 1));
}

/// What real GPUs stop telling of the whole once they are cut: how busy it is, and its links.
#[test]
fn mig_mode_takes_readings_of_the_whole_away() {
    // Of encoders it tells although it has none.
    const WHOLE: [u64; 5] = [
        valid::UTILIZATION,
        valid::NVLINK,
        valid::ENCODER,
        valid::DECODER,
        valid::JPEG,
    ];
    let mut stage = Stage::new();
    stage.step(&[], 1);
    let before = stage.images[0].lives[1].valid;
    assert!(WHOLE.iter().all(|bit| before & bit != 0), "{before:b}");
    let on = Input::Mig {
        device: device(1),
        op: MigOp::Enable(true),
    };
    stage.step(&[on], 1);
    let lives = &stage.images[0].lives;
    let gone = WHOLE.iter().fold(valid::OFA, |all, bit| all | bit);
    assert_eq!(lives[1].valid, before & !gone);
    assert_eq!(lives[0].valid, before, "the other GPU goes on telling");
    let off = Input::Mig {
        device: device(1),
        op: MigOp::Enable(false),
    };
    stage.step(&[off], 1);
    assert_eq!(stage.images[0].lives[1].valid, before);
}
