//! MIG: the life of instances, and work inside them.

use mirage_model::plan::{Amount, DeviceRef, Fault, GivenGpu, GivenInstance};
use mirage_sim::{Answer, EventKind, Input, MigOp, Phase, Profile, Refusal, World};

use crate::fleet::*;

fn mig(world: &mut World, op: MigOp) -> Result<Answer, Refusal> {
    world.ask(Input::Mig {
        device: device(0),
        op,
    })
}

fn create(world: &mut World, profile: &str) -> u32 {
    let op = MigOp::CreateGi {
        profile: Profile::Name(profile.into()),
        start: None,
    };
    let Ok(Answer::GpuInstance { gi, .. }) = mig(world, op) else {
        panic!("no {profile}");
    };
    let op = MigOp::CreateCi {
        gi,
        profile: None,
        start: None,
    };
    assert!(matches!(
        mig(world, op),
        Ok(Answer::ComputeInstance { ci: 0, .. })
    ));
    gi
}

fn on_instance(name: &str, instance: u32, utilization: f64) -> mirage_model::plan::WorkloadPlan {
    let mut job = steady(name, utilization);
    job.devices = vec![DeviceRef {
        instance: Some(instance),
        ..device(0)
    }];
    job
}

#[test]
fn instances_are_made_used_and_unmade() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    assert!(world.readings().mig);
    let small = create(&mut world, "1g.5gb");
    let large = create(&mut world, "3g.20gb");
    assert_ne!(small, large);
    let layout: Vec<_> = world
        .first()
        .instances()
        .iter()
        .map(|i| (i.gi, i.size))
        .collect();
    assert_eq!(layout, [(small, 1), (large, 4)]);
    assert_eq!(world.first().mig_devices().count(), 2);

    world.start(on_instance("job", 1, 100.0));
    world.run(2);
    let process = &world.processes(0, 0)[0];
    assert_eq!((process.gi, process.ci), (Some(large), Some(0)));
    assert_eq!(process.sm_percent, 100);
    let busy = world.readings().gr_engine_ppm;
    assert_eq!(busy, 42 * 1_000_000 / 108 + 1, "42 of 108 multiprocessors");
    let instances = world.first().instances();
    assert_eq!(instances[0].compute[0].ratios.gr_engine_ppm, 0);
    assert_eq!(instances[1].compute[0].ratios.gr_engine_ppm, 1_000_000);
    assert_eq!(instances[1].memory_used, 1 << 30);
    assert_eq!(world.readings().memory_used, 1 << 30);

    let destroy_ci = MigOp::DestroyCi { gi: large, ci: 0 };
    let destroy_gi = MigOp::DestroyGi { gi: large };
    assert!(matches!(
        mig(&mut world, destroy_ci.clone()),
        Err(Refusal::InUse { .. })
    ));
    assert!(matches!(
        mig(&mut world, destroy_gi.clone()),
        Err(Refusal::InUse { .. })
    ));
    assert_eq!(mig(&mut world, MigOp::Enable(false)), Ok(Answer::InUse));
    assert!(world.readings().mig && !world.readings().mig_pending);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    assert!(world.readings().mig_pending, "it was taken back");
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    assert!(matches!(
        mig(&mut world, destroy_gi.clone()),
        Err(Refusal::InUse { .. })
    ));
    mig(&mut world, destroy_ci).unwrap();
    mig(&mut world, destroy_gi).unwrap();
    assert_eq!(world.first().instances().len(), 1);
    mig(&mut world, MigOp::Enable(false)).unwrap();
    assert!(world.first().instances().is_empty());
    assert!(!world.readings().mig);
    let changes = world.drain_events();
    assert!(changes.iter().any(|e| e.kind == EventKind::Mig));
}

#[test]
fn a_mode_set_while_in_use_comes_with_a_reset() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 50.0));
    world.run(1);
    world.drain_events();
    assert_eq!(mig(&mut world, MigOp::Enable(true)), Ok(Answer::InUse));
    assert!(!world.readings().mig && world.readings().mig_pending);
    let is_mig = |e: &mirage_sim::Event| e.kind == EventKind::Mig;
    assert!(!world.drain_events().iter().any(is_mig), "nothing changed");
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    assert!(!world.readings().mig);
    world.ask(Input::Reset { device: device(0) }).unwrap();
    assert!(world.readings().mig && world.readings().mig_pending);
    assert!(world.drain_events().iter().any(is_mig));
    create(&mut world, "1g.5gb");
}

