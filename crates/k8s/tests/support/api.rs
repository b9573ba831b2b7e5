//! A small API server for tests: lists and watches of pods, a node that can be patched, ConfigMaps, Events. It does what the
//! real one does as far as mirage can see, keeps a record of what was asked, and fails on demand.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Path as In, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, body};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Most bytes of a request.
const MOST: usize = 1 << 20;

/// The server. It runs as long as the runtime it was started on.
#[derive(Clone)]
pub(crate) struct Api {
    inner: Arc<Mutex<Inner>>,
    /// Wakes watches: how often something has changed.
    changed: Arc<watch::Sender<u64>>,
    address: SocketAddr,
}

#[derive(Default)]
struct Inner {
    version: u64,
    pods: BTreeMap<(String, String), Value>,
    /// What watches are told, with the version it is of.
    log: Vec<(u64, &'static str, Value)>,
    /// Versions up to here are forgotten: whoever asks from there must list again.
    forgotten: u64,
    /// Watches of earlier ages end.
    age: u64,
    node: Value,
    events: Vec<Value>,
    /// Data of ConfigMaps.
    maps: HashMap<(String, String), Value>,
    /// Priority classes of groups of pods.
    groups: HashMap<String, String>,
    asked: Vec<String>,
    /// Answers with 500 while it is above 0.
    failures: u32,
}

impl Api {
    /// Serves on a free port.
    pub(crate) async fn start(node: &str) -> Api {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Inner {
            version: 1,
            node: json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": node, "uid": "n", "labels": { "kubernetes.io/os": "linux" }, "managedFields": [] },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
            }),
            ..Inner::default()
        };
        let api = Api {
            inner: Arc::new(Mutex::new(inner)),
            changed: Arc::new(watch::Sender::new(0)),
            address: listener.local_addr().unwrap(),
        };
        let router = Router::new()
            .route("/api/v1/pods", get(pods))
            .route("/api/v1/nodes/{name}", get(node_now).patch(apply))
            .route("/api/v1/nodes/{name}/status", get(node_now).patch(merge))
            .route("/api/v1/namespaces/{namespace}/events", post(event))
            .route(
                "/api/v1/namespaces/{namespace}/configmaps/{name}",
                get(map_now),
            )
            .route(
                "/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups/{name}",
                get(group_now),
            )
            .with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        api
    }

    /// Writes a kubeconfig for it.
    pub(crate) fn kubeconfig(&self, path: &Path) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
             clusters: [{{ name: it, cluster: {{ server: \"http://{}\" }} }}]\n\
             contexts: [{{ name: it, context: {{ cluster: it, user: it }} }}]\n\
             users: [{{ name: it, user: {{ token: t }} }}]\n",
            self.address
        );
        std::fs::write(path, text).unwrap();
    }

    /// Adds a pod, or puts another in its place.
    pub(crate) fn put(&self, pod: Value) {
        self.change(|inner| {
            let meta = &pod["metadata"];
            let text = |key: &str| meta[key].as_str().unwrap().to_owned();
            let key = (text("namespace"), text("name"));
            let mut pod = pod;
            pod["metadata"]["resourceVersion"] = json!(inner.version.to_string());
            let what = match inner.pods.insert(key, pod.clone()) {
                Some(_) => "MODIFIED",
                None => "ADDED",
            };
            inner.log.push((inner.version, what, pod));
        });
    }

    /// Removes a pod.
    pub(crate) fn delete(&self, namespace: &str, name: &str) {
        self.change(|inner| {
            let key = (namespace.to_owned(), name.to_owned());
            let mut pod = inner.pods.remove(&key).unwrap();
            pod["metadata"]["resourceVersion"] = json!(inner.version.to_string());
            inner.log.push((inner.version, "DELETED", pod));
        });
    }

    /// Keeps data in a ConfigMap; `null` takes it away.
    pub(crate) fn set_map(&self, namespace: &str, name: &str, data: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        let maps = &mut self.inner.lock().unwrap().maps;
        match data {
            Value::Null => _ = maps.remove(&key),
            data => _ = maps.insert(key, data),
        }
    }

    /// Has a group of pods with this priority class.
    pub(crate) fn set_group(&self, name: &str, class: &str) {
        let groups = &mut self.inner.lock().unwrap().groups;
        groups.insert(name.to_owned(), class.to_owned());
    }

    /// Ends every watch there is.
    pub(crate) fn end_watches(&self) {
        self.change(|inner| inner.age += 1);
    }

    /// Ends every watch and forgets what came before: watches from there are refused as gone.
    pub(crate) fn forget(&self, meanwhile: impl FnOnce(&Api)) {
        self.inner.lock().unwrap().failures = u32::MAX;
        self.end_watches();
        meanwhile(self);
        {
            let mut inner = self.inner.lock().unwrap();
            inner.forgotten = inner.version;
            inner.log.clear();
            inner.failures = 0;
        }
    }

    /// The next requests fail.
    pub(crate) fn fail(&self, times: u32) {
        self.inner.lock().unwrap().failures = times;
    }

    /// The node as it is.
    pub(crate) fn node(&self) -> Value {
        self.inner.lock().unwrap().node.clone()
    }

    /// Changes the node from elsewhere.
    pub(crate) fn change_node(&self, how: impl FnOnce(&mut Value)) {
        how(&mut self.inner.lock().unwrap().node);
    }

    /// Events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.inner.lock().unwrap().events.clone()
    }

    /// How many requests began so.
    pub(crate) fn asked(&self, beginning: &str) -> usize {
        let inner = self.inner.lock().unwrap();
        let asked = inner.asked.iter();
        asked.filter(|line| line.starts_with(beginning)).count()
    }

    /// Notes a request; the answer if it is to fail.
    fn note(&self, line: String) -> Option<Response> {
        let mut inner = self.inner.lock().unwrap();
        inner.asked.push(line);
        if inner.failures == 0 {
            return None;
        }
        if inner.failures != u32::MAX {
            inner.failures -= 1;
        }
        Some(status(500, "InternalError", "on demand"))
    }

    fn change(&self, how: impl FnOnce(&mut Inner)) {
        {
            let mut inner = self.inner.lock().unwrap();
            inner.version += 1;
            how(&mut inner);
        }
        self.changed.send_modify(|number| *number += 1);
    }
}

/// A pod on a node, with its containers and whether they run.
pub(crate) fn pod(node: &str, name: &str, uid: &str, containers: &[(&str, bool)]) -> Value {
    let names = containers.iter().map(|(name, _)| {
        json!({ "name": name, "image": "i", "resources": { "limits": { "nvidia.com/gpu": "1" } } })
    });
    let statuses = containers.iter().map(|(name, runs)| {
        let state = if *runs {
            json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } })
        } else {
            json!({ "waiting": { "reason": "ContainerCreating" } })
        };
        json!({ "name": name, "restartCount": 0, "state": state })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "team", "name": name, "uid": uid, "annotations": {}, "labels": {} },
        "spec": { "nodeName": node, "containers": names.collect::<Vec<_>>() },
        "status": { "phase": "Running", "containerStatuses": statuses.collect::<Vec<_>>() },
    })
}

