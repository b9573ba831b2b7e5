//! GPM: profiling metrics from two samples of a device. Metrics that grow are told by their growth between the samples,
//! the others by the later sample.

mod names;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mirage_state::layout::{Instance, Live, valid};

use crate::abi::{GpmMetric, GpmRequest, GpmSupport};
use crate::arg::Out;
use crate::code::{Answer, Fault};
use crate::device::{Gpu, live};
use crate::handle::{Handle, Kind};
use crate::nvlink;
use crate::session::Session;
use crate::slots::{self, Slot, Turn};

/// Hopper, the first architecture with GPM.
const HOPPER: u32 = 9;
/// Version of the request and of the support query: plain numbers, not version words.
const VERSION: u32 = 1;
/// Metrics the newest NVML has room for in a request; older ones have less.
const MOST: u32 = 477;
/// Samples a process can have at once.
const SAMPLES: usize = 2048;

/// What a sample holds, one word each.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Word {
    /// 1 + the GPU's index; 0 in a sample never taken.
    Gpu,
    Time,
    Instance,
    Graphics,
    Sm,
    Occupancy,
    Integer,
    Tensor,
    Dram,
    Fp64,
    Fp32,
    Fp16,
    Decoder,
    Jpeg,
    Ofa,
    PcieTxRate,
    PcieRxRate,
    PcieTx,
    PcieRx,
    LinkTxRate,
    LinkRxRate,
    LinkTx,
    LinkRx,
}
const WORDS: usize = Word::LinkRx as usize + 1;

struct Sample {
    turn: Turn,
    words: [AtomicU64; WORDS],
}

impl Slot for Sample {
    fn turn(&self) -> &Turn {
        &self.turn
    }
}

impl Sample {
    fn get(&self, word: Word) -> u64 {
        self.words[word as usize].load(Relaxed)
    }

    fn set(&self, word: Word, value: u64) {
        self.words[word as usize].store(value, Relaxed);
    }
}

static ALL: [Sample; SAMPLES] = [const {
    Sample {
        turn: Turn::new(),
        words: [const { AtomicU64::new(0) }; WORDS],
    }
}; SAMPLES];

fn sample(handle: Handle) -> Result<&'static Sample, Fault> {
    slots::find(&ALL, Kind::Sample, handle)
}

fn supported(gpu: &Gpu) -> bool {
    gpu.board().architecture >= HOPPER
}

/// `nvmlGpmSampleAlloc`.
pub fn gpm_sample_alloc(_: &Session, to: Out<Handle>) -> Answer {
    to.set(slots::take(&ALL, Kind::Sample, |sample| {
        sample.set(Word::Gpu, 0)
    })?);
    Ok(())
}

/// `nvmlGpmSampleFree`.
pub fn gpm_sample_free(_: &Session, handle: Handle) -> Answer {
    slots::give(&ALL, Kind::Sample, handle)
}

/// Frees every sample.
pub fn free_all() {
    slots::give_all(&ALL);
}

/// `nvmlGpmQueryDeviceSupport`.
pub fn gpm_query_device_support(gpu: Gpu, to: Out<GpmSupport>) -> Answer {
    let mut info = to.get();
    if info.version != VERSION {
        return Err(Fault::VersionMismatch);
    }
    info.supported = supported(&gpu).into();
    to.set(info);
    Ok(())
}

/// `nvmlGpmQueryIfStreamingEnabled`: samples are taken when asked for.
pub fn gpm_query_if_streaming_enabled(gpu: Gpu, to: Out<u32>) -> Answer {
    if !supported(&gpu) {
        return Err(Fault::NotSupported);
    }
    to.set(0);
    Ok(())
}

/// `nvmlGpmSetStreamingEnabled`: for root.
pub fn gpm_set_streaming_enabled(gpu: Gpu, _: u32) -> Answer {
    Err(if supported(&gpu) {
        Fault::NoPermission
    } else {
        Fault::NotSupported
    })
}

/// `nvmlGpmSampleGet`.
pub fn gpm_sample_get(gpu: Gpu, handle: Handle) -> Answer {
    let sample = sample(handle)?;
    if !supported(&gpu) {
        return Err(Fault::NotSupported);
    }
    keep(sample, &gpu, &gpu.live(), None);
    Ok(())
}

