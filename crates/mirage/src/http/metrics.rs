//! `/metrics` for all nodes, `/nodes/<node>/metrics` for one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use mirage_metrics::{Exporter, Subject};

use super::body::{Sink, streamed, takes_gzip, whole};
use super::large::Large;
use super::lean::Lean;
use super::{App, no_such_node};
use crate::attribution::Seen;
use crate::exporter::Hot;

/// Up to this many GPUs a page takes so little time that it is made at once.
const SMALL: usize = 128;

/// A page of all nodes.
pub(super) fn all(exporter: Arc<Hot>) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>, headers: HeaderMap| async move {
            let exporter = exporter.get();
            let (gpus, large) = (app.gpus(), app.large.clone());
            let same = exporter.clone();
            answer(exporter, gpus, &headers, large, move || app.shown(&same))
        },
    )
}

/// A page of one node.
pub(super) fn one(exporter: Arc<Hot>) -> MethodRouter<Arc<App>> {
    get(
        move |State(app): State<Arc<App>>, Path(node): Path<String>, headers: HeaderMap| async move {
            let exporter = exporter.get();
            let Some(nodes) = app.shown_one(&exporter, &node) else {
                return no_such_node(&node);
            };
            answer(exporter, gpus(&nodes), &headers, app.large.clone(), || {
                nodes
            })
        },
    )
}

/// A page of a few nodes, for whoever has no fleet.
pub fn page(
    exporter: Arc<Exporter>,
    nodes: Vec<Seen>,
    headers: &HeaderMap,
    large: &Large,
) -> Response {
    answer(exporter, gpus(&nodes), headers, large.clone(), || nodes)
}

fn gpus(nodes: &[Seen]) -> usize {
    nodes.iter().map(|seen| seen.image.cards.len()).sum()
}

/// A small page is made at once; a large one takes its nodes when its turn has come, and copies them.
fn answer(
    exporter: Arc<Exporter>,
    gpus: usize,
    headers: &HeaderMap,
    large: Large,
    nodes: impl FnOnce() -> Vec<Seen> + Send + 'static,
) -> Response {
    let gzip = takes_gzip(headers);
    let kind = exporter.content_type();
    if gpus <= SMALL {
        let nodes = nodes();
        return whole(kind, gzip, |sink| {
            render(&exporter, nodes.iter().map(Seen::subject), sink);
        });
    }
    streamed(kind, gzip, large, move |sink| {
        let lean = Lean::copy(nodes());
        render(&exporter, lean.nodes(), sink);
    })
}

fn render<'n>(
    exporter: &Exporter,
    nodes: impl Iterator<Item = Subject<'n>> + Clone,
    sink: Sink<'_>,
) {
    let mut chunks = exporter.chunks(nodes);
    let mut text = Vec::new();
    while chunks.next_into(&mut text) {
        if !sink(&text) {
            return;
        }
    }
}
