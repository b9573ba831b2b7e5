//! `/proc/driver/nvidia` and the lines of `/proc/devices`, below the driver root: runtimes refuse mounts inside `/proc`, so these reach
//! whoever takes a root.

use mirage_state::Image;
use mirage_state::layout::{Board, Card, text};

use super::devices::{self, CONFIG, IMEX, MONITOR};
use super::host::{Majors, NVIDIA};
use super::item::{List, Part, Place};

const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
const PARAMS: &str = include_str!("params.txt");
/// Modes as the driver writes them, in decimal.
const READABLE: u32 = 0o444;
const PRIVATE: u32 = 0o400;
/// First driver whose major is called `nvidia`.
const RENAMED: (u32, u32) = (550, 40);
/// `nvmlDeviceArchitecture_t` of the first boards with wider addresses.
const HOPPER: u32 = 9;
/// That of the first boards which only the open modules know.
const BLACKWELL: u32 = 10;
/// What the driver prints of a video BIOS it cannot read.
const UNKNOWN_VBIOS: &str = "??.??.??.??.??";

/// `0000:07:00.0`.
pub(super) fn address(card: &Card) -> String {
    let Card {
        pci_domain,
        pci_bus,
        pci_device,
        ..
    } = card;
    format!(
        "{:04x}:{pci_bus:02x}:{pci_device:02x}.0",
        pci_domain & 0xffff
    )
}

/// `NVRM version: …`, as the kernel module prints it: the open one, without which newer boards do not run, or the closed one.
pub(super) fn version(driver: &str, is_open: bool) -> String {
    let machine = std::env::consts::ARCH;
    let module = match is_open {
        true => format!("Open Kernel Module for {machine}  {driver}  Release Build  (mirage)"),
        false => format!("{machine} Kernel Module  {driver}"),
    };
    format!(
        "NVRM version: NVIDIA UNIX {module}  Thu Jan  1 00:00:00 UTC 1970\n\
         GCC version:  simulated by mirage\n"
    )
}

/// Puts the files on the list.
pub(super) fn list(list: &mut List, image: &Image, driver: &str, majors: Majors) {
    list.begin(Part::Files, Place::Root);
    let boards = &image.statics.boards;
    let is_open = boards.iter().any(|board| board.architecture >= BLACKWELL);
    list.file("proc/driver/nvidia/version", version(driver, is_open));
    list.file("proc/driver/nvidia/params", PARAMS);
    list.file("proc/driver/nvidia/registry", "Binary: \"\"\n");
    for card in image.cards.iter() {
        let at = format!("proc/driver/nvidia/gpus/{}", address(card));
        list.file(
            format!("{at}/information"),
            information(image, card, driver),
        );
        list.file(format!("{at}/power"), POWER);
    }
    list.file("proc/devices", character_devices(driver, majors));
    list.file(
        format!("{CAPABILITIES}/fabric-imex-mgmt"),
        capability(IMEX, PRIVATE),
    );
    if image
        .statics
        .boards
        .iter()
        .any(|board| board.max_mig_instances > 0)
    {
        capabilities(list, image);
    }
}

const POWER: &str = "Runtime D3 status:          Disabled by default\n\
                     Tegra iGPU Rail-Gating:     Disabled\n\
                     Video Memory:               Active\n";

/// What NVML says of the GPU as well.
fn information(image: &Image, card: &Card, driver: &str) -> String {
    let board = image.statics.boards.get(card.board as usize);
    let model = board.map_or("", |board| text(&board.name));
    let vbios = board.map_or("", |board| text(&board.vbios));
    let vbios = if vbios.is_empty() {
        UNKNOWN_VBIOS
    } else {
        vbios
    };
    let (bits, mask) = match board.is_some_and(|board| board.architecture >= HOPPER) {
        true => (52, "0xfffffffffffff"),
        false => (47, "0x7fffffffffff"),
    };
    let firmware = match board.is_some_and(Board::has_firmware) {
        true => driver,
        false => "N/A",
    };
    let (irq, uuid, at, minor) = (card.irq(), text(&card.uuid), address(card), card.minor);
    format!(
        "Model: \t\t {model}\nIRQ:   \t\t {irq}\nGPU UUID: \t {uuid}\nVideo BIOS: \t {vbios}\n\
         Bus Type: \t PCIe\nDMA Size: \t {bits} bits\nDMA Mask: \t {mask}\nBus Location: \t {at}\n\
         Device Minor: \t {minor}\nGPU Firmware: \t {firmware}\nGPU Excluded:\t No\n"
    )
}

