//! The device list: a row of labels per device, `file` among them, and who is linked to whom.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Device;
use crate::fakedev::json::{self, Invalid, Object, mismatch};

/// The first `count` rows, with the labels of their type under those of the row.
pub(super) fn parse(
    top: &Object<'_>,
    common: &BTreeMap<String, String>,
    count: usize,
) -> Result<Vec<Device>, Invalid> {
    let rows = top.list("DeviceLabels")?;
    if rows.len() < count {
        return Err(top.invalid(
            "DeviceLabels",
            format!(
                "fewer devices than requested ({} < {count}); lower -count or add rows",
                rows.len()
            ),
        ));
    }
    let mut devices = Vec::with_capacity(count);
    for (position, row) in rows[..count].iter().enumerate() {
        let at = format!("DeviceLabels[{position}]");
        let row = json::texts(row, &at)?;
        let file = match row.get("file") {
            Some(file) if !file.is_empty() => file.clone(),
            _ => {
                return Err(Invalid::new(
                    at,
                    "no label \"file\", by which workloads name their devices",
                ));
            }
        };
        let mut labels = common.clone();
        labels.extend(row);
        devices.push(Device {
            labels,
            file,
            peers: Vec::new(),
        });
    }
    for (position, link) in top.list("Links")?.iter().enumerate() {
        let at = format!("Links[{position}]");
        let (one, other) = ends(link, &at)?;
        // The list may describe more devices than were asked for.
        if one < count && other < count {
            devices[one].peers.push(other);
            devices[other].peers.push(one);
        }
    }
    for device in &mut devices {
        device.peers.sort_unstable();
        device.peers.dedup();
    }
    Ok(devices)
}

/// A link joins two different devices, named by their places in the list.
fn ends(link: &Value, at: &str) -> Result<(usize, usize), Invalid> {
    let pair: Option<Vec<usize>> = link.as_array().and_then(|ends| {
        ends.iter()
            .map(|end| end.as_u64().and_then(|end| usize::try_from(end).ok()))
            .collect()
    });
    match pair.as_deref() {
        Some([one, other]) if one != other => Ok((*one, *other)),
        _ => Err(mismatch(at, "a pair of two places in the list", link)),
    }
}
