//! The pieces other crates call: one workload or fault at a time, the demo fleet, and
//! fleets of thousands.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use mirage_model::config::{Defaults, demo, load, node_name, parse_fault, parse_workload};
use mirage_model::plan::{Fault, Plan, When};
use mirage_model::{catalogue, select};

fn fleet() -> Plan {
    let text = "nodes:\n  node-a: { model: a100-sxm4-40gb, gpus: 4 }\n";
    load(text, "fleet", &Defaults::default()).unwrap().plan
}

#[test]
fn a_fault_is_read_from_words_yaml_or_json() {
    let plan = fleet();
    let texts = [
        "device=node-a/3 xid=79 at=10s heal-after=5m",
        "{device: node-a/3, xid: 79, at: 10s, heal-after: 5m}",
        "device: node-a/3\nxid: 79\nat: 10s\nheal-after: 5m\n",
        r#"{"device":"node-a/3","xid":79,"at":"10s","heal-after":"5m"}"#,
    ];
    for text in texts {
        let fault = parse_fault(text, &plan).unwrap();
        assert_eq!(fault.fault, Fault::Xid(79), "{text}");
        assert_eq!(fault.when, When::At(Duration::from_secs(10)), "{text}");
        assert_eq!(fault.heal_after, Some(Duration::from_secs(300)), "{text}");
        assert_eq!(fault.devices.len(), 1, "{text}");
    }
    let lost = parse_fault("lost device=0-1", &plan).unwrap();
    assert_eq!((lost.fault, lost.devices.len()), (Fault::Lost, 2));
}

