//! The world: all nodes, all workloads, all faults, and what can be asked about them.
//! Time passes in `step`, workloads come and go in `lifecycle`, faults in `fault`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use mirage_model::plan::{DeviceRef, FaultPlan, NodePlan, Plan};

use crate::chance::Seed;
use crate::event::{Event, Log};
use crate::fault::{FaultState, Ledger, PendingFault, Schedule};
use crate::gpu::Gpu;
use crate::mig;
use crate::process::Process;
use crate::workload::{Phase, Shape, WorkloadState};

/// First driver branch that knows recovery actions and Xid 154.
const RECOVERY_BRANCH: u32 = 565;

/// The branch of a driver version: `550` of `550.163.01`.
fn driver_branch(version: &str) -> u32 {
    let branch = version.split('.').next().unwrap_or_default();
    branch.parse().unwrap_or(0)
}

/// One node of the world.
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) name: Arc<str>,
    pub(crate) gpus: Vec<Gpu>,
    /// Ended processes, kept for accounting.
    pub(crate) ended: VecDeque<Process>,
    pub(crate) next_pid: u32,
    /// Its driver announces changed recovery actions.
    pub(crate) reports_recovery: bool,
}

impl Node {
    pub(crate) fn new(plan: &NodePlan) -> Self {
        let gpu = |(index, gpu)| {
            let mut gpu = Gpu::new(&plan.name, index, gpu);
            mig::lay_out_given(&mut gpu);
            gpu
        };
        Self {
            name: plan.name.clone(),
            gpus: plan.gpus.iter().enumerate().map(gpu).collect(),
            ended: VecDeque::new(),
            next_pid: 0,
            reports_recovery: driver_branch(&plan.driver.version) >= RECOVERY_BRANCH,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its GPUs by index.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }
}

/// A simulated fleet at one moment.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) seed: Seed,
    pub(crate) now: Duration,
    pub(crate) nodes: Vec<Node>,
    /// Workloads by slot; tasks refer to them by slot.
    pub(crate) workloads: Vec<Option<WorkloadState>>,
    pub(crate) free_slots: Vec<u32>,
    /// Slots by workload id, which is the order they were added in.
    pub(crate) order: BTreeMap<u64, u32>,
    /// Slots in the order workloads ended.
    pub(crate) ended: VecDeque<u32>,
    /// Slot of the last workload of each name, by the name's salt.
    pub(crate) names: HashMap<u64, u32>,
    /// What the last workloads looked like, to be shared.
    pub(crate) shapes: VecDeque<Arc<Shape>>,
    /// Faults that have struck.
    pub(crate) faults: Ledger,
    /// Faults to come, each with the number that seeds its chances.
    pub(crate) schedules: Vec<(u64, Schedule)>,
    /// The plan's own faults, to compare the next plan with.
    pub(crate) planned_faults: Vec<FaultPlan>,
    pub(crate) next_id: u64,
    /// GPUs that hang, so that nobody has to look when there are none.
    pub(crate) hung: usize,
    pub(crate) log: Log,
    /// Scratch space of a step.
    pub(crate) overflows: Vec<u32>,
}

impl World {
    /// A world at rest, as the plan lays it out, with its first readings taken.
    pub fn new(plan: &Plan) -> Self {
        let mut world = Self {
            seed: Seed::new(plan.seed),
            now: Duration::ZERO,
            nodes: plan.nodes.iter().map(Node::new).collect(),
            workloads: Vec::new(),
            free_slots: Vec::new(),
            order: BTreeMap::new(),
            ended: VecDeque::new(),
            names: HashMap::new(),
            shapes: VecDeque::new(),
            faults: Ledger::default(),
            schedules: Vec::new(),
            planned_faults: plan.faults.clone(),
            next_id: 0,
            hung: 0,
            log: Log::default(),
            overflows: Vec::new(),
        };
        world.make_room();
        for workload in &plan.workloads {
            world.add(workload, Duration::ZERO, true);
        }
        for fault in &plan.faults {
            world.add_schedule(fault, Duration::ZERO);
        }
        world.step(&[], Duration::ZERO);
        // Boards settling into their first P-state is no news.
        world.log.forget_changes();
        world
    }

