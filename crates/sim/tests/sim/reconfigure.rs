//! A new plan over a running world.

use std::time::Duration;

use mirage_model::plan::{Fault, FaultPlan, GivenGpu, GivenInstance, When};
use mirage_sim::{FaultSelector, Input, MigOp, Phase, World};

use crate::fleet::*;

fn fault(fault: Fault, at: u64) -> FaultPlan {
    FaultPlan {
        devices: vec![device(0)],
        fault,
        when: When::At(Duration::from_secs(at)),
        heal_after: None,
    }
}

#[test]
fn the_same_plan_again_changes_nothing() {
    let mut plan = plan("a100-sxm4-40gb", 2);
    plan.workloads.push(steady("job", 60.0));
    plan.faults.push(fault(Fault::PowerBrake, 5));
    plan.faults.push(fault(Fault::Hang, 500));
    let mut world = World::new(&plan);
    let mut twin = world.clone();
    world.run(100);
    twin.run(100);
    let summary = world.reconfigure(&plan);
    assert_eq!(
        (summary.gpus_kept, summary.gpus_added, summary.gpus_removed),
        (2, 0, 0)
    );
    assert_eq!((summary.workloads_kept, summary.workloads_added), (1, 0));
    assert_eq!((summary.faults_kept, summary.faults_added), (2, 0));
    world.run(600);
    twin.run(600);
    assert_eq!(world.readings(), twin.readings());
    assert!(world.readings().hung, "the fault still to come came");
}

#[test]
fn kept_gpus_keep_heat_counters_and_layout_when_nodes_move() {
    let mut plan = plan("a100-sxm4-40gb", 2);
    plan.workloads.push(burn());
    let mut world = World::new(&plan);
    world.run(200);
    let device = mirage_model::plan::DeviceRef {
        gpu: 1,
        ..device(0)
    };
    world
        .ask(Input::Mig {
            device,
            op: MigOp::Enable(true),
        })
        .unwrap();
    let before = world.readings().clone();

    // Another node moves in before it, and the workload's reference moves along.
    let mut after = plan.clone();
    after.nodes.insert(0, node("node-0", board("t4"), 4));
    after.workloads[0].devices[0].node = 1;
    let summary = world.reconfigure(&after);
    assert_eq!(
        (summary.gpus_kept, summary.gpus_added, summary.gpus_removed),
        (2, 4, 0)
    );
    assert_eq!((summary.workloads_kept, summary.workloads_removed), (1, 0));
    let gpus = world.node(1).unwrap().gpus();
    assert_eq!(gpus[0].readings().energy_mj, before.energy_mj);
    assert_eq!(gpus[0].readings().temperature_c, before.temperature_c);
    assert!(gpus[1].readings().mig);
    world.run(1);
    assert_eq!(world.node(1).unwrap().gpus()[0].readings().gpu_percent, 100);
    assert_eq!(world.node(0).unwrap().gpus().len(), 4);
}

#[test]
fn another_board_in_the_slot_is_another_gpu() {
    let mut plan = plan("a100-sxm4-40gb", 2);
    let mut both = steady("both", 50.0);
    both.devices.push(device(1));
    plan.workloads.push(both);
    let mut world = World::new(&plan);
    world.run(100);
    let mut after = plan.clone();
    after.workloads.clear();
    after.nodes[0].gpus[0].board = board("h100-sxm5-80gb");
    let summary = world.reconfigure(&after);
    assert_eq!(
        (summary.gpus_kept, summary.gpus_added, summary.gpus_removed),
        (1, 1, 1)
    );
    assert_eq!(summary.workloads_removed, 1);
    world.run(1);
    assert!(
        world.readings().energy_mj < 1_000_000,
        "a new board starts at nothing"
    );
    assert!(world.node(0).unwrap().gpus()[1].readings().energy_mj > 1_000_000);
    assert!(world.processes(0, 1).iter().all(|p| p.end.is_some()));
    assert_eq!(world.node(0).unwrap().gpus()[1].readings().gpu_percent, 0);
}

#[test]
fn workloads_come_go_and_change_with_the_plan() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.workloads.push(steady("kept", 10.0));
    plan.workloads.push(steady("changed", 10.0));
    plan.workloads.push(steady("dropped", 10.0));
    let mut world = World::new(&plan);
    world.run(10);
    world.start(steady("visitor", 10.0));
    world.run(10);
    let pid = world.processes(0, 0)[0].pid;
    plan.workloads = vec![
        steady("kept", 10.0),
        steady("changed", 30.0),
        steady("new", 5.0),
    ];
    let summary = world.reconfigure(&plan);
    assert_eq!(summary.workloads_kept, 2, "kept and the visitor");
    assert_eq!((summary.workloads_added, summary.workloads_removed), (2, 2));
    world.run(1);
    assert_eq!(world.readings().gpu_percent, 10 + 10 + 30 + 5);
    assert_eq!(
        world.processes(0, 0)[0].pid,
        pid,
        "who stays keeps the process"
    );
    assert!(world.workload("dropped").is_none());
    assert_eq!(*world.workload("visitor").unwrap().phase(), Phase::Running);
}

