//! NVLink: links, what is at their other end, errors, and the registers behind them.

use mirage_state::links::{End, Neighbour};

use crate::abi::{NvlinkBwMode, NvlinkBwModes, PciInfo, PciInfoV2, PrmCounterList};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::pcie;
use crate::session::Session;

/// Vendor and device of the NVSwitches of A100, and of those since H100, as on the bus.
const SWITCH_IDS: [u32; 2] = [0x1AF1_10DE, 0x22A3_10DE];
/// Switches have buses of their own, from here on: no GPU of the catalogue has one of them.
const SWITCH_BUS: u32 = 0xE2;

/// A GPU as its neighbours see it now.
pub fn neighbour<'s>(gpu: &Gpu<'s>) -> Neighbour<'s> {
    Neighbour {
        index: gpu.index,
        cards: gpu.session.reader().cards(),
        card: gpu.card(),
        board: gpu.board(),
        valid: live!(gpu, valid),
        flags: live!(gpu, flags),
        up: live!(gpu, nvlink_up),
    }
}

/// Whether a GPU has NVLink that may be asked about: not under MIG.
pub fn has_links(gpu: &Gpu) -> bool {
    neighbour(gpu).has_links()
}

/// Refuses GPUs without NVLink and links past the last.
pub fn link(gpu: &Gpu, link: u32) -> Answer {
    if !has_links(gpu) {
        return Err(Fault::NotSupported);
    }
    if link < gpu.board().nvlink_links {
        Ok(())
    } else {
        Err(Fault::InvalidArgument)
    }
}

/// Whether a link is up.
pub fn is_up(gpu: &Gpu, link: u32) -> bool {
    neighbour(gpu).is_up(link)
}

/// Links that join two GPUs, over switches or directly.
pub fn links_between(one: &Gpu, other: &Gpu) -> u32 {
    neighbour(one).links_to(&neighbour(other))
}

/// NVML's number for an NVLink generation.
pub fn version_number(generation: u32) -> u32 {
    match generation {
        0 | 1 => generation,
        2 => 2,
        3 => 4,
        generation => generation + 2,
    }
}

/// `nvmlDeviceGetNvLinkState`.
pub fn nvlink_state(gpu: Gpu, at: u32, out: Out<u32>) -> Answer {
    link(&gpu, at)?;
    out.set(is_up(&gpu, at).into());
    Ok(())
}

/// `nvmlDeviceGetNvLinkVersion`.
pub fn nvlink_version(gpu: Gpu, at: u32, out: Out<u32>) -> Answer {
    link(&gpu, at)?;
    out.set(version_number(gpu.board().nvlink_version));
    Ok(())
}

/// `nvmlDeviceGetNvLinkCapability`: peers yes, system memory only over a chip-to-chip link.
pub fn nvlink_capability(gpu: Gpu, at: u32, capability: u32, out: Out<u32>) -> Answer {
    link(&gpu, at)?;
    let up = is_up(&gpu, at);
    out.set(u32::from(match capability {
        0 | 2 => up,
        5 => true,
        _ => false,
    }));
    Ok(())
}

/// Counters of the whole GPU are spread over its links, the remainder on the first.
pub fn share(gpu: &Gpu, total: u64, link: u32) -> u64 {
    let links = u64::from(gpu.board().nvlink_links.max(1));
    total / links + if link == 0 { total % links } else { 0 }
}

/// `nvmlDeviceGetNvLinkErrorCounter`.
pub fn nvlink_error_counter(gpu: Gpu, at: u32, counter: u32, out: Out<u64>) -> Answer {
    link(&gpu, at)?;
    let total = match counter {
        0 => live!(gpu, nvlink_replays),
        1 => live!(gpu, nvlink_recoveries),
        2 => live!(gpu, nvlink_crc_errors),
        3 => 0,
        _ if gpu.board().nvlink_version >= 3 => 0,
        _ => return Err(Fault::NotSupported),
    };
    out.set(share(&gpu, total, at));
    Ok(())
}

fn remote(gpu: &Gpu, at: u32) -> Result<PciInfo, Fault> {
    link(gpu, at)?;
    match neighbour(gpu).end(at) {
        End::Gpu(other) => Ok(pcie::info(&gpu.session.at(other))),
        End::Switch(switch) => {
            let domain = gpu.card().pci_domain;
            let id = SWITCH_IDS[usize::from(gpu.board().nvlink_version > 3)];
            Ok(pcie::describe((domain, SWITCH_BUS + switch, 0), id, id))
        }
        End::Open => Err(Fault::NotSupported),
    }
}

/// `nvmlDeviceGetNvLinkRemotePciInfo`: the smaller struct.
pub fn nvlink_remote_pci_info(gpu: Gpu, at: u32, out: Out<PciInfoV2>) -> Answer {
    out.set(pcie::second(&remote(&gpu, at)?));
    Ok(())
}

/// `nvmlDeviceGetNvLinkRemotePciInfo_v2`.
pub fn nvlink_remote_pci_info_v2(gpu: Gpu, at: u32, out: Out<PciInfo>) -> Answer {
    out.set(remote(&gpu, at)?);
    Ok(())
}

