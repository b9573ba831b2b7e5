//! The device plugin of `mirage node`, from outside: the real program, and a kubelet of our own.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../k8s/tests/deviceplugin/kubelet.rs"]
#[allow(dead_code, reason = "shared with the protocol's own tests")]
mod kubelet;

use std::collections::HashMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kubelet::{Kubelet, List, dial, within};
use mirage_k8s::deviceplugin::Place;
use mirage_k8s::deviceplugin::generated::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, PreferredAllocationRequest,
};

const GPU: &str = "nvidia.com/gpu";
/// File with what the process said.
const TOLD: &str = "told.txt";

/// A node's process and its kubelet, in a directory of their own.
struct Rig {
    directory: tempfile::TempDir,
    child: Child,
    kubelet: Kubelet,
}

impl Rig {
    async fn start(args: &[&str]) -> Rig {
        Self::with(&[], args).await
    }

    /// With files of these names and contents; `@name` in an argument is a file's path.
    async fn with(files: &[(&str, &str)], args: &[&str]) -> Rig {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::of(directory.path());
        std::fs::create_dir(&place.directory).unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let kubelet = Kubelet::start(place).await;
        let args = args.iter().map(|arg| match arg.strip_prefix('@') {
            Some(name) => directory.path().join(name),
            None => PathBuf::from(arg),
        });
        let child = mirage()
            .args([
                "node",
                "--node-name",
                "n",
                "--no-api-server",
                "--listen",
                "127.0.0.1:0",
            ])
            .arg("--state-dir")
            .arg(directory.path().join("state"))
            .arg("--kubelet-dir")
            .arg(directory.path())
            .args(args)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(directory.path().join(TOLD)).unwrap())
            .spawn()
            .unwrap();
        Rig {
            directory,
            child,
            kubelet,
        }
    }

    /// `mirage ctl` with these words, which must succeed.
    fn ctl(&self, words: &[&str]) {
        let output = mirage()
            .args(["ctl", "--state-dir"])
            .arg(self.directory.path().join("state"))
            .args(words)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}");
    }

    /// What the process has said on standard error.
    fn told(&self) -> String {
        std::fs::read_to_string(self.directory.path().join(TOLD)).unwrap_or_default()
    }

    /// Waits until the last list of a resource is so.
    async fn list(&self, resource: &str, so: impl Fn(&List) -> bool) -> List {
        let lists = self
            .kubelet
            .lists(resource, |lists| lists.last().is_some_and(&so));
        lists.await.pop().unwrap()
    }

    async fn ids(&self, resource: &str, count: usize) -> Vec<String> {
        let list = self.list(resource, |list| list.len() == count).await;
        list.into_iter().map(|(id, ..)| id).collect()
    }

    async fn allocate(
        &self,
        socket: &str,
        ids: &[&str],
    ) -> Result<ContainerAllocateResponse, String> {
        let place = Place::of(self.directory.path());
        let mut plugin = dial(&place.directory.join(socket)).await.unwrap();
        let request = AllocateRequest {
            container_requests: vec![ContainerAllocateRequest {
                devices_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            }],
        };
        let answer = plugin.allocate(request).await;
        let answer = answer.map_err(|status| status.message().to_owned())?;
        Ok(answer.into_inner().container_responses.remove(0))
    }

    /// Tells it to end, and waits until it has.
    async fn end(mut self) -> tempfile::TempDir {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        let child = std::cell::RefCell::new(&mut self.child);
        within(|| child.borrow_mut().try_wait().unwrap().is_some()).await;
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        eprint!("{}", self.told());
    }
}

