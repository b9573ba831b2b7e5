//! Groups of pods, whose priority class tells what kind of workload a pod is. They are another program's; where it does not run,
//! nobody asks for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};

use super::{Shared, Tell};
use crate::error::chain;
use crate::usage::groups::is_unknown;

/// How often they are listed, once a pod has named one. They are few, and their classes do not change.
const EVERY: Duration = Duration::from_secs(30);
/// How often it is looked whether a pod names one that is not known.
const LOOK: Duration = Duration::from_secs(2);
/// Most groups asked for at a time.
const PAGE: u32 = 500;

/// Follows them for ever.
pub(super) async fn follow(client: Client, shared: Arc<Shared>, tell: Tell) {
    const PART: &str = "pod-groups";
    let kind = GroupVersionKind::gvk("scheduling.run.ai", "v2alpha2", "PodGroup");
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
    loop {
        while !shared.look(|controller| controller.seen.has_groups()) {
            tokio::time::sleep(LOOK).await;
        }
        match list(&api).await {
            Ok(groups) => {
                tell(PART, Ok(()));
                shared.change(|mind, now| {
                    if mind.controller.seen.groups != groups {
                        mind.controller.seen.groups = groups;
                        for node in mind.controller.names() {
                            mind.nodes.push(node, now);
                        }
                    }
                });
            }
            // Their kind is not known here.
            Err(error) if is_unknown(&error) => tell(PART, Ok(())),
            Err(error) => tell(PART, Err(format!("listing pod groups: {}", chain(&error)))),
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn list(api: &Api<DynamicObject>) -> Result<BTreeMap<(String, String), String>, kube::Error> {
    let mut groups = BTreeMap::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list(&page).await?;
        for group in list.items {
            let class = group.data["spec"]["priorityClassName"].as_str();
            if let (Some(namespace), Some(name), Some(class)) =
                (group.metadata.namespace, group.metadata.name, class)
            {
                groups.insert((namespace, name), class.to_owned());
            }
        }
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => return Ok(groups),
        }
    }
}