/// `nvmlGpmMigSampleGet`: of one GPU instance.
pub fn gpm_mig_sample_get(gpu: Gpu, gi: u32, handle: Handle) -> Answer {
    let sample = sample(handle)?;
    if !supported(&gpu) || !gpu.mig() {
        return Err(Fault::NotSupported);
    }
    let instance = gpu_instance(&gpu, gi).ok_or(Fault::InvalidArgument)?;
    keep(sample, &gpu, &gpu.live(), Some(&instance));
    Ok(())
}

/// What a GPU instance does: its compute instances together, each by its share of the multiprocessors. Memory traffic is
/// told as a share of the GPU instance's already.
fn gpu_instance(gpu: &Gpu, gi: u32) -> Option<Instance> {
    let session = gpu.session;
    let here = |i: &Instance| {
        i.gpu as usize == gpu.index && i.gi == gi && i.ci != u32::MAX && session.shows(i)
    };
    session.tables(|tables| {
        let mut all: Option<Instance> = None;
        for one in tables.instances().filter(here) {
            let sms = session
                .compute_profile(one.compute_profile)
                .map(|p| p.sm_count);
            let of = session.gpu_profile(one.gpu_profile).map(|p| p.sm_count);
            let part = |ppm: u32| match (sms, of) {
                (Some(sms), Some(of @ 1..)) if sms < of => {
                    (u64::from(ppm) * u64::from(sms) / u64::from(of)) as u32
                }
                _ => ppm,
            };
            let add = |sum: &mut u32, more: u32| *sum = sum.saturating_add(more);
            let sum = all.get_or_insert(Instance {
                gi,
                ..Instance::default()
            });
            add(&mut sum.gr_engine_ppm, part(one.gr_engine_ppm));
            add(&mut sum.sm_active_ppm, part(one.sm_active_ppm));
            add(&mut sum.sm_occupancy_ppm, part(one.sm_occupancy_ppm));
            add(&mut sum.tensor_ppm, part(one.tensor_ppm));
            add(&mut sum.dram_ppm, one.dram_ppm);
            add(&mut sum.fp64_ppm, part(one.fp64_ppm));
            add(&mut sum.fp32_ppm, part(one.fp32_ppm));
            add(&mut sum.fp16_ppm, part(one.fp16_ppm));
        }
        all
    })
}

fn keep(sample: &Sample, gpu: &Gpu, live: &Live, instance: Option<&Instance>) {
    let busy = !gpu.session.is_idle();
    let part = |of: fn(&Instance) -> u32, whole: u32| {
        u64::from(instance.map_or(whole, |i| if busy { of(i) } else { 0 }))
    };
    sample.set(Word::Gpu, gpu.index as u64 + 1);
    sample.set(Word::Time, gpu.session.now_us());
    sample.set(
        Word::Instance,
        instance.map_or(u64::MAX, |instance| instance.gi.into()),
    );
    sample.set(
        Word::Graphics,
        part(|i| i.gr_engine_ppm, live.gr_engine_ppm),
    );
    sample.set(Word::Sm, part(|i| i.sm_active_ppm, live.sm_active_ppm));
    sample.set(
        Word::Occupancy,
        part(|i| i.sm_occupancy_ppm, live.sm_occupancy_ppm),
    );
    sample.set(Word::Tensor, part(|i| i.tensor_ppm, live.tensor_ppm));
    sample.set(Word::Dram, part(|i| i.dram_ppm, live.dram_ppm));
    sample.set(Word::Fp64, part(|i| i.fp64_ppm, live.fp64_ppm));
    sample.set(Word::Fp32, part(|i| i.fp32_ppm, live.fp32_ppm));
    sample.set(Word::Fp16, part(|i| i.fp16_ppm, live.fp16_ppm));
    sample.set(Word::Integer, u64::from(live.int_ppm));
    sample.set(Word::Decoder, u64::from(live.decoder_percent));
    sample.set(Word::Jpeg, u64::from(live.jpeg_percent));
    sample.set(Word::Ofa, u64::from(live.ofa_percent));
    sample.set(Word::PcieTxRate, live.pcie_tx_bps);
    sample.set(Word::PcieRxRate, live.pcie_rx_bps);
    sample.set(Word::PcieTx, live.pcie_tx_bytes);
    sample.set(Word::PcieRx, live.pcie_rx_bytes);
    sample.set(Word::LinkTxRate, live.nvlink_tx_bps);
    sample.set(Word::LinkRxRate, live.nvlink_rx_bps);
    sample.set(Word::LinkTx, live.nvlink_tx_bytes);
    sample.set(Word::LinkRx, live.nvlink_rx_bytes);
}

