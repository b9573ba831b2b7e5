//! `cargo xtask image`: mirage as an OCI image, made without a container engine. The archive is what `ctr images import`, `skopeo`,
//! `podman load` and `crane` read; the same programs give the same digest.
//!
//! The program is linked statically where the toolchain can, so that it also runs as `nvidia-smi` in images of any distribution; one
//! that is not brings the libraries and the loader it names. The NVML and CUDA libraries are for other people's processes and stay
//! what those are: linked against glibc. See docs/decisions/0006-image.md.

pub(crate) mod oci;
mod program;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::shell::target;
pub(crate) use oci::{Image, Layer};
pub(crate) use program::libraries;

/// The image's name, as the chart has it.
pub(crate) const NAME: &str = "mirage.local/mirage";
/// The version, as the chart has it.
pub(crate) const TAG: &str = env!("CARGO_PKG_VERSION");
/// Who the controller is in a container: nobody of the host's.
const USER: u32 = 65532;
/// Names that the program answers to.
const NAMES: &[&str] = &[
    "dcgm-exporter",
    "fakedev-exporter",
    "fakedev-workload",
    "gpu-mockctl",
];
/// Those of them that manifests written for other images run at the root.
const AT_ROOT: &[&str] = &["fakedev-exporter", "fakedev-workload"];
/// Libraries, by the names they are asked for, and those they are built under.
const LIBRARIES: &[(&str, &str)] = &[
    ("libnvidia-ml.so.1", "libnvidia_ml.so"),
    ("libcuda.so.1", "libcuda.so"),
];
/// The small nvidia-smi, which containers are given.
const SMI: &str = "mirage-smi";
/// Where they may lie from the program.
const PLACES: &[&str] = &[".", "../lib", "../nvml", "../../nvml", "deps"];

/// What to make.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the archive goes [default: image.tar in cargo's target directory]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Use this mirage, with its libraries beside it, instead of building one
    #[arg(long, value_name = "PATH")]
    mirage: Option<PathBuf>,
    /// The image's name
    #[arg(long, value_name = "NAME:TAG")]
    name: Option<String>,
}

