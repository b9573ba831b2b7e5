//! What is made.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use mirage_state::layout::text;
use mirage_state::{Freshness, Reader};

use crate::stage::Stage;

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn state_of(stage: &Stage) -> Reader {
    let nodes = mirage_state::lookup::nodes_in(&stage.root("run/mirage"));
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    Reader::open(&nodes[0]).unwrap()
}

#[test]
fn everything_is_there_and_agrees() {
    let stage = Stage::new();
    stage.good(&[
        "all",
        "--model",
        "h100-sxm5-80gb",
        "--gpus",
        "4",
        "--driver-version",
        "545.23.08",
    ]);
    let node = state_of(&stage);
    assert_eq!(node.gpus(), 4);
    assert_eq!(node.freshness(1), Freshness::Static);
    assert_eq!(text(&node.header().driver), "545.23.08");

    assert_eq!(read(&stage.root("version")), "545.23.08\n");
    let version = read(&stage.root("proc/driver/nvidia/version"));
    assert!(version.contains("Kernel Module  545.23.08  "), "{version}");
    // Every library carries the version, and is found under the names programs and tools ask for.
    let libraries = stage.root("usr/lib64");
    for name in [
        "libnvidia-ml.so",
        "libcuda.so",
        "libnvidia-encode.so",
        "libnvcuvid.so",
    ] {
        for form in [name.to_owned(), format!("{name}.1")] {
            let real = stage.root("lib64").join(form).canonicalize().unwrap();
            assert_eq!(
                real,
                libraries
                    .join(format!("{name}.545.23.08"))
                    .canonicalize()
                    .unwrap()
            );
        }
    }
    assert_eq!(read(&libraries.join("libcuda.so.1")), "this is libcuda.so");
    let smi = fs::metadata(stage.root("bin/nvidia-smi")).unwrap();
    assert_eq!(smi.permissions().mode() & 0o777, 0o755);

    for card in node.cards() {
        let at = format!(
            "{:04x}:{:02x}:{:02x}.0",
            card.pci_domain, card.pci_bus, card.pci_device
        );
        let information = read(&stage.root(&format!("proc/driver/nvidia/gpus/{at}/information")));
        let fact = |key: &str| {
            let line = information
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap();
            line.split_once(':').unwrap().1.trim().to_owned()
        };
        assert_eq!(fact("Model"), "NVIDIA H100 80GB HBM3");
        assert_eq!(fact("GPU UUID"), text(&card.uuid));
        assert_eq!(fact("Bus Location"), at);
        assert_eq!(fact("Device Minor"), card.minor.to_string());
        // As `nvmlDeviceGetIrqNum` and its siblings answer.
        assert_eq!(fact("IRQ"), card.irq().to_string());
        let board = &node.boards()[card.board as usize];
        assert_eq!(fact("Video BIOS"), text(&board.vbios));
        assert_eq!(fact("GPU Firmware"), text(&node.header().driver));
        assert_eq!(fact("Bus Type"), "PCIe");
        let pci = stage.root(&format!("sys/bus/pci/devices/{at}"));
        assert_eq!(read(&pci.join("vendor")), "0x10de\n");
        assert_eq!(read(&pci.join("class")), "0x030200\n");
        assert_eq!(read(&pci.join("numa_node")), format!("{}\n", card.numa));
        assert_eq!(read(&pci.join("irq")), format!("{}\n", card.irq()));
        assert_eq!(fs::read(pci.join("config")).unwrap().len(), 256);
        assert_eq!(read(&pci.join("resource")).lines().count(), 7);
        assert!(
            pci.join("driver")
                .canonicalize()
                .unwrap()
                .ends_with("bus/pci/drivers/nvidia")
        );
    }
}

