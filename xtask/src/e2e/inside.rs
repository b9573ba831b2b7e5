//! What runs inside the cage: it makes the machine look fresh, brings up the cluster and plays the scenarios.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::fetch::Programs;
use super::node::Node;
use super::pki::Pki;
use super::plane::Plane;
use super::scenario::{self, Stage};
use super::{NODE_IP, door, image, measure};
use crate::shell;

/// Directories that kubelet, containerd and mirage write to by fixed names. Inside, each is a fresh one.
const FRESH: &[&str] = &["/run", "/var/lib", "/var/log", "/etc/cdi"];
/// Settings of the kernel that a kubelet changes for the whole machine. Inside, they are plain files.
const SYSCTLS: &[&str] = &[
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
];

/// What the outside has decided; a JSON file in the scratch directory.
pub(super) struct Plan {
    pub(super) programs: Programs,
    pub(super) mirage: PathBuf,
    pub(super) cgroup: String,
    pub(super) scenarios: Vec<String>,
    pub(super) keep: bool,
    pub(super) fail_fast: bool,
    /// Measure a controller at scale instead of playing scenarios.
    pub(super) measures: bool,
}

impl Plan {
    const FILE: &str = "plan.json";

    /// Leaves the plan for the inside.
    pub(super) fn write(&self, scratch: &Path) -> Result<()> {
        let plan = serde_json::json!({
            "kubernetes": self.programs.kubernetes, "debian": self.programs.debian,
            "containerd": self.programs.containerd, "helm": self.programs.helm, "mirage": self.mirage,
            "cgroup": self.cgroup, "scenarios": self.scenarios, "keep": self.keep, "fail-fast": self.fail_fast, "measures": self.measures,
        });
        fs::write(scratch.join(Self::FILE), plan.to_string()).context("writing the plan")
    }

    fn read(scratch: &Path) -> Result<Plan> {
        let text = fs::read_to_string(scratch.join(Self::FILE)).context("reading the plan")?;
        let plan: Value = serde_json::from_str(&text).context("reading the plan")?;
        let text = |key: &str| plan[key].as_str().unwrap_or_default().to_owned();
        let names = plan["scenarios"].as_array().cloned().unwrap_or_default();
        Ok(Plan {
            programs: Programs {
                kubernetes: text("kubernetes").into(),
                debian: text("debian").into(),
                containerd: text("containerd").into(),
                helm: text("helm").into(),
            },
            mirage: text("mirage").into(),
            cgroup: text("cgroup"),
            scenarios: names
                .iter()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
            keep: plan["keep"] == true,
            fail_fast: plan["fail-fast"] == true,
            measures: plan["measures"] == true,
        })
    }
}

/// Brings up a cluster and plays the plan's scenarios.
pub(super) fn run(scratch: &Path) -> Result<()> {
    ensure!(
        std::process::id() < 100 && fs::read_to_string("/proc/1/comm")?.trim() == "sh",
        "this is for the inside of a cage; run `cargo xtask e2e`"
    );
    let plan = Plan::read(scratch)?;
    let programs = &plan.programs;
    let logs = scratch.join("logs");
    fs::create_dir_all(&logs).context("making a directory for logs")?;
    let begin = Instant::now();
    refurbish(&plan, scratch)?;
    let pki = Pki::make(scratch.join("pki"))?;
    if plan.measures {
        let _plane = Plane::start(programs, &pki, scratch, &logs)?;
        let admin = pki.file("admin.kubeconfig");
        let cluster = Cluster::new(programs, admin.clone());
        return measure::run(&plan.mirage, &admin, &cluster, scratch);
    }
    let archive = image::make(programs, &[&plan.mirage], scratch)?;
    let mut node = Node::start(programs, &pki, &archive, &plan.cgroup, scratch, &logs)?;
    let plane = Plane::start(programs, &pki, scratch, &logs)?;
    door::open(programs)?;
    let cluster = Cluster::new(programs, pki.file("admin.kubeconfig"));
    let rights = scratch.join("config/rights.yaml");
    fs::write(&rights, include_str!("../../e2e/rights.yaml")).context("writing the rights")?;
    cluster.apply(&rights)?;
    node.start_kubelet()?;
    node.ready(&cluster)?;
    eprintln!(
        "xtask e2e: the cluster is up after {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    let program = plan.mirage.clone();
    let helm = programs.helm.clone();
    let mut stage = Stage::new(cluster, node, plane, program, helm, &pki, scratch);
    let played = scenario::play(&mut stage, &plan.scenarios, plan.fail_fast);
    if plan.keep {
        wait_for_people(scratch, programs);
    }
    played
}

/// Keeps the cluster for a developer to look at, until the run is ended.
fn wait_for_people(scratch: &Path, programs: &Programs) {
    eprintln!(
        "xtask e2e: the cluster stays up until Ctrl-C; from another terminal:\n  \
         nsenter -t $(pgrep -n -f 'xtask e2e --inside {0}') -m -n -p\n  \
         export KUBECONFIG={0}/pki/admin.kubeconfig PATH={1}:{2}:$PATH",
        scratch.display(),
        programs.kubernetes.display(),
        programs.usr("bin").display(),
    );
    loop {
        std::thread::park();
    }
}

/// Gives the cage a loopback, an address for the node, and directories and kernel settings of its own.
fn refurbish(plan: &Plan, scratch: &Path) -> Result<()> {
    let programs = &plan.programs;
    for path in [
        scratch,
        &programs.kubernetes,
        &programs.debian,
        &programs.containerd,
        &programs.helm,
        &plan.mirage,
    ] {
        if let Some(hidden) = FRESH.iter().find(|fresh| path.starts_with(fresh)) {
            bail!(
                "{} lies below {hidden}, which is hidden from the cluster; set TMPDIR, MIRAGE_CACHE or CARGO_TARGET_DIR to elsewhere",
                path.display()
            );
        }
    }
    // Mounts made in containers and by the kubelet must reach each other, but nobody outside.
    mount(&["--make-rshared", "/"])?;
    for directory in FRESH.iter().filter(|path| Path::new(path).exists()) {
        mount(&["-t", "tmpfs", "-o", "mode=0755", "e2e", directory])?;
    }
    fs::create_dir_all("/var/lib/kubelet").context("making the kubelet's directory")?;
    for name in SYSCTLS {
        let setting = Path::new("/proc/sys").join(name);
        let Ok(value) = fs::read(&setting) else {
            continue;
        };
        let copy = scratch.join("sysctl").join(name);
        fs::create_dir_all(copy.parent().context("a setting at the root")?)?;
        fs::write(&copy, value).context("copying a kernel setting")?;
        let path = |path: &Path| path.display().to_string();
        mount(&["--bind", &path(&copy), &path(&setting)])?;
    }
    let busybox = programs.usr("bin/busybox");
    let ip = |words: &[&str]| shell::run(Command::new(&busybox).arg("ip").args(words));
    ip(&["link", "set", "lo", "up"])?;
    ip(&["address", "add", &format!("{NODE_IP}/32"), "dev", "lo"])
}

fn mount(words: &[&str]) -> Result<()> {
    shell::run(Command::new("mount").args(words))
}
