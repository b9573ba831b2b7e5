//! `mirage dcgm-exporter`: the exporter alone, over the state of a running engine, with the real one's
//! flags, environment variables, endpoints, headers and signals.
//!
//! Flags that mean something here are in [`Args`]; those that only tune the real program's insides
//! are taken and change nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser, ValueEnum};
use mirage_k8s::IdType;
use mirage_k8s::cluster::Access;
use mirage_k8s::podresources::{Filter, SOCKET};
use mirage_state::lookup;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::args::TextArgs;
use super::hot::{Exporters, Recipe};
use super::list::{List, Map};
use super::spec::{Place, Spec};
use super::state::{Nodes, Search};
use super::{flags, health};
use crate::attribution::{Attribution, DetailArgs, Settings, Source};
use crate::cli::{parse, say};
use crate::health::Health;
use crate::http::{self, Large, Limits, Web};
use crate::machine::{duration, listen};

/// Where the real exporter's field list lies.
const LIST: &str = "/etc/dcgm-exporter/default-counters.csv";
/// The real exporter gives a client ten seconds for its request, and ten to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the first page waits for pods.
const FIRST: Duration = Duration::from_secs(2);
/// What Go makes of a page without a content type.
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// How a kubelet's device ids name GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GpuIdType {
    /// By UUID
    Uid,
    /// As nvidia0, nvidia1, …
    DeviceName,
}

/// Arguments of `mirage dcgm-exporter`.
#[derive(Debug, Parser)]
#[command(
    name = "dcgm-exporter",
    version,
    disable_version_flag = true,
    args_override_self = true,
    about = "Serve dcgm-exporter's metrics of a running mirage, with its flags and variables",
    after_help = "Examples:\n  \
        mirage dcgm-exporter                              the node of this machine\n  \
        mirage dcgm-exporter --state /run/mirage/node-a   another node\n  \
        mirage dcgm-exporter -f fields.csv -k -a :9401    own fields, pods of the kubelet\n\n\
        SIGHUP reloads the field list; so does a change of the file."
)]
pub struct Args {
    /// State to show: a state file, a node's directory, or a directory of nodes [default: what NVML
    /// clients find]
    #[arg(long, value_name = "PATH")]
    state: Option<PathBuf>,
    /// Version to imitate: dcgm, dcgm@4.8.2, dcgm@4.8.3, …
    #[arg(long, value_name = "NAME", default_value = "dcgm")]
    identity: String,
    /// Where to serve: ADDRESS:PORT or :PORT
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        default_value = ":9400",
        env = "DCGM_EXPORTER_LISTEN"
    )]
    address: String,
    /// Milliseconds between two looks at the GPUs
    #[arg(
        short,
        long,
        value_name = "MS",
        default_value_t = 30_000,
        env = "DCGM_EXPORTER_INTERVAL"
    )]
    collect_interval: u64,
    /// TLS and passwords, by the web configuration file of Prometheus' exporters
    #[arg(
        long,
        value_name = "FILE",
        default_value = "",
        hide_default_value = true,
        env = "DCGM_EXPORTER_WEB_CONFIG_FILE"
    )]
    web_config_file: String,
    /// Take the fields from the key `metrics` of a ConfigMap instead of a file, and follow it
    #[arg(
        short = 'm',
        long,
        value_name = "NAMESPACE:NAME",
        default_value = "none",
        env = "DCGM_EXPORTER_CONFIGMAP_DATA"
    )]
    configmap_data: String,
    /// How to reach the API server for that [default: by the account of the pod this runs in]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    pods: PodArgs,
    #[command(flatten)]
    inert: Inert,
    /// Print the version
    #[arg(short, long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// Where pods come from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pods")]
