//! One thing that has series: a GPU, or a MIG instance of it, in its node.

use mirage_state::Node;
use mirage_state::layout::{Board, Card, GpuProfile, Holding, Instance, Live, flags, valid};

/// GPU instance id that means "the whole GPU".
pub(crate) const WHOLE: u32 = u32::MAX;

/// A GPU or MIG instance, with everything state says of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device<'a> {
    pub(crate) node: &'a Node<'a>,
    pub(crate) index: u32,
    pub(crate) card: &'a Card,
    pub(crate) board: &'a Board,
    pub(crate) live: &'a Live,
    pub(crate) slice: Option<Slice<'a>>,
}

/// What makes a device a MIG instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) profile: &'a GpuProfile,
    /// Its place in the node's table.
    pub(crate) at: u32,
    /// Which of its GPU's instances, from 0.
    pub(crate) ordinal: u32,
}

impl<'a> Device<'a> {
    /// The whole GPU at an index; `None` if the tables do not hold together.
    pub(crate) fn gpu(node: &'a Node<'a>, index: u32) -> Option<Device<'a>> {
        let at = index as usize;
        let card = node.cards.get(at)?;
        Some(Device {
            node,
            index,
            card,
            board: node.board(card)?,
            live: node.lives.get(at)?,
            slice: None,
        })
    }

    /// The GPUs of a node.
    pub(crate) fn gpus(node: &'a Node<'a>) -> impl Iterator<Item = Device<'a>> + use<'a> {
        let count = u32::try_from(node.cards.len()).unwrap_or(u32::MAX);
        (0..count).filter_map(move |index| Device::gpu(node, index))
    }

    /// The GPU instances of this GPU, each once however many compute instances it has.
    pub(crate) fn instances(&self) -> impl Iterator<Item = Device<'a>> + use<'a> {
        let gpu = *self;
        let all = gpu.node.instances;
        let on = if gpu.has(flags::MIG) { all } else { &[] };
        on.iter()
            .enumerate()
            .filter(move |(at, i)| {
                i.gpu == gpu.index
                    && !all[..*at]
                        .iter()
                        .any(|earlier| earlier.gpu == i.gpu && earlier.gi == i.gi)
            })
            .filter_map(move |(at, _)| gpu.with_instance(u32::try_from(at).ok()?))
            .zip(0..)
            .map(|(mut device, ordinal)| {
                if let Some(slice) = &mut device.slice {
                    slice.ordinal = ordinal;
                }
                device
            })
    }

    /// The instance at a place of the node's table.
    pub(crate) fn with_instance(self, at: u32) -> Option<Device<'a>> {
        let instance = self.node.instances.get(at as usize)?;
        let profile = self.node.gpu_profiles.get(instance.gpu_profile as usize)?;
        Some(Device {
            slice: Some(Slice {
                instance,
                profile,
                at,
                ordinal: 0,
            }),
            ..self
        })
    }

    /// Whether a flag of its GPU is set.
    pub(crate) fn has(&self, flag: u64) -> bool {
        self.live.flags & flag != 0
    }

    /// Whether its GPU knows a group of quantities.
    pub(crate) fn knows(&self, group: u64) -> bool {
        self.live.valid & group != 0
    }

    /// GPU instance id, [`WHOLE`] for a GPU.
    pub(crate) fn gi(&self) -> u32 {
        self.slice.map_or(WHOLE, |s| s.instance.gi)
    }

    /// Who holds it, in the table's order, with their places in it.
    pub(crate) fn holdings(&self) -> impl Iterator<Item = (u32, &'a Holding)> + use<'a> {
        let (gpu, gi) = (self.index, self.gi());
        (0..)
            .zip(self.node.holdings)
            .filter(move |(_, h)| h.gpu == gpu && h.gi == gi)
    }

    /// Its links that are up.
    pub(crate) fn links_up(&self) -> impl Iterator<Item = u32> + use<> {
        let known = self.knows(valid::NVLINK) && !self.has(flags::LOST);
        let count = if known { self.board.nvlink_links } else { 0 };
        let up = self.live.nvlink_up;
        (0..count.min(32)).filter(move |link| up >> link & 1 != 0)
    }

    /// A link's part of a counter of all links, up or not; the first has what is left over.
    pub(crate) fn link_share(&self, link: u32, all: u64) -> u64 {
        let links = u64::from(self.board.nvlink_links.max(1));
        all / links + if link == 0 { all % links } else { 0 }
    }
}
