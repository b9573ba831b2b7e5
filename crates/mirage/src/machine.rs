//! A machine of simulated GPUs: engine, state files, exporter, API, control socket. `mirage up` is one; `mirage
//! node` is one with companions that talk to Kubernetes.

use std::io::{ErrorKind, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use mirage_model::plan::Plan;
use mirage_model::quantity;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::attribution::{Attribution, PodSourceArgs};
use crate::cli::{say, usage};
use crate::engine::{self, Core, Engine, Files};
use crate::exporter::{Exporters, Hot, IdentityArgs, Place};
use crate::fleet::Fleet;
use crate::health::Health;
use crate::http::{self, App, Limits};
use crate::page::{self, Page};
use crate::reload::{self, Reload};
use crate::source::Source;
use crate::statedir::{self, StateDir};
use crate::{control, library};

/// Fleets above this many nodes write state files only when asked to.
const FILES_UP_TO: usize = 64;
/// How long work under way at the end may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long companions may take to tidy up.
const TIDY: Duration = Duration::from_secs(10);

/// What every role that runs GPUs can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct MachineArgs {
    /// Simulated seconds per second, 0.01 to 3600
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// Where to serve metrics and API: ADDRESS:PORT or :PORT; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS", default_value = ":9400")]
    pub listen: String,
    /// Where state files and the control socket go [default: /run/mirage, else the runtime or
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as the heading")]
    pub exporter: IdentityArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as the heading")]
    pub pods: PodSourceArgs,
}

/// How a machine begins and ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// State files however many nodes there are.
    pub state_files: bool,
    /// No state files however few: nobody on this machine is on one of its nodes.
    pub no_state_files: bool,
    /// Time stands still at first.
    pub paused: bool,
    /// Simulated time after which it ends by itself.
    pub until: Option<Duration>,
}

/// What companions of a machine may reach.
#[derive(Debug, Clone)]
pub struct Inside {
    /// What is published.
    pub fleet: Arc<Fleet>,
    /// The way to change something.
    pub engine: Engine,
    /// Who uses which GPU.
    pub attribution: Arc<Attribution>,
    /// How each companion is doing.
    pub health: Arc<Health>,
    /// Where state files and the control socket are.
    pub state_dir: PathBuf,
    /// Where the NVML library is, if it was found.
    pub library: Option<PathBuf>,
    /// Becomes true when the machine ends; companions then have a few seconds to tidy up.
    pub ending: watch::Receiver<bool>,
}

/// A speed within limits.
fn speed(text: &str) -> Result<f64, String> {
    let limits = engine::SPEED;
    let speed: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if !limits.contains(&speed) {
        return Err(format!(
            "{text} is outside {} to {}",
            limits.start(),
            limits.end()
        ));
    }
    Ok(speed)
}

/// A duration as people write it.
pub fn duration(text: &str) -> Result<Duration, String> {
    quantity::duration(text).map_err(|error| error.to_string())
}

/// A machine about to run. Everything that can be refused has been.
#[derive(Debug)]
pub struct Machine {
    runtime: Runtime,
    signals: Signals,
    source: Source,
    until: Option<Duration>,
    host: String,
    seen: Option<reload::Version>,
    core: Core,
    page: String,
    path: PathBuf,
    library: Option<PathBuf>,
    listener: TcpListener,
    socket: std::os::unix::net::UnixListener,
    more: Vec<(TcpListener, Arc<Hot>)>,
    exporters: Exporters,
    attribution: Arc<Attribution>,
}

