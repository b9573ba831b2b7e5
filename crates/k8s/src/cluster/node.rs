//! What stands on the node object: labels and conditions that are mirage's.
//!
//! Labels are applied by the server, under mirage's own name: it knows which of them are ours, so that one that is no
//! longer wanted goes, and those of others stay. Nothing is written that stands there already.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{MANAGER, answered};

/// Labels by key.
pub type Labels = BTreeMap<String, String>;

/// The labels of a node, and which of them are ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// All.
    pub labels: Labels,
    /// Keys of those that mirage has put there.
    pub ours: BTreeSet<String>,
}

/// Asks what stands on a node.
pub async fn standing(client: &Client, node: &str) -> Result<Standing, String> {
    let api: Api<Node> = Api::all(client.clone());
    let found = answered(|| format!("reading node {node}"), api.get(node)).await?;
    let fields = found.metadata.managed_fields.unwrap_or_default();
    let ours = fields
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some(MANAGER))
        .filter(|entry| entry.operation.as_deref() == Some("Apply"))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .flat_map(|fields| keys(&fields.0))
        .collect();
    Ok(Standing {
        labels: found.metadata.labels.unwrap_or_default(),
        ours,
    })
}

/// Keys of labels in a record of managed fields.
fn keys(fields: &Value) -> Vec<String> {
    let labels = fields
        .get("f:metadata")
        .and_then(|meta| meta.get("f:labels"));
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels
        .filter_map(|(key, _)| key.strip_prefix("f:").map(str::to_owned))
        .collect()
}

impl Standing {
    /// Whether writing `wanted` would change something. A label in `fleeting` is no reason by itself.
    pub fn differs(&self, wanted: &Labels, fleeting: &str) -> bool {
        let same =
            |key: &String, value: &String| key == fleeting || self.labels.get(key) == Some(value);
        !(self.ours.iter().eq(wanted.keys()) && wanted.iter().all(|(k, v)| same(k, v)))
    }
}

/// Makes `labels` the labels of mirage on a node: those of before that are not among them go.
pub async fn apply(client: &Client, node: &str, labels: &Labels) -> Result<(), String> {
    let api: Api<Node> = Api::all(client.clone());
    let patch = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": node, "labels": labels },
    });
    // Whoever else wrote one of them says something else about the same GPUs.
    let how = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(patch);
    let write = api.patch(node, &how, &patch);
    answered(|| format!("labelling node {node}"), write)
        .await
        .map(|_| ())
}

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `GPULost` and the like.
    pub kind: &'static str,
    /// Whether it is so.
    pub is_true: bool,
    /// Why, in one word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

/// Sets a condition of a node, unless it stands there already.
pub async fn condition(client: &Client, node: &str, wanted: &Condition) -> Result<(), String> {
    let api: Api<Node> = Api::all(client.clone());
    let what = || format!("writing the condition {} of {node}", wanted.kind);
    let found = answered(what, api.get_status(node)).await?;
    let status = if wanted.is_true { "True" } else { "False" };
    let standing = conditions(&found).find(|condition| condition.type_ == wanted.kind);
    let same = standing.is_some_and(|condition| {
        condition.status == status
            && condition.reason.as_deref() == Some(wanted.reason)
            && condition.message.as_deref() == Some(&wanted.message)
    });
    if same {
        return Ok(());
    }
    let now = k8s_openapi::jiff::Timestamp::now();
    let since = standing
        .filter(|condition| condition.status == status)
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or(now, |time| time.0);
    let patch = json!({ "status": { "conditions": [{
        "type": wanted.kind,
        "status": status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastHeartbeatTime": seconds(now),
        "lastTransitionTime": seconds(since),
    }] } });
    answered(what, write(&api, node, &patch)).await
}

/// Takes a condition off a node.
pub async fn remove_condition(client: &Client, node: &str, kind: &str) -> Result<(), String> {
    let api: Api<Node> = Api::all(client.clone());
    let what = || format!("removing the condition {kind} of {node}");
    let found = answered(what, api.get_status(node)).await?;
    if conditions(&found).all(|condition| condition.type_ != kind) {
        return Ok(());
    }
    let patch = json!({ "status": { "conditions": [{ "type": kind, "$patch": "delete" }] } });
    answered(what, write(&api, node, &patch)).await
}

/// Conditions are merged by their type: those of others stay.
async fn write(api: &Api<Node>, node: &str, patch: &Value) -> Result<(), kube::Error> {
    let how = PatchParams {
        field_manager: Some(MANAGER.into()),
        ..PatchParams::default()
    };
    api.patch_status(node, &how, &Patch::Strategic(patch))
        .await
        .map(|_| ())
}

fn conditions(node: &Node) -> impl Iterator<Item = &NodeCondition> {
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten()
}

/// A time as Kubernetes writes it, to the second.
fn seconds(time: k8s_openapi::jiff::Timestamp) -> String {
    let whole = k8s_openapi::jiff::Timestamp::from_second(time.as_second());
    whole.unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_labels_are_those_we_applied() {
        let fields = json!({ "f:metadata": { "f:labels": {
            ".": {}, "f:nvidia.com/gpu.count": {}, "f:nvidia.com/gpu.product": {},
        } } });
        assert_eq!(
            keys(&fields),
            ["nvidia.com/gpu.count", "nvidia.com/gpu.product"]
        );
        assert!(keys(&json!({ "f:status": [] })).is_empty());
    }

    #[test]
    fn only_what_matters_is_a_reason_to_write() {
        let labels = |list: &[(&str, &str)]| -> Labels {
            let pairs = list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
            pairs.collect()
        };
        let standing = Standing {
            labels: labels(&[("a", "1"), ("t", "7"), ("other", "x")]),
            ours: ["a", "t"].iter().map(|&key| key.to_owned()).collect(),
        };
        let differs = |list| standing.differs(&labels(list), "t");
        assert!(!differs(&[("a", "1"), ("t", "7")]));
        assert!(!differs(&[("a", "1"), ("t", "8")]), "only its time differs");
        assert!(differs(&[("a", "2"), ("t", "7")]));
        assert!(differs(&[("t", "7")]), "one of ours is not wanted");
        assert!(
            differs(&[("a", "1"), ("t", "7"), ("other", "x")]),
            "not ours yet"
        );
    }

    #[test]
    fn times_have_no_fractions() {
        let time = k8s_openapi::jiff::Timestamp::new(1_700_000_000, 5).expect("it is valid");
        assert_eq!(seconds(time), "2023-11-14T22:13:20Z");
    }
}
