//! One write to the API server.

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::{Api, Client};
use serde_json::Value;
use tonic::codegen::http::{HeaderValue, header::ACCEPT};

use crate::cluster::own::{self, About};
use crate::cluster::tell;
use crate::controller::MANAGER;
use crate::controller::body::Write;
use crate::error::chain;
use crate::topology::object_name;

/// The part of an object that has a path of its own.
const STATUS: Option<&str> = Some("status");
/// What is asked for in answer to a patch. The watch tells of the rest.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Writes. What is gone already, or gone before it could be written to, is no failure: the watch tells of it.
pub(super) async fn write(client: &Client, namespace: &str, write: &Write) -> Result<(), String> {
    let apply = PatchParams::apply(MANAGER).force();
    // By this name it is known, when everything is taken back, who wrote it.
    let merge = PatchParams {
        field_manager: Some(MANAGER.into()),
        ..PatchParams::default()
    };
    let maps = || Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let nodes = || Api::<Node>::all(client.clone());
    let (what, outcome) = match write {
        Write::Document { node, body } => {
            let name = object_name(node);
            let done = patch(client, &maps(), &name, None, &apply, &Patch::Apply(body)).await;
            (format!("writing ConfigMap {name}"), done)
        }
        Write::NoDocument { node } => {
            let name = object_name(node);
            let done = maps().delete(&name, &DeleteParams::default()).await;
            (format!("deleting ConfigMap {name}"), done.map(drop))
        }
        Write::NewNode { node, body } => {
            let what = format!("making node {node}");
            let done = match serde_json::from_value(body.clone()) {
                Ok(object) => nodes().create(&PostParams::default(), &object).await,
                Err(error) => return Err(format!("{what}: {error}")),
            };
            let done = match done {
                // Another was faster, or the watch is late.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                done => done.map(drop),
            };
            (what, done)
        }
        Write::Cordon { node, body } => {
            let done = patch(client, &nodes(), node, None, &apply, &Patch::Apply(body)).await;
            (format!("cordoning node {node}"), done)
        }
        Write::NoNode { node, uid } => {
            let done = nodes().delete(node, &only(uid)).await;
            (format!("deleting node {node}"), done.map(drop))
        }
        Write::Node { node, body } => {
            let done = patch(client, &nodes(), node, STATUS, &apply, &Patch::Apply(body)).await;
            (format!("writing node {node}"), done)
        }
        Write::Pod {
            namespace,
            name,
            body,
        } => {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            let done = patch(client, &pods, name, None, &merge, &Patch::Merge(body)).await;
            (format!("annotating pod {namespace}/{name}"), done)
        }
        Write::PodStatus {
            namespace,
            name,
            body,
        } => {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            let done = patch(client, &pods, name, STATUS, &merge, &Patch::Strategic(body)).await;
            (
                format!("writing the status of pod {namespace}/{name}"),
                done,
            )
        }
        Write::NoPod {
            namespace,
            name,
            uid,
        } => {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            let done = pods.delete(name, &only(uid).grace_period(0)).await;
            (format!("deleting pod {namespace}/{name}"), done.map(drop))
        }
        Write::Warning {
            node,
            uid,
            bound,
            complaint,
        } => {
            return match bound {
                Some(bound) => tell::warn(client.clone(), node, &bound.pod, complaint).await,
                None => own::warn(client, node, About::Node(node, uid), complaint).await,
            };
        }
    };
    match outcome {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(format!("{what}: {}", chain(&error))),
        Ok(()) => Ok(()),
    }
}

/// Patches an object, or a part of it. The answer is its metadata alone: to send the whole of it back costs the server time, and
/// nobody looks at it.
pub(super) async fn patch<K: kube::Resource>(
    client: &Client,
    api: &Api<K>,
    name: &str,
    part: Option<&str>,
    how: &PatchParams,
    body: &Patch<&Value>,
) -> Result<(), kube::Error> {
    let request = Request::new(api.resource_url());
    let built = match part {
        Some(part) => request.patch_subresource(part, name, how, body),
        None => request.patch(name, how, body),
    };
    let mut request = built.map_err(kube::Error::BuildRequest)?;
    request
        .headers_mut()
        .insert(ACCEPT, HeaderValue::from_static(METADATA));
    client.request_text(request).await.map(drop)
}

/// Only the one with this UID.
fn only(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    }
}
