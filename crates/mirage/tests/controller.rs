//! `mirage controller` as a process, against an API server that is nothing but a store.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

#[path = "../../k8s/tests/support/store.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod store;

use store::Store;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/mirage/leases/mirage-controller";
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the process when the test does.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn holder(store: &Store) -> Option<String> {
    let holder = &store.get(LEASE)?["spec"]["holderIdentity"];
    Some(Value::as_str(holder).unwrap_or_default().to_owned())
}

/// Starts a controller with a server of its own and these words more.
fn start(store: &Store, directory: &Path, more: &[&str]) -> Ended {
    let kubeconfig = directory.join("kubeconfig");
    store.kubeconfig(&kubeconfig);
    let mut controller = Command::new(env!("CARGO_BIN_EXE_mirage"));
    controller
        .args(["controller", "--namespace=mirage", "--lease-identity=me"])
        .args(["--listen=127.0.0.1:0", "--topology-listen=127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .arg("--state-dir")
        .arg(directory.join("state"))
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ended(controller.spawn().unwrap())
}

#[tokio::test]
async fn one_that_is_told_to_end_gives_the_lease_back() {
    let store = Store::start().await;
    let directory = tempfile::tempdir().unwrap();
    let mut controller = start(&store, directory.path(), &[]);
    until("the lease", || {
        holder(&store).filter(|holder| holder == "me")
    })
    .await;
    let id = controller.0.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    let status = until("its end", || controller.0.try_wait().unwrap()).await;
    assert!(status.success(), "{status}");
    assert_eq!(holder(&store).as_deref(), Some(""), "it kept the lease");
}

#[tokio::test]
async fn a_prometheus_is_asked_for_requests() {
    let store = Store::start().await;
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base", listener.local_addr().unwrap());
    let _controller = start(&store, directory.path(), &["--prometheus", &url]);
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept())
        .await
        .expect("it asks")
        .unwrap();
    let mut asked = String::new();
    let mut reader = BufReader::new(&mut stream);
    reader.read_line(&mut asked).await.unwrap();
    assert!(
        asked.starts_with("GET /base/api/v1/query?query=sum%20by"),
        "{asked}"
    );
}

#[test]
fn a_prometheus_without_an_address_is_a_mistake() {
    for role in ["controller", "node"] {
        let output = Command::new(env!("CARGO_BIN_EXE_mirage"))
            .args([role, "--prometheus", "prometheus"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("http://host:port"), "{said}");
    }
}
