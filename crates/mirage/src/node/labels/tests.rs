//! The labels of catalogue models, against what GPU Feature Discovery writes for the real ones.

use std::sync::Arc;

use mirage_model::config::{self, Defaults};

use super::*;
use crate::engine::{Core, Files};

fn image(config: &str) -> Arc<Image> {
    let plan = config::load(config, "test", &Defaults::default());
    let plan = plan.expect("a good config").plan;
    let core = Core::new(plan, 1.0, 0, 0, Files::default());
    core.fleet().all().nodes.remove(0)
}

fn args() -> LabelArgs {
    LabelArgs {
        no_labels: false,
        nfd_features_dir: None,
        no_timestamp: false,
        machine_type_file: PathBuf::new(),
        label_present: false,
        deploy_labels: false,
        condition: false,
    }
}

fn made() -> Made {
    Made {
        strategy: None,
        sharing: Sharing::default(),
        machine: String::new(),
        timestamp: Some(1_700_000_000),
    }
}

fn labels(config: &str) -> Labels {
    made().wanted(&image(config), &args()).labels
}

#[track_caller]
fn check(labels: &Labels, wanted: &[(&str, &str)]) {
    for (key, value) in wanted {
        let found = labels.get(&format!("nvidia.com/{key}"));
        assert_eq!(found.map(String::as_str), Some(*value), "{key}");
    }
}

#[test]
fn catalogue_models_are_labelled_as_the_real_ones_are() {
    type Row = (
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    );
    let rows: [Row; 6] = [
        (
            "a100-sxm4-40gb",
            "NVIDIA-A100-SXM4-40GB",
            "40960",
            "ampere",
            "8.0",
            "true",
        ),
        (
            "h100-sxm5-80gb",
            "NVIDIA-H100-80GB-HBM3",
            "81559",
            "hopper",
            "9.0",
            "true",
        ),
        ("tesla-k80", "Tesla-K80", "11441", "kepler", "3.7", "false"),
        ("t4", "Tesla-T4", "15360", "turing", "7.5", "false"),
        (
            "l40s",
            "NVIDIA-L40S",
            "46068",
            "ada-lovelace",
            "8.9",
            "false",
        ),
        (
            "b200-sxm6-180gb",
            "NVIDIA-B200",
            "183359",
            "blackwell",
            "10.0",
            "true",
        ),
    ];
    for (model, product, memory, family, capability, mig) in rows {
        let config = format!(
            "driver: {{ version: 550.107.02, cuda: '12.5' }}\nnodes:\n  n: {{ model: {model}, gpus: 8 }}\n"
        );
        let labels = labels(&config);
        let (major, minor) = capability.split_once('.').expect("a version");
        check(
            &labels,
            &[
                ("gpu.product", product),
                ("gpu.memory", memory),
                ("gpu.family", family),
                ("gpu.compute.major", major),
                ("gpu.compute.minor", minor),
                ("mig.capable", mig),
                ("gpu.count", "8"),
                ("gpu.replicas", "1"),
                ("gpu.sharing-strategy", "none"),
                ("gpu.machine", "unknown"),
                ("cuda.driver-version.full", "550.107.02"),
                ("cuda.runtime-version.full", "12.5"),
            ],
        );
        assert!(!labels.contains_key("nvidia.com/mig.strategy"), "{model}");
    }
}

const SEVEN: &str = "[1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb, 1g.5gb]";

fn a100(strategy: &str, mig: &str) -> String {
    format!(
        "mig-strategy: {strategy}\nnodes:\n  n: {{ model: a100-sxm4-40gb, gpus: 2, mig: {mig} }}\n"
    )
}

#[test]
fn mig_devices_of_the_catalogue_are_labelled_as_the_real_ones_are() {
    check(
        &labels(&a100("single", SEVEN)),
        &[
            ("mig.strategy", "single"),
            ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
            ("gpu.count", "14"),
            ("gpu.memory", "4864"),
            ("gpu.multiprocessors", "14"),
            ("gpu.slices.gi", "1"),
            ("gpu.engines.copy", "1"),
        ],
    );
    check(
        &labels(&a100("mixed", "[2g.10gb, 1g.5gb]")),
        &[
            ("mig.strategy", "mixed"),
            ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ("gpu.replicas", "0"),
            ("mig-2g.10gb.count", "2"),
            ("mig-2g.10gb.memory", "9856"),
            ("mig-2g.10gb.multiprocessors", "28"),
            ("mig-2g.10gb.engines.copy", "2"),
            ("mig-2g.10gb.engines.decoder", "1"),
            ("mig-1g.5gb.count", "2"),
        ],
    );
}

#[test]
fn options_add_what_the_operator_does() {
    let image = image("nodes:\n  n: { model: a100-sxm4-40gb, gpus: 1 }\n");
    let mut args = args();
    let before = made().wanted(&image, &args).labels;
    (args.label_present, args.deploy_labels) = (true, true);
    let labels = made().wanted(&image, &args).labels;
    check(
        &labels,
        &[
            ("gpu.present", "true"),
            ("gpu.deploy.device-plugin", "true"),
            ("gpu.deploy.dcgm-exporter", "true"),
            ("gpu.deploy.mig-manager", "true"),
        ],
    );
    assert_eq!(labels["run.ai/fake.gpu"], "true");
    assert_eq!(labels.len(), before.len() + 3 + DEPLOYED.len());
    // Where nothing can be cut, nobody is sent to cut it.
    let image = self::image("nodes:\n  n: { model: t4, gpus: 1 }\n");
    let labels = made().wanted(&image, &args).labels;
    assert!(!labels.contains_key("nvidia.com/gpu.deploy.mig-manager"));
}

#[test]
fn a_lost_gpu_is_a_condition_of_the_node() {
    let mut image = Image::clone(&image("nodes:\n  n: { model: a100-sxm4-40gb, gpus: 2 }\n"));
    assert!(!lost(&image).is_true);
    image.lives[1].flags |= flags::LOST;
    let condition = lost(&image);
    assert!(condition.is_true);
    let uuid = text(&image.cards[1].uuid);
    assert!(condition.message.ends_with(uuid), "{}", condition.message);
    let mut args = args();
    args.condition = true;
    assert_eq!(made().wanted(&image, &args).condition, Some(condition));
}
