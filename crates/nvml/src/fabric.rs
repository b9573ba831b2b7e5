//! The NVLink fabric a GPU has joined.

use crate::abi::{FabricInfo, FabricInfoV2, FabricInfoV3, FabricInfoV4};
use crate::arg::{Out, Versioned};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::nvlink;

/// Registration went through.
const COMPLETED: u32 = 3;
/// In the health mask: no degraded bandwidth, no route recovery, no unhealthy route, no access timeout.
const HEALTHY: u32 = 0b10_10_10_10;
const DEGRADED: u32 = 0b10_10_10_01;

struct Membership {
    state: u32,
    clique: u32,
    cluster: [u8; 16],
    health: u32,
    summary: u8,
}

/// Where a GPU stands; links that are down degrade its bandwidth.
fn membership(gpu: &Gpu) -> Result<Membership, Fault> {
    let card = gpu.card();
    if card.fabric_state == 0 {
        return Err(Fault::NotSupported);
    }
    let joined = card.fabric_state == COMPLETED;
    let links = live!(gpu, nvlink_up).count_ones();
    let whole = !nvlink::has_links(gpu) || links >= gpu.board().nvlink_links;
    Ok(Membership {
        state: card.fabric_state,
        clique: if joined { card.clique } else { 0 },
        cluster: if joined { card.cluster } else { [0; 16] },
        health: if whole { HEALTHY } else { DEGRADED },
        summary: if whole { 1 } else { 3 },
    })
}

/// `nvmlDeviceGetGpuFabricInfo`.
pub fn gpu_fabric_info(gpu: Gpu, out: Out<FabricInfo>) -> Answer {
    let Membership {
        state,
        clique,
        cluster,
        ..
    } = membership(&gpu)?;
    out.set(FabricInfo {
        cluster,
        status: 0,
        clique,
        state,
    });
    Ok(())
}

/// `nvmlDeviceGetGpuFabricInfoV`, second and third version.
pub fn gpu_fabric_info_v(gpu: Gpu, out: Out<u32>) -> Answer {
    let version = out.get();
    if version != FabricInfoV2::WORD && version != FabricInfoV3::WORD {
        return Err(Fault::VersionMismatch);
    }
    let Membership {
        state,
        clique,
        cluster,
        health,
        summary,
    } = membership(&gpu)?;
    // The third version appends the summary to the second.
    out.cast().set(FabricInfoV2 {
        version,
        cluster,
        status: 0,
        clique,
        state,
        health,
    });
    if version == FabricInfoV3::WORD {
        out.field::<u8>(std::mem::offset_of!(FabricInfoV3, summary))
            .set(summary);
    }
    Ok(())
}

/// `nvmlDeviceGetGpuFabricInfo_v4`: one clique, of the kind that memory is shared in.
pub fn gpu_fabric_info_v4(gpu: Gpu, out: Out<FabricInfoV4>) -> Answer {
    let Membership {
        state,
        clique,
        cluster,
        health,
        summary,
    } = membership(&gpu)?;
    let mut cliques = [[0; 2]; 64];
    cliques[0] = [0, clique];
    let count = u32::from(state == COMPLETED);
    out.set(FabricInfoV4 {
        cluster,
        status: 0,
        cliques,
        count,
        state,
        health,
        summary,
        pad: [0; 3],
    });
    Ok(())
}
