//! Who uses which GPU: what kubelets, pod lists and batch schedulers say, laid over what the engine knows.
//!
//! Every source is asked once a second, on its own and never while a scrape waits, and its answer counts when it is there:
//! one that takes long delays no other, and one that takes too long is broken. A source that breaks keeps its last good answer for as long as it has patience (`--pod-source-patience`), and meanwhile says so in `/health` and
//! `/self/metrics`; after that its pods are gone. Whatever a source does, pages stay whole.
//!
//! What is known of pods beside what they hold (UIDs, labels) comes from pod lists, and from whoever follows pods
//! and calls [`Attribution::tell_pods`].

mod jobs;
mod labels;
mod ledger;

pub use self::labels::LabelFilter;
pub use mirage_k8s::PodFacts;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use clap::ArgAction;
use clap::builder::BoolishValueParser;
use mirage_k8s::podresources::Filter;
use mirage_k8s::{Claims, Grant, IdType, podlist, podresources};
use mirage_metrics::{ClaimNote, Notes, PodNote, Subject};
use mirage_state::Image;
use mirage_state::layout::TextRef;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::ledger::{Ledger, Report, Said};
use crate::cli::say;
use crate::machine::duration;

/// Time between two questions to a source. A kubelet takes a hundred a second.
const EVERY: Duration = Duration::from_secs(1);

/// Most time an answer may take; dcgm-exporter's.
const LIMIT: Duration = Duration::from_secs(10);

/// Sources of pods, as the command line names them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Pods")]
pub struct PodSourceArgs {
    /// Ask this kubelet socket which pods hold which GPUs
    #[arg(long, value_name = "SOCKET")]
    pub pod_resources: Option<PathBuf>,
    /// Read which pods hold which GPUs from this podlist.json, or from the directory that holds it
    #[arg(long, value_name = "FILE")]
    pub pod_list: Option<PathBuf>,
    /// How long a broken source's last answer stands
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub pod_source_patience: Duration,
    /// The node whose `nvidia0`, indices and minors the sources mean [default: the only node]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub pod_node: Option<String>,
    /// Resources that are GPUs, beside nvidia.com/gpu and nvidia.com/mig-…
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        env = "NVIDIA_RESOURCE_NAMES"
    )]
    pub nvidia_resource_names: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it as the heading")]
    pub more: DetailArgs,
}

/// What is shown of pods beside their names, and jobs: flags of dcgm-exporter that every role takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Pods")]
pub struct DetailArgs {
    /// Add the labels of pods, of those the pod list or the API server tells of
    #[arg(long, env = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_value = "false", hide_default_value = true,
          default_missing_value = "true", hide_possible_values = true, action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub kubernetes_enable_pod_labels: bool,
    /// Of those, only labels whose names match one of these
    #[arg(
        long,
        value_name = "REGEX",
        value_delimiter = ',',
        env = "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"
    )]
    pub kubernetes_pod_label_allowlist_regex: Vec<String>,
    /// Directory whose files are named after GPUs and hold a job on each line
    #[arg(long, value_name = "DIR", env = "DCGM_HPC_JOB_MAPPING_DIR")]
    pub hpc_job_mapping_dir: Option<PathBuf>,
}

impl DetailArgs {
    /// The labels to show, if any; patterns that cannot be read are told.
    pub fn labels(&self) -> Option<LabelFilter> {
        if !self.kubernetes_enable_pod_labels {
            return None;
        }
        let (filter, refused) = LabelFilter::new(&self.kubernetes_pod_label_allowlist_regex);
        for why in refused {
            say(&format!(
                "--kubernetes-pod-label-allowlist-regex {why}; it is passed over"
            ));
        }
        Some(filter)
    }

    /// Where jobs are, if anywhere.
    pub fn jobs(&self) -> Option<Source> {
        let place = self.hpc_job_mapping_dir.clone();
        place
            .filter(|place| !place.as_os_str().is_empty())
            .map(Source::Jobs)
    }
}