#[test]
fn seven_small_ones_fill_a_board_and_the_eighth_is_refused() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    let mut ids: Vec<u32> = (0..7).map(|_| create(&mut world, "1g.5gb")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 7);
    let op = MigOp::CreateGi {
        profile: Profile::Name("1g.5gb".into()),
        start: None,
    };
    let error = mig(&mut world, op).unwrap_err();
    assert!(matches!(error, Refusal::InsufficientResources { .. }));
    for position in 0..7 {
        world.start(on_instance(&format!("job-{position}"), position, 100.0));
    }
    world.run(1);
    let busy = world.readings().gr_engine_ppm;
    assert_eq!(busy, (7.0_f64 * 14.0 / 108.0 * 1e6).round() as u32);
}

#[test]
fn compute_instances_share_their_gpu_instance() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    let op = MigOp::CreateGi {
        profile: Profile::Name("2g.10gb".into()),
        start: Some(0),
    };
    let Ok(Answer::GpuInstance { gi, start: 0 }) = mig(&mut world, op) else {
        panic!("no 2g.10gb at 0");
    };
    let part = |profile| MigOp::CreateCi {
        gi,
        profile: Some(profile),
        start: None,
    };
    for expected in 0..2 {
        let made = mig(&mut world, part(Profile::Name("1c.2g.10gb".into()))).unwrap();
        assert_eq!(made, Answer::ComputeInstance { gi, ci: expected });
    }
    let full = mig(&mut world, part(Profile::Index(0)));
    assert!(matches!(full, Err(Refusal::InsufficientResources { .. })));
    let mut greedy = on_instance("greedy", 0, 50.0);
    greedy.activity[0].memory = Some(Amount::Share(fixed(80.0)));
    let mut late = on_instance("late", 1, 50.0);
    late.activity[0].memory = Some(Amount::Bytes(fixed((4u64 << 30) as f64)));
    world.start(greedy);
    world.start(late);
    world.run(3);
    let late = world.workload("late").unwrap();
    let Phase::Ended(ending) = late.phase() else {
        panic!("{:?}", late.phase());
    };
    assert_eq!(ending.reason, "Limit memory reached, terminated");
    let gi = &world.first().instances()[0];
    assert!(gi.memory_used <= gi.memory_total);
}

#[test]
fn what_a_board_or_layout_does_not_have_is_refused() {
    let mut plain = world("t4", 1);
    let refused = mig(&mut plain, MigOp::Enable(true));
    assert!(matches!(refused, Err(Refusal::NotSupported { .. })));

    let mut world = world("a100-sxm4-40gb", 1);
    let create = |name: &str, start| MigOp::CreateGi {
        profile: Profile::Name(name.into()),
        start,
    };
    let off = mig(&mut world, create("1g.5gb", None));
    assert!(matches!(off, Err(Refusal::NotSupported { .. })));
    mig(&mut world, MigOp::Enable(true)).unwrap();
    let unknown = mig(&mut world, create("9g.99gb", None));
    assert!(matches!(unknown, Err(Refusal::NotFound { .. })));
    let askew = mig(&mut world, create("3g.20gb", Some(1)));
    assert!(matches!(askew, Err(Refusal::Invalid { .. })));
    mig(&mut world, create("3g.20gb", Some(4))).unwrap();
    let taken = mig(&mut world, create("2g.10gb", Some(4)));
    assert!(matches!(taken, Err(Refusal::InsufficientResources { .. })));
    let nobody = mig(&mut world, MigOp::DestroyGi { gi: 77 });
    assert!(matches!(nobody, Err(Refusal::NotFound { .. })));
    let whole = Input::AddWorkload(steady("job", 10.0));
    world.ask(whole).unwrap();
    world.run(1);
    assert_eq!(world.running(), 0, "with MIG on, work needs a MIG device");
}

#[test]
fn instances_feel_what_happens_to_their_board() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    create(&mut world, "7g.40gb");
    let mut job = on_instance("job", 0, 90.0);
    job.activity[0].bandwidth = Some(fixed(50.0));
    world.start(job);
    world.run(1);
    let dram = |world: &World| world.first().instances()[0].compute[0].ratios.dram_ppm;
    assert_eq!(dram(&world), 500_000);
    world.strike(Fault::PowerBrake);
    world.run(1);
    assert!(dram(&world) < 260_000, "half the clock, half the bandwidth");
    world.strike(Fault::Hang);
    world.run(1);
    let ratios = world.first().instances()[0].compute[0].ratios;
    assert_eq!((ratios.gr_engine_ppm, ratios.dram_ppm), (1_000_000, 0));
    world.strike(Fault::Lost);
    let instance = &world.first().instances()[0];
    assert_eq!(instance.memory_used, 0);
    assert_eq!(instance.compute[0].ratios, mirage_sim::Ratios::default());
}

