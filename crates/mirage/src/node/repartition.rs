//! MIG on demand: the node's GPUs are cut as its labels ask, as NVIDIA's MIG manager does it, and as a scheduler with dynamic MIG wants it.
//!
//! | On the node | Effect |
//! |---|---|
//! | label `nvidia.com/mig.config` | the layout of that name, of the file or of mig-parted's usual ones |
//! | both roles of dynamic MIG and `run.ai/mig.config` | the layout written there, and the answer `run.ai/mig-mapping` |
//!
//! `nvidia.com/mig.config.state` says how far it is. MIG devices in use are never taken away: the request fails, an Event names the
//! pod, and it is tried again until the pod is gone.

mod cut;

use std::path::Path;
use std::time::Duration;

use mirage_k8s::cluster::node::Labels;
use mirage_k8s::cluster::own::{About, Own, answer, warn};
use mirage_k8s::cluster::tell::Complaint;
use mirage_k8s::migconfig::{self, Layout};
use mirage_model::board::Board;
use mirage_state::layout::text;

use self::cut::Refusal;
use super::Node;
use super::asked::AskedArgs;
use super::topology::{ask, in_hands};
use crate::cli::say;

/// Its name in `/health`.
pub(super) const PART: &str = "mig-manager";
/// Name under which the answers are written.
pub(super) const MANAGER: &str = "mirage-mig-manager";
/// Pause after something went wrong with the server.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time that the kubelet is waited for when it is asked who has what.
const ASKING: Duration = Duration::from_secs(2);

/// What is asked of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    /// A layout by name.
    Named(String),
    /// A layout as a document, from a scheduler that wants to know the devices' ids.
    Written(String),
}

impl Request {
    fn of(own: &Own) -> Option<Request> {
        if migconfig::is_dynamic(&own.labels)
            && let Some(text) = own.either(migconfig::CONFIG)
        {
            return Some(Request::Written(text.to_owned()));
        }
        let name = own.labels.get(migconfig::NAMED)?;
        Some(Request::Named(name.clone()))
    }

    /// Who reads it knows which label or annotation is meant.
    fn shown(&self) -> String {
        match self {
            Request::Named(name) => format!("{}={name}", migconfig::NAMED),
            Request::Written(_) => migconfig::CONFIG.to_owned(),
        }
    }

    /// What it means for boards of this kind.
    fn layout(&self, board: &Board, file: Option<&str>) -> Result<Layout, String> {
        let read = match (self, file) {
            (Request::Written(text), _) => migconfig::read(text),
            (Request::Named(name), Some(file)) => {
                match migconfig::pick(file, name, board.pci_device_id) {
                    Ok(Some(layout)) => Ok(layout),
                    Ok(None) => migconfig::named(name, board),
                    Err(error) => Err(error),
                }
            }
            (Request::Named(name), None) => migconfig::named(name, board),
        };
        read.map_err(|error| error.to_string())
    }
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// Done; with the mapping, if it was asked for.
    Done(Option<String>),
    /// Pods are in the way, or it makes no sense.
    Failed(String),
    /// Something is about to get out of the way.
    Waits,
}

impl Outcome {
    /// What is written on the node.
    fn words(&self) -> (Labels, Labels) {
        let state = match self {
            Outcome::Done(_) => "success",
            Outcome::Failed(_) => "failed",
            Outcome::Waits => "pending",
        };
        let labels = Labels::from([(migconfig::STATE.to_owned(), state.to_owned())]);
        let mapping = match self {
            Outcome::Done(Some(mapping)) => Some((migconfig::MAPPING.to_owned(), mapping.clone())),
            _ => None,
        };
        (labels, mapping.into_iter().collect())
    }
}

/// Runs until the machine ends.
pub(super) async fn run(node: Node, args: &AskedArgs) {
    if !args.mig_manager {
        return;
    }
    let mut ending = node.inside.ending.clone();
    tokio::select! {
        _ = ending.wait_for(|ending| *ending) => {}
        () = work(&node, args.mig_config_file.as_deref(), args.topology.is_none()) => {}
    }
}

/// What was last asked of which GPUs, and what came of it.
type Last = (Option<Request>, Vec<String>, Option<Outcome>);

