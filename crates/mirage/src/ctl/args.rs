//! The commands of `mirage ctl`, and the request each one sends.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Subcommand;
use serde_json::{Map, Value, json};

use crate::cli::usage;
use crate::source;

/// How devices are named, for every help text.
const DEVICES: &str = "Devices are named node/index (gpu-box/3, node-*/0-3,5), by UUID, or all; with \
    one node the index is enough.";

/// Arguments of `mirage ctl`.
#[derive(Debug, clap::Args)]
#[command(after_help = concat!(
    "Devices are named node/index (gpu-box/3, node-*/0-3,5), by UUID, or all; with one node the\n",
    "index is enough.\n\n",
    "Examples:\n",
    "  mirage ctl status\n",
    "  mirage ctl fault inject xid=79 --device 3 --heal-after 5m\n",
    "  mirage ctl fault inject cooling=2.5 --device 'node-*/0'\n",
    "  mirage ctl fault inject device-plugin:hang --heal-after 30s\n",
    "  mirage ctl set power-limit 250W --device all\n",
    "  mirage ctl workload add burn --device 0-3 --utilization 95-100 --memory 80%\n",
    "  mirage ctl mig enable --device 0 && mirage ctl mig create 1g.5gb --device 0"
))]
pub struct Args {
    /// State directory of the mirage to steer [default: where `mirage up` puts it]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state_dir: Option<PathBuf>,
    /// Print the answer as JSON, as it came
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what is running
    Status,
    /// Make time stand still; everything else goes on answering
    Pause,
    /// Let time go on
    Resume,
    /// Let this much simulated time pass at once, paused or not
    Step {
        /// As in 30s or 1h30m, up to 24h
        time: String,
    },
    /// Break devices and heal them
    #[command(subcommand)]
    Fault(Fault),
    /// Change a setting: power-limit, clocks, memory-clocks, application-clocks, fan, persistence,
    /// cooling, ecc, ecc-clear, compute-mode, accounting, workload-profiles, auto-boost
    #[command(after_help = DEVICES)]
    Set {
        /// Setting
        name: String,
        /// Value, as in 250W, 210-1410, 60%, on, default
        value: String,
        /// Devices it is for
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
    },
    /// Add, remove and list workloads
    #[command(subcommand)]
    Workload(Workload),
    /// Partition GPUs
    #[command(subcommand)]
    Mig(Mig),
    /// Reset devices that nothing uses
    #[command(after_help = DEVICES)]
    Reset {
        /// Devices to reset
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
    },
}

#[derive(Debug, Subcommand)]
enum Fault {
    /// Inject a fault: xid=79, lost, hang, ecc=uncorrected,sram,3, link-down=0,1, cooling=2,
    /// power-brake, device-plugin:die, …
    #[command(after_help = DEVICES)]
    Inject {
        /// What goes wrong, in the config's words
        #[arg(required = true, value_name = "FAULT")]
        fault: Vec<String>,
        /// Devices it strikes [default for device-plugin: all]
        #[arg(long, short, value_name = "DEVICES")]
        device: Option<String>,
        /// Strike after this long, instead of now
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Strike again and again, this far apart
        #[arg(long, value_name = "TIME")]
        every: Option<String>,
        /// Strike by chance, this often per hour and device
        #[arg(long, value_name = "N")]
        rate: Option<String>,
        /// Heal by itself after this long
        #[arg(long, value_name = "TIME")]
        heal_after: Option<String>,
    },
    /// Heal faults of devices, one by its id, or all; those still to come are called off
    #[command(after_help = DEVICES)]
    Heal {
        /// Id of the fault, as listed
        #[arg(conflicts_with = "device")]
        id: Option<u64>,
        /// Devices to heal; `all` heals everything
        #[arg(long, short, value_name = "DEVICES", required_unless_present = "id")]
        device: Option<String>,
    },
    /// List the faults that have struck, and those still to come
    List,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Start a workload, from options or from a file
    #[command(after_help = DEVICES)]
    Add {
        /// Its name
        #[arg(required_unless_present = "file", conflicts_with = "file")]
        name: Option<String>,
        /// A workload as in the config's `workloads:`, YAML or JSON
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Devices it runs on
        #[arg(
            long,
            short,
            value_name = "DEVICES",
            required_unless_present = "file",
            conflicts_with = "file"
        )]
        device: Option<String>,
        /// Busy share in percent, as in 80 or 80-100
        #[arg(long, value_name = "PERCENT", default_value = "80-100")]
        utilization: String,
        /// Memory, as in 30GiB or 50%
        #[arg(long, value_name = "AMOUNT")]
        memory: Option<String>,
        /// How long it runs [default: until removed]
        #[arg(long = "for", value_name = "TIME")]
        length: Option<String>,
        /// Pod it belongs to, as in namespace/name
        #[arg(long, value_name = "POD")]
        pod: Option<String>,
    },
    /// End a workload and forget it
    Remove {
        /// Its name
        name: String,
    },
    /// List workloads
    List,
}

