//! PCI Express: where a device sits and how its link runs.

use mirage_state::layout::Card;

use crate::abi::{BridgeChips, PciInfo, PciInfoExt, PciInfoV1, PciInfoV2};
use crate::arg::{Out, Text};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, Target, live};
use crate::session::Session;

/// Display class, 3D controller.
const CLASS: (u32, u32) = (0x03, 0x02);

/// An upper-case hexadecimal number of a fixed width, without allocating.
fn hex(into: &mut [u8], value: u32) {
    let width = into.len();
    for (at, byte) in into.iter_mut().enumerate() {
        let digit = value >> (4 * (width - 1 - at)) & 0xF;
        *byte = b"0123456789ABCDEF"[digit as usize];
    }
}

/// The bus id of a place on the bus, its domain written with `digits` digits.
pub fn bus_id<const N: usize>(domain: u32, bus: u32, device: u32, digits: usize) -> [u8; N] {
    let mut id = [0; N];
    hex(&mut id[..digits], domain);
    id[digits] = b':';
    hex(&mut id[digits + 1..digits + 3], bus);
    id[digits + 3] = b':';
    hex(&mut id[digits + 4..digits + 6], device);
    id[digits + 6] = b'.';
    id[digits + 7] = b'0';
    id
}

/// Reads a bus id: `domain:bus:device[.function]`, the domain optional.
pub fn parse(id: &str) -> Option<(u32, u32, u32, u32)> {
    let number = |text: &str, most: usize| {
        let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (plain && (1..=most).contains(&text.len()))
            .then(|| u32::from_str_radix(text, 16).ok())
            .flatten()
    };
    let (place, function) = match id.rsplit_once('.') {
        Some((place, function)) => (place, number(function, 1)?),
        None => (id, 0),
    };
    let mut parts = place.rsplit(':');
    let device = number(parts.next()?, 2)?;
    let bus = number(parts.next()?, 2)?;
    let domain = parts.next().map_or(Some(0), |text| number(text, 8))?;
    parts
        .next()
        .is_none()
        .then_some((domain, bus, device, function))
}

/// PCI information of a place on the bus.
pub fn describe(place: (u32, u32, u32), device_id: u32, subsystem_id: u32) -> PciInfo {
    let (domain, bus, device) = place;
    PciInfo {
        bus_id_legacy: bus_id(domain, bus, device, 4),
        domain,
        bus,
        device,
        device_id,
        subsystem_id,
        bus_id: bus_id(domain, bus, device, 8),
    }
}

/// PCI information of a card.
pub fn info(gpu: &Gpu) -> PciInfo {
    let Card {
        pci_domain,
        pci_bus,
        pci_device,
        ..
    } = *gpu.card();
    let board = gpu.board();
    describe(
        (pci_domain, pci_bus, pci_device),
        board.pci_device_id,
        board.pci_subsystem_id,
    )
}

/// `nvmlDeviceGetPciInfo`: 32 bytes, no more.
pub fn pci_info(target: Target, out: Out<PciInfoV1>) -> Answer {
    let info = info(&target.gpu());
    let PciInfo {
        domain,
        bus,
        device,
        device_id,
        ..
    } = info;
    out.set(PciInfoV1 {
        bus_id: info.bus_id_legacy,
        domain,
        bus,
        device,
        device_id,
    });
    Ok(())
}

/// The second form from the newest one.
pub fn second(info: &PciInfo) -> PciInfoV2 {
    let PciInfo {
        domain,
        bus,
        device,
        device_id,
        subsystem_id,
        ..
    } = *info;
    PciInfoV2 {
        bus_id: info.bus_id_legacy,
        domain,
        bus,
        device,
        device_id,
        subsystem_id,
    }
}

/// `nvmlDeviceGetPciInfo_v2`: the words past the subsystem id stay as they are.
pub fn pci_info_v2(target: Target, out: Out<PciInfoV2>) -> Answer {
    out.set(second(&info(&target.gpu())));
    Ok(())
}

/// `nvmlDeviceGetPciInfo_v3`.
pub fn pci_info_v3(target: Target, out: Out<PciInfo>) -> Answer {
    out.set(info(&target.gpu()));
    Ok(())
}

/// `nvmlDeviceGetPciInfoExt`.
pub fn pci_info_ext(target: Target, out: Out<PciInfoExt>) -> Answer {
    let PciInfo {
        domain,
        bus,
        device,
        device_id,
        subsystem_id,
        bus_id,
        ..
    } = info(&target.gpu());
    let version = out.get().version;
    let (base_class, sub_class) = CLASS;
    out.set(PciInfoExt {
        version,
        domain,
        bus,
        device,
        device_id,
        subsystem_id,
        base_class,
        sub_class,
        bus_id,
    });
    Ok(())
}

/// `nvmlDeviceGetCurrPcieLinkGeneration`.
pub fn curr_pcie_link_generation(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(live!(gpu, pcie_gen));
    Ok(())
}

