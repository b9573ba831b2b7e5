//! What a container gets so that it sees exactly its GPUs: variables, mounts, device nodes. The device plugin's answers, the
//! runtime hook's adjustments and the CDI specification are three ways to hand over the same.

use std::path::{Path, PathBuf};

use mirage_state::Image;
use mirage_state::layout::text;
use mirage_state::visible::VIEW;

use super::cdi::MARK;
use super::devices::{self, Node};
use super::host::Majors;
use super::libraries::{DIRECTORY, PROGRAMS};

/// Where the state is found inside a container.
const STATE: &str = "/run/mirage";
/// Options of every mount.
pub(crate) const MOUNT_OPTIONS: [&str; 4] = ["ro", "nosuid", "nodev", "bind"];
/// Access to every device node.
pub(crate) const NODE_MODE: u32 = 0o666;

/// A file or directory of the host, read-only in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it lies on the host.
    pub(crate) host: String,
    /// Where the container finds it.
    pub(crate) container: String,
}

/// A character device in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceNode {
    /// Where the container finds it.
    pub(crate) path: String,
    /// The host's own node, if it could make one; else the runtime makes it from the numbers.
    pub(crate) host: Option<String>,
    /// Major number.
    pub(crate) major: u32,
    /// Minor number.
    pub(crate) minor: u32,
}

/// What a container gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edits {
    /// Variables.
    pub(crate) env: Vec<(String, String)>,
    /// Mounts, with [`MOUNT_OPTIONS`].
    pub(crate) mounts: Vec<Mount>,
    /// Device nodes, with [`NODE_MODE`].
    pub(crate) nodes: Vec<DeviceNode>,
}

/// A device that the node does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this node has no device {0}")]
pub(crate) struct Unknown(pub(crate) String);

/// Where on the host the things lie that containers get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// The directory with `libnvidia-ml.so.1` and perhaps `libcuda.so.1`.
    pub(crate) libraries: PathBuf,
    /// Names in it.
    pub(crate) names: Vec<&'static str>,
    /// The program to be called `nvidia-smi`.
    pub(crate) smi: Option<PathBuf>,
    /// The directory with real device nodes, if there is one.
    pub(crate) dev: Option<PathBuf>,
    /// The directory with the node's state.
    pub(crate) state: PathBuf,
    /// A file that is not empty: mounted under a device's UUID it makes the device visible.
    pub(crate) mark: PathBuf,
    majors: Majors,
}

impl Places {
    /// A driver root that is installed. `state` is the node's own directory, `host` where the machine's `/proc` is.
    pub(crate) fn of_root(root: &Path, dev: Option<&Path>, state: &Path, host: &Path) -> Places {
        Places {
            libraries: root.join(DIRECTORY),
            names: vec!["libnvidia-ml.so.1", "libcuda.so.1"],
            smi: Some(root.join(PROGRAMS).join("nvidia-smi")),
            dev: dev.map(Path::to_path_buf),
            state: state.to_path_buf(),
            mark: root.join(MARK),
            majors: Majors::choose(host),
        }
    }

    /// No driver root: the library alone, from the directory that has it.
    pub(crate) fn of_library(libraries: &Path, state: &Path, host: &Path) -> Places {
        let mut names = vec!["libnvidia-ml.so.1"];
        names.extend(
            libraries
                .join("libcuda.so.1")
                .is_file()
                .then_some("libcuda.so.1"),
        );
        Places {
            libraries: libraries.to_path_buf(),
            names,
            smi: super::libraries::smi(Some(libraries)).ok(),
            dev: None,
            state: state.to_path_buf(),
            mark: libraries.join("libnvidia-ml.so.1"),
            majors: Majors::choose(host),
        }
    }

