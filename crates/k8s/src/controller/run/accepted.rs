//! The topology that is in force, kept beside the document that people edit: a controller that is started while that one cannot be read, or
//! is not there, goes on by it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::{Shared, Tell, perform};
use crate::controller::MANAGER;
use crate::error::chain;
use crate::topology::KEY;

/// How long to wait after a request that failed.
const PAUSE: Duration = Duration::from_secs(5);

/// Where the document of this name is kept.
fn name(document: &str) -> String {
    format!("mirage-accepted-{document}")
}

/// Keeps it, for ever; says first what was kept before.
pub(super) async fn keep(client: Client, shared: Arc<Shared>, tell: Tell) {
    const PART: &str = "accepted";
    let (namespace, document) = shared.look(|controller| {
        let settings = &controller.settings;
        (settings.namespace.clone(), settings.document.clone())
    });
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let name = name(&document);
    let mut kept = loop {
        match api.get_opt(&name).await {
            Ok(map) => break text_of(map),
            Err(error) => {
                tell(PART, Err(format!("reading {name}: {}", chain(&error))));
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tell(PART, Ok(()));
    if let Some(text) = &kept {
        shared.recall(text, &name);
    }
    let (mut accepted, mut leads) = (shared.accepted.subscribe(), shared.leads());
    loop {
        let text = accepted.borrow_and_update().clone();
        leads.borrow_and_update();
        if shared.acts() && text.is_some() && text != kept {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name, "labels": { "app.kubernetes.io/managed-by": MANAGER } },
                "data": { KEY: text },
            });
            let apply = PatchParams::apply(MANAGER).force();
            let done =
                perform::patch(&client, &api, &name, None, &apply, &Patch::Apply(&body)).await;
            shared.count("topology");
            match done {
                Ok(()) => {
                    tell(PART, Ok(()));
                    kept = text;
                }
                Err(error) => {
                    tell(PART, Err(format!("writing {name}: {}", chain(&error))));
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            }
        }
        tokio::select! {
            _ = accepted.changed() => {}
            _ = leads.changed() => {}
        }
    }
}

fn text_of(map: Option<ConfigMap>) -> Option<String> {
    map?.data?.remove(KEY)
}
