//! `fakedev-exporter`: reads its files, starts the clock, and serves until a signal comes.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::device::{DeviceType, Fleet};
use super::flags::{self, Asked, Flag, Given};
use super::http::LastScrape;
use super::identity::Identity;
use super::json::{self, Invalid};
use super::socket::Desk;
use super::spec::{self, Spec};
use super::world::World;
use super::{Error, clock, duration, http, lease, noise, say, socket};

const ABOUT: &str = "Serves metrics of simulated devices, as another exporter would.";

const FLAGS: &[Flag] = &[
    Flag {
        name: "address",
        default: ":9999",
        help: "Address to listen on for metric queries",
    },
    Flag {
        name: "count",
        default: "1",
        help: "Number of devices to simulate",
    },
    Flag {
        name: "devtype",
        default: "devtype.json",
        help: "JSON file with the labels and metric limits of the device type",
    },
    Flag {
        name: "devlist",
        default: "devlist.json",
        help: "JSON file with the labels of each device",
    },
    Flag {
        name: "identity",
        default: "identity.json",
        help: "JSON file with the exporter identity: what is shown, and how it is called",
    },
    Flag {
        name: "socket",
        default: "fakedev-exporter in the system's temporary directory",
        help: "Unix socket for workloads",
    },
    Flag {
        name: "wl-all",
        default: "",
        help: "JSON file with a base workload for all devices",
    },
    Flag {
        name: "wl-odd",
        default: "",
        help: "JSON file with a base workload for devices with odd numbers",
    },
    Flag {
        name: "wl-even",
        default: "",
        help: "JSON file with a base workload for devices with even numbers",
    },
    Flag {
        name: "interval",
        default: "1s",
        help: "Time between two steps of the simulation",
    },
    Flag {
        name: "speed",
        default: "1",
        help: "How many simulated seconds pass in a second",
    },
    Flag {
        name: "seed",
        default: "made from the host's name",
        help: "Number that decides all chance: same seed, same values",
    },
    Flag {
        name: "silence",
        default: "100ms",
        help: "How long a workload may connect and say nothing, once a scrape came by",
    },
];

/// Where both sides meet unless told otherwise.
pub(super) fn default_socket() -> PathBuf {
    std::env::temp_dir().join("fakedev-exporter")
}

/// Runs until HUP, INT or TERM.
pub(super) fn run(args: impl IntoIterator<Item = OsString>) -> Result<ExitCode, Error> {
    let given = match flags::parse(FLAGS, args)? {
        Asked::Run(given) => given,
        Asked::Help => {
            let text = flags::usage("fakedev-exporter", ABOUT, FLAGS);
            // Nobody reads it, nobody misses it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
    };
    let interval = time(&given, "interval")?.unwrap_or(Duration::from_secs(1));
    if interval.is_zero() {
        return Err(Error::Usage(
            "invalid value for -interval: time has to pass between two steps".to_owned(),
        ));
    }
    let speed = given.positive("speed")?.unwrap_or(1.0);
    let pace = Duration::try_from_secs_f64(interval.as_secs_f64() * speed)
        .map_err(|_| Error::Usage(format!("invalid value for -speed: {speed} is too fast")))?;
    let silence = time(&given, "silence")?.unwrap_or(Duration::from_millis(100));
    let seed = given.count("seed")?.unwrap_or_else(host_seed);
    let (fleet, identity) = load(&given)?;
    for gap in identity.gaps(&fleet) {
        say(format_args!("WARN: {gap}"));
    }
    let mut world = World::new(fleet.clone(), &identity, seed, pace)?;
    let bases = base_workloads(&given, &fleet, &identity)?;
    let next = bases.len() as u64;
    for (id, spec) in (0..).zip(bases) {
        world.join(id, spec);
    }
    // Metrics are there before the first scrape.
    world.settle();
    say(format_args!(
        "fakedev-exporter v{}: {} devices, seed {seed}",
        env!("CARGO_PKG_VERSION"),
        fleet.devices.len()
    ));
    super::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::System {
            attempt: "starting",
            place: "the event loop".to_owned(),
            source,
        })?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let address = given.text("address").unwrap_or(":9999");
        let web = http::listen(address).await?;
        let path = given
            .text("socket")
            .map_or_else(default_socket, PathBuf::from);
        let (listener, lease) = lease::listen(&path)?;
        let (clock, page) = clock::start(world, interval)?;
        let last_scrape = Arc::new(LastScrape::never());
        let desk = Arc::new(Desk {
            fleet,
            identity,
            clock,
            last_scrape: last_scrape.clone(),
            silence,
            next: AtomicU64::new(next),
        });
        say(format_args!("Listening on unix socket {:?}", path));
        match web.local_addr() {
            Ok(address) => say(format_args!("Listening on {address}/metrics")),
            Err(_) => say(format_args!("Listening on {address}/metrics")),
        }
        tokio::spawn(socket::serve(listener, desk));
        tokio::select! {
            name = signals.next() => {
                say(format_args!("Got signal {name} => terminating"));
            }
            () = http::serve(web, page, last_scrape) => {}
        }
        drop(lease);
        Ok(ExitCode::SUCCESS)
    })
}

