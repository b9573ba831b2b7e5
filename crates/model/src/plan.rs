//! The config as meant: which nodes exist, what runs on them, and what will go wrong.
//! Everything here has been checked; nothing downstream sees the file it came from.

mod alone;

use std::sync::Arc;
use std::time::Duration;

use crate::board::Board;

/// A whole simulated fleet.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Seed of every random stream.
    pub seed: u64,
    /// Simulated time per step.
    pub tick: Duration,
    /// How `nvidia.com/mig.strategy` reads.
    pub mig_strategy: MigStrategy,
    /// Nodes in the order written.
    pub nodes: Vec<NodePlan>,
    /// Pools that nodes can be made from later, as when a cluster node carries a pool's label.
    pub pools: Vec<PoolPlan>,
    /// The node label that names a node's pool.
    pub pool_label: String,
    /// Workloads present from the start (or from their `at`).
    pub workloads: Vec<WorkloadPlan>,
    /// The timeline of faults.
    pub faults: Vec<FaultPlan>,
}

/// The label fake-gpu-operator made customary, so its clusters need no relabelling.
pub const POOL_LABEL: &str = "run.ai/simulated-gpu-node-pool";

impl Plan {
    /// A plan with no nodes.
    pub fn empty(seed: u64) -> Self {
        Self {
            seed,
            tick: Duration::from_secs(1),
            mig_strategy: MigStrategy::None,
            nodes: Vec::new(),
            pools: Vec::new(),
            pool_label: POOL_LABEL.into(),
            workloads: Vec::new(),
            faults: Vec::new(),
        }
    }
}

impl PoolPlan {
    /// A node of this pool. Boards and driver are shared, not copied.
    pub fn node(&self, name: &str) -> NodePlan {
        NodePlan {
            name: name.into(),
            pool: Some(self.name.clone()),
            driver: self.driver.clone(),
            dynamic_mig: self.dynamic_mig,
            gpus: self.gpus.clone(),
            extras: self.extras.clone(),
        }
    }
}

/// MIG strategy of the device plugin and the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the strategies' own names")]
pub enum MigStrategy {
    #[default]
    None,
    Single,
    Mixed,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePlan {
    /// Node name, a DNS label or subdomain.
    pub name: Arc<str>,
    /// Pool it came from.
    pub pool: Option<Arc<str>>,
    /// Driver it runs.
    pub driver: Arc<Driver>,
    /// MIG series as the dynamic-MIG design wants them.
    pub dynamic_mig: bool,
    /// GPUs by index.
    pub gpus: Vec<GpuPlan>,
    /// What only the Kubernetes surface shows; `None` for most.
    pub extras: Option<Arc<Extras>>,
}

/// What every node of a pool is like.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolPlan {
    /// Its name, the value of the pool label.
    pub name: Arc<str>,
    /// Driver its nodes run.
    pub driver: Arc<Driver>,
    /// MIG series as the dynamic-MIG design wants them.
    pub dynamic_mig: bool,
    /// GPUs by index.
    pub gpus: Vec<GpuPlan>,
    /// What only the Kubernetes surface shows.
    pub extras: Option<Arc<Extras>>,
}

/// Facts about a node that only the Kubernetes surface shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extras {
    /// A node without a kubelet: the controller keeps it alive.
    pub without_kubelet: bool,
    /// Further extended resources and their counts.
    pub resources: Vec<(String, u32)>,
    /// The cloud whose GPU nodes it looks like: `eks`, `gke` or `aks`.
    pub flavour: Option<String>,
}

/// Driver and CUDA version of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// `550.163.01`.
    pub version: String,
    /// (12, 4).
    pub cuda: (u32, u32),
}

/// One GPU of a node. Small on purpose: fleets have 80,000 of them.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuPlan {
    /// Its model (memory already overridden where the config says so).
    pub board: Arc<Board>,
    /// What the config gives instead of the derived value; `None` for most, shared in a pool.
    pub given: Option<Arc<GivenGpu>>,
}

impl GpuPlan {
    /// What workloads may hold of its memory, or of that of one of its MIG devices; `None` where
    /// the plan knows no such device.
    pub fn memory_usable_mib(&self, instance: Option<u32>) -> Option<u64> {
        let Some(instance) = instance else {
            return Some(self.board.memory_usable_mib());
        };
        let given = self.given.as_ref()?.mig.as_ref()?.get(instance as usize)?;
        let profile = self.board.mig.as_ref()?.profile_by_name(&given.profile)?;
        Some(profile.memory_mib)
    }
}

/// Explicit facts about one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenGpu {
    /// Full id (`GPU-…`), kept as written even if it is not a proper UUID.
    pub uuid: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// MIG mode on, with these instances.
    pub mig: Option<Vec<GivenInstance>>,
}

