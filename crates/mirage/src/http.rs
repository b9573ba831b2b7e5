//! The network surface: exporter, API, service discovery and a page with links. All of it
//! only reads.
//!
//! Big answers are made on a thread of their own and handed on piece by piece, as fast as the client
//! takes them; the engine never waits for any of this. Slow and idle clients are cut off, and there is a limit
//! to how many there can be.

mod api;
mod body;
mod large;
mod lean;
mod metrics;
mod serve;
mod stall;
mod web;

pub use large::Large;
pub use metrics::page;
pub use serve::{Limits, serve, serve_behind};
pub use web::Web;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use mirage_metrics::Exporter;
use mirage_state::Image;

use crate::attribution::{Attribution, Seen};
use crate::engine::Engine;
use crate::exporter::{self, Exporters, Hot, Place};
use crate::fleet::Fleet;
use crate::health::Health;

/// What the handlers need.
#[derive(Debug)]
pub struct App {
    fleet: Arc<Fleet>,
    engine: Engine,
    exporters: Exporters,
    attribution: Arc<Attribution>,
    health: Arc<Health>,
    large: Large,
}

impl App {
    /// An app that shows `fleet` through `exporters`, with the pods `attribution` knows.
    pub fn new(
        fleet: Arc<Fleet>,
        engine: Engine,
        exporters: Exporters,
        attribution: Arc<Attribution>,
        health: Arc<Health>,
    ) -> Self {
        exporters.warn_of_doubles(&fleet.read().nodes);
        exporters.warn_of_vacant(&fleet.read().nodes);
        let nodes = fleet.clone();
        exporters.clocks().look_at(move |look| {
            // Under the lock and without copies: a node that is held would have to be copied by the engine.
            for image in &nodes.read().nodes {
                look(image);
            }
        });
        Self {
            fleet,
            engine,
            exporters,
            attribution,
            health,
            large: Large::default(),
        }
    }

    /// Its exporters.
    pub fn exporters(&self) -> &Exporters {
        &self.exporters
    }

    /// Where its pods come from.
    pub fn attribution(&self) -> &Arc<Attribution> {
        &self.attribution
    }

    /// How many GPUs there are.
    fn gpus(&self) -> usize {
        let published = self.fleet.read();
        published.nodes.iter().map(|node| node.cards.len()).sum()
    }

    /// All nodes of one tick, with their pods.
    fn all(&self) -> Vec<Arc<Image>> {
        let nodes = self.fleet.all().nodes;
        let fleet = nodes.len();
        self.attribution.apply(nodes, fleet)
    }

    /// All nodes of one tick, with all that a page of `exporter` may show of them.
    fn shown(&self, exporter: &Exporter) -> Vec<Seen> {
        let nodes = self.fleet.all().nodes;
        let fleet = nodes.len();
        let seen = self.attribution.show(nodes, fleet);
        self.exporters.remember(exporter, seen)
    }

    /// The same of one node.
    fn shown_one(&self, exporter: &Exporter, name: &str) -> Option<Vec<Seen>> {
        let snapshot = self.fleet.one(name)?;
        let fleet = self.fleet.read().nodes.len();
        let seen = self.attribution.show(snapshot.nodes, fleet);
        Some(self.exporters.remember(exporter, seen))
    }

    /// One node, with its pods.
    fn one(&self, name: &str) -> Option<Vec<Arc<Image>>> {
        let snapshot = self.fleet.one(name)?;
        let fleet = self.fleet.read().nodes.len();
        Some(self.attribution.apply(snapshot.nodes, fleet))
    }
}