    /// What a container with these devices gets; each is the UUID of a GPU or of a MIG device.
    pub(crate) fn edits(
        &self,
        image: &Image,
        devices: &[impl AsRef<str>],
    ) -> Result<Edits, Unknown> {
        let mut uuids: Vec<&str> = Vec::new();
        let mut nodes = devices::control(self.majors);
        for device in devices {
            let (uuid, own) = find(image, self.majors, device.as_ref())
                .ok_or_else(|| Unknown(device.as_ref().to_owned()))?;
            if !uuids.contains(&uuid) {
                uuids.push(uuid);
            }
            for node in own {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        let mut mounts = self.mounts();
        for uuid in &uuids {
            mounts.push(mount(&self.mark, format!("{VIEW}/{uuid}")));
        }
        Ok(Edits {
            env: vec![("NVIDIA_VISIBLE_DEVICES".to_owned(), uuids.join(","))],
            mounts,
            nodes: nodes.iter().map(|node| self.node(node)).collect(),
        })
    }

    /// Mounts that every container with a GPU gets. Libraries go where the loaders of both families of distributions look.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let triplet = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        let mut mounts = Vec::new();
        for name in &self.names {
            for directory in [triplet.as_str(), "/usr/lib64"] {
                mounts.push(mount(
                    &self.libraries.join(name),
                    format!("{directory}/{name}"),
                ));
            }
        }
        if let Some(smi) = &self.smi {
            mounts.push(mount(smi, "/usr/bin/nvidia-smi".to_owned()));
        }
        mounts.push(mount(&self.state, STATE.to_owned()));
        mounts
    }

    fn node(&self, node: &Node) -> DeviceNode {
        let host = self.dev.as_ref().map(|dev| dev.join(&node.name));
        DeviceNode {
            path: format!("/dev/{}", node.name),
            host: host.map(|path| path.display().to_string()),
            major: node.major,
            minor: node.minor,
        }
    }
}

fn mount(host: &Path, container: String) -> Mount {
    Mount {
        host: host.display().to_string(),
        container,
    }
}

/// A device's UUID as the node spells it, and its nodes: a GPU's with all its instances, or an instance's with its GPU's.
fn find<'a>(image: &'a Image, majors: Majors, device: &str) -> Option<(&'a str, Vec<Node>)> {
    for (index, card) in (0_u32..).zip(image.cards.iter()) {
        let of_card = || image.instances.iter().filter(move |i| i.gpu == index);
        let mut nodes = vec![devices::gpu(card.minor)];
        if text(&card.uuid).eq_ignore_ascii_case(device) {
            for instance in of_card() {
                nodes.extend(devices::capabilities(image, majors, instance));
            }
            return Some((text(&card.uuid), nodes));
        }
        let mut parts = of_card().filter(|instance| instance.ci != u32::MAX);
        if let Some(part) = parts.find(|i| text(&i.uuid).eq_ignore_ascii_case(device)) {
            nodes.extend(devices::capabilities(image, majors, part));
            return Some((text(&part.uuid), nodes));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places::of_root(
            Path::new("/root"),
            Some(Path::new("/root/dev")),
            Path::new("/run/mirage/n"),
            Path::new("/nowhere"),
        )
    }

    fn image() -> Image {
        let plan = crate::source::Source {
            config: None,
            model: Some("a100-sxm4-40gb".into()),
            gpus: Some(2),
            nodes: 1,
            seed: None,
            alone: None,
            is_nothing: false,
        }
        .plan("n")
        .unwrap();
        let clock = crate::publish::Clock {
            start_unix_ms: 0,
            period: std::time::Duration::from_secs(1),
            epoch: 0,
        };
        let image = crate::publish::images(&plan, clock).remove(0);
        std::sync::Arc::unwrap_or_clone(image)
    }

    #[test]
    fn a_container_gets_its_devices_and_no_other() {
        let image = image();
        let second = text(&image.cards[1].uuid);
        let edits = places().edits(&image, &[second, second]).unwrap();
        assert_eq!(
            edits.env,
            [("NVIDIA_VISIBLE_DEVICES".to_owned(), second.to_owned())]
        );
        let nodes: Vec<&str> = edits.nodes.iter().map(|node| &*node.path).collect();
        assert_eq!(
            nodes,
            [
                "/dev/nvidiactl",
                "/dev/nvidia-modeset",
                "/dev/nvidia-uvm",
                "/dev/nvidia-uvm-tools",
                "/dev/nvidia1"
            ]
        );
        assert_eq!(edits.nodes[4].host.as_deref(), Some("/root/dev/nvidia1"));
        let marks: Vec<&Mount> = edits
            .mounts
            .iter()
            .filter(|mount| mount.container.starts_with(VIEW))
            .collect();
        assert_eq!(marks.len(), 1);
        assert_eq!(marks[0].container, format!("{VIEW}/{second}"));
        assert_eq!(marks[0].host, "/root/usr/share/mirage/visible");
        assert!(edits.mounts.contains(&Mount {
            host: "/run/mirage/n".into(),
            container: "/run/mirage".into()
        }));
    }

    #[test]
    fn a_device_of_another_node_is_refused() {
        let error = places().edits(&image(), &["GPU-elsewhere"]).unwrap_err();
        assert_eq!(error.to_string(), "this node has no device GPU-elsewhere");
    }
}
