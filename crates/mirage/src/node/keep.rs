//! Keeps a part going: one that panics is told in `/health` and begins anew, and no other notices.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::health::Health;

/// Time until a part that has panicked begins anew.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs a part until it ends by itself, or panics while the machine ends.
pub(super) async fn keep<F>(
    health: Arc<Health>,
    mut ending: watch::Receiver<bool>,
    name: &'static str,
    part: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    // A task of its own: a panic ends no more than that.
    while let Err(ended) = tokio::spawn(part()).await {
        let Ok(panic) = ended.try_into_panic() else {
            return;
        };
        health.trouble(name, format!("it has panicked: {}", words(&*panic)));
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_part_that_panics_is_told_and_begins_anew() {
        let health = Arc::new(Health::default());
        let (_end, ending) = watch::channel(false);
        let (begun, troubled) = (AtomicU32::new(0), health.clone());
        let part = || {
            let time = begun.fetch_add(1, Ordering::Relaxed);
            let health = troubled.clone();
            async move {
                assert!(time > 0, "time {time}");
                let told = [("part", Some("it has panicked: time 0".to_owned()))];
                assert_eq!(health.parts_now(), told);
            }
        };
        keep(health.clone(), ending, "part", part).await;
        assert_eq!(begun.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn it_does_not_begin_anew_when_all_ends() {
        let health = Arc::new(Health::default());
        let (_end, ending) = watch::channel(true);
        keep(health, ending, "part", || async { panic!("at the end") }).await;
    }
}
