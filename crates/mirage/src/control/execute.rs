//! Doing what a request asks, on the engine's thread.

use mirage_model::config;
use mirage_model::plan::DeviceRef;
use mirage_model::select::{self, Running};
use mirage_sim::{Answer, FaultSelector, Input, MigOp, Profile, Refusal};
use serde_json::{Value, json};

use super::instances::Instances;
use super::request::{Heal, Request, shorten};
use super::{Fields, Problem, codes, nvml, settings};
use crate::engine::Core;
use crate::page::summary;
use crate::view::{PendingView, device_name, gpu_view};

/// Refusals told in full; the rest is counted.
const TOLD: usize = 5;

/// What a request comes to: a code and what the answer says beside it.
pub(super) fn execute(core: &mut Core, request: Request) -> Result<(u32, Fields), Problem> {
    match request {
        Request::Status => Ok(done(status(core))),
        Request::Pause(paused) => {
            core.pause(paused);
            Ok(done(clock(core)))
        }
        Request::Step(time) => {
            core.pass(time);
            Ok(done(clock(core)))
        }
        Request::Faults => Ok(done(
            json!({ "faults": *core.faults(), "pending": pending(core) }),
        )),
        Request::Inject(text) => inject(core, &text),
        Request::Heal(which) => heal(core, which),
        Request::Set {
            devices,
            name,
            value,
        } => {
            let setting = settings::setting(&name, &value)?;
            each(core, &devices, |device| Input::Set { device, setting })
        }
        Request::Workloads => Ok(done(json!({ "workloads": *core.workloads() }))),
        Request::AddWorkload(text) => {
            let instances = Instances(core.fleet().read());
            let fleet = Running::new(core.plan(), &instances);
            let plan = config::parse_workload(&text, fleet)
                .map_err(|error| Problem::invalid(error.to_string()))?;
            drop(instances);
            whole(core, &plan.devices)?;
            one(core, Input::AddWorkload(plan))
        }
        Request::RemoveWorkload(name) => one(core, Input::RemoveWorkload(name)),
        Request::Mig { devices } => mig_list(core, &devices),
        Request::MigMode { devices, on } => each(core, &devices, |device| Input::Mig {
            device,
            op: MigOp::Enable(on),
        }),
        Request::MigCreate {
            devices,
            profile,
            start,
        } => mig_create(core, &devices, &profile, start),
        Request::MigDestroy {
            devices,
            gpu_instance,
        } => mig_destroy(core, &devices, gpu_instance),
        Request::Reset { devices } => each(core, &devices, |device| Input::Reset { device }),
        Request::Nvml { gpu, call } => nvml::execute(core, &gpu, call),
    }
}

/// A refusal as NVML's code and our words.
pub(super) fn problem(refusal: &Refusal) -> Problem {
    let code = match refusal {
        Refusal::NoSuchDevice { .. } | Refusal::NotFound { .. } => codes::NOT_FOUND,
        Refusal::NotSupported { .. } => codes::NOT_SUPPORTED,
        Refusal::OutOfRange { .. } | Refusal::Invalid { .. } | Refusal::Exists { .. } => {
            codes::INVALID_ARGUMENT
        }
        Refusal::InUse { .. } => codes::IN_USE,
        Refusal::InsufficientResources { .. } => codes::INSUFFICIENT_RESOURCES,
        Refusal::Lost { .. } => codes::GPU_IS_LOST,
    };
    Problem {
        code,
        message: refusal.to_string(),
    }
}

fn done(value: Value) -> (u32, Fields) {
    match value {
        Value::Object(fields) => (codes::SUCCESS, fields),
        _ => (codes::SUCCESS, Fields::new()),
    }
}

/// Where time is and whether it moves.
fn clock(core: &Core) -> Value {
    json!({ "paused": core.is_paused(), "time_s": core.now().as_secs_f64() })
}

/// What is running, and how fast.
pub fn status(core: &mut Core) -> Value {
    let workloads = core.workloads();
    let running = workloads.iter().filter(|w| w.phase == "running").count();
    let faults = core.faults();
    let active = faults.iter().filter(|fault| fault.active).count();
    let (tick, nodes, gpus) = {
        let published = core.fleet().read();
        let gpus: usize = published.nodes.iter().map(|node| node.cards.len()).sum();
        (published.tick, published.nodes.len(), gpus)
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "fleet": summary(core.plan()),
        "nodes": nodes,
        "gpus": gpus,
        "seed": core.plan().seed,
        "speed": core.speed(),
        "paused": core.is_paused(),
        "tick": tick,
        "time_s": core.now().as_secs_f64(),
        "workloads_running": running,
        "faults_active": active,
    })
}

