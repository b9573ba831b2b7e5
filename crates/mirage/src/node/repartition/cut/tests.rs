#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mirage_k8s::migconfig::{named, read};
use mirage_k8s::topology::Container;
use mirage_model::config::{self, Defaults};

use super::*;
use crate::engine::Files;

const NODE: &str = "n";

fn core(more: &str) -> Core {
    let text = format!("nodes:\n  n: {{ model: a100-sxm4-40gb, gpus: 2 }}\n{more}");
    let plan = config::load(&text, "test", &Defaults::default())
        .unwrap()
        .plan;
    Core::new(plan, 1.0, 0, 0, Files::default())
}

fn all(core: &Core, name: &str) -> Layout {
    named(name, &core.plan().nodes[0].gpus[0].board).unwrap()
}

/// Profiles and first slices of a GPU's instances.
fn cut(core: &Core, gpu: usize) -> Vec<(u32, u32)> {
    let gpu = &core.world().node(0).unwrap().gpus()[gpu];
    let devices = gpu.mig_devices();
    devices
        .map(|(instance, _)| (instance.gi, instance.start))
        .collect()
}

fn holder(gpu: u32, start: Option<u32>) -> Held {
    Held {
        gpu,
        start,
        by: Container {
            namespace: "team".into(),
            pod: "train".into(),
            container: "main".into(),
        },
        uid: "u".into(),
    }
}

#[test]
fn a_node_is_cut_and_made_whole_again() {
    let mut core = core("");
    let small = all(&core, "all-1g.5gb");
    assert_eq!(apply(&mut core, NODE, &small, &[]), Ok(()));
    assert_eq!((cut(&core, 0).len(), cut(&core, 1).len()), (7, 7));
    assert_eq!(steps(&core, 0, &small), Ok(Vec::new()), "it is so already");
    let balanced = all(&core, "all-balanced");
    assert_eq!(apply(&mut core, NODE, &balanced, &[]), Ok(()));
    assert_eq!(cut(&core, 0).len(), 4);
    let none = all(&core, "all-disabled");
    assert_eq!(apply(&mut core, NODE, &none, &[]), Ok(()));
    assert!(cut(&core, 1).is_empty() && !core.world().node(0).unwrap().gpus()[1].readings().mig);
}

#[test]
fn a_gpu_in_use_is_not_cut_and_neither_is_any_other() {
    let mut core = core("");
    let small = all(&core, "all-1g.5gb");
    let refused = apply(&mut core, NODE, &small, &[holder(1, None)]);
    let Err(Refusal::No(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("GPU 1") && why.contains("team/train"), "{why}");
    assert!(cut(&core, 0).is_empty(), "all or nothing");
}

#[test]
fn instances_that_stay_are_not_touched() {
    let mut core = core("");
    let layout = |devices: &str| {
        let text = format!(
            "mig-configs:\n  selected: [{{ devices: [0], mig-enabled: true, mig-devices: {devices} }}]\n"
        );
        read(&text).unwrap()
    };
    let first = layout("[{ name: 1g.5gb, position: 0 }, { name: 2g.10gb, position: 2 }]");
    assert_eq!(apply(&mut core, NODE, &first, &[]), Ok(()));
    let second = layout("[{ name: 3g.20gb, position: 4 }, { name: 2g.10gb, position: 2 }]");
    let busy = [holder(0, Some(2))];
    assert_eq!(apply(&mut core, NODE, &second, &busy), Ok(()));
    let mut starts: Vec<u32> = cut(&core, 0).into_iter().map(|(_, start)| start).collect();
    starts.sort_unstable();
    assert_eq!(starts, [2, 4]);
    assert!(cut(&core, 1).is_empty(), "the other GPU was not named");
    let third = layout("[{ name: 3g.20gb, position: 4 }]");
    assert!(matches!(
        apply(&mut core, NODE, &third, &busy),
        Err(Refusal::No(_))
    ));
    core.publish_changes();
    let text = mapping(&core, NODE, &second);
    let mapped = Mapping::read(&text).unwrap().0;
    let image = core.fleet().one(NODE).unwrap().nodes.remove(0);
    for device in &mapped[&0] {
        let mut shown = image.instances.iter();
        let same = shown.find(|one| one.start == device.position).unwrap();
        assert_eq!(
            text_of(&same.uuid),
            device.uuid,
            "as NVML and the exporter name it"
        );
    }
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

#[test]
fn what_the_config_runs_is_in_the_way_too() {
    let mut core =
        core("workloads:\n  - { name: demo, devices: n/1, activity: [{ utilization: 50 }] }\n");
    let small = all(&core, "all-1g.5gb");
    let refused = apply(&mut core, NODE, &small, &[]);
    assert!(
        matches!(&refused, Err(Refusal::No(why)) if why.contains("workload demo")),
        "{refused:?}"
    );
}

#[test]
fn a_layout_that_does_not_fit_changes_nothing() {
    let mut core = core("");
    let text = "mig-configs:\n  selected: [{ devices: [5], mig-enabled: true }]\n";
    let refused = apply(&mut core, NODE, &read(text).unwrap(), &[]);
    assert!(
        matches!(&refused, Err(Refusal::No(why)) if why.contains("no GPU 5")),
        "{refused:?}"
    );
}