/// What to ask, and how answers are understood.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Sources, in the order they count; of two that name a device's pod the later one wins.
    pub sources: Vec<Source>,
    /// How long a broken source's last answer stands.
    pub patience: Duration,
    /// The node that local names mean, if there are several.
    pub node: Option<String>,
    /// Which of a kubelet's devices count.
    pub filter: Filter,
    /// How GPUs are named.
    pub id_type: IdType,
    /// Which labels of pods are shown; none at all without it.
    pub labels: Option<LabelFilter>,
    /// Whether the resource claim of a device is shown.
    pub allocations: bool,
}

/// A source of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A pod list.
    PodList(PathBuf),
    /// A kubelet's socket.
    PodResources(PathBuf),
    /// A directory of a batch scheduler's jobs.
    Jobs(PathBuf),
}

impl Source {
    fn kind(&self) -> &'static str {
        match self {
            Source::PodList(_) => "pod-list",
            Source::PodResources(_) => "pod-resources",
            Source::Jobs(_) => "hpc-jobs",
        }
    }

    fn place(&self) -> &PathBuf {
        match self {
            Source::PodList(path) | Source::PodResources(path) | Source::Jobs(path) => path,
        }
    }

    /// Asks. `turn` is kept for as long as anybody works on the answer, even if nobody waits for it any more.
    async fn ask(&self, filter: &Filter, turn: Turn) -> Result<Said, String> {
        let answer = match self {
            Source::PodResources(socket) => podresources::list_within(socket, filter, LIMIT).await,
            Source::Jobs(path) => {
                let path = path.clone();
                let jobs = aside(turn, move || jobs::read(&path)).await??;
                return Ok(Said::of_jobs(jobs));
            }
            Source::PodList(path) => {
                let path = path.clone();
                aside(turn, move || podlist::read(&path)).await?
            }
        };
        answer
            .map(Said::of_claims)
            .map_err(|error| match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            })
    }
}

/// The right to ask a source. There is one for each: a disk that does not answer holds one thread, not one
/// more every second.
type Turn = Arc<OwnedMutexGuard<()>>;

/// Reads on a thread of its own: a file may lie on a disk that does not answer.
async fn aside<T: Send + 'static>(
    turn: Turn,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let reading = tokio::task::spawn_blocking(move || {
        let read = read();
        drop(turn);
        read
    });
    reading.await.map_err(|error| error.to_string())
}

impl PodSourceArgs {
    /// What they ask for.
    pub fn settings(&self) -> Settings {
        let list = self.pod_list.clone().map(Source::PodList);
        let kubelet = self.pod_resources.clone().map(Source::PodResources);
        Settings {
            sources: list
                .into_iter()
                .chain(kubelet)
                .chain(self.more.jobs())
                .collect(),
            patience: self.pod_source_patience,
            node: self.pod_node.clone(),
            filter: Filter {
                resources: self.nvidia_resource_names.clone(),
                claims: true,
            },
            id_type: IdType::Any,
            labels: self.more.labels(),
            allocations: true,
        }
    }
}

/// A node as pages show it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its tables, with the pods that hold its devices.
    pub image: Arc<Image>,
    /// What else there is to say.
    pub notes: Option<Arc<Notes>>,
}

impl Seen {
    /// What a page is made from.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            node: self.image.node(),
            notes: self.notes.as_deref(),
        }
    }
}

/// What is known of pods, by namespace and name.
pub type PodTable = HashMap<(String, String), PodFacts>;

