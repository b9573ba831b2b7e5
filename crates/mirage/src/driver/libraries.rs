//! The driver's libraries and programs: ours where they do something, and companions that exist for those who look for them.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::item::{List, Part, Place};
use super::object;
use super::options::Args;

/// Where libraries lie in the root; `lib64` leads there, as on current distributions.
pub(super) const DIRECTORY: &str = "usr/lib64";
/// Where programs lie.
pub(super) const PROGRAMS: &str = "usr/bin";
/// Names of our libraries, and of the files cargo makes of them.
const OURS: [(&str, &str); 2] = [
    ("libnvidia-ml.so", "libnvidia_ml.so"),
    ("libcuda.so", "libcuda.so"),
];
/// The small nvidia-smi, as cargo calls it.
const SMI: &str = "mirage-smi";
/// Where libraries and it may lie from this program's directory: installed, then as cargo builds them.
const PLACES: [&str; 6] = [
    ".",
    "../lib",
    "../lib/mirage",
    "../nvml",
    "../release",
    "deps",
];
/// Companions that the container toolkit mounts, all called `.so.1`.
const COMPANIONS: [&str; 10] = [
    "libnvidia-cfg",
    "libnvidia-opencl",
    "libnvidia-gpucomp",
    "libnvidia-ptxjitcompiler",
    "libnvidia-allocator",
    "libnvidia-nvvm",
    "libnvidia-encode",
    "libnvidia-opticalflow",
    "libnvidia-ngx",
    "libnvcuvid",
];

/// The driver's other programs, as far as what they do is done already: scripts, so that no build is copied thrice.
const HELPERS: &[(&str, &str)] = &[
    (
        "nvidia-modprobe",
        include_str!("scripts/nvidia-modprobe.sh"),
    ),
    (
        "nvidia-persistenced",
        include_str!("scripts/nvidia-persistenced.sh"),
    ),
    (
        "nvidia-debugdump",
        include_str!("scripts/nvidia-debugdump.sh"),
    ),
];
/// Firmware of the GPU's own processor, which the container toolkit mounts.
const FIRMWARE: [&str; 2] = ["gsp_ga10x.bin", "gsp_tu10x.bin"];

/// Puts libraries and programs on the list.
pub(super) fn list(list: &mut List, args: &Args, driver: &str) -> Result<()> {
    list.begin(Part::Driver, Place::Root);
    for (name, built) in OURS {
        let from = find(args.library_dir.as_deref(), name, built)?;
        list.copy(format!("{DIRECTORY}/{name}.{driver}"), from);
        links(list, name, driver);
    }
    for stem in COMPANIONS {
        let name = format!("{stem}.so");
        let object = object::empty(&format!("{name}.1"));
        list.file_with(format!("{DIRECTORY}/{name}.{driver}"), object, 0o755);
        links(list, &name, driver);
    }
    list.link("lib64", DIRECTORY);
    let smi = match &args.smi {
        Some(path) if path.is_file() => path.clone(),
        Some(path) => bail!("--smi {}: no such file", path.display()),
        None => smi(args.library_dir.as_deref())?,
    };
    list.copy(format!("{PROGRAMS}/nvidia-smi"), smi);
    for (name, text) in HELPERS {
        list.file_with(format!("{PROGRAMS}/{name}"), *text, 0o755);
    }
    list.link("bin", PROGRAMS);
    for name in FIRMWARE {
        list.file(
            format!("usr/lib/firmware/nvidia/{driver}/{name}"),
            "simulated by mirage: there is no processor to run this\n",
        );
    }
    Ok(())
}

fn links(list: &mut List, name: &str, driver: &str) {
    list.link(format!("{DIRECTORY}/{name}.1"), format!("{name}.{driver}"));
    list.link(format!("{DIRECTORY}/{name}"), format!("{name}.1"));
}

/// The program to install as `nvidia-smi`: the small one if it lies beside the libraries or this program, else this program, which answers to that
/// name too. Never a file called nvidia-smi, which might be somebody else's.
pub(super) fn smi(libraries: Option<&Path>) -> Result<PathBuf> {
    let given = libraries.map(Path::to_path_buf).into_iter();
    let mut programs = given.chain(places()?).map(|place| place.join(SMI));
    Ok(match programs.find(|path| path.is_file()) {
        Some(path) => path.canonicalize().unwrap_or(path),
        None => std::env::current_exe()?,
    })
}

/// Where what was built with this program may lie.
fn places() -> Result<Vec<PathBuf>> {
    let executable = std::env::current_exe()?;
    let beside = executable.parent().unwrap_or(Path::new("."));
    Ok(PLACES.iter().map(|place| beside.join(place)).collect())
}

/// Finds a library under the name it is installed or built by.
fn find(given: Option<&Path>, name: &str, built: &str) -> Result<PathBuf> {
    let directories = match given {
        Some(directory) => vec![directory.to_path_buf()],
        None => places()?,
    };
    for directory in &directories {
        for file in [format!("{name}.1").as_str(), name, built] {
            let path = directory.join(file);
            if path.is_file() {
                return Ok(path.canonicalize().unwrap_or(path));
            }
        }
    }
    let places: Vec<String> = directories
        .iter()
        .map(|d| d.display().to_string())
        .collect();
    bail!(
        "{name}.1 is in none of {}; build it with `cargo build --profile nvml -p mirage-nvml -p mirage-cuda -p mirage-smi`, or say where it is \
         with --library-dir",
        places.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_tells_how_to_build_it() {
        let empty = tempfile::tempdir().unwrap();
        let error = find(Some(empty.path()), "libcuda.so", "libcuda.so").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("cargo build") && error.contains("--library-dir"),
            "{error}"
        );
        std::fs::write(empty.path().join("libnvidia_ml.so"), "").unwrap();
        find(Some(empty.path()), "libnvidia-ml.so", "libnvidia_ml.so").unwrap();
    }
}