/// `nvmlDeviceGetCurrPcieLinkWidth`.
pub fn curr_pcie_link_width(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(live!(gpu, pcie_width));
    Ok(())
}

/// The highest generation GPU and host have in common.
pub fn link_gen_max(gpu: &Gpu) -> u32 {
    let board = gpu.board();
    match board.pcie_host_gen_max {
        0 => board.pcie_gen_max,
        host => board.pcie_gen_max.min(host),
    }
}

/// `nvmlDeviceGetMaxPcieLinkGeneration`: of GPU and host together.
pub fn max_pcie_link_generation(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(link_gen_max(&gpu));
    Ok(())
}

/// `nvmlDeviceGetGpuMaxPcieLinkGeneration`: of the GPU alone.
pub fn gpu_max_pcie_link_generation(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().pcie_gen_max);
    Ok(())
}

/// `nvmlDeviceGetMaxPcieLinkWidth`.
pub fn max_pcie_link_width(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(gpu.board().pcie_width_max);
    Ok(())
}

/// `nvmlDeviceGetPcieThroughput`, KB/s.
pub fn pcie_throughput(gpu: Gpu, counter: u32, out: Out<u32>) -> Answer {
    let rate = if counter == 0 {
        live!(gpu, pcie_tx_bps)
    } else {
        live!(gpu, pcie_rx_bps)
    };
    out.set(u32::try_from(rate / 1000).unwrap_or(u32::MAX));
    Ok(())
}

/// `nvmlDeviceGetPcieReplayCounter`.
pub fn pcie_replay_counter(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(live!(gpu, pcie_replays) as u32);
    Ok(())
}

/// Megatransfers per second and lane of a generation.
fn speed(generation: u32) -> u32 {
    match generation {
        0 => 0,
        1 => 2500,
        2 => 5000,
        generation => 1000 << generation.min(10),
    }
}

/// Megabytes per second and lane, coding taken off.
pub fn lane_mbs(generation: u32) -> u32 {
    match generation {
        0..=2 => speed(generation) / 10,
        generation => speed(generation) / 8 * 128 / 130,
    }
}

/// `nvmlDeviceGetPcieSpeed`.
pub fn pcie_speed(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(speed(live!(gpu, pcie_gen)));
    Ok(())
}

/// `nvmlDeviceGetPcieLinkMaxSpeed`: speeds are numbered like generations.
pub fn pcie_link_max_speed(gpu: Gpu, out: Out<u32>) -> Answer {
    out.set(link_gen_max(&gpu).min(6));
    Ok(())
}

/// `nvmlDeviceQueryDrainState`: nothing drains.
pub fn drain_state(s: &Session, place: Out<PciInfo>, out: Out<u32>) -> Answer {
    let PciInfo {
        domain,
        bus,
        device,
        ..
    } = place.get();
    let here = |&&gpu: &&u32| {
        let card = s.card_record(gpu as usize);
        (card.pci_domain, card.pci_bus, card.pci_device) == (domain, bus, device)
    };
    s.visible()
        .iter()
        .find(here)
        .ok_or(Fault::InvalidArgument)?;
    out.set(0);
    Ok(())
}

/// The printable id of a GPU, for messages.
pub fn printable(gpu: &Gpu, out: Text) -> Answer {
    let info = info(gpu);
    out.write(&[mirage_state::layout::text(&info.bus_id)])
}

/// `nvmlDeviceGetBridgeChipInfo`: the one bridge (type 0, PLX) that the GPUs of one board share.
pub fn bridge_chip_info(gpu: Gpu, out: Out<BridgeChips>) -> Answer {
    let firmware = gpu.board().bridge_firmware;
    if firmware == 0 {
        return Err(Fault::NotSupported);
    }
    out.field::<u8>(0).set(1);
    out.field::<[u32; 2]>(4).set([0, firmware]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_have_eight_and_four_digit_domains() {
        let info = describe((1, 0x3B, 2), 0, 0);
        assert_eq!(mirage_state::layout::text(&info.bus_id), "00000001:3B:02.0");
        assert_eq!(
            mirage_state::layout::text(&info.bus_id_legacy),
            "0001:3B:02.0"
        );
    }

    #[test]
    fn bus_ids_are_read_in_every_spelling() {
        for id in [
            "00000000:3b:00.0",
            "0000:3B:00.0",
            "3B:00.0",
            "3b:0",
            "0:3b:00",
        ] {
            assert_eq!(parse(id), Some((0, 0x3B, 0, 0)), "{id}");
        }
        for id in [
            "",
            "nonsense",
            "0000:3B",
            ":3B:00.0",
            "1:2:3:4",
            "0000:3B:+1.0",
            "0000:3BB:00.0",
        ] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    #[test]
    fn speeds_double_with_each_generation() {
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(speed),
            [2500, 5000, 8000, 16000, 32000, 64000]
        );
    }
}