/// A duration that a clock can be set to.
fn time(given: &Given, flag: &str) -> Result<Option<Duration>, Error> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    given.read(flag, |text| match duration::parse(text)? {
        long if long > DAY => Err(format!("{text:?} is more than a day")),
        fine => Ok(fine),
    })
}

/// The three files that say what there is.
fn load(given: &Given) -> Result<(Arc<Fleet>, Arc<Identity>), Error> {
    let file = |flag: &str, default: &str| PathBuf::from(given.text(flag).unwrap_or(default));
    let count = given.count("count")?.unwrap_or(1);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let path = file("identity", "identity.json");
    let identity = read("identity", &path, Identity::parse)?;
    let path = file("devtype", "devtype.json");
    let kind = read("device type", &path, DeviceType::parse)?;
    let path = file("devlist", "devlist.json");
    let fleet = read("device list", &path, |text| Fleet::new(kind, text, count))?;
    Ok((Arc::new(fleet), Arc::new(identity)))
}

/// Whether a base workload runs on a device, by its number.
type Choice = fn(usize) -> bool;

/// The workloads that are there from the beginning. Unless they name devices of their own, they
/// run on those their flag stands for.
fn base_workloads(given: &Given, fleet: &Fleet, identity: &Identity) -> Result<Vec<Spec>, Error> {
    let mut bases = Vec::new();
    let flags: [(&str, Choice); 3] = [
        ("wl-even", |device| device % 2 == 0),
        ("wl-odd", |device| device % 2 == 1),
        ("wl-all", |_| true),
    ];
    for (flag, chosen) in flags {
        let Some(path) = given.text(flag) else {
            continue;
        };
        let devices: Vec<usize> = (0..fleet.devices.len())
            .filter(|device| chosen(*device))
            .collect();
        let base = read("base workload", Path::new(path), |text| {
            if devices.is_empty() && !spec::names_devices(&json::parse(text)?) {
                return Ok(None);
            }
            Spec::parse_for(text, fleet, identity, devices).map(Some)
        })?;
        match base {
            Some(base) => bases.push(base),
            None => say(format_args!("WARN: -{flag} has no device to run on")),
        }
    }
    Ok(bases)
}

fn read<T>(
    what: &'static str,
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, Invalid>,
) -> Result<T, Error> {
    let text = fs::read(path).map_err(|source| Error::Read {
        what,
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|source| Error::File {
        what,
        path: path.to_owned(),
        source,
    })
}

/// Nodes of a cluster share their files: with a common seed all of them would flicker alike.
fn host_seed() -> u64 {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    noise::seed_of(host.trim())
}

/// The signals that end a process in good order.
pub(super) struct Signals {
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Begins to watch for them.
    pub(super) fn new() -> Result<Signals, Error> {
        let watch = |kind| {
            signal(kind).map_err(|source| Error::System {
                attempt: "watching for",
                place: "signals".to_owned(),
                source,
            })
        };
        Ok(Signals {
            hangup: watch(SignalKind::hangup())?,
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    /// The number of the next one to come.
    pub(super) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.hangup.recv() => 1,
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
