//! Activity profiles, limits, sharing and attribution.

use std::time::Duration;

use mirage_model::plan::{ActivityStep, Amount, Function, Owner, Range, WorkloadPlan};
use mirage_sim::{Input, Phase, Refusal, Setting, World};

use crate::fleet::*;

const HOUR: Duration = Duration::from_secs(3600);
const GIB: u64 = 1 << 30;

fn ending(world: &World, name: &str) -> (String, i32) {
    match world.workload(name).unwrap().phase() {
        Phase::Ended(ending) => (ending.reason.clone(), ending.code),
        other => panic!("{name} is {other:?}"),
    }
}

fn holding(name: &str, bytes: u64) -> WorkloadPlan {
    let mut plan = steady(name, 30.0);
    plan.activity[0].memory = Some(Amount::Bytes(fixed(bytes as f64)));
    plan
}

#[test]
fn an_hour_at_80_and_an_hour_at_0_five_times() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 80.0);
    job.activity = vec![at(80.0, Some(HOUR)), at(0.0, Some(HOUR))];
    job.repeat = Some(5);
    world.start(job);
    for round in 0..5 {
        for (step, percent) in [(0, 80), (1, 0)] {
            world.step(&[], Duration::from_secs(1800));
            assert_eq!(world.readings().gpu_percent, percent, "round {round}");
            let job = world.workload("job").unwrap();
            assert_eq!((job.round(), job.step()), (round, step));
            assert_eq!(*job.phase(), Phase::Running);
            world.step(&[], Duration::from_secs(1800));
            assert_eq!(
                world.readings().gpu_percent,
                percent,
                "until the hour is full"
            );
        }
    }
    assert_eq!(world.now(), 10 * HOUR);
    world.run(1);
    assert_eq!(ending(&world, "job"), ("completed".into(), 0));
    assert_eq!(world.readings().memory_used, 0);
}

#[test]
fn steps_that_end_between_ticks_do_not_drift() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 50.0);
    job.activity[0].duration = Some(Duration::from_millis(1500));
    job.repeat = Some(10);
    world.start(job);
    world.run(15);
    assert_eq!(world.workload("job").unwrap().round(), 9);
    assert_eq!(world.running(), 1);
    world.run(1);
    assert_eq!(ending(&world, "job"), ("completed".into(), 0));
}

#[test]
fn a_workload_begins_when_its_time_comes() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 50.0);
    job.at = Duration::from_secs(10);
    world.start(job);
    world.run(10);
    assert_eq!(*world.workload("job").unwrap().phase(), Phase::Pending);
    assert_eq!(world.readings().gpu_percent, 0);
    world.run(1);
    assert_eq!(*world.workload("job").unwrap().phase(), Phase::Running);
    assert_eq!(world.readings().gpu_percent, 50);
}

fn ranged(function: Function, seconds: u64) -> WorkloadPlan {
    let mut job = steady("job", 0.0);
    job.activity = vec![ActivityStep {
        utilization: Range {
            low: 20.0,
            high: 90.0,
        },
        function,
        ..at(0.0, Some(Duration::from_secs(seconds)))
    }];
    job
}

fn course(function: Function) -> Vec<u32> {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(ranged(function, 200));
    (0..200)
        .map(|_| {
            world.run(1);
            world.readings().gr_engine_ppm
        })
        .collect()
}

#[test]
fn random_wanders_through_the_range_without_jumping() {
    let course = course(Function::Random);
    let (low, high) = (*course.iter().min().unwrap(), *course.iter().max().unwrap());
    assert!(low >= 200_000 && high <= 900_000);
    assert!(high - low > 300_000, "it uses the range");
    assert!(course.windows(2).all(|w| w[0].abs_diff(w[1]) < 300_000));
    assert!(course.windows(2).any(|w| w[0] > w[1]));
}

#[test]
fn ramp_goes_straight_from_low_to_high() {
    let course = course(Function::Ramp);
    assert_eq!(course[0], 200_000);
    assert!(course.windows(2).all(|w| w[0] < w[1]));
    assert!((890_000..=900_000).contains(course.last().unwrap()));
}

