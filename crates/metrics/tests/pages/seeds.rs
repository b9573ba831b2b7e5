//! What the two designs ask for, word by word.

use mirage_metrics::{Options, Selection};

use crate::checker::{self, Sample};
use crate::{fixture, page, pods};

fn family<'a>(samples: &'a [Sample], name: &str) -> Vec<&'a Sample> {
    samples.iter().filter(|s| s.name == name).collect()
}

/// The labels the GPU Mock design lists for its metrics.
const MOCK_LABELS: [&str; 8] = [
    "gpu",
    "UUID",
    "device",
    "modelName",
    "Hostname",
    "container",
    "namespace",
    "pod",
];

#[test]
fn gpu_mock_metrics_and_labels() {
    for identity in ["dcgm", "dcgm@4.8.2", "fake-gpu-operator", "runai-mig"] {
        let text = page(identity, &Selection::default_set(), pods(), &fixture::k80());
        let samples = checker::read(&text).unwrap();
        for (name, values) in [
            ("DCGM_FI_DEV_GPU_UTIL", ["10", "100"]),
            ("DCGM_FI_DEV_FB_USED", ["5000", "10000"]),
            ("DCGM_FI_DEV_FB_FREE", ["6441", "1441"]),
        ] {
            let family = family(&samples, name);
            let found: Vec<_> = family.iter().map(|s| s.value.as_str()).collect();
            assert_eq!(found, values, "{identity} {name}");
            for (sample, gpu) in family.iter().zip(["0", "1"]) {
                for label in MOCK_LABELS {
                    assert!(sample.label(label).is_some(), "{identity}: {label}");
                }
                assert_eq!(sample.label("gpu"), Some(gpu));
                assert_eq!(
                    sample.label("device"),
                    Some(format!("nvidia{gpu}").as_str())
                );
                assert_eq!(sample.label("modelName"), Some("Tesla K80"));
                assert_eq!(sample.label("namespace"), Some("runai-project-a"));
                assert_eq!(sample.label("pod"), Some("pod"));
                assert_eq!(sample.label("container"), Some("container"));
                assert_eq!(sample.label("GPU_I_PROFILE"), None);
                assert_eq!(sample.label("GPU_I_ID"), None);
            }
            assert_eq!(
                family[0].label("UUID"),
                Some("GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1")
            );
        }
    }
}

#[test]
fn dynamic_mig_metrics_and_labels() {
    let image = fixture::dynamic_mig();
    // A list without the driver version: the design shows it all the same.
    let csv = "DCGM_FI_DEV_GPU_UTIL, gauge, a\nDCGM_FI_DEV_FB_USED, gauge, b\nDCGM_FI_DEV_FB_FREE, gauge, c\n";
    let csv = Selection::parse_csv(csv, "three").unwrap();
    for (identity, driver, ids) in [
        ("dcgm", "550.163.01", ["7", "8", "5", "1"].as_slice()),
        // Profile ids: the two 1g.5gb are one series.
        ("runai-mig", "520.56.06", ["14", "19", "9"].as_slice()),
    ] {
        let text = page(identity, &csv, pods(), &image);
        let samples = checker::read(&text).unwrap();
        assert!(
            family(&samples, "DCGM_FI_DEV_GPU_UTIL").is_empty(),
            "{identity}"
        );
        for name in ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"] {
            let instances: Vec<_> = family(&samples, name)
                .into_iter()
                .filter(|s| s.label("GPU_I_ID").is_some())
                .collect();
            let found: Vec<_> = instances
                .iter()
                .filter_map(|s| s.label("GPU_I_ID"))
                .collect();
            assert_eq!(found, ids, "{identity} {name}");
            for sample in instances {
                for label in [
                    "gpu",
                    "UUID",
                    "device",
                    "modelName",
                    "Hostname",
                    "GPU_I_PROFILE",
                ] {
                    assert!(sample.label(label).is_some(), "{identity}: {label}");
                }
                for label in ["container", "namespace", "pod"] {
                    assert_eq!(sample.label(label), None, "{identity}: {label}");
                }
                assert_eq!(sample.label("DCGM_FI_DRIVER_VERSION"), Some(driver));
                assert_eq!(
                    sample.label("UUID"),
                    Some("GPU-00000000-1111-2222-3333-444455556666")
                );
            }
        }
    }
}

#[test]
fn memory_of_an_instance_is_its_own() {
    let text = page("dcgm", &Selection::default_set(), pods(), &fixture::mig());
    let samples = checker::read(&text).unwrap();
    let of = |name: &str, id: &str| {
        let found = family(&samples, name);
        let sample = found.iter().find(|s| s.label("GPU_I_ID") == Some(id));
        sample.map(|s| s.value.clone())
    };
    assert_eq!(of("DCGM_FI_DEV_FB_USED", "7").as_deref(), Some("700"));
    assert_eq!(of("DCGM_FI_DEV_FB_FREE", "7").as_deref(), Some("4164"));
    assert_eq!(of("DCGM_FI_DEV_GPU_UTIL", "7"), None);
    assert_eq!(of("DCGM_FI_DEV_MEM_COPY_UTIL", "7"), None);
    assert_eq!(
        of("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "5").as_deref(),
        Some("0.500005")
    );
    let held = family(&samples, "DCGM_FI_DEV_FB_USED");
    let pods: Vec<_> = held.iter().map(|s| s.label("pod")).collect();
    assert_eq!(pods, [Some("job-0-0-0"), None, None, None, None]);
}

#[test]
fn the_labels_of_a_gpu_stand_in_the_real_order() {
    let text = page(
        "dcgm@4.8.3",
        &Selection::default_set(),
        pods(),
        &fixture::a100(),
    );
    let samples = checker::read(&text).unwrap();
    assert_eq!(
        samples[0].label_names(),
        [
            "gpu",
            "UUID",
            "pci_bus_id",
            "device",
            "modelName",
            "hostname",
            "DCGM_FI_DRIVER_VERSION",
            "container",
            "namespace",
            "pod"
        ]
    );
    let text = page(
        "dcgm",
        &Selection::default_set(),
        Options::default(),
        &fixture::mig(),
    );
    let samples = checker::read(&text).unwrap();
    assert_eq!(
        samples[0].label_names(),
        [
            "gpu",
            "UUID",
            "pci_bus_id",
            "device",
            "modelName",
            "GPU_I_PROFILE",
            "GPU_I_ID",
            "Hostname",
            "DCGM_FI_DRIVER_VERSION"
        ]
    );
}