/// The binary, cut off from the machine's own settings.
fn mirage() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mirage"));
    command.stdin(Stdio::null()).env_clear();
    for kept in ["PATH", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Mounts of an answer: where in the container, and from where.
fn mounts(answer: &ContainerAllocateResponse) -> HashMap<&str, &Path> {
    let mounts = answer.mounts.iter();
    mounts
        .map(|mount| (mount.container_path.as_str(), Path::new(&mount.host_path)))
        .collect()
}

#[tokio::test]
async fn a_container_is_given_exactly_its_gpu() {
    let rig = Rig::start(&[
        "--no-driver-root",
        "--model",
        "a100-sxm4-40gb",
        "--gpus",
        "8",
    ])
    .await;
    let list = rig.list(GPU, |list| list.len() == 8).await;
    assert!(
        list.iter()
            .all(|(id, healthy, numa)| { id.starts_with("GPU-") && *healthy && numa.is_some() })
    );
    let ids = rig.ids(GPU, 8).await;
    let answer = rig.allocate("nvidia-gpu.sock", &[&ids[3]]).await.unwrap();
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], ids[3]);
    let mounts = mounts(&answer);
    assert!(answer.mounts.iter().all(|mount| mount.read_only));
    assert!(mounts["/run/mirage"].join("state").is_file());
    assert!(mounts["/usr/lib64/libnvidia-ml.so.1"].is_file());
    let marks = mounts
        .keys()
        .filter(|path| path.starts_with("/run/mirage-view/"));
    assert_eq!(
        marks.collect::<Vec<_>>(),
        [&format!("/run/mirage-view/{}", ids[3])]
    );
    let place = Place::of(rig.directory.path());
    // Two that share a switch go together.
    let mut plugin = dial(&place.directory.join("nvidia-gpu.sock"))
        .await
        .unwrap();
    let preferred = plugin
        .get_preferred_allocation(PreferredAllocationRequest {
            container_requests: vec![ContainerPreferredAllocationRequest {
                available_device_i_ds: vec![ids[1].clone(), ids[6].clone(), ids[7].clone()],
                must_include_device_i_ds: vec![],
                allocation_size: 2,
            }],
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(preferred.container_responses[0].device_i_ds, ids[6..8]);
    drop(plugin);
    let directory = rig.end().await;
    let left: Vec<_> = std::fs::read_dir(Place::of(directory.path()).directory)
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "only the kubelet's socket is left: {left:?}");
    // Containers have it mounted.
    assert!(directory.path().join("state/n").is_dir());
}

#[tokio::test]
async fn health_follows_the_engine_and_heals() {
    let rig = Rig::start(&["--no-driver-root", "--gpus", "2"]).await;
    rig.ids(GPU, 2).await;
    let health = |list: &List| {
        list.iter()
            .map(|(_, healthy, _)| *healthy)
            .collect::<Vec<_>>()
    };
    rig.ctl(&["fault", "inject", "xid=79", "--device", "1"]);
    rig.list(GPU, |list| health(list) == [true, false]).await;
    rig.ctl(&["fault", "heal", "--device", "1"]);
    rig.list(GPU, |list| health(list) == [true, true]).await;
    rig.ctl(&["fault", "inject", "xid=48", "--device", "0"]);
    rig.list(GPU, |list| health(list) == [false, true]).await;
    rig.ctl(&["reset", "--device", "0"]);
    rig.list(GPU, |list| health(list) == [true, true]).await;
}

#[tokio::test]
async fn the_plugin_misbehaves_when_told_to() {
    let rig = Rig::start(&["--no-driver-root", "--gpus", "3"]).await;
    let ids = rig.ids(GPU, 3).await;
    let inject = |what: &str, device: &str| {
        rig.ctl(&[
            "fault",
            "inject",
            &format!("device-plugin:{what}"),
            "--device",
            device,
        ]);
    };
    let heal = || rig.ctl(&["fault", "heal", "--device", "all"]);
    inject("vanish", "0");
    assert_eq!(rig.ids(GPU, 2).await, ids[1..]);
    heal();
    rig.ids(GPU, 3).await;
    inject("unhealthy", "2");
    rig.list(GPU, |list| list.len() == 3 && !list[2].1).await;
    heal();
    rig.list(GPU, |list| list.len() == 3 && list[2].1).await;
    let before = rig.kubelet.told(GPU);
    inject("flap", "0");
    rig.kubelet
        .lists(GPU, |lists| lists.len() >= before + 3)
        .await;
    heal();
    rig.list(GPU, |list| list.iter().all(|(_, healthy, _)| *healthy))
        .await;

    inject("allocate-error", "1");
    let error = rig
        .allocate("nvidia-gpu.sock", &[&ids[1]])
        .await
        .unwrap_err();
    assert!(error.contains("told to fail"), "{error}");
    rig.allocate("nvidia-gpu.sock", &[&ids[0]]).await.unwrap();
    heal();
    inject("allocate-wrong", "1");
    let wrong = rig.allocate("nvidia-gpu.sock", &[&ids[1]]).await.unwrap();
    assert_eq!(wrong.envs["NVIDIA_VISIBLE_DEVICES"], ids[0]);
    heal();
    let right = rig.allocate("nvidia-gpu.sock", &[&ids[1]]).await.unwrap();
    assert_eq!(right.envs["NVIDIA_VISIBLE_DEVICES"], ids[1]);
    inject("allocate-slow", "1");
    let second = [ids[1].as_str()];
    let mut slow = std::pin::pin!(rig.allocate("nvidia-gpu.sock", &second));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut slow).await;
    assert!(early.is_err(), "{early:?}");
    rig.allocate("nvidia-gpu.sock", &[&ids[0]]).await.unwrap();
    heal();
    assert_eq!(slow.await.unwrap().envs["NVIDIA_VISIBLE_DEVICES"], ids[1]);

    // Without a device it is the whole plugin.
    rig.ctl(&["fault", "inject", "device-plugin:die"]);
    rig.kubelet.ended(GPU, 1).await;
    heal();
    rig.kubelet.accepted(GPU, 2).await;
    rig.ctl(&["fault", "inject", "device-plugin=wrong-version"]);
    within(|| {
        let requests = rig.kubelet.requests();
        requests.iter().any(|it| it.version == "v1alpha1")
    })
    .await;
    heal();
    rig.kubelet.accepted(GPU, 3).await;
}

