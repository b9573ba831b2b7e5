//! What containers are given, and which devices go well together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mirage_k8s::deviceplugin::generated::{
    CdiDevice, ContainerAllocateResponse, DeviceSpec, Mount,
};
use mirage_k8s::deviceplugin::{Policy, prefer};
use tokio::sync::watch;

use super::inventory::{Kind, Unit};
use super::links;
use super::mischief::SLOW;
use super::settings::{IdStrategy, ListStrategy, Settings};
use super::{Stand, World};
use crate::cli::say;
use crate::driver::CHANNEL_CLASS;
use crate::node::Node;
use crate::node::edits::is_node;

/// Where `volume-mounts` puts its mounts.
const VOLUMES: &str = "/var/run/nvidia-container-devices";
/// The variable that NVIDIA's runtime reads.
const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// The variable that names channels of the memory exchange to it.
const CHANNELS: &str = "NVIDIA_IMEX_CHANNELS";
/// How often one that is slow looks whether it still is.
const GLANCE: Duration = Duration::from_millis(100);
/// How the plugin calls itself in annotations.
const PLUGIN: &str = "nvidia-device-plugin";

/// Answers the kubelet from what is published.
pub(super) struct Answers {
    pub(super) node: Node,
    pub(super) settings: Settings,
    pub(super) cdi_kind: String,
    pub(super) stand: watch::Receiver<Stand>,
    pub(super) count: AtomicU64,
}

#[mirage_k8s::deviceplugin::async_trait]
impl Policy for Answers {
    async fn allocate(
        &self,
        resource: &str,
        ids: &[String],
    ) -> Result<ContainerAllocateResponse, String> {
        let world = self.world()?;
        let kind = world
            .inventory
            .kind(resource)
            .ok_or_else(|| format!("{resource} is no longer there"))?;
        if kind.shared && self.settings.sharing.only_one && ids.len() > 1 {
            return Err(format!(
                "invalid request for {} of {resource}: it is shared, and a container may have one share",
                ids.len()
            ));
        }
        let mut units: Vec<&Unit> = Vec::new();
        for unit in ids.iter().filter_map(|id| kind.unit(id)) {
            if !units.iter().any(|known| known.uuid == unit.uuid) {
                units.push(unit);
            }
        }
        // As it is now: what was injected a moment ago counts.
        let now = super::look(&self.node).await;
        let faults = now.map_or_else(|| world.faults.clone(), |seen| seen.faults);
        let struck = |what: &str| units.iter().find(|unit| faults.strikes(unit, what));
        if let Some(unit) = struck("allocate-error") {
            return Err(format!(
                "allocating {} of {resource}: the plugin was told to fail",
                unit.uuid
            ));
        }
        if let Some(unit) = struck("allocate-slow") {
            let what = format!("allocating {} of {resource}", unit.uuid);
            say(&format!("{what}: the plugin was told to be slow"));
            let begin = Instant::now();
            self.dawdle(&units).await;
            say(&format!(
                "{what}: it took {:.1} s",
                begin.elapsed().as_secs_f32()
            ));
        }
        if struck("allocate-wrong").is_some() {
            units = others(kind, &units);
        }
        self.response(&world, kind, &units)
    }

    fn prefer(
        &self,
        resource: &str,
        available: &[String],
        must: &[String],
        size: usize,
    ) -> Vec<String> {
        let Ok(world) = self.world() else {
            return Vec::new();
        };
        match world.inventory.kind(resource) {
            Some(kind) => choose(&world, kind, available, must, size, self.settings.choice),
            None => Vec::new(),
        }
    }
}

impl Answers {
    fn world(&self) -> Result<std::sync::Arc<World>, String> {
        let world = self.stand.borrow().clone();
        world.ok_or_else(|| "the node is not known yet".into())
    }

