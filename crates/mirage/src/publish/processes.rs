//! Processes, the containers they run in, and who holds which GPU.

mod known;

use std::sync::Arc;

use mirage_model::plan::{Owner, WorkloadKind};
use mirage_sim::{Process, World};
use mirage_state::Image;
use mirage_state::layout::{self, Container, Holding, TextRef, process_kinds};

use self::known::Known;
use super::Clock;

/// "None" in every id field.
const NONE: u32 = u32::MAX;

/// Rewrites the tables of processes, containers and holdings, and their text.
pub(super) fn refresh(image: &mut Image, world: &World, node: usize, clock: Clock) {
    image.processes.clear();
    image.containers.clear();
    image.holdings.clear();
    image.heap.clear();
    let mut tables = Tables {
        image,
        names: Known::default(),
        owners: Known::default(),
        held: Known::default(),
    };
    let gpus = world.node(node).map_or(0, |node| node.gpus().len());
    for gpu in 0..gpus {
        for process in world.processes(node, gpu) {
            tables.add(&process, clock);
        }
    }
}

struct Tables<'a> {
    image: &'a mut Image,
    /// Names already in the heap.
    names: Known<Arc<str>, TextRef>,
    /// Rows of containers already in their table.
    owners: Known<Arc<Owner>, u32>,
    /// Rows of holdings, by container, GPU and GPU instance.
    held: Known<(u32, u32, u32), usize>,
}

impl Tables<'_> {
    fn add(&mut self, process: &Process, clock: Clock) {
        let Process {
            pid,
            gpu,
            gi,
            ci,
            kind,
            name,
            owner,
            workload: _,
            memory,
            peak_memory,
            sm_percent,
            memory_percent,
            encoder_percent,
            decoder_percent,
            average_percent,
            // NVML accounts the GPU only as an average.
            average_memory_percent: _,
            start,
            end,
        } = process;
        let container = owner.as_ref().map_or(NONE, |owner| self.container(owner));
        let ended = end.is_some();
        let record = layout::Process {
            memory: if ended { *peak_memory } else { *memory },
            start_ms: clock.unix_ms(*start),
            // A process that ended at the very start of time has still ended.
            end_ms: end.map_or(0, |end| clock.unix_ms(end).max(1)),
            name: self.name(name),
            pid: *pid,
            gpu: *gpu,
            gi: gi.unwrap_or(NONE),
            ci: ci.unwrap_or(NONE),
            kind: match kind {
                WorkloadKind::Compute => process_kinds::COMPUTE,
                WorkloadKind::Graphics => process_kinds::GRAPHICS,
                WorkloadKind::Mps => process_kinds::MPS,
            },
            sm_percent: u32::from(*sm_percent),
            memory_percent: u32::from(*memory_percent),
            encoder_percent: u32::from(*encoder_percent),
            decoder_percent: u32::from(*decoder_percent),
            container,
            peak_mib: u32::try_from(peak_memory >> 20).unwrap_or(u32::MAX),
            average_percent: u32::from(*average_percent),
        };
        self.image.processes.push(record);
        if container != NONE && !ended {
            self.hold(&record);
        }
    }

    /// Several processes of a container on one device are one holding.
    fn hold(&mut self, process: &layout::Process) {
        let device = (process.container, process.gpu, process.gi);
        let row = self.held.get(&device);
        match row.and_then(|row| self.image.holdings.get_mut(row)) {
            Some(held) => {
                held.gpu_percent = held.gpu_percent.saturating_add(process.sm_percent);
                held.memory = held.memory.saturating_add(process.memory);
            }
            None => {
                self.held.add(device, self.image.holdings.len());
                self.image.holdings.push(Holding {
                    container: process.container,
                    gpu: process.gpu,
                    gi: process.gi,
                    gpu_percent: process.sm_percent,
                    memory: process.memory,
                });
            }
        }
    }

    fn container(&mut self, owner: &Arc<Owner>) -> u32 {
        if let Some(row) = self.owners.get(owner) {
            return row;
        }
        let Owner {
            namespace,
            pod,
            container,
            pod_uid,
        } = owner.as_ref();
        let record = Container {
            namespace: self.text(namespace),
            pod: self.text(pod),
            name: self.text(container),
            uid: self.text(pod_uid),
        };
        let row = u32::try_from(self.image.containers.len()).unwrap_or(NONE);
        self.image.containers.push(record);
        self.owners.add(owner.clone(), row);
        row
    }

    fn name(&mut self, name: &Arc<str>) -> TextRef {
        if let Some(at) = self.names.get(name) {
            return at;
        }
        let at = self.text(name);
        self.names.add(name.clone(), at);
        at
    }

    fn text(&mut self, text: &str) -> TextRef {
        let heap = &mut self.image.heap;
        let (Ok(offset), Ok(len)) = (u32::try_from(heap.len()), u32::try_from(text.len())) else {
            return TextRef::default();
        };
        heap.extend_from_slice(text.as_bytes());
        TextRef { offset, len }
    }
}
