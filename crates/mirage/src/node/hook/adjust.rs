//! A container's GPUs in the runtime's words. Only what changes something is said: of two plugins that set one thing the runtime lets
//! neither win.

use mirage_k8s::nri::generated::{
    Container, ContainerAdjustment, KeyValue, LinuxContainerAdjustment, LinuxDevice, Mount,
    OptionalFileMode,
};

use crate::node::edits::{self, DeviceNode, Edits, MOUNT_OPTIONS, NODE_MODE};

/// What a container about to be made lacks.
pub(super) fn adjustment(edits: &Edits, container: &Container) -> ContainerAdjustment {
    let env = edits.env.iter().filter(|(key, value)| {
        let pair = format!("{key}={value}");
        !container.env.contains(&pair)
    });
    let mounts = edits.mounts.iter().filter(|mount| {
        let mut there = container.mounts.iter();
        !there.any(|known| known.destination == mount.container)
    });
    let nodes = edits.nodes.iter().filter(|node| {
        let linux = container.linux.as_ref();
        let there = linux.map_or(&[][..], |linux| &linux.devices);
        !there.iter().any(|known| known.path == node.path)
    });
    let devices: Vec<LinuxDevice> = nodes.map(device).collect();
    ContainerAdjustment {
        env: env
            .map(|(key, value)| KeyValue {
                key: key.clone(),
                value: value.clone(),
            })
            .collect(),
        mounts: mounts.map(mount).collect(),
        linux: (!devices.is_empty()).then_some(LinuxContainerAdjustment { devices }),
    }
}

fn mount(mount: &edits::Mount) -> Mount {
    Mount {
        destination: mount.container.clone(),
        r#type: "bind".to_owned(),
        source: mount.host.clone(),
        options: MOUNT_OPTIONS.map(str::to_owned).to_vec(),
    }
}

/// The runtime makes the node itself, so the host needs none.
fn device(node: &DeviceNode) -> LinuxDevice {
    LinuxDevice {
        path: node.path.clone(),
        r#type: "c".to_owned(),
        major: node.major.into(),
        minor: node.minor.into(),
        file_mode: Some(OptionalFileMode { value: NODE_MODE }),
    }
}

#[cfg(test)]
mod tests {
    use mirage_k8s::nri::generated::LinuxContainer;

    use super::*;

    #[test]
    fn only_what_is_lacking_is_said() {
        let edits = Edits {
            env: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
            mounts: ["/x", "/y"]
                .map(|path| edits::Mount {
                    host: format!("/host{path}"),
                    container: path.to_owned(),
                })
                .to_vec(),
            nodes: [("/dev/nvidia0", 0), ("/dev/nvidia1", 1)]
                .map(|(path, minor)| DeviceNode {
                    path: path.to_owned(),
                    host: None,
                    major: 195,
                    minor,
                })
                .to_vec(),
        };
        let whole = adjustment(&edits, &Container::default());
        assert_eq!((whole.env.len(), whole.mounts.len()), (2, 2));
        assert_eq!(whole.mounts[0].options, ["ro", "nosuid", "nodev", "bind"]);
        assert_eq!(whole.mounts[0].source, "/host/x");
        let devices = whole.linux.unwrap().devices;
        assert_eq!((devices[1].major, devices[1].minor), (195, 1));

        let there = Container {
            env: vec!["A=1".into(), "B=other".into()],
            mounts: vec![mount(&edits.mounts[0])],
            linux: Some(LinuxContainer { devices }),
            ..Container::default()
        };
        let rest = adjustment(&edits, &there);
        assert_eq!(rest.env.len(), 1);
        assert_eq!(rest.env[0].key, "B");
        assert_eq!(rest.mounts.len(), 1);
        assert_eq!(rest.mounts[0].destination, "/y");
        assert!(rest.linux.is_none());
    }
}