/// The lines a driver adds to `/proc/devices`, with its two headings.
fn character_devices(driver: &str, majors: Majors) -> String {
    let mut numbers = driver.split('.').map(|part| part.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let name = if version >= RENAMED {
        "nvidia"
    } else {
        "nvidia-frontend"
    };
    let Majors { uvm, caps, imex } = majors;
    let mut lines = [
        (NVIDIA, name),
        (imex, "nvidia-caps-imex-channels"),
        (caps, "nvidia-caps"),
        (uvm, "nvidia-uvm"),
    ];
    lines.sort_unstable();
    let lines: String = lines
        .iter()
        .map(|(major, name)| format!("{major:3} {name}\n"))
        .collect();
    format!("Character devices:\n{lines}\nBlock devices:\n")
}

fn capability(minor: u32, mode: u32) -> String {
    format!("DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n")
}

fn capabilities(list: &mut List, image: &Image) {
    let root = CAPABILITIES;
    list.file(format!("{root}/mig/config"), capability(CONFIG, PRIVATE));
    list.file(format!("{root}/mig/monitor"), capability(MONITOR, READABLE));
    let mut seen = Vec::new();
    for instance in &image.instances {
        let Some(card) = image.cards.get(instance.gpu as usize) else {
            continue;
        };
        let (gpu, gi, ci) = (card.minor, instance.gi, instance.ci);
        let at = format!("{root}/gpu{gpu}/mig/gi{gi}");
        if let Some(minor) = devices::gpu_instance(gpu, gi).filter(|minor| !seen.contains(minor)) {
            seen.push(minor);
            list.file(format!("{at}/access"), capability(minor, READABLE));
        }
        if let Some(minor) = devices::compute_instance(gpu, gi, ci) {
            list.file(format!("{at}/ci{ci}/access"), capability(minor, READABLE));
        }
    }
    list.file("proc/driver/nvidia-caps/mig-minors", devices::minors());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_stands_where_parsers_look() {
        let text = version("550.54.15", false);
        let after = text.split("Kernel Module").nth(1).unwrap();
        assert_eq!(after.split_whitespace().next(), Some("550.54.15"));
        assert!(after.starts_with("  550.54.15  "));
        let text = version("580.105.08", true);
        let place = format!("Open Kernel Module for {}", std::env::consts::ARCH);
        let after = text.split(&place).nth(1).unwrap();
        assert!(after.starts_with("  580.105.08  "));
    }

    #[test]
    fn older_boards_run_no_firmware() {
        let reader = mirage_state::built_in().unwrap();
        let mut image = reader.snapshot().unwrap();
        let told = |image: &Image| information(image, &image.cards[1], "550.54.15");
        assert!(told(&image).contains("GPU Firmware: \t 550.54.15\n"));
        assert!(told(&image).contains("IRQ:   \t\t 97\n"));
        let statics = std::sync::Arc::make_mut(&mut image.statics);
        statics.boards[0].architecture = 5;
        statics.boards[0].vbios = [0; 32];
        assert!(told(&image).contains("GPU Firmware: \t N/A\n"));
        assert!(told(&image).contains("Video BIOS: \t ??.??.??.??.??\n"));
    }

    #[test]
    fn parameters_are_as_the_toolkit_expects() {
        // A hook rewrites this exact line inside containers.
        assert!(PARAMS.lines().any(|line| line == "ModifyDeviceFiles: 1"));
        assert!(PARAMS.lines().all(|line| line.contains(": ")));
        assert!(!PARAMS.contains("NVreg_"));
    }

    #[test]
    fn majors_are_listed_between_their_headings() {
        let majors = Majors {
            uvm: 510,
            caps: 506,
            imex: 505,
        };
        let text = character_devices("535.104.05", majors);
        assert!(
            text.starts_with("Character devices:\n195 nvidia-frontend\n"),
            "{text}"
        );
        assert!(
            text.ends_with("\n510 nvidia-uvm\n\nBlock devices:\n"),
            "{text}"
        );
        assert!(character_devices("550.163.01", majors).contains("195 nvidia\n"));
    }
}