#[test]
fn a_withdrawn_fault_heals_and_a_new_one_counts_from_now() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.faults.push(fault(Fault::Hang, 5));
    let mut world = World::new(&plan);
    world.run(50);
    assert!(world.readings().hung);
    plan.faults = vec![fault(Fault::PowerBrake, 10)];
    let summary = world.reconfigure(&plan);
    assert_eq!((summary.faults_removed, summary.faults_added), (1, 1));
    assert!(!world.readings().hung);
    world.run(9);
    assert!(!world.faults().iter().any(|f| f.active));
    world.run(1);
    assert!(world.faults().iter().any(|f| f.active));
}

#[test]
fn a_schedule_healed_on_one_device_stays_for_the_others() {
    let mut plan = plan("a100-sxm4-40gb", 2);
    let period = Duration::from_secs(10);
    plan.faults.push(FaultPlan {
        devices: vec![device(0), device(1)],
        fault: Fault::PowerBrake,
        when: When::Every {
            period,
            first: period,
        },
        heal_after: Some(Duration::from_secs(2)),
    });
    let mut world = World::new(&plan);
    world.run(5);
    let healed = FaultSelector::Devices(vec![device(0)]);
    world.ask(Input::Heal(healed)).unwrap();
    for _ in 0..2 {
        let summary = world.reconfigure(&plan);
        assert_eq!((summary.faults_kept, summary.faults_added), (1, 0));
    }
    world.run(6);
    let struck: Vec<_> = world.faults().iter().map(|f| f.device).collect();
    assert_eq!(struck, [device(1)]);
}

#[test]
fn a_node_that_leaves_takes_its_work_along() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.nodes.push(node("node-b", board("t4"), 1));
    let mut there = steady("there", 50.0);
    there.devices[0].node = 1;
    plan.workloads.push(there);
    let mut world = World::new(&plan);
    world.run(5);
    let mut hang = now(Fault::Hang);
    hang.devices[0].node = 1;
    world.ask(Input::Inject(hang)).unwrap();
    let summary = world.reconfigure(&crate::fleet::plan("a100-sxm4-40gb", 1));
    assert_eq!((summary.gpus_removed, summary.workloads_removed), (1, 1));
    assert!(world.faults().is_empty());
    world.run(5);
    assert_eq!(world.nodes().len(), 1);
    assert_eq!(world.workloads().count(), 0);
}

#[test]
fn what_moved_with_its_node_still_answers_there() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.workloads.push(steady("job", 50.0));
    let mut world = World::new(&plan);
    world.run(5);
    world.strike(Fault::PowerBrake);
    let pid = world.processes(0, 0)[0].pid;
    let mut after = plan.clone();
    after.nodes.insert(0, node("node-0", board("t4"), 1));
    after.workloads[0].devices[0].node = 1;
    world.reconfigure(&after);

    let mut second = steady("second", 10.0);
    second.devices[0].node = 1;
    world.start(second);
    world.run(1);
    let pids: Vec<u32> = world.processes(1, 0).iter().map(|p| p.pid).collect();
    assert_eq!(pids.len(), 2);
    assert_eq!(pids[0], pid);
    assert_ne!(pids[1], pid, "a living process keeps its id to itself");
    world.ask(Input::RemoveWorkload("job".into())).unwrap();
    world.run(1);
    assert_eq!(world.node(1).unwrap().gpus()[0].readings().gpu_percent, 10);

    let mut third = steady("third", 10.0);
    third.devices[0].node = 1;
    world.start(third);
    world.run(1);
    let living = world.processes(1, 0);
    let living = living.iter().filter(|p| p.end.is_none());
    assert_eq!(living.count(), 2, "nothing of the removed one is left");

    assert_eq!(world.faults()[0].device.node, 1);
    let there = mirage_model::plan::DeviceRef {
        node: 1,
        ..device(0)
    };
    let heal = Input::Heal(mirage_sim::FaultSelector::Devices(vec![there]));
    world.ask(heal).unwrap();
    world.run(1);
    assert_eq!(world.node(1).unwrap().gpus()[0].readings().reasons, 0);
}

#[test]
fn a_withdrawn_fault_still_to_come_does_not_come() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.faults.push(fault(Fault::Hang, 50));
    let mut world = World::new(&plan);
    world.run(10);
    plan.faults.clear();
    world.reconfigure(&plan);
    world.run(100);
    assert!(world.faults().is_empty());
}

#[test]
fn another_layout_ends_the_work_and_keeps_the_counters() {
    let mut plan = plan("a100-sxm4-40gb", 1);
    plan.workloads.push(steady("job", 50.0));
    let mut world = World::new(&plan);
    world.run(100);
    let energy = world.readings().energy_mj;
    let instance = GivenInstance {
        profile: "3g.20gb".into(),
        start: None,
        uuid: None,
    };
    plan.nodes[0].gpus[0].given = Some(
        GivenGpu {
            mig: Some(vec![instance]),
            ..GivenGpu::default()
        }
        .into(),
    );
    plan.workloads[0].devices[0].instance = Some(0);
    let summary = world.reconfigure(&plan);
    assert_eq!((summary.gpus_kept, summary.gpus_added), (1, 0));
    assert_eq!((summary.workloads_removed, summary.workloads_added), (1, 1));
    assert_eq!(world.readings().energy_mj, energy);
    world.run(1);
    assert_eq!(world.first().mig_devices().count(), 1);
    let living = world.processes(0, 0);
    let living: Vec<_> = living.iter().filter(|p| p.end.is_none()).collect();
    assert_eq!(living.len(), 1);
    assert_eq!(living[0].ci, Some(0));
}