#[test]
fn increase_never_falls_within_its_step() {
    let course = course(Function::Increase);
    assert!(course.windows(2).all(|w| w[0] <= w[1]));
    assert!(course.last().unwrap() > course.first().unwrap());
}

#[test]
fn limits_end_a_workload_with_their_name() {
    let limited = |change: &dyn Fn(&mut WorkloadPlan)| {
        let mut world = world("h100-sxm5-80gb", 1);
        let mut job = burn();
        change(&mut job);
        world.start(job);
        world.run(400);
        ending(&world, "burn")
    };
    let said = |limit: &str| (format!("Limit {limit} reached, terminated"), 1);
    assert_eq!(
        limited(&|j| j.limits.runtime = Some(60 * SECOND)),
        said("runtime")
    );
    assert_eq!(
        limited(&|j| j.limits.memory = Some(GIB / 2)),
        said("memory")
    );
    assert_eq!(
        limited(&|j| j.limits.temperature = Some(40.0)),
        said("temperature")
    );
    assert_eq!(limited(&|j| j.limits.power = Some(500.0)), said("power"));
}

#[test]
fn a_limit_that_is_not_reached_ends_nothing() {
    let mut world = world("h100-sxm5-80gb", 1);
    let mut job = burn();
    job.limits.memory = Some(GIB);
    job.limits.power = Some(690.0);
    world.start(job);
    world.run(100);
    assert_eq!(world.running(), 1);
}

#[test]
fn shares_add_up_are_clamped_and_attributed_apart() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("small", 30.0));
    world.run(1);
    assert_eq!(world.readings().gpu_percent, 30);
    world.start(steady("big", 120.0));
    world.run(1);
    assert_eq!(world.readings().gpu_percent, 100);
    let got: Vec<(u8, u64)> = world
        .processes(0, 0)
        .iter()
        .map(|p| (p.sm_percent, p.memory))
        .collect();
    // 30 and 100 wanted, 100 to give.
    assert_eq!(got, [(23, GIB), (77, GIB)]);
    assert_eq!(world.readings().memory_used, 2 * GIB);
}

#[test]
fn who_comes_last_and_finds_no_memory_is_ended() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(holding("first", 30 * GIB));
    world.run(1);
    world.start(holding("last", 30 * GIB));
    world.run(2);
    assert_eq!(
        ending(&world, "last"),
        ("Limit memory reached, terminated".into(), 1)
    );
    assert_eq!(world.running(), 1);
    assert_eq!(world.readings().memory_used, 30 * GIB);
}

#[test]
fn processes_carry_their_owner_and_stay_for_accounting() {
    let mut world = world("a100-sxm4-40gb", 2);
    let mut job = holding("train", 8 * GIB);
    job.devices = vec![device(0), device(1)];
    let owner = Owner {
        namespace: "team".into(),
        pod: "train-0".into(),
        container: "main".into(),
        pod_uid: "1".into(),
    };
    job.owner = Some(owner.clone());
    world.start(job);
    world.run(10);
    let id = world.workload("train").unwrap().id();
    let processes = world.workload_processes(id);
    assert_eq!(processes.len(), 2);
    let pids: Vec<u32> = processes.iter().map(|(_, p)| p.pid).collect();
    assert_ne!(pids[0], pids[1]);
    for (_, p) in &processes {
        assert_eq!(p.owner.as_deref(), Some(&owner));
        assert_eq!((&*p.name, p.memory, p.sm_percent), ("python3", 8 * GIB, 30));
        assert_eq!(p.average_percent, 30);
    }
    world.ask(Input::RemoveWorkload("train".into())).unwrap();
    let kept = world.processes(0, 1);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].end, Some(10 * SECOND));
    assert_eq!(kept[0].peak_memory, 8 * GIB);
    assert!(world.workload("train").is_none());
    let clear = Input::Set {
        device: device(0),
        setting: Setting::AccountingClear,
    };
    world.ask(clear).unwrap();
    assert_eq!(world.processes(0, 0).len(), 0);
    assert_eq!(world.processes(0, 1).len(), 1, "that of another GPU stays");
}

