//! Flags that change what an exporter prints, with dcgm-exporter's names, defaults and environment
//! variables.

use std::path::PathBuf;

use anyhow::Result;
use clap::ArgAction;
use clap::builder::BoolishValueParser;
use mirage_metrics::{Devices, Exporter, Options};

use super::hot::{Exporters, Recipe};
use super::list::List;
use super::spec::Spec;
use crate::cli::usage;

/// What an exporter prints.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Exporter")]
pub struct TextArgs {
    /// Fields to export: a list as dcgm-exporter takes it [default: its default set]
    #[arg(
        short = 'f',
        long,
        value_name = "CSV",
        env = "DCGM_EXPORTER_COLLECTORS"
    )]
    pub collectors: Option<PathBuf>,
    /// GPUs and instances to show: f (instances where there are some), g[:RANGE], i[:RANGE]
    #[arg(
        short = 'd',
        long,
        value_name = "CHOICE",
        default_value = "f",
        env = "DCGM_EXPORTER_DEVICES_STR"
    )]
    pub devices: String,
    /// NVSwitches and ports to show: f (both), g[:RANGE] (switches), i[:RANGE] (ports)
    #[arg(
        short,
        long,
        value_name = "CHOICE",
        default_value = "f",
        env = "DCGM_EXPORTER_OTHER_DEVICES_STR"
    )]
    pub switch_devices: String,
    /// CPUs and cores to show: f (both), g[:RANGE] (CPUs), i[:RANGE] (cores)
    #[arg(
        short = 'p',
        long,
        value_name = "CHOICE",
        default_value = "f",
        env = "DCGM_EXPORTER_CPU_DEVICES_STR"
    )]
    pub cpu_devices: String,
    /// Label names of dcgm-exporter 1.x
    #[arg(short = 'o', long, env = "DCGM_EXPORTER_USE_OLD_NAMESPACE", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub use_old_namespace: bool,
    /// Leave the host name out
    #[arg(short = 'n', long, env = "DCGM_EXPORTER_NO_HOSTNAME", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub no_hostname: bool,
    /// Join the words of model names with dashes
    #[arg(long, alias = "rbmn", env = "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub replace_blanks_in_model_name: bool,
    /// Window in milliseconds in which DCGM_EXP_XID_ERRORS_COUNT counts
    #[arg(
        short = 'x',
        long,
        value_name = "MS",
        default_value_t = 300_000,
        env = "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE"
    )]
    pub xid_count_window_size: u64,
    /// Window in milliseconds in which DCGM_EXP_CLOCK_EVENTS_COUNT counts
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 300_000,
        env = "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE"
    )]
    pub clock_events_count_window_size: u64,
    /// Add pod_uid to the pod's labels
    #[arg(long, env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub kubernetes_enable_pod_uid: bool,
    /// One series for each pod that shares a GPU
    #[arg(long, env = "KUBERNETES_VIRTUAL_GPUS", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub kubernetes_virtual_gpus: bool,
    /// Print Xid 0 for a GPU that never had one; dcgm-exporter leaves it out
    #[arg(long)]
    pub xid_zero: bool,
    /// Also show boards of makers the imitated exporter does not serve
    #[arg(long)]
    pub any_vendor: bool,
}

impl TextArgs {
    /// The options they mean.
    pub fn options(&self) -> Result<Options> {
        Ok(Options {
            no_hostname: self.no_hostname,
            old_namespace: self.use_old_namespace,
            replace_blanks_in_model_name: self.replace_blanks_in_model_name,
            devices: Devices::parse(&self.devices).map_err(usage)?,
            switches: Devices::parse(&self.switch_devices).map_err(usage)?,
            cpus: Devices::parse(&self.cpu_devices).map_err(usage)?,
            // Whoever simulates pods wants to see them.
            pods: true,
            pod_uid: self.kubernetes_enable_pod_uid,
            virtual_gpus: self.kubernetes_virtual_gpus,
            xid_window_ms: self.xid_count_window_size,
            clock_window_ms: self.clock_events_count_window_size,
            xid_zero: self.xid_zero,
            any_vendor: self.any_vendor,
            ..Options::default()
        })
    }
}

/// Whose text, and where.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Exporter")]
pub struct IdentityArgs {
    /// Exporter to imitate: dcgm, dcgm@4.8.2, xpum, … or a JSON file, at /metrics; more of them with
    /// a place of their own: NAME=/PATH or NAME:PORT
    #[arg(long = "identity", value_name = "NAME[=PATH|:PORT]")]
    pub identities: Vec<Spec>,
    #[command(flatten)]
    text: TextArgs,
}

impl IdentityArgs {
    /// All exporters they describe.
    pub fn exporters(&self) -> Result<Exporters> {
        let options = self.text.options()?;
        let recipe = |identity: &str| Recipe {
            identity: identity.to_owned(),
            collectors: self.text.collectors.clone().map(List::File),
            options: options.clone(),
            every: None,
        };
        Exporters::new(&self.identities, recipe)
    }

    /// The window in which clock events count.
    pub fn clock_window_ms(&self) -> u64 {
        self.text.clock_events_count_window_size
    }

    /// The one at `/metrics`.
    pub fn compile(&self) -> Result<Exporter> {
        let exporters = self.exporters()?;
        exporters.main().recipe().compile()
    }
}
