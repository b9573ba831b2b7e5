use mirage_k8s::activity::Activity;
use mirage_k8s::usage::Device;
use mirage_model::config::{self, Defaults};
use mirage_model::plan::{Fault, FaultPlan, Owner, When};
use mirage_sim::{FaultSelector, MigOp, Profile};
use mirage_state::layout::text;

use super::*;
use crate::engine::Files;

const NODE: &str = "node-a";

fn core(speed: f64) -> Core {
    let config = "nodes:\n  other: { model: tesla-k80, gpus: 1 }\n  node-a: { model: a100-sxm4-40gb, gpus: 2 }\n";
    let plan = config::load(config, "test", &Defaults::default());
    Core::new(
        plan.expect("a good config").plan,
        speed,
        0,
        0,
        Files::default(),
    )
}

fn busy(container: &str, uid: &str, gpus: &[u32], percent: f64) -> Busy {
    let mut activity = Activity::constant(percent, percent);
    activity.fill_memory(0.25);
    Busy {
        owner: Owner {
            namespace: "team".into(),
            pod: "p".into(),
            container: container.into(),
            pod_uid: uid.into(),
        },
        since: None,
        restarts: 0,
        devices: gpus
            .iter()
            .map(|&gpu| Device {
                gpu,
                index: None,
                uuid: format!("GPU-{gpu}"),
            })
            .collect(),
        activity,
        by_requests: false,
    }
}

struct Stage {
    core: Core,
    ledger: Ledger,
    now: Instant,
}

impl Stage {
    fn new() -> Stage {
        Stage::at_speed(1.0)
    }

    fn at_speed(speed: f64) -> Stage {
        Stage {
            core: core(speed),
            ledger: Ledger::default(),
            now: Instant::now(),
        }
    }

    fn follow(&mut self, busy: Vec<Busy>) {
        let refused = self.ledger.reconcile(&mut self.core, NODE, busy, self.now);
        assert_eq!(refused, Vec::<String>::new());
        self.core.publish_changes();
    }

    /// Container, UID, GPU and percent of every holding.
    fn holdings(&self) -> Vec<(String, String, u32, u32)> {
        let snapshot = self.core.fleet().one(NODE).expect("it is there");
        let node = snapshot.nodes[0].node();
        let holdings = node.holdings.iter().map(|holding| {
            let container = node.containers[holding.container as usize];
            (
                node.text(container.name).to_owned(),
                node.text(container.uid).to_owned(),
                holding.gpu,
                holding.gpu_percent,
            )
        });
        holdings.collect()
    }

    fn pids(&self) -> Vec<u32> {
        let processes = (0..2).flat_map(|gpu| self.core.world().processes(1, gpu));
        let living = processes.filter(|process| process.end.is_none());
        living.map(|process| process.pid).collect()
    }
}

fn row(container: &str, uid: &str, gpu: u32, percent: u32) -> (String, String, u32, u32) {
    (container.into(), uid.into(), gpu, percent)
}

#[test]
fn workloads_follow_what_is_wanted() {
    let mut stage = Stage::new();
    let (one, two) = (
        busy("one", "u", &[0], 60.0),
        busy("two", "u", &[0, 1], 30.0),
    );
    stage.follow(vec![one.clone(), two.clone()]);
    assert_eq!(
        stage.holdings(),
        [
            row("one", "u", 0, 60),
            row("two", "u", 0, 30),
            row("two", "u", 1, 30)
        ]
    );
    let pids = stage.pids();
    stage.follow(vec![two.clone(), one]);
    assert_eq!(stage.pids(), pids, "nothing has changed");
    stage.follow(vec![two]);
    assert_eq!(
        stage.holdings(),
        [row("two", "u", 0, 30), row("two", "u", 1, 30)]
    );
    stage.follow(Vec::new());
    assert_eq!(stage.core.world().workloads().count(), 0);
    assert!(stage.ledger.begun.is_empty());
}

#[test]
fn a_changed_activity_keeps_the_process() {
    let mut stage = Stage::new();
    stage.follow(vec![busy("one", "u", &[0], 60.0)]);
    let pids = stage.pids();
    stage.follow(vec![busy("one", "u", &[0], 20.0)]);
    assert_eq!(stage.holdings(), [row("one", "u", 0, 20)]);
    assert_eq!(stage.pids(), pids);
}

#[test]
fn a_new_pod_of_the_name_and_a_container_started_again_are_new_processes() {
    let mut stage = Stage::new();
    stage.follow(vec![busy("one", "u", &[0], 60.0)]);
    let first = stage.pids();
    stage.follow(vec![busy("one", "v", &[0], 60.0)]);
    assert_eq!(stage.holdings(), [row("one", "v", 0, 60)]);
    let second = stage.pids();
    assert_ne!(first, second);
    let mut again = busy("one", "v", &[0], 60.0);
    again.restarts = 1;
    stage.follow(vec![again]);
    assert_ne!(stage.pids(), second);
    assert_eq!(stage.pids().len(), 1);
}

#[test]
fn other_workloads_are_let_be() {
    let mut stage = Stage::new();
    let other = config::parse_workload(
        "name=mine devices=node-a/1 utilization=10",
        stage.core.plan(),
    );
    stage
        .core
        .apply(&[Input::AddWorkload(other.expect("a good workload"))]);
    stage.follow(vec![busy("one", "u", &[0], 60.0)]);
    stage.follow(Vec::new());
    let names: Vec<_> = stage.core.world().workloads().map(|w| w.name()).collect();
    assert_eq!(names, ["mine"]);
}