impl Machine {
    /// Reads the config, opens the state directory and listens.
    pub fn new(source: Source, args: MachineArgs, options: Options) -> Result<Machine> {
        let host = statedir::host();
        // Before it is read: a change in between is then seen later rather than missed.
        let seen = source.config.as_deref().and_then(reload::version);
        let plan = source.plan(&host)?;
        let exporters = args.exporter.exporters()?;
        let listener = listen("--listen", &args.listen)?;
        let address = listener.local_addr().context("asking for our address")?;
        let more = more_ports(&exporters, address)?;

        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("starting the runtime")?;
        // Before anything is made that must be taken away again.
        let signals = Signals::new(&runtime)?;
        let path = args.state_dir.unwrap_or_else(statedir::preferred);
        let mut directory = StateDir::take(&path)?;
        let path = directory.path().to_owned();
        let socket = directory.listen()?;
        let library = library::directory(&mut directory);
        let is_small = plan.nodes.len() <= FILES_UP_TO;
        let has_files = options.state_files || is_small && !options.no_state_files;
        let files = if has_files {
            Files::open(directory, &plan)?
        } else {
            Files::held(directory)
        };

        let page = start_page(&plan, &path, address, has_files, library.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.context("the clock is before 1970")?;
        let epoch = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let start_unix_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut core = Core::new(plan, args.speed, start_unix_ms, epoch, files);
        core.pause(options.paused);
        Ok(Machine {
            runtime,
            signals,
            source,
            until: options.until,
            host,
            seen,
            core,
            page,
            path,
            library,
            listener,
            socket,
            more,
            exporters,
            attribution: Attribution::new(args.pods.settings()),
        })
    }

    /// Runs, with companions, until told to end. Companions end by themselves once `Inside::ending` says so.
    pub fn run<F>(self, companions: impl FnOnce(Inside) -> F) -> Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let fleet = self.core.fleet().clone();
        let runtime = self.runtime;
        let (ended, engine_ended) = oneshot::channel();
        let (engine, thread) =
            engine::start(self.core, self.until, ended).context("starting the engine's thread")?;
        let health = Arc::new(Health::default());
        let (end, ending) = watch::channel(false);
        let inside = Inside {
            fleet: fleet.clone(),
            engine: engine.clone(),
            attribution: self.attribution.clone(),
            health: health.clone(),
            state_dir: self.path,
            library: self.library,
            ending,
        };
        let app = App::new(
            fleet,
            engine.clone(),
            self.exporters,
            self.attribution,
            health,
        );
        let outcome = runtime.block_on(async {
            let surfaces = Surfaces {
                app: Arc::new(app),
                signals: self.signals,
                engine: engine.clone(),
                listener: self.listener,
                more: self.more,
                socket: self.socket,
                reload: Reload::new(self.source, self.seen, self.host, engine.clone())?,
                end,
            };
            let companions = tokio::spawn(companions(inside));
            let until = self.until.is_some();
            let outcome = surfaces.run(self.page, engine_ended, until).await;
            if tokio::time::timeout(TIDY, companions).await.is_err() {
                say("ending although not everything is tidied up");
            }
            outcome
        });
        engine.stop();
        // Dropping the world removes the state files; a panic there was told already.
        let joined = thread.join();
        runtime.shutdown_timeout(FAREWELL);
        outcome?;
        if joined.is_err() {
            bail!("the engine's thread has panicked");
        }
        Ok(())
    }
}

fn start_page(
    plan: &Plan,
    state: &std::path::Path,
    address: SocketAddr,
    has_files: bool,
    library: Option<PathBuf>,
) -> String {
    let first = plan.nodes.first().filter(|_| has_files);
    Page {
        plan,
        address,
        state,
        ctl_finds: statedir::running().is_some_and(|found| found == state),
        nvml_finds: state == std::path::Path::new(statedir::SYSTEM) && plan.nodes.len() == 1,
        node_state: first.map(|node| state.join(&*node.name)),
        library,
    }
    .text()
}

/// What ends a machine from outside.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new(runtime: &Runtime) -> Result<Self> {
        let _inside = runtime.enter();
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
        })
    }
}

/// Everything that listens.
struct Surfaces {
    signals: Signals,
    app: Arc<App>,
    engine: Engine,
    listener: TcpListener,
    more: Vec<(TcpListener, Arc<Hot>)>,
    socket: std::os::unix::net::UnixListener,
    reload: Reload,
    end: watch::Sender<bool>,
}

