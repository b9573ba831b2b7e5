//! A text that somebody keeps in a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::answered;

/// Keys named at most, where the one asked for is missing.
const MOST_NAMED: usize = 10;

/// The text under a key. Asks for this one object alone, so that an account which may read nothing else will do.
pub async fn text(
    client: &Client,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<String, String> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let what = || format!("reading ConfigMap {namespace}/{name}");
    let Some(found) = answered(what, api.get_opt(name)).await? else {
        return Err(format!("there is no ConfigMap {namespace}/{name}"));
    };
    let mut data = found.data.unwrap_or_default();
    data.remove(key).ok_or_else(|| {
        let others: Vec<&str> = data.keys().take(MOST_NAMED).map(String::as_str).collect();
        let others = match others.is_empty() {
            true => "it has none at all".to_owned(),
            false => format!("it has {}", others.join(", ")),
        };
        format!("ConfigMap {namespace}/{name} has no key {key:?}; {others}")
    })
}