/// Makes the archive, and says how large it is and what its digest is.
pub(crate) fn run(args: &Args) -> Result<()> {
    let program = match &args.mirage {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("finding the program {}", path.display()))?,
        None => program::build()?,
    };
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| target().join("image.tar"));
    let scratch = target().join(format!("image-{}", std::process::id()));
    let name = args.name.clone().unwrap_or_else(|| format!("{NAME}:{TAG}"));
    let made = make(&program, &scratch, &name, Layer::Compressed).and_then(|image| {
        fs::copy(&image.archive, &out).with_context(|| format!("writing {}", out.display()))?;
        Ok(image)
    });
    let _ = fs::remove_dir_all(&scratch);
    let image = made?;
    println!(
        "{}\n  image    {name}\n  digest   {}\n  size     {:.1} MB, {:.1} MB unpacked\n  program  {}",
        out.display(),
        image.digest,
        megabytes(image.packed),
        megabytes(image.unpacked),
        if libraries(&program)?.is_empty() {
            "static"
        } else {
            "dynamic, with its libraries"
        },
    );
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Makes the image of a program in a directory of its own.
pub(crate) fn make(program: &Path, scratch: &Path, name: &str, layer: Layer) -> Result<Image> {
    let root = scratch.join("root");
    fill(program, &root)?;
    let config = json!({
        "Env": ["PATH=/usr/bin"],
        "Entrypoint": ["/usr/bin/mirage"],
        "Labels": {
            "org.opencontainers.image.title": "mirage",
            "org.opencontainers.image.version": TAG,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    });
    oci::pack(&root, scratch, name, &config, layer)
}

/// The image's files.
fn fill(program: &Path, root: &Path) -> Result<()> {
    for directory in ["etc", "run", "tmp", "usr/bin", "usr/lib", "var/lib"] {
        fs::create_dir_all(root.join(directory)).context("making the image's directories")?;
    }
    put(program, &root.join("usr/bin/mirage"))?;
    for name in NAMES {
        symlink("mirage", root.join("usr/bin").join(name)).context("linking the program")?;
    }
    for name in AT_ROOT {
        symlink("usr/bin/mirage", root.join(name)).context("linking the program at the root")?;
    }
    for (name, built) in LIBRARIES {
        let Some(from) = beside(program, &[name, built]) else {
            bail!(
                "{name} does not lie beside {}; build it with `cargo build -p mirage-nvml -p mirage-cuda -p mirage-smi`",
                program.display()
            );
        };
        put(&from, &root.join("usr/lib").join(name))?;
    }
    // The program answers to that name too, where the small one was not built.
    let smi = beside(program, &[SMI]);
    if let Some(smi) = &smi {
        put(smi, &root.join("usr/bin").join(SMI))?;
    }
    let answers = smi.as_ref().map_or("mirage", |_| SMI);
    symlink(answers, root.join("usr/bin/nvidia-smi")).context("linking nvidia-smi")?;
    for library in libraries(program)? {
        let to = root.join(library.strip_prefix("/").unwrap_or(&library));
        fs::create_dir_all(to.parent().context("a library at the root")?)?;
        put(&library, &to)?;
    }
    let users = format!("root:x:0:0::/:\nmirage:x:{USER}:{USER}::/:\n");
    fs::write(root.join("etc/passwd"), users).context("writing the image's users")?;
    let groups = format!("root:x:0:\nmirage:x:{USER}:\n");
    fs::write(root.join("etc/group"), groups).context("writing the image's groups")
}

fn put(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

/// What was built with the program, under one of these names.
fn beside(program: &Path, names: &[&str]) -> Option<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new("."));
    let places = PLACES.iter().map(|place| beside.join(place));
    places
        .flat_map(|place| names.iter().map(move |name| place.join(name)))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mirage-image-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// A program that needs no library: any file that `ldd` knows nothing of.
    fn program(directory: &Path) -> PathBuf {
        let program = directory.join("mirage");
        fs::write(&program, "#!/bin/sh\n").expect("a program");
        fs::write(directory.join("libnvidia_ml.so"), "nvml").expect("a library");
        program
    }

    #[test]
    fn the_same_program_gives_the_same_image() {
        let directory = scratch("same");
        let program = program(&directory);
        fs::write(directory.join("libcuda.so"), "cuda").expect("a library");
        let first =
            make(&program, &directory.join("a"), "x:1", Layer::Compressed).expect("an image");
        let second =
            make(&program, &directory.join("b"), "x:1", Layer::Compressed).expect("an image");
        assert_eq!(first.digest, second.digest);
        assert_eq!(
            fs::read(&first.archive).expect("an archive"),
            fs::read(&second.archive).expect("an archive")
        );
        fs::write(&program, "#!/bin/sh\nexit\n").expect("another program");
        let third =
            make(&program, &directory.join("c"), "x:1", Layer::Compressed).expect("an image");
        assert_ne!(first.digest, third.digest);
        fs::remove_dir_all(&directory).expect("removing it");
    }

    #[test]
    fn the_program_is_found_under_all_its_names() {
        let directory = scratch("names");
        let program = program(&directory);
        fs::write(directory.join("libcuda.so"), "cuda").expect("a library");
        let made = directory.join("a");
        make(&program, &made, "x:1", Layer::Plain).expect("an image");
        for name in NAMES {
            let link = fs::read_link(made.join("root/usr/bin").join(name)).expect("a link");
            assert_eq!(link, Path::new("mirage"));
        }
        for name in AT_ROOT {
            let at_root = fs::canonicalize(made.join("root").join(name)).expect("a link");
            let program = made.join("root/usr/bin/mirage");
            assert_eq!(at_root, program.canonicalize().expect("the program"));
        }
        fs::remove_dir_all(&directory).expect("removing it");
    }

    #[test]
    fn a_missing_library_tells_how_to_build_it() {
        let directory = scratch("missing");
        let program = program(&directory);
        let error = make(&program, &directory.join("a"), "x:1", Layer::Compressed).err();
        let error = error.expect("an error").to_string();
        assert!(
            error.contains("libcuda.so.1") && error.contains("cargo build"),
            "{error}"
        );
        fs::remove_dir_all(&directory).expect("removing it");
    }
}
