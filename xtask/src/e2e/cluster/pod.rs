//! Pods as the scenarios want them: containers that sleep and hold resources.

use serde_json::{Map, Value, json};

use crate::e2e::image::IMAGE;

/// A pod to be created.
pub(in crate::e2e) struct Pod {
    name: String,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    containers: Vec<Value>,
}

impl Pod {
    /// A pod without containers.
    pub(in crate::e2e) fn new(name: &str) -> Pod {
        Pod {
            name: name.to_owned(),
            labels: Map::new(),
            annotations: Map::new(),
            containers: Vec::new(),
        }
    }

    /// A pod with one container, `main`, that holds so many of a resource.
    pub(in crate::e2e) fn with(name: &str, resource: &str, count: u32) -> Pod {
        Pod::new(name).container("main", &[(resource, count)])
    }

    /// One more container, with its resources.
    pub(in crate::e2e) fn container(mut self, name: &str, resources: &[(&str, u32)]) -> Pod {
        let limits: Map<String, Value> = resources
            .iter()
            .map(|(resource, count)| ((*resource).to_owned(), json!(count.to_string())))
            .collect();
        self.containers.push(json!({
            "name": name,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "resources": {"limits": limits},
        }));
        self
    }

    /// One more label.
    pub(in crate::e2e) fn label(mut self, key: &str, value: &str) -> Pod {
        self.labels.insert(key.to_owned(), json!(value));
        self
    }

    /// One more annotation.
    pub(in crate::e2e) fn annotation(mut self, key: &str, value: &str) -> Pod {
        self.annotations.insert(key.to_owned(), json!(value));
        self
    }

    /// Its name.
    pub(in crate::e2e) fn name(&self) -> &str {
        &self.name
    }

    /// The object the API server takes.
    pub(super) fn json(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "labels": self.labels, "annotations": self.annotations},
            "spec": {
                // They sleep, and the first process of a container does not hear SIGTERM.
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "containers": self.containers,
            },
        })
    }
}
