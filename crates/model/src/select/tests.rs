use std::sync::Arc;

use super::*;
use crate::plan::{Driver, GivenGpu, GivenInstance, NodePlan};

fn fleet() -> Plan {
    let board = crate::catalogue::find("a100-sxm4-40gb").unwrap();
    let mut plan = Plan::empty(0);
    for (name, count) in [("node-a", 4), ("node-b", 2), ("cpu", 0)] {
        let gpu = GpuPlan {
            board: board.clone(),
            given: None,
        };
        plan.nodes.push(NodePlan {
            name: name.into(),
            pool: None,
            driver: Arc::new(Driver {
                version: "550.163.01".into(),
                cuda: (12, 4),
            }),
            dynamic_mig: false,
            gpus: vec![gpu; count],
            extras: None,
        });
    }
    let instance = |uuid: Option<&str>| GivenInstance {
        profile: "1g.5gb".into(),
        start: None,
        uuid: uuid.map(Into::into),
    };
    plan.nodes[1].gpus[0].given = Some(Arc::new(GivenGpu {
        uuid: Some("GPU-strange".into()),
        serial: None,
        mig: Some(vec![instance(None), instance(Some("MIG-one"))]),
    }));
    plan
}

fn show(text: &str) -> String {
    match parse(text, &fleet()) {
        Ok(found) => found
            .iter()
            .map(|device| match device.instance {
                Some(instance) => format!("{}/{}:{instance}", device.node, device.gpu),
                None => format!("{}/{}", device.node, device.gpu),
            })
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => format!("{}..{}: {error}", error.at.start, error.at.end),
    }
}

#[test]
fn parts_name_devices() {
    assert_eq!(show("node-a/0-2"), "0/0 0/1 0/2");
    assert_eq!(show("node-a/3, 0 ,0"), "0/0 0/3");
    assert_eq!(show("node-*/0,1"), "0/0 0/1 1/0 1/1");
    assert_eq!(show("node-*/3"), "0/3");
    assert_eq!(show("node-b"), "1/0 1/1");
    assert_eq!(show("all"), "0/0 0/1 0/2 0/3 1/0 1/1");
    assert_eq!(show("node-b/0:1"), "1/0:1");
    assert_eq!(show("node-b/0:*"), "1/0:0 1/0:1");
    assert_eq!(show("GPU-strange,MIG-one"), "1/0 1/0:1");
}

#[test]
fn derived_ids_are_found() {
    let plan = fleet();
    let own = Identity::of("node-a", 2, 4, &plan.nodes[0].gpus[2].board, None);
    assert_eq!(parse(&own.uuid, &plan), Ok(vec![device(0, 2, None)]));
}

#[test]
fn refusals_name_the_part_and_what_exists() {
    assert_eq!(
        show("node-a/0,node-c/1"),
        "9..17: no node is called `node-c`; did you mean `node-a`?"
    );
    assert_eq!(
        show("x/0"),
        "0..3: no node is called `x`; there are `node-a`, `node-b`, `cpu`"
    );
    assert_eq!(
        show("gpu-*/0"),
        "0..7: no node matches `gpu-*`; there are `node-a`, `node-b`, `cpu`"
    );
    assert_eq!(
        show("node-a/2-4"),
        "0..10: `node-a` has GPUs 0-3, so there is no 4"
    );
    assert_eq!(show("cpu"), "0..3: `cpu` has no GPUs");
    assert_eq!(show("node-a/1:0"), "0..10: `node-a/1` has no MIG devices");
    assert_eq!(
        show("node-b/0:2"),
        "0..10: `node-b/0` has 2 MIG devices, counted from 0"
    );
    assert_eq!(
        show("2"),
        "0..1: `2` names no node; write for example `node-a/2`"
    );
    assert_eq!(show("GPU-x"), "0..5: no device has the id `GPU-x`");
    assert_eq!(show("node-a/3-1"), "0..10: `3-1` runs backwards");
    for text in [
        "",
        ",",
        "node-a/",
        "node-a/-1",
        "node-a/x",
        "node-a/0:",
        "node-a/99999999999",
    ] {
        assert!(parse(text, &fleet()).is_err(), "{text}");
    }
}

#[test]
fn a_single_node_may_be_left_out_and_running_fleets_may_have_new_instances() {
    let mut plan = fleet();
    plan.nodes.truncate(1);
    assert_eq!(parse("1-2", &plan).unwrap().len(), 2);
    assert!(parse("0:3", &plan).is_err());
    assert_eq!(parse_running("0:3", &plan), Ok(vec![device(0, 0, Some(3))]));
    assert!(parse_running("0:99", &plan).is_err());
}

#[test]
fn patterns_match_whole_names() {
    assert!(matches("node-*", "node-12") && matches("*", "") && matches("a*b*c", "axxbyyc"));
    assert!(matches("n?de", "node") && !matches("node", "node-1") && !matches("?", ""));
    let stars = "*a".repeat(40);
    assert!(!matches(&stars, &"a".repeat(39)));
    assert_eq!(closest("gpu", ["gpus", "model"].into_iter()), Some("gpus"));
    assert_eq!(closest("xyz", ["gpus", "model"].into_iter()), None);
}

#[derive(Debug)]
struct Made;

impl MigDevices for Made {
    fn count(&self, node: u32, gpu: u32) -> u32 {
        if (node, gpu) == (0, 1) { 2 } else { 0 }
    }

    fn find(&self, id: &str) -> Option<DeviceRef> {
        id.eq_ignore_ascii_case("MIG-new")
            .then(|| device(0, 1, Some(1)))
    }
}

#[test]
fn mig_devices_of_a_running_fleet_are_those_it_has_now() {
    let plan = fleet();
    let find = |text: &str| parse_running(text, Running::new(&plan, &Made));
    let both = vec![device(0, 1, Some(0)), device(0, 1, Some(1))];
    assert_eq!(find("MIG-new"), Ok(vec![both[1]]));
    assert_eq!(find("MIG-NEW"), Ok(vec![both[1]]));
    for all in [
        "node-a/1:*",
        "node-a/*:*",
        "*/*:*",
        "node-a/0-1:*",
        "node-*/1:*",
    ] {
        assert_eq!(find(all).as_ref(), Ok(&both), "{all}");
    }
    assert_eq!(find("node-a/*:1"), Ok(vec![both[1]]));
    // What the plan had is gone.
    for gone in [
        "MIG-one",
        "node-b/0:*",
        "node-b/0:1",
        "node-a/1:2",
        "node-a/0-1:1",
    ] {
        assert!(find(gone).is_err(), "{gone}");
    }
}

#[test]
fn ids_are_found_in_any_case() {
    let plan = fleet();
    let own = Identity::of("node-a", 2, 4, &plan.nodes[0].gpus[2].board, None);
    let shout = own.uuid.to_uppercase();
    assert_ne!(shout, own.uuid);
    assert_eq!(parse(&shout, &plan), Ok(vec![device(0, 2, None)]));
    assert_eq!(show("GPU-STRANGE,MIG-One"), "1/0 1/0:1");
}