/// What the sources last said.
#[derive(Debug)]
pub struct Attribution {
    settings: Settings,
    /// Most time a source may take.
    limit: Duration,
    /// Whose turn it is to ask each source.
    turns: Vec<Arc<tokio::sync::Mutex<()>>>,
    ledger: Mutex<Ledger>,
    /// What pages are made with: replaced as a whole.
    said: RwLock<Arc<Said>>,
    /// Held while that is made anew, so that the older of two never comes last.
    publishing: Mutex<()>,
    /// What somebody who follows pods has told.
    told: RwLock<Arc<PodTable>>,
    refine: OnceLock<Refine>,
}

/// Makes more of what the sources say.
struct Refine(Box<dyn Fn(&Claims) -> Claims + Send + Sync>);

impl std::fmt::Debug for Refine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refine")
    }
}

impl Attribution {
    /// Nothing has been asked yet.
    pub fn new(settings: Settings) -> Arc<Attribution> {
        let kinds = settings
            .sources
            .iter()
            .map(|source| (source.kind(), source.place().display().to_string()));
        let ledger = Ledger::new(kinds.collect(), settings.patience);
        Arc::new(Attribution {
            limit: LIMIT,
            turns: settings.sources.iter().map(|_| Arc::default()).collect(),
            ledger: Mutex::new(ledger),
            said: RwLock::default(),
            publishing: Mutex::default(),
            told: RwLock::default(),
            refine: OnceLock::new(),
            settings,
        })
    }

    /// Asks every source once, all at the same time, and takes over what each says as soon as it does.
    pub async fn refresh(self: &Arc<Self>) {
        let mut asking = JoinSet::new();
        for at in 0..self.settings.sources.len() {
            let this = self.clone();
            asking.spawn(async move { this.ask(at).await });
        }
        while asking.join_next().await.is_some() {}
    }

    /// Asks one source and takes over what it says.
    async fn ask(&self, at: usize) {
        let (source, turn) = (&self.settings.sources[at], self.turns[at].clone());
        let mut mine = None;
        let asking = async {
            // An earlier answer is booked before a later one.
            let turn = mine.insert(Arc::new(turn.lock_owned().await)).clone();
            source.ask(&self.settings.filter, turn).await
        };
        let answer = tokio::time::timeout(self.limit, asking).await;
        let answer = answer.unwrap_or_else(|_| {
            let (kind, place) = (source.kind(), source.place().display());
            Err(format!("{kind} {place}: no answer within {:?}", self.limit))
        });
        let told = self.ledger().note(at, Instant::now(), answer);
        if let Some(told) = told {
            say(&told);
        }
        self.publish();
        drop(mine);
    }

    /// Makes pages show what stands.
    fn publish(&self) {
        let _alone = self
            .publishing
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let mut said = self.ledger().said(Instant::now());
        if let Some(Refine(refine)) = self.refine.get() {
            said.claims = Arc::new(refine(&said.claims));
        }
        let said = Arc::new(said);
        *self
            .said
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = said;
    }

    /// Takes over what is known of pods; what was told before is forgotten. Counts from the next page on.
    pub fn tell_pods(&self, pods: PodTable) {
        *self
            .told
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(pods);
    }

    /// Asks for ever, if there is anybody to ask.
    pub async fn run(self: Arc<Self>) {
        let mut asking = JoinSet::new();
        for at in 0..self.settings.sources.len() {
            asking.spawn(self.clone().keep_asking(at));
        }
        while asking.join_next().await.is_some() {}
    }

    async fn keep_asking(self: Arc<Self>, at: usize) {
        let mut look = tokio::time::interval(EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            self.ask(at).await;
        }
    }

    /// Nodes with the pods that hold their devices. Nodes that no source names are passed on as they are.
    pub fn apply(&self, nodes: Vec<Arc<Image>>, fleet: usize) -> Vec<Arc<Image>> {
        let seen = self.show(nodes, fleet).into_iter();
        seen.map(|seen| seen.image).collect()
    }