#[test]
fn two_halves_have_the_bandwidth_of_one_whole() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    let op = MigOp::CreateGi {
        profile: Profile::Name("2g.10gb".into()),
        start: None,
    };
    let Ok(Answer::GpuInstance { gi, .. }) = mig(&mut world, op) else {
        panic!("no 2g.10gb");
    };
    for position in 0..2 {
        let op = MigOp::CreateCi {
            gi,
            profile: Some(Profile::Name("1c.2g.10gb".into())),
            start: None,
        };
        mig(&mut world, op).unwrap();
        let mut job = on_instance(&format!("job-{position}"), position, 100.0);
        job.activity[0].bandwidth = Some(fixed(100.0));
        world.start(job);
    }
    world.run(1);
    assert_eq!(
        world.readings().dram_ppm,
        250_000,
        "two of eight memory slices"
    );
}

#[test]
fn an_xid_names_the_instance_it_struck() {
    let mut world = world("a100-sxm4-40gb", 1);
    mig(&mut world, MigOp::Enable(true)).unwrap();
    create(&mut world, "3g.20gb");
    let second = create(&mut world, "3g.20gb");
    world.start(on_instance("one", 0, 50.0));
    world.start(on_instance("two", 1, 50.0));
    world.run(1);
    world.drain_events();
    let pids: Vec<u32> = world.processes(0, 0).iter().map(|p| p.pid).collect();
    let mut fault = now(Fault::Xid(13));
    fault.devices[0].instance = Some(1);
    world.ask(Input::Inject(fault)).unwrap();
    let events = world.drain_events();
    let xids: Vec<_> = events.iter().filter(|e| e.kind == EventKind::Xid).collect();
    // And so does the one that tells of the clean-up after it.
    assert_eq!(
        xids.iter().map(|xid| xid.data).collect::<Vec<_>>(),
        [13, 45]
    );
    for xid in xids {
        assert_eq!((xid.gi, xid.ci), (Some(second), Some(0)));
        let who = format!("{}, pid={},", xid.data, pids[1]);
        assert!(xid.message.contains(&who), "{} {pids:?}", xid.message);
    }
    assert_eq!(*world.workload("one").unwrap().phase(), Phase::Running);
    assert!(matches!(
        world.workload("two").unwrap().phase(),
        Phase::Ended(_)
    ));
}

#[test]
fn an_xid_about_the_board_names_no_instance() {
    for fault in [Fault::Lost, Fault::Xid(79), Fault::Xid(95)] {
        let mut world = world("a100-sxm4-40gb", 1);
        mig(&mut world, MigOp::Enable(true)).unwrap();
        create(&mut world, "3g.20gb");
        world.drain_events();
        let mut fault = now(fault);
        fault.devices[0].instance = Some(0);
        world.ask(Input::Inject(fault)).unwrap();
        let events = world.drain_events();
        let xid = events.iter().find(|e| e.kind == EventKind::Xid).unwrap();
        assert_eq!((xid.gi, xid.ci), (None, None), "{}", xid.data);
    }
}

#[test]
fn a_given_layout_is_there_from_the_start() {
    let mut plan = plan("a100-sxm4-40gb", 2);
    let given = |profile: &str, start| GivenInstance {
        profile: profile.into(),
        start,
        uuid: None,
    };
    plan.nodes[0].gpus[1].given = Some(
        GivenGpu {
            mig: Some(vec![given("3g.20gb", Some(4)), given("1g.5gb", None)]),
            ..GivenGpu::default()
        }
        .into(),
    );
    let world = World::new(&plan);
    let gpus = world.node(0).unwrap().gpus();
    assert!(!gpus[0].readings().mig);
    assert!(gpus[1].readings().mig);
    let made: Vec<_> = gpus[1]
        .mig_devices()
        .map(|(gi, ci)| (gi.given, gi.start, ci.ci))
        .collect();
    assert_eq!(made[0], (Some(0), 4, 0));
    assert_eq!(made[1].0, Some(1));
}