    /// Takes its time, unless it is told to hurry again.
    async fn dawdle(&self, units: &[&Unit]) {
        let slow = async {
            let struck = |seen: super::Seen| {
                let mut units = units.iter();
                units.any(|unit| seen.faults.strikes(unit, "allocate-slow"))
            };
            // An engine that has no time has not said that it is over.
            while super::look(&self.node).await.is_none_or(struck) {
                tokio::time::sleep(GLANCE).await;
            }
        };
        let _ = tokio::time::timeout(SLOW, slow).await;
    }

    /// What a container with these devices gets.
    fn response(
        &self,
        world: &World,
        kind: &Kind,
        units: &[&Unit],
    ) -> Result<ContainerAllocateResponse, String> {
        let mut response = ContainerAllocateResponse::default();
        if kind.units.is_empty() {
            return Ok(response);
        }
        let settings = &self.settings;
        let names: Vec<&str> = units
            .iter()
            .map(|unit| match settings.ids {
                IdStrategy::Uuid => unit.uuid.as_str(),
                IdStrategy::Index => unit.number.as_str(),
            })
            .collect();
        let root = self.node.root();
        let channels = match kind.nvidia {
            true => self.channels(root.path())?,
            false => Vec::new(),
        };
        if kind.nvidia {
            self.tell(&names, &channels, &mut response);
            for feature in &settings.features {
                let value = "enabled".to_owned();
                response.envs.insert((*feature).to_owned(), value);
            }
        }
        let Some(places) = self.node.places(root.path()) else {
            return Err("there is no NVML library to give to containers; build it, or say where it is with --library-dir".into());
        };
        let uuids: Vec<&str> = units.iter().map(|unit| unit.uuid.as_str()).collect();
        let edits = places
            .edits(&world.image, &uuids)
            .map_err(|error| error.to_string())?;
        // With CDI the specification brings all this.
        if !(settings.uses_cdi() && kind.nvidia) {
            response
                .mounts
                .extend(edits.mounts.into_iter().map(|it| Mount {
                    container_path: it.container,
                    host_path: it.host,
                    read_only: true,
                }));
        }
        let pass = settings.pass_nodes.unwrap_or(!settings.uses_cdi());
        if pass && kind.nvidia {
            // A runtime refuses a plain file that stands for a node.
            let real = edits
                .nodes
                .into_iter()
                .filter_map(|it| Some((it.path, it.host?)));
            let exchange = channels.iter().filter_map(|channel| channel.node());
            let real = real.chain(exchange);
            response.devices.extend(real.map(|(path, host)| DeviceSpec {
                container_path: path,
                host_path: host,
                permissions: "rw".into(),
            }));
        }
        Ok(response)
    }

    /// The channels of the memory exchange that there are of those to be given.
    fn channels(&self, root: Option<&Path>) -> Result<Vec<Channel>, String> {
        let imex = &self.settings.imex;
        let there = imex.channels.iter().filter_map(|id| {
            let path = format!("/dev/nvidia-caps-imex-channels/channel{id}");
            let host = root?.join(path.trim_start_matches('/'));
            let id = id.to_string();
            host.exists().then_some(Channel { id, path, host })
        });
        let there: Vec<Channel> = there.collect();
        if imex.required && there.len() < imex.channels.len() {
            return Err(
                "the IMEX channels that are required are not there: they lie in the driver root"
                    .into(),
            );
        }
        Ok(there)
    }