#[test]
fn words_say_all_that_yaml_says_of_links_and_ecc() {
    let plan = fleet();
    let fault = |text: &str| parse_fault(&format!("device=node-a/0 {text}"), &plan);
    let read = |text: &str| fault(text).unwrap().fault;
    assert_eq!(read("link-down=0,1"), Fault::LinkDown(0b11));
    assert_eq!(read("link-down=3"), Fault::LinkDown(0b1000));
    assert_eq!(read("link-down=all"), Fault::LinkDown(u32::MAX));
    let ecc = |uncorrected, sram, count| Fault::Ecc {
        uncorrected,
        sram,
        count,
    };
    assert_eq!(read("ecc=uncorrected,sram,3"), ecc(true, true, 3));
    assert_eq!(read("ecc=corrected,5"), ecc(false, false, 5));
    assert_eq!(read("ecc=sram,uncorrected"), ecc(true, true, 1));
    let refused = |text: &str| fault(text).unwrap_err().to_string();
    let links = refused("link-down=0,99");
    assert!(
        links.contains("1:29: expected a whole number from 0 to 31"),
        "{links}"
    );
    let place = refused("ecc=uncorrected,attic,3");
    assert!(
        place.contains("1:33: expected `dram` or `sram`, not `attic`"),
        "{place}"
    );
    for wrong in [
        "link-down=0,",
        "link-down=,",
        "ecc=,",
        "ecc=sram,sram",
        "ecc=corrected,dram,1,2",
    ] {
        assert!(fault(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn words_are_refused_with_a_caret_under_the_word() {
    let error = parse_fault("device=node-a/9 xidd=79", &fleet())
        .unwrap_err()
        .to_string();
    let expected = "\
fault:1:1: fault does not say what happens
    1 | device=node-a/9 xidd=79
      | ^^^^^^^^^^^^^^^^^^^^^^^ add one of `xid`, `ecc`, `lost`, `hang`, `link-down`, `cooling`, \
`power-brake`, `slow-api`, `fail-api`, `row-remap`, `device-plugin`
fault:1:8: `node-a` has GPUs 0-3, so there is no 9
    1 | device=node-a/9 xidd=79
      |        ^^^^^^^^
fault:1:17: unknown key `xidd` in fault
    1 | device=node-a/9 xidd=79
      |                 ^^^^ did you mean `xid`?";
    assert_eq!(error, expected);
}

#[test]
fn a_workload_is_read_for_a_running_fleet() {
    let plan = fleet();
    let text = "name=burst devices=node-a/0:3 utilization=80-100 memory=20% pod=ml/burst-0";
    let workload = parse_workload(text, &plan).unwrap();
    assert_eq!(workload.devices[0].instance, Some(3));
    assert_eq!(workload.activity.len(), 1);
    assert_eq!(workload.owner.unwrap().pod, "burst-0");
    assert!(parse_workload("devices=0", &plan).is_err());
    assert!(parse_workload("", &plan).is_err());
}

#[test]
fn the_demo_works_for_every_model_and_size() {
    for key in catalogue::keys() {
        for (gpus, nodes) in [(0, 1), (1, 1), (2, 1), (3, 2), (8, 1), (16, 3)] {
            let plan = demo("host", key, gpus, nodes, 7).unwrap();
            assert_eq!(plan.nodes.len(), nodes as usize);
            let busy: usize = plan.workloads.iter().map(|w| w.devices.len()).sum();
            let all = (gpus * nodes) as usize;
            let idle = if gpus > 2 { nodes as usize } else { 0 };
            assert_eq!(busy, all - idle, "{key} {gpus} {nodes}");
            for device in plan.workloads.iter().flat_map(|w| &w.devices) {
                assert!(device.node < nodes && device.gpu < gpus);
            }
        }
    }
    assert_eq!(&*demo("host", "t4", 1, 1, 0).unwrap().nodes[0].name, "host");
    assert_eq!(
        &*demo("host", "t4", 1, 2, 0).unwrap().nodes[1].name,
        "host-1"
    );
}

#[test]
fn the_demo_names_its_limits() {
    let error = |model, gpus, nodes| demo("host", model, gpus, nodes, 0).unwrap_err().to_string();
    assert_eq!(
        error("t4", 129, 1),
        "129 GPUs per node, more than the limit of 128"
    );
    assert_eq!(
        error("t4", 1, 200_000),
        "200000 nodes, more than the limit of 100000"
    );
    assert_eq!(
        error("t4", 128, 100_000),
        "12800000 GPUs in all, more than the limit of 1000000"
    );
    assert!(error("tt4", 1, 1).contains("did you mean `t4`?"));
}

#[test]
fn a_fleet_shares_its_boards() {
    let text = "pools:\n  default: { model: h100-sxm5-80gb, gpus: 8, mig: [1g.10gb, 1g.10gb] }\nnodes:\n  fleet: { count: 10000 }\n";
    let plan = load(text, "fleet", &Defaults::default()).unwrap().plan;
    let first = &plan.nodes[0];
    for node in &plan.nodes {
        assert!(Arc::ptr_eq(&node.driver, &first.driver));
        for gpu in &node.gpus {
            assert!(Arc::ptr_eq(&gpu.board, &first.gpus[0].board));
            let (given, shared) = (gpu.given.as_ref(), first.gpus[0].given.as_ref());
            assert!(Arc::ptr_eq(given.unwrap(), shared.unwrap()));
        }
    }
    assert_eq!(select::parse("all", &plan).unwrap().len(), 80_000);
    assert_eq!(select::parse("fleet-12??/0:1", &plan).unwrap().len(), 100);
}

#[test]
fn devices_are_not_missed_when_their_node_could_not_be_read() {
    let text = "nodes:\n  Bad: { model: t4 }\n  good: { model: t4 }\nworkloads:\n  - { name: w, devices: Bad/0 }\n";
    let errors = load(text, "f", &Defaults::default()).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors}");
    let typo = "node:\n  a: { model: t4 }\nworkloads:\n  - { name: w, devices: a/0 }\n";
    let errors = load(typo, "f", &Defaults::default()).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors}");
}

#[test]
fn any_machine_name_becomes_a_node_name() {
    assert_eq!(node_name("gpu-01.example"), "gpu-01.example");
    assert_eq!(node_name("My_Laptop.local"), "my-laptop.local");
    assert_eq!(node_name("..-ä-.."), "node");
    assert_eq!(node_name(""), "node");
    let odd = Defaults {
        host: "My Laptop".into(),
        ..Defaults::default()
    };
    assert_eq!(
        &*load("", "f", &odd).unwrap().plan.nodes[0].name,
        "my-laptop"
    );
    assert_eq!(
        &*demo("My Laptop", "t4", 1, 1, 0).unwrap().nodes[0].name,
        "my-laptop"
    );
}
