//! The device plugin: follows what the engine publishes, and keeps the kubelet's picture of the node's devices true.
//!
//! | Part | What it does |
//! |---|---|
//! | `settings`, `configfile` | what it was told, in NVIDIA's words |
//! | `inventory` | GPUs and MIG devices by resource |
//! | `health` | which of them may be given away |
//! | `mischief` | faults of the plugin itself |
//! | `allocate`, `links` | what containers are given, and which devices go well together |
//!
//! The protocol is in `mirage_k8s::deviceplugin`.

mod allocate;
mod configfile;
mod health;
mod inventory;
mod links;
mod mischief;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mirage_k8s::deviceplugin::{self, Device, Place, Resource, Standing};
use mirage_model::plan::MigStrategy;
use mirage_state::Image;
use tokio::sync::watch;

use super::driver::Root;
use super::{Node, socket};
use crate::cli::say;
use crate::engine::Core;
use crate::health::Health;

use self::allocate::Answers;
use self::health::Sick;
use self::inventory::Inventory;
use self::mischief::{FLAP, Faults};
pub(super) use self::settings::PluginArgs;
use self::settings::Settings;

/// Its name in `/health`.
pub(super) const PART: &str = "device-plugin";
/// Time until a config file that cannot be read is read again.
const REREAD: Duration = Duration::from_secs(1);
/// Time until the engine is asked again when it has no time.
const AGAIN: Duration = Duration::from_millis(100);

/// What the kubelet is told is taken from one moment.
#[derive(Debug)]
struct World {
    image: Arc<Image>,
    inventory: Inventory,
    faults: Faults,
}

/// The last such moment, once there was one.
type Stand = Option<Arc<World>>;

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &PluginArgs, cdi_kind: &str) {
    if args.no_device_plugin {
        return;
    }
    let ending = node.inside.ending.clone();
    let Some(settings) = settled(args, &node.inside.health, ending).await else {
        return;
    };
    let place = place(args, &node.kubelet_dir);
    let (resources, offered) = watch::channel(Arc::new(Vec::new()));
    let (stand, known) = watch::channel(None);
    let answers = Answers {
        node: node.clone(),
        settings: settings.clone(),
        cdi_kind: cdi_kind.to_owned(),
        stand: known,
        count: AtomicU64::new(0),
    };
    let board = Arc::new(Board::new(node.inside.health.clone()));
    let told = board.clone();
    let report = Arc::new(move |name: &str, standing| told.stands(name, standing));
    let ending = node.inside.ending.clone();
    tokio::join!(
        deviceplugin::run(place, offered, Arc::new(answers), report, ending),
        follow(&node, &settings, &resources, &stand, &board),
    );
}

/// Where it meets the kubelet.
fn place(args: &PluginArgs, kubelet_dir: &Path) -> Place {
    let mut place = Place::of(kubelet_dir);
    if let Some(socket) = &args.kubelet_socket {
        place.kubelet.clone_from(socket);
        if let Some(directory) = socket.parent() {
            place.directory = directory.to_path_buf();
        }
    }
    place
}

/// Takes away the sockets of one that was killed: those with names that it gives and that nobody listens at.
pub(super) fn uninstall(args: &PluginArgs, kubelet_dir: &Path) {
    let names = args.all_names();
    let sockets: Vec<String> = names.iter().map(|name| inventory::socket(name)).collect();
    // There may be no kubelet any more.
    let entries = std::fs::read_dir(place(args, kubelet_dir).directory);
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = |name: &str| inventory::is_slice(name) || sockets.iter().any(|it| it == name);
        if name.to_str().is_some_and(ours) {
            // What is somebody's stays.
            let _ = socket::clear(&entry.path());
        }
    }
}

/// What it was told; nothing if the machine ends before that can be read.
async fn settled(
    args: &PluginArgs,
    health: &Health,
    mut ending: watch::Receiver<bool>,
) -> Option<Settings> {
    loop {
        // Checked at the start; a file may have changed since, and may be mended.
        match args.settings() {
            Ok(settings) => return Some(settings),
            Err(error) => health.trouble(PART, format!("{error:#}")),
        }
        tokio::select! {
            () = tokio::time::sleep(REREAD) => {}
            _ = ending.wait_for(|ending| *ending) => return None,
        }
    }
}

/// Keeps the list of resources as the engine has it.
async fn follow(
    node: &Node,
    settings: &Settings,
    resources: &watch::Sender<Arc<Vec<Resource>>>,
    stand: &watch::Sender<Stand>,
    board: &Board,
) {
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        () = ready(node, settings, board) => {}
        _ = ending.wait_for(|ending| *ending) => return,
    }
    let mut changes = node.inside.fleet.changes();
    let mut sick = Sick::new(settings.checks.clone());
    let mut up = false;
    loop {
        changes.borrow_and_update();
        let mut pause = None;
        match look(node).await {
            Some(seen) => {
                let strategy = settings.mig.unwrap_or(seen.strategy);
                let mut extras = settings.resources.clone();
                extras.extend(seen.extras);
                let inventory = inventory::take(
                    &node.given_away(&seen.image),
                    strategy,
                    &settings.sharing,
                    &extras,
                );
                board.misses(inventory.trouble.clone());
                sick.look(&seen.image, &seen.faults.broken);
                if seen.faults.flaps() {
                    up = !up;
                    pause = Some(FLAP);
                }
                let list = offer(&inventory, &seen.faults, &sick, up);
                stand.send_replace(Some(Arc::new(World {
                    image: seen.image,
                    inventory,
                    faults: seen.faults,
                })));
                resources.send_if_modified(|known| {
                    let changed = **known != list;
                    if changed {
                        *known = Arc::new(list);
                    }
                    changed
                });
            }
            None => pause = Some(AGAIN),
        }
        tokio::select! {
            () = sleep(pause), if pause.is_some() => {}
            changed = changes.changed(), if pause.is_none() => if changed.is_err() { return },
            _ = ending.wait_for(|ending| *ending) => return,
        }
    }
}

