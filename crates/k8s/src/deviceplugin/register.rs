//! Telling the kubelet of a resource.

use std::path::Path;
use std::time::Duration;

use tonic::transport::Endpoint;

use super::generated::RegisterRequest;
use super::generated::registration_client::RegistrationClient;
use super::service::OPTIONS;
use crate::error::{chain, printable};

/// Most time a registration may take: the kubelet connects back within it, which it gives 10 seconds.
const DEADLINE: Duration = Duration::from_secs(15);

/// Registers once; the error is a line for people.
pub(super) async fn register(
    kubelet: &Path,
    resource: &str,
    socket: &str,
    version: &str,
) -> Result<(), String> {
    let at = kubelet.display();
    let told = tokio::time::timeout(DEADLINE, tell(kubelet, resource, socket, version)).await;
    match told {
        Ok(Ok(())) => Ok(()),
        Ok(Err(problem)) => Err(format!("registering {resource} at {at}: {problem}")),
        Err(_) => Err(format!(
            "registering {resource} at {at}: no answer within {DEADLINE:?}"
        )),
    }
}

async fn tell(kubelet: &Path, resource: &str, socket: &str, version: &str) -> Result<(), String> {
    let path = kubelet.to_str().ok_or("the path is not UTF-8")?;
    let channel = Endpoint::from_shared(format!("unix:{path}"))
        .map_err(|error| chain(&error))?
        .connect()
        .await
        .map_err(|error| chain(&error))?;
    let request = RegisterRequest {
        version: version.into(),
        endpoint: socket.into(),
        resource_name: resource.into(),
        options: Some(OPTIONS),
    };
    let answer = RegistrationClient::new(channel).register(request).await;
    answer
        .map(|_| ())
        .map_err(|status| format!("{:?}: {}", status.code(), printable(status.message())))
}
