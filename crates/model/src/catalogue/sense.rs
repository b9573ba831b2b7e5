//! Whether a board's figures fit together: limits in order, sizes that exist, placements
//! inside the board. What passes here cannot trip the physics or the state layout.

use crate::board::Board;
use crate::mig::Geometry;

/// Most memory slices; the state keeps placements in 64 bits.
const MAX_SLICES: u32 = 64;
/// Most memory of a board: a pebibyte, so that no sum of bytes overflows.
const MAX_MEMORY_MIB: u64 = 1 << 30;
/// Most GPUs in a node and NVLinks on a GPU that anything downstream counts.
const MAX_GPUS: u32 = 1024;
const MAX_LINKS: u32 = 32;

/// Everything that does not fit, in words.
pub(super) fn check(board: &Board) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, rule: &str| {
        if !holds {
            wrong.push(rule.to_owned());
        }
    };
    let p = &board.power;
    let positive = p.idle_w > 0.0 && p.min_w > 0.0;
    expect(positive, "power must be above 0 W");
    let ordered = p.idle_w < p.default_w && p.min_w <= p.default_w && p.default_w <= p.max_w;
    expect(
        ordered,
        "power must rise: idle < default, min <= default <= max",
    );

    let t = &board.thermal;
    let ordered = t.inlet_c < t.max_operating_c
        && t.max_operating_c < t.slowdown_c
        && t.slowdown_c < t.shutdown_c;
    expect(
        ordered,
        "temperatures must rise: inlet < max-operating < slowdown < shutdown",
    );
    let real = t.resistance_c_per_w > 0.0 && t.tau_s > 0.0;
    expect(real, "resistance-c-per-w and tau-s must be above 0");

    let c = &board.clocks;
    let ordered = c.sm_min_mhz <= c.sm_default_mhz
        && c.sm_default_mhz <= c.sm_max_mhz
        && c.sm_idle_mhz < c.sm_max_mhz
        && c.mem_idle_mhz <= c.mem_max_mhz;
    expect(
        ordered,
        "clocks must rise: min <= default <= max, idle < max",
    );
    expect(c.sm_step_khz >= 1000, "sm-step-mhz must be at least 1");

    let total = board.memory_total_mib;
    let sized = board.memory_reserved_mib < total && total <= MAX_MEMORY_MIB;
    expect(
        sized,
        "memory must be more than what is reserved, at most 1 PiB",
    );
    expect(board.sm_count > 0, "sm-count must be above 0");
    let counted = (1..=MAX_GPUS).contains(&board.gpus_per_node) && board.gpus_per_serial > 0;
    expect(
        counted,
        "gpus-per-node must be 1 to 1024, gpus-per-serial above 0",
    );
    expect(!board.pci_slots.is_empty(), "pci-slots needs a slot");
    let links = board.nvlink.as_ref().map_or(1, |link| link.links);
    expect(
        (1..=MAX_LINKS).contains(&links),
        "nvlink-links must be 1 to 32",
    );
    let switches = board.nvlink.as_ref().map_or(0, |link| link.switches);
    expect(
        switches <= links,
        "nvlink-switches must be 0 to nvlink-links: each GPU has a link to each",
    );
    let long = [&board.name, &board.product]
        .iter()
        .any(|text| text.len() > 63);
    let wide = [&board.key, &board.brand, &board.architecture, &board.vbios];
    let wide = wide.iter().any(|text| text.len() > 31);
    expect(
        !long && !wide,
        "names have at most 63 bytes, key, brand, architecture and vbios 31",
    );
    if let Some(mig) = &board.mig {
        expect(
            is_placeable(mig),
            "placements must lie inside the memory slices",
        );
        let fits = mig
            .profiles
            .iter()
            .all(|profile| profile.memory_mib <= total && profile.sm_count <= board.sm_count);
        expect(fits, "a profile is larger than the board");
    }
    wrong
}

fn is_placeable(mig: &Geometry) -> bool {
    let inside = |starts: &[u32], size: u32, slices: u32| {
        size > 0
            && !starts.is_empty()
            && starts
                .iter()
                .all(|start| start.checked_add(size).is_some_and(|end| end <= slices))
    };
    (1..=MAX_SLICES).contains(&mig.memory_slices)
        && mig.profiles.iter().all(|profile| {
            inside(
                &profile.placement_starts,
                profile.placement_size,
                mig.memory_slices,
            ) && profile.slices <= MAX_SLICES
                && profile.compute.iter().all(|compute| {
                    inside(
                        &compute.placement_starts,
                        compute.placement_size,
                        profile.slices,
                    )
                })
        })
}
