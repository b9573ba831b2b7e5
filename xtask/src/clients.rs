//! `cargo xtask clients`: unmodified NVML clients against a live `mirage up` and the built-in node.
//!
//! The engine stands still while a client looks, so what the client prints and what the API says are of one tick. The
//! clients and what is asked of them live in `xtask/clients`; here is who runs when, against which node.

pub(crate) mod node;
pub(crate) mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bench;
use crate::shell::{self, cargo, root, target};
use node::Node;
use tools::Tools;

/// No client takes a tenth of this on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Where a mirage of the machine itself would hide the built-in node.
const RUN: &str = "/run/mirage";

/// Runs the suite.
pub(crate) fn run(nvidia_smi: Option<&Path>) -> Result<()> {
    if let Some(path) = nvidia_smi {
        ensure!(
            path.is_file(),
            "--nvidia-smi {}: no such file",
            path.display()
        );
    }
    if let Some(state) = states(Path::new(RUN)).first() {
        bail!(
            "{} would be seen instead of the built-in node: end the mirage of this machine first, or remove the file",
            state.display()
        );
    }
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let library = bench::build_library()?;
    let scratch = target().join("clients");
    let tools = Tools::prepare(&scratch)?;
    let suite = Suite {
        libraries: link(&library, &scratch)?,
        mirage: target()
            .join("release/mirage")
            .canonicalize()
            .context("looking for mirage")?,
        nvidia_smi: nvidia_smi.map(Path::to_path_buf),
        scratch,
        tools,
    };
    suite.live()?;
    suite.boards()?;
    suite.built_in()
}

/// State files where programs look when nobody told them.
fn states(run: &Path) -> Vec<PathBuf> {
    let nodes = std::fs::read_dir(run).into_iter().flatten().flatten();
    std::iter::once(run.to_path_buf())
        .chain(nodes.map(|node| node.path()))
        .map(|folder| folder.join("state"))
        .filter(|path| path.is_file())
        .collect()
}

/// The library under the two names programs open.
fn link(library: &Path, scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("lib");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).context("making a folder for the library")?;
    let library = library
        .canonicalize()
        .with_context(|| format!("looking for {}", library.display()))?;
    for name in ["libnvidia-ml.so.1", "libnvidia-ml.so"] {
        std::os::unix::fs::symlink(&library, folder.join(name))
            .with_context(|| format!("linking {name}"))?;
    }
    Ok(folder)
}

/// Who sees what.
#[derive(Clone, Copy, PartialEq)]
enum Sees<'a> {
    /// The node's state.
    State,
    /// Some of its GPUs.
    Part(&'a str),
    /// No state at all, so the node built into the library.
    BuiltIn,
}

struct Suite {
    scratch: PathBuf,
    libraries: PathBuf,
    mirage: PathBuf,
    nvidia_smi: Option<PathBuf>,
    tools: Tools,
}

impl Suite {
    /// Every client on a node at work; then changes, events and MIG.
    fn live(&self) -> Result<()> {
        let node = self.start("live")?;
        node.control(&["step", "1m"])?;
        self.readers(&node, Sees::State)?;
        self.readings(&node, Sees::Part("2,3"))?;
        self.script(&node, Sees::State, "changes.py", &[])?;
        self.script(&node, Sees::State, "wakes.py", &[])?;
        for words in [
            &["mig", "enable", "--device", "6"][..],
            &["mig", "create", "1g.5gb", "--device", "6"],
            &["mig", "create", "3g.20gb", "--device", "6"],
            &["step", "5s"],
        ] {
            node.control(words)?;
        }
        self.script(&node, Sees::State, "mig_devices.py", &[])?;
        self.readings(&node, Sees::State)?;
        self.nvidia_smi(&node)
    }

    /// Boards and counts unlike eight A100s.
    fn boards(&self) -> Result<()> {
        for name in ["fan", "hopper", "rack"] {
            let node = self.start(name)?;
            node.control(&["step", "1m"])?;
            self.script(&node, Sees::State, "nvidia_ml.py", &[])?;
            self.readings(&node, Sees::State)?;
            let changes = if name == "rack" {
                "profiles.py"
            } else {
                "changes.py"
            };
            self.script(&node, Sees::State, changes, &[])?;
        }
        Ok(())
    }

