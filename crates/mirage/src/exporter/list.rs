//! Where a field list comes from: a file, or a ConfigMap that is asked for again and again. The last good answer of an API
//! server stands for as long as it gives no other.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mirage_k8s::cluster::{Access, Client, configmap, connect};
use mirage_metrics::Selection;
use tokio::signal::unix::Signal;

use crate::cli::{say, usage};
use crate::reload::{Version, version};
use crate::source;

/// The key of a ConfigMap that the real exporter reads.
const KEY: &str = "metrics";
/// Time between two questions: a kubelet brings a mounted ConfigMap up to date about as often.
const EVERY: Duration = Duration::from_secs(30);

/// A field list's place.
#[derive(Debug, Clone)]
pub enum List {
    /// A file.
    File(PathBuf),
    /// A ConfigMap.
    Map(Arc<Map>),
}

/// What tells one edition of a list from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edition {
    File(Version),
    Map(u64),
}

impl List {
    /// The fields it names now.
    pub(super) fn read(&self) -> Result<Selection> {
        let (text, name) = match self {
            List::File(path) => (source::read(path)?, path.display().to_string()),
            List::Map(map) => (map.seen().text.clone(), map.to_string()),
        };
        Selection::parse_csv(&text, &name).map_err(usage)
    }

    /// The edition there is now; `None` if there is none.
    pub(super) fn edition(&self) -> Option<Edition> {
        match self {
            List::File(path) => version(path).map(Edition::File),
            List::Map(map) => Some(Edition::Map(map.seen().edition)),
        }
    }

    /// Why it may be out of date.
    pub(super) fn trouble(&self) -> Option<String> {
        match self {
            List::File(_) => None,
            List::Map(map) => map.seen().trouble.clone(),
        }
    }
}

/// A ConfigMap with a field list.
pub struct Map {
    client: Client,
    namespace: String,
    name: String,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    text: String,
    edition: u64,
    trouble: Option<String>,
}

impl Map {
    /// Asks for it for the first time. `place` is `NAMESPACE:NAME`.
    pub(super) async fn open(place: &str, access: &Access) -> Result<Map> {
        let (namespace, name) = place
            .split_once(':')
            .filter(|(namespace, name)| is_name(namespace) && is_name(name))
            .ok_or_else(|| {
                usage(format!(
                    "--configmap-data {place}: write NAMESPACE:NAME, as in monitoring:dcgm-fields"
                ))
            })?;
        let doing = || format!("--configmap-data {place}");
        let map = Map {
            client: connect(access).await.with_context(doing)?,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            seen: Mutex::default(),
        };
        let text = map.ask().await.map_err(|why| anyhow!(why));
        map.seen().text = text.with_context(doing)?;
        Ok(map)
    }

    /// Asks again for ever; at once after SIGHUP.
    pub(super) async fn follow(self: Arc<Self>, mut hangup: Signal) {
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            let answer = self.ask().await;
            let mut seen = self.seen();
            match answer {
                Ok(text) => {
                    seen.trouble = None;
                    if seen.text != text {
                        seen.text = text;
                        seen.edition += 1;
                    }
                }
                Err(why) => {
                    if seen.trouble.as_ref() != Some(&why) {
                        say(&format!("{why}; the fields it had stay in force"));
                    }
                    seen.trouble = Some(why);
                }
            }
        }
    }

    async fn ask(&self) -> Result<String, String> {
        configmap::text(&self.client, &self.namespace, &self.name, KEY).await
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConfigMap {}/{}", self.namespace, self.name)
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Whether Kubernetes would take a name: it becomes a part of a path.
fn is_name(text: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.')
}