/// Waits until there is what containers are to be given: a driver root, or the knowledge that there is none. What CDI
/// names must be written down somewhere, or runtimes fail the containers: nothing is offered before.
async fn ready(node: &Node, settings: &Settings, board: &Board) {
    let mut root = node.root.clone();
    let told = root.wait_for(|root| *root != Root::Awaited).await;
    let none = told.is_ok_and(|root| *root == Root::None);
    if none && settings.uses_cdi() {
        board.misses(Some(
            "there is no CDI specification to name devices of, since there is no driver root; mend that, or use \
             --device-list-strategy envvar or volume-mounts"
                .into(),
        ));
        let _ = root.wait_for(|root| root.path().is_some()).await;
    }
}

async fn sleep(time: Option<Duration>) {
    tokio::time::sleep(time.unwrap_or_default()).await;
}

/// What the engine knows of the node.
struct Seen {
    image: Arc<Image>,
    faults: Faults,
    strategy: MigStrategy,
    extras: Vec<(String, u32)>,
}

/// Asks the engine; nothing if it is busy, or has no such node now.
async fn look(node: &Node) -> Option<Seen> {
    let name = node.name.clone();
    let seen = move |core: &mut Core| {
        let image = core.fleet().one(&name)?.nodes.pop()?;
        let plan = core.plan();
        let at = plan.nodes.iter().position(|node| *node.name == *name)?;
        let extras = plan.nodes.get(at)?.extras.as_deref();
        let index = u32::try_from(at).ok()?;
        Some(Seen {
            faults: Faults::of(core.world().faults(), index, &image),
            strategy: plan.mig_strategy,
            extras: extras.map_or_else(Vec::new, |extras| extras.resources.clone()),
            image,
        })
    };
    node.inside.engine.ask(seen).ok()?.await.ok()?
}

/// The list for the kubelet.
fn offer(inventory: &Inventory, faults: &Faults, sick: &Sick, up: bool) -> Vec<Resource> {
    let kinds = inventory.kinds.iter().filter(|kind| !kind.ids.is_empty());
    kinds
        .map(|kind| {
            let devices = kind.ids.iter().filter_map(|(id, _)| {
                let unit = kind.unit(id);
                let struck = |what: &str| unit.is_some_and(|unit| faults.strikes(unit, what));
                if struck("missing") || struck("vanish") {
                    return None;
                }
                let well = unit.is_none_or(|unit| sick.is_healthy(unit.gpu, unit.instance));
                Some(Device {
                    id: id.clone(),
                    healthy: well && !struck("unhealthy") && (up || !struck("flap")),
                    numa: unit.and_then(|unit| unit.numa),
                })
            });
            Resource {
                name: kind.name.clone(),
                socket: kind.socket.clone(),
                devices: devices.collect(),
                mischief: faults.mischief(kind),
            }
        })
        .collect()
}

/// Says how the plugin as a whole is doing.
struct Board {
    health: Arc<Health>,
    troubles: Mutex<BTreeMap<String, String>>,
}

impl Board {
    fn new(health: Arc<Health>) -> Self {
        Self {
            health,
            troubles: Mutex::default(),
        }
    }

    /// How one resource stands.
    fn stands(&self, name: &str, standing: Standing) {
        let trouble = match standing {
            Standing::Registered(took) => {
                let took = took.as_millis();
                say(&format!(
                    "{PART}: {name} is registered with the kubelet, after {took} ms"
                ));
                None
            }
            Standing::Away(why) => Some(format!("{name}: {why}")),
            Standing::Gone => None,
        };
        self.set(name, trouble);
    }

    /// What cannot be offered.
    fn misses(&self, trouble: Option<String>) {
        self.set("", trouble);
    }

    fn set(&self, name: &str, trouble: Option<String>) {
        // Held until it is told: of two resources that change at once the later one must be told last, or what it found is lost.
        let mut troubles = self.troubles.lock().unwrap_or_else(|it| it.into_inner());
        match trouble {
            Some(trouble) => troubles.insert(name.to_owned(), trouble),
            None => troubles.remove(name),
        };
        let all = troubles.values().cloned().collect::<Vec<_>>().join("; ");
        match all.is_empty() {
            true => self.health.good(PART),
            false => self.health.trouble(PART, all),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: PluginArgs,
    }

    #[tokio::test]
    async fn a_config_file_that_is_mended_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugin.yaml");
        std::fs::write(&path, "version: v0").unwrap();
        let file = path.to_str().unwrap();
        let only = Only::parse_from(["mirage", "--config-file", file]);
        let health = Health::default();
        let (end, ending) = watch::channel(false);
        let mend = async {
            while health.parts_now().is_empty() {
                tokio::task::yield_now().await;
            }
            std::fs::write(&path, "version: v1").unwrap();
        };
        let (settings, ()) = tokio::join!(settled(&only.args, &health, ending.clone()), mend);
        assert_eq!(settings, Some(only.args.settings().unwrap()));

        std::fs::remove_file(&path).unwrap();
        end.send_replace(true);
        assert_eq!(settled(&only.args, &health, ending).await, None);
    }
}
