//! Hot reload: a new plan laid over a running world.
//!
//! A GPU stays if its node's name, its index, its board's key and its given identity stay; then it
//! keeps temperatures, counters, settings and MIG layout, unless the config now gives another layout. Workloads and faults of the plan stay if
//! they are written the same and all their devices stay; those added by inputs stay if their
//! devices do.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mirage_model::plan::{DeviceRef, Fault, FaultPlan, Plan, WorkloadPlan};

use crate::chance::Seed;
use crate::gpu::Gpu;
use crate::workload::Phase;
use crate::world::{Node, World};

/// What a reload changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Reconfigured {
    pub gpus_kept: usize,
    pub gpus_added: usize,
    pub gpus_removed: usize,
    pub workloads_kept: usize,
    pub workloads_added: usize,
    pub workloads_removed: usize,
    pub faults_kept: usize,
    pub faults_added: usize,
    pub faults_removed: usize,
}

/// Where the old devices went.
struct Moves {
    /// New index of each old node.
    nodes: Vec<Option<u32>>,
    /// Per old node, which GPUs stayed.
    kept: Vec<Vec<bool>>,
    /// Old devices that stayed with another MIG layout, so that no work stayed on them.
    relaid: HashSet<(u32, u32)>,
}

impl Moves {
    fn device(&self, device: DeviceRef) -> Option<DeviceRef> {
        let node = (*self.nodes.get(device.node as usize)?)?;
        let kept = self.kept.get(device.node as usize)?;
        let stays = *kept.get(device.gpu as usize)?;
        stays.then_some(DeviceRef { node, ..device })
    }

    fn devices(&self, devices: &[DeviceRef]) -> Option<Vec<DeviceRef>> {
        devices.iter().map(|d| self.device(*d)).collect()
    }

    /// As `devices`, for a workload, which does not outlive the instances it runs in.
    fn places(&self, devices: &[DeviceRef]) -> Option<Vec<DeviceRef>> {
        let gone = |d: &DeviceRef| self.relaid.contains(&(d.node, d.gpu));
        if devices.iter().any(gone) {
            return None;
        }
        self.devices(devices)
    }
}

/// Whether the new plan still means the GPU that is there.
fn same(new: &Gpu, known: &Gpu) -> bool {
    let identity = |gpu: &Gpu| gpu.given().map(|g| (g.uuid.clone(), g.serial.clone()));
    new.board.key == known.board.key
        && identity(new).unwrap_or_default() == identity(known).unwrap_or_default()
}

/// Puts what is known of a GPU in place of the new one; returns whether its MIG layout is another.
fn carry_over(new: &mut Gpu, mut known: Gpu) -> bool {
    let layout = |gpu: &Gpu| gpu.given().and_then(|g| g.mig.clone());
    let relaid = layout(new) != layout(&known) || new.board.mig != known.board.mig;
    known.board = new.board.clone();
    known.given.clone_from(&new.given);
    if relaid {
        known.tasks.clear();
        known.mig = new.mig.take();
        known.readings.mig = new.readings.mig;
        known.readings.mig_pending = new.readings.mig_pending;
    }
    *new = known;
    relaid
}

impl World {
    /// Lays a new plan over the running world. Times in the new plan's workloads and faults that were not there
    /// before count from now.
    pub fn reconfigure(&mut self, plan: &Plan) -> Reconfigured {
        let mut summary = Reconfigured::default();
        self.seed = Seed::new(plan.seed);
        let moves = self.move_nodes(plan, &mut summary);
        self.move_workloads(&plan.workloads, &moves, &mut summary);
        self.move_faults(&plan.faults, &moves, &mut summary);
        let hangs = |node: &Node| node.gpus.iter().filter(|gpu| gpu.readings.hung).count();
        self.hung = self.nodes.iter().map(hangs).sum();
        self.make_room();
        self.step(&[], std::time::Duration::ZERO);
        summary
    }

    fn move_nodes(&mut self, plan: &Plan, summary: &mut Reconfigured) -> Moves {
        let old: Vec<Node> = std::mem::take(&mut self.nodes);
        let mut moves = Moves {
            nodes: vec![None; old.len()],
            kept: old.iter().map(|n| vec![false; n.gpus.len()]).collect(),
            relaid: HashSet::new(),
        };
        let before: usize = old.iter().map(|n| n.gpus.len()).sum();
        let by_name: HashMap<_, _> = old
            .iter()
            .enumerate()
            .map(|(index, node)| (node.name.clone(), index))
            .collect();
        let mut old: Vec<Option<Node>> = old.into_iter().map(Some).collect();
        for (index, node_plan) in plan.nodes.iter().enumerate() {
            let mut node = Node::new(node_plan);
            summary.gpus_added += node.gpus.len();
            if let Some(&was) = by_name.get(&node_plan.name)
                && let Some(known) = old.get_mut(was).and_then(Option::take)
            {
                moves.nodes[was] = u32::try_from(index).ok();
                node.ended = known.ended;
                node.next_pid = known.next_pid;
                for (g, (new, known)) in node.gpus.iter_mut().zip(known.gpus).enumerate() {
                    if !same(new, &known) {
                        continue;
                    }
                    if carry_over(new, known) {
                        moves.relaid.insert((was as u32, g as u32));
                    }
                    moves.kept[was][g] = true;
                    summary.gpus_kept += 1;
                    summary.gpus_added -= 1;
                }
            }
            self.nodes.push(node);
        }
        summary.gpus_removed = before - summary.gpus_kept;
        moves
    }

