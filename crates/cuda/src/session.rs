//! The devices of this process, decided by the first `cuInit` that succeeds and the same from then on, as with the real driver.

use std::sync::OnceLock;

use mirage_state::layout::{Instance, flags, text, vendors};
use mirage_state::lookup::{self, Source};
use mirage_state::visible::{MigDevice, Sources};
use mirage_state::{Error, Reader};

use crate::code::{Answer, Fault};
use crate::device::Device;
use crate::order::{self, Candidate, Choice};

static SESSION: OnceLock<Session> = OnceLock::new();

/// A state, and what this process sees of it.
pub(crate) struct Session {
    pub(crate) reader: Reader,
    devices: Vec<Choice>,
}

/// `cuInit`: finds the state and counts the devices, once.
pub(crate) fn init() -> Answer {
    if SESSION.get().is_none() {
        let list = std::env::var_os("CUDA_VISIBLE_DEVICES");
        let list = list.map(|list| list.to_string_lossy().into_owned());
        let session = Session::new(open()?, &Sources::gather(), list.as_deref())?;
        // Another thread may have been faster: its answer counts, and it is the same.
        let _ = SESSION.set(session);
    }
    Ok(())
}

/// The session; an error before `cuInit`.
pub(crate) fn current() -> Result<&'static Session, Fault> {
    SESSION.get().ok_or(Fault::NotInitialized)
}

/// A device by its number.
pub(crate) fn device(number: i32) -> Result<Device<'static>, Fault> {
    current()?.device(number)
}

/// The driver's CUDA version; works before `cuInit`.
pub(crate) fn version() -> Result<i32, Fault> {
    let version = match SESSION.get() {
        Some(session) => session.reader.header().cuda_version,
        None => open()?.header().cuda_version,
    };
    i32::try_from(version).map_err(|_| Fault::Unknown)
}

impl Session {
    pub(crate) fn new(
        reader: Reader,
        sources: &Sources,
        list: Option<&str>,
    ) -> Result<Session, Fault> {
        let instances = reader.tables(|tables| tables.instances().collect::<Vec<_>>());
        let instances = instances.unwrap_or_default();
        let visible = sources.decide(reader.cards(), &instances);
        let mut candidates: Vec<(u32, bool, Vec<Instance>)> = Vec::new();
        for &gpu in &visible.gpus {
            let live = reader.live_copy(gpu).unwrap_or_default();
            let is_nvidia = reader
                .board(gpu)
                .is_some_and(|board| board.vendor == vendors::NVIDIA);
            if !is_nvidia || live.flags & flags::LOST != 0 {
                continue;
            }
            let parts = instances
                .iter()
                .filter(|i| i.gpu == gpu && i.ci != u32::MAX);
            let parts = parts.filter(|i| {
                visible.shows(MigDevice {
                    gpu,
                    gi: i.gi,
                    ci: i.ci,
                })
            });
            let is_mig = live.flags & flags::MIG != 0;
            candidates.push((gpu, is_mig, parts.copied().collect()));
        }
        let cards = reader.cards();
        let candidates: Vec<Candidate<'_>> = candidates
            .iter()
            .map(|(gpu, is_mig, parts)| Candidate {
                gpu: *gpu,
                uuid: text(&cards[*gpu as usize].uuid),
                is_mig: *is_mig,
                instances: parts,
            })
            .collect();
        let devices = order::devices(&candidates, list);
        if devices.is_empty() {
            return Err(Fault::NoDevice);
        }
        Ok(Session { reader, devices })
    }

    pub(crate) fn count(&self) -> i32 {
        i32::try_from(self.devices.len()).unwrap_or(i32::MAX)
    }

    pub(crate) fn device(&self, number: i32) -> Result<Device<'_>, Fault> {
        let at = usize::try_from(number).map_err(|_| Fault::InvalidDevice)?;
        let (gpu, part) = self.devices.get(at).ok_or(Fault::InvalidDevice)?;
        Device::new(&self.reader, number, *gpu, *part).ok_or(Fault::InvalidDevice)
    }
}

/// Opens the state this process is meant to see. A named file that is not there is a machine without a driver.
fn open() -> Result<Reader, Fault> {
    let path = match lookup::find() {
        Source::File(path) => path,
        Source::Several(paths) => lookup::own(paths).ok_or(Fault::NoDevice)?,
        Source::BuiltIn => return mirage_state::built_in().map_err(|_| Fault::Unknown),
        Source::Nothing => return Err(Fault::NoDevice),
    };
    Reader::open(&path).map_err(|error| match error {
        Error::Malformed {
            source: mirage_state::Fault::Major(_),
            ..
        } => Fault::DriverMismatch,
        _ => Fault::NoDevice,
    })
}