    /// Nodes with the pods that hold their devices, and what else is known of these.
    pub fn show(&self, nodes: Vec<Arc<Image>>, fleet: usize) -> Vec<Seen> {
        let said = self.said();
        let told = self
            .told
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone();
        let known = Known {
            settings: &self.settings,
            said: &said,
            told: &told,
        };
        nodes
            .into_iter()
            .map(|image| {
                let local = match &self.settings.node {
                    Some(name) if fleet > 1 => image.node().name == name,
                    _ => fleet == 1,
                };
                known.show(image, local)
            })
            .collect()
    }

    /// Lets somebody who follows pods make more of what the sources say, from the next answer on. Only the first one is
    /// asked.
    pub fn refine(&self, how: impl Fn(&Claims) -> Claims + Send + Sync + 'static) {
        let _ = self.refine.set(Refine(Box::new(how)));
    }

    /// Who holds what, as the sources last said.
    pub fn claims(&self) -> Arc<Claims> {
        self.said().claims.clone()
    }

    fn said(&self) -> Arc<Said> {
        self.said
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone()
    }

    /// Which of a kubelet's devices count.
    pub fn filter(&self) -> &Filter {
        &self.settings.filter
    }

    /// How each source is doing.
    pub fn reports(&self) -> Vec<Report> {
        self.ledger().reports(Instant::now())
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// All that is known at the moment.
struct Known<'a> {
    settings: &'a Settings,
    said: &'a Said,
    told: &'a PodTable,
}

impl Known<'_> {
    fn show(&self, image: Arc<Image>, local: bool) -> Seen {
        let claims = &self.said.claims;
        let (mut image, grants) = if claims.is_empty() {
            (image, Vec::new())
        } else {
            claims.granted_over(&image, self.settings.id_type, local)
        };
        let mut notes = Notes {
            grants: grants.into_iter().map(|grant| self.grant(grant)).collect(),
            ..Notes::default()
        };
        if local {
            notes.jobs.clone_from(&self.said.jobs);
        }
        if !self.told.is_empty() || !claims.pods().is_empty() {
            self.describe(&mut image, &mut notes);
        }
        Seen {
            image,
            notes: (!notes.is_empty()).then(|| Arc::new(notes)),
        }
    }

    fn grant(&self, grant: Grant) -> mirage_metrics::Grant {
        let allocation = grant.allocation.filter(|_| self.settings.allocations);
        mirage_metrics::Grant {
            holding: grant.holding,
            shares: grant.shares,
            claim: allocation.map(|allocation| ClaimNote {
                name: allocation.name.clone(),
                namespace: allocation.namespace.clone(),
                driver: allocation.driver.clone(),
                pool: allocation.pool.clone(),
                device: allocation.device.clone(),
            }),
        }
    }

    /// Adds UIDs nobody else gave, and labels.
    fn describe(&self, image: &mut Arc<Image>, notes: &mut Notes) {
        let mut uids: Vec<(usize, String)> = Vec::new();
        let node = image.node();
        for (at, container) in node.containers.iter().enumerate() {
            let key = (
                node.text(container.namespace).to_owned(),
                node.text(container.pod).to_owned(),
            );
            let told = self.told.get(&key);
            let Some(facts) = told.or_else(|| self.said.claims.pods().get(&key)) else {
                continue;
            };
            if container.uid.len == 0 && !facts.uid.is_empty() {
                uids.push((at, facts.uid.clone()));
            }
            let labels = self.settings.labels.as_ref();
            let labels = labels.map_or(Vec::new(), |filter| filter.choose(&facts.labels));
            if !labels.is_empty() {
                notes.pods.push(PodNote {
                    container: at as u32,
                    labels,
                });
            }
        }
        if uids.is_empty() {
            return;
        }
        let image = Arc::make_mut(image);
        for (at, uid) in uids {
            let offset = image.heap.len() as u32;
            image.heap.extend_from_slice(uid.as_bytes());
            image.containers[at].uid = TextRef {
                offset,
                len: uid.len() as u32,
            };
        }
    }
}

#[cfg(test)]
mod tests;