/// `nvmlDeviceGetNvLinkRemoteDeviceType`.
pub fn nvlink_remote_device_type(gpu: Gpu, at: u32, out: Out<u32>) -> Answer {
    link(&gpu, at)?;
    out.set(match neighbour(&gpu).end(at) {
        End::Gpu(_) => 0,
        End::Switch(_) => 2,
        End::Open => 0xFF,
    });
    Ok(())
}

/// `nvmlDeviceGetNvLinkInfo`, both versions: links are not encrypted, and firmware is told from the second version on.
pub fn nvlink_info(gpu: Gpu, out: Out<u32>) -> Answer {
    const FIRST: u32 = 0x0100_0008;
    const SECOND: u32 = 0x0200_064C;
    const FIRMWARE_ENTRIES: usize = 1608;
    let word = out.get();
    if word != FIRST && word != SECOND {
        return Err(Fault::VersionMismatch);
    }
    if gpu.board().nvlink_links == 0 {
        return Err(Fault::NotSupported);
    }
    out.nth(1).set(0);
    if word == SECOND {
        out.field::<u32>(FIRMWARE_ENTRIES).set(0);
    }
    Ok(())
}

/// `nvmlDeviceGetNvLinkUtilizationCounter`: gone since Ampere, where field values took its place.
pub fn nvlink_utilization_counter(
    gpu: Gpu,
    at: u32,
    counter: u32,
    received: Out<u64>,
    sent: Out<u64>,
) -> Answer {
    link(&gpu, at)?;
    if counter > 1 {
        return Err(Fault::InvalidArgument);
    }
    if gpu.board().architecture >= 7 {
        return Err(Fault::NotSupported);
    }
    received.set(share(&gpu, live!(gpu, nvlink_rx_bytes), at));
    sent.set(share(&gpu, live!(gpu, nvlink_tx_bytes), at));
    Ok(())
}

/// `nvmlDeviceGetNvLinkUtilizationControl`: bytes, all packets.
pub fn nvlink_utilization_control(gpu: Gpu, at: u32, counter: u32, out: Out<[u32; 2]>) -> Answer {
    link(&gpu, at)?;
    if counter > 1 {
        return Err(Fault::InvalidArgument);
    }
    if gpu.board().architecture >= 7 {
        return Err(Fault::NotSupported);
    }
    out.set([2, 0xFF]);
    Ok(())
}

/// Bandwidth modes are a matter of Blackwell and later.
fn modes(gpu: &Gpu) -> Answer {
    if has_links(gpu) && gpu.board().architecture >= 10 {
        Ok(())
    } else {
        Err(Fault::NotSupported)
    }
}

/// `nvmlDeviceGetNvlinkSupportedBwModes`: full only.
pub fn nvlink_supported_bw_modes(gpu: Gpu, out: Out<NvlinkBwModes>) -> Answer {
    modes(&gpu)?;
    let mut info = out.get();
    info.modes = [0; 23];
    info.count = 1;
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetNvlinkBwMode`: full.
pub fn nvlink_bw_mode(gpu: Gpu, out: Out<NvlinkBwMode>) -> Answer {
    modes(&gpu)?;
    let mut info = out.get();
    info.best = 1;
    info.mode = 0;
    out.set(info);
    Ok(())
}

/// `nvmlSystemGetNvlinkBwMode`: full, if any visible GPU has links with modes.
pub fn system_nvlink_bw_mode(s: &Session, out: Out<u32>) -> Answer {
    let hopper = |&gpu: &u32| {
        let gpu = s.at(gpu as usize);
        gpu.board().architecture >= 9 && has_links(&gpu)
    };
    if !s.visible().iter().any(hopper) {
        return Err(Fault::NotSupported);
    }
    out.set(0);
    Ok(())
}

/// `nvmlDeviceReadPRMCounters_v1`: recovery counters of NVLink 5 ports; others are refused one by one.
pub fn prm_counters(gpu: Gpu, out: Out<PrmCounterList>) -> Answer {
    modes(&gpu)?;
    let list = out.get();
    if list.count == 0 || list.counters.is_null() {
        return Err(Fault::InvalidArgument);
    }
    let first = crate::arg::out(list.counters)?;
    let recoveries = live!(gpu, nvlink_recoveries);
    for at in 0..list.count as usize {
        let mut counter = first.nth(at).get();
        let port = counter.port.wrapping_sub(1);
        let value = match counter.id {
            _ if port >= gpu.board().nvlink_links => Err(Fault::InvalidArgument),
            1 => Ok(u64::from(!is_up(&gpu, port))),
            2 | 101 => Ok(share(&gpu, recoveries, port)),
            _ => Err(Fault::NotSupported),
        };
        counter.kind = 3;
        counter.code = value.map_or_else(Fault::code, |_| 0);
        counter.value = value.unwrap_or_default();
        first.nth(at).set(counter);
    }
    Ok(())
}

/// `nvmlDeviceReadWritePRM_v1`: raw registers are for root.
pub fn read_write_prm(gpu: Gpu, _: Out<u32>) -> Answer {
    modes(&gpu)?;
    Err(Fault::NoPermission)
}
