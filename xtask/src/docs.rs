//! `cargo xtask docs`: the commands shown in the documents are run, and what they print is compared with what the
//! documents show. Numbers, ids and the host's name are compared by their place only: they move.
//!
//! A ```` ```console ```` block holds lines `$ command` and, after each, what it prints. A command ending in ` &` runs until
//! the document ends.

mod shape;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell::{self, cargo, root, target};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs every document; compares, or writes what was printed.
pub(crate) fn run(write: bool) -> Result<()> {
    // What the documents show is asked with it.
    shell::ensure(&["curl"], "curl")?;
    shell::run(cargo().args(["build", "--locked", "--release", "-p", "mirage"]))?;
    crate::bench::build_library()?;
    let mut wrong = Vec::new();
    for path in documents()? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        if !text.contains("```console\n") {
            continue;
        }
        eprintln!("xtask docs: {}", path.display());
        let fresh = Session::new()?
            .replay(&text)
            .with_context(|| path.display().to_string())?;
        if write {
            if shape::of(&fresh) != shape::of(&text) {
                fs::write(&path, fresh).with_context(|| format!("writing {}", path.display()))?;
            }
        } else if let Some(difference) = shape::difference(&text, &fresh) {
            wrong.push(format!("{}: {difference}", path.display()));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "documents that show what no longer happens (cargo xtask docs --write):\n{}",
        wrong.join("\n")
    )
}

fn documents() -> Result<Vec<PathBuf>> {
    let mut found = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The commands of one document, in one scratch folder.
struct Session {
    scratch: PathBuf,
    background: Vec<Child>,
}

impl Session {
    fn new() -> Result<Session> {
        let scratch = target().join("docs-scratch");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).context("making a scratch folder")?;
        Ok(Session {
            scratch,
            background: Vec::new(),
        })
    }

    /// The document with the outputs that its commands print now.
    fn replay(mut self, text: &str) -> Result<String> {
        let mut fresh = String::new();
        let mut in_block = false;
        for line in text.lines() {
            if line == "```console" {
                in_block = true;
            } else if line == "```" && in_block {
                in_block = false;
            } else if in_block {
                let Some(command) = line.strip_prefix("$ ") else {
                    continue;
                };
                fresh.push_str(line);
                fresh.push('\n');
                let printed = self
                    .execute(command)
                    .with_context(|| format!("running `{command}`"))?;
                fresh.push_str(&shape::without_host(&printed));
                continue;
            }
            fresh.push_str(line);
            fresh.push('\n');
        }
        Ok(fresh)
    }

    fn execute(&mut self, command: &str) -> Result<String> {
        if let Some(command) = command.strip_suffix(" &") {
            return self.start(command);
        }
        let output = self.bash(command).output()?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8(text)?.trim_end().to_owned() + "\n")
            .map(|text| if text == "\n" { String::new() } else { text })
    }

    /// Starts a command that stays, and returns what it prints before it falls silent.
    fn start(&mut self, command: &str) -> Result<String> {
        let path = self
            .scratch
            .join(format!("output-{}", self.background.len()));
        let file = fs::File::create(&path)?;
        let mut child = self.bash(&format!("exec {command}")).stdout(file).spawn()?;
        let begin = Instant::now();
        let mut last = (String::new(), Instant::now());
        let text = loop {
            if let Some(status) = child.try_wait()? {
                bail!("it ended with {status}: {}", last.0);
            }
            let mut text = String::new();
            fs::File::open(&path)?.read_to_string(&mut text)?;
            if text != last.0 {
                last = (text, Instant::now());
            } else if !last.0.is_empty() && last.1.elapsed() > Duration::from_secs(1) {
                break last.0;
            }
            if begin.elapsed() > PATIENCE {
                bail!("it printed nothing within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        self.background.push(child);
        Ok(text.trim_end().to_owned() + "\n")
    }

    fn bash(&self, command: &str) -> Command {
        let programs = target().join("release");
        let path = format!(
            "{}:{}",
            programs.display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", command])
            .current_dir(root())
            .env("PATH", path)
            .stdin(Stdio::null());
        bash.env("SCRATCH", &self.scratch)
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100");
        bash
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for child in &mut self.background {
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
        remove(&self.scratch);
    }
}

fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