struct PodArgs {
    /// Add container, namespace and pod to what a pod holds
    #[arg(short, long, env = "DCGM_EXPORTER_KUBERNETES", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    kubernetes: bool,
    /// How device ids name GPUs
    #[arg(
        long,
        value_enum,
        default_value = "uid",
        env = "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE"
    )]
    kubernetes_gpu_id_type: GpuIdType,
    /// Count devices of resource claims too
    #[arg(long, env = "KUBERNETES_ENABLE_DRA", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    kubernetes_enable_dra: bool,
    /// Resources that are GPUs, beside nvidia.com/gpu and nvidia.com/mig-…
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "NVIDIA_RESOURCE_NAMES"
    )]
    nvidia_resource_names: Vec<String>,
    /// The kubelet's socket
    #[arg(long, value_name = "SOCKET", default_value = SOCKET,
          alias = "pod-resources", env = "DCGM_POD_RESOURCES_KUBELET_SOCKET")]
    pod_resources_kubelet_socket: PathBuf,
    /// Read pods from this podlist.json, or the directory that holds it, instead of a kubelet
    #[arg(long, value_name = "FILE")]
    pod_list: Option<PathBuf>,
    /// How long a broken source's last answer stands
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pod_source_patience: Duration,
    #[command(flatten)]
    more: DetailArgs,
}

/// Flags of the real exporter that have nothing to change here.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Taken for compatibility")]
struct Inert {
    /// Engine to ask; its host becomes the host name, as in the real one without -k
    #[arg(
        short,
        long,
        value_name = "HOST:PORT",
        env = "DCGM_REMOTE_HOSTENGINE_INFO"
    )]
    remote_hostengine_info: Option<String>,
    /// Log format
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        env = "DCGM_EXPORTER_LOG_FORMAT"
    )]
    log_format: String,
    /// DCGM's log level
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "NONE",
        env = "DCGM_EXPORTER_DCGM_LOG_LEVEL"
    )]
    dcgm_log_level: String,
    /// Where debug dumps go
    #[arg(
        long,
        value_name = "DIR",
        default_value = "",
        hide_default_value = true,
        env = "DCGM_EXPORTER_DUMP_DIRECTORY"
    )]
    dump_directory: String,
    /// Hours debug dumps are kept
    #[arg(
        long,
        value_name = "HOURS",
        default_value = "24",
        env = "DCGM_EXPORTER_DUMP_RETENTION"
    )]
    dump_retention: String,
    /// Time between looks for GPUs that come and go
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        env = "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL"
    )]
    gpu_bind_unbind_poll_interval: String,
    /// Other switches of the real one that change nothing here, hidden
    #[command(flatten)]
    switches: Switches,
}

/// Declares switches that may stand alone or with `=true`, and have a variable.
macro_rules! switches {
    ($( $name:ident $env:literal ; )*) => {
        /// Switches without effect.
        #[derive(Debug, clap::Args)]
        struct Switches { $(
            #[doc = "Taken, without effect"]
            #[arg(long, env = $env, value_name = "BOOL", hide = true,
                  num_args = 0..=1, require_equals = true, default_value = "false",
                  default_missing_value = "true", action = ArgAction::Set,
                  value_parser = BoolishValueParser::new())]
            $name: bool,
        )* }

        impl Switches {
            /// Names of those that are set.
            fn set(&self) -> Vec<String> {
                [ $( (stringify!($name), self.$name), )* ]
                    .iter()
                    .filter(|(_, set)| *set)
                    .map(|(name, _)| format!("--{}", name.replace('_', "-")))
                    .collect()
            }
        }
    };
}

switches! {
    fake_gpus "DCGM_EXPORTER_USE_FAKE_GPUS";
    web_systemd_socket "DCGM_EXPORTER_SYSTEMD_SOCKET";
    debug "DCGM_EXPORTER_DEBUG";
    enable_dcgm_log "DCGM_EXPORTER_ENABLE_DCGM_LOG";
    dump_enabled "DCGM_EXPORTER_DUMP_ENABLED";
    dump_compression "DCGM_EXPORTER_DUMP_COMPRESSION";
    disable_startup_validate "DISABLE_STARTUP_VALIDATE";
    enable_gpu_bind_unbind_watch "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH";
    enable_pprof "DCGM_EXPORTER_ENABLE_PPROF";
}