/// The devices a text means, in the running fleet.
fn devices(core: &Core, text: &str) -> Result<Vec<DeviceRef>, Problem> {
    let instances = Instances(core.fleet().read());
    let fleet = Running::new(core.plan(), &instances);
    select::parse_running(text, fleet).map_err(|error| {
        Problem::invalid(format!("devices \"{}\": {}", shorten(text), error.message))
    })
}

/// Whole GPUs only.
fn gpus(core: &Core, text: &str) -> Result<Vec<DeviceRef>, Problem> {
    let found = devices(core, text)?;
    match found.iter().find(|device| device.instance.is_some()) {
        None => Ok(found),
        Some(&device) => Err(Problem::invalid(format!(
            "devices \"{}\": {} is a MIG device; name the GPU",
            shorten(text),
            device_name(device, core.plan())
        ))),
    }
}

/// A GPU that is cut runs nothing itself, here as in a config.
fn whole(core: &Core, devices: &[DeviceRef]) -> Result<(), Problem> {
    let world = core.world();
    let gpu = |device: &DeviceRef| {
        let node = world.node(device.node as usize)?;
        node.gpus().get(device.gpu as usize)
    };
    let cut = devices.iter().find_map(|device| {
        let gpu = gpu(device).filter(|gpu| device.instance.is_none() && gpu.readings().mig)?;
        Some((device_name(*device, core.plan()), gpu))
    });
    let Some((name, gpu)) = cut else {
        return Ok(());
    };
    let way_out = if gpu.mig_devices().next().is_some() {
        format!("name one of them, as in `{name}:0`, or all with `{name}:*`")
    } else {
        "it has none yet; `mirage ctl mig create` makes some, `mirage ctl mig disable` switches MIG off"
            .into()
    };
    Err(Problem::invalid(format!(
        "MIG is on for `{name}`, so only its MIG devices can run something: {way_out}"
    )))
}

/// One input for each of the devices. What is refused is told; the rest is done.
fn each(
    core: &mut Core,
    text: &str,
    input: impl Fn(DeviceRef) -> Input,
) -> Result<(u32, Fields), Problem> {
    let devices = gpus(core, text)?;
    let inputs: Vec<_> = devices.iter().map(|&device| input(device)).collect();
    let answers = core.apply(&inputs);
    collect(answers)
}

fn one(core: &mut Core, input: Input) -> Result<(u32, Fields), Problem> {
    let answers = core.apply(&[input]);
    collect(answers)
}

/// Many answers as one.
fn collect(answers: Vec<Result<Answer, Refusal>>) -> Result<(u32, Fields), Problem> {
    let mut fields = Fields::new();
    let mut ids = Vec::new();
    let mut refusals = Vec::new();
    let mut count = 0;
    let mut after_reset = 0;
    for answer in answers {
        match answer {
            Ok(answer) => {
                count += 1;
                match answer {
                    Answer::AfterReset | Answer::InUse => after_reset += 1,
                    Answer::Workload { id } => ids.push(id),
                    Answer::Faults { ids: new } => ids.extend(new),
                    Answer::Done | Answer::GpuInstance { .. } | Answer::ComputeInstance { .. } => {}
                }
            }
            Err(refusal) => refusals.push(problem(&refusal)),
        }
    }
    fields.insert("done".into(), count.into());
    if !ids.is_empty() {
        fields.insert("ids".into(), ids.into());
    }
    if after_reset > 0 {
        fields.insert("after_reset".into(), after_reset.into());
    }
    refuse(refusals, fields)
}

/// The answer, with what was refused.
fn refuse(refusals: Vec<Problem>, mut fields: Fields) -> Result<(u32, Fields), Problem> {
    let Some(first) = refusals.first() else {
        return Ok((codes::SUCCESS, fields));
    };
    let told: Vec<_> = refusals
        .iter()
        .take(TOLD)
        .map(|p| p.message.as_str())
        .collect();
    let mut message = told.join("; ");
    if refusals.len() > TOLD {
        message.push_str(&format!("; and {} more", refusals.len() - TOLD));
    }
    fields.insert("refused".into(), refusals.len().into());
    fields.insert("error".into(), message.into());
    Ok((first.code, fields))
}

/// Faults still to come.
fn pending(core: &Core) -> Vec<PendingView> {
    let faults = core.world().pending_faults();
    faults
        .map(|fault| PendingView::new(fault, core.plan()))
        .collect()
}

