//! What a handle turns into: a GPU, a MIG device, a GPU instance, a compute instance. All borrow the session, so
//! none outlives the call it came with.

use mirage_state::layout::{Board, Card, ComputeProfile, GpuProfile, Instance, Live, flags, text};

use crate::code::Fault;
use crate::handle::{Handle, Key, Kind, tag};
use crate::session::Session;

/// A GPU of the node.
#[derive(Clone, Copy)]
pub struct Gpu<'s> {
    /// The session it was found in.
    pub session: &'s Session,
    /// Its index on the node (not the one a client counts by).
    pub index: usize,
}

/// Reads one field of a GPU's live record: no copy, no lock, no system call.
macro_rules! live {
    ($gpu:expr, $field:ident) => {
        $gpu.session.live_field(
            $gpu.index,
            std::mem::offset_of!(mirage_state::layout::Live, $field),
            |live| live.$field,
        )
    };
}
pub(crate) use live;

impl<'s> Gpu<'s> {
    /// Who it is.
    #[inline]
    pub fn card(&self) -> &'s Card {
        self.session.card_record(self.index)
    }

    /// What it is.
    #[inline]
    pub fn board(&self) -> &'s Board {
        self.session.board_record(self.card().board)
    }

    /// What it is doing, all of one moment.
    pub fn live(&self) -> Live {
        self.session.live(self.index)
    }

    /// Whether the quantity group exists on it now.
    #[inline]
    pub fn has(&self, valid: u64) -> bool {
        live!(self, valid) & valid != 0
    }

    /// Refuses a quantity group it does not have.
    #[inline]
    pub fn require(&self, valid: u64) -> Result<(), Fault> {
        if self.has(valid) {
            Ok(())
        } else {
            Err(Fault::NotSupported)
        }
    }

    /// Whether a board flag is set.
    pub fn board_has(&self, flag: u64) -> bool {
        self.board().flags & flag != 0
    }

    /// Whether a live flag is set.
    pub fn flag(&self, flag: u64) -> bool {
        live!(self, flags) & flag != 0
    }

    /// Whether MIG mode is on.
    pub fn mig(&self) -> bool {
        self.flag(flags::MIG)
    }

    /// The index a client counts by.
    pub fn visible_index(&self) -> u32 {
        let wanted = self.index as u32;
        let at = self.session.visible().iter().position(|&gpu| gpu == wanted);
        at.unwrap_or_default() as u32
    }

    /// Its handle.
    pub fn handle(&self) -> Handle {
        let key = Key {
            index: self.index as u16,
            gi: 0,
            ci: 0,
            tag: self.session.tag(self.index),
        };
        Handle::new(Kind::Gpu, key)
    }

    /// The handle of one of its MIG devices.
    pub fn mig_handle(&self, instance: &Instance) -> Handle {
        Handle::new(
            Kind::MigDevice,
            key(self.index, instance, instance_tag(instance)),
        )
    }

    /// Its GPU-instance profiles.
    pub fn profiles(&self) -> &'s [GpuProfile] {
        let board = self.board();
        self.session
            .gpu_profiles(board.gpu_profile_first, board.gpu_profile_count)
    }
}

/// The handle of a GPU instance.
pub fn gpu_instance_handle(part: &Part) -> Handle {
    let key = Key {
        index: part.gpu as u16,
        gi: part.gi as u8,
        ci: 0,
        tag: gpu_instance_tag(part.gpu_profile, part.start),
    };
    Handle::new(Kind::GpuInstance, key)
}

/// The handle of a compute instance.
pub fn compute_instance_handle(gpu: usize, instance: &Instance) -> Handle {
    Handle::new(
        Kind::ComputeInstance,
        key(gpu, instance, instance_tag(instance)),
    )
}

fn key(gpu: usize, instance: &Instance, tag: u16) -> Key {
    Key {
        index: gpu as u16,
        gi: instance.gi as u8,
        ci: instance.ci as u8,
        tag,
    }
}

/// Tells apart compute instances that had the same ids one after another.
pub fn instance_tag(instance: &Instance) -> u16 {
    tag(text(&instance.uuid).as_bytes())
        ^ gpu_instance_tag(instance.gpu_profile, instance.start)
        ^ (instance.compute_profile as u16) << 3
        ^ instance.compute_start as u16
}

/// Tells apart GPU instances that had the same id one after another.
pub fn gpu_instance_tag(profile: u32, start: u32) -> u16 {
    (profile as u16) << 6 ^ start as u16
}

/// What of a MIG record a call needs: its UUID is long, and copied only when asked for.
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "as in the record")]
pub struct Part {
    pub memory_used: u64,
    pub gpu: u32,
    pub gi: u32,
    pub ci: u32,
    pub gpu_profile: u32,
    pub compute_profile: u32,
    pub start: u32,
    pub compute_start: u32,
    pub index: u32,
}

impl From<&Instance> for Part {
    fn from(instance: &Instance) -> Part {
        Part {
            memory_used: instance.memory_used,
            gpu: instance.gpu,
            gi: instance.gi,
            ci: instance.ci,
            gpu_profile: instance.gpu_profile,
            compute_profile: instance.compute_profile,
            start: instance.start,
            compute_start: instance.compute_start,
            index: instance.index,
        }
    }
}

/// A MIG device: a compute instance in its GPU instance.
#[derive(Clone, Copy)]
pub struct MigDevice<'s> {
    /// The GPU it is a part of.
    pub gpu: Gpu<'s>,
    /// Which part.
    pub instance: Part,
}

impl<'s> MigDevice<'s> {
    /// Its whole record.
    pub fn record(&self) -> Result<Instance, Fault> {
        let Part { gpu, gi, ci, .. } = self.instance;
        let here = |i: &Instance| (i.gpu, i.gi, i.ci) == (gpu, gi, ci);
        self.gpu
            .session
            .find_instance(here)
            .ok_or(Fault::InvalidArgument)
    }

    /// The profile of its GPU instance.
    pub fn profile(&self) -> Result<&'s GpuProfile, Fault> {
        self.gpu
            .session
            .gpu_profile(self.instance.gpu_profile)
            .ok_or(Fault::Unknown)
    }

    /// The profile of its compute instance.
    pub fn compute_profile(&self) -> Result<&'s ComputeProfile, Fault> {
        self.gpu
            .session
            .compute_profile(self.instance.compute_profile)
            .ok_or(Fault::Unknown)
    }
}

/// What the calls take that know both GPUs and MIG devices.
#[derive(Clone, Copy)]
pub enum Target<'s> {
    /// A whole GPU.
    Gpu(Gpu<'s>),
    /// A MIG device.
    Mig(MigDevice<'s>),
}

impl<'s> Target<'s> {
    /// The GPU, or the one the MIG device is a part of.
    pub fn gpu(&self) -> Gpu<'s> {
        match self {
            Target::Gpu(gpu) => *gpu,
            Target::Mig(device) => device.gpu,
        }
    }

    /// The MIG device; a GPU is refused.
    pub fn mig(&self) -> Result<&MigDevice<'s>, Fault> {
        match self {
            Target::Gpu(_) => Err(Fault::NotSupported),
            Target::Mig(device) => Ok(device),
        }
    }
}
