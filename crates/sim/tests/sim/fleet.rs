//! Small worlds to test with.

use std::sync::Arc;
use std::time::Duration;

use mirage_model::board::Board;
use mirage_model::catalogue;
use mirage_model::plan::{
    ActivityStep, Amount, DeviceRef, Driver, Fault, FaultPlan, Function, GpuPlan, Limits, NodePlan,
    Plan, Range, When, WorkloadKind, WorkloadPlan,
};
use mirage_sim::{Answer, EventKind, Gpu, Input, Readings, Refusal, World};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn board(key: &str) -> Arc<Board> {
    catalogue::board(key).unwrap_or_else(|| panic!("no board {key}"))
}

/// One node, `node-a`, with this many boards.
pub(crate) fn plan_of(board: Arc<Board>, gpus: usize) -> Plan {
    let mut plan = Plan::empty(7);
    plan.nodes.push(node("node-a", board, gpus));
    plan
}

pub(crate) fn node(name: &str, board: Arc<Board>, gpus: usize) -> NodePlan {
    NodePlan {
        name: name.into(),
        pool: None,
        driver: Arc::new(Driver {
            version: "550.163.01".into(),
            cuda: (12, 4),
        }),
        dynamic_mig: false,
        gpus: vec![GpuPlan { board, given: None }; gpus],
        extras: None,
    }
}

pub(crate) fn plan(key: &str, gpus: usize) -> Plan {
    plan_of(board(key), gpus)
}

pub(crate) fn world(key: &str, gpus: usize) -> World {
    World::new(&plan(key, gpus))
}

pub(crate) fn device(gpu: u32) -> DeviceRef {
    DeviceRef {
        node: 0,
        gpu,
        instance: None,
    }
}

pub(crate) fn fixed(value: f64) -> Range {
    Range {
        low: value,
        high: value,
    }
}

/// One step at this utilisation, in percent.
pub(crate) fn at(utilization: f64, duration: Option<Duration>) -> ActivityStep {
    ActivityStep {
        duration,
        utilization: fixed(utilization),
        memory: Some(Amount::Bytes(fixed((1u64 << 30) as f64))),
        bandwidth: None,
        interconnect: None,
        function: Function::Random,
    }
}

/// Runs for ever at this utilisation on GPU 0.
pub(crate) fn steady(name: &str, utilization: f64) -> WorkloadPlan {
    WorkloadPlan {
        name: name.into(),
        devices: vec![device(0)],
        at: Duration::ZERO,
        activity: vec![at(utilization, None)],
        repeat: None,
        limits: Limits::default(),
        intensity: 0.95,
        tensor: 0.5,
        owner: None,
        process: "python3".into(),
        kind: WorkloadKind::Compute,
    }
}

/// The burn test the power model was fitted with.
pub(crate) fn burn() -> WorkloadPlan {
    let mut burn = steady("burn", 100.0);
    burn.activity[0].bandwidth = Some(fixed(12.0));
    burn.activity[0].interconnect = Some(fixed(0.0));
    burn
}

/// Kernels so dense that the power limit has to cap them.
pub(crate) fn dense() -> WorkloadPlan {
    WorkloadPlan {
        name: "dense".into(),
        intensity: 2.5,
        ..burn()
    }
}

pub(crate) fn now(fault: Fault) -> FaultPlan {
    FaultPlan {
        devices: vec![device(0)],
        fault,
        when: When::At(Duration::ZERO),
        heal_after: None,
    }
}

/// What tests do to worlds.
pub(crate) trait Drive {
    fn run(&mut self, seconds: u32);
    fn ask(&mut self, input: Input) -> Result<Answer, Refusal>;
    fn start(&mut self, workload: WorkloadPlan);
    fn strike(&mut self, fault: Fault) -> u64;
    fn first(&self) -> &Gpu;
    fn readings(&self) -> &Readings;
    fn xids(&mut self) -> Vec<u64>;
}

impl Drive for World {
    fn run(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.step(&[], SECOND);
        }
    }

    /// One input and no time.
    fn ask(&mut self, input: Input) -> Result<Answer, Refusal> {
        self.step(&[input], Duration::ZERO).remove(0)
    }

    fn start(&mut self, workload: WorkloadPlan) {
        self.ask(Input::AddWorkload(workload)).unwrap();
    }

    fn strike(&mut self, fault: Fault) -> u64 {
        match self.ask(Input::Inject(now(fault))) {
            Ok(Answer::Faults { ids }) => ids[0],
            other => panic!("{other:?}"),
        }
    }

    fn first(&self) -> &Gpu {
        &self.node(0).unwrap().gpus()[0]
    }

    fn readings(&self) -> &Readings {
        self.first().readings()
    }

    fn xids(&mut self) -> Vec<u64> {
        self.drain_events()
            .into_iter()
            .filter(|e| e.kind == EventKind::Xid)
            .map(|e| e.data)
            .collect()
    }
}
