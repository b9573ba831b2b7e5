//! Containers that asked for GPUs: CDI's own library edits the container's configuration, a real runc starts it, and inside it
//! nvidia-ml-py, a C program and nvidia-smi see what was asked for and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::scratch::{Root, beside, script};
use crate::clients::tools;
use crate::shell;

/// GPUs with two MIG devices each, then GPUs without.
const CUT: usize = 2;
const NODE: &str = "nodes:\n  big:\n    model: a100-sxm4-40gb\n    gpus:\n      \
    - mig: [1g.5gb, 2g.10gb]\n      - mig: [1g.5gb, 3g.20gb]\n      - {}\n      - {}\n";

/// What is needed to start a container.
struct Bundle<'a> {
    runc: &'a Path,
    cdi: PathBuf,
    place: &'a Path,
    root: &'a Root,
    python: Python,
}

/// Asks for devices in many ways, and looks at what is seen.
pub(super) fn run(scratch: &Path, runc: &Path, python: &Path, program: &Path) -> Result<()> {
    let place = scratch.join("container");
    fs::create_dir_all(place.join("rootfs"))?;
    let config = place.join("mirage.yaml");
    fs::write(&config, NODE)?;
    let config = config.to_str().context("a path that is not UTF-8")?;
    let root = Root::make(&place, &["--config", config])?;
    let cdi = place.join("cdi");
    shell::run(tools::go(&cdi)?.current_dir(beside("cdi")))
        .context("building the program with CDI's library")?;
    let bundle = Bundle {
        runc,
        cdi,
        place: &place,
        root: &root,
        python: Python::find(python)?,
    };
    bundle.fill(program)?;

    let truth = root.used_by(script(python, "seen.py"))?;
    let truth: Vec<Value> = serde_json::from_str(&truth)?;
    ensure!(truth.len() == 4, "nvidia-ml-py finds {truth:?}");
    bundle.check_names(&truth)?;
    let uuid = |gpu: usize| text(&truth[gpu]["uuid"]);
    let mig = |gpu: usize, part: usize| text(&truth[gpu]["mig"][part]);
    let part = |gpu: usize, parts: &[usize]| {
        let mut seen = truth[gpu].clone();
        seen["mig"] = parts.iter().map(|part| mig(gpu, *part)).collect();
        seen
    };
    let cases: Vec<(Vec<String>, Vec<Value>)> = vec![
        (vec!["3".into()], vec![truth[3].clone()]),
        (
            vec![uuid(3), "2".into()],
            vec![truth[2].clone(), truth[3].clone()],
        ),
        // The same one by both its names is one.
        (vec!["2".into(), uuid(2)], vec![truth[2].clone()]),
        (vec!["0:1".into()], vec![part(0, &[1])]),
        (vec!["0:1".into(), "0:0".into()], vec![part(0, &[0, 1])]),
        (
            vec!["0:1".into(), mig(1, 0)],
            vec![part(0, &[1]), part(1, &[0])],
        ),
        (
            vec![mig(1, 1), "3".into()],
            vec![part(1, &[1]), truth[3].clone()],
        ),
        (vec!["1".into(), "1:0".into()], vec![truth[1].clone()]),
        (vec!["all".into()], truth.clone()),
    ];
    for (devices, expected) in &cases {
        let seen: Value = serde_json::from_str(&bundle.start(devices, &bundle.python.script())?)?;
        ensure!(
            seen == Value::from(expected.clone()),
            "a container with {devices:?} sees {seen:#}\ninstead of {:#}",
            Value::from(expected.clone())
        );
        let listed = bundle.start(devices, &["/usr/bin/nvidia-smi".into(), "-L".into()])?;
        let listed: BTreeSet<&str> = uuids(&listed).collect();
        let whole: String = expected.iter().map(Value::to_string).collect();
        ensure!(
            listed == uuids(&whole).collect(),
            "a container with {devices:?} lists {listed:?}"
        );
    }
    // CUDA counts as NVML does.
    let seen = bundle.start(&["3".into()], &["/enumerate".into()])?;
    ensure!(
        seen.lines().count() == 1 && seen.starts_with("0|") && seen.contains(&uuid(3)),
        "the C program in a container with GPU 3 finds: {seen}"
    );
    root.remove()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// UUIDs in a text.
fn uuids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.len() == 40 && (word.starts_with("GPU-") || word.starts_with("MIG-")))
}

