//! One node of a topology document: product, memory, GPUs, MIG devices.

use std::sync::Arc;

use super::Reading;
use super::keys::{Shape, find, integer, mappings, shapes, strangers, text};
use super::usage::Room;
use crate::board::Board;
use crate::config::fleet::{Roster, mig};
use crate::config::form::{NAMES, ids};
use crate::config::language::{Form, is_name};
use crate::config::limits::MAX_GPUS_PER_NODE;
use crate::mig::name::canonical;
use crate::plan::{DeviceRef, Extras, GivenGpu, GivenInstance, GpuPlan, PoolPlan};
use crate::quantity::clip;
use crate::yaml::{Node, Problem, Span};

/// Keys of a node.
pub(super) const KEYS: &[&str] = &[
    "gpumemory",
    "gpuproduct",
    "gpucount",
    "gpus",
    "isdynamicmigenabled",
    "driverversion",
    "cudaversion",
    "otherdevices",
    "migstrategy",
];
const GPU_KEYS: &[&str] = &["id", "metrics", "status", "migdevices"];
const MIG_KEYS: &[&str] = &["id", "name", "status", "metrics", "position"];

impl Reading<'_> {
    /// Reads a node, adds it to the fleet and what runs on it to the workloads.
    pub(super) fn node(&mut self, node: &Node, name: &str, at: Span, roster: &mut Roster<'_>) {
        if !is_name(name) {
            let message = format!("`{}` cannot name a node", clip(name));
            self.problems.push(Problem::new(at, message).help(NAMES));
            return;
        }
        let pool = self.body(node, at);
        let index = u32::try_from(roster.plan.nodes.len()).unwrap_or(u32::MAX);
        let written = find(node, "gpus").map(|(_, gpus)| gpus);
        if let Some(pool) = &pool {
            roster.add(pool, name, None, at, written, &mut self.problems);
        }
        // Also of a node that cannot be: all that is wrong is told at once.
        let gpus = written.and_then(Node::items);
        for (gpu, number) in gpus.unwrap_or(&[]).iter().zip(0u32..) {
            let device = |instance| DeviceRef {
                node: index,
                gpu: number,
                instance,
            };
            let gpu_plan = pool
                .as_ref()
                .and_then(|pool| pool.gpus.get(number as usize));
            let room = |instance| Room::of(gpu_plan, instance);
            let label = format!("{name}-gpu-{number}");
            let instances = find(gpu, "migdevices").and_then(|(_, list)| list.items());
            match (instances, find(gpu, "metrics").or(find(gpu, "status"))) {
                (None, _) => self.usage(gpu, &label, device(None), room(None)),
                (Some(_), Some((key, _))) => {
                    let message = format!("`{}` of a GPU in MIG mode is not used", key.text);
                    let help = "say it of its MIG devices";
                    self.warnings
                        .push(Problem::new(key.span, message).help(help));
                }
                (Some(_), None) => {}
            }
            for (instance, position) in instances.unwrap_or(&[]).iter().zip(0u32..) {
                let label = format!("{label}-mig-{position}");
                let (device, room) = (device(Some(position)), room(Some(position)));
                self.usage(instance, &label, device, room);
            }
        }
    }

    /// What the node is like; also used for pools, which have no list of GPUs.
    pub(super) fn body(&mut self, node: &Node, at: Span) -> Option<PoolPlan> {
        let before = self.problems.len();
        if node.entries().is_none() {
            let message = format!("a node must be a mapping, not {}", node.shape());
            self.problems.push(Problem::new(node.span, message));
            return None;
        }
        let wanted = [
            ("gpuproduct", Shape::Text),
            ("gpus", Shape::List),
            ("otherdevices", Shape::List),
            ("driverversion", Shape::Text),
            ("cudaversion", Shape::Text),
            ("isdynamicmigenabled", Shape::Flag),
        ];
        shapes(node, &wanted, &mut self.problems);
        for list in ["gpus", "otherdevices"] {
            mappings(node, list, &mut self.problems);
        }
        let memory = integer(node, "gpumemory", (64, 16 << 20), &mut self.problems);
        let product =
            find(node, "gpuproduct").and_then(|(_, node)| Some((node.text()?, node.span)));
        let board = self.product(product, memory, at)?;
        let most = MAX_GPUS_PER_NODE as u64;
        let count = integer(node, "gpucount", (0, most), &mut self.problems);
        let gpus = match find(node, "gpus") {
            Some((_, list)) => {
                let gpus = self.gpus(list, &board)?;
                if let Some((_, count)) = find(node, "gpucount")
                    && count.u64().is_some_and(|count| count != gpus.len() as u64)
                {
                    let message = format!("the list has {} GPUs", gpus.len());
                    let problem = Problem::new(count.span, message);
                    self.warnings.push(problem.help("the list counts"));
                }
                gpus
            }
            None => {
                let usual = self.defaults.gpus.unwrap_or(board.gpus_per_node);
                let count = count.unwrap_or(u64::from(usual));
                let gpu = GpuPlan {
                    board: board.clone(),
                    given: None,
                };
                vec![gpu; usize::try_from(count).ok()?]
            }
        };
        let resources = self.resources(node);
        let version = self.version(node, "driverversion", Form::Version);
        let cuda = self.version(node, "cudaversion", Form::Cuda);
        let dynamic = find(node, "isdynamicmigenabled").and_then(|(_, node)| node.bool());
        let pool = PoolPlan {
            name: "".into(),
            driver: self.boards.driver(&board, version, cuda),
            dynamic_mig: dynamic.unwrap_or(false),
            gpus,
            extras: (!resources.is_empty()).then(|| {
                Arc::new(Extras {
                    resources,
                    ..Extras::default()
                })
            }),
        };
        (self.problems.len() == before).then_some(pool)
    }

    fn version<'n>(&mut self, node: &'n Node, key: &str, form: Form) -> Option<&'n str> {
        let (_, value) = find(node, key)?;
        let text = value.text().filter(|text| !text.is_empty())?;
        if !form.accepts(text) {
            let (what, example) = form.describe();
            let message = format!(
                "`{}` is no {what}; write for example `{example}`",
                clip(text)
            );
            self.problems.push(Problem::new(value.span, message));
        }
        Some(text)
    }

    fn resources(&mut self, node: &Node) -> Vec<(String, u32)> {
        let devices = find(node, "otherdevices").and_then(|(_, list)| list.items());
        let mut resources = Vec::new();
        for device in devices.unwrap_or(&[]) {
            let count = integer(device, "count", (0, 100_000), &mut self.problems);
            if let (Some(name), Some(count)) = (text(device, "name"), count) {
                resources.push((name.to_string(), u32::try_from(count).unwrap_or(0)));
            }
        }
        resources
    }

    fn gpus(&mut self, list: &Node, board: &Arc<Board>) -> Option<Vec<GpuPlan>> {
        let items = list.items().unwrap_or(&[]);
        if items.len() > MAX_GPUS_PER_NODE {
            let count = items.len();
            let message =
                format!("{count} GPUs on one node, more than the limit of {MAX_GPUS_PER_NODE}");
            self.problems.push(Problem::new(list.span, message));
            return None;
        }
        Some(items.iter().map(|item| self.gpu(item, board)).collect())
    }

    fn gpu(&mut self, gpu: &Node, board: &Arc<Board>) -> GpuPlan {
        strangers(gpu, GPU_KEYS, &mut self.warnings);
        let wanted = [
            ("id", Shape::Text),
            ("migdevices", Shape::List),
            ("metrics", Shape::Mapping),
            ("status", Shape::Mapping),
        ];
        shapes(gpu, &wanted, &mut self.problems);
        mappings(gpu, "migdevices", &mut self.problems);
        let uuid = self.id(gpu);
        let mig = match find(gpu, "migdevices") {
            Some((_, list)) => self.instances(list, board),
            None => None,
        };
        let given = GivenGpu {
            uuid,
            serial: None,
            mig,
        };
        GpuPlan {
            board: board.clone(),
            given: (given != GivenGpu::default()).then(|| Arc::new(given)),
        }
    }

    fn id(&mut self, node: &Node) -> Option<String> {
        let (_, value) = find(node, "id")?;
        let id = value.text().filter(|id| !id.is_empty())?;
        if !Form::Id.accepts(id) {
            let message = format!("`{}` cannot be a device id", clip(id));
            self.problems
                .push(Problem::new(value.span, message).help(ids()));
            return None;
        }
        Some(id.to_string())
    }

    fn instances(&mut self, list: &Node, board: &Board) -> Option<Vec<GivenInstance>> {
        let mut wanted = Vec::new();
        for item in list.items().unwrap_or(&[]) {
            if item.entries().is_none() {
                continue;
            }
            strangers(item, MIG_KEYS, &mut self.warnings);
            let known = [
                ("id", Shape::Text),
                ("name", Shape::Text),
                ("metrics", Shape::Mapping),
                ("status", Shape::Mapping),
            ];
            shapes(item, &known, &mut self.problems);
            let Some(name) = text(item, "name") else {
                if find(item, "name")
                    .is_some_and(|(_, name)| !name.is_null() && name.scalar().is_none())
                {
                    continue;
                }
                let problem = Problem::new(item.span, "a MIG device has no `name`");
                self.problems
                    .push(problem.help("add its profile, for example `name: 1g.5gb`"));
                continue;
            };
            let start = integer(item, "position", (0, 15), &mut self.problems);
            let span = find(item, "name").map_or(item.span, |(_, name)| name.span);
            let instance = GivenInstance {
                profile: canonical(name).into_owned(),
                start: start.and_then(|start| u32::try_from(start).ok()),
                uuid: self.id(item),
            };
            wanted.push((instance, span));
        }
        if let Err(problem) = mig::check(&wanted, board, list.span) {
            self.problems.push(problem);
            return None;
        }
        Some(wanted.into_iter().map(|(instance, _)| instance).collect())
    }
}
