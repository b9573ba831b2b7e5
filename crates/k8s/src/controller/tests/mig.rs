//! Dynamic MIG, as its design plays it.

use super::*;
use crate::migconfig::{self, Mapping};

const DYNAMIC: &str =
    "mig-strategy: mixed\npools:\n  mig: { model: a100-sxm4-40gb, gpus: 2, virtual-nodes: 1 }\n";

const CONFIG: &str = "\
version: v1
mig-configs:
  selected:
  - devices: [0]
    mig-enabled: true
    mig-devices:
    - { name: 2g.10gb, position: 0, size: 2 }
    - { name: 1g.5gb, position: 4, size: 1 }
    - { name: 1g.5gb, position: 6, size: 1 }
";

fn ask(stage: &mut Stage, config: &str) {
    let node = stage.controller.seen.nodes.get_mut("mig-0").unwrap();
    for role in migconfig::ROLES {
        node.labels.insert(role.into(), "true".into());
    }
    node.annotations
        .insert(migconfig::CONFIG.into(), config.into());
}

fn document(stage: &Stage) -> topology::Node {
    topology::read_node(&stage.controller.seen.documents["mig-0"], "mig-0").unwrap()
}

#[test]
fn devices_are_made_named_and_given_away() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    ask(&mut stage, CONFIG);
    // Made at once, without ids: those come with the mapping.
    let writes = stage.controller.settle("mig-0");
    let text = writes.iter().find_map(|write| match write {
        Write::Document { body, .. } => body["data"][topology::KEY].as_str(),
        _ => None,
    });
    let first = topology::read_node(text.unwrap(), "mig-0").unwrap();
    let devices = first.gpus[0].mig.as_ref().unwrap();
    assert!(first.dynamic_mig && devices.len() == 3);
    assert!(devices.iter().all(|device| device.id.is_none()));
    for write in writes {
        stage.controller.wrote(&write);
        stage.serve(write);
    }
    stage.settle();
    let node = &stage.controller.seen.nodes["mig-0"];
    assert_eq!(node.labels[migconfig::STATE], "success");
    let mapping = Mapping::read(&node.annotations[migconfig::MAPPING]).unwrap();
    let ids: Vec<_> = mapping.0[&0].iter().map(|device| device.instance).collect();
    assert_eq!(ids, [Some(3), Some(11), Some(13)]);
    assert_eq!(node.allocatable["nvidia.com/mig-1g.5gb"], "2");
    assert_eq!(node.allocatable["nvidia.com/gpu"], "1");
    let devices = document(&stage).gpus[0].mig.clone().unwrap();
    assert_eq!(devices[1].id.as_ref(), Some(&mapping.0[&0][1].uuid));

    let pin = json!({ "annotations": { migconfig::DEVICE:
        "{\"name\":\"nvidia.com/mig-1g.5gb\",\"position\":6,\"gpuamount\":1,\"gpuindex\":\"0\"}" } });
    stage.add_pod("mig-0", "pinned", "uid-p", 1, &[json!({})], pin);
    stage.add_pod(
        "mig-0",
        "asked",
        "uid-a",
        2,
        &[json!({ "nvidia.com/mig-1g.5gb": "1" })],
        json!({}),
    );
    stage.settle();
    let devices = document(&stage).gpus[0].mig.clone().unwrap();
    let holders: Vec<_> = devices
        .iter()
        .map(|device| device.status.allocated_by.as_ref().map(|by| by.pod.clone()))
        .collect();
    assert_eq!(holders, [None, Some("asked".into()), Some("pinned".into())]);
    // What runs there is simulated there: by the order of the devices.
    let fleet = stage.controller.fleet();
    let mut devices: Vec<_> = fleet[0]
        .1
        .iter()
        .flat_map(|work| work.devices.clone())
        .collect();
    devices.sort_unstable();
    assert_eq!(devices, [(0, Some(1)), (0, Some(2))]);
    assert_eq!(
        fleet[0].0.gpus[0]
            .given
            .as_ref()
            .unwrap()
            .mig
            .as_ref()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn a_gpu_in_use_is_cut_anew_only_when_it_is_free() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    stage.gpu_pod("mig-0", "whole", 1, 1);
    stage.settle();
    ask(&mut stage, CONFIG);
    stage.settle();
    assert_eq!(
        stage.controller.seen.nodes["mig-0"].labels[migconfig::STATE],
        "pending"
    );
    assert!(document(&stage).gpus[0].mig.is_none());
    stage.change_pod("whole", |bound| bound.ended = true);
    stage.settle();
    assert_eq!(
        stage.controller.seen.nodes["mig-0"].labels[migconfig::STATE],
        "success"
    );
    assert_eq!(document(&stage).gpus[0].mig.as_ref().unwrap().len(), 3);
}