#[test]
fn a_workload_comes_back_when_its_device_does() {
    let mut stage = Stage::new();
    stage.follow(vec![busy("one", "u", &[0], 60.0)]);
    let device = DeviceRef {
        node: 1,
        gpu: 0,
        instance: None,
    };
    stage.core.apply(&[Input::Inject(FaultPlan {
        devices: vec![device],
        fault: Fault::Lost,
        when: When::At(Duration::ZERO),
        heal_after: None,
    })]);
    // While the device is lost it is not among what is wanted.
    stage.follow(Vec::new());
    stage.core.apply(&[Input::Heal(FaultSelector::All)]);
    stage.now += AGAIN;
    stage.follow(vec![busy("one", "u", &[0], 60.0)]);
    assert_eq!(stage.pids().len(), 1);
    assert_eq!(stage.holdings(), [row("one", "u", 0, 60)]);
}

#[test]
fn what_a_device_refuses_is_tried_again_later_and_not_all_the_time() {
    let mut stage = Stage::new();
    let whole = busy("one", "u", &[0], 60.0);
    let device = DeviceRef {
        node: 1,
        gpu: 0,
        instance: None,
    };
    let mig = |op| Input::Mig { device, op };
    stage
        .core
        .apply(&[mig(MigOp::Enable(true)), Input::Reset { device }]);
    stage.follow(vec![whole.clone()]);
    let id = |stage: &Stage| stage.core.world().workloads().next().expect("one").id();
    let first = id(&stage);
    assert!(stage.pids().is_empty(), "MIG is on");
    stage.follow(vec![whole.clone()]);
    assert_eq!(id(&stage), first);
    stage.now += AGAIN;
    stage.follow(vec![whole]);
    assert_ne!(id(&stage), first);
}

#[test]
fn a_mig_device_is_followed_by_its_uuid() {
    let mut stage = Stage::new();
    let device = DeviceRef {
        node: 1,
        gpu: 0,
        instance: None,
    };
    let mig = |op| Input::Mig { device, op };
    let create = || {
        mig(MigOp::CreateGi {
            profile: Profile::Name("1g.5gb".into()),
            start: None,
        })
    };
    let fill = |gi| {
        mig(MigOp::CreateCi {
            gi,
            profile: None,
            start: None,
        })
    };
    stage
        .core
        .apply(&[mig(MigOp::Enable(true)), Input::Reset { device }]);
    stage.core.apply(&[create(), create()]);
    let ids: Vec<u32> = {
        stage.core.publish_changes();
        let snapshot = stage.core.fleet().one(NODE).expect("it is there");
        snapshot.nodes[0].instances.iter().map(|i| i.gi).collect()
    };
    let answers = stage.core.apply(&[fill(ids[0]), fill(ids[1])]);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    stage.core.publish_changes();
    let snapshot = stage.core.fleet().one(NODE).expect("it is there");
    let second = snapshot.nodes[0].instances[1];
    let mut on_second = busy("one", "u", &[0], 60.0);
    on_second.devices[0].index = Some(second.index);
    on_second.devices[0].uuid = text(&second.uuid).to_owned();
    stage.follow(vec![on_second.clone()]);
    let pids = stage.pids();
    assert_eq!(pids.len(), 1);

    // The first one goes, so that the second is the first now.
    let destroy = [
        mig(MigOp::DestroyCi { gi: ids[0], ci: 0 }),
        mig(MigOp::DestroyGi { gi: ids[0] }),
    ];
    assert!(stage.core.apply(&destroy).iter().all(Result::is_ok));
    on_second.devices[0].index = Some(0);
    stage.follow(vec![on_second]);
    assert_eq!(stage.pids(), pids);
}

#[test]
fn a_schedule_counts_from_the_containers_start_in_simulated_time() {
    let hour = Duration::from_secs(3600);
    let mut scheduled = busy("one", "u", &[0], 0.0);
    let step = |percent: f64, duration: Option<Duration>| {
        let mut step = Activity::constant(percent, percent).steps.remove(0);
        step.duration = duration;
        step
    };
    scheduled.activity.steps = vec![
        step(80.0, Some(hour)),
        step(20.0, Some(hour)),
        step(0.0, None),
    ];
    let percent_after = |wall: Duration, speed: f64| {
        let mut stage = Stage::at_speed(speed);
        let mut busy = scheduled.clone();
        busy.since = SystemTime::now().checked_sub(wall);
        stage.follow(vec![busy]);
        stage.holdings()[0].3
    };
    assert_eq!(percent_after(hour / 2, 1.0), 80);
    assert_eq!(percent_after(hour * 3 / 2, 1.0), 20);
    assert_eq!(percent_after(hour * 3 / 4, 2.0), 20);
    assert_eq!(percent_after(hour * 3 / 2, 0.1), 80);
    assert_eq!(percent_after(hour * 24 * 365, 1000.0), 0);
    let mut ahead = scheduled.clone();
    ahead.since = Some(SystemTime::now() + hour);
    let mut stage = Stage::new();
    stage.follow(vec![ahead]);
    assert_eq!(stage.holdings(), [row("one", "u", 0, 80)]);
}