    /// Makes room for the events of a tick in which everything happens to every GPU.
    pub(crate) fn make_room(&mut self) {
        let gpus = self.nodes.iter().map(|node| node.gpus.len()).sum();
        self.log.make_room(gpus);
    }

    /// Adds a fault of the plan, whose times count from `origin`.
    pub(crate) fn add_schedule(&mut self, plan: &FaultPlan, origin: Duration) {
        self.next_id += 1;
        let number = self.next_id;
        let schedule = self.schedule(plan, origin, true, number);
        self.schedules.push((number, schedule));
    }

    /// Simulated time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// All nodes, in the plan's order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.nodes.get(index)
    }

    /// Living processes of a GPU, then its ended ones still kept for accounting (`end` is set).
    pub fn processes(&self, node: usize, gpu: usize) -> Vec<Process> {
        let Some(node) = self.nodes.get(node) else {
            return Vec::new();
        };
        let Some(device) = node.gpus.get(gpu) else {
            return Vec::new();
        };
        let ended = node.ended.iter().filter(|p| p.gpu as usize == gpu);
        device
            .processes(gpu as u32, self)
            .chain(ended.cloned())
            .collect()
    }

    /// Living processes of one workload, with the index of their node: what it is attributed.
    pub fn workload_processes(&self, id: u64) -> Vec<(usize, Process)> {
        let Some(workload) = self.order.get(&id).and_then(|slot| self.slot(*slot)) else {
            return Vec::new();
        };
        let mut places: Vec<(u32, u32)> =
            workload.devices().iter().map(|d| (d.node, d.gpu)).collect();
        places.sort_unstable();
        places.dedup();
        places
            .into_iter()
            .filter_map(|(node, gpu)| {
                let device = self.nodes.get(node as usize)?.gpus.get(gpu as usize)?;
                Some((node as usize, device.processes(gpu, self)))
            })
            .flat_map(|(node, all)| all.map(move |process| (node, process)))
            .filter(|(_, process)| process.workload == id)
            .collect()
    }

    /// Workloads in the order they were added; ended ones stay until removed or crowded out.
    pub fn workloads(&self) -> impl Iterator<Item = &WorkloadState> {
        self.order.values().filter_map(|slot| self.slot(*slot))
    }

    /// The last workload of that name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadState> {
        self.slot(self.slot_of(name)?)
    }

    /// How many workloads run now.
    pub fn running(&self) -> usize {
        self.workloads()
            .filter(|w| w.phase == Phase::Running)
            .count()
    }

    /// Faults that have struck: the active ones and the last healed ones.
    pub fn faults(&self) -> &[FaultState] {
        self.faults.all()
    }

    /// Faults still to come, in the order they were asked for.
    pub fn pending_faults(&self) -> impl Iterator<Item = PendingFault<'_>> {
        let schedules = self.schedules.iter();
        schedules.filter_map(|(number, schedule)| schedule.pending(*number))
    }

    /// Events since the last call, oldest first.
    pub fn drain_events(&mut self) -> Vec<Event> {
        self.log.drain()
    }

    /// The GPU a device reference means.
    pub fn gpu(&self, device: DeviceRef) -> Option<&Gpu> {
        self.nodes
            .get(device.node as usize)?
            .gpus
            .get(device.gpu as usize)
    }

    pub(crate) fn gpu_mut(&mut self, device: DeviceRef) -> Option<&mut Gpu> {
        self.nodes
            .get_mut(device.node as usize)?
            .gpus
            .get_mut(device.gpu as usize)
    }

    /// GPU and compute instance id of the MIG device a reference means.
    pub(crate) fn instance_ids(&self, device: DeviceRef) -> Option<(u8, u8)> {
        let position = device.instance? as usize;
        let (gi, ci) = self.gpu(device)?.mig_devices().nth(position)?;
        Some((gi.gi as u8, ci.ci as u8))
    }

    /// How messages call a device: `node-a/3`, or `node-a/3/1` for a MIG device.
    pub fn label(&self, device: DeviceRef) -> String {
        let node = match self.nodes.get(device.node as usize) {
            Some(node) => node.name.to_string(),
            None => format!("#{}", device.node),
        };
        match device.instance {
            Some(instance) => format!("{node}/{}/{instance}", device.gpu),
            None => format!("{node}/{}", device.gpu),
        }
    }
}
