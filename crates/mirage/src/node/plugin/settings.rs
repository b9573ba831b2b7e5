//! What the device plugin can be told, under the names NVIDIA's plugin has for it, and its config file.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use clap::builder::BoolishValueParser;
use mirage_k8s::deviceplugin::prefer;
use mirage_k8s::gfd;
use mirage_model::plan::MigStrategy;

use super::configfile::{self, ConfigFile};
use super::health::Checks;
use super::inventory::WHOLE;
use crate::cli::{say, usage};

/// Variables by which containers are told what else the node has.
pub(super) const GDRCOPY: &str = "NVIDIA_GDRCOPY";
pub(super) const GDS: &str = "NVIDIA_GDS";
pub(super) const MOFED: &str = "NVIDIA_MOFED";
/// What annotations that name CDI devices begin with.
const PREFIX: &str = "cdi.k8s.io/";

/// Arguments of the device plugin.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Device plugin")]
pub(in crate::node) struct PluginArgs {
    /// Run no device plugin
    #[arg(long)]
    pub(super) no_device_plugin: bool,
    /// The kubelet's registration socket [default: device-plugins/kubelet.sock in the kubelet's directory]
    #[arg(long, value_name = "PATH", env = "KUBELET_SOCKET")]
    pub(super) kubelet_socket: Option<PathBuf>,
    /// How MIG devices are offered [default: as the config says]
    #[arg(long, value_name = "STRATEGY", env = "MIG_STRATEGY")]
    mig_strategy: Option<Mig>,
    /// How containers are told their devices; several may be given
    #[arg(
        long,
        value_name = "STRATEGY",
        env = "DEVICE_LIST_STRATEGY",
        value_delimiter = ','
    )]
    device_list_strategy: Vec<ListStrategy>,
    /// Under which names containers are told their devices [default: uuid]
    #[arg(long, value_name = "STRATEGY", env = "DEVICE_ID_STRATEGY")]
    device_id_strategy: Option<IdStrategy>,
    /// Hand device nodes to containers [default: if the driver root has real ones]
    #[arg(
        long,
        value_name = "BOOL",
        env = "PASS_DEVICE_SPECS",
        num_args = 0..=1,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    pass_device_specs: Option<bool>,
    /// Prefix of the annotations of `cdi-annotations` [default: cdi.k8s.io/]
    #[arg(long, value_name = "PREFIX", env = "CDI_ANNOTATION_PREFIX")]
    cdi_annotation_prefix: Option<String>,
    /// Tell containers that GPUDirect RDMA copies are there
    #[arg(long, env = "GDRCOPY_ENABLED", value_parser = BoolishValueParser::new())]
    gdrcopy_enabled: bool,
    /// Tell containers that GPUDirect Storage is there
    #[arg(long, env = "GDS_ENABLED", value_parser = BoolishValueParser::new())]
    gds_enabled: bool,
    /// Tell containers that Mellanox' network driver is there
    #[arg(long, env = "MOFED_ENABLED", value_parser = BoolishValueParser::new())]
    mofed_enabled: bool,
    /// Give containers these channels of the memory exchange between machines (IMEX): 0, or none
    #[arg(
        long,
        value_name = "LIST",
        env = "IMEX_CHANNEL_IDS",
        value_delimiter = ','
    )]
    imex_channel_ids: Vec<String>,
    /// Refuse containers when the channels are not there, instead of going without
    #[arg(long, env = "IMEX_REQUIRED", value_parser = BoolishValueParser::new())]
    imex_required: bool,
    /// Config file in the format of NVIDIA's device plugin: time-slicing, strategies
    #[arg(long, value_name = "FILE", env = "CONFIG_FILE")]
    config_file: Option<PathBuf>,
    /// Offer every device so many times; `,rename` adds `.shared` to resources' names
    #[arg(long, value_name = "REPLICAS[,rename]", conflicts_with = "config_file")]
    time_slicing: Option<String>,
    /// How devices are chosen where GPUs are shared or split
    #[arg(long, value_name = "POLICY", default_value = "distributed")]
    shared_allocation: SharedAllocation,
    /// Offer a further resource, so many of it; may be given several times
    #[arg(long = "resource", value_name = "NAME=COUNT")]
    resources: Vec<String>,
    /// Xids that leave devices healthy, beside those NVIDIA's plugin ignores: a list, or `all`
    #[arg(
        long,
        value_name = "LIST",
        env = "DP_DISABLE_HEALTHCHECKS",
        default_value = ""
    )]
    disable_health_checks: String,
    /// Xids that make devices unhealthy all the same: a list, or `all`
    #[arg(
        long,
        value_name = "LIST",
        env = "DP_ENABLE_HEALTHCHECKS",
        default_value = ""
    )]
    enable_health_checks: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mig {
    /// Whole GPUs, whatever their MIG mode
    None,
    /// MIG devices as nvidia.com/gpu, all of one profile
    Single,
    /// MIG devices as nvidia.com/mig-<profile>, beside whole GPUs
    Mixed,
}

