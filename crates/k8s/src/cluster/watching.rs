//! Watches that last: what the server tells, its trouble, and the end of its trouble.
//!
//! A watch that broke is begun again where it was, and then has nothing to say until something changes, which may be never. So while
//! there is trouble the server is asked now and then whether it answers.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt, unfold};
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::{WATCH, answered};
use crate::error::chain;

/// How long a watch may say nothing, while there is trouble, before the server is asked.
const PAUSE: Duration = Duration::from_secs(2);

/// What comes of a watch.
#[derive(Debug)]
pub enum Heard<K> {
    /// What the server tells.
    Event(Event<K>),
    /// It cannot be asked, and why; it is asked again.
    Trouble(String),
    /// It can be asked: for the first time, or again.
    Well,
}

/// Watches for ever; `what` is what its trouble is called.
pub fn begin<K>(api: Api<K>, config: Config, what: String) -> impl Stream<Item = Heard<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut question = ListParams::default().limit(1);
    question.label_selector.clone_from(&config.label_selector);
    question.field_selector.clone_from(&config.field_selector);
    let events = watcher(api.clone(), config.timeout(WATCH)).default_backoff();
    let watch = Watch {
        api,
        question,
        what,
        events: events.boxed(),
        is_well: false,
        next: None,
    };
    unfold(watch, |mut watch| async {
        let heard = watch.next().await?;
        Some((heard, watch))
    })
}

struct Watch<K> {
    api: Api<K>,
    question: ListParams,
    what: String,
    events: Pin<Box<dyn Stream<Item = Result<Event<K>, Error>> + Send>>,
    is_well: bool,
    /// Comes after the news that all is well.
    next: Option<Event<K>>,
}

impl<K> Watch<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(&mut self) -> Option<Heard<K>> {
        if let Some(event) = self.next.take() {
            return Some(Heard::Event(event));
        }
        let event = if self.is_well {
            self.events.next().await?
        } else {
            loop {
                match tokio::time::timeout(PAUSE, self.events.next()).await {
                    Ok(event) => break event?,
                    Err(_) if answers(self.api.clone(), self.question.clone()).await => {
                        self.is_well = true;
                        return Some(Heard::Well);
                    }
                    Err(_) => {}
                }
            }
        };
        Some(match event {
            Err(error) => {
                self.is_well = false;
                Heard::Trouble(format!("{}: {}", self.what, chain(&error)))
            }
            // It is about to list: nothing has been answered yet.
            Ok(Event::Init) => Heard::Event(Event::Init),
            Ok(event) if self.is_well => Heard::Event(event),
            Ok(event) => {
                self.is_well = true;
                self.next = Some(event);
                Heard::Well
            }
        })
    }
}

async fn answers<K>(api: Api<K>, question: ListParams) -> bool
where
    K: Clone + DeserializeOwned + Debug,
{
    let question = api.list_metadata(&question);
    answered(String::new, question).await.is_ok()
}
