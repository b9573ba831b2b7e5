//! Reports change with the driver: what a reader of one of its branches looks for is there, and what later ones dropped is not.

use std::path::PathBuf;

use crate::shown;

/// The built-in node with another driver.
fn node(driver: &str) -> (tempfile::TempDir, PathBuf) {
    let room = tempfile::tempdir().expect("a temporary directory");
    let reader = mirage_state::built_in().expect("the built-in node");
    let mut image = reader.snapshot().expect("a snapshot");
    image.header.driver.fill(0);
    image.header.driver[..driver.len()].copy_from_slice(driver.as_bytes());
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

#[test]
fn a_table_is_that_of_its_driver() {
    for (driver, processes, corner) in [
        (
            "550.163.01",
            "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
            "|-",
        ),
        (
            "570.148.08",
            "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
            "|-",
        ),
        (
            "580.105.08",
            "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
            "+-",
        ),
    ] {
        let (_room, state) = node(driver);
        let text = shown(&state, "");
        assert!(
            text.lines().any(|line| line == processes),
            "{driver}:\n{text}"
        );
        let below = text
            .lines()
            .skip_while(|line| !line.contains("NVIDIA-SMI"))
            .nth(1);
        assert!(
            below.is_some_and(|line| line.starts_with(corner)),
            "{driver}:\n{text}"
        );
        for line in text.lines().skip(1) {
            assert!(
                line.len() == 91 || line.trim().is_empty(),
                "{driver}: {line}"
            );
        }
    }
}