    /// Every client with no state anywhere. An engine of the same node, at its first moment, says what is true.
    fn built_in(&self) -> Result<()> {
        let node = self.start("default")?;
        self.readers(&node, Sees::BuiltIn)
    }

    fn start(&self, name: &str) -> Result<Node> {
        let sources = root().join("xtask/clients");
        Node::start(
            &self.mirage,
            &sources.join("nodes").join(name).with_extension("yaml"),
            &sources.join("fields.csv"),
            &self.scratch.join("state"),
        )
        .with_context(|| format!("starting mirage with {name}.yaml"))
    }

    /// Everything that only looks.
    fn readers(&self, node: &Node, sees: Sees) -> Result<()> {
        self.script(node, sees, "nvidia_ml.py", &[])?;
        self.script(node, sees, "nvitop_once.py", &[])?;
        self.script(node, sees, "gpustat_json.py", &[])?;
        self.readings(node, sees)?;
        self.script(node, sees, "nvtop_screen.py", &[&self.tools.nvtop])
    }

    /// The clients that print what they read as JSON.
    fn readings(&self, node: &Node, sees: Sees) -> Result<()> {
        let py3 = root().join("xtask/clients/python/py3.py");
        let tools = &self.tools;
        let clients: [(&str, &[&Path]); 3] = [
            ("py3nvml", &[&tools.python, &py3]),
            ("go-nvml", &[&tools.go_client]),
            ("nvml-wrapper", &[&tools.wrapper]),
        ];
        for (name, program) in clients {
            let arguments: Vec<&Path> = std::iter::once(Path::new(name))
                .chain(program.iter().copied())
                .collect();
            self.script(node, sees, "readings.py", &arguments)?;
        }
        Ok(())
    }

    /// mirage's own nvidia-smi, and the user's if there is one.
    fn nvidia_smi(&self, node: &Node) -> Result<()> {
        let own = self.scratch.join("nvidia-smi");
        let _ = std::fs::remove_file(&own);
        std::os::unix::fs::symlink(&self.mirage, &own).context("linking nvidia-smi")?;
        [Some(&own), self.nvidia_smi.as_ref()]
            .into_iter()
            .flatten()
            .try_for_each(|path| self.script(node, Sees::State, "nvidia_smi.py", &[path]))
    }

    /// Runs one of our scripts, and the client it runs, with a view of the node.
    fn script(&self, node: &Node, sees: Sees, name: &str, arguments: &[&Path]) -> Result<()> {
        let mut command = Command::new(&self.tools.python);
        command
            .arg(root().join("xtask/clients/python").join(name))
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("MIRAGE_BIN", &self.mirage)
            .env("MIRAGE_TRUTH", node.address())
            .env("MIRAGE_NODE", node.name())
            .env("MIRAGE_STATE_DIR", node.directory())
            // What the machine itself has or sets decides nothing here.
            .env("MIRAGE_DEV", &self.libraries)
            .env_remove("NVIDIA_VISIBLE_DEVICES")
            .env_remove("MIRAGE_VISIBLE_DEVICES")
            .env_remove("MIRAGE_VIEW")
            .env_remove("MIRAGE_NO_DEFAULT")
            .env_remove("MIRAGE_STATE");
        if sees != Sees::BuiltIn {
            command.env("MIRAGE_STATE", node.directory().join(node.name()));
        }
        if let Sees::Part(gpus) = sees {
            command.env("MIRAGE_VISIBLE_DEVICES", gpus);
        }
        let what = match sees {
            Sees::State => node.name().to_owned(),
            Sees::Part(gpus) => format!("GPUs {gpus} of {}", node.name()),
            Sees::BuiltIn => "the built-in node".to_owned(),
        };
        bounded(&mut command).with_context(|| format!("{name} on {what}"))
    }
}

/// Runs a command to its end, which must come in time.
fn bounded(command: &mut Command) -> Result<()> {
    let shown = shell::show(command);
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{shown} ended with {status}");
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{shown} took more than {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
