//! `mirage controller` as a process, against an API server that is nothing but a store.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

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

#[tokio::test]
async fn one_that_is_told_to_end_gives_the_lease_back() {
    let store = Store::start().await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    store.kubeconfig(&kubeconfig);
    let mut controller = Command::new(env!("CARGO_BIN_EXE_mirage"));
    controller
        .args(["controller", "--namespace=mirage", "--lease-identity=me"])
        .args(["--listen=127.0.0.1:0", "--topology-listen=127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .arg("--state-dir")
        .arg(directory.path().join("state"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut controller = Ended(controller.spawn().unwrap());
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