/// How a container is told its devices. Of several, the later one here says what a variable both would set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum ListStrategy {
    /// By the variable NVIDIA_VISIBLE_DEVICES
    Envvar,
    /// By mounts in /var/run/nvidia-container-devices
    VolumeMounts,
    /// By CDI names in annotations
    CdiAnnotations,
    /// By CDI names in the kubelet's request
    CdiCri,
}

/// Under which names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum IdStrategy {
    /// By UUID
    Uuid,
    /// By index: 0, or 0:1 for a MIG device
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SharedAllocation {
    /// Over as many GPUs as possible
    Distributed,
    /// On as few GPUs as possible
    Packed,
}

/// Which resources are offered several times.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sharing {
    /// For every GPU and MIG resource.
    pub(super) every: Option<u32>,
    /// By resource.
    pub(super) by_name: Vec<(String, u32)>,
    /// Shared resources get another name.
    pub(super) rename: bool,
    /// A container may have one share only.
    pub(super) only_one: bool,
}

impl Sharing {
    /// How often the devices of a resource are offered; `None` if they are not shared.
    pub(super) fn replicas(&self, resource: &str) -> Option<u32> {
        let named = self.by_name.iter().find(|(name, _)| name == resource);
        let replicas = named.map(|(_, replicas)| *replicas).or(self.every);
        replicas.filter(|&replicas| replicas > 1)
    }

    /// What a resource is called to the kubelet.
    pub(super) fn name(&self, resource: &str) -> String {
        match self.rename && self.replicas(resource).is_some() {
            true => format!("{resource}.shared"),
            false => resource.to_owned(),
        }
    }
}

/// Channels of the memory exchange that containers are given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Imex {
    pub(super) channels: Vec<u32>,
    /// Without them nothing is given.
    pub(super) required: bool,
}

impl Imex {
    /// Channels as somebody wrote them down. NVIDIA's plugin takes no other than the first.
    pub(super) fn read(ids: &[String]) -> Result<Vec<u32>, String> {
        let ids = ids.iter().map(|id| id.trim());
        let ids: Vec<&str> = ids.filter(|id| !id.is_empty()).collect();
        match ids.as_slice() {
            [] => Ok(Vec::new()),
            ["0"] => Ok(vec![0]),
            _ => Err(format!("{}: it is 0 or nothing", ids.join(","))),
        }
    }
}

/// All of it, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// The strategy, if it was said here.
    pub(super) mig: Option<MigStrategy>,
    pub(super) list: Vec<ListStrategy>,
    pub(super) ids: IdStrategy,
    pub(super) pass_nodes: Option<bool>,
    pub(super) annotation_prefix: String,
    /// Variables that say what else the node has.
    pub(super) features: Vec<&'static str>,
    pub(super) imex: Imex,
    pub(super) sharing: Sharing,
    pub(super) choice: prefer::Sharing,
    pub(super) resources: Vec<(String, u32)>,
    pub(super) checks: Checks,
}

impl Settings {
    /// Whether containers get their things by CDI.
    pub(super) fn uses_cdi(&self) -> bool {
        let cdi = [ListStrategy::CdiAnnotations, ListStrategy::CdiCri];
        self.list.iter().any(|strategy| cdi.contains(strategy))
    }
}

impl PluginArgs {
    /// Checks everything that was said, for a node that makes a driver root or is told not to.
    pub(in crate::node) fn check(&self, makes_root: bool) -> Result<()> {
        let settings = self.settings()?;
        if settings.uses_cdi() && !makes_root && !self.no_device_plugin {
            // A runtime fails containers whose devices stand in no specification.
            return Err(usage(
                "--no-driver-root: there is no CDI specification then, and the device list strategy names devices of it; \
                 leave the option out, or use --device-list-strategy envvar or volume-mounts",
            ));
        }
        Ok(())
    }

    /// MIG strategy, if it was said here, and how devices are shared. What is wrong was told by `check`.
    pub(in crate::node) fn offered(&self) -> (Option<MigStrategy>, gfd::Sharing) {
        let Ok(Settings { mig, sharing, .. }) = self.settings() else {
            return (None, gfd::Sharing::default());
        };
        let sharing = gfd::Sharing {
            every: sharing.every,
            by_name: sharing.by_name,
            is_renamed: sharing.rename,
        };
        (mig, sharing)
    }

    /// Every name that whole GPUs may be offered under, whoever made them. What is wrong was told by `check`.
    pub(in crate::node) fn names(&self) -> Vec<String> {
        let sharing = self.settings().map(|settings| settings.sharing);
        let sharing = sharing.unwrap_or_default();
        WHOLE.iter().map(|name| sharing.name(name)).collect()
    }

