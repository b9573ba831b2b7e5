//! Processes as NVML lists them: one per workload and device.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::{Owner, WorkloadKind};

/// A process on a device, living or kept for accounting.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Process id, unique on its node while it lives.
    pub pid: u32,
    /// GPU on the node.
    pub gpu: u32,
    /// GPU instance it runs in.
    pub gi: Option<u32>,
    /// Compute instance it runs in.
    pub ci: Option<u32>,
    /// Which of NVML's lists it is on.
    pub kind: WorkloadKind,
    /// Process name.
    pub name: Arc<str>,
    /// Pod and container.
    pub owner: Option<Arc<Owner>>,
    /// Id of its workload.
    pub workload: u64,
    /// Memory in bytes now.
    pub memory: u64,
    /// Most memory so far.
    pub peak_memory: u64,
    /// Share of the device's SM time, percent (of its instance under MIG).
    pub sm_percent: u8,
    /// Share of the memory bandwidth, percent (of its instance under MIG).
    pub memory_percent: u8,
    /// Share of the encoders, percent.
    pub encoder_percent: u8,
    /// Share of the decoders, percent.
    pub decoder_percent: u8,
    /// SM use averaged over its life, percent.
    pub average_percent: u8,
    /// Memory-bandwidth use averaged over its life, percent.
    pub average_memory_percent: u8,
    /// Simulated time it began.
    pub start: Duration,
    /// Simulated time it ended.
    pub end: Option<Duration>,
}