#[derive(Debug, Subcommand)]
enum Mig {
    /// Switch MIG mode on
    Enable {
        /// GPUs
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
    },
    /// Switch MIG mode off
    Disable {
        /// GPUs
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
    },
    /// Create a MIG device: a GPU instance and a compute instance that fills it
    Create {
        /// Profile, as in 1g.5gb
        profile: String,
        /// GPUs
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
        /// First memory slice [default: chosen as the driver does]
        #[arg(long, value_name = "N")]
        start: Option<u32>,
    },
    /// Destroy a GPU instance and its compute instances
    Destroy {
        /// GPUs
        #[arg(long, short, value_name = "DEVICES")]
        device: String,
        /// GPU instance id [default: all]
        #[arg(long, value_name = "ID")]
        gpu_instance: Option<u32>,
    },
    /// List MIG devices
    List {
        /// GPUs
        #[arg(long, short, value_name = "DEVICES", default_value = "all")]
        device: String,
    },
}

impl Args {
    /// The request this command sends.
    pub(super) fn request(&self) -> Result<Value> {
        Ok(match &self.command {
            Command::Status => json!({ "op": "status" }),
            Command::Pause => json!({ "op": "pause" }),
            Command::Resume => json!({ "op": "resume" }),
            Command::Step { time } => json!({ "op": "step", "time": time }),
            Command::Fault(fault) => fault.request()?,
            Command::Set {
                name,
                value,
                device,
            } => json!({ "op": "set", "devices": device, "name": name, "value": value }),
            Command::Workload(workload) => workload.request()?,
            Command::Mig(mig) => mig.request(),
            Command::Reset { device } => json!({ "op": "reset", "devices": device }),
        })
    }
}

impl Fault {
    fn request(&self) -> Result<Value> {
        Ok(match self {
            Self::Inject {
                fault,
                device,
                at,
                every,
                rate,
                heal_after,
            } => {
                let mut words: Vec<String> = fault.iter().map(|word| spelled(word)).collect();
                let of_plugin = words.iter().any(|word| word.starts_with(OF_PLUGIN));
                let device = match device {
                    Some(device) => device.split_whitespace().collect(),
                    // It is one plugin that misbehaves, for all of them.
                    None if of_plugin => "all".to_owned(),
                    None => return Err(usage("fault inject: say what it strikes with --device")),
                };
                words.push(format!("device={device}"));
                let options = [
                    ("at", at),
                    ("every", every),
                    ("rate", rate),
                    ("heal-after", heal_after),
                ];
                for (key, value) in options {
                    if let Some(value) = value {
                        words.push(format!("{key}={}", value.trim()));
                    }
                }
                json!({ "op": "fault.inject", "fault": words.join(" ") })
            }
            Self::Heal { id: Some(id), .. } => json!({ "op": "fault.heal", "id": id }),
            Self::Heal { id: None, device } => match device.as_deref() {
                Some("all") => json!({ "op": "fault.heal", "all": true }),
                Some(device) => json!({ "op": "fault.heal", "devices": device }),
                None => return Err(usage("fault heal: give an id or --device")),
            },
            Self::List => json!({ "op": "fault.list" }),
        })
    }
}

/// How faults of the device plugin begin.
const OF_PLUGIN: &str = "device-plugin=";

/// `device-plugin:hang` as the config spells it.
fn spelled(word: &str) -> String {
    match word.split_once(':') {
        Some(("device-plugin", what)) => format!("{OF_PLUGIN}{what}"),
        _ => word.to_owned(),
    }
}

impl Workload {
    fn request(&self) -> Result<Value> {
        Ok(match self {
            Self::Add {
                file: Some(file), ..
            } => {
                let text = source::read(file).context("reading the workload")?;
                json!({ "op": "workload.add", "workload": text })
            }
            Self::Add {
                name,
                file: None,
                device,
                utilization,
                memory,
                length,
                pod,
            } => {
                let mut step = Map::new();
                step.insert("utilization".into(), utilization.as_str().into());
                if let Some(memory) = memory {
                    step.insert("memory".into(), memory.as_str().into());
                }
                let mut workload = Map::new();
                workload.insert("name".into(), json!(name));
                workload.insert("devices".into(), json!(device));
                if let Some(length) = length {
                    step.insert("for".into(), length.as_str().into());
                    workload.insert("repeat".into(), 1.into());
                }
                workload.insert("activity".into(), json!([step]));
                if let Some(pod) = pod {
                    workload.insert("pod".into(), pod.as_str().into());
                }
                json!({ "op": "workload.add", "workload": workload })
            }
            Self::Remove { name } => json!({ "op": "workload.remove", "name": name }),
            Self::List => json!({ "op": "workload.list" }),
        })
    }
}

impl Mig {
    fn request(&self) -> Value {
        match self {
            Self::Enable { device } => json!({ "op": "mig.enable", "devices": device }),
            Self::Disable { device } => json!({ "op": "mig.disable", "devices": device }),
            Self::Create {
                profile,
                device,
                start,
            } => json!({
                "op": "mig.create",
                "devices": device,
                "profile": profile,
                "start": start,
            }),
            Self::Destroy {
                device,
                gpu_instance,
            } => json!({
                "op": "mig.destroy",
                "devices": device,
                "gpu_instance": gpu_instance,
            }),
            Self::List { device } => json!({ "op": "mig.list", "devices": device }),
        }
    }
}
