//! The CDI specification: what a container runtime adds to a container that asks for a GPU.
//!
//! Devices are named by index, by UUID, and `all`; MIG devices by `<gpu>:<index>` and UUID. Nodes are fully described, so the runtime makes them
//! itself and the host needs none. Libraries are mounted where the loaders of both families of distributions look, under the name programs ask
//! for, so neither a hook nor `LD_LIBRARY_PATH` is needed; the state's directory is mounted whole, so that replacing the file in it shows.
//! Each device also mounts a mark under its own UUID: what a container sees is the sum of what it asked for, whichever names it used.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use mirage_state::Image;
use mirage_state::layout::{Instance, text};
use mirage_state::visible::VIEW;

use super::devices::{self, Node};
use super::edits::{MOUNT_OPTIONS, Mount, Places};
use super::host::Majors;
use crate::cli::usage;

/// The lowest version that carries device names beginning with a digit, and host paths of nodes.
pub(super) const VERSION: &str = "0.5.0";
/// The file in the root that serves as every device's mark, and what is in it: an empty one would say nothing.
pub(super) const MARK: &str = "usr/share/mirage/visible";
pub(super) const MARKED: &str =
    "The file named like this one's mount is a device that this container sees.\n";

/// The class of the memory exchange's channels.
pub(crate) const CHANNEL_CLASS: &str = "imex-channel";

/// How device nodes reach a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The host has real nodes.
    HostNodes,
    /// The host could make none: the runtime makes them.
    RuntimeNodes,
}

/// All that goes into a specification.
#[derive(Debug)]
pub(super) struct Spec<'a> {
    pub(super) kind: &'a str,
    pub(super) root: &'a Path,
    pub(super) dev: &'a Path,
    pub(super) state: &'a Path,
    pub(super) delivery: Delivery,
    pub(super) majors: Majors,
    pub(super) image: &'a Image,
}

impl Spec<'_> {
    /// The file.
    pub(super) fn text(&self) -> Result<String> {
        let mut out = head(self.kind)?;
        let mut names: HashSet<String> = HashSet::new();
        let mut all: Vec<Node> = Vec::new();
        for (index, card) in (0..).zip(self.image.cards.iter()) {
            let node = devices::gpu(card.minor);
            let uuid = text(&card.uuid);
            let mut whole = vec![node.clone()];
            for instance in self.image.instances.iter().filter(|i| i.gpu == index) {
                for node in devices::capabilities(self.image, self.majors, instance) {
                    if !whole.contains(&node) {
                        whole.push(node);
                    }
                }
            }
            for name in [format!("{index}").as_str(), uuid] {
                self.device(&mut out, &mut names, name, &whole, uuid);
            }
            for instance in self.parts_of(index) {
                let uuid = text(&instance.uuid);
                let mut nodes = vec![node.clone()];
                nodes.extend(devices::capabilities(self.image, self.majors, instance));
                for name in [format!("{index}:{}", instance.index).as_str(), uuid] {
                    self.device(&mut out, &mut names, name, &nodes, uuid);
                }
            }
            all.extend(whole);
        }
        self.device(&mut out, &mut names, "all", &all, "all");
        out.push_str("containerEdits:\n");
        self.env(&mut out, 2, &["NVIDIA_VISIBLE_DEVICES=void"]);
        self.nodes(&mut out, 2, &devices::control(self.majors));
        self.mounts(&mut out);
        Ok(out)
    }

    /// The file for the channels of the memory exchange, which are a class of their own.
    pub(super) fn channels(&self, count: u32) -> Result<String> {
        let vendor = self.kind.split('/').next().unwrap_or_default();
        let mut out = head(&format!("{vendor}/{CHANNEL_CLASS}"))?;
        for channel in 0..count {
            let name = quoted(&channel.to_string());
            let _ = writeln!(out, "  - name: {name}\n    containerEdits:");
            self.nodes(&mut out, 6, &[devices::channel(self.majors, channel)]);
        }
        Ok(out)
    }

    fn parts_of(&self, gpu: u32) -> impl Iterator<Item = &Instance> {
        let all = self.image.instances.iter();
        all.filter(move |instance| instance.gpu == gpu && instance.ci != u32::MAX)
    }

    /// One device; a name that no specification may hold, or that is there already, is left out.
    fn device(
        &self,
        out: &mut String,
        names: &mut HashSet<String>,
        name: &str,
        nodes: &[Node],
        mark: &str,
    ) {
        if !is_device_name(name) || !is_device_name(mark) || !names.insert(name.to_owned()) {
            return;
        }
        let _ = writeln!(out, "  - name: {}\n    containerEdits:", quoted(name));
        self.nodes(out, 6, nodes);
        let _ = writeln!(out, "{:6}mounts:", "");
        let host = self.root.join(MARK).display().to_string();
        mount(out, 6, &host, &format!("{VIEW}/{mark}"));
    }

    fn env(&self, out: &mut String, indent: usize, values: &[&str]) {
        let _ = writeln!(out, "{:indent$}env:", "");
        for value in values {
            let _ = writeln!(out, "{:indent$}  - {}", "", quoted(value));
        }
    }

    fn nodes(&self, out: &mut String, indent: usize, nodes: &[Node]) {
        let _ = writeln!(out, "{:indent$}deviceNodes:", "");
        for node in nodes {
            let path = format!("/dev/{}", node.name);
            let _ = writeln!(out, "{:indent$}  - path: {}", "", quoted(&path));
            let host = self.dev.join(&node.name);
            if self.delivery == Delivery::HostNodes && host != Path::new(&path) {
                let host = host.display().to_string();
                let _ = writeln!(out, "{:indent$}    hostPath: {}", "", quoted(&host));
            }
            let _ = writeln!(
                out,
                "{0:indent$}    type: \"c\"\n{0:indent$}    major: {1}\n{0:indent$}    minor: {2}\n\
                 {0:indent$}    fileMode: 438\n{0:indent$}    permissions: \"rw\"",
                "", node.major, node.minor
            );
        }
    }

    fn mounts(&self, out: &mut String) {
        let places = Places::of_root(self.root, None, self.state, Path::new("/"));
        out.push_str("  mounts:\n");
        for Mount { host, container } in places.mounts() {
            mount(out, 2, &host, &container);
        }
    }
}

