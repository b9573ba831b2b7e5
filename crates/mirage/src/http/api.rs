//! `/api/v1/…` and `/sd`: JSON, read-only.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use mirage_state::Image;
use serde::Serialize;
use serde_json::json;

use super::body::{Sink, streamed, takes_gzip, whole};
use super::{App, no_such_node, text};
use crate::control;
use crate::engine::Core;
use crate::view::{gpu_view, node_view};

const JSON: &str = "application/json";
/// Up to this many GPUs a list is made at once.
const SMALL: usize = 128;

pub(super) async fn status(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match ask_engine(&app, control::status).await {
        Ok(status) => whole(JSON, takes_gzip(&headers), |sink| {
            sink(status.to_string().as_bytes());
            sink(b"\n");
        }),
        Err(response) => response,
    }
}

pub(super) async fn nodes(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    list(&app, &headers, |nodes, each| {
        for image in nodes {
            if !each(&json!(node_view(&image.node()))) {
                return;
            }
        }
    })
}

pub(super) async fn node(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(nodes) = app.one(&name) else {
        return no_such_node(&name);
    };
    whole(JSON, takes_gzip(&headers), |sink| {
        for image in &nodes {
            let node = image.node();
            let gpus: Vec<_> = (0..node.cards.len())
                .filter_map(|index| gpu_view(&node, index))
                .collect();
            let mut view = json!(node_view(&node));
            view["gpus"] = json!(gpus);
            sink(view.to_string().as_bytes());
            sink(b"\n");
        }
    })
}

pub(super) async fn gpus(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    list(&app, &headers, |nodes, each| {
        for image in nodes {
            let node = image.node();
            for index in 0..node.cards.len() {
                let view = gpu_view(&node, index);
                if view.is_some_and(|view| !each(&json!(view))) {
                    return;
                }
            }
        }
    })
}

pub(super) async fn workloads(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match ask_engine(&app, Core::workloads).await {
        Ok(workloads) => send_list(&app, &headers, workloads),
        Err(response) => response,
    }
}

pub(super) async fn faults(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    match ask_engine(&app, Core::faults).await {
        Ok(faults) => send_list(&app, &headers, faults),
        Err(response) => response,
    }
}

pub(super) async fn events(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let events = app.fleet.events();
    whole(JSON, takes_gzip(&headers), |sink| {
        array(sink, |each| {
            let _ = events.iter().all(|event| each(&json!(**event)));
        });
    })
}

/// One target per node, for Prometheus' HTTP service discovery.
pub(super) async fn discovery(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    // Prometheus reaches us under the name it asked for.
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost:9400")
        .to_owned();
    list(&app, &headers, move |nodes, each| {
        for image in nodes {
            let node = image.node();
            let name = node.name;
            let target = json!({
                "targets": [host],
                "labels": {
                    "__metrics_path__": format!("/nodes/{name}/metrics"),
                    "node": name,
                    "instance": name,
                },
            });
            if !each(&target) {
                return;
            }
        }
    })
}

/// Takes items of a list; `false` when nobody wants more.
type Each<'a> = &'a mut dyn FnMut(&serde_json::Value) -> bool;

/// A list made from a snapshot of all nodes.
fn list(
    app: &App,
    headers: &HeaderMap,
    make: impl FnOnce(&[Arc<Image>], Each<'_>) + Send + 'static,
) -> Response {
    let nodes = app.all();
    let gpus: usize = nodes.iter().map(|node| node.cards.len()).sum();
    let gzip = takes_gzip(headers);
    if gpus.max(nodes.len()) <= SMALL {
        whole(JSON, gzip, |sink| array(sink, |each| make(&nodes, each)))
    } else {
        streamed(JSON, gzip, app.large.clone(), move |sink| {
            array(sink, |each| make(&nodes, each));
        })
    }
}

fn send_list<T: Serialize + Send + Sync + 'static>(
    app: &App,
    headers: &HeaderMap,
    items: Arc<Vec<T>>,
) -> Response {
    let gzip = takes_gzip(headers);
    let make = move |each: Each<'_>| {
        let _ = items.iter().all(|item| each(&json!(item)));
    };
    streamed(JSON, gzip, app.large.clone(), move |sink| array(sink, make))
}

/// Writes a JSON array, one item per line, in pieces.
fn array(sink: Sink<'_>, make: impl FnOnce(Each<'_>)) {
    const PIECE: usize = 32 * 1024;
    let mut text = b"[".to_vec();
    let mut first = true;
    let mut wanted = true;
    make(&mut |item| {
        text.extend_from_slice(if first { b"\n" } else { b",\n" });
        first = false;
        text.extend_from_slice(item.to_string().as_bytes());
        if text.len() >= PIECE {
            wanted = sink(&text);
            text.clear();
        }
        wanted
    });
    if wanted {
        text.extend_from_slice(b"\n]\n");
        sink(&text);
    }
}

/// Asks the engine between two ticks.
async fn ask_engine<T: Send + 'static>(
    app: &App,
    job: impl FnOnce(&mut Core) -> T + Send + 'static,
) -> Result<T, Response> {
    let unavailable = |why: String| text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    let waiting = app
        .engine
        .ask(job)
        .map_err(|error| unavailable(error.to_string()))?;
    waiting
        .await
        .map_err(|_| unavailable("the engine has stopped".into()))
}