async fn group_now(
    State(api): State<Api>,
    In((namespace, name)): In<(String, String)>,
) -> Response {
    if let Some(failed) = api.note(format!("get podgroup {namespace}/{name}")) {
        return failed;
    }
    match api.inner.lock().unwrap().groups.get(&name) {
        Some(class) => reply(
            200,
            &json!({
                "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                "metadata": { "namespace": namespace, "name": name },
                "spec": { "priorityClassName": class },
            }),
        ),
        // As a server answers that does not know of groups at all.
        None => Response::builder()
            .status(StatusCode::NOT_FOUND)
            .body(Body::from("404 page not found\n"))
            .unwrap(),
    }
}

fn reply(code: u16, value: &Value) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .header("content-type", "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    reply(code, &failure(code, reason, message))
}

fn failure(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

async fn pods(State(api): State<Api>, Query(query): Query<HashMap<String, String>>) -> Response {
    let is_watch = query.get("watch").is_some_and(|watch| watch == "true");
    let selector = query.get("fieldSelector").cloned().unwrap_or_default();
    let kind = if is_watch { "watch" } else { "list" };
    if let Some(failed) = api.note(format!("{kind} pods {selector}")) {
        return failed;
    }
    let node = selector.strip_prefix("spec.nodeName=").unwrap().to_owned();
    if is_watch {
        let from = query.get("resourceVersion").unwrap().parse().unwrap();
        return watch_pods(api, node, from);
    }
    let inner = api.inner.lock().unwrap();
    let items = inner.pods.values().filter(|pod| is_on(pod, &node));
    let items: Vec<&Value> = items.collect();
    reply(
        200,
        &json!({
            "kind": "PodList", "apiVersion": "v1",
            "metadata": { "resourceVersion": inner.version.to_string() }, "items": items,
        }),
    )
}

fn is_on(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node
}

/// A watch: what is new since `from`, line by line, until its age is over.
fn watch_pods(api: Api, node: String, from: u64) -> Response {
    let age = api.inner.lock().unwrap().age;
    let changes = api.changed.subscribe();
    let begin = (api, changes, from, false);
    let lines = stream::unfold(begin, move |(api, mut changes, seen, is_over)| {
        let node = node.clone();
        async move {
            if is_over {
                return None;
            }
            loop {
                changes.borrow_and_update();
                let (mut text, mut now, mut is_over) = (String::new(), seen, false);
                {
                    let inner = api.inner.lock().unwrap();
                    if inner.age != age {
                        return None;
                    }
                    if seen < inner.forgotten {
                        let gone = failure(410, "Expired", "too old resource version");
                        text = format!("{}\n", json!({ "type": "ERROR", "object": gone }));
                        is_over = true;
                    } else {
                        for (version, what, pod) in &inner.log {
                            if *version > seen && is_on(pod, &node) {
                                let line = json!({ "type": what, "object": pod });
                                text.push_str(&format!("{line}\n"));
                            }
                            now = now.max(*version);
                        }
                    }
                }
                if !text.is_empty() {
                    let line = Ok::<Bytes, Infallible>(Bytes::from(text));
                    return Some((line, (api, changes, now, is_over)));
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        }
    });
    Response::builder()
        .header("content-type", "application/json")
        .body(Body::from_stream(lines))
        .unwrap()
}

async fn node_now(State(api): State<Api>, In(name): In<String>) -> Response {
    if let Some(failed) = api.note(format!("get node {name}")) {
        return failed;
    }
    let node = api.node();
    if node["metadata"]["name"] != name {
        return status(404, "NotFound", "no such node");
    }
    reply(200, &node)
}

async fn map_now(State(api): State<Api>, In(key): In<(String, String)>) -> Response {
    if let Some(failed) = api.note(format!("get configmap {}/{}", key.0, key.1)) {
        return failed;
    }
    let Some(data) = api.inner.lock().unwrap().maps.get(&key).cloned() else {
        return status(404, "NotFound", "no such ConfigMap");
    };
    let meta = json!({ "namespace": key.0, "name": key.1 });
    reply(
        200,
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data }),
    )
}

async fn read(request: Request) -> Value {
    let bytes = body::to_bytes(request.into_body(), MOST).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Server-side apply, of labels alone.
async fn apply(
    State(api): State<Api>,
    In(name): In<String>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    if let Some(failed) = api.note(format!("apply node {name}")) {
        return failed;
    }
    let sort = request.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(sort.starts_with("application/apply-patch"), "{sort}");
    let patch = read(request).await;
    let manager = query["fieldManager"].clone();
    let mut inner = api.inner.lock().unwrap();
    let meta = &mut inner.node["metadata"];
    let fields = meta["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let (own, mut others): (Vec<Value>, Vec<Value>) = fields
        .into_iter()
        .partition(|entry| entry["manager"] == manager);
    let wanted = patch["metadata"]["labels"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let labels = meta["labels"].as_object_mut().unwrap();
    for entry in &own {
        let before = entry["fieldsV1"]["f:metadata"]["f:labels"].as_object();
        for key in before.into_iter().flatten().map(|(key, _)| &key[2..]) {
            if !wanted.contains_key(key) {
                labels.remove(key);
            }
        }
    }
    labels.extend(wanted.clone());
    if !wanted.is_empty() {
        let keys: BTreeMap<String, Value> = wanted
            .keys()
            .map(|key| (format!("f:{key}"), json!({})))
            .collect();
        others.push(json!({
            "manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:metadata": { "f:labels": keys } },
        }));
    }
    meta["managedFields"] = json!(others);
    reply(200, &inner.node)
}

/// A strategic merge, of conditions alone.
async fn merge(State(api): State<Api>, In(name): In<String>, request: Request) -> Response {
    if let Some(failed) = api.note(format!("merge node {name}")) {
        return failed;
    }
    let patch = read(request).await;
    let mut inner = api.inner.lock().unwrap();
    let standing = inner.node["status"]["conditions"].as_array_mut().unwrap();
    for condition in patch["status"]["conditions"].as_array().unwrap() {
        standing.retain(|now| now["type"] != condition["type"]);
        if condition["$patch"] != "delete" {
            standing.push(condition.clone());
        }
    }
    reply(200, &inner.node)
}

async fn event(State(api): State<Api>, In(namespace): In<String>, request: Request) -> Response {
    if let Some(failed) = api.note(format!("post event {namespace}")) {
        return failed;
    }
    let event = read(request).await;
    let mut inner = api.inner.lock().unwrap();
    let name = &event["metadata"]["name"];
    if inner
        .events
        .iter()
        .any(|old| old["metadata"]["name"] == *name)
    {
        return status(409, "AlreadyExists", "it is there");
    }
    inner.events.push(event.clone());
    reply(201, &event)
}
