//! What connections want of the engine, gathered: however many come or go at once, the engine works out its world, and
//! publishes it, once for all of them. One gathering is under way at a time, so that a flood of workloads keeps nobody
//! else from the engine.

use mirage_model::config;
use mirage_sim::Input;
use tokio::sync::{mpsc, oneshot};

use super::ask;
use crate::engine::{Core, Engine};

/// Most orders that the engine is given at a time: ticks have to be in time.
const BATCH: usize = 256;

/// Something to be done to a workload.
#[derive(Debug, Clone)]
enum Order {
    /// Begin the one that this document describes.
    Begin(String),
    /// End the one of this name. One that has ended already is only forgotten.
    End(String),
}

/// What came of it; why not, if nothing did.
type Outcome = Result<(), String>;

/// Where orders are given.
#[derive(Debug, Clone)]
pub(super) struct Orders(mpsc::Sender<(Order, oneshot::Sender<Outcome>)>);

/// Where they are carried out.
#[derive(Debug)]
pub(super) struct Clerk(mpsc::Receiver<(Order, oneshot::Sender<Outcome>)>);

/// Both ends.
pub(super) fn desk() -> (Orders, Clerk) {
    let (orders, inbox) = mpsc::channel(BATCH);
    (Orders(orders), Clerk(inbox))
}

impl Orders {
    /// Begins a workload, or says why not.
    pub(super) async fn begin(&self, document: String) -> Outcome {
        self.give(Order::Begin(document)).await
    }

    /// Ends a workload and forgets it.
    pub(super) async fn end(&self, name: String) {
        // It is gone, or everything is.
        let _ = self.give(Order::End(name)).await;
    }

    async fn give(&self, order: Order) -> Outcome {
        let ending = || Err("the machine is ending".to_owned());
        let (told, outcome) = oneshot::channel();
        if self.0.send((order, told)).await.is_err() {
            return ending();
        }
        outcome.await.unwrap_or_else(|_| ending())
    }
}

impl Clerk {
    /// Carries out what comes, until the engine has stopped.
    pub(super) async fn work(mut self, engine: &Engine) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.0.recv_many(&mut batch, BATCH).await > 0 {
            let (orders, told): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
            let Some(outcomes) = ask(engine, move |core| carry_out(core, &orders)).await else {
                return;
            };
            for (told, outcome) in told.into_iter().zip(outcomes) {
                // A client may have left meanwhile.
                let _ = told.send(outcome);
            }
        }
    }
}

/// Carries orders out, in their order; an outcome for each.
fn carry_out(core: &mut Core, orders: &[Order]) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(orders.len());
    let mut inputs = Vec::with_capacity(orders.len());
    let mut places = Vec::with_capacity(orders.len());
    for order in orders {
        let input = match order {
            Order::Begin(document) => config::parse_workload(document, core.plan())
                .map(Input::AddWorkload)
                .map_err(|error| error.to_string()),
            Order::End(name) => Ok(Input::RemoveWorkload(name.clone())),
        };
        outcomes.push(input.map(|input| {
            places.push(outcomes.len());
            inputs.push(input);
        }));
    }
    for (place, answer) in places.into_iter().zip(core.apply(&inputs)) {
        outcomes[place] = answer.map(drop).map_err(|refusal| refusal.to_string());
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use mirage_model::config;

    use super::*;
    use crate::engine::Files;

    fn core() -> Core {
        let mut plan = config::demo("n", "a100-sxm4-40gb", 2, 1, 0).expect("a plan");
        plan.workloads.clear();
        Core::new(plan, 1.0, 0, 0, Files::default())
    }

    fn begin(name: &str, device: u32) -> Order {
        let activity = r#"[{"for": "60s", "utilization": "50"}]"#;
        Order::Begin(format!(
            r#"{{"name": "{name}", "devices": ["{device}"], "activity": {activity}}}"#
        ))
    }

    #[test]
    fn each_order_has_its_own_outcome() {
        let mut core = core();
        let end = |name: &str| Order::End(name.to_owned());
        let orders = [
            begin("a", 0),
            begin("b", 9),
            begin("c", 1),
            begin("a", 1),
            end("c"),
            end("nobody"),
            begin("c", 0),
        ];
        let outcomes = carry_out(&mut core, &orders);
        let good: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, false, true, false, true, false, true]);
        let names: Vec<_> = core
            .world()
            .workloads()
            .map(|w| w.name().to_owned())
            .collect();
        assert_eq!(names, ["a", "c"]);
        assert!(
            outcomes[1].as_ref().is_err_and(|why| why.contains('9')),
            "{outcomes:?}"
        );
    }

    #[tokio::test]
    async fn many_orders_are_few_publications() {
        let core = core();
        let fleet = core.fleet().clone();
        let (ended, _never) = oneshot::channel();
        let (engine, thread) = crate::engine::start(core, None, ended).expect("it starts");
        let (orders, clerk) = desk();
        // All of them wait before the first one is carried out.
        let waiting: Vec<_> = (0..BATCH)
            .map(|n| {
                let orders = orders.clone();
                tokio::spawn(async move {
                    let Order::Begin(document) = begin(&format!("w{n}"), 0) else {
                        unreachable!("it begins");
                    };
                    orders.begin(document).await
                })
            })
            .collect();
        while orders.0.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        let before = ask(&engine, |core| core.fleet().read().tick)
            .await
            .expect("it runs");
        let working = tokio::spawn({
            let engine = engine.clone();
            async move { clerk.work(&engine).await }
        });
        for order in waiting {
            order.await.expect("no panic").expect("it begins");
        }
        let published = fleet.read().tick - before;
        let seconds = ask(&engine, |core| core.now().as_secs())
            .await
            .expect("it runs");
        // Every tick is one, too.
        let most = seconds + BATCH as u64 / 8;
        assert!(published <= most, "{published} in {seconds} s");
        engine.stop();
        working.abort();
        thread.join().expect("no panic");
    }
}