/// A MIG device present from the start.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenInstance {
    /// GPU-instance profile name, `1g.5gb`.
    pub profile: String,
    /// First memory slice; chosen when absent.
    pub start: Option<u32>,
    /// Full id (`MIG-…`), kept as written.
    pub uuid: Option<String>,
}

/// A device a workload or fault names: `nodes[node].gpus[gpu]`, perhaps one MIG device of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceRef {
    /// Index into `Plan::nodes`.
    pub node: u32,
    /// GPU index on that node.
    pub gpu: u32,
    /// GPU instance id when it means one MIG device (position in order of creation, from 0).
    pub instance: Option<u32>,
}

/// What runs, where, how hard, until when.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadPlan {
    /// Unique among living workloads.
    pub name: String,
    /// Devices it runs on; the same activity on each.
    pub devices: Vec<DeviceRef>,
    /// When it begins, from the start of the simulation (or from when it is added).
    pub at: Duration,
    /// Steps, at least one.
    pub activity: Vec<ActivityStep>,
    /// Times the list is run; `None` for ever.
    pub repeat: Option<u32>,
    /// Limits that end it.
    pub limits: Limits,
    /// Power intensity of its kernels (κ): 0.45 memory-bound … 0.95 burn … 3 dense tensor.
    pub intensity: f64,
    /// Share of the tensor pipe while busy, 0–1.
    pub tensor: f64,
    /// The pod and container it belongs to.
    pub owner: Option<Owner>,
    /// Process name shown by NVML.
    pub process: String,
    /// Give it a process (pid) on every device.
    pub kind: WorkloadKind,
}

/// How NVML lists the workload's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "NVML's three lists")]
pub enum WorkloadKind {
    #[default]
    Compute,
    Graphics,
    Mps,
}

/// A container in a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "Kubernetes' own names")]
pub struct Owner {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub pod_uid: String,
}

/// One step of an activity profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityStep {
    /// How long; `None` until the workload ends.
    pub duration: Option<Duration>,
    /// Busy share, percent 0–100.
    pub utilization: Range,
    /// Memory held.
    pub memory: Option<Amount>,
    /// Memory bandwidth, share of the peak in percent; derived from utilisation when absent.
    pub bandwidth: Option<Range>,
    /// NVLink and PCIe use, share of the peak in percent; derived when absent.
    pub interconnect: Option<Range>,
    /// How a value moves inside its range.
    pub function: Function,
}

/// An inclusive range; `low == high` for a fixed value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(Range),
    /// Percent of the device's memory.
    Share(Range),
}

/// How a value moves inside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Function {
    /// Anywhere in the range, wandering smoothly.
    #[default]
    Random,
    /// From low to high over the step.
    Ramp,
    /// Like `Random`, but it never falls within the step (the design's "random increase").
    Increase,
}

/// Limits that end a workload with "Limit <X> reached, terminated".
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Total run time.
    pub runtime: Option<Duration>,
    /// Memory in bytes on any one device.
    pub memory: Option<u64>,
    /// Temperature of any device, °C.
    pub temperature: Option<f64>,
    /// Power of any device, W.
    pub power: Option<f64>,
}

/// A fault, when it strikes, and when it heals.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// Devices it strikes.
    pub devices: Vec<DeviceRef>,
    /// What happens.
    pub fault: Fault,
    /// When.
    pub when: When,
    /// How long it lasts; for ever when absent.
    pub heal_after: Option<Duration>,
}

/// When a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Once, at this time from the start.
    At(Duration),
    /// Again and again, first after one period (or at `first`).
    Every {
        /// Period.
        period: Duration,
        /// First strike.
        first: Duration,
    },
    /// By chance: expected strikes per hour and device.
    Rate(f64),
}

/// What can go wrong with a device.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// An Xid, with the side effects its row in the Xid table names.
    Xid(u32),
    /// ECC errors. `count` at once.
    Ecc {
        /// Uncorrected rather than corrected.
        uncorrected: bool,
        /// In SRAM rather than in device memory.
        sram: bool,
        /// How many.
        count: u64,
    },
    /// Gone from the bus (Xid 79).
    Lost,
    /// Busy without progress (Xid 8 or 109).
    Hang,
    /// NVLinks down: a bit per link.
    LinkDown(u32),
    /// Cooling works only in part: thermal resistance times this factor (> 1).
    Cooling(f64),
    /// The external power brake is asserted.
    PowerBrake,
    /// NVML and control calls for this device take this long more.
    SlowApi(Duration),
    /// NVML calls for this device return this code.
    FailApi(u32),
    /// Rows remapped after uncorrectable (true) or correctable errors, or a remap failure.
    RowRemap {
        /// After uncorrectable errors.
        uncorrectable: bool,
        /// The remap failed.
        failed: bool,
    },
    /// Device-plugin misbehaviour, by name; shown only by the Kubernetes surface.
    DevicePlugin(String),
}
