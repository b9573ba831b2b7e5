//! Bytes on PCIe and NVLink.

use mirage_model::board::Board;

use crate::chance::{Channel, Noise};
use crate::gpu::Gpu;
use crate::load::Load;

/// One replay in this many cells of noise, about one a day and board.
const REPLAY_ODDS: f64 = 1.0 / 20_000.0;
/// Housekeeping traffic of an idle device, bytes per second.
const CHATTER: f64 = 50_000.0;

/// Bytes per second of one lane, by generation.
fn lane(generation: u32) -> f64 {
    match generation {
        0 | 1 => 0.25e9,
        2 => 0.5e9,
        3 => 0.985e9,
        4 => 1.969e9,
        5 => 3.938e9,
        _ => 7.563e9,
    }
}

/// Sets rates and totals of both links.
pub(super) fn run(gpu: &mut Gpu, board: &Board, load: &Load, noise: &Noise, secs: f64) {
    let r = &mut gpu.readings;
    // Boards that drop their P-state drop their PCIe generation too.
    let generation = if r.pstate == 0 { board.pcie_gen_max } else { 1 };
    r.pcie_gen = u8::try_from(generation).unwrap_or(u8::MAX);
    r.pcie_width = u8::try_from(board.pcie_width_max).unwrap_or(u8::MAX);
    if noise.fresh_cell() && noise.draw(Channel::Replay) < REPLAY_ODDS {
        r.pcie_replays = r.pcie_replays.saturating_add(1);
    }

    let swing = 1.0 + 0.15 * noise.wave(Channel::Link);
    let tilt = 0.15 * noise.wave(Channel::Direction);
    let both = |peak: f64, share: f64| {
        let rate = peak * share * swing;
        let cap = |x: f64| x.clamp(0.0, peak) as u64;
        (cap(rate * (1.0 + tilt)), cap(rate * (1.0 - tilt)))
    };
    let peak = lane(generation) * f64::from(board.pcie_width_max);
    // With NVLink, peers talk there and PCIe carries only what comes from the host.
    let share = if board.nvlink.is_some() { 0.2 } else { 0.7 };
    let chatter = (CHATTER / peak.max(1.0)).min(1.0);
    (r.pcie_tx_bps, r.pcie_rx_bps) = both(peak, load.link * share + chatter);

    r.nvlink_up = 0;
    (r.nvlink_tx_bps, r.nvlink_rx_bps) = (0, 0);
    if let Some(link) = &board.nvlink {
        let all = 1u32.checked_shl(link.links).map_or(u32::MAX, |bit| bit - 1);
        r.nvlink_up = all & !gpu.ailments.links_down;
        // MIG switches peer traffic off.
        if !r.mig {
            let peak = f64::from(r.nvlink_up.count_ones()) * link.gbs_per_link * 1e9;
            (r.nvlink_tx_bps, r.nvlink_rx_bps) = both(peak, load.link);
        }
    }
    let grow = |total: &mut u64, rate: u64| {
        *total = total.saturating_add((rate as f64 * secs).round() as u64);
    };
    grow(&mut r.pcie_tx_bytes, r.pcie_tx_bps);
    grow(&mut r.pcie_rx_bytes, r.pcie_rx_bps);
    grow(&mut r.nvlink_tx_bytes, r.nvlink_tx_bps);
    grow(&mut r.nvlink_rx_bytes, r.nvlink_rx_bps);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mirage_model::catalogue;
    use mirage_model::plan::GpuPlan;

    use super::*;
    use crate::chance::{Moment, Seed};

    #[test]
    fn replays_are_rare_but_come() {
        let board = catalogue::board("a100-sxm4-40gb").unwrap();
        let plan = GpuPlan {
            board: board.clone(),
            given: None,
        };
        let mut gpu = Gpu::new("node-a", 0, &plan);
        let second = Duration::from_secs(1);
        for cell in 1..60_000 {
            let moment = Moment::new(4 * cell * second, second);
            let noise = Seed::new(2).noise(gpu.stream, moment);
            run(&mut gpu, &board, &Load::default(), &noise, 1.0);
        }
        let replays = gpu.readings.pcie_replays;
        assert!((1..=10).contains(&replays), "3 expected, {replays} came");
    }
}