    fn move_workloads(
        &mut self,
        plans: &[WorkloadPlan],
        moves: &Moves,
        summary: &mut Reconfigured,
    ) {
        let wanted: HashMap<&str, &WorkloadPlan> = plans
            .iter()
            .map(|plan| (plan.name.as_str(), plan))
            .collect();
        let slots: Vec<u32> = self.order.values().copied().collect();
        for slot in slots {
            let Some(Some(workload)) = self.workloads.get_mut(slot as usize) else {
                continue;
            };
            let moved = moves.places(workload.devices());
            let keep = match (&moved, workload.planned) {
                (None, _) => false,
                (Some(_), false) => !wanted.contains_key(workload.name()),
                (Some(devices), true) => wanted
                    .get(workload.name())
                    .is_some_and(|plan| workload.follows(plan, devices)),
            };
            if let (true, Some(devices)) = (keep, moved) {
                workload.devices = devices.into();
                summary.workloads_kept += usize::from(!matches!(workload.phase, Phase::Ended(_)));
                continue;
            }
            summary.workloads_removed += usize::from(!matches!(workload.phase, Phase::Ended(_)));
            self.drop_moved(slot, moves);
        }
        for plan in plans {
            if self.slot_of(&plan.name).is_none() {
                self.add(plan, Duration::ZERO, true);
                summary.workloads_added += 1;
            }
        }
    }

    /// Removes a workload whose devices have moved: those that are left lose its tasks.
    fn drop_moved(&mut self, slot: u32, moves: &Moves) {
        if let Some(Some(workload)) = self.workloads.get_mut(slot as usize) {
            let left = workload.devices.iter();
            workload.devices = left.filter_map(|d| moves.device(*d)).collect();
        }
        self.remove(slot, self.now);
    }

    fn move_faults(&mut self, plans: &[FaultPlan], moves: &Moves, summary: &mut Reconfigured) {
        let mut left: Vec<Option<&FaultPlan>> = plans.iter().map(Some).collect();
        let known = std::mem::take(&mut self.planned_faults);
        for mut plan in known {
            let devices = moves.devices(&plan.devices);
            let twin = devices.and_then(|devices| {
                plan.devices = devices;
                left.iter().position(|p| *p == Some(&plan))
            });
            match twin {
                Some(at) => {
                    left[at] = None;
                    self.planned_faults.push(plan);
                    summary.faults_kept += 1;
                }
                None => summary.faults_removed += 1,
            }
        }
        // A schedule goes with the line that made it; what has struck goes with its device.
        self.schedules.retain_mut(|(_, schedule)| {
            let Some(devices) = moves.devices(&schedule.devices) else {
                return false;
            };
            schedule.devices = devices;
            if !schedule.planned {
                return true;
            }
            let Some(written) = moves.devices(&schedule.plan.devices) else {
                return false;
            };
            schedule.plan.devices = written;
            plans.contains(&schedule.plan)
        });
        self.faults.follow(|device| moves.device(device));
        self.heal_withdrawn(plans, summary);
        for plan in left.into_iter().flatten() {
            let origin = self.now;
            self.planned_faults.push(plan.clone());
            self.add_schedule(plan, origin);
            summary.faults_added += 1;
        }
    }

    /// Heals active faults that only a withdrawn line of the old plan explains.
    fn heal_withdrawn(&mut self, plans: &[FaultPlan], summary: &Reconfigured) {
        if summary.faults_removed == 0 {
            return;
        }
        let devices = |plan: &FaultPlan| plan.devices.iter().copied().collect();
        let explained: Vec<(&Fault, HashSet<DeviceRef>)> = plans
            .iter()
            .map(|plan| (&plan.fault, devices(plan)))
            .collect();
        self.heal_where(self.now, |fault| {
            let explains = |(what, whom): &(&Fault, HashSet<DeviceRef>)| {
                **what == fault.fault && whom.contains(&fault.device)
            };
            fault.planned && !explained.iter().any(explains)
        });
    }
}
