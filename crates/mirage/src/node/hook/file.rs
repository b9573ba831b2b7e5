//! Keeps `podlist.json`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mirage_k8s::podlist::write::{Entry, Writer};
use tokio::sync::watch;

use crate::node::Node;

/// The name of this part in `/health`.
const PART: &str = "pod list";
/// Time between attempts, and between looks whether the file is still there.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes every list, until the machine ends. The last one stays: its containers do not end with us.
pub(super) async fn keep(
    node: &Node,
    path: PathBuf,
    mut listed: watch::Receiver<Option<Arc<[Entry]>>>,
) {
    let health = &node.inside.health;
    let mut ending = node.inside.ending.clone();
    let mut writer: Option<Writer> = None;
    loop {
        let entries = listed.borrow_and_update().clone();
        let (held, path) = (writer.take(), path.clone());
        let written = tokio::task::spawn_blocking(move || write(held, path, entries)).await;
        match written {
            Ok(Ok(held)) => {
                writer = Some(held);
                health.good(PART);
            }
            Ok(Err(problem)) => health.trouble(PART, problem),
            Err(error) => health.trouble(PART, error),
        }
        tokio::select! {
            // An error would mean that nobody tells anything any more; then only the file is looked after.
            Ok(()) = listed.changed() => {}
            () = tokio::time::sleep(AGAIN) => {}
            _ = ending.wait_for(|end| *end) => return,
        }
    }
}

fn write(
    held: Option<Writer>,
    path: PathBuf,
    entries: Option<Arc<[Entry]>>,
) -> Result<Writer, String> {
    let told = |error: mirage_k8s::Error| match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    };
    let mut writer = match held {
        Some(writer) => writer,
        None => Writer::open(&path).map_err(told)?,
    };
    // What an earlier run left stands until the runtime has spoken.
    let entries = entries.unwrap_or_else(|| writer.entries().into());
    writer.write(&entries).map_err(told)?;
    Ok(writer)
}
