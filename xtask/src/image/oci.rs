//! An OCI image of one layer, as an archive. Times, owners, modes and the order of entries are fixed, so that the same files give the
//! same bytes.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder, bufread::GzEncoder};
use serde_json::{Value, json};

use crate::shell;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// An image that was made.
pub(crate) struct Image {
    /// The archive.
    pub(crate) archive: PathBuf,
    /// The digest of its manifest, by which registries and runtimes know it.
    pub(crate) digest: String,
    /// The layer's size.
    pub(crate) packed: u64,
    /// Its files' size.
    pub(crate) unpacked: u64,
}

/// How a layer is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// As it is: soonest made and unpacked, for a runtime on this machine.
    Plain,
    /// Compressed, for a registry.
    Compressed,
}

/// Packs the directory `root` into an archive in `scratch`; `config` is what runtimes are told.
pub(crate) fn pack(
    root: &Path,
    scratch: &Path,
    name: &str,
    config: &Value,
    layer: Layer,
) -> Result<Image> {
    let layout = scratch.join("layout");
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).context("making the image's blobs")?;
    let plain = scratch.join("layer.tar");
    tar(root, &plain)?;
    let unpacked = fs::read(&plain).context("reading the layer")?;
    let compressed;
    let (kind, packed) = match layer {
        Layer::Plain => ("tar", &unpacked),
        Layer::Compressed => {
            compressed = compress(&unpacked)?;
            ("tar+gzip", &compressed)
        }
    };
    let store = |bytes: &[u8]| -> Result<(String, usize)> {
        let digest = shell::sha256(bytes)?;
        fs::write(blobs.join(&digest), bytes).context("writing a blob")?;
        Ok((format!("sha256:{digest}"), bytes.len()))
    };
    let (layer, layer_size) = store(packed)?;
    let content = format!("sha256:{}", shell::sha256(&unpacked)?);
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let platform = json!({"architecture": architecture, "os": "linux"});
    let about = json!({
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [content]},
    });
    let (about, about_size) = store(about.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": about, "size": about_size},
        "layers": [{"mediaType": format!("application/vnd.oci.image.layer.v1.{kind}"), "digest": layer, "size": layer_size}],
    });
    let (digest, size) = store(manifest.to_string().as_bytes())?;
    let tag = tag(name);
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform,
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag},
        }],
    });
    fs::write(layout.join("index.json"), index.to_string()).context("writing the image's index")?;
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(layout.join("oci-layout"), version).context("writing the image's layout")?;
    let archive = scratch.join("image.tar");
    tar(&layout, &archive)?;
    Ok(Image {
        archive,
        digest,
        packed: layer_size as u64,
        unpacked: unpacked.len() as u64,
    })
}

/// The tag in an image's name. Before the last slash a colon is a registry's port.
fn tag(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once(':').map_or("latest", |(_, tag)| tag)
}

fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let mut encoder: GzEncoder<&[u8]> = GzBuilder::new()
        .mtime(0)
        .buf_read(bytes, Compression::default());
    encoder
        .read_to_end(&mut compressed)
        .context("compressing the layer")?;
    Ok(compressed)
}

fn tar(from: &Path, to: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--format=ustar"]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    // Whatever the umask was, and executable what a container may have to load or run.
    tar.args(["--mode=u=rwX,go=rX", "-cf"]);
    shell::run(tar.arg(to).arg("-C").arg(from).arg("."))
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(tag("mirage.local/mirage:0.1.0"), "0.1.0");
        assert_eq!(tag("localhost:5000/mirage:7"), "7");
        assert_eq!(tag("localhost:5000/mirage"), "latest");
        assert_eq!(tag("mirage"), "latest");
    }
}
