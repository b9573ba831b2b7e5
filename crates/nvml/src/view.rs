//! One opened state as this process sees it: the node's tables, which GPUs are visible and under which number, and what
//! a board shows when its engine is gone.

use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mirage_state::layout::{
    Board, Card, ComputeProfile, GpuProfile, Instance, Live, Process, flags, header_flags, text,
    vendors,
};
use mirage_state::lookup::{self, Source};
use mirage_state::visible::{self, Sources, Visible};
use mirage_state::{Error, Field, Freshness, Reader, Tables};

use crate::code::Fault;
use crate::device::{Gpu, MigDevice, Part, Target, gpu_instance_tag, instance_tag};
use crate::handle::{Handle, Kind, tag};

/// Between two samples of a board's readings, µs.
pub const SAMPLING_US: u64 = 167_000;

/// What a handle is checked against.
#[derive(Clone, Copy)]
struct Place {
    tag: u16,
    visible: bool,
}

/// A state in use.
pub struct Session {
    pub(crate) next: AtomicPtr<Session>,
    reader: Reader,
    sources: Sources,
    visible: Visible,
    places: Vec<Place>,
    /// The engine is gone and the file says to show idle boards.
    idle: AtomicBool,
}

impl Session {
    /// Opens the state this process is meant to see.
    pub fn open() -> Result<Session, Fault> {
        Session::new(find()?, Sources::gather())
    }

    fn new(reader: Reader, sources: Sources) -> Result<Session, Fault> {
        let instances = reader.tables(|tables| tables.instances().collect::<Vec<_>>());
        let mut visible = sources.decide(reader.cards(), &instances.unwrap_or_default());
        if !reader
            .cards()
            .iter()
            .all(|card| (card.board as usize) < reader.boards().len())
        {
            return Err(Fault::DriverNotLoaded);
        }
        // Boards of other makers have drivers of their own; where all are such, this one is not loaded.
        let theirs = |card: &Card| reader.boards()[card.board as usize].vendor != vendors::NVIDIA;
        if !reader.cards().is_empty() && reader.cards().iter().all(theirs) {
            return Err(Fault::DriverNotLoaded);
        }
        visible
            .gpus
            .retain(|&gpu| !theirs(&reader.cards()[gpu as usize]));
        let place = |(gpu, card): (u32, &Card)| Place {
            tag: tag(text(&card.uuid).as_bytes()),
            visible: visible.gpus.contains(&gpu),
        };
        let places = (0..).zip(reader.cards()).map(place).collect();
        let session = Session {
            next: AtomicPtr::new(null_mut()),
            reader,
            sources,
            visible,
            places,
            idle: AtomicBool::new(false),
        };
        session.look(mirage_state::clock::boottime_ns());
        Ok(session)
    }