impl Bundle<'_> {
    /// Fills the container's root with programs and what their loaders need.
    fn fill(&self, program: &Path) -> Result<()> {
        let rootfs = self.place.join("rootfs");
        for directory in ["proc", "dev", "home/bin"] {
            fs::create_dir_all(rootfs.join(directory))?;
        }
        fs::copy(program, rootfs.join("enumerate"))?;
        fs::copy(&self.python.program, rootfs.join("home/bin/python3"))?;
        fs::copy(beside("seen.py"), rootfs.join("seen.py"))?;
        let driver = &self.root.driver;
        let mut users = vec![
            program.to_path_buf(),
            self.python.program.clone(),
            driver.join("lib64/libcuda.so.1"),
            driver.join("lib64/libnvidia-ml.so.1"),
            driver.join("bin/nvidia-smi"),
        ];
        users.extend(self.python.objects.iter().cloned());
        let mut files = BTreeSet::new();
        for user in users {
            let printed = Command::new("ldd").arg(&user).output();
            let printed = printed.with_context(|| format!("running ldd {}", user.display()))?;
            let printed = String::from_utf8(printed.stdout)?;
            let words = printed.split_whitespace();
            files.extend(
                words
                    .filter(|word| word.starts_with('/'))
                    .map(PathBuf::from),
            );
        }
        for file in files {
            let to = rootfs.join(file.strip_prefix("/")?);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&file, &to).with_context(|| format!("copying {}", file.display()))?;
        }
        Ok(())
    }

    fn edit(&self, devices: &[String]) -> Result<String> {
        let mut cdi = Command::new(&self.cdi);
        cdi.arg(self.root.driver.join("var/run/cdi"));
        cdi.arg(self.place.join("config.json"));
        let names = devices.iter().map(|name| format!("nvidia.com/gpu={name}"));
        shell::output(cdi.args(names))
    }

    /// The library knows every device by all its names.
    fn check_names(&self, truth: &[Value]) -> Result<()> {
        let listed = self.edit(&[])?;
        let listed: BTreeSet<&str> = listed.lines().collect();
        let mut expected = vec!["all".to_owned()];
        for (index, gpu) in truth.iter().enumerate() {
            expected.extend([index.to_string(), text(&gpu["uuid"])]);
            for (part, mig) in gpu["mig"].as_array().into_iter().flatten().enumerate() {
                expected.extend([format!("{index}:{part}"), text(mig)]);
            }
        }
        ensure!(expected.len() == 1 + 2 * (truth.len() + 2 * CUT));
        let expected: Vec<String> = expected
            .iter()
            .map(|name| format!("nvidia.com/gpu={name}"))
            .collect();
        let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
        ensure!(
            listed == expected,
            "CDI's library finds {listed:?} instead of {expected:?}"
        );
        Ok(())
    }

    /// What a program prints in a new container with these devices.
    fn start(&self, devices: &[String], words: &[String]) -> Result<String> {
        let config = self.place.join("config.json");
        fs::write(&config, self.config(words).to_string())?;
        let edited = self.edit(devices)?;
        fs::write(&config, edited)?;
        let mut run = Command::new(self.runc);
        run.arg("--root").arg(self.place.join("runc"));
        run.args(["run", "--bundle"]).arg(self.place);
        let name = format!("mirage-{}", std::process::id());
        shell::output(run.arg(name))
            .with_context(|| format!("a container with {devices:?} for {words:?}"))
    }

    /// The configuration before the devices are put into it.
    fn config(&self, words: &[String]) -> Value {
        let Python {
            library,
            version,
            packages,
            ..
        } = &self.python;
        let bind = |from: &Path, to: String| json!({ "destination": to, "source": from, "type": "none", "options": ["bind", "ro"] });
        let mounts = json!([
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] },
            bind(library, format!("/home/lib/{version}")),
            bind(packages, "/packages".into()),
        ]);
        let env = [
            "PYTHONHOME=/home",
            "PYTHONPATH=/packages",
            "PYTHONDONTWRITEBYTECODE=1",
        ];
        let namespaces = ["mount", "pid", "ipc", "uts"].map(|kind| json!({ "type": kind }));
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false, "user": { "uid": 0, "gid": 0 }, "args": words, "env": env, "cwd": "/",
            },
            "root": { "path": "rootfs" },
            "mounts": mounts,
            "linux": { "namespaces": namespaces, "resources": { "devices": [{ "allow": true, "access": "rwm" }] } },
        })
    }
}

/// A Python that can be put into a container.
#[derive(Debug)]
struct Python {
    program: PathBuf,
    library: PathBuf,
    version: String,
    packages: PathBuf,
    objects: Vec<PathBuf>,
}

impl Python {
    fn find(python: &Path) -> Result<Python> {
        let told: Value = serde_json::from_str(&shell::output(&mut script(python, "inside.py"))?)?;
        let path = |key: &str| PathBuf::from(text(&told[key]));
        let objects = told["objects"].as_array().into_iter().flatten();
        Ok(Python {
            program: path("program"),
            library: path("library"),
            version: text(&told["version"]),
            packages: path("packages"),
            objects: objects.map(|object| PathBuf::from(text(object))).collect(),
        })
    }

    fn script(&self) -> Vec<String> {
        vec!["/home/bin/python3".into(), "/seen.py".into()]
    }
}
