//! The driver root of the node: libraries, programs, device nodes and the CDI specification that containers are given
//! from. Made at the start, kept as the node is (its MIG devices may change), taken away by `mirage node --uninstall`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use mirage_state::Image;
use mirage_state::layout::{Instance, text};
use tokio::sync::watch;

use super::Node;
use crate::cli::say;
use crate::driver::attend::{self, Made, Wishes};

/// Its name in `/health`.
pub(super) const PART: &str = "driver-root";
/// Time between attempts that fail.
const PAUSE: Duration = Duration::from_secs(10);
/// The kind of devices that NVIDIA's plugin names to runtimes.
pub(super) const CDI_KIND: &str = "k8s.device-plugin.nvidia.com/gpu";

/// What the driver root can be told.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Driver root")]
pub(super) struct DriverArgs {
    /// Driver root to make: libraries, programs, device nodes [default: /var/lib/nvidia-mock/driver]
    #[arg(
        long,
        value_name = "DIR",
        visible_alias = "nvidia-driver-root",
        conflicts_with = "no_driver_root"
    )]
    driver_root: Option<PathBuf>,
    /// Make no driver root and no CDI specification: containers are given the library beside this program
    #[arg(long)]
    no_driver_root: bool,
    /// Where the CDI specification goes [default: /var/run/cdi; with --driver-root, var/run/cdi in it]
    #[arg(long, value_name = "DIR", conflicts_with = "no_driver_root")]
    cdi_dir: Option<PathBuf>,
    /// Kind of the devices in it
    #[arg(long, value_name = "VENDOR/CLASS", default_value = CDI_KIND)]
    pub(super) cdi_kind: String,
    /// Where libnvidia-ml.so and libcuda.so are [default: beside this program]
    #[arg(long, value_name = "DIR")]
    library_dir: Option<PathBuf>,
    /// Go on beside a real driver, and replace what others made
    #[arg(long)]
    force: bool,
}

impl DriverArgs {
    fn wishes(&self, state_dir: Option<PathBuf>, imex_channels: u32) -> Wishes {
        Wishes {
            root: self.driver_root.clone(),
            cdi_dir: self.cdi_dir.clone(),
            cdi_kind: Some(self.cdi_kind.clone()),
            state_dir,
            library_dir: self.library_dir.clone(),
            imex_channels,
            force: self.force,
        }
    }

    /// Whether a driver root, and with it the CDI specification, is to be made.
    pub(super) fn is_made(&self) -> bool {
        !self.no_driver_root
    }

    /// Takes away what an earlier run made.
    pub(super) fn uninstall(&self) -> Result<()> {
        if self.no_driver_root {
            return Ok(());
        }
        let any = attend::take_away(&self.wishes(None, 0)).context("removing the driver root")?;
        say(match any {
            true => "the driver root and its CDI specification are removed",
            false => "there is no driver root to remove",
        });
        Ok(())
    }
}

/// How far the driver root is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Root {
    /// Not known yet.
    #[default]
    Awaited,
    /// There is none: nobody wants one, or it cannot be made.
    None,
    /// It is there.
    Made(PathBuf),
}

impl Root {
    /// Where it is.
    pub(super) fn path(&self) -> Option<&std::path::Path> {
        match self {
            Root::Made(path) => Some(path),
            Root::None | Root::Awaited => None,
        }
    }
}

/// Makes the driver root, and again whenever the node's devices change.
pub(super) async fn run(
    node: Node,
    args: &DriverArgs,
    imex_channels: u32,
    root: watch::Sender<Root>,
) {
    if args.no_driver_root {
        root.send_replace(Root::None);
        return;
    }
    let wishes = args.wishes(Some(node.inside.state_dir.clone()), imex_channels);
    let mut changes = node.inside.fleet.changes();
    let mut ending = node.inside.ending.clone();
    let mut made: Option<Vec<Device>> = None;
    loop {
        changes.borrow_and_update();
        let image = node.image();
        let wanted = image.as_deref().map(devices);
        let mut pause = None;
        if let Some(image) = image
            && wanted != made
        {
            let (wishes, name) = (wishes.clone(), node.name.clone());
            let task = tokio::task::spawn_blocking(move || attend::make(&wishes, &name, &image));
            let done = task.await.context("making the driver root");
            match done.and_then(|made| made) {
                Ok(Made {
                    root: path,
                    changed,
                }) => {
                    if changed {
                        say(&format!("{PART}: {} is as the node is", path.display()));
                    }
                    made = wanted;
                    root.send_replace(Root::Made(path));
                    node.inside.health.good(PART);
                }
                Err(error) => {
                    // Without one containers still get the library; whoever waits goes on.
                    root.send_if_modified(|root| {
                        let first = *root == Root::Awaited;
                        if first {
                            *root = Root::None;
                        }
                        first
                    });
                    node.inside.health.trouble(PART, format!("{error:#}"));
                    pause = Some(PAUSE);
                }
            }
        }
        tokio::select! {
            () = sleep(pause), if pause.is_some() => {}
            changed = changes.changed(), if pause.is_none() => if changed.is_err() { return },
            _ = ending.wait_for(|ending| *ending) => return,
        }
    }
}

async fn sleep(time: Option<Duration>) {
    tokio::time::sleep(time.unwrap_or_default()).await;
}

/// What of a device the driver root shows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    uuid: String,
    place: (u32, u32, u32),
}

fn devices(image: &Image) -> Vec<Device> {
    let cards = image.cards.iter().map(|card| Device {
        uuid: text(&card.uuid).to_owned(),
        place: (card.minor, u32::MAX, u32::MAX),
    });
    let part = |it: &Instance| Device {
        uuid: text(&it.uuid).to_owned(),
        place: (it.gpu, it.gi, it.ci),
    };
    cards.chain(image.instances.iter().map(part)).collect()
}
