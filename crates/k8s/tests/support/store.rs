//! An API server that is nothing but a store: objects of any kind by path, with lists, watches, versions and conflicts. It knows
//! no rules of any kind; patches of every sort are merged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{self, Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server. It runs as long as the runtime it was started on.
#[derive(Clone)]
pub(crate) struct Store {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<watch::Sender<u64>>,
    address: SocketAddr,
}

#[derive(Default)]
struct Inner {
    version: u64,
    /// By path: `/api/v1/namespaces/x/configmaps/y`.
    objects: BTreeMap<String, Value>,
    log: Vec<(u64, &'static str, String, Value)>,
    /// Versions up to here are forgotten.
    forgotten: u64,
    /// Watches of earlier ages end.
    age: u64,
    /// Requests that are answered with 500.
    failures: u32,
    /// Writes that are refused because somebody else was faster: below which path, and how many.
    conflicts: (String, u32),
    /// Connections break before an answer is whole.
    is_away: bool,
}

impl Store {
    /// Serves on a free port.
    pub(crate) async fn start() -> Store {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Inner {
            version: 1,
            ..Inner::default()
        };
        let store = Store {
            inner: Arc::new(Mutex::new(inner)),
            changed: Arc::new(watch::Sender::new(0)),
            address: listener.local_addr().unwrap(),
        };
        let router = Router::new().fallback(answer).with_state(store.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        store
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

    /// Puts an object at a path, from elsewhere.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.inner.lock().unwrap().put(path, object);
        self.changed.send_modify(|number| *number += 1);
    }

    /// Takes the object at a path away, from elsewhere.
    pub(crate) fn delete(&self, path: &str) {
        self.inner.lock().unwrap().delete(path);
        self.changed.send_modify(|number| *number += 1);
    }

    /// The object at a path.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.inner.lock().unwrap().objects.get(path).cloned()
    }

    /// Ends all watches, changes something meanwhile, and forgets how it came about: watches from before are refused as gone.
    pub(crate) fn forget(&self, meanwhile: impl FnOnce(&Store)) {
        self.inner.lock().unwrap().age += 1;
        meanwhile(self);
        let mut inner = self.inner.lock().unwrap();
        inner.forgotten = inner.version;
        inner.log.clear();
        drop(inner);
        self.changed.send_modify(|number| *number += 1);
    }

    /// How many writes are still to be refused.
    pub(crate) fn conflicts(&self) -> u32 {
        self.inner.lock().unwrap().conflicts.1
    }

    /// The next writes below a path are refused: somebody else was faster.
    pub(crate) fn conflict(&self, below: &str, times: u32) {
        self.inner.lock().unwrap().conflicts = (below.to_owned(), times);
    }

    /// Goes away, watches and all; or comes back.
    pub(crate) fn away(&self, is_away: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.is_away = is_away;
        inner.age += 1;
        drop(inner);
        self.changed.send_modify(|number| *number += 1);
    }

    /// The next requests fail.
    pub(crate) fn fail(&self, times: u32) {
        self.inner.lock().unwrap().failures = times;
    }
}

impl Inner {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let before = self.objects.get(path);
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = json!(self.version.to_string());
        meta["name"] = json!(path.rsplit('/').next().unwrap());
        if let Some(namespace) = path.split("/namespaces/").nth(1) {
            meta["namespace"] = json!(namespace.split('/').next().unwrap());
        }
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{}", self.version));
        }
        let what = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.log
            .push((self.version, what, path.to_owned(), object.clone()));
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn delete(&mut self, path: &str) -> Option<Value> {
        let mut object = self.objects.remove(path)?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log
            .push((self.version, "DELETED", path.to_owned(), object.clone()));
        Some(object)
    }
}

/// Whether an object is in a collection: all of a kind, whatever its namespace, where the collection names none.
fn is_in(path: &str, object: &Value, collection: &str, query: &HashMap<String, String>) -> bool {
    let (parent, _) = path.rsplit_once('/').unwrap();
    let kind = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let inside = parent == collection
        || !collection.contains("/namespaces/") && kind(parent) == kind(collection);
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let fields = query.get("fieldSelector").map_or("", String::as_str);
    let chosen = match fields.strip_prefix("metadata.name=") {
        Some(wanted) => wanted == name,
        None => fields.is_empty() || !object["spec"]["nodeName"].is_null(),
    };
    let label = query
        .get("labelSelector")
        .and_then(|text| text.split_once('='));
    let labelled = label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value);
    inside && chosen && labelled
}

fn reply(code: u16, value: &Value) -> Response {
    Response::builder()
        .status(StatusCode::from_u16(code).unwrap())
        .header("content-type", "application/json")
        .body(Body::from(value.to_string()))
        .unwrap()
}

fn failure(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code,
    })
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn is_another(object: &Value, body: &Value) -> bool {
    let uid = &body["metadata"]["uid"];
    !uid.is_null() && *uid != object["metadata"]["uid"]
}

