//! GPUs among each other: links, topology, fabric; and profiling from two samples.

use std::collections::BTreeSet;

use mirage_metrics::{Exporter, Identity, Options, Selection};
use mirage_state::Image;
use nvidia_ml::abi::{FabricInfo, FabricInfoV3, GpmMetric, GpmRequest, PciInfo};
use nvidia_ml::arg::Versioned;

use super::*;

#[test]
fn links_lead_to_switches_or_to_partners_that_agree() {
    let image = node::idle("v100-sxm2-32gb", 4);
    let client = Client::of(&image);
    let links = image.statics.boards[0].nvlink_links;
    let mut between = [[0; 4]; 4];
    for one in 0..4 {
        for link in 0..links {
            assert_eq!(
                number(|to| nvmlDeviceGetNvLinkRemoteDeviceType(gpu(one), link, to)),
                Ok(0)
            );
            let mut pci = PciInfo::default();
            assert_eq!(
                nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu(one), link, &mut pci),
                0
            );
            let other = image.cards.iter().position(|card| card.pci_bus == pci.bus);
            between[one as usize][other.expect("one of them")] += 1;
        }
    }
    let mirrored: [[i32; 4]; 4] = std::array::from_fn(|one| between.map(|row| row[one]));
    assert_eq!(between, mirrored, "both ends of a link agree");
    assert_eq!(
        number(|to| nvmlDeviceGetP2PStatus(gpu(0), gpu(1), 2, to)),
        Ok(0)
    );
    drop(client);
    let image = node::idle("a100-sxm4-40gb", 8);
    let _client = Client::of(&image);
    assert_eq!(
        number(|to| nvmlDeviceGetNvLinkRemoteDeviceType(gpu(0), 0, to)),
        Ok(2)
    );
    assert_eq!(
        number(|to| nvmlDeviceGetTopologyCommonAncestor(gpu(0), gpu(7), to)),
        Ok(50)
    );
    assert_eq!(
        number(|to| nvmlDeviceGetP2PStatus(gpu(0), gpu(0), 2, to)),
        Err(2)
    );
}

/// NVSwitches on a page of the exporter.
fn exported_switches(image: &Image) -> usize {
    const FIELD: &str = "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT";
    let identity = Identity::by_name("dcgm").expect("an identity");
    let list = Selection::parse_csv(&format!("{FIELD}, gauge, t"), "test").expect("a list");
    let exporter = Exporter::new(&identity, &list, Options::default()).expect("an exporter");
    let page: Vec<u8> = exporter
        .chunks([image.node()].into_iter())
        .flatten()
        .collect();
    let page = String::from_utf8(page).expect("text");
    page.lines().filter(|line| line.starts_with(FIELD)).count()
}

/// The links of a GPU lead to as many switches as the exporter has, none of them where a GPU is.
#[test]
fn nvml_and_the_exporter_know_the_same_switches() {
    for (model, switches, exported) in [
        ("a100-sxm4-40gb", 6, 6),
        ("h100-sxm5-80gb", 4, 4),
        ("h200-sxm5-141gb", 4, 4),
        ("b200-sxm6-180gb", 2, 2),
        ("b300-sxm6", 2, 2),
        // A rack's are in trays of their own, whose exporter is not this node's.
        ("gb200", 18, 0),
    ] {
        let image = node::idle(
            model,
            mirage_model::catalogue::find(model)
                .expect("a model")
                .gpus_per_node,
        );
        let _client = Client::of(&image);
        let mut ends = BTreeSet::new();
        for link in 0..image.statics.boards[0].nvlink_links {
            let mut pci = PciInfo::default();
            assert_eq!(
                nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu(0), link, &mut pci),
                0
            );
            let at = (pci.domain, pci.bus);
            assert!(
                image
                    .cards
                    .iter()
                    .all(|card| (card.pci_domain, card.pci_bus) != at),
                "{model}: a switch where a GPU is: {at:?}"
            );
            ends.insert(at);
        }
        assert_eq!(ends.len(), switches, "{model}");
        assert_eq!(exported_switches(&image), exported, "{model}");
    }
}

