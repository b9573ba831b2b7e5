//! The scenarios, in the order they are played, and the stage they are played on.

mod document;
mod ground;
mod hook;
mod install;
mod lives;
mod look;
mod mischief;
mod random;
mod reign;
mod requests;
mod runtime;
mod share;
mod slices;
mod storm;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::cluster::Cluster;
use super::controller::{Controller, Place};
use super::door::Gate;
use super::mirage::{Exporter, Mirage};
use super::node::{Node, Runtime};
use super::pki::Pki;
use super::plane::Plane;
use super::process::tail;

/// The resource of whole GPUs.
const GPU: &str = "nvidia.com/gpu";

/// One thing a user would do, and what must come of it.
type Scenario = (&'static str, fn(&mut Stage) -> Result<()>);

const SCENARIOS: &[Scenario] = &[
    ("ground", ground::a_pod_runs),
    ("one-of-eight", share::one_of_eight),
    ("two-containers", share::two_containers),
    ("nine-of-eight", share::nine_of_eight),
    ("freed", share::freed),
    ("kubelet-restarts", lives::kubelet_restarts),
    ("containerd-restarts", lives::containerd_restarts),
    ("mirage-killed", lives::mirage_is_killed),
    ("xid-79", lives::a_gpu_falls_ill),
    ("mig-mixed", slices::mig_mixed),
    ("mig-single", slices::mig_single),
    ("time-slicing", slices::time_slicing),
    ("schedule", work::schedule),
    ("annotations", work::annotations),
    ("inference", requests::inference),
    ("labels", work::labels),
    ("labels-as-file", work::labels_as_file),
    ("cdi", share::cdi),
    ("cdi-annotations", share::cdi_annotations),
    ("volume-mounts", share::volume_mounts),
    ("koordinator", hook::koordinator),
    ("hook-stopped", hook::stopped),
    ("pod-resources", hook::pod_resources),
    ("containerd-2", runtime::containerd_2),
    ("plugin-devices", mischief::devices),
    ("plugin-connection", mischief::connection),
    ("plugin-socket-removed", mischief::socket_removed),
    ("plugin-allocation", mischief::allocation),
    ("document", document::document),
    ("mig-on-demand", document::mig_on_demand),
    ("server-away", reign::server_away),
    ("two-controllers", reign::two_controllers),
    ("cut-off", storm::cut_off),
    ("forgotten", storm::forgotten),
    ("rivals", storm::rivals),
    ("install", install::install),
    ("helm", install::helm),
    ("as-fake-gpu-operator", install::as_fake_gpu_operator),
    ("as-gpu-operator", install::as_gpu_operator),
    ("random", random::lives),
];

/// The cluster, and the means to run mirage on its node.
pub(super) struct Stage {
    cluster: Cluster,
    node: Node,
    plane: Plane,
    program: PathBuf,
    helm: PathBuf,
    kubeconfig: PathBuf,
    scratch: PathBuf,
    /// mirage's image, once it was made.
    image: Option<PathBuf>,
}

impl Stage {
    /// A stage without mirage.
    pub(super) fn new(
        cluster: Cluster,
        node: Node,
        plane: Plane,
        program: PathBuf,
        helm: PathBuf,
        pki: &Pki,
        scratch: &Path,
    ) -> Stage {
        Stage {
            cluster,
            node,
            plane,
            program,
            helm,
            kubeconfig: pki.file("mirage.kubeconfig"),
            scratch: scratch.to_path_buf(),
            image: None,
        }
    }

    /// Makes the stage as it was: everything runs, without pods, and nobody thinks of the last mirage's GPUs.
    fn tidy(&mut self) -> Result<()> {
        self.node.complete()?;
        self.cluster.clear()?;
        self.node.use_runtime(Runtime::Usual, &self.cluster)?;
        self.cluster.no_gpus()
    }

    /// Shows the ends of the logs that tell most.
    fn show_logs(&self) {
        for log in ["containerd", "containerd-2", "kubelet", "mirage"] {
            let path = self.scratch.join("logs").join(format!("{log}.log"));
            eprintln!("xtask e2e: {log}.log ends:\n{}\n", tail(&path));
        }
    }

    /// A file for mirage to read; returns its path.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.scratch.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// The administrator's kubeconfig.
    fn admin(&self) -> PathBuf {
        self.kubeconfig.with_file_name("admin.kubeconfig")
    }

    /// `mirage node --uninstall` with these options more.
    fn uninstall(&self, options: &[&str]) -> Result<()> {
        Mirage::uninstall(&self.program, &self.kubeconfig, options)
    }

    /// A `mirage controller`, with the administrator's rights.
    fn controller(&self, place: Place) -> Result<Controller> {
        Controller::start(place, &self.program, &self.admin(), &self.scratch)
    }

    /// A `mirage controller` that reaches the API server through a gate of its own.
    fn gated(&self, place: Place) -> Result<(Controller, Gate)> {
        let gate = Gate::new(&self.admin(), &self.scratch)?;
        let kubeconfig = gate.kubeconfig();
        let controller = Controller::start(place, &self.program, kubeconfig, &self.scratch)?;
        Ok((controller, gate))
    }

    /// A `mirage node` with these options.
    fn mirage(&self, options: &[&str]) -> Result<Mirage> {
        let logs = self.scratch.join("logs");
        Mirage::start(&self.program, &self.kubeconfig, options, &logs)
    }

    /// A `mirage dcgm-exporter` beside it, which has its pods from this socket.
    fn exporter(&self, socket: &str) -> Result<Exporter> {
        Exporter::start(&self.program, socket, &self.scratch.join("logs"))
    }
}

/// The scenarios whose names begin with one of these words; all without a word.
pub(super) fn choose(words: &[String]) -> Result<Vec<&'static Scenario>> {
    let begins = |(name, _): &&Scenario, word: &str| name.starts_with(word);
    for word in words {
        if !SCENARIOS.iter().any(|one| begins(&one, word)) {
            bail!("no scenario begins with {word:?}; `cargo xtask e2e --list` names them");
        }
    }
    let wanted = |one: &&Scenario| words.is_empty() || words.iter().any(|word| begins(one, word));
    Ok(SCENARIOS.iter().filter(wanted).collect())
}

/// Prints the names.
pub(super) fn list() {
    for (name, _) in SCENARIOS {
        println!("{name}");
    }
}

/// Plays the chosen ones.
pub(super) fn play(stage: &mut Stage, words: &[String], fail_fast: bool) -> Result<()> {
    let mut failed = Vec::new();
    for (name, play) in choose(words)? {
        let begin = Instant::now();
        let played = play(stage).and_then(|()| stage.tidy());
        let took = begin.elapsed().as_secs_f64();
        let Err(error) = played else {
            eprintln!("xtask e2e: {name}: good, {took:.1} s");
            continue;
        };
        stage.show_logs();
        eprintln!("xtask e2e: {name}: FAILED, {took:.1} s: {error:#}\n");
        failed.push(*name);
        if fail_fast {
            break;
        }
        stage.tidy().context("making the stage fit for the next")?;
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