async fn work(node: &Node, file: Option<&Path>, is_alone: bool) {
    let mut own = node.own.clone();
    let mut ticks = node.inside.fleet.changes();
    let mut last: Option<Last> = None;
    // What was written last, and what it was written over.
    let mut written: Option<(Labels, Labels)> = None;
    loop {
        ticks.borrow_and_update();
        let object = own.borrow_and_update().clone();
        if let (Some(object), Some(gpus)) = (object, gpus(node)) {
            if is_alone {
                dynamic(node, migconfig::is_dynamic(&object.labels)).await;
            }
            let request = Request::of(&object);
            let settled = last.as_ref().is_some_and(|(asked, of, outcome)| {
                let again = matches!(outcome, Some(Outcome::Failed(_) | Outcome::Waits));
                (asked, of) == (&request, &gpus) && !again
            });
            let round = Round {
                node,
                own: &object,
                file,
            };
            let outcome = match (&request, settled) {
                (_, true) => Ok(last.as_ref().and_then(|(.., outcome)| outcome.clone())),
                (None, false) => Ok(None),
                (Some(request), false) => {
                    let is_new = last.as_ref().is_none_or(|(asked, of, _)| {
                        (asked.as_ref(), of) != (Some(request), &gpus)
                    });
                    round.go(request, is_new, &mut written).await.map(Some)
                }
            };
            let said = match &outcome {
                Ok(outcome) => round.say(outcome.as_ref(), &mut written).await,
                Err(why) => Err(why.clone()),
            };
            match said {
                Ok(()) => node.inside.health.good(PART),
                Err(why) => {
                    node.inside.health.trouble(PART, why);
                    tokio::time::sleep(PAUSE).await;
                }
            }
            if let Ok(outcome) = outcome {
                last = Some((request, gpus, outcome));
            }
        }
        let gone = tokio::select! {
            changed = own.changed() => changed.is_err(),
            changed = ticks.changed() => changed.is_err(),
        };
        if gone {
            return;
        }
    }
}

/// Ids of the node's GPUs, with what they are.
fn gpus(node: &Node) -> Option<Vec<String>> {
    let image = node.image()?;
    let boards = &image.statics.boards;
    let gpus = image.cards.iter().map(|card| {
        let board = boards.get(card.board as usize);
        let name = board.map_or("", |board| text(&board.name));
        format!("{} {name}", text(&card.uuid))
    });
    Some(gpus.collect())
}

/// Lets the exporter show MIG devices as the dynamic-MIG design has them, on nodes that have its roles.
async fn dynamic(node: &Node, wanted: bool) {
    let name = node.name.clone();
    let job = move |core: &mut crate::engine::Core| {
        let at =
            |node: &&mut mirage_model::plan::NodePlan| *node.name == *name && !node.dynamic_mig;
        let mut plan = (**core.plan()).clone();
        if wanted && let Some(one) = plan.nodes.iter_mut().find(at) {
            one.dynamic_mig = true;
            core.reconfigure(plan);
        }
    };
    if wanted {
        ask(node, job).await;
    }
}

/// One look.
struct Round<'a> {
    node: &'a Node,
    own: &'a Own,
    file: Option<&'a Path>,
}