#[tokio::test]
async fn mig_devices_come_and_go_with_the_layout() {
    let rig = Rig::start(&["--no-driver-root", "--gpus", "2", "--mig-strategy", "mixed"]).await;
    let ids = rig.ids(GPU, 2).await;
    rig.ctl(&["mig", "enable", "--device", "0"]);
    rig.ctl(&["reset", "--device", "0"]);
    assert_eq!(rig.ids(GPU, 1).await, ids[1..]);
    rig.ctl(&["mig", "create", "1g.5gb", "--device", "0"]);
    rig.ctl(&["mig", "create", "1g.5gb", "--device", "0"]);
    let slices = rig.ids("nvidia.com/mig-1g.5gb", 2).await;
    let answer = rig
        .allocate("nvidia-mig-1g.5gb.sock", &[&slices[1]])
        .await
        .unwrap();
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], slices[1]);
    rig.ctl(&["mig", "destroy", "--device", "0"]);
    rig.kubelet.ended("nvidia.com/mig-1g.5gb", 1).await;
    let socket = Place::of(rig.directory.path())
        .directory
        .join("nvidia-mig-1g.5gb.sock");
    within(|| !socket.exists()).await;
}

#[tokio::test]
async fn shares_are_as_nvidias_file_says() {
    let file = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    \
        failRequestsGreaterThanOne: true\n    resources:\n    - { name: nvidia.com/gpu, replicas: 3 }\n";
    let args = [
        "--no-driver-root",
        "--gpus",
        "2",
        "--config-file",
        "@p.yaml",
        "--resource",
        "a.b/c=2",
    ];
    let rig = Rig::with(&[("p.yaml", file)], &args).await;
    let ids = rig.ids("nvidia.com/gpu.shared", 6).await;
    assert!(ids.iter().all(|id| id.contains("::")));
    assert_eq!(rig.ids("a.b/c", 2).await, ["c-0", "c-1"]);
    let socket = "nvidia-gpu.shared.sock";
    let answer = rig.allocate(socket, &[&ids[0]]).await.unwrap();
    let uuid = ids[0].split("::").next().unwrap();
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], uuid);
    let error = rig.allocate(socket, &[&ids[0], &ids[1]]).await.unwrap_err();
    assert!(error.contains("one share"), "{error}");
    // Every share goes with its GPU.
    rig.ctl(&["fault", "inject", "lost", "--device", "1"]);
    let sick = |list: &List| list.iter().filter(|(_, healthy, _)| !healthy).count() == 3;
    rig.list("nvidia.com/gpu.shared", sick).await;
}