impl Surfaces {
    /// Serves until a signal comes or the engine ends.
    async fn run(
        mut self,
        page: String,
        engine_ended: oneshot::Receiver<()>,
        ends_by_itself: bool,
    ) -> Result<()> {
        let ending = self.end.subscribe();
        let listener = tokio::net::TcpListener::from_std(self.listener).context("serving HTTP")?;
        let socket =
            tokio::net::UnixListener::from_std(self.socket).context("serving the socket")?;
        let mut serving = JoinSet::new();
        let router = http::router(&self.app, self.app.exporters().main());
        serving.spawn(http::serve(
            listener,
            router,
            Limits::default(),
            ending.clone(),
        ));
        for (listener, exporter) in self.more {
            let listener = tokio::net::TcpListener::from_std(listener).context("serving HTTP")?;
            let router = http::router(&self.app, &exporter);
            let limits = Limits::default();
            serving.spawn(http::serve(listener, router, limits, ending.clone()));
        }
        let hangup = signal(SignalKind::hangup()).context("listening for SIGHUP")?;
        let following = tokio::spawn(self.app.exporters().clone().follow(hangup));
        let attribution = tokio::spawn(self.app.attribution().clone().run());
        let control = tokio::spawn(control::serve(socket, self.engine));
        let reload = tokio::spawn(self.reload.run());

        let mut stdout = std::io::stdout().lock();
        // Nobody may be reading; the fleet runs all the same.
        let _ = stdout
            .write_all(page.as_bytes())
            .and_then(|()| stdout.flush());
        drop(stdout);

        let ended = tokio::select! {
            _ = self.signals.terminate.recv() => false,
            _ = self.signals.interrupt.recv() => false,
            _ = engine_ended => true,
        };
        reload.abort();
        control.abort();
        let _ = self.end.send(true);
        following.abort();
        attribution.abort();
        while serving.join_next().await.is_some() {}
        if ended && !ends_by_itself {
            bail!("the engine has stopped unexpectedly");
        }
        say(if ended { "time is up" } else { "ending" });
        Ok(())
    }
}

/// Listens for exporters with a port of their own, on the address of the others.
fn more_ports(exporters: &Exporters, address: SocketAddr) -> Result<Vec<(TcpListener, Arc<Hot>)>> {
    let mut more = Vec::new();
    for mount in exporters.mounts() {
        if let Place::Port(port) = mount.place {
            let place = SocketAddr::new(address.ip(), port);
            let listener = listen("--identity", &place.to_string())?;
            let name = &mount.exporter.recipe().identity;
            let place = page::base(listener.local_addr().context("asking for our address")?);
            say(&format!("{name} on {place}/metrics"));
            more.push((listener, mount.exporter.clone()));
        }
    }
    Ok(more)
}

/// Listens for HTTP, where `flag` says. `:9400` means every address of this machine.
pub fn listen(flag: &str, text: &str) -> Result<TcpListener> {
    let bad = |why: &str| {
        usage(format!(
            "{flag} {text}: {why}; write for example 127.0.0.1:9400 or :9400"
        ))
    };
    let anywhere = text.starts_with(':');
    let spelled = if anywhere {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    let addresses: Vec<SocketAddr> = match spelled.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(bad(&error.to_string())),
    };
    let Some(first) = addresses.first() else {
        return Err(bad("no such address"));
    };
    let bound = if anywhere {
        // As Go programs do: a socket of IPv6 takes IPv4, too, unless the machine has none.
        let both = SocketAddr::from((Ipv6Addr::UNSPECIFIED, first.port()));
        TcpListener::bind(both).or_else(|error| match error.kind() {
            ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind(first),
        })
    } else {
        TcpListener::bind(&*addresses)
    };
    let listener = match bound {
        Ok(listener) => listener,
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "listening on {text}: the port is in use; end who holds it, or choose another with \
             {flag} (port 0 takes any free one)"
        ),
        Err(error) => return Err(error).with_context(|| format!("listening on {text}")),
    };
    listener
        .set_nonblocking(true)
        .with_context(|| format!("listening on {text}"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    #[test]
    fn every_address_is_of_both_kinds() {
        let port = listen("--listen", ":0").and_then(|l| Ok((l.local_addr()?.port(), l)));
        let (port, _listener) = port.expect("it listens");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        let has_six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        assert_eq!(
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_ok(),
            has_six
        );
    }
}