/// Runs the exporter if this process was started under its name.
pub fn run_as_named() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let program = PathBuf::from(args.next()?);
    if program.file_name()?.to_str()? != "dcgm-exporter" {
        return None;
    }
    Some(crate::cli::exit(run(args)))
}

/// Runs with the arguments after the name, until a signal ends it.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let given = flags::two_dashes(args);
    let args: Args = parse(std::iter::once("dcgm-exporter".into()).chain(given));
    let host = std::env::var("NODE_NAME")
        .ok()
        .filter(|name| !name.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let mut recipe = args.recipe(host.clone())?;
    let map = runtime.block_on(args.map())?;
    if let Some(map) = &map {
        recipe.collectors = Some(List::Map(map.clone()));
    }
    let main = Spec {
        identity: recipe.identity.clone(),
        place: Place::Main,
    };
    let exporters = Exporters::new(&[main], |_| recipe.clone())?;
    let every = Duration::from_millis(args.collect_interval);
    let search = Search {
        place: args.state.clone(),
        node: host.clone(),
        find: lookup::find,
    };
    let nodes = Nodes::open(search, every)?;
    let web = match args.web_config_file.as_str() {
        "" => None,
        file => Some(Arc::new(Web::open(Path::new(file))?)),
    };
    let listener = listen("--address", &args.address)?;
    let address = listener.local_addr().context("asking for our address")?;
    let attribution = Attribution::new(args.pods.settings(host));
    let site = Arc::new(Site {
        nodes,
        exporters,
        attribution,
        map,
        web,
        health: Arc::default(),
        large: Large::default(),
    });
    runtime.block_on(site.serve(listener, &address.to_string()))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

impl Args {
    fn recipe(&self, node_name: Option<String>) -> Result<Recipe> {
        let set = self.inert.switches.set();
        if !set.is_empty() {
            say(&format!("{} have no effect here", set.join(", ")));
        }
        let remote = self.inert.remote_hostengine_info.as_deref();
        let remote = remote
            .filter(|_| !self.pods.kubernetes)
            .map(|place| place.rsplit_once(':').map_or(place, |(host, _)| host))
            .map(str::to_owned);
        let mut options = self.text.options()?;
        options.pods = self.pods.kubernetes;
        options.hostname = remote.or(node_name);
        let list = PathBuf::from(LIST);
        let usual = (!self.text.use_old_namespace && list.is_file()).then_some(list);
        Ok(Recipe {
            identity: self.identity.clone(),
            collectors: self.text.collectors.clone().or(usual).map(List::File),
            options,
            every: Some(Duration::from_millis(self.collect_interval)),
        })
    }

    /// The ConfigMap with the fields, if there shall be one.
    async fn map(&self) -> Result<Option<Arc<Map>>> {
        if matches!(self.configmap_data.as_str(), "none" | "") {
            return Ok(None);
        }
        let access = Access {
            kubeconfig: self.kubeconfig.clone(),
            context: None,
        };
        let map = Map::open(&self.configmap_data, &access).await?;
        Ok(Some(Arc::new(map)))
    }
}

impl PodArgs {
    fn settings(&self, node: Option<String>) -> Settings {
        let source = match &self.pod_list {
            Some(list) => Source::PodList(list.clone()),
            None => Source::PodResources(self.pod_resources_kubelet_socket.clone()),
        };
        if self.more.kubernetes_enable_pod_labels && self.pod_list.is_none() {
            say(
                "--kubernetes-enable-pod-labels: a kubelet does not tell the labels of pods, so there are none; \
                 --pod-list can tell them",
            );
        }
        Settings {
            sources: self
                .kubernetes
                .then_some(source)
                .into_iter()
                .chain(self.more.jobs())
                .collect(),
            patience: self.pod_source_patience,
            node,
            filter: Filter {
                resources: self.nvidia_resource_names.clone(),
                claims: self.kubernetes_enable_dra,
            },
            id_type: match self.kubernetes_gpu_id_type {
                GpuIdType::Uid => IdType::Uid,
                GpuIdType::DeviceName => IdType::DeviceName,
            },
            labels: self.more.labels(),
            allocations: self.kubernetes_enable_dra,
        }
    }
}

/// What the pages need.
struct Site {
    nodes: Nodes,
    exporters: Exporters,
    attribution: Arc<Attribution>,
    map: Option<Arc<Map>>,
    web: Option<Arc<Web>>,
    health: Arc<Health>,
    large: Large,
}

impl Site {
    async fn serve(self: Arc<Self>, listener: std::net::TcpListener, address: &str) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let mut quit = signal(SignalKind::quit()).context("listening for SIGQUIT")?;
        let hangup = || signal(SignalKind::hangup()).context("listening for SIGHUP");
        let reading = match self.map.clone() {
            Some(map) => Some(tokio::spawn(map.follow(hangup()?))),
            None => None,
        };
        let hangup = hangup()?;
        let (end, ending) = watch::channel(false);
        let listener = tokio::net::TcpListener::from_std(listener).context("serving HTTP")?;
        // The first page shows pods too, if they are there; it does not wait for a kubelet that hangs.
        let _ = tokio::time::timeout(FIRST, self.attribution.refresh()).await;
        let limits = Limits {
            head: PATIENCE,
            stall: PATIENCE,
            ..Limits::default()
        };
        let seen = self.clone();
        self.exporters.clocks().look_at(move |look| {
            for image in seen.nodes.now() {
                look(&image);
            }
        });
        let router = http::finished(self.clone().router());
        let web = self.web.clone();
        self.exporters.warn_of_vacant(&self.nodes.now());
        let speaks = match &web {
            Some(web) if web.is_tls() => "https",
            _ => "http",
        };
        let serving = http::serve_behind(listener, router, limits, web.clone(), ending);
        let serving = tokio::spawn(serving);
        let guarding = web.map(|web| tokio::spawn(web.follow(self.health.clone())));
        let following = tokio::spawn(self.exporters.clone().follow(hangup));
        let asking = tokio::spawn(self.attribution.clone().run());
        say(&format!("dcgm-exporter on {speaks}://{address}/metrics"));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
        following.abort();
        for task in [reading, guarding].into_iter().flatten() {
            task.abort();
        }
        asking.abort();
        let _ = end.send(true);
        let _ = serving.await;
        Ok(())
    }

    fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(index))
            .route("/metrics", get(metrics))
            .route("/health", get(healthy))
            .route("/self/metrics", get(about_self))
            .with_state(self)
    }
}

