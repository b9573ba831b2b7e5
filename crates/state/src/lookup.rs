//! Which state file a client opens.
//!
//! First hit wins: `MIRAGE_STATE` (a file, or a directory that holds one), `/run/mirage/state`, the only
//! `/run/mirage/<node>/state`, else the node built into the program, unless `MIRAGE_NO_DEFAULT` forbids it.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use crate::file::STATE;

/// Where mirage keeps its nodes.
pub const RUN: &str = "/run/mirage";

/// What to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This file; it may still be missing if `MIRAGE_STATE` names it.
    File(PathBuf),
    /// One of these, by node name: nobody said which, and to guess would show another node's GPUs.
    Several(Vec<PathBuf>),
    /// The node built into the program.
    BuiltIn,
    /// Nothing: as if no driver were loaded.
    Nothing,
}

/// Finds the state for this process.
pub fn find() -> Source {
    find_in(|name| std::env::var_os(name), Path::new(RUN))
}

/// Finds the state, given the environment and the directory of the nodes.
pub fn find_in(env: impl Fn(&str) -> Option<OsString>, run: &Path) -> Source {
    let set = |name| env(name).filter(|value| !value.is_empty());
    if let Some(named) = set("MIRAGE_STATE") {
        let named = PathBuf::from(named);
        return Source::File(if named.is_dir() {
            named.join(STATE)
        } else {
            named
        });
    }
    let own = run.join(STATE);
    if own.is_file() {
        return Source::File(own);
    }
    let mut nodes = nodes_in(run);
    match nodes.len() {
        0 => {}
        1 => return Source::File(nodes.remove(0)),
        _ => return Source::Several(nodes),
    }
    if set("MIRAGE_NO_DEFAULT").is_some_and(|value| value != "0") {
        Source::Nothing
    } else {
        Source::BuiltIn
    }
}

/// Of several nodes, this process's own: named by `NODE_NAME`, or like the machine.
pub fn own(paths: Vec<PathBuf>) -> Option<PathBuf> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let names = [std::env::var("NODE_NAME").ok(), host];
    own_of(paths, names.iter().flatten().map(|name| name.trim()))
}

fn own_of<'a>(paths: Vec<PathBuf>, names: impl Iterator<Item = &'a str>) -> Option<PathBuf> {
    let names: Vec<&OsStr> = names.map(OsStr::new).collect();
    let node = |path: &PathBuf| path.parent()?.file_name().map(OsStr::to_owned);
    paths
        .into_iter()
        .find(|path| node(path).is_some_and(|node| names.contains(&node.as_os_str())))
}

/// State files of the nodes in a directory, by name.
pub fn nodes_in(run: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(run)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join(STATE))
        .filter(|state| state.is_file())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn look(run: &Path, env: &[(&str, &Path)]) -> Source {
        let env: HashMap<&str, OsString> = env
            .iter()
            .map(|(name, value)| (*name, value.as_os_str().to_owned()))
            .collect();
        find_in(|name| env.get(name).cloned(), run)
    }

    fn node(run: &Path, name: &str) -> PathBuf {
        let dir = run.join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(STATE), "").unwrap();
        dir.join(STATE)
    }

    #[test]
    fn nothing_there_means_the_built_in_node() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path().join("mirage");
        let no = |value: &'static str| look(&run, &[("MIRAGE_NO_DEFAULT", Path::new(value))]);
        assert_eq!(look(&run, &[]), Source::BuiltIn);
        assert_eq!(no("1"), Source::Nothing);
        assert_eq!(no("0"), Source::BuiltIn);
        assert_eq!(no(""), Source::BuiltIn);
    }

    #[test]
    fn several_nodes_are_told_apart_by_name() {
        let paths = || vec![PathBuf::from("/run/a/state"), PathBuf::from("/run/b/state")];
        let own = |names: &[&'static str]| own_of(paths(), names.iter().copied());
        assert_eq!(own(&["b"]), Some("/run/b/state".into()));
        assert_eq!(own(&["x", "a"]), Some("/run/a/state".into()));
        assert_eq!(own(&["x"]), None);
        assert_eq!(own(&[]), None);
    }

    #[test]
    fn the_nearest_state_wins() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        // Neither a stray file nor a directory without state is a node.
        fs::write(run.join("lock"), "").unwrap();
        fs::create_dir(run.join("empty")).unwrap();
        let a = node(run, "a");
        assert_eq!(look(run, &[]), Source::File(a.clone()));
        let b = node(run, "b");
        assert_eq!(
            look(run, &[("MIRAGE_NO_DEFAULT", Path::new("1"))]),
            Source::Several(vec![a, b.clone()])
        );
        let own = node(run, ".");
        assert_eq!(look(run, &[]), Source::File(run.join(STATE)));
        assert!(own.is_file());
        let dir = b.parent().unwrap();
        for named in [dir, &b] {
            assert_eq!(
                look(run, &[("MIRAGE_STATE", named)]),
                Source::File(b.clone())
            );
        }
        let missing = run.join("missing");
        assert_eq!(
            look(run, &[("MIRAGE_STATE", &missing)]),
            Source::File(missing)
        );
    }
}
