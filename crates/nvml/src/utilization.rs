//! How busy a device is: engines, samples of the last tick, time spent throttled.

use mirage_state::layout::valid;

use crate::abi::{DynamicPstates, FbcStats, Sample, Utilization, ViolationTime};
use crate::arg::{List, Out};
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::view::SAMPLING_US;

/// The window of engine readings, µs.
const PERIOD_US: u32 = SAMPLING_US as u32;

/// `nvmlDeviceGetUtilizationRates`.
pub fn utilization_rates(gpu: Gpu, out: Out<Utilization>) -> Answer {
    gpu.require(valid::UTILIZATION)?;
    out.set(Utilization {
        gpu: live!(gpu, gpu_percent),
        memory: live!(gpu, memory_percent),
    });
    Ok(())
}

fn engine(gpu: Gpu, group: u64, percent: u32, out: Out<u32>, period: Out<u32>) -> Answer {
    gpu.require(group)?;
    out.set(percent);
    period.set(PERIOD_US);
    Ok(())
}

/// `nvmlDeviceGetEncoderUtilization`.
pub fn encoder_utilization(gpu: Gpu, out: Out<u32>, period: Out<u32>) -> Answer {
    engine(
        gpu,
        valid::ENCODER,
        live!(gpu, encoder_percent),
        out,
        period,
    )
}

/// `nvmlDeviceGetDecoderUtilization`.
pub fn decoder_utilization(gpu: Gpu, out: Out<u32>, period: Out<u32>) -> Answer {
    engine(
        gpu,
        valid::DECODER,
        live!(gpu, decoder_percent),
        out,
        period,
    )
}

/// `nvmlDeviceGetJpgUtilization`.
pub fn jpg_utilization(gpu: Gpu, out: Out<u32>, period: Out<u32>) -> Answer {
    engine(gpu, valid::JPEG, live!(gpu, jpeg_percent), out, period)
}

/// `nvmlDeviceGetOfaUtilization`.
pub fn ofa_utilization(gpu: Gpu, out: Out<u32>, period: Out<u32>) -> Answer {
    engine(gpu, valid::OFA, live!(gpu, ofa_percent), out, period)
}

/// `nvmlDeviceGetEncoderCapacity`: what the encoders do not do now.
pub fn encoder_capacity(gpu: Gpu, _: u32, out: Out<u32>) -> Answer {
    if gpu.board().encoders == 0 {
        return Err(Fault::NotSupported);
    }
    out.set(100 - live!(gpu, encoder_percent).min(100));
    Ok(())
}

/// `nvmlDeviceGetEncoderStats`: no session is simulated, so none is reported.
pub fn encoder_stats(gpu: Gpu, sessions: Out<u32>, fps: Out<u32>, latency: Out<u32>) -> Answer {
    if gpu.mig() {
        return Err(Fault::NotSupported);
    }
    sessions.set(0);
    fps.set(0);
    latency.set(0);
    Ok(())
}

/// `nvmlDeviceGetEncoderSessions`.
pub fn encoder_sessions(gpu: Gpu, count: Out<u32>, entries: *mut [u32; 8]) -> Answer {
    if gpu.board().encoders == 0 || gpu.mig() {
        return Err(Fault::NotSupported);
    }
    List::new(count, entries)?.finish()
}

/// `nvmlDeviceGetFBCStats`.
pub fn fbc_stats(gpu: Gpu, out: Out<FbcStats>) -> Answer {
    if gpu.mig() {
        return Err(Fault::NotSupported);
    }
    out.set(FbcStats::default());
    Ok(())
}

/// `nvmlDeviceGetFBCSessions`.
pub fn fbc_sessions(gpu: Gpu, count: Out<u32>, entries: *mut [u32; 12]) -> Answer {
    if gpu.mig() {
        return Err(Fault::NotSupported);
    }
    List::new(count, entries)?.finish()
}

/// `nvmlDeviceGetDynamicPstatesInfo`: graphics, frame buffer, video, bus.
pub fn dynamic_pstates_info(gpu: Gpu, out: Out<DynamicPstates>) -> Answer {
    gpu.require(valid::UTILIZATION)?;
    let live = gpu.live();
    let board = gpu.board();
    let bus = live.pcie_tx_bps.max(live.pcie_rx_bps) / 1_000_000;
    let bus_max = u64::from(crate::pcie::lane_mbs(live.pcie_gen)) * u64::from(live.pcie_width);
    let video = live.encoder_percent.max(live.decoder_percent);
    let busy = [
        (true, live.gpu_percent),
        (true, live.memory_percent),
        (board.encoders + board.decoders > 0, video),
        (
            bus_max > 0,
            (bus * 100).checked_div(bus_max).unwrap_or(0).min(100) as u32,
        ),
    ];
    let mut info = DynamicPstates::default();
    for (domain, (present, percent)) in info.domains.iter_mut().zip(busy) {
        *domain = [present.into(), percent, 0, 0];
    }
    out.set(info);
    Ok(())
}

/// `nvmlDeviceGetSamples`: the newest sample, if it is news to the caller.
pub fn samples(
    gpu: Gpu,
    kind: u32,
    seen_us: u64,
    value_kind: Out<u32>,
    count: Out<u32>,
    entries: *mut Sample,
) -> Answer {
    if !entries.is_null() && count.get() == 0 {
        return Err(Fault::InvalidArgument);
    }
    let live = gpu.live();
    let (group, value) = match kind {
        0 => (0, live.power_mw),
        1 => (valid::UTILIZATION, live.gpu_percent),
        2 => (valid::UTILIZATION, live.memory_percent),
        3 => (valid::ENCODER, live.encoder_percent),
        4 => (valid::DECODER, live.decoder_percent),
        5 => (0, live.sm_mhz),
        6 => (0, live.mem_mhz),
        7 => (valid::MODULE_POWER, live.module_power_mw),
        8 => (valid::JPEG, live.jpeg_percent),
        _ => (valid::OFA, live.ofa_percent),
    };
    if group != 0 && live.valid & group == 0 {
        return Err(Fault::NotSupported);
    }
    value_kind.set(1);
    if entries.is_null() {
        count.set(1);
        return Ok(());
    }
    let time_us = gpu.session.sampled_us();
    if time_us <= seen_us {
        return Err(Fault::NotFound);
    }
    let mut list = List::sizing(count, entries);
    list.push(Sample {
        time_us,
        value: value.into(),
    });
    list.finish()
}

/// `nvmlDeviceGetViolationStatus`.
pub fn violation_status(gpu: Gpu, policy: u32, out: Out<ViolationTime>) -> Answer {
    let times = gpu.live().violations;
    let violation_ns = match policy {
        0 => times.power_ns,
        1 => times.thermal_ns,
        2 => times.sync_boost_ns,
        3 => times.board_limit_ns,
        4 => times.low_utilization_ns,
        5 => times.reliability_ns,
        10 => times.app_clocks_ns,
        11 => times.base_clocks_ns,
        _ => return Err(Fault::InvalidArgument),
    };
    out.set(ViolationTime {
        reference_us: gpu.session.now_us(),
        violation_ns,
    });
    Ok(())
}
