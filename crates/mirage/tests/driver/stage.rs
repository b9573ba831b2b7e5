//! A place to try the command in, and what it answers.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with an empty machine, small stand-ins for programs and libraries, and room for a root.
pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        for sub in ["host", "libraries", "new"] {
            fs::create_dir(dir.path().join(sub)).unwrap();
        }
        for name in ["libnvidia_ml.so", "libcuda.so"] {
            fs::write(
                dir.path().join("libraries").join(name),
                format!("this is {name}"),
            )
            .unwrap();
        }
        fs::write(dir.path().join("smi"), "#!/bin/sh\necho smi\n").unwrap();
        Stage { dir }
    }

    pub(crate) fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(below)
    }

    /// A path in the driver root.
    pub(crate) fn root(&self, below: &str) -> PathBuf {
        match below {
            "" => self.path("new/driver"),
            below => self.path("new/driver").join(below),
        }
    }

    /// The command, not yet with a verb.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirage"));
        command.arg0("gpu-mockctl");
        let options = [
            ("--root", "new/driver"),
            ("--host", "host"),
            ("--library-dir", "libraries"),
            ("--smi", "smi"),
        ];
        for (option, value) in options {
            command.arg(option).arg(self.path(value));
        }
        command
    }

    /// Runs it.
    pub(crate) fn run(&self, words: &[&str]) -> Answer {
        Answer::of(self.command().args(words).output().unwrap())
    }

    /// Runs it, and it must succeed.
    pub(crate) fn good(&self, words: &[&str]) -> Answer {
        let answer = self.run(words);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer
    }

    /// Everything below a directory: path, and what tells whether it was touched.
    pub(crate) fn below(&self, dir: &Path) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut open = vec![dir.to_path_buf()];
        while let Some(next) = open.pop() {
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                let there = fs::symlink_metadata(&path).unwrap();
                let kind = there.file_type();
                let what = if kind.is_symlink() {
                    format!("link {}", fs::read_link(&path).unwrap().display())
                } else if kind.is_dir() {
                    open.push(path.clone());
                    "directory".into()
                } else if kind.is_char_device() {
                    format!("node {}", there.rdev())
                } else {
                    format!("file {} {:?}", there.ino(), there.modified().unwrap())
                };
                found.push((path, what));
            }
        }
        found.sort();
        found
    }
}

/// What a run answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    fn of(output: Output) -> Answer {
        Answer {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The result as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}