#[test]
fn what_cannot_be_cut_is_said_to_have_failed() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    ask(&mut stage, &CONFIG.replace("2g.10gb", "9g.90gb"));
    stage.settle();
    let node = &stage.controller.seen.nodes["mig-0"];
    assert_eq!(node.labels[migconfig::STATE], "failed");
    assert!(!node.annotations.contains_key(migconfig::MAPPING));
    assert!(document(&stage).gpus[0].mig.is_none());
}

#[test]
fn layouts_by_name_cut_every_gpu() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    let node = stage.controller.seen.nodes.get_mut("mig-0").unwrap();
    node.labels
        .insert(migconfig::NAMED.into(), "all-balanced".into());
    stage.settle();
    let node = &stage.controller.seen.nodes["mig-0"];
    assert_eq!(node.labels[migconfig::STATE], "success");
    assert_eq!(node.allocatable["nvidia.com/mig-1g.5gb"], "4");
    assert_eq!(node.allocatable["nvidia.com/mig-3g.20gb"], "2");
    assert_eq!(node.allocatable["nvidia.com/gpu"], "0");
    assert!(
        document(&stage).gpus[1]
            .mig
            .as_ref()
            .unwrap()
            .iter()
            .all(|device| device.id.is_some())
    );
}

/// Acts once, and returns the devices of the first GPU as they are written then.
fn written(stage: &mut Stage) -> Vec<topology::Mig> {
    let writes = stage.controller.settle("mig-0");
    let text = writes.iter().find_map(|write| match write {
        Write::Document { body, .. } => body["data"][topology::KEY].as_str(),
        _ => None,
    });
    let first = topology::read_node(text.unwrap(), "mig-0").unwrap();
    for write in writes {
        stage.controller.wrote(&write);
        stage.serve(write);
    }
    first.gpus[0].mig.clone().unwrap()
}

#[test]
fn ids_of_other_devices_are_not_taken_for_those_of_new_ones() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    ask(&mut stage, CONFIG);
    stage.settle();
    // At the same positions, but larger.
    ask(
        &mut stage,
        &CONFIG
            .replace("1g.5gb, position: 4", "1g.10gb, position: 4")
            .replace("1g.5gb, position: 6", "1g.10gb, position: 6"),
    );
    let first = written(&mut stage);
    assert_eq!(first[1].name, "1g.10gb");
    assert!(first.iter().all(|device| device.id.is_none()), "{first:?}");
    stage.settle();
    let node = &stage.controller.seen.nodes["mig-0"];
    let mapping = Mapping::read(&node.annotations[migconfig::MAPPING]).unwrap();
    let devices = document(&stage).gpus[0].mig.clone().unwrap();
    for (device, told) in devices.iter().zip(&mapping.0[&0]) {
        assert_eq!(device.id.as_ref(), Some(&told.uuid));
    }
}

#[test]
fn what_makes_no_sense_leaves_the_devices_as_they_are() {
    for bad in [
        "mig-configs: [",
        &CONFIG.replace("position: 4", "position: 5"),
    ] {
        let mut stage = Stage::new(DYNAMIC);
        stage.settle();
        ask(
            &mut stage,
            &CONFIG.replace("1g.5gb, position: 6", "1g.10gb, position: 6"),
        );
        stage.settle();
        let before = document(&stage);
        assert_eq!(before.gpus[0].mig.as_ref().unwrap().len(), 3);
        ask(
            &mut stage,
            &bad.replace("2g.10gb, position: 0", "9g.10gb, position: 0"),
        );
        stage.settle();
        let node = &stage.controller.seen.nodes["mig-0"];
        assert_eq!(node.labels[migconfig::STATE], "failed");
        assert_eq!(node.allocatable["nvidia.com/mig-1g.10gb"], "1");
        assert_eq!(document(&stage), before, "{bad}");
        stage.restart();
        stage.settle();
        assert_eq!(document(&stage), before, "{bad}");
    }
}

#[test]
fn a_pod_whose_device_is_not_there_is_told_so() {
    let mut stage = Stage::new(DYNAMIC);
    stage.settle();
    ask(&mut stage, CONFIG);
    stage.settle();
    let pin = json!({ "annotations": { migconfig::DEVICE: "{\"position\":5,\"gpuindex\":0}" } });
    stage.add_pod("mig-0", "lost", "uid-l", 1, &[json!({})], pin);
    stage.controller.settle("mig-0");
    let write = stage.controller.phase("default", "lost", stage.now);
    let Some(Write::PodStatus { body, .. }) = write else {
        panic!("{write:?}");
    };
    let status = &body["status"];
    assert_eq!(status["reason"], "UnexpectedAdmissionError");
    let words = status["message"].as_str().unwrap();
    assert!(words.contains("MIG device of GPU 0 at slice 5"), "{words}");
}