#[tokio::test]
async fn channels_of_the_memory_exchange_are_given_by_every_strategy() {
    let start = async |more: &[&'static str]| {
        let args = ["--gpus", "1", "--imex-channel-ids", "0"];
        let rig = Rig::with(&[], &[&args, more].concat()).await;
        let ids = rig.ids(GPU, 1).await;
        let answer = rig.allocate("nvidia-gpu.sock", &[&ids[0]]).await;
        (rig, answer)
    };
    let (rig, answer) = start(&["--driver-root", "@root"]).await;
    let answer = answer.unwrap();
    assert_eq!(answer.envs["NVIDIA_IMEX_CHANNELS"], "0");
    // Device nodes come along where the machine lets us make them.
    let channel = "dev/nvidia-caps-imex-channels/channel0";
    let channel = rig.directory.path().join("root").join(channel);
    let found = std::fs::metadata(&channel).unwrap().file_type();
    let path = "/dev/nvidia-caps-imex-channels/channel0";
    let given = answer.devices.iter().find(|it| it.container_path == path);
    assert_eq!(given.is_some(), found.is_char_device());
    drop(rig);

    let strategies = "volume-mounts,cdi-cri";
    let more = [
        "--driver-root",
        "@root",
        "--device-list-strategy",
        strategies,
    ];
    let (rig, answer) = start(&more).await;
    let answer = answer.unwrap();
    assert!(!answer.envs.contains_key("NVIDIA_IMEX_CHANNELS"));
    let mark = "/var/run/nvidia-container-devices/imex/0";
    assert_eq!(mounts(&answer)[mark], Path::new("/dev/null"));
    let names: Vec<&str> = answer.cdi_devices.iter().map(|it| &*it.name).collect();
    let name = "k8s.device-plugin.nvidia.com/imex-channel=0";
    assert_eq!(names[1..], [name]);
    let cdi = rig.directory.path().join("root/var/run/cdi");
    let spec = std::fs::read_to_string(cdi.join("nvidia-imex-channel.yaml")).unwrap();
    assert!(
        spec.contains("kind: \"k8s.device-plugin.nvidia.com/imex-channel\"")
            && spec.contains("path: \"/dev/nvidia-caps-imex-channels/channel0\""),
        "{spec}"
    );
    drop(rig);

    // Without a driver root there are none: they are left out, or nothing is given.
    let (_rig, answer) = start(&["--no-driver-root"]).await;
    assert!(!answer.unwrap().envs.contains_key("NVIDIA_IMEX_CHANNELS"));
    let (_rig, answer) = start(&["--no-driver-root", "--imex-required"]).await;
    let error = answer.unwrap_err();
    assert!(error.contains("IMEX channels"), "{error}");
    let wrong = mirage()
        .args(["node", "--no-api-server", "--imex-channel-ids", "0,1"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[tokio::test]
async fn every_strategy_tells_in_its_own_way() {
    // Neither order nor repetition matters: of a variable that two would set, mounts have the last word.
    let strategies = "cdi-cri,volume-mounts,cdi-annotations,cdi-cri,envvar";
    let args = [
        "--driver-root",
        "@root",
        "--gpus",
        "2",
        "--device-id-strategy",
        "index",
        "--gds-enabled",
        "--device-list-strategy",
        strategies,
    ];
    let rig = Rig::with(&[], &args).await;
    let ids = rig.ids(GPU, 2).await;
    let answer = rig.allocate("nvidia-gpu.sock", &[&ids[1]]).await.unwrap();
    assert_eq!(
        answer.envs["NVIDIA_VISIBLE_DEVICES"],
        "/var/run/nvidia-container-devices"
    );
    assert_eq!(answer.envs["NVIDIA_GDS"], "enabled");
    assert_eq!(
        mounts(&answer)["/var/run/nvidia-container-devices/1"],
        Path::new("/dev/null")
    );
    assert_eq!(
        answer.cdi_devices[0].name,
        "k8s.device-plugin.nvidia.com/gpu=1"
    );
    assert_eq!(answer.cdi_devices.len(), 1);
    let (key, value) = answer.annotations.iter().next().unwrap();
    assert!(key.starts_with("cdi.k8s.io/nvidia-device-plugin_"));
    assert_eq!(value, "k8s.device-plugin.nvidia.com/gpu=1");
    // The specification brings everything else.
    assert!(!mounts(&answer).contains_key("/run/mirage"));
    let root = rig.directory.path().join("root");
    let spec = std::fs::read_to_string(root.join("var/run/cdi/nvidia.yaml")).unwrap();
    assert!(spec.contains("k8s.device-plugin.nvidia.com/gpu") && spec.contains(&ids[1]));
    let directory = rig.end().await;
    assert!(root.join("usr/lib64/libnvidia-ml.so.1").exists());
    let removed = mirage()
        .args([
            "node",
            "--uninstall",
            "--node-name",
            "n",
            "--no-api-server",
            "--driver-root",
        ])
        .arg(&root)
        .arg("--state-dir")
        .arg(directory.path().join("state"))
        .status()
        .unwrap();
    assert!(removed.success());
    assert!(!root.exists() && !directory.path().join("state").exists());
}

#[tokio::test]
async fn no_device_is_named_that_stands_in_no_specification() {
    for strategy in ["cdi-cri", "envvar,cdi-annotations"] {
        let refused = mirage()
            .args(["node", "--no-api-server", "--no-driver-root"])
            .args(["--device-list-strategy", strategy])
            .output()
            .unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("--device-list-strategy envvar"), "{told}");
    }

    // A file stands where the driver root is to be made.
    let args = [
        "--driver-root",
        "@root",
        "--gpus",
        "1",
        "--device-list-strategy",
        "cdi-cri",
    ];
    let rig = Rig::with(&[("root", "")], &args).await;
    within(|| rig.told().contains("no CDI specification")).await;
    assert!(rig.kubelet.requests().is_empty());
    std::fs::remove_file(rig.directory.path().join("root")).unwrap();
    let ids = rig.ids(GPU, 1).await;
    let answer = rig.allocate("nvidia-gpu.sock", &[&ids[0]]).await.unwrap();
    let cdi = rig.directory.path().join("root/var/run/cdi/nvidia.yaml");
    let spec = std::fs::read_to_string(cdi).unwrap();
    let (kind, name) = answer.cdi_devices[0].name.split_once('=').unwrap();
    assert!(spec.contains(kind) && spec.contains(name), "{spec}");
}

/// Variables as Go's programs read them, and as templates leave them.
#[test]
fn variables_are_nvidias() {
    let check = |variable: &str, value: &str| {
        let output = mirage()
            .args(["node", "--uninstall", "--no-api-server", "--no-driver-root"])
            .args(["--node-name", "n", "--kubelet-dir", "/nonexistent"])
            .args(["--state-dir", "/nonexistent"])
            .env(variable, value)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let flags = [
        "PASS_DEVICE_SPECS",
        "GDRCOPY_ENABLED",
        "GDS_ENABLED",
        "MOFED_ENABLED",
        "IMEX_REQUIRED",
        "GFD_NO_TIMESTAMP",
    ];
    for flag in flags {
        for value in ["true", "True", "TRUE", "1", "t", "false", "0", ""] {
            let (code, told) = check(flag, value);
            assert_eq!(code, Some(0), "{flag}={value}: {told}");
        }
        assert_eq!(check(flag, "perhaps").0, Some(2), "{flag}");
    }
    let others = [
        "MIG_STRATEGY",
        "DEVICE_LIST_STRATEGY",
        "DEVICE_ID_STRATEGY",
        "CONFIG_FILE",
        "IMEX_CHANNEL_IDS",
        "KUBECONFIG",
        "KUBELET_SOCKET",
        "NODE_NAME",
    ];
    for variable in others {
        let (code, told) = check(variable, "");
        assert_eq!(code, Some(0), "{variable} is empty: {told}");
    }
}

#[tokio::test]
async fn what_a_killed_one_left_is_taken_away() {
    let args = ["--no-driver-root", "--resource", "a.b/c=2"];
    let mut rig = Rig::start(&args).await;
    rig.ids("a.b/c", 2).await;
    rig.list(GPU, |list| !list.is_empty()).await;
    rig.child.kill().unwrap();
    rig.child.wait().unwrap();
    let sockets = Place::of(rig.directory.path()).directory;
    // Nobody listens there either, but it is another's.
    drop(std::os::unix::net::UnixListener::bind(sockets.join("other.sock")).unwrap());
    // This one is the same in name, and alive.
    let slice = sockets.join("nvidia-mig-1g.5gb.sock");
    let alive = std::os::unix::net::UnixListener::bind(&slice).unwrap();
    let uninstall = || {
        let removed = mirage()
            .args(["node", "--uninstall", "--node-name", "n", "--no-api-server"])
            .arg("--state-dir")
            .arg(rig.directory.path().join("state"))
            .arg("--kubelet-dir")
            .arg(rig.directory.path())
            .args(args)
            .status()
            .unwrap();
        assert!(removed.success());
        let left = std::fs::read_dir(&sockets).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = left.collect();
        left.sort();
        left
    };
    assert!(sockets.join("nvidia-gpu.sock").exists());
    assert_eq!(
        uninstall(),
        ["kubelet.sock", "nvidia-mig-1g.5gb.sock", "other.sock"]
    );
    drop(alive);
    assert_eq!(uninstall(), ["kubelet.sock", "other.sock"]);
}
