//! The programs of a real cluster, from package registries only, kept in a cache outside the work tree: Kubernetes and a newer
//! containerd are built once from the Go module registry, the rest is unpacked from Debian packages and never installed.

mod built;
mod debian;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::deploy::helm;
pub(super) use crate::shell::sha256;
pub(crate) use debian::mirror;

/// Where the programs lie.
#[derive(Clone)]
pub(super) struct Programs {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubelet.
    pub(super) kubernetes: PathBuf,
    /// A root directory with containerd, etcd, the network plugins, runc and busybox below `usr`.
    pub(super) debian: PathBuf,
    /// A newer containerd, with its shim and ctr.
    pub(super) containerd: PathBuf,
    /// The program itself.
    pub(super) helm: PathBuf,
}

impl Programs {
    /// Builds or fetches what the cache lacks.
    pub(super) fn prepare() -> Result<Programs> {
        let cache = cache()?;
        Ok(Programs {
            debian: debian::prepare(&cache)?,
            kubernetes: built::prepare(&cache, &built::KUBERNETES)?,
            containerd: built::prepare(&cache, &built::CONTAINERD)?,
            helm: helm::prepare()?,
        })
    }

    /// One of the Kubernetes programs.
    pub(super) fn kube(&self, name: &str) -> Command {
        Command::new(self.kubernetes.join(name))
    }

    /// A program of the Debian packages, by its path below `usr`.
    pub(super) fn usr(&self, path: &str) -> PathBuf {
        self.debian.join("usr").join(path)
    }
}

/// `$MIRAGE_CACHE`, else `mirage` in the user's cache directory.
pub(crate) fn cache() -> Result<PathBuf> {
    let path = match std::env::var_os("MIRAGE_CACHE") {
        Some(path) => PathBuf::from(path),
        None => {
            let user = std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
            user.context("no home directory; set MIRAGE_CACHE to a directory for programs")?
                .join("mirage")
        }
    };
    fs::create_dir_all(&path).with_context(|| format!("making the cache {}", path.display()))?;
    fs::canonicalize(&path).with_context(|| format!("resolving the cache {}", path.display()))
}

/// Fills a directory of the cache: made aside, then renamed, so that a directory with its final name is whole.
pub(crate) fn once(directory: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if directory.exists() {
        return Ok(());
    }
    let aside = directory.with_extension(format!("part-{}", std::process::id()));
    let _ = fs::remove_dir_all(&aside);
    fs::create_dir_all(&aside).with_context(|| format!("making {}", aside.display()))?;
    let filled = fill(&aside).and_then(|()| match fs::rename(&aside, directory) {
        // Someone else was faster; theirs is as good.
        Err(_) if directory.exists() => Ok(()),
        renamed => renamed.with_context(|| format!("moving to {}", directory.display())),
    });
    let _ = fs::remove_dir_all(&aside);
    filled
}