#[test]
fn a_node_keeps_the_last_64_ended_processes() {
    let mut world = world("a100-sxm4-40gb", 1);
    for i in 0..70 {
        world.start(steady(&format!("job-{i}"), 1.0));
        world.run(1);
        world
            .ask(Input::RemoveWorkload(format!("job-{i}")))
            .unwrap();
    }
    let kept = world.processes(0, 0);
    assert_eq!(kept.len(), 64);
    assert_eq!(kept[0].start, 6 * SECOND);
    let setting = Setting::AccountingClear;
    world
        .ask(Input::Set {
            device: device(0),
            setting,
        })
        .unwrap();
    assert!(world.processes(0, 0).is_empty());
}

#[test]
fn ended_workloads_do_not_pile_up() {
    let mut world = world("a100-sxm4-40gb", 1);
    for i in 0..1100 {
        let mut job = steady(&format!("job-{i}"), 1.0);
        job.activity[0].duration = Some(Duration::ZERO);
        job.repeat = Some(1);
        world.start(job);
    }
    world.run(2);
    assert_eq!(world.workloads().count(), 1024);
    assert_eq!(world.running(), 0);
}

#[test]
fn steps_without_length_repeated_for_ever_end_at_once() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 10.0);
    job.activity[0].duration = Some(Duration::ZERO);
    world.start(job);
    world.run(1);
    assert_eq!(ending(&world, "job"), ("completed".into(), 0));
}

#[test]
fn names_are_unique_among_the_living() {
    let mut world = world("a100-sxm4-40gb", 1);
    world.start(steady("job", 10.0));
    let again = Input::AddWorkload(steady("job", 20.0));
    assert!(matches!(world.ask(again), Err(Refusal::Exists { .. })));
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    world.start(steady("job", 20.0));
    world.run(1);
    assert_eq!(world.readings().gpu_percent, 20);
    let gone = Input::RemoveWorkload("nobody".into());
    assert!(matches!(world.ask(gone), Err(Refusal::NotFound { .. })));
}

#[test]
fn workloads_that_make_no_sense_are_refused() {
    let mut world = world("a100-sxm4-40gb", 1);
    let refused = |world: &mut World, change: &dyn Fn(&mut WorkloadPlan)| {
        let mut job = steady("job", 10.0);
        change(&mut job);
        world.ask(Input::AddWorkload(job)).unwrap_err()
    };
    let error = refused(&mut world, &|j| j.devices = vec![device(5)]);
    assert_eq!(
        error.to_string(),
        "device node-a/5: there is no such device"
    );
    let error = refused(&mut world, &|j| j.activity.clear());
    assert!(matches!(error, Refusal::Invalid { .. }));
    let error = refused(&mut world, &|j| j.devices.clear());
    assert!(matches!(error, Refusal::Invalid { .. }));
    assert_eq!(world.workloads().count(), 0);
}

#[test]
fn compute_modes_keep_others_out() {
    let mut world = world("a100-sxm4-40gb", 1);
    let exclusive = Setting::ComputeMode(3);
    world
        .ask(Input::Set {
            device: device(0),
            setting: exclusive,
        })
        .unwrap();
    world.start(steady("one", 10.0));
    world.run(1);
    world.start(steady("two", 10.0));
    world.run(1);
    assert_eq!(world.running(), 1);
    assert_eq!(
        ending(&world, "two").0,
        "device node-a/0 is held exclusively"
    );
}