/// `nvmlGpmMetricsGet`: as many metrics as the request counts, whatever size its struct has.
pub fn gpm_metrics_get(s: &Session, request: Out<GpmRequest>) -> Answer {
    let asked = request.get();
    if asked.version != VERSION {
        return Err(Fault::VersionMismatch);
    }
    if asked.count == 0 || asked.count > MOST {
        return Err(Fault::InvalidArgument);
    }
    let (first, second) = (sample(asked.first)?, sample(asked.second)?);
    let gpu = second.get(Word::Gpu);
    if gpu == 0 || gpu != first.get(Word::Gpu) || gpu > s.gpus() as u64 {
        return Err(Fault::InvalidArgument);
    }
    let gpu = s.usable(gpu as usize - 1)?;
    let metrics = request.field::<GpmMetric>(size_of::<GpmRequest>());
    for at in 0..asked.count as usize {
        let mut metric = metrics.nth(at).get();
        let found = measure(&gpu, metric.id, first, second);
        metric.code = found.map_or_else(Fault::code, |_| 0);
        metric.value = found.unwrap_or_default();
        if let Some((short, long, unit)) = names::of(metric.id) {
            metric.short_name = short.as_ptr();
            metric.long_name = long.as_ptr();
            metric.unit = unit.as_ptr();
        }
        metrics.nth(at).set(metric);
    }
    Ok(())
}

/// A metric in percent or MiB/s.
fn measure(gpu: &Gpu, id: u32, first: &Sample, second: &Sample) -> Result<f64, Fault> {
    let percent = |word| Ok(second.get(word) as f64 / 10_000.0);
    let mib = |count: Word, rate: Word| {
        let passed = second.get(Word::Time).saturating_sub(first.get(Word::Time)) as f64 / 1e6;
        let grown = second.get(count).saturating_sub(first.get(count)) as f64;
        // Samples of one tick know no growth, only the tick's rate.
        let rate = if passed > 0.0 {
            grown / passed
        } else {
            second.get(rate) as f64
        };
        rate / f64::from(1 << 20)
    };
    let board = gpu.board();
    let valid = live!(gpu, valid);
    // Under MIG nobody tells how busy an engine is.
    let engine = |at: u32, engines: u32, group: u64, word: Word| {
        if at < engines && valid & group != 0 {
            Ok(second.get(word) as f64)
        } else {
            Err(Fault::NotSupported)
        }
    };
    match id {
        1..=13 if valid & valid::PROFILING == 0 && second.get(Word::Instance) == u64::MAX => {
            Err(Fault::NotSupported)
        }
        1 => percent(Word::Graphics),
        2 => percent(Word::Sm),
        3 => percent(Word::Occupancy),
        // The state knows it of whole GPUs only.
        4 if second.get(Word::Instance) != u64::MAX => Err(Fault::NotSupported),
        4 => percent(Word::Integer),
        5 | 7 => percent(Word::Tensor),
        // The tensor pipe is told as one kind of work: half precision.
        6 | 8 | 9 => Ok(0.0),
        10 => percent(Word::Dram),
        11 => percent(Word::Fp64),
        12 => percent(Word::Fp32),
        13 => percent(Word::Fp16),
        20 => Ok(mib(Word::PcieTx, Word::PcieTxRate)),
        21 => Ok(mib(Word::PcieRx, Word::PcieRxRate)),
        30..=37 => engine(id - 30, board.decoders, valid::DECODER, Word::Decoder),
        40..=47 => engine(id - 40, board.jpeg_engines, valid::JPEG, Word::Jpeg),
        50..=51 => engine(id - 50, board.ofa_engines, valid::OFA, Word::Ofa),
        60..=97 if !nvlink::has_links(gpu) => Err(Fault::NotSupported),
        60 => Ok(mib(Word::LinkRx, Word::LinkRxRate)),
        61 => Ok(mib(Word::LinkTx, Word::LinkTxRate)),
        62..=97 => {
            let link = (id - 62) / 2;
            nvlink::link(gpu, link)?;
            let all = if id.is_multiple_of(2) {
                mib(Word::LinkRx, Word::LinkRxRate)
            } else {
                mib(Word::LinkTx, Word::LinkTxRate)
            };
            Ok(all / f64::from(board.nvlink_links))
        }
        0 | MOST.. => Err(Fault::InvalidArgument),
        _ => Err(Fault::NotSupported),
    }
}
