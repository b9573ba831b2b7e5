//! Labels as text: what each group holds, in which order, under which names.

use std::borrow::Cow;

use mirage_state::Node;
use mirage_state::layout::{TextRef, text};

use super::{Holder, Style};
use crate::dcgm::fields::{Field, Kind, Source};
use crate::decimal::{Format, push_uint};
use crate::device::Device;
use crate::text::{push_escaped, push_model, push_pci};

/// Names of labels that a series may have by itself, in either namespace and version.
const OWN: [&str; 32] = [
    "gpu",
    "UUID",
    "uuid",
    "gpu_uuid",
    "pci_bus_id",
    "device",
    "modelName",
    "model_name",
    "nvlink",
    "nvswitch",
    "GPU_I_PROFILE",
    "GPU_I_ID",
    "Hostname",
    "hostname",
    "container",
    "container_name",
    "namespace",
    "pod",
    "pod_name",
    "pod_namespace",
    "pod_uid",
    "vgpu",
    "hpc_job",
    "err_code",
    "err_msg",
    "dra_claim_name",
    "dra_claim_namespace",
    "dra_device_name",
    "dra_driver_name",
    "dra_mig_device_uuid",
    "dra_mig_profile",
    "dra_pool_name",
];

/// Appends `,name="`.
pub(super) fn push_name(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
}

/// Appends a label, or nothing when its value is empty; says whether it did.
pub(super) fn push_label(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let mark = out.len();
    push_name(out, name);
    let empty = out.len();
    write(out);
    if out.len() == empty {
        out.truncate(mark);
        return false;
    }
    out.push(b'"');
    true
}

/// Appends the labels that say which device a series is of.
pub(super) fn push_fixed(out: &mut Vec<u8>, style: &Style, device: &Device<'_>, link: Option<u32>) {
    let options = &style.options;
    if let Some(link) = link {
        out.extend_from_slice(b"nvlink=\"");
        push_uint(out, link.into());
        out.extend_from_slice(b"\",");
    }
    out.extend_from_slice(b"gpu=\"");
    push_uint(out, device.index.into());
    out.extend_from_slice(match (link, options.old_namespace) {
        (Some(_), _) => b"\",gpu_uuid=\"",
        (None, true) => b"\",uuid=\"",
        (None, false) => b"\",UUID=\"",
    });
    push_escaped(out, text(&device.card.uuid));
    out.extend_from_slice(b"\",pci_bus_id=\"");
    push_pci(out, device, 8, true);
    out.extend_from_slice(b"\",device=\"nvidia");
    push_uint(out, device.index.into());
    if link.is_some() {
        // The real one never joins the words of a link's model name.
        out.extend_from_slice(b"\",model_name=\"");
        push_model(out, device, false);
    } else {
        out.extend_from_slice(b"\",modelName=\"");
        push_model(out, device, options.replace_blanks_in_model_name);
    }
    out.push(b'"');
    if let Some(slice) = device.slice {
        push_name(out, "GPU_I_PROFILE");
        push_escaped(out, text(&slice.profile.name));
        out.extend_from_slice(b"\",GPU_I_ID=\"");
        push_uint(out, slice.instance.gi.into());
        out.push(b'"');
    }
    // Link series have it in lower case in every version.
    let name = if link.is_some() {
        "hostname"
    } else {
        style.hostname
    };
    push_host(out, style, device.node, name);
}

/// Appends the host name, unless it is unwanted or unknown.
pub(crate) fn push_host(out: &mut Vec<u8>, style: &Style, node: &Node<'_>, name: &str) {
    let host = match &style.options.hostname {
        Some(host) => host.as_str(),
        None => node.name,
    };
    if !style.options.no_hostname {
        push_label(out, name, |out| push_escaped(out, host));
    }
}