/// All paths there are, with `main` at `/metrics`.
pub fn router(app: &Arc<App>, main: &Arc<Hot>) -> Router {
    let mut router = Router::new();
    let paths = app
        .exporters
        .mounts()
        .iter()
        .filter_map(|mount| match &mount.place {
            Place::Path(path) => Some((path.as_str(), &mount.exporter)),
            Place::Main | Place::Port(_) => None,
        });
    for (path, exporter) in paths.chain([("/metrics", main)]) {
        router = router.route(path, metrics::all(exporter.clone())).route(
            &format!("/nodes/{{node}}{path}"),
            metrics::one(exporter.clone()),
        );
    }
    let router = router
        .route("/", get(index))
        .route("/health", get(healthy))
        .route("/self/metrics", get(about_self))
        .route("/sd", get(api::discovery))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/nodes", get(api::nodes))
        .route("/api/v1/nodes/{node}", get(api::node))
        .route("/api/v1/gpus", get(api::gpus))
        .route("/api/v1/workloads", get(api::workloads))
        .route("/api/v1/faults", get(api::faults))
        .route("/api/v1/events", get(api::events))
        .with_state(app.clone());
    finished(router)
}

/// A router with what all of ours have in common: answers for what is not there, and headers.
pub fn finished(router: Router) -> Router {
    router
        .fallback(no_such_page)
        .method_not_allowed_fallback(only_reads)
        .layer(middleware::from_fn(finish))
}

async fn healthy(State(app): State<Arc<App>>) -> Response {
    let available = (
        HeaderName::from_static("x-registry-available"),
        HeaderValue::from_static("true"),
    );
    let body = exporter::health(&app.attribution, &app.exporters, &app.health);
    ([available], body).into_response()
}

async fn about_self(State(app): State<Arc<App>>) -> String {
    exporter::self_metrics(&app.attribution, &app.exporters, &app.health)
}

/// What every answer carries.
async fn finish(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(
        HeaderName::from_static("x-content-type-options"),
        HeaderValue::from_static("nosniff"),
    );
    response
}

async fn no_such_page(uri: Uri) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    text(
        StatusCode::NOT_FOUND,
        format!("there is no {path} here; / lists what there is\n"),
    )
}

async fn only_reads(method: Method, uri: Uri) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    text(
        StatusCode::METHOD_NOT_ALLOWED,
        format!(
            "{method} {path}: this surface only reads; use GET or HEAD, and `mirage ctl` to \
             change things\n"
        ),
    )
}

async fn index(State(app): State<Arc<App>>) -> Html<String> {
    let gpus = app.gpus();
    let (nodes, first) = {
        let published = app.fleet.read();
        let first = published
            .nodes
            .first()
            .map(|node| node.node().name.to_owned());
        (published.nodes.len(), first.unwrap_or_default())
    };
    let mut links = vec!["/metrics".to_owned()];
    if !first.is_empty() {
        links.push(format!("/nodes/{first}/metrics"));
        links.push(format!("/api/v1/nodes/{first}"));
    }
    let fixed = [
        "/api/v1/status",
        "/api/v1/nodes",
        "/api/v1/gpus",
        "/api/v1/workloads",
        "/api/v1/faults",
        "/api/v1/events",
        "/sd",
        "/health",
        "/self/metrics",
    ];
    links.extend(fixed.map(str::to_owned));
    let items: String = links
        .iter()
        .map(|link| {
            let link = escape(link);
            format!("<li><a href=\"{link}\">{link}</a></li>\n")
        })
        .collect();
    Html(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>mirage</title></head>\n\
         <body>\n<h1>mirage</h1>\n<p>{} on {}.</p>\n\
         <ul>\n{items}</ul>\n</body></html>\n",
        counted(gpus, "simulated GPU"),
        counted(nodes, "node"),
    ))
}

/// `1 node`, `2 nodes`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A plain-text answer.
fn text(status: StatusCode, body: String) -> Response {
    let plain = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, plain, body).into_response()
}

/// The answer for a node that is not there.
fn no_such_node(name: &str) -> Response {
    let name: String = name.chars().take(100).collect();
    text(
        StatusCode::NOT_FOUND,
        format!("there is no node {name:?}; /api/v1/nodes lists those there are\n"),
    )
}
