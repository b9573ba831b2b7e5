//! One device as CUDA describes it: a GPU, or a MIG device with its share of one.

use mirage_state::Reader;
use mirage_state::layout::{Board, Card, ComputeProfile, GpuProfile, Instance, text};
use mirage_state::links::{Neighbour, Path};

/// A device.
pub(crate) struct Device<'a> {
    reader: &'a Reader,
    /// Its number in this process.
    pub(crate) number: i32,
    /// Its GPU's index on the node.
    pub(crate) gpu: u32,
    pub(crate) card: &'a Card,
    pub(crate) model: &'a Board,
    part: Option<Part<'a>>,
}

/// What a MIG device has of its GPU.
struct Part<'a> {
    instance: Instance,
    profile: &'a GpuProfile,
    compute: &'a ComputeProfile,
}

impl<'a> Device<'a> {
    /// The device; `None` if the state names what it does not have.
    pub(crate) fn new(
        reader: &'a Reader,
        number: i32,
        gpu: u32,
        instance: Option<Instance>,
    ) -> Option<Device<'a>> {
        let part = match instance {
            None => None,
            Some(instance) => Some(Part {
                instance,
                profile: reader.gpu_profiles().get(instance.gpu_profile as usize)?,
                compute: reader
                    .compute_profiles()
                    .get(instance.compute_profile as usize)?,
            }),
        };
        Some(Device {
            reader,
            number,
            gpu,
            card: reader.cards().get(gpu as usize)?,
            model: reader.board(gpu)?,
            part,
        })
    }

    /// As NVML names it.
    pub(crate) fn name(&self) -> String {
        let board = text(&self.model.name);
        match &self.part {
            None => board.into(),
            Some(part) => format!("{board} MIG {}", text(&part.compute.name)),
        }
    }

    /// UUID of the GPU.
    pub(crate) fn gpu_uuid(&self) -> [u8; 16] {
        uuid(text(&self.card.uuid))
    }

    /// UUID of the MIG device, of the GPU if it is none.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        match &self.part {
            None => self.gpu_uuid(),
            Some(part) => uuid(text(&part.instance.uuid)),
        }
    }

    /// Memory a program can have: what the driver keeps is not counted.
    pub(crate) fn memory(&self) -> u64 {
        match &self.part {
            None => self
                .card
                .memory_total
                .saturating_sub(self.model.memory_reserved),
            Some(part) => part.profile.memory,
        }
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.part
            .as_ref()
            .map_or(self.model.sm_count, |part| part.compute.sm_count)
    }

    pub(crate) fn copy_engines(&self) -> u32 {
        let whole = self.model.copy_engines;
        self.part
            .as_ref()
            .map_or(whole, |part| part.profile.copy_engines)
    }

    /// Its flags now.
    pub(crate) fn flags(&self) -> u64 {
        self.reader.live_copy(self.gpu).map_or(0, |live| live.flags)
    }

    pub(crate) fn is_part(&self) -> bool {
        self.part.is_some()
    }

    /// `0000:07:00.0`.
    pub(crate) fn bus_id(&self) -> String {
        let Card {
            pci_domain,
            pci_bus,
            pci_device,
            ..
        } = self.card;
        format!("{pci_domain:04X}:{pci_bus:02X}:{pci_device:02X}.0")
    }

    /// How it reaches the memory of another device, as NVML tells it.
    pub(crate) fn path_to(&self, other: &Device<'_>) -> Option<Path> {
        (!self.is_part() && !other.is_part())
            .then(|| self.neighbour().path_to(&other.neighbour()))?
    }

    fn neighbour(&self) -> Neighbour<'_> {
        let live = self.reader.live_copy(self.gpu).unwrap_or_default();
        Neighbour {
            index: self.gpu as usize,
            cards: self.reader.cards(),
            card: self.card,
            board: self.model,
            valid: live.valid,
            flags: live.flags,
            up: live.nvlink_up,
        }
    }
}

/// Domain, bus and device of a text as [`Device::bus_id`] writes it: the domain and the function may be left out.
pub(crate) fn parse_bus_id(text: &str) -> Option<(u32, u32, u32)> {
    let hex = |part: &str| {
        let digits = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
        digits.then(|| u32::from_str_radix(part, 16).ok())?
    };
    let (place, device) = text.rsplit_once(':')?;
    let (domain, bus) = place.split_once(':').unwrap_or(("0", place));
    let (device, function) = device.split_once('.').unwrap_or((device, "0"));
    (hex(function)? == 0).then_some(())?;
    Some((hex(domain)?, hex(bus)?, hex(device)?))
}

/// The bytes of a UUID after its prefix; of a text that is none, as many as its digits give.
fn uuid(text: &str) -> [u8; 16] {
    let plain = text.split_once('-').map_or("", |(_, rest)| rest);
    let digits: Vec<u8> = plain
        .bytes()
        .filter_map(|byte| char::from(byte).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_become_bytes() {
        let bytes = uuid("GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(bytes[..3], [0x00, 0x11, 0x22]);
        assert_eq!(bytes[15], 0xff);
        assert_eq!(uuid("nonsense"), [0; 16]);
        assert_eq!(uuid("GPU-é"), [0; 16]);
    }

    #[test]
    fn bus_ids_are_read_in_every_length() {
        for id in [
            "00000000:07:00.0",
            "0000:07:00.0",
            "0:7:0",
            "07:00",
            "7:0.0",
        ] {
            assert_eq!(parse_bus_id(id), Some((0, 7, 0)), "{id}");
        }
        for id in [
            "", "7", "7:", ":7", "0:7:0.1", "g:7:0", "0:+7:0", "0:0:7:0", "é:é",
        ] {
            assert_eq!(parse_bus_id(id), None, "{id}");
        }
    }
}