    /// Every resource that may have been offered, MIG devices apart, whatever was said of sharing then.
    pub(super) fn all_names(&self) -> Vec<String> {
        let renamed = Sharing {
            every: Some(2),
            rename: true,
            ..Sharing::default()
        };
        let whole = WHOLE
            .iter()
            .flat_map(|name| [(*name).to_owned(), renamed.name(name)]);
        let extras = self.resources.iter().filter_map(|text| resource(text).ok());
        whole.chain(extras.map(|(name, _)| name)).collect()
    }

    /// How many channels of the memory exchange there must be.
    pub(in crate::node) fn imex_channels(&self) -> u32 {
        let imex = self.settings().map(|settings| settings.imex);
        let highest = imex.ok().and_then(|imex| imex.channels.into_iter().max());
        highest.map_or(0, |highest| highest + 1)
    }

    pub(super) fn settings(&self) -> Result<Settings> {
        let file = match &self.config_file {
            Some(path) => read(path)?,
            None => ConfigFile::default(),
        };
        let sharing = match &self.time_slicing {
            Some(text) => time_slicing(text)?,
            None => file.sharing,
        };
        let (checks, unknown) =
            Checks::read(&self.disable_health_checks, &self.enable_health_checks);
        if !unknown.is_empty() {
            // The real plugin says so and goes on; lists written for it shall work here.
            let words = unknown.join(", ");
            say(&format!("health checks: not a number of an Xid: {words}"));
        }
        let resources = self.resources.iter().map(|text| resource(text));
        let features = [
            (self.gdrcopy_enabled, GDRCOPY),
            (self.gds_enabled, GDS),
            (self.mofed_enabled, MOFED),
        ];
        let features = features
            .into_iter()
            .filter(|(on, name)| *on || file.features.contains(name));
        let channels = Imex::read(&self.imex_channel_ids)
            .map_err(|why| usage(format!("--imex-channel-ids {why}")))?;
        let imex = Imex {
            channels: match channels.is_empty() {
                true => file.imex.channels,
                false => channels,
            },
            required: self.imex_required || file.imex.required,
        };
        let mut list = match self.device_list_strategy.is_empty() {
            true => file.list.unwrap_or_default(),
            false => self.device_list_strategy.clone(),
        };
        if list.is_empty() {
            list.push(ListStrategy::Envvar);
        }
        // In whatever order, and however often, they were named.
        list.sort_unstable();
        list.dedup();
        Ok(Settings {
            mig: self.mig_strategy.or(file.mig).map(|mig| match mig {
                Mig::None => MigStrategy::None,
                Mig::Single => MigStrategy::Single,
                Mig::Mixed => MigStrategy::Mixed,
            }),
            list,
            ids: self
                .device_id_strategy
                .or(file.ids)
                .unwrap_or(IdStrategy::Uuid),
            pass_nodes: self.pass_device_specs.or(file.pass_nodes),
            annotation_prefix: self
                .cdi_annotation_prefix
                .clone()
                .or(file.annotation_prefix)
                .unwrap_or_else(|| PREFIX.to_owned()),
            features: features.map(|(_, name)| name).collect(),
            imex,
            sharing,
            choice: match self.shared_allocation {
                SharedAllocation::Distributed => prefer::Sharing::Distributed,
                SharedAllocation::Packed => prefer::Sharing::Packed,
            },
            resources: resources.collect::<Result<_>>()?,
            checks,
        })
    }
}

fn read(path: &Path) -> Result<ConfigFile> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("--config-file {shown}: {error}")))?;
    configfile::read(&text).map_err(|problem| usage(format!("--config-file {shown}: {problem}")))
}

/// `4` or `4,rename`.
fn time_slicing(text: &str) -> Result<Sharing> {
    let bad = || {
        usage(format!(
            "--time-slicing {text}: write how often each GPU is offered, from 2 on, as in 4 or 4,rename"
        ))
    };
    let (count, rename) = match text.split_once(',') {
        Some((count, "rename")) => (count, true),
        Some(_) => return Err(bad()),
        None => (text, false),
    };
    let every = count.trim().parse().ok().filter(|count| *count >= 2);
    Ok(Sharing {
        every: Some(every.ok_or_else(bad)?),
        rename,
        ..Sharing::default()
    })
}

/// `nvidia.com/mig-1g.5gb=7`.
fn resource(text: &str) -> Result<(String, u32)> {
    let bad = |why: &str| -> anyhow::Error {
        usage(format!(
            "--resource {text}: {why}; write NAME=COUNT, as in example.com/widget=4"
        ))
    };
    let (name, count) = text.split_once('=').ok_or_else(|| bad("no count"))?;
    if !mirage_k8s::deviceplugin::is_resource_name(name) {
        return Err(bad("no name of an extended resource"));
    }
    let count = count.parse().map_err(|_| bad("no count"))?;
    Ok((name.to_owned(), count))
}

/// A name of one of our choices, as written in a file.
pub(super) fn choice<T: ValueEnum>(text: &str) -> Result<T> {
    T::from_str(text, true).map_err(|_| {
        let names: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
            .collect();
        anyhow!("`{text}` is none of {}", names.join(", "))
    })
}