async fn index() -> Html<&'static str> {
    Html(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>GPU Exporter</title></head>\n\
         <body>\n<h1>GPU Exporter</h1>\n<p><a href=\"/metrics\">Metrics</a></p>\n\
         <p><a href=\"/health\">Health</a></p>\n</body></html>\n",
    )
}

async fn metrics(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let nodes = site.nodes.now();
    let fleet = nodes.len();
    let exporter = site.exporters.main().get();
    let nodes = site
        .exporters
        .remember(&exporter, site.attribution.show(nodes, fleet));
    let mut response = http::page(exporter, nodes, &headers, &site.large);
    let kind = axum::http::header::CONTENT_TYPE;
    response.headers_mut().insert(kind, PLAIN);
    response
}

async fn healthy(State(site): State<Arc<Site>>) -> Response {
    let available = (
        HeaderName::from_static("x-registry-available"),
        HeaderValue::from_static("true"),
    );
    let body = health(&site.attribution, &site.exporters, &site.health);
    ([available], body).into_response()
}

async fn about_self(State(site): State<Arc<Site>>) -> String {
    super::self_metrics(&site.attribution, &site.exporters, &site.health)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Args {
        let given = flags::two_dashes(args.iter().map(|&arg| OsString::from(arg)));
        Args::try_parse_from(std::iter::once("dcgm-exporter".into()).chain(given))
            .unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    /// Every flag of the real exporter, as its users write them.
    #[test]
    fn every_real_flag_is_taken() {
        for args in [
            &["-f", "x.csv"][..],
            &["-a", ":9401"],
            &["-c", "1000"],
            &["-k"],
            &["-k=false"],
            // Go's flags may be given again; the last one counts.
            &["-k", "-k=false", "-a", ":1", "-a", ":2"],
            &["-o"],
            &["-d", "g:0-3"],
            &["-s", "f"],
            &["-p", "f"],
            &["-m", "none"],
            &["-r", "localhost:5555"],
            &["-n"],
            &["-x", "1000"],
            &["--clock-events-count-window-size", "1000"],
            &["--fake-gpus"],
            &["--kubernetes-enable-pod-labels"],
            &["--kubernetes-enable-pod-uid=true"],
            &["--kubernetes-pod-label-allowlist-regex", "a.*,b"],
            &["--hpc-job-mapping-dir", "/x"],
            &["--kubernetes-gpu-id-type", "device-name"],
            &["-kubernetes-virtual-gpus"],
            &["--kubernetes-enable-dra"],
            &["--nvidia-resource-names", "a/b,c/d"],
            &["--pod-resources-kubelet-socket", "/x"],
            &["--replace-blanks-in-model-name"],
            &["-rbmn"],
            &["--web-config-file", ""],
            &["--web-systemd-socket"],
            &["--debug"],
            &["--log-format", "json"],
            &["--enable-dcgm-log"],
            &["--dcgm-log-level", "ERROR"],
            &["--dump-enabled"],
            &["--dump-directory", "/x"],
            &["--dump-retention", "24"],
            &["--dump-compression=false"],
            &["--disable-startup-validate"],
            &["--enable-gpu-bind-unbind-watch"],
            &["--gpu-bind-unbind-poll-interval", "1s"],
            &["--enable-pprof"],
        ] {
            parse(args);
        }
    }

    #[test]
    fn what_is_not_possible_is_refused() {
        let error = parse(&["-d", "x"]).recipe(None).unwrap_err().to_string();
        assert!(error.contains("write f, g"), "{error}");
    }

    #[test]
    fn more_than_the_real_one_shows_is_shown_when_asked_for() {
        let more = |args: &[&str]| {
            let options = parse(args).recipe(None).unwrap().options;
            (options.xid_zero, options.any_vendor)
        };
        assert_eq!(more(&[]), (false, false));
        assert_eq!(more(&["--xid-zero"]), (true, false));
        assert_eq!(more(&["-any-vendor"]), (false, true));
    }

    #[test]
    fn the_host_name_is_the_nodes_unless_told_otherwise() {
        let host = |args: &[&str], node: Option<&str>| {
            let recipe = parse(args).recipe(node.map(str::to_owned)).unwrap();
            recipe.options.hostname
        };
        assert_eq!(host(&[], None), None);
        assert_eq!(host(&[], Some("n")).as_deref(), Some("n"));
        assert_eq!(host(&["-r", "far:5555"], Some("n")).as_deref(), Some("far"));
        assert_eq!(
            host(&["-r", "far:5555", "-k"], Some("n")).as_deref(),
            Some("n")
        );
    }

    #[test]
    fn pods_are_asked_for_with_k_alone() {
        assert!(parse(&[]).pods.settings(None).sources.is_empty());
        let settings = parse(&["-k"]).pods.settings(None);
        assert_eq!(settings.sources, [Source::PodResources(SOCKET.into())]);
        assert_eq!(settings.id_type, IdType::Uid);
        let settings = parse(&["-k", "--pod-list", "/x"]).pods.settings(None);
        assert_eq!(settings.sources, [Source::PodList("/x".into())]);
    }
}
