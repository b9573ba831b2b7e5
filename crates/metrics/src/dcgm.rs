//! dcgm-exporter, byte for byte: its fields, labels, computed series and order.

pub(crate) mod computed;
pub(crate) mod entity;
pub(crate) mod fields;
pub(crate) mod labels;
pub(crate) mod plan;
pub(crate) mod xid;

/// What differs between the exporter's versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    /// Name of the identity.
    pub(crate) name: &'static str,
    /// What is special about it.
    pub(crate) about: &'static str,
    /// The first version it is true of.
    since: [u32; 3],
    /// Name of the host-name label.
    pub(crate) hostname: &'static str,
    /// Whether a pod's label that is called as one of the exporter's gets another name.
    pub(crate) renames_pod_labels: bool,
}

/// The versions that differ, oldest first.
pub(crate) const VERSIONS: &[Version] = &[
    Version {
        name: "dcgm@4.8.2",
        about: "dcgm-exporter up to release 4.5.3-4.8.2: host name under `Hostname`; `dcgm` means this",
        since: [0, 0, 0],
        hostname: "Hostname",
        renames_pod_labels: false,
    },
    Version {
        name: "dcgm@4.8.3",
        about: "dcgm-exporter after release 4.5.3-4.8.2: host name under `hostname`",
        since: [4, 8, 3],
        hostname: "hostname",
        renames_pod_labels: true,
    },
];

/// The version of a number: `4.8.2`, `4.5.3-4.8.2` (DCGM and exporter), an image's tag as `4.5.3-4.8.2-distroless`, or
/// `main`; without one, what the last release does. `4.9` is its first release, and `4.8.3+` means that one or any later.
pub(crate) fn version(text: Option<&str>) -> Option<Version> {
    let wanted = match text {
        None => [4, 8, 2],
        Some("main") => [u32::MAX; 3],
        Some(text) => {
            let is_number = |part: &&str| part.starts_with(|first: char| first.is_ascii_digit());
            if text.split('-').any(str::is_empty) {
                return None;
            }
            let exporter = text.split('-').take_while(is_number).last()?;
            let exporter = exporter.strip_suffix('+').unwrap_or(exporter);
            let mut parts = exporter.split('.').map(number);
            let numbers = [
                parts.next()??,
                parts.next()??,
                parts.next().unwrap_or(Some(0))?,
            ];
            if parts.next().is_some() {
                return None;
            }
            numbers
        }
    };
    VERSIONS.iter().rev().find(|v| v.since <= wanted).copied()
}

/// A part of a version; `parse` alone would take a sign, too.
fn number(part: &str) -> Option<u32> {
    part.parse().ok().filter(|_| !part.starts_with('+'))
}