#[test]
fn a_changed_workload_keeps_its_process_and_its_place_in_an_unchanged_rhythm() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 80.0);
    job.activity = vec![at(80.0, Some(HOUR)), at(20.0, Some(HOUR))];
    world.start(job.clone());
    world.run(1);
    let before = world.processes(0, 0);
    world.step(&[], HOUR);
    assert_eq!(world.readings().gpu_percent, 20);

    // Other values, the same times: it goes on in the second step.
    job.activity = vec![at(70.0, Some(HOUR)), at(30.0, Some(HOUR))];
    let answers = world.step(&[Input::ChangeWorkload(job.clone())], Duration::ZERO);
    assert!(answers[0].is_ok());
    assert_eq!(world.readings().gpu_percent, 30);
    assert_eq!(world.workload("job").unwrap().step(), 1);

    // Other times: it begins anew.
    job.activity = vec![at(55.0, None)];
    world.step(&[Input::ChangeWorkload(job.clone())], Duration::ZERO);
    assert_eq!(world.readings().gpu_percent, 55);
    assert_eq!(world.workload("job").unwrap().step(), 0);
    let after = world.processes(0, 0);
    assert_eq!(after.len(), 1);
    assert_eq!(
        (after[0].pid, after[0].start),
        (before[0].pid, before[0].start)
    );

    // What it is not, it does not become.
    job.owner = Some(Owner {
        namespace: "n".into(),
        pod: "p".into(),
        container: "c".into(),
        pod_uid: "u".into(),
    });
    let answers = world.step(&[Input::ChangeWorkload(job.clone())], Duration::ZERO);
    assert!(matches!(answers[0], Err(Refusal::Invalid { .. })));
    job.name = "other".into();
    let answers = world.step(&[Input::ChangeWorkload(job)], Duration::ZERO);
    assert!(matches!(answers[0], Err(Refusal::NotFound { .. })));
    assert_eq!(world.readings().gpu_percent, 55);
}

#[test]
fn steps_however_short_cost_no_more_than_long_ones() {
    let mut world = world("a100-sxm4-40gb", 1);
    let mut job = steady("job", 50.0);
    let blink = Duration::from_nanos(1);
    job.activity = vec![at(50.0, Some(blink)), at(10.0, Some(2 * blink))];
    world.start(job.clone());
    let mut counted = job;
    (counted.name, counted.repeat) = ("counted".into(), Some(u32::MAX));
    world.start(counted);
    // Gone through one by one, these would be fourteen thousand million steps.
    world.run(21);
    world.step(&[], Duration::ZERO);
    let job = world.workload("job").unwrap();
    assert_eq!((job.round(), job.step()), (u32::MAX, 0));
    assert_eq!(ending(&world, "counted"), ("completed".into(), 0));
}

#[test]
fn a_workload_that_had_begun_before_goes_on_where_it_would_be() {
    let steps = || vec![at(80.0, Some(HOUR)), at(20.0, Some(HOUR))];
    let mut world = world("a100-sxm4-40gb", 1);
    let mut endless = steady("endless", 0.0);
    endless.activity = steps();
    let mut twice = steady("twice", 0.0);
    (twice.activity, twice.repeat) = (steps(), Some(2));
    let mut over = twice.clone();
    over.name = "over".into();
    let half = HOUR / 2;
    for (plan, lead) in [
        (endless, 100 * HOUR + half),
        (twice, 3 * HOUR + half),
        (over, 4 * HOUR),
    ] {
        world.ask(Input::ResumeWorkload(plan, lead)).unwrap();
    }
    world.step(&[], Duration::ZERO);
    assert_eq!(ending(&world, "over"), ("completed".into(), 0));
    let of = |world: &World, name: &str| {
        let workload = world.workload(name).unwrap();
        (workload.round(), workload.step())
    };
    assert_eq!(of(&world, "endless"), (50, 0));
    assert_eq!(of(&world, "twice"), (1, 1));
    world.step(&[], half - Duration::from_secs(1));
    world.step(&[], Duration::from_secs(1));
    assert_eq!(of(&world, "endless"), (50, 0), "until the hour is full");
    world.step(&[], Duration::from_secs(1));
    assert_eq!(of(&world, "endless"), (50, 1));
    assert_eq!(ending(&world, "twice"), ("completed".into(), 0));
}