#[test]
fn gpus_hang_behind_bridges_in_pairs_near_their_processors() {
    let stage = Stage::new();
    for cpu in 0..6 {
        let at = format!("host/sys/devices/system/cpu/cpu{cpu}");
        fs::create_dir_all(stage.path(at)).unwrap();
    }
    stage.good(&["fs", "--gpus", "4"]);
    stage.good(&["status"]);
    let sys = stage.root("sys").canonicalize().unwrap();
    let found: Vec<_> = fs::read_dir(sys.join("bus/pci/devices"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let of_class = |class: &str| {
        let mut paths: Vec<_> = found
            .iter()
            .filter(|path| read(&path.join("class")) == class)
            .map(|path| path.canonicalize().unwrap())
            .collect();
        paths.sort();
        paths
    };
    let gpus = of_class("0x030200\n");
    // A root port for each pair, and a switch port for each GPU.
    assert_eq!((gpus.len(), of_class("0x060400\n").len()), (4, 6));
    let up = |gpu: usize, levels: usize| gpus[gpu].ancestors().nth(levels).unwrap();
    assert_ne!(up(0, 1), up(1, 1));
    assert_eq!(up(0, 2), up(1, 2));
    assert_ne!(up(0, 3), up(2, 3));
    assert!(up(0, 3).starts_with(sys.join("devices")));
    assert_eq!(up(0, 4), sys.join("devices"));
    assert_eq!(read(&gpus[0].join("local_cpulist")), "0-2\n");
    assert_eq!(read(&gpus[3].join("local_cpulist")), "3-5\n");
    assert_eq!(read(&gpus[3].join("local_cpus")), "00000038\n");
    let node = sys.join("devices/system/node/node1/cpulist");
    assert_eq!(read(&node), "3-5\n");
}

#[test]
fn files_that_are_the_same_take_one_block() {
    let stage = Stage::new();
    stage.good(&["fs", "--gpus", "2"]);
    let attribute = |address: &str, name: &str| {
        let at = format!("sys/bus/pci/devices/{address}/{name}");
        fs::metadata(stage.root(&at)).unwrap().ino()
    };
    let addresses: Vec<String> = fs::read_dir(stage.root("proc/driver/nvidia/gpus"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let [one, other] = &addresses[..] else {
        panic!("{addresses:?}");
    };
    assert_eq!(attribute(one, "resource"), attribute(other, "resource"));
    assert_ne!(attribute(one, "uevent"), attribute(other, "uevent"));
    // What one run makes, another replaces.
    stage.good(&["fs", "--gpus", "2", "--model", "h100-sxm5-80gb"]);
    stage.good(&["status"]);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn the_machines_own_name_shows_through() {
    let stage = Stage::new();
    let at = "sys/devices/virtual/dmi/id";
    fs::create_dir_all(stage.path("host").join(at)).unwrap();
    let name = stage.path("host").join(at).join("product_name");
    fs::write(&name, "PowerEdge\n").unwrap();
    stage.good(&["fs", "--gpus", "1"]);
    let shown = stage.root("sys/class/dmi/id/product_name");
    assert_eq!(read(&shown), "PowerEdge\n");
    assert!(!stage.root(at).join("product_uuid").exists());
}

#[test]
fn exchange_channels_are_made_as_many_as_asked() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", "1"]);
    let channels = stage.root("dev/nvidia-caps-imex-channels");
    assert!(!channels.exists());
    let capability = read(&stage.root("proc/driver/nvidia/capabilities/fabric-imex-mgmt"));
    assert!(
        capability.starts_with("DeviceFileMinor: 4323\nDeviceFileMode: 256\n"),
        "{capability}"
    );
    stage.good(&["all", "--gpus", "1", "--imex-channels", "2"]);
    assert!(channels.join("channel1").exists() && !channels.join("channel2").exists());
    assert!(stage.root("dev/nvidia-caps/nvidia-cap4323").exists());
    assert_eq!(stage.run(&["all", "--imex-channels", "2049"]).code, 2);
    stage.good(&["all", "--gpus", "1"]);
    assert!(!channels.exists());
}

#[test]
fn a_link_to_the_root_comes_and_goes() {
    let stage = Stage::new();
    let link = stage.path("new/run/nvidia/driver");
    let words = ["all", "--gpus", "1", "--link", link.to_str().unwrap()];
    stage.good(&words);
    assert_eq!(fs::read_link(&link).unwrap(), stage.root(""));
    assert!(link.join("version").exists());
    let before = stage.below(&stage.path("new"));
    assert!(stage.good(&words).out.starts_with("nothing to do"));
    assert_eq!(stage.below(&stage.path("new")), before);
    // Asked for no more, it goes.
    stage.good(&["all", "--gpus", "1"]);
    assert!(fs::symlink_metadata(&link).is_err());
    let again = stage.good(&["all", "--gpus", "1"]);
    assert!(again.out.starts_with("nothing to do"), "{again:?}");
    stage.good(&words);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
    // Somebody's own is left alone.
    fs::create_dir_all(&link).unwrap();
    let refused = stage.run(&words);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("is a directory"), "{refused:?}");
    assert!(!stage.root("").exists());
}

#[test]
fn helpers_of_the_driver_run() {
    let stage = Stage::new();
    stage.good(&["driver", "--gpus", "1"]);
    for (name, code) in [
        ("nvidia-modprobe", 0),
        ("nvidia-persistenced", 0),
        ("nvidia-debugdump", 3),
    ] {
        let mut program = std::process::Command::new(stage.root("bin").join(name));
        let output = program.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
    let mut list = std::process::Command::new(stage.root("bin/nvidia-debugdump"));
    assert_eq!(list.arg("-l").output().unwrap().stdout, b"smi\n");
}

#[test]
fn device_nodes_have_the_drivers_numbers_or_are_plain_files_and_it_says_which() {
    let stage = Stage::new();
    let made = stage.good(&["fs", "--gpus", "2", "--log-format", "json"]);
    let real = made.json()["real-nodes"].as_bool().unwrap();
    for (name, major, minor) in [
        ("nvidia0", 195, 0),
        ("nvidia1", 195, 1),
        ("nvidiactl", 195, 255),
        ("nvidia-modeset", 195, 254),
        ("nvidia-uvm", 510, 0),
        ("nvidia-caps/nvidia-cap1", 506, 1),
    ] {
        let there = fs::symlink_metadata(stage.root("dev").join(name)).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, 0o666, "{name}");
        assert_eq!(there.file_type().is_char_device(), real, "{name}");
        if real {
            let device = there.rdev();
            assert_eq!(
                (rustix::fs::major(device), rustix::fs::minor(device)),
                (major, minor),
                "{name}"
            );
        } else {
            assert_eq!(there.len(), 0);
        }
    }
    assert!(!stage.root("dev/nvidia2").exists());
    let status = stage.good(&["status", "--log-format", "json"]).json();
    assert_eq!(status["real-nodes"].as_bool(), Some(real));
    // `fs` alone makes no driver.
    assert!(!stage.root("lib64").exists());
}

#[test]
fn a_second_run_changes_nothing_and_removal_leaves_no_trace() {
    let stage = Stage::new();
    let made = stage.good(&["all"]);
    assert!(made.out.contains("8 × a100-sxm4-40gb"), "{made:?}");
    let before = stage.below(&stage.path("new"));
    let again = stage.good(&["all"]);
    assert!(again.out.starts_with("nothing to do"), "{again:?}");
    assert_eq!(stage.below(&stage.path("new")), before);
    assert!(stage.good(&["status"]).out.contains("0 missing, 0 changed"));
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
    assert!(stage.good(&["remove"]).out.starts_with("nothing to do"));
    assert_eq!(stage.run(&["status"]).code, 1);
}

#[test]
fn the_parts_make_the_whole() {
    let stage = Stage::new();
    stage.good(&["fs"]);
    stage.good(&["driver"]);
    assert!(stage.root("proc/driver/nvidia/version").exists());
    assert!(stage.root("lib64/libcuda.so.1").exists());
    let whole = stage.good(&["all"]);
    assert!(whole.out.starts_with("nothing to do"), "{whole:?}");
}

#[test]
fn fewer_gpus_leave_nothing_of_the_others() {
    let stage = Stage::new();
    stage.good(&["all", "--gpus", "8"]);
    let seven = fs::read_dir(stage.root("proc/driver/nvidia/gpus"))
        .unwrap()
        .count();
    assert_eq!(seven, 8);
    stage.good(&["all", "--gpus", "2"]);
    assert!(stage.root("dev/nvidia1").exists() && !stage.root("dev/nvidia2").exists());
    assert_eq!(
        fs::read_dir(stage.root("proc/driver/nvidia/gpus"))
            .unwrap()
            .count(),
        2
    );
    assert_eq!(state_of(&stage).gpus(), 2);
    stage.good(&["remove"]);
    assert_eq!(stage.below(&stage.path("new")), []);
}

#[test]
fn mig_devices_have_their_capabilities() {
    let stage = Stage::new();
    let config = stage.path("mirage.yaml");
    let text =
        "nodes:\n  big:\n    model: a100-sxm4-40gb\n    gpus:\n      - mig: [1g.5gb, 3g.20gb]\n";
    fs::write(&config, text).unwrap();
    stage.good(&["all", "--config", config.to_str().unwrap()]);
    let node = state_of(&stage);
    let instances = node
        .tables(|tables| tables.instances().collect::<Vec<_>>())
        .unwrap();
    assert_eq!(instances.len(), 2);
    for instance in &instances {
        let (gi, ci) = (instance.gi, instance.ci);
        let minor = 3 + 9 * gi;
        let access = format!("proc/driver/nvidia/capabilities/gpu0/mig/gi{gi}");
        let file = read(&stage.root(&format!("{access}/access")));
        assert!(
            file.starts_with(&format!("DeviceFileMinor: {minor}\n")),
            "{file}"
        );
        assert!(stage.root(&format!("{access}/ci{ci}/access")).exists());
        for minor in [minor, minor + 1 + ci] {
            assert!(
                stage
                    .root(&format!("dev/nvidia-caps/nvidia-cap{minor}"))
                    .exists()
            );
        }
    }
    let minors = read(&stage.root("proc/driver/nvidia-caps/mig-minors"));
    assert!(minors.contains("gpu3/gi3/ci3/access 439\n"));
}

#[test]
fn the_libraries_built_along_are_found_and_load_from_the_root() {
    let stage = Stage::new();
    // Without --library-dir: those that cargo put beside the program.
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_mirage"))
        .args(["driver", "all", "--gpus", "3", "--root"])
        .arg(stage.root(""))
        .arg("--host")
        .arg(stage.path("host"))
        .arg("--smi")
        .arg(stage.path("smi"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let library = fs::read(stage.root("lib64/libnvidia-ml.so.1")).unwrap();
    assert!(
        library
            .windows(18)
            .any(|window| window == b"libnvidia-ml.so.1\0")
    );
    let library = fs::read(stage.root("lib64/libcuda.so.1")).unwrap();
    assert!(
        library
            .windows(13)
            .any(|window| window == b"libcuda.so.1\0")
    );
}

#[test]
fn the_config_in_the_root_describes_the_same_node() {
    let stage = Stage::new();
    stage.good(&[
        "all",
        "--model",
        "l4",
        "--gpus",
        "3",
        "--driver-version",
        "560.35.03",
    ]);
    let first =
        fs::read(mirage_state::lookup::nodes_in(&stage.root("run/mirage")).remove(0)).unwrap();
    let config = stage.path("copy.yaml");
    fs::copy(stage.root("config/mirage.yaml"), &config).unwrap();
    stage.good(&["remove"]);
    stage.good(&["all", "--config", config.to_str().unwrap()]);
    let second =
        fs::read(mirage_state::lookup::nodes_in(&stage.root("run/mirage")).remove(0)).unwrap();
    assert!(first == second, "the state differs");
}
