//! A device that is off the bus: it draws nothing, cools down and counts nothing.

use super::warm;
use crate::gpu::Gpu;
use crate::mig::Ratios;

/// Lets time pass on a lost device.
pub(super) fn run(gpu: &mut Gpu, secs: f64) {
    let board = gpu.board.clone();
    warm(gpu, &board, 0.0, 0.0, secs);
    let r = &mut gpu.readings;
    r.temperature_c = gpu.heat.die_c as i16;
    r.memory_temperature_c = gpu.heat.memory_c as i16;
    r.reasons = 0;
    for value in [
        &mut r.power_mw,
        &mut r.power_average_mw,
        &mut r.memory_power_mw,
    ] {
        *value = 0;
    }
    for value in [&mut r.sm_mhz, &mut r.mem_mhz, &mut r.video_mhz] {
        *value = 0;
    }
    for value in [
        &mut r.gpu_percent,
        &mut r.memory_percent,
        &mut r.encoder_percent,
        &mut r.decoder_percent,
        &mut r.jpeg_percent,
        &mut r.ofa_percent,
    ] {
        *value = 0;
    }
    for value in [
        &mut r.gr_engine_ppm,
        &mut r.sm_active_ppm,
        &mut r.sm_occupancy_ppm,
        &mut r.tensor_ppm,
        &mut r.dram_ppm,
        &mut r.fp64_ppm,
        &mut r.fp32_ppm,
        &mut r.fp16_ppm,
        &mut r.int_ppm,
    ] {
        *value = 0;
    }
    for value in [
        &mut r.pcie_tx_bps,
        &mut r.pcie_rx_bps,
        &mut r.nvlink_tx_bps,
        &mut r.nvlink_rx_bps,
        &mut r.memory_used,
        &mut r.bar1_used,
    ] {
        *value = 0;
    }
    r.nvlink_up = 0;
    gpu.heat.hold_s = 0.0;
    for gi in gpu.mig.iter_mut().flat_map(|mig| &mut mig.instances) {
        gi.memory_used = 0;
        for ci in &mut gi.compute {
            ci.ratios = Ratios::default();
        }
    }
}