    /// Tells a container its devices, by every strategy in force.
    fn tell(&self, names: &[&str], channels: &[Channel], response: &mut ContainerAllocateResponse) {
        let kind = &self.cdi_kind;
        let vendor = kind.split('/').next().unwrap_or_default();
        let qualified = || {
            let devices = names.iter().map(|name| format!("{kind}={name}"));
            let channels = channels
                .iter()
                .map(|channel| format!("{vendor}/{CHANNEL_CLASS}={}", channel.id));
            devices.chain(channels)
        };
        for strategy in &self.settings.list {
            match strategy {
                ListStrategy::Envvar => {
                    response.envs.insert(VISIBLE.into(), names.join(","));
                    if !channels.is_empty() {
                        let ids: Vec<&str> = channels.iter().map(|it| it.id.as_str()).collect();
                        response.envs.insert(CHANNELS.into(), ids.join(","));
                    }
                }
                ListStrategy::VolumeMounts => {
                    response.envs.insert(VISIBLE.into(), VOLUMES.into());
                    let devices = names.iter().map(|name| (*name).to_owned());
                    let channels = channels.iter().map(|it| format!("imex/{}", it.id));
                    response
                        .mounts
                        .extend(devices.chain(channels).map(|name| Mount {
                            container_path: format!("{VOLUMES}/{name}"),
                            host_path: "/dev/null".into(),
                            read_only: false,
                        }));
                }
                ListStrategy::CdiAnnotations => {
                    let prefix = &self.settings.annotation_prefix;
                    let key = format!("{prefix}{PLUGIN}_{}", self.response_id());
                    let value: Vec<String> = qualified().collect();
                    response.annotations.insert(key, value.join(","));
                }
                ListStrategy::CdiCri => {
                    let names = qualified().map(|name| CdiDevice { name });
                    response.cdi_devices.extend(names);
                }
            }
        }
    }

    /// An id that no other answer on this machine has.
    fn response_id(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos());
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{now}-{}-{count}", std::process::id());
        sha1_smol::Sha1::from(text).digest().to_string()
    }
}

/// A channel of the memory exchange.
struct Channel {
    id: String,
    path: String,
    host: PathBuf,
}

impl Channel {
    /// Its node, in the container and here, if it is one: a driver root that could make none has plain files instead.
    fn node(&self) -> Option<(String, String)> {
        let host = self.host.display().to_string();
        is_node(&self.host).then(|| (self.path.clone(), host))
    }
}

/// As many devices of the resource, but others, as far as there are any.
fn others<'a>(kind: &'a Kind, units: &[&Unit]) -> Vec<&'a Unit> {
    let wrong = |unit: &&Unit| !units.iter().any(|asked| asked.uuid == unit.uuid);
    kind.units.iter().filter(wrong).take(units.len()).collect()
}

/// Which of the available devices to take.
fn choose(
    world: &World,
    kind: &Kind,
    available: &[String],
    must: &[String],
    size: usize,
    choice: prefer::Sharing,
) -> Vec<String> {
    if kind.units.is_empty() {
        let rest = available.iter().filter(|id| !must.contains(id));
        return must.iter().chain(rest).take(size).cloned().collect();
    }
    if kind.shared || kind.is_mig() {
        let mut totals: HashMap<usize, usize> = HashMap::new();
        for unit in kind.ids.iter().filter_map(|(id, _)| kind.unit(id)) {
            *totals.entry(unit.gpu as usize).or_default() += 1;
        }
        let grouped = available.iter().filter_map(|id| {
            let unit = kind.unit(id)?;
            Some((id.as_str(), unit.gpu as usize))
        });
        let grouped: Vec<(&str, usize)> = grouped.collect();
        let must: Vec<&str> = must.iter().map(String::as_str).collect();
        let total = |gpu: usize| totals.get(&gpu).copied().unwrap_or(0);
        return prefer::shared(&grouped, &must, size, choice, total);
    }
    let gpu = |id: &String| kind.unit(id).map(|unit| unit.gpu as usize);
    let available: Vec<usize> = available.iter().filter_map(gpu).collect();
    let Some(must) = must.iter().map(gpu).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let score = |one: usize, other: usize| links::score(&world.image, one, other);
    let chosen = prefer::whole(&available, &must, size, score);
    let id = |gpu: &usize| {
        let found = kind.units.iter().find(|unit| unit.gpu as usize == *gpu);
        found.map(|unit| unit.uuid.clone())
    };
    chosen.iter().filter_map(id).collect()
}