#[test]
fn the_fabric_is_joined_where_there_is_one() {
    let image = node::idle("a100-sxm4-40gb", 1);
    let client = Client::of(&image);
    assert_eq!(
        nvmlDeviceGetGpuFabricInfo(gpu(0), &mut FabricInfo::default()),
        3
    );
    drop(client);
    let image = node::idle("gb200", 4);
    let _client = Client::of(&image);
    let mut info = FabricInfoV3 {
        version: FabricInfoV3::WORD,
        ..FabricInfoV3::default()
    };
    assert_eq!(
        nvmlDeviceGetGpuFabricInfoV(gpu(2), (&raw mut info).cast()),
        0
    );
    assert_eq!((info.state, info.status, info.summary), (3, 0, 1));
    assert_eq!(info.cluster, image.cards[2].cluster);
    assert_ne!(info.cluster, [0; 16]);
}

/// A request with two metrics, as C lays it out.
#[repr(C)]
struct Request {
    head: GpmRequest,
    metrics: [GpmMetric; 2],
}

#[test]
fn metrics_come_from_two_samples() {
    let mut image = node::idle("h100-sxm5-80gb", 1);
    let mut client = Client::of(&image);
    let mut samples = [handle(); 2];
    for sample in &mut samples {
        assert_eq!(nvmlGpmSampleAlloc(sample), 0);
    }
    assert_eq!(nvmlGpmSampleGet(gpu(0), samples[0]), 0);
    // Two seconds later, busier, and 64 MiB sent.
    image.header.unix_ms += 2_000;
    image.lives[0].sm_active_ppm = 425_000;
    image.lives[0].pcie_tx_bytes += 64 << 20;
    client.update(&image);
    assert_eq!(nvmlGpmSampleGet(gpu(0), samples[1]), 0);
    let head = GpmRequest {
        version: 1,
        count: 2,
        first: samples[0],
        second: samples[1],
    };
    let metrics = [2, 20].map(|id| GpmMetric {
        id,
        ..GpmMetric::default()
    });
    let mut request = Request { head, metrics };
    assert_eq!(nvmlGpmMetricsGet((&raw mut request).cast()), 0);
    let [sm, sent] = &request.metrics;
    assert_eq!((sm.code, sent.code), (0, 0));
    assert!((sm.value - 42.5).abs() < 1e-9, "{}", sm.value);
    assert!((sent.value - 32.0).abs() < 1e-9, "{}", sent.value);
    assert!(!sm.unit.is_null());
    for sample in samples {
        assert_eq!(nvmlGpmSampleFree(sample), 0);
    }
}

#[test]
fn a_request_may_be_as_full_as_the_newest_binding_makes_it() {
    #[repr(C)]
    struct Full {
        head: GpmRequest,
        metrics: [GpmMetric; 477],
    }
    let _client = Client::of(&node::idle("h100-sxm5-80gb", 1));
    let mut sample = handle();
    assert_eq!(nvmlGpmSampleAlloc(&mut sample), 0);
    assert_eq!(nvmlGpmSampleGet(gpu(0), sample), 0);
    let metric = |at: usize| GpmMetric {
        id: at as u32,
        code: 999,
        ..GpmMetric::default()
    };
    let mut request = Full {
        head: GpmRequest {
            version: 1,
            count: 477,
            first: sample,
            second: sample,
        },
        metrics: std::array::from_fn(metric),
    };
    assert_eq!(nvmlGpmMetricsGet((&raw mut request).cast()), 0);
    let codes = request.metrics.map(|metric| metric.code);
    assert_eq!((codes[0], codes[2]), (2, 0));
    assert!(codes[333..].iter().all(|&code| code == 3), "{codes:?}");
    request.head.count = 478;
    assert_eq!(nvmlGpmMetricsGet((&raw mut request).cast()), 2);
    assert_eq!(nvmlGpmSampleFree(sample), 0);
}