/// Appends fields as labels.
pub(crate) fn push_label_fields(
    out: &mut Vec<u8>,
    fields: &[(String, &'static Field)],
    device: &Device<'_>,
) {
    for (name, field) in fields {
        push_label(out, name, |out| push_label_field(out, field, device));
    }
}

/// Appends a field's value; nothing when it is blank.
pub(super) fn push_label_field(out: &mut Vec<u8>, field: &Field, device: &Device<'_>) {
    match field.source {
        Source::Text(text) => (text.write)(device, out),
        Source::Number(expression) | Source::Xid(expression) => {
            if let Some(value) = expression.value(device) {
                value.write(number_format(field.kind), out);
            }
        }
        _ => {}
    }
}

/// How values of a field are written.
pub(crate) fn number_format(kind: Kind) -> Format {
    match kind {
        Kind::Double => Format::Fixed6,
        Kind::Int | Kind::Text => Format::Int,
    }
}

/// Appends the attributes of a holder, sorted by name; returns where those that sort in between belong.
pub(super) fn push_attributes(
    out: &mut Vec<u8>,
    style: &Style,
    device: &Device<'_>,
    holder: &Holder<'_>,
    uid: bool,
) -> usize {
    let node = device.node;
    let old = style.options.old_namespace;
    let container = holder
        .holding
        .and_then(|holding| node.containers.get(holding.container as usize));
    let label = |out: &mut Vec<u8>, name: &str, at: TextRef| {
        push_name(out, name);
        push_escaped(out, node.text(at));
        out.push(b'"');
    };
    if let Some(container) = container {
        let name = if old { "container_name" } else { "container" };
        label(out, name, container.name);
    }
    if let Some(claim) = holder.claim {
        let mut dra = |name: &str, value: &str| {
            push_label(out, name, |out| push_escaped(out, value));
        };
        dra("dra_claim_name", &claim.name);
        dra("dra_claim_namespace", &claim.namespace);
        dra("dra_device_name", &claim.device);
        dra("dra_driver_name", &claim.driver);
        if let Some(slice) = device.slice {
            dra("dra_mig_device_uuid", text(&slice.instance.uuid));
            dra("dra_mig_profile", text(&slice.profile.name));
        }
        dra("dra_pool_name", &claim.pool);
    }
    let split = out.len();
    if let Some(job) = holder.job {
        push_label(out, "hpc_job", |out| push_escaped(out, job));
    }
    if let Some(container) = container {
        if old {
            label(out, "pod_name", container.pod);
            label(out, "pod_namespace", container.namespace);
        } else {
            label(out, "namespace", container.namespace);
            label(out, "pod", container.pod);
        }
        if uid {
            label(out, "pod_uid", container.uid);
        }
    }
    if let Some(share) = holder.share {
        push_label(out, "vgpu", |out| push_escaped(out, share));
    }
    split
}

/// A pod's labels under names Prometheus takes, sorted by name, each name once.
pub(super) fn pod_labels<'l>(
    style: &Style,
    labels: &'l [(String, String)],
) -> Vec<(String, &'l str)> {
    let mut named: Vec<(String, &str)> = labels
        .iter()
        .filter_map(|(name, value)| {
            let name = sane(name);
            if !OWN.contains(&&*name) {
                return Some((name.into_owned(), value.as_str()));
            }
            style
                .renames_pod_labels
                .then(|| (format!("pod_label_{name}"), value.as_str()))
        })
        .collect();
    named.sort();
    // Of two that become the same name the first in order stays, so that a page never depends on chance.
    named.dedup_by(|later, earlier| later.0 == earlier.0);
    named
}

/// A label's name with nothing in it that Prometheus does not take.
fn sane(name: &str) -> Cow<'_, str> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit = name.starts_with(|first: char| first.is_ascii_digit());
    if !digit && !name.is_empty() && name.chars().all(good) {
        return Cow::Borrowed(name);
    }
    let mut sane = String::with_capacity(name.len() + 1);
    if digit || name.is_empty() {
        // The real one keeps the digit, and breaks its page.
        sane.push('_');
    }
    sane.extend(name.chars().map(|c| if good(c) { c } else { '_' }));
    Cow::Owned(sane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_prometheus_takes() {
        for (name, sane_name) in [
            ("app", "app"),
            ("app.kubernetes.io/name", "app_kubernetes_io_name"),
            ("9lives", "_9lives"),
            ("größe", "gr__e"),
            ("", "_"),
        ] {
            assert_eq!(sane(name), sane_name);
        }
    }
}
