//! What the NVML library costs: in a process that reads, beside another library, and for processes that wait for an event.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Figures, read};
use crate::clients::node::Node;
use crate::shell::{self, cargo, root, target};

/// Processes in which a library is measured.
const PROCESSES: usize = 5;
/// Processes that wait for an event, and how often one comes.
const WAITERS: usize = 3;
const EVENTS: usize = 5;

/// Builds libnvidia-ml.so as it is shipped.
pub(crate) fn build() -> Result<PathBuf> {
    let build = [
        "build",
        "--locked",
        "-p",
        "mirage-nvml",
        "--profile",
        "nvml",
    ];
    shell::run(cargo().args(build))?;
    Ok(target().join("nvml/libnvidia_ml.so"))
}

/// The library a user names.
pub(super) fn given(path: &Path) -> Result<PathBuf> {
    if !path.is_file() {
        bail!(
            "--against {}: no such file; give the path of a libnvidia-ml.so",
            path.display()
        );
    }
    path.canonicalize()
        .with_context(|| format!("--against {}", path.display()))
}

/// The best of several processes: the first reads the library from the disk, and neighbours come and go.
pub(super) fn measure(library: &Path, figures: &mut Figures) -> Result<()> {
    measure_in(PROCESSES, library, figures)
}

fn measure_in(processes: usize, library: &Path, figures: &mut Figures) -> Result<()> {
    let looking = || format!("looking at {}", library.display());
    let size = std::fs::metadata(library).with_context(looking)?.len();
    figures.insert("nvml-size".to_owned(), size as f64 / 1000.0);
    let library = library.canonicalize().with_context(looking)?;
    let bench = bench()?;
    for _ in 0..processes {
        let mut once = Figures::new();
        read(
            &shell::output(Command::new(&bench).arg(&library))?,
            &mut once,
        )?;
        for (key, value) in once {
            let best = figures.entry(key).or_insert(value);
            *best = best.min(value);
        }
    }
    Ok(())
}

/// The program that loads a library and measures it.
fn bench() -> Result<PathBuf> {
    let build = [
        "build",
        "--locked",
        "--quiet",
        "--release",
        "-p",
        "mirage-nvml-bench",
    ];
    shell::run(cargo().args(build))?;
    Ok(target().join("release/mirage-nvml-bench"))
}

/// Ours and another library side by side.
pub(super) fn compare(ours: &Figures, other: &Path) -> Result<String> {
    compare_in(PROCESSES, ours, other)
}

fn compare_in(processes: usize, ours: &Figures, other: &Path) -> Result<String> {
    let mut theirs = Figures::new();
    measure_in(processes, other, &mut theirs)
        .with_context(|| format!("measuring {}", other.display()))?;
    side_by_side(ours, &theirs, &other.display().to_string())
}

fn side_by_side(ours: &Figures, theirs: &Figures, name: &str) -> Result<String> {
    let mut table = format!("| Figure | Ours | {name} | Times ours |\n|---|---|---|---|\n");
    for (key, their) in theirs {
        let our = ours
            .get(key)
            .with_context(|| format!("{key} was not measured for our library"))?;
        let times = their / our;
        writeln!(table, "| {key} | {our:.1} | {their:.1} | {times:.2} |")?;
    }
    Ok(table)
}

/// Exercises the comparison with a library that is not where ours is, and is as good.
pub(super) fn compare_with_a_copy(library: &Path, figures: &Figures) -> Result<()> {
    let copy = target().join("libanother-nvml.so");
    std::fs::copy(library, &copy).context("copying the library")?;
    let compared = given(&copy).and_then(|copy| compare_in(1, figures, &copy));
    let _ = std::fs::remove_file(&copy);
    println!("{}", compared?);
    Ok(())
}

/// How long an injected Xid takes to the last of several waiting processes; the best of several events. The time that
/// `mirage ctl` needs to start is part of it.
pub(super) fn wakes(library: &Path, figures: &mut Figures) -> Result<()> {
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    let library = library.canonicalize().context("looking for the library")?;
    let clients = root().join("xtask/clients");
    let node = Node::start(
        &target().join("release/mirage"),
        &clients.join("nodes/live.yaml"),
        &clients.join("fields.csv"),
        &target().join("bench-wakes"),
    )?;
    let bench = bench()?;
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        waiters.push(Waiter::start(&bench, &library, &node)?);
    }
    let mut best = f64::INFINITY;
    for _ in 0..EVENTS {
        let begin = Instant::now();
        node.control(&["fault", "inject", "xid=63", "--device", "0"])?;
        for waiter in &mut waiters {
            waiter.expect("woken")?;
        }
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    figures.insert("nvml-wake".to_owned(), best);
    Ok(())
}

/// A process that waits for events; ended when dropped.
struct Waiter {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Waiter {
    /// Starts it, and waits until it is registered for what will come.
    fn start(bench: &Path, library: &Path, node: &Node) -> Result<Waiter> {
        let mut child = Command::new(bench)
            .arg(library)
            .arg(EVENTS.to_string())
            .env("MIRAGE_STATE", node.directory().join(node.name()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a process that waits")?;
        let says = child.stdout.take().context("it has an output")?;
        let says = BufReader::new(says).lines();
        let mut waiter = Waiter { child, says };
        waiter.expect("waiting")?;
        Ok(waiter)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        match self.says.next().transpose()? {
            Some(line) if line == word => Ok(()),
            other => bail!("a waiting process said {other:?} instead of {word}"),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let wrong = given(Path::new("/nowhere/libnvidia-ml.so")).unwrap_err();
        let said = format!("{wrong:#}");
        assert!(
            said.contains("--against /nowhere/libnvidia-ml.so: no such file"),
            "{said}"
        );
        assert!(given(&root()).is_err(), "a directory is no library");
        assert!(
            given(&root().join("Cargo.toml")).is_ok(),
            "any file may be tried"
        );
    }

    #[test]
    fn two_libraries_stand_side_by_side() {
        let ours = Figures::from([
            ("nvml-power".to_owned(), 20.0),
            ("tick-80k".to_owned(), 1.0),
        ]);
        let theirs = Figures::from([("nvml-power".to_owned(), 340.0)]);
        let table = side_by_side(&ours, &theirs, "other.so").unwrap();
        assert!(
            table.ends_with("| nvml-power | 20.0 | 340.0 | 17.00 |\n"),
            "{table}"
        );
        assert!(!table.contains("tick"), "only what both have");
        assert!(side_by_side(&theirs, &ours, "other.so").is_err());
    }
}