async fn answer(
    State(store): State<Store>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    {
        let mut inner = store.inner.lock().unwrap();
        if inner.is_away {
            let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("away"))]);
            return Response::new(Body::from_stream(broken));
        }
        if inner.failures > 0 {
            inner.failures -= 1;
            return reply(500, &failure(500, "InternalError"));
        }
        let (below, times) = &mut inner.conflicts;
        if method != Method::GET && *times > 0 && path.starts_with(&**below) {
            *times -= 1;
            return reply(409, &failure(409, "Conflict"));
        }
    }
    let kind = request.headers().get("content-type");
    let applies = kind.is_some_and(|kind| kind == "application/apply-patch+yaml");
    let bytes = body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if method == Method::GET {
        return read(store, path, query);
    }
    let target = path.strip_suffix("/status").unwrap_or(&path).to_owned();
    let mut inner = store.inner.lock().unwrap();
    let standing = inner.objects.get(&target).cloned();
    let answered = match (method.as_str(), standing) {
        ("POST", _) => {
            let name = body["metadata"]["name"].as_str().unwrap();
            let target = format!("{target}/{name}");
            if inner.objects.contains_key(&target) {
                reply(409, &failure(409, "AlreadyExists"))
            } else {
                reply(201, &inner.put(&target, body))
            }
        }
        ("PUT", Some(standing)) => {
            if standing["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"] {
                reply(200, &inner.put(&target, body))
            } else {
                reply(409, &failure(409, "Conflict"))
            }
        }
        ("PATCH", standing) => {
            // Only applying makes what is not there.
            let made = applies && target == path;
            match standing.or_else(|| made.then(|| json!({ "metadata": {} }))) {
                // Said of another of the same name.
                Some(object) if is_another(&object, &body) => reply(409, &failure(409, "Conflict")),
                Some(mut object) => {
                    merge(&mut object, &body);
                    reply(200, &inner.put(&target, object))
                }
                None => reply(404, &failure(404, "NotFound")),
            }
        }
        ("DELETE", None) if query.contains_key("labelSelector") => {
            let all = inner.objects.iter();
            let all = all.filter(|(at, object)| is_in(at, object, &target, &query));
            let paths: Vec<String> = all.map(|(at, _)| at.clone()).collect();
            for path in paths {
                inner.delete(&path);
            }
            reply(
                200,
                &json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [] }),
            )
        }
        ("DELETE", Some(_)) => reply(200, &inner.delete(&target).unwrap()),
        _ => reply(404, &failure(404, "NotFound")),
    };
    drop(inner);
    store.changed.send_modify(|number| *number += 1);
    answered
}

fn read(store: Store, path: String, query: HashMap<String, String>) -> Response {
    let inner = store.inner.lock().unwrap();
    if let Some(object) = inner.objects.get(&path) {
        return reply(200, object);
    }
    let last = path.rsplit('/').next().unwrap();
    if !["nodes", "pods", "configmaps", "leases", "events"].contains(&last) {
        return reply(404, &failure(404, "NotFound"));
    }
    if query.get("watch").is_some_and(|watch| watch == "true") {
        drop(inner);
        return watch_from(store, path, query);
    }
    // A page goes on behind the last one's last path; all of a list are of the version that its first page was.
    let begun = query
        .get("continue")
        .and_then(|token| token.split_once(' '));
    let now = inner.version.to_string();
    let (version, behind) = begun.unwrap_or((&now, ""));
    let limit = query.get("limit").and_then(|limit| limit.parse().ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let items = inner.objects.iter();
    let mut items =
        items.filter(|(at, object)| ***at > *behind && is_in(at, object, &path, &query));
    let page: Vec<(&String, &Value)> = items.by_ref().take(limit).collect();
    let mut metadata = json!({ "resourceVersion": version });
    if items.next().is_some()
        && let Some((last, _)) = page.last()
    {
        metadata["continue"] = json!(format!("{version} {last}"));
    }
    let page: Vec<&Value> = page.into_iter().map(|(_, object)| object).collect();
    let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page });
    reply(200, &list)
}

/// A watch: what is new, line by line, until its age is over.
fn watch_from(store: Store, path: String, query: HashMap<String, String>) -> Response {
    let from: u64 = query["resourceVersion"].parse().unwrap();
    let age = store.inner.lock().unwrap().age;
    let changes = store.changed.subscribe();
    let begin = (store, changes, from, false);
    let lines = stream::unfold(begin, move |(store, mut changes, seen, is_over)| {
        let (path, query) = (path.clone(), query.clone());
        async move {
            if is_over {
                return None;
            }
            loop {
                changes.borrow_and_update();
                let (mut text, mut now, mut is_over) = (String::new(), seen, false);
                {
                    let inner = store.inner.lock().unwrap();
                    if inner.age != age {
                        return None;
                    }
                    if seen < inner.forgotten {
                        let gone = json!({ "type": "ERROR", "object": failure(410, "Expired") });
                        text = format!("{gone}\n");
                        is_over = true;
                    } else {
                        for (version, what, at, object) in &inner.log {
                            if *version > seen && is_in(at, object, &path, &query) {
                                let line = json!({ "type": what, "object": object });
                                text.push_str(&format!("{line}\n"));
                            }
                            now = now.max(*version);
                        }
                    }
                }
                if !text.is_empty() {
                    let line = Ok::<Bytes, Infallible>(Bytes::from(text));
                    return Some((line, (store, changes, now, is_over)));
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