    /// Whether another file has taken this one's place.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.reader.flags() & header_flags::RETIRED != 0
    }

    /// Judges the state by the clock and remembers whether to show idle boards.
    pub fn look(&self, now_boottime_ns: u64) -> Freshness {
        let freshness = self.reader.freshness(now_boottime_ns);
        let gone = matches!(freshness, Freshness::Stale | Freshness::Retired);
        let hold = self.reader.flags() & header_flags::HOLD_WHEN_STALE != 0;
        self.idle.store(gone && !hold, Relaxed);
        // Calls read single fields; this keeps a whole copy at hand for when the engine dies in the middle of one.
        for gpu in 0..self.reader.gpus() {
            self.reader.with_live(gpu, |_| ());
        }
        freshness
    }

    /// The state that has taken this one's place, if there is one.
    pub fn successor(&self, freshness: Freshness) -> Option<Session> {
        let path = self.reader.path()?;
        if freshness != Freshness::Retired && !self.reader.is_replaced() {
            return None;
        }
        let reader = Reader::open(path).ok()?;
        if reader.flags() & header_flags::RETIRED != 0 {
            return None;
        }
        Session::new(reader, self.sources.clone()).ok()
    }

    /// The control socket beside the state file.
    pub fn socket(&self) -> Option<PathBuf> {
        Some(self.reader.path()?.parent()?.join("control.sock"))
    }

    /// The state itself.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Driver version.
    pub fn driver(&self) -> &str {
        text(&self.reader.header().driver)
    }

    /// CUDA version as NVML writes it.
    pub fn cuda_version(&self) -> u32 {
        self.reader.header().cuda_version
    }

    /// The time of the last tick, µs; of a state without ticks, now.
    pub fn now_us(&self) -> u64 {
        match self.reader.unix_ms() {
            0 => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_micros() as u64),
            ms => ms * 1000,
        }
    }

    /// When the readings of now were sampled, µs: a board samples them several times a tick, by a clock that goes on after the
    /// tick as the wall's does, but not past the time of the next one.
    pub fn sampled_us(&self) -> u64 {
        let tick_us = self.now_us();
        let wall_us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64);
        let period_us = self.reader.header().period_ms.saturating_mul(1000);
        let into = wall_us
            .saturating_sub(tick_us)
            .min(period_us.saturating_sub(1));
        tick_us + into / SAMPLING_US * SAMPLING_US
    }

    /// Visible GPUs by their index on the node.
    #[inline]
    pub fn visible(&self) -> &[u32] {
        &self.visible.gpus
    }

    /// GPUs of the node, visible or not.
    pub fn gpus(&self) -> usize {
        self.places.len()
    }

    /// Who a GPU is.
    #[inline]
    pub fn card_record(&self, gpu: usize) -> &Card {
        &self.reader.cards()[gpu]
    }

    /// A board; every card's was checked to exist.
    #[inline]
    pub fn board_record(&self, board: u32) -> &Board {
        &self.reader.boards()[board as usize]
    }

    /// Whether boards show themselves idle, as their engine is gone and with it all that ran.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.idle.load(Relaxed)
    }

    /// What tells a GPU's handle from another's.
    pub fn tag(&self, gpu: usize) -> u16 {
        self.places[gpu].tag
    }

    /// A GPU of the node.
    #[inline]
    pub fn at(&self, gpu: usize) -> Gpu<'_> {
        Gpu {
            session: self,
            index: gpu,
        }
    }

    /// The profiles `first..first + count`, as far as they exist.
    pub fn gpu_profiles(&self, first: u32, count: u32) -> &[GpuProfile] {
        let end = first.saturating_add(count) as usize;
        self.reader
            .gpu_profiles()
            .get(first as usize..end)
            .unwrap_or_default()
    }

    /// One GPU-instance profile.
    pub fn gpu_profile(&self, index: u32) -> Option<&GpuProfile> {
        self.reader.gpu_profiles().get(index as usize)
    }

    /// The compute profiles of a GPU-instance profile.
    pub fn compute_profiles(&self, of: &GpuProfile) -> &[ComputeProfile] {
        let end = of.compute_first.saturating_add(of.compute_count) as usize;
        self.reader
            .compute_profiles()
            .get(of.compute_first as usize..end)
            .unwrap_or_default()
    }

    /// One compute-instance profile.
    pub fn compute_profile(&self, index: u32) -> Option<&ComputeProfile> {
        self.reader.compute_profiles().get(index as usize)
    }

    /// One field of a GPU's live record.
    #[inline]
    pub fn live_field<F: Field>(&self, gpu: usize, offset: usize, get: fn(&Live) -> F) -> F {
        if !self.is_idle()
            && let Some(value) = self.reader.field(gpu as u32, offset, get)
        {
            return value;
        }
        get(&self.live(gpu))
    }

    /// A GPU's live record, of one moment.
    pub fn live(&self, gpu: usize) -> Live {
        let live = self.reader.live_copy(gpu as u32);
        match live {
            Some(live) if !self.is_idle() => live,
            live => idle(self.at(gpu).board(), live.unwrap_or_default()),
        }
    }

    /// Runs `read` over the tables of one tick; see [`Reader::tables`].
    pub fn tables<R: Default>(&self, read: impl FnMut(&Tables<'_>) -> R) -> R {
        self.reader.tables(read).unwrap_or_default()
    }

    /// The first visible MIG record that `wanted` accepts.
    pub fn find_instance(&self, wanted: impl Fn(&Instance) -> bool) -> Option<Instance> {
        self.tables(|tables| tables.instances().find(|i| self.shows(i) && wanted(i)))
    }

    /// Whether a MIG record belongs to what this process sees.
    pub fn shows(&self, instance: &Instance) -> bool {
        let Instance { gpu, gi, ci, .. } = *instance;
        if (gpu as usize) >= self.gpus() {
            return false;
        }
        let whole = !self
            .visible
            .instances
            .iter()
            .any(|device| device.gpu == gpu);
        self.visible.gpus.contains(&gpu)
            && (whole || self.visible.shows(visible::MigDevice { gpu, gi, ci }))
    }

    /// Copies the name of a living process; false if there is none.
    pub fn process_name(&self, pid: u32, name: &mut [u8]) -> bool {
        self.tables(|tables| {
            let alive = |process: &Process| process.pid == pid && process.end_ms == 0;
            let Some(process) = tables.processes().find(alive) else {
                return false;
            };
            name.fill(0);
            let room = name.len() - 1;
            tables.text(process.name, &mut name[..room]) > 0
        })
    }

    /// The GPU of a handle, however it is doing.
    #[inline]
    pub fn card(&self, handle: Handle) -> Result<Gpu<'_>, Fault> {
        let Some(key) = handle.key(Kind::Gpu) else {
            return Err(self.not_a_gpu(handle));
        };
        let gpu = usize::from(key.index);
        match self.places.get(gpu) {
            Some(place) if place.visible && place.tag == key.tag => Ok(self.at(gpu)),
            _ => Err(Fault::InvalidArgument),
        }
    }

    /// Why a handle will not do where only GPUs do: a MIG device is known, but not supported.
    #[cold]
    fn not_a_gpu(&self, handle: Handle) -> Fault {
        match handle
            .key(Kind::MigDevice)
            .map(|_| self.target_card(handle))
        {
            Some(Ok(_)) => Fault::NotSupported,
            _ => Fault::InvalidArgument,
        }
    }

    /// The GPU of a handle, if it answers.
    #[inline]
    pub fn gpu(&self, handle: Handle) -> Result<Gpu<'_>, Fault> {
        self.usable(self.card(handle)?.index)
    }

    /// The GPU, if it answers: not one that is lost or has an injected failure.
    #[inline]
    pub fn usable(&self, gpu: usize) -> Result<Gpu<'_>, Fault> {
        // Single loads: these need not be of one moment, and every call pays for them.
        let at = gpu as u32;
        let flags = mirage_state::live!(self.reader, at, flags).unwrap_or_default();
        let delay_ms = mirage_state::live!(self.reader, at, api_delay_ms).unwrap_or_default();
        let code = mirage_state::live!(self.reader, at, api_code).unwrap_or_default();
        if flags & flags::LOST != 0 {
            return Err(Fault::GpuIsLost);
        }
        if delay_ms | code != 0 {
            hamper(delay_ms, code)?;
        }
        Ok(self.at(gpu))
    }

    /// The GPU or MIG device of a handle, however it is doing.
    pub fn target_card(&self, handle: Handle) -> Result<Target<'_>, Fault> {
        let Some(key) = handle.key(Kind::MigDevice) else {
            return Ok(Target::Gpu(self.card(handle)?));
        };
        let here = |i: &Instance| {
            (i.gpu, i.gi, i.ci) == (key.index.into(), key.gi.into(), key.ci.into())
                && instance_tag(i) == key.tag
        };
        let instance = self.find_instance(here).ok_or(Fault::InvalidArgument)?;
        Ok(Target::Mig(MigDevice {
            gpu: self.at(key.index.into()),
            instance: Part::from(&instance),
        }))
    }

    /// The GPU or MIG device of a handle, if it answers.
    #[inline(always)]
    pub fn target(&self, handle: Handle) -> Result<Target<'_>, Fault> {
        // Inlined with what follows, a GPU never becomes a `Target` in memory, which would cost as much as the call.
        if handle.key(Kind::Gpu).is_some() {
            return Ok(Target::Gpu(self.gpu(handle)?));
        }
        self.mig_target(handle)
    }

    #[cold]
    #[inline(never)]
    fn mig_target(&self, handle: Handle) -> Result<Target<'_>, Fault> {
        let target = self.target_card(handle)?;
        self.usable(target.gpu().index)?;
        Ok(target)
    }

    /// The GPU instance of a handle: any of its records.
    pub fn gpu_instance(&self, handle: Handle) -> Result<MigDevice<'_>, Fault> {
        let key = handle
            .key(Kind::GpuInstance)
            .ok_or(Fault::InvalidArgument)?;
        let here = |i: &Instance| {
            (i.gpu, i.gi) == (key.index.into(), key.gi.into())
                && gpu_instance_tag(i.gpu_profile, i.start) == key.tag
        };
        self.part(self.find_instance(here))
    }

    /// The compute instance of a handle.
    pub fn compute_instance(&self, handle: Handle) -> Result<MigDevice<'_>, Fault> {
        let key = handle
            .key(Kind::ComputeInstance)
            .ok_or(Fault::InvalidArgument)?;
        let here = |i: &Instance| {
            (i.gpu, i.gi, i.ci) == (key.index.into(), key.gi.into(), key.ci.into())
                && instance_tag(i) == key.tag
        };
        self.part(self.find_instance(here))
    }

    fn part(&self, found: Option<Instance>) -> Result<MigDevice<'_>, Fault> {
        let instance = found.ok_or(Fault::InvalidArgument)?;
        Ok(MigDevice {
            gpu: self.usable(instance.gpu as usize)?,
            instance: Part::from(&instance),
        })
    }
}

