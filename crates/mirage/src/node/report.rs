//! `topology-<node>`: who has which of this node's GPUs, as a document for the cluster. Written when it changes, by one write, and
//! looked at once a minute, as somebody else may have changed it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mirage_k8s::cluster::own::{self, Own};
use mirage_k8s::migconfig;
use mirage_k8s::topology::report::{Facts, held, report};
use mirage_k8s::topology::{Reporter, object, object_name};
use mirage_k8s::usage::{self, Known};
use mirage_model::plan::MigStrategy;

use super::Node;
use super::asked::{AskedArgs, Place};
use super::plugin::PluginArgs;
use super::topology::ask;

/// Its name in `/health`.
pub(super) const PART: &str = "report";
/// Time between two looks at what stands there.
const EVERY: Duration = Duration::from_secs(60);
/// Shortest and longest pause after something went wrong.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &AskedArgs, plugin: &PluginArgs) {
    let Some(place) = args.topology.as_ref().filter(|_| !args.no_report) else {
        return;
    };
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = work(&node, args, place, plugin.offered().0) => {}
    }
}

async fn work(node: &Node, args: &AskedArgs, place: &Place, strategy: Option<MigStrategy>) {
    node.cluster.settle().await;
    let mut ticks = node.inside.fleet.changes();
    let mut pause = PAUSES.0;
    // What was written or found last, of which node object, and when.
    let mut stands: Option<(String, String, Instant)> = None;
    loop {
        ticks.borrow_and_update();
        let own = node.own.borrow().clone();
        if let Some(own) = own
            && let Some(text) = document(node, args, &own, strategy).await
        {
            let fresh = stands.as_ref().is_some_and(|(uid, known, when)| {
                (uid, known) == (&own.uid, &text) && when.elapsed() < EVERY
            });
            if !fresh {
                let known = stands.take().filter(|(uid, ..)| *uid == own.uid);
                match write(node, place, &own, &text, known.map(|(_, known, _)| known)).await {
                    Ok(()) => {
                        node.inside.health.good(PART);
                        stands = Some((own.uid, text, Instant::now()));
                        pause = PAUSES.0;
                    }
                    Err(why) => {
                        node.inside.health.trouble(PART, why);
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(PAUSES.1);
                    }
                }
            }
        }
        if ticks.changed().await.is_err() {
            return;
        }
    }
}

/// The document as it ought to stand; nothing before all that goes into it is known.
async fn document(
    node: &Node,
    args: &AskedArgs,
    own: &Own,
    strategy: Option<MigStrategy>,
) -> Option<String> {
    if !node.cluster.pods().is_complete() {
        return None;
    }
    let name = node.name.clone();
    let (others, planned) = ask(node, move |core| {
        let plan = core.plan();
        let found = plan.nodes.iter().find(|node| *node.name == *name);
        let extras = found.and_then(|node| node.extras.as_deref());
        let others = extras.map_or_else(Vec::new, |extras| extras.resources.clone());
        (others, plan.mig_strategy)
    })
    .await;
    let image = node.image()?;
    let attribution = &node.inside.attribution;
    let (claims, pods) = (attribution.claims(), node.cluster.pods().all());
    let (classes, rates) = (node.cluster.classes(), node.cluster.rates());
    let known = Known::Pods(&pods, &classes, &rates);
    let usage = usage::read(&claims, known, &image, attribution.filter());
    let facts = Facts {
        held: &held(&claims, Some(&pods), &image),
        busy: &usage.busy,
        strategy: match strategy.unwrap_or(planned) {
            MigStrategy::None => "none",
            MigStrategy::Single => "single",
            MigStrategy::Mixed => "mixed",
        },
        dynamic_mig: migconfig::is_dynamic(&own.labels),
        others: &others,
    };
    Some(report(&image, facts).yaml(args.topology_style.style()))
}

/// Writes the document, unless it stands there: known to have been `before`, it is another now, and need not be read first.
async fn write(
    node: &Node,
    place: &Place,
    own: &Own,
    text: &str,
    before: Option<String>,
) -> Result<(), String> {
    let client = node.cluster.reached().await;
    let (namespace, name) = (&*place.namespace, object_name(&node.name));
    if before.is_none_or(|before| before == text) {
        let found = own::read(&client, namespace, &name).await?;
        if found.as_deref() == Some(text) {
            return Ok(());
        }
    }
    let none = BTreeMap::new();
    let body = object(Reporter::Node, namespace, &node.name, &own.uid, &none, text);
    own::write(&client, namespace, &name, &body).await
}
