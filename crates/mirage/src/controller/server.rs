//! The topology over HTTP, as fake-gpu-operator's topology server answers: JSON with Go's names.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mirage_k8s::controller::Wanted;
use mirage_k8s::controller::run::Shared;
use mirage_k8s::topology::{Cluster, Style};

use crate::http::{self, Limits};
use crate::machine::Inside;

/// Serves until the machine ends.
pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, inside: Inside) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            inside.health.trouble("topology-server", error);
            return std::future::pending().await;
        }
    };
    inside.health.good("topology-server");
    let router = router(shared);
    http::serve(listener, router, Limits::default(), inside.ending).await;
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/topology", get(cluster))
        .route("/topology/nodes/", get(nameless))
        .route("/topology/nodes/{node}", get(node))
        .route("/self/metrics", get(writes))
        .with_state(shared)
}

async fn cluster(State(shared): State<Arc<Shared>>) -> Response {
    let wanted = shared.look(|controller| controller.wanted.as_ref().map(Wanted::cluster));
    let cluster: Cluster = wanted.unwrap_or_default();
    json(cluster.value(Style::Go).to_string())
}

async fn node(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Response {
    let found =
        shared.look(|controller| controller.document(&name).map(|node| node.value(Style::Go)));
    match found {
        Some(value) => json(value.to_string()),
        None => (StatusCode::NOT_FOUND, "Node topology not found\n").into_response(),
    }
}

async fn nameless() -> Response {
    (StatusCode::BAD_REQUEST, "Node name is required\n").into_response()
}

/// How often the controller has written, and what.
async fn writes(State(shared): State<Arc<Shared>>) -> Response {
    let mut page = String::from(
        "# HELP mirage_api_writes_total Requests to the API server that write.\n\
         # TYPE mirage_api_writes_total counter\n",
    );
    for (kind, count) in shared.writes() {
        page += &format!("mirage_api_writes_total{{kind=\"{kind}\"}} {count}\n");
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

fn json(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use axum::body::to_bytes;
    use mirage_k8s::controller::Settings;

    use super::*;

    async fn text(response: Response) -> (StatusCode, String) {
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn clients_find_what_they_know() {
        let shared = Shared::new(Settings::default());
        let pools =
            "nodePools:\n  default: { gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441 }\n";
        shared.want(pools, "topology").unwrap();
        let (status, body) = text(cluster(State(shared.clone())).await).await;
        assert_eq!(status, StatusCode::OK);
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["NodePools"]["default"]["GpuCount"], 2);
        assert_eq!(value["NodePoolLabelKey"], "run.ai/simulated-gpu-node-pool");
        let (status, body) = text(node(State(shared), Path("absent".into())).await).await;
        assert_eq!(
            (status, &*body),
            (StatusCode::NOT_FOUND, "Node topology not found\n")
        );
        assert_eq!(text(nameless().await).await.0, StatusCode::BAD_REQUEST);
    }
}