impl Round<'_> {
    /// Cuts the GPUs as asked, and says first that it is about to.
    async fn go(
        &self,
        request: &Request,
        is_new: bool,
        written: &mut Option<(Labels, Labels)>,
    ) -> Result<Outcome, String> {
        let node = self.node;
        let file = match self.file {
            None => None,
            Some(path) => {
                let path = path.to_owned();
                let read = tokio::task::spawn_blocking(move || crate::source::read(&path)).await;
                let read = read.map_err(|error| error.to_string())?;
                Some(read.map_err(|error| format!("{error:#}"))?)
            }
        };
        let (name, asked) = (node.name.clone(), request.clone());
        let looked = ask(node, move |core| {
            let at = cut::position(core, &name)?;
            let gpus = core.plan().nodes.get(at).map(|node| &node.gpus);
            let Some(board) = gpus.and_then(|gpus| gpus.first()).map(|gpu| &gpu.board) else {
                return Err("the node has no GPUs".to_owned());
            };
            let layout = asked.layout(board, file.as_deref())?;
            cut::steps(core, at, &layout).map(|steps| (layout, steps.is_empty()))
        });
        let layout = match looked.await {
            Err(why) => return Ok(Outcome::Failed(why)),
            Ok((layout, true)) => layout,
            Ok((layout, false)) => {
                if is_new {
                    self.say(Some(&Outcome::Waits), written).await?;
                }
                // The kubelet knows best, and now.
                let _ = tokio::time::timeout(ASKING, node.inside.attribution.refresh()).await;
                let held = in_hands(node);
                let (name, wanted) = (node.name.clone(), layout.clone());
                let done = ask(node, move |core| cut::apply(core, &name, &wanted, &held)).await;
                match done {
                    Ok(()) => say(&format!("{PART}: {} is done", request.shown())),
                    Err(Refusal::Soon) => return Ok(Outcome::Waits),
                    Err(Refusal::No(why)) => return Ok(Outcome::Failed(why)),
                }
                layout
            }
        };
        let maps = matches!(request, Request::Written(_));
        let name = node.name.clone();
        let mapping = ask(node, move |core| cut::mapping(core, &name, &layout)).await;
        Ok(Outcome::Done(maps.then_some(mapping)))
    }

    /// Writes the answer, unless it stands there.
    async fn say(
        &self,
        outcome: Option<&Outcome>,
        written: &mut Option<(Labels, Labels)>,
    ) -> Result<(), String> {
        let (labels, annotations) = outcome.map(Outcome::words).unwrap_or_default();
        let own = self.own;
        let stands = |wanted: &Labels, seen: &Labels| {
            wanted
                .iter()
                .all(|(key, value)| seen.get(key) == Some(value))
        };
        let left = outcome.is_none()
            && written.is_none()
            && (own.labels.contains_key(migconfig::STATE)
                || own.annotations.contains_key(migconfig::MAPPING));
        let reflected =
            stands(&labels, &own.labels) && stands(&annotations, &own.annotations) && !left;
        let wanted = (labels, annotations);
        let known = match written {
            Some(before) => *before == wanted,
            None => reflected,
        };
        if known {
            *written = Some(wanted);
            return Ok(());
        }
        let client = self.node.cluster.reached().await;
        if let Some(Outcome::Failed(why)) = outcome {
            self.complain(why).await;
        }
        answer(&client, &self.node.name, MANAGER, &wanted.0, &wanted.1).await?;
        *written = Some(wanted);
        Ok(())
    }

    /// Says on the node why a request failed.
    async fn complain(&self, why: &str) {
        let shown = Request::of(self.own).map(|request| request.shown());
        let message = format!("{}: {why}", shown.unwrap_or_default());
        say(&format!("{PART}: {message}"));
        let complaint = Complaint {
            reason: "MigConfigFailed",
            message,
        };
        let about = About::Node(&self.node.name, &self.own.uid);
        let client = self.node.cluster.reached().await;
        if let Err(error) = warn(&client, &self.node.name, about, &complaint).await {
            say(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn own(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Own {
        let map = |list: &[(&str, &str)]| {
            let pairs = list.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
            pairs.collect()
        };
        Own {
            labels: map(labels),
            annotations: map(annotations),
            ..Own::default()
        }
    }

    #[test]
    fn a_document_counts_on_nodes_with_both_roles_only() {
        let [dynamic, enabled] = migconfig::ROLES;
        let written = [(migconfig::CONFIG, "mig-configs: {}")];
        let named = (migconfig::NAMED, "all-1g.5gb");
        let both = own(&[(dynamic, "true"), (enabled, "true"), named], &written);
        assert!(matches!(Request::of(&both), Some(Request::Written(_))));
        let one = own(&[(dynamic, "true"), named], &written);
        assert_eq!(Request::of(&one), Some(Request::Named("all-1g.5gb".into())));
        assert_eq!(Request::of(&own(&[(dynamic, "true")], &written)), None);
    }

    #[test]
    fn a_name_means_the_files_layout_before_the_usual_one() {
        let board = mirage_model::catalogue::find("a100-sxm4-40gb").unwrap();
        let file = "mig-configs:\n  all-balanced: [{ devices: [0], mig-enabled: false }]\n";
        let ask = |name: &str| Request::Named(name.into()).layout(&board, Some(file));
        assert!(ask("all-balanced").unwrap().all.is_none());
        assert_eq!(ask("all-1g.5gb").unwrap().all.unwrap().devices.len(), 7);
        assert!(ask("halves").unwrap_err().contains("halves"));
    }

    #[test]
    fn the_answer_has_ids_only_when_it_is_done() {
        let (labels, annotations) = Outcome::Done(Some("e30=".into())).words();
        assert_eq!(labels[migconfig::STATE], "success");
        assert_eq!(annotations[migconfig::MAPPING], "e30=");
        let (labels, annotations) = Outcome::Failed("why".into()).words();
        assert_eq!(labels[migconfig::STATE], "failed");
        assert!(annotations.is_empty());
    }
}