/// An injected failure of the interface: slow, or refused.
#[cold]
fn hamper(delay_ms: u32, code: u32) -> Result<(), Fault> {
    std::thread::sleep(Duration::from_millis(delay_ms.min(60_000).into()));
    if code != 0 {
        return Err(Fault::Code(code));
    }
    Ok(())
}

/// Finds and opens the state. A file that somebody named and that is not there is a driver that is not loaded.
fn find() -> Result<Reader, Fault> {
    let path = match lookup::find() {
        Source::File(path) => path,
        Source::Several(paths) => lookup::own(paths).ok_or(Fault::DriverNotLoaded)?,
        Source::BuiltIn => return mirage_state::built_in().map_err(|_| Fault::Unknown),
        Source::Nothing => return Err(Fault::DriverNotLoaded),
    };
    Reader::open(&path).map_err(|error| match error {
        Error::Malformed {
            source: mirage_state::Fault::Major(_),
            ..
        } => Fault::Code(LIBRARY_MISMATCH),
        _ => Fault::DriverNotLoaded,
    })
}

/// NVML's word for a driver that speaks another version than the library.
const LIBRARY_MISMATCH: u32 = 18;

/// What a board shows that nobody drives: its settings and counters stay, its activity ends.
fn idle(board: &Board, last: Live) -> Live {
    Live {
        reasons: 1,
        memory_used: 0,
        bar1_used: 0,
        pcie_tx_bps: 0,
        pcie_rx_bps: 0,
        nvlink_tx_bps: 0,
        nvlink_rx_bps: 0,
        gpu_percent: 0,
        memory_percent: 0,
        encoder_percent: 0,
        decoder_percent: 0,
        jpeg_percent: 0,
        ofa_percent: 0,
        gr_engine_ppm: 0,
        sm_active_ppm: 0,
        sm_occupancy_ppm: 0,
        tensor_ppm: 0,
        dram_ppm: 0,
        fp64_ppm: 0,
        fp32_ppm: 0,
        fp16_ppm: 0,
        int_ppm: 0,
        sm_mhz: board.sm_idle_mhz,
        mem_mhz: board.mem_idle_mhz,
        power_mw: board.power_idle_mw,
        power_average_mw: board.power_idle_mw,
        ..last
    }
}
