//! What a topology document says is running on a device, as workloads.

use std::time::Duration;

use super::Reading;
use super::keys::{Shape, find, integer, number, shaped, shapes, strangers, text};
use crate::config::workload::{INTENSITY, PROCESS};
use crate::plan::{
    ActivityStep, Amount, DeviceRef, Function, GpuPlan, Limits, Owner, Range, WorkloadKind,
    WorkloadPlan,
};
use crate::quantity::clip;
use crate::yaml::{Node, Problem};

const PERCENT: (f64, f64) = (0.0, 100.0);
const POD: &[&str] = &["namespace", "pod", "container"];
const USE: &[&str] = &[
    "utilization",
    "fbused",
    "isinferencepod",
    "useknativeutilization",
];

/// The memory of one device, as its workloads take it.
pub(super) struct Room {
    /// What the document counts in: the whole of it.
    total_mib: u64,
    /// What workloads can have: the driver keeps back the rest.
    usable_mib: u64,
    claimed_mib: u64,
}

impl Room {
    /// The memory of a GPU or of one of its instances; none of a GPU that could not be read.
    pub(super) fn of(gpu: Option<&GpuPlan>, instance: Option<u32>) -> Self {
        let usable_mib = gpu.and_then(|gpu| gpu.memory_usable_mib(instance));
        let usable_mib = usable_mib.unwrap_or(0);
        Self {
            total_mib: match (gpu, instance) {
                (Some(gpu), None) => gpu.board.memory_total_mib,
                _ => usable_mib,
            },
            usable_mib,
            claimed_mib: 0,
        }
    }

    /// Takes so much, or what is left of it.
    fn take(&mut self, mib: u64) -> u64 {
        let left = self.usable_mib.saturating_sub(self.claimed_mib);
        self.claimed_mib = self.claimed_mib.saturating_add(mib);
        mib.min(left)
    }
}

impl Reading<'_> {
    /// Adds the workloads of one GPU or MIG device.
    pub(super) fn usage(&mut self, node: &Node, name: &str, device: DeviceRef, mut room: Room) {
        if let Some((_, metrics)) = find(node, "metrics") {
            strangers(
                metrics,
                &["metadata", "utilization", "fbused"],
                &mut self.warnings,
            );
            shapes(metrics, &[("metadata", Shape::Mapping)], &mut self.problems);
            let owner = find(metrics, "metadata").and_then(|(_, pod)| owner(pod, ""));
            let busy = number(metrics, "utilization", PERCENT, &mut self.problems);
            let busy = busy.map(|busy| Range {
                low: busy,
                high: busy,
            });
            let memory = self.memory(metrics, &mut room);
            self.run(name.to_string(), device, busy, memory, owner);
        }
        let Some((_, status)) = find(node, "status") else {
            return;
        };
        strangers(
            status,
            &["allocatedby", "podgpuusagestatus"],
            &mut self.warnings,
        );
        let wanted = [
            ("allocatedby", Shape::Mapping),
            ("podgpuusagestatus", Shape::Mapping),
        ];
        shapes(status, &wanted, &mut self.problems);
        let pod = find(status, "allocatedby").map(|(_, pod)| pod);
        let uses = find(status, "podgpuusagestatus").and_then(|(_, uses)| uses.entries());
        let uses = uses.unwrap_or(&[]);
        if let Some(pod) = pod {
            strangers(pod, POD, &mut self.warnings);
            // Allocated and idle: the owner shows, nothing runs.
            if uses.is_empty()
                && let Some(owner) = owner(pod, "")
            {
                self.run(format!("{name}-pod"), device, None, None, Some(owner));
            }
        }
        for (position, (uid, usage)) in uses.iter().enumerate() {
            strangers(usage, USE, &mut self.warnings);
            let what = format!("`{}`", clip(&uid.text));
            shaped(usage, Shape::Mapping, &what, &mut self.problems);
            let owner = pod.and_then(|pod| owner(pod, &uid.text));
            let busy = self.range(usage);
            let memory = self.memory(usage, &mut room);
            self.run(
                format!("{name}-pod-{position}"),
                device,
                busy,
                memory,
                owner,
            );
        }
    }

    fn range(&mut self, usage: &Node) -> Option<Range> {
        let (_, busy) = find(usage, "utilization")?;
        if busy.scalar().is_some() {
            let value = number(usage, "utilization", PERCENT, &mut self.problems)?;
            return Some(Range {
                low: value,
                high: value,
            });
        }
        let low = number(busy, "min", PERCENT, &mut self.problems).unwrap_or(0.0);
        let high = number(busy, "max", PERCENT, &mut self.problems).unwrap_or(low);
        if high < low {
            let message = "`max` is below `min`";
            self.problems.push(Problem::new(busy.span, message));
            return None;
        }
        Some(Range { low, high })
    }

    /// Memory in use. A document that hands out all memory there is, as fake-gpu-operator writes
    /// it, means all that can be had: more would end the workload.
    fn memory(&mut self, node: &Node, room: &mut Room) -> Option<u64> {
        let used = integer(node, "fbused", (0, 16 << 20), &mut self.problems)?;
        let taken = room.take(used);
        if room.claimed_mib > room.total_mib {
            let (_, value) = find(node, "fbused")?;
            let message = format!("more memory used than the {} MiB there are", room.total_mib);
            let help = format!("taken as {taken}");
            self.warnings
                .push(Problem::new(value.span, message).help(help));
        }
        Some(taken)
    }

    fn run(
        &mut self,
        name: String,
        device: DeviceRef,
        busy: Option<Range>,
        memory_mib: Option<u64>,
        owner: Option<Owner>,
    ) {
        let bytes = |mib: u64| {
            let bytes = (mib << 20) as f64;
            Amount::Bytes(Range {
                low: bytes,
                high: bytes,
            })
        };
        self.workloads.push(WorkloadPlan {
            name,
            devices: vec![device],
            at: Duration::ZERO,
            activity: vec![ActivityStep {
                duration: None,
                utilization: busy.unwrap_or(Range {
                    low: 0.0,
                    high: 0.0,
                }),
                memory: memory_mib.map(bytes),
                bandwidth: None,
                interconnect: None,
                function: Function::Random,
            }],
            repeat: Some(1),
            limits: Limits::default(),
            intensity: INTENSITY,
            tensor: 0.0,
            owner,
            process: PROCESS.into(),
            kind: WorkloadKind::Compute,
        });
    }
}

/// The container a mapping names; `None` for an empty one, which means nobody.
fn owner(pod: &Node, uid: &str) -> Option<Owner> {
    let part = |key| text(pod, key).unwrap_or("").to_string();
    Some(Owner {
        namespace: part("namespace"),
        pod: text(pod, "pod")?.to_string(),
        container: part("container"),
        pod_uid: uid.to_string(),
    })
}
