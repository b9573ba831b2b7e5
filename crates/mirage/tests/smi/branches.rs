//! Reports change with the driver: what a reader of one of its branches looks for is there, and what later ones dropped is not.

use std::path::PathBuf;
use std::sync::Arc;

use mirage_state::Image;

use crate::shown;

/// The built-in node with another driver.
fn node(driver: &str) -> (tempfile::TempDir, PathBuf) {
    node_with(driver, |_| ())
}

/// The same, changed in more than its driver.
fn node_with(driver: &str, change: impl FnOnce(&mut Image)) -> (tempfile::TempDir, PathBuf) {
    let room = tempfile::tempdir().expect("a temporary directory");
    let reader = mirage_state::built_in().expect("the built-in node");
    let mut image = reader.snapshot().expect("a snapshot");
    image.header.driver.fill(0);
    image.header.driver[..driver.len()].copy_from_slice(driver.as_bytes());
    change(&mut image);
    let state = room.path().join("state");
    std::fs::write(&state, image.to_bytes().expect("bytes")).expect("the state is written");
    (room, state)
}

/// Label by label what each branch shows, from reports of real machines.
#[test]
fn a_report_is_that_of_its_driver() {
    let all: &[(&str, &[&str], &[&str])] = &[
        (
            "535.183.01",
            &[
                "Module ID",
                "Inforom BBX Object Flush",
                "Gpu  ",
                "SRAM Uncorrectable  ",
                "Power Draw  ",
            ],
            &[
                "Platform Info",
                "SRAM Uncorrectable Parity",
                "GPU Recovery Action",
                "Capabilities",
                "DRAM Encryption",
                "Sparse Operation Mode",
            ],
        ),
        (
            "565.57.01",
            &["GPU Recovery Action", "Gpu  ", "Power Draw  ", "EGM  "],
            &["Average Power Draw", "Power Smoothing", "Route Unhealthy"],
        ),
        (
            "570.148.08",
            &[
                "Platform Info",
                "GPU   ",
                "DRAM Encryption Mode",
                "Average Power Draw",
                "Power Smoothing",
                "Workload Power Profiles",
                "Voltage",
                "Route Recovery in progress",
                "Reset Required                    : Requested functionality has been deprecated",
            ],
            &[
                "Module ID",
                "Gpu  ",
                "Clocks Event Reasons Counters",
                "Display Attached",
            ],
        ),
        (
            "575.51.02",
            &[
                "Clocks Event Reasons Counters",
                "SW Power Capping                  : 0 us",
                "Display Attached                      : No",
                "Reset Required",
                "Voltage",
            ],
            &["Summary  "],
        ),
        ("580.105.08", &["Summary  "], &["Reset Required", "Voltage"]),
        (
            "595.71.05",
            &["Driver Version                                         : 595.71.05"],
            &[],
        ),
    ];
    for (driver, has, lacks) in all {
        let (_room, state) = node(driver);
        let text = shown(&state, "-q -i 0");
        for label in *has {
            assert!(text.contains(label), "{driver} lacks {label}:\n{text}");
        }
        for label in *lacks {
            assert!(!text.contains(label), "{driver} has {label}:\n{text}");
        }
        let outbound = text.find("Atomic Caps Outbound").expect("it is there");
        let inbound = text.find("Atomic Caps Inbound").expect("it is there");
        assert_eq!(outbound < inbound, *driver >= "565", "{driver}");
    }
}

/// Of the data centre's architectures, Hopper alone has the mode; none is without a line for protected memory.
#[test]
fn a_report_is_that_of_its_architecture() {
    for (architecture, sparse) in [(7, "N/A"), (9, "Disabled"), (10, "N/A")] {
        let (_room, state) = node_with("580.105.08", |image| {
            let boards = &mut Arc::make_mut(&mut image.statics).boards;
            boards
                .iter_mut()
                .for_each(|board| board.architecture = architecture);
        });
        let text = shown(&state, "-q -i 0");
        let line = format!("    Sparse Operation Mode                 : {sparse}\n");
        assert!(text.contains(&line), "{architecture}: {text}");
        let memory = shown(
            &state,
            "--query-gpu=protected_memory.total,protected_memory.used --format=csv,noheader -i 0",
        );
        assert_eq!(memory, "0 MiB, 0 MiB\n", "{architecture}");
    }
}

/// Lines of tables of real machines.
#[test]
fn a_table_is_that_of_its_driver() {
    let r470 = [
        "| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 12.8     |",
        "|-------------------------------+----------------------+----------------------+",
        "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |",
        "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |",
        "| N/A   30C    P0    50W / 400W |      0MiB / 40960MiB |      0%      Default |",
        "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |",
        "|        ID   ID                                                   Usage      |",
    ];
    let r535 = [
        "| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.8     |",
        "|-----------------------------------------+----------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |",
        "|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |",
        "| N/A   30C    P0              50W / 400W |      0MiB / 40960MiB |      0%      Default |",
        "|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |",
        "|        ID   ID                                                             Usage      |",
    ];
    let r550 = [
        "| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.8     |",
        "|-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                    0 |",
        "| N/A   30C    P0             50W /  400W |       0MiB /  40960MiB |      0%      Default |",
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
    ];
    let r580 = [
        "| NVIDIA-SMI 580.105.08             Driver Version: 580.105.08     CUDA Version: 12.8     |",
        "+-----------------------------------------+------------------------+----------------------+",
        r550[2],
        r550[3],
        r550[4],
        r550[5],
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        r550[7],
    ];
    for lines in [r470, r535, r550, r580] {
        let driver = lines[0].split_whitespace().nth(2).expect("a version");
        let (_room, state) = node(driver);
        let text = shown(&state, "-i 0");
        for line in lines {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line} is not in\n{text}"
            );
        }
        let framed = text.lines().filter(|line| line.starts_with(['|', '+']));
        for line in framed {
            assert_eq!(line.len(), lines[0].len(), "{driver}: {line}");
        }
    }
}
