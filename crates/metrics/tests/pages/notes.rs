//! What pages show of things that no state holds.

use mirage_metrics::{
    CLOCK_EVENTS, ClaimNote, Exporter, Grant, Identity, Jobs, Notes, Options, PodNote, Selection,
    Subject,
};
use mirage_state::Image;

use crate::{checker, fixture, golden, pods};

const FIELDS: &str = "DCGM_FI_DEV_GPU_UTIL, gauge, busy\nDCGM_FI_DEV_FB_USED, gauge, used\n\
    DCGM_FI_DEV_XID_ERRORS, gauge, last\nDCGM_EXP_XID_ERRORS_COUNT, counter, Xids\n\
    DCGM_EXP_CLOCK_EVENTS_COUNT, counter, clocks\nDCGM_FI_DRIVER_VERSION, label, driver\n\
    DCGM_FI_DEV_SERIAL, label, serial\n";

/// The page of a node with notes.
fn noted(identity: &str, options: Options, image: &Image, notes: &Notes) -> Vec<u8> {
    let identity = Identity::by_name(identity).unwrap();
    let fields = Selection::parse_csv(FIELDS, "fields").unwrap();
    let exporter = Exporter::new(&identity, &fields, options).unwrap();
    let subject = Subject {
        node: image.node(),
        notes: Some(notes),
    };
    let mut out = Vec::new();
    exporter.render(&subject, &mut out);
    let streamed: Vec<u8> = exporter.chunks([subject].into_iter()).flatten().collect();
    assert!(out == streamed);
    out
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    list.iter().map(owned).collect()
}

fn everything() -> Notes {
    Notes {
        clock_events: vec![[0, 0, 7, 0, 0, 290, 0, 0, 0], [0; CLOCK_EVENTS]],
        pods: vec![PodNote {
            container: 0,
            labels: pairs(&[
                ("app.kubernetes.io/name", "trainer"),
                ("DCGM_FI_DEV_SERIAL", "the pod's own"),
                ("pod", "not this one"),
                ("zone", "a \"quoted\" one"),
                ("team/x", "1"),
                ("team.x", "2"),
            ]),
        }],
        grants: vec![Grant {
            holding: 0,
            shares: Vec::new(),
            claim: Some(ClaimNote {
                name: "claim-0".into(),
                namespace: "team-a".into(),
                driver: "gpu.nvidia.com".into(),
                pool: "node-a".into(),
                device: "gpu-0".into(),
            }),
        }],
        jobs: vec![Jobs {
            gpu: 1,
            gi: None,
            names: vec!["4711".into(), "4712".into()],
        }],
    }
}

#[test]
fn pod_labels_claims_jobs_and_clock_events() {
    let mut image = fixture::a100();
    image.lives[0].xid = 31;
    image.lives[0].valid |= mirage_state::layout::valid::XID;
    let text = noted("dcgm@4.8.2", pods(), &image, &everything());
    let samples = checker::read(&text).unwrap();
    golden("dcgm-notes", &text);
    // A label that is called as one of the exporter's own: left out, and later under another name.
    assert!(
        samples
            .iter()
            .all(|s| s.label("pod") != Some("not this one"))
    );
    let text = noted("dcgm@4.8.3", pods(), &image, &everything());
    let samples = checker::read(&text).unwrap();
    assert_eq!(samples[0].label("pod_label_pod"), Some("not this one"));
    // Without -k pods are no concern; jobs are.
    let text = noted("dcgm", Options::default(), &image, &everything());
    let samples = checker::read(&text).unwrap();
    assert!(samples.iter().all(|s| s.label("zone").is_none()));
    let jobs = samples.iter().filter_map(|s| s.label("hpc_job"));
    assert_eq!(jobs.collect::<Vec<_>>()[..2], ["4711", "4712"]);
}

#[test]
fn shares_are_named_as_their_ids_name_them() {
    let image = fixture::shared();
    let notes = Notes {
        grants: vec![
            Grant {
                holding: 0,
                shares: vec!["3".into()],
                claim: None,
            },
            Grant {
                holding: 1,
                shares: vec!["0".into(), "7".into(), "8".into()],
                claim: None,
            },
        ],
        jobs: vec![Jobs {
            gpu: 0,
            gi: None,
            names: vec!["9".into()],
        }],
        ..Notes::default()
    };
    let options = Options {
        virtual_gpus: true,
        ..pods()
    };
    let text = noted("dcgm", options, &image, &notes);
    golden("dcgm-shares", &text);
    let samples = checker::read(&text).unwrap();
    let used: Vec<_> = samples
        .iter()
        .filter(|s| s.name == "DCGM_FI_DEV_FB_USED" && s.label("vgpu").is_some())
        .map(|s| (s.label("vgpu").unwrap(), s.value.as_str()))
        .collect();
    // Whoever has three shares is told in three parts that make up the whole.
    assert_eq!(
        used,
        [("3", "1000"), ("0", "1333"), ("7", "1333"), ("8", "1333")]
    );
}

#[test]
fn jobs_of_an_instance_are_its_own_or_its_gpus() {
    let notes = Notes {
        jobs: vec![
            Jobs {
                gpu: 0,
                gi: Some(7),
                names: vec!["own".into()],
            },
            Jobs {
                gpu: 0,
                gi: None,
                names: vec!["gpu".into()],
            },
        ],
        ..Notes::default()
    };
    let text = noted("dcgm", Options::default(), &fixture::mig(), &notes);
    let samples = checker::read(&text).unwrap();
    let jobs: Vec<_> = samples
        .iter()
        .filter(|s| s.name == "DCGM_FI_DEV_FB_USED")
        .map(|s| (s.label("GPU_I_ID"), s.label("hpc_job")))
        .collect();
    assert_eq!(
        jobs,
        [
            (Some("7"), Some("own")),
            (Some("8"), Some("gpu")),
            (Some("5"), Some("gpu")),
            (Some("1"), Some("gpu")),
            (None, None),
        ]
    );
}

#[test]
fn notes_that_fit_no_node_do_no_harm() {
    let mut notes = everything();
    notes.pods[0].container = 99;
    notes.grants[0].holding = 99;
    notes.jobs[0].gpu = 99;
    notes.clock_events.clear();
    for image in [fixture::a100(), fixture::torn(), Image::default()] {
        checker::read(&noted("dcgm", pods(), &image, &notes)).unwrap();
    }
}