/// How a specification begins.
fn head(kind: &str) -> Result<String> {
    check_kind(kind)?;
    let (version, kind) = (quoted(VERSION), quoted(kind));
    Ok(format!(
        "---\ncdiVersion: {version}\nkind: {kind}\ndevices:\n"
    ))
}

/// One entry of a list of mounts.
fn mount(out: &mut String, indent: usize, host: &str, container: &str) {
    let _ = writeln!(
        out,
        "{0:indent$}  - hostPath: {1}\n{0:indent$}    containerPath: {2}\n{0:indent$}    options:",
        "",
        quoted(host),
        quoted(container)
    );
    for option in MOUNT_OPTIONS {
        let _ = writeln!(out, "{:indent$}      - {}", "", quoted(option));
    }
}

/// A text in double quotes, safe for whatever a path may hold.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Names a specification may give a device: letters, digits and `_-.:`, a letter or digit at both ends.
fn is_device_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    name.starts_with(ends) && name.ends_with(ends) && name.chars().all(inside)
}

/// Refuses a kind that is no `vendor/class`. A class with a dot would need a later version.
fn check_kind(kind: &str) -> Result<()> {
    let part = |text: &str, inner: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || inner.contains(c))
    };
    let good = kind
        .split_once('/')
        .is_some_and(|(vendor, class)| part(vendor, "_-.") && part(class, "_-"));
    if good {
        return Ok(());
    }
    Err(usage(format!(
        "--cdi-kind {kind}: write vendor/class, as in nvidia.com/gpu"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_names_follow_the_specification() {
        for good in ["nvidia.com/gpu", "mirage.dev/gpu_x", "a/b"] {
            check_kind(good).unwrap();
        }
        for bad in [
            "",
            "gpu",
            "/gpu",
            "nvidia.com/",
            "1a/gpu",
            "a/b.c",
            "a/b/c",
            "a b/c",
        ] {
            assert!(check_kind(bad).is_err(), "{bad}");
        }
        for good in ["0", "0:1", "all", "GPU-0a-b"] {
            assert!(is_device_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "a/b", "é"] {
            assert!(!is_device_name(bad), "{bad}");
        }
    }

    #[test]
    fn whatever_a_path_holds_stays_a_text() {
        assert_eq!(quoted("/a \"b\"\n: #"), r##""/a \"b\"\n: #""##);
    }
}
