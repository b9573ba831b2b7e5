//! `mig`: what GPUs can be cut into, what they are cut into, and cutting them.

mod change;
mod show;

use nvidia_ml::client::Code;

use super::Stop;
use super::args::{Command, Invocation, ids, shared};
use super::gpus::Gpu;
use super::words::Words;

/// What to do.
#[derive(Debug)]
pub(super) struct Action {
    verb: Verb,
    /// GPU instances it is about; none means all.
    gpu_instances: Vec<u32>,
    /// Compute instances it is about; none means all.
    compute_instances: Vec<u32>,
}

#[derive(Debug)]
enum Verb {
    GpuProfiles,
    GpuPlacements,
    GpuInstances,
    ComputeProfiles,
    ComputeInstances,
    CreateGpu {
        profiles: Vec<String>,
        /// And in each a compute instance that fills it.
        compute: bool,
    },
    /// No profile is the one that fills the GPU instance.
    CreateCompute(Vec<String>),
    DestroyGpu,
    DestroyCompute,
}

pub(super) fn parse(mut words: Words) -> Result<Invocation, Stop> {
    let mut call = Invocation::new(Command::Help);
    let mut verb = None;
    let mut fill = false;
    let (mut gpu_instances, mut compute_instances) = (Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        let next = match word.name.as_str() {
            "-lgip" | "--list-gpu-instance-profiles" => Verb::GpuProfiles,
            "-lgipp" | "--list-gpu-instance-possible-placements" => Verb::GpuPlacements,
            "-lgi" | "--list-gpu-instances" => Verb::GpuInstances,
            "-lcip" | "--list-compute-instance-profiles" => Verb::ComputeProfiles,
            "-lci" | "--list-compute-instances" => Verb::ComputeInstances,
            "-cgi" | "--create-gpu-instance" => Verb::CreateGpu {
                profiles: ids(&words.value(word)?),
                compute: false,
            },
            "-cci" | "--create-compute-instance" => {
                Verb::CreateCompute(ids(&words.optional(word).unwrap_or_default()))
            }
            "-dgi" | "--destroy-gpu-instance" => Verb::DestroyGpu,
            "-dci" | "--destroy-compute-instance" => Verb::DestroyCompute,
            "-C" | "--default-compute-instance" => {
                fill = true;
                continue;
            }
            "-gi" | "--gpu-instance-id" => {
                gpu_instances = numbers(&words.value(word)?)?;
                continue;
            }
            "-ci" | "--compute-instance-id" => {
                compute_instances = numbers(&words.value(word)?)?;
                continue;
            }
            "-h" | "--help" => return Ok(call),
            _ => {
                shared(&mut call, word, &mut words)?;
                continue;
            }
        };
        if verb.replace(next).is_some() {
            return Err(Stop::usage(
                "mig does one thing at a time: leave one option.",
            ));
        }
    }
    match (&mut verb, fill) {
        (None, _) => {
            return Err(Stop::usage(
                "Say what to do: mig -lgip, -lgipp, -lgi, -lcip, -lci, -cgi, -cci, -dgi or -dci.",
            ));
        }
        (Some(Verb::CreateGpu { compute, .. }), _) => *compute = fill,
        (_, true) => return Err(Stop::usage("-C goes with -cgi.")),
        _ => {}
    }
    if let Some(verb) = verb {
        call.command = Command::Mig(Action {
            verb,
            gpu_instances,
            compute_instances,
        });
    }
    Ok(call)
}

fn numbers(text: &str) -> Result<Vec<u32>, Stop> {
    let number = |name: String| {
        let number = name.parse().ok();
        number.ok_or_else(|| Stop::usage(format!("\"{name}\" is not the number of an instance.")))
    };
    ids(text).into_iter().map(number).collect()
}

pub(super) fn run(gpus: &[Gpu], action: &Action, out: &mut Vec<u8>) -> Result<(), Stop> {
    let cut: Vec<Gpu> = gpus
        .iter()
        .filter(|gpu| matches!(gpu.device.mig_mode(), Ok((1, _))))
        .cloned()
        .collect();
    if cut.is_empty() {
        return Err(Stop::refused(
            Code::NOT_FOUND,
            "No MIG-enabled devices found.",
        ));
    }
    match &action.verb {
        Verb::GpuProfiles => show::gpu_profiles(&cut, out),
        Verb::GpuPlacements => show::gpu_placements(&cut, out),
        Verb::GpuInstances => show::gpu_instances(&cut, out),
        Verb::ComputeProfiles => show::compute_profiles(&cut, action, out),
        Verb::ComputeInstances => show::compute_instances(&cut, action, out),
        Verb::CreateGpu { profiles, compute } => change::create(&cut, profiles, *compute, out),
        Verb::CreateCompute(profiles) => change::create_compute(&cut, profiles, action, out),
        Verb::DestroyGpu => change::destroy(&cut, action, out),
        Verb::DestroyCompute => change::destroy_compute(&cut, action, out),
    }
}

/// There are none of these.
fn nothing(what: &str) -> Stop {
    Stop::refused(Code::NOT_FOUND, format!("No {what} found: Not Found"))
}

impl Action {
    fn wants_gpu_instance(&self, id: u32) -> bool {
        self.gpu_instances.is_empty() || self.gpu_instances.contains(&id)
    }

    fn wants_compute_instance(&self, id: u32) -> bool {
        self.compute_instances.is_empty() || self.compute_instances.contains(&id)
    }
}