fn inject(core: &mut Core, text: &str) -> Result<(u32, Fields), Problem> {
    let instances = Instances(core.fleet().read());
    let plan = config::parse_fault(text, Running::new(core.plan(), &instances))
        .map_err(|error| Problem::invalid(error.to_string()))?;
    drop(instances);
    one(core, Input::Inject(plan))
}

fn heal(core: &mut Core, which: Heal) -> Result<(u32, Fields), Problem> {
    let selector = match which {
        Heal::Id(id) => FaultSelector::Id(id),
        Heal::Devices(text) => FaultSelector::Devices(devices(core, &text)?),
        Heal::All => FaultSelector::All,
    };
    one(core, Input::Heal(selector))
}

fn mig_list(core: &Core, text: &str) -> Result<(u32, Fields), Problem> {
    let wanted = gpus(core, text)?;
    let published = core.fleet().read();
    let mut list = Vec::new();
    for device in wanted {
        let Some(image) = published.nodes.get(device.node as usize) else {
            continue;
        };
        let node = image.node();
        let Some(view) = gpu_view(&node, device.gpu as usize) else {
            continue;
        };
        list.push(json!({
            "device": device_name(device, core.plan()),
            "mig": view.flags.contains(&"mig"),
            "instances": view.mig_devices,
        }));
    }
    Ok(done(json!({ "gpus": list })))
}

fn mig_create(
    core: &mut Core,
    text: &str,
    profile: &str,
    start: Option<u32>,
) -> Result<(u32, Fields), Problem> {
    let mut made = Vec::new();
    let mut refusals = Vec::new();
    for device in gpus(core, text)? {
        let create = MigOp::CreateGi {
            profile: Profile::Name(profile.into()),
            start,
        };
        match mig(core, device, create) {
            Ok(Answer::GpuInstance { gi, start }) => {
                let fill = MigOp::CreateCi {
                    gi,
                    profile: None,
                    start: None,
                };
                match mig(core, device, fill) {
                    Ok(Answer::ComputeInstance { ci, .. }) => made.push(json!({
                        "device": device_name(device, core.plan()),
                        "gpu_instance": gi,
                        "compute_instance": ci,
                        "start": start,
                    })),
                    Ok(_) => {}
                    Err(refusal) => {
                        // Half a device is of no use to anybody.
                        let _ = mig(core, device, MigOp::DestroyGi { gi });
                        refusals.push(refusal);
                    }
                }
            }
            Ok(_) => {}
            Err(refusal) => refusals.push(refusal),
        }
    }
    let mut fields = Fields::new();
    fields.insert("done".into(), made.len().into());
    fields.insert("created".into(), made.into());
    refuse(refusals, fields)
}

fn mig_destroy(core: &mut Core, text: &str, wanted: Option<u32>) -> Result<(u32, Fields), Problem> {
    let mut destroyed = 0;
    let mut refusals = Vec::new();
    for device in gpus(core, text)? {
        let gpu = core
            .world()
            .node(device.node as usize)
            .and_then(|node| node.gpus().get(device.gpu as usize));
        let found: Vec<(u32, Vec<u32>)> = gpu
            .into_iter()
            .flat_map(|gpu| gpu.instances())
            .filter(|instance| wanted.is_none_or(|gi| instance.gi == gi))
            .map(|instance| {
                let compute = instance.compute.iter().map(|compute| compute.ci);
                (instance.gi, compute.collect())
            })
            .collect();
        if let (Some(gi), true) = (wanted, found.is_empty()) {
            refusals.push(Problem {
                code: codes::NOT_FOUND,
                message: format!(
                    "GPU instance {gi} on {}: not found",
                    device_name(device, core.plan())
                ),
            });
        }
        for (gi, compute) in found {
            let parts = compute
                .into_iter()
                .map(|ci| MigOp::DestroyCi { gi, ci })
                .chain([MigOp::DestroyGi { gi }]);
            let outcome: Result<Vec<_>, _> = parts.map(|op| mig(core, device, op)).collect();
            match outcome {
                Ok(_) => destroyed += 1,
                Err(refusal) => refusals.push(refusal),
            }
        }
    }
    let mut fields = Fields::new();
    fields.insert("done".into(), destroyed.into());
    refuse(refusals, fields)
}

fn mig(core: &mut Core, device: DeviceRef, op: MigOp) -> Result<Answer, Problem> {
    match core.apply(&[Input::Mig { device, op }]).pop() {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(refusal)) => Err(problem(&refusal)),
        None => Err(Problem {
            code: codes::UNKNOWN,
            message: "the engine gave no answer".into(),
        }),
    }
}
