//! Where the NVML library lies that clients are to load, and under the name they look for.

use std::path::{Path, PathBuf};

use crate::statedir::StateDir;

/// The name clients ask the loader for.
const SONAME: &str = "libnvidia-ml.so.1";
/// The name some ask for first.
const UNVERSIONED: &str = "libnvidia-ml.so";
/// Both.
pub const NAMES: [&str; 2] = [SONAME, UNVERSIONED];
/// Where a directory with the links goes in a state directory.
const LINKS: &str = "lib";
/// Where the library may lie from the executable's directory: installed, then as cargo builds it.
const PLACES: &[&str] = &[
    "libnvidia-ml.so.1",
    "../lib/libnvidia-ml.so.1",
    "../lib/mirage/libnvidia-ml.so.1",
    "../nvml/libnvidia_ml.so",
    "libnvidia_ml.so",
    "deps/libnvidia_ml.so",
];

/// A directory for `LD_LIBRARY_PATH`, with the library under the name clients look for. `None`
/// when there is no library, or nowhere to link it.
pub fn directory(state: &mut StateDir) -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let library = find(executable.parent()?)?;
    if library.file_name()? == SONAME {
        return library.parent().map(Path::to_path_buf);
    }
    let links = state.directory(LINKS).ok()?;
    for name in NAMES {
        state.link(Path::new(LINKS).join(name), &library).ok()?;
    }
    Some(links)
}

/// What [`directory`] makes in a state directory.
pub fn links(state: &Path) -> [PathBuf; 3] {
    let links = state.join(LINKS);
    let link = |name| links.join(name);
    [links.clone(), link(SONAME), link(UNVERSIONED)]
}

fn find(beside: &Path) -> Option<PathBuf> {
    let places = PLACES.iter().map(|place| beside.join(place));
    places
        .filter(|path| path.is_file())
        .find_map(|path| path.canonicalize().ok().map(|real| named(&path, real)))
}

/// The path without its detours, unless resolving a link would lose the name clients look for.
fn named(path: &Path, real: PathBuf) -> PathBuf {
    if real.file_name() == path.file_name() {
        return real;
    }
    let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
    match (directory, path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => real,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_library_is_preferred_and_keeps_its_name() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().canonicalize().unwrap().join("bin");
        let lib = root.path().canonicalize().unwrap().join("lib");
        std::fs::create_dir_all(bin.join("deps")).unwrap();
        std::fs::create_dir(&lib).unwrap();
        assert_eq!(find(&bin), None);
        std::fs::write(bin.join("deps/libnvidia_ml.so"), "").unwrap();
        assert_eq!(find(&bin), Some(bin.join("deps/libnvidia_ml.so")));
        std::fs::write(lib.join("libnvidia-ml.so.550.163.01"), "").unwrap();
        std::os::unix::fs::symlink("libnvidia-ml.so.550.163.01", lib.join(SONAME)).unwrap();
        assert_eq!(find(&bin), Some(lib.join(SONAME)));
    }
}
