//! Nodes read from state files that an engine writes, or wrote.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mirage_state::lookup::{self, Source};
use mirage_state::{Freshness, Image, Reader, clock};

use crate::cli::usage;
use crate::publish::{self, Clock};

/// The node there is when nobody wrote one, and its GPUs.
const BUILT_IN: (&str, &str, u32) = ("localhost", "a100-sxm4-40gb", 8);

/// How often a state that went away is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One node's state.
#[derive(Debug)]
enum Node {
    File {
        reader: Box<Reader>,
        path: PathBuf,
        looked: Instant,
    },
    BuiltIn(Arc<Image>),
}

/// The nodes an exporter shows.
#[derive(Debug)]
pub(super) struct Nodes {
    inner: Mutex<Inner>,
    every: Duration,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    /// What each of them showed last, if it could be read ever.
    last: Vec<Option<Arc<Image>>>,
    taken: Option<Instant>,
}

impl Nodes {
    /// Opens what `place` names (a state file, a node's directory, or a directory of nodes), or what any client
    /// of this machine would find. Values are taken anew when they are older than `every`.
    pub(super) fn open(place: Option<&Path>, node: Option<&str>, every: Duration) -> Result<Nodes> {
        let source = match place {
            Some(place) => named(place)?,
            None => lookup::find(),
        };
        let paths = match source {
            Source::File(path) => vec![path],
            Source::Several(paths) => choose(paths, node),
            Source::BuiltIn => Vec::new(),
            Source::Nothing => bail!(
                "there is no state: no engine runs here, and MIRAGE_NO_DEFAULT forbids the built-in node; \
                 start `mirage up`, or name a state with --state"
            ),
        };
        let mut nodes = Vec::new();
        for path in paths {
            let reader = Reader::open(&path).with_context(|| {
                format!(
                    "opening the state {}; is its engine running?",
                    path.display()
                )
            })?;
            nodes.push(Node::File {
                reader: Box::new(reader),
                path,
                looked: Instant::now(),
            });
        }
        if nodes.is_empty() {
            nodes.push(Node::BuiltIn(built_in()?));
        }
        Ok(Nodes {
            inner: Mutex::new(Inner {
                last: vec![None; nodes.len()],
                nodes,
                taken: None,
            }),
            every,
        })
    }

    /// All nodes, each of one tick.
    pub(super) fn now(&self) -> Vec<Arc<Image>> {
        let mut inner = self
            .inner
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let now = Instant::now();
        let recent = inner
            .taken
            .is_some_and(|taken| now.saturating_duration_since(taken) < self.every);
        if recent && !self.every.is_zero() {
            return inner.last.iter().flatten().cloned().collect();
        }
        let Inner { nodes, last, taken } = &mut *inner;
        for (node, last) in nodes.iter_mut().zip(last.iter_mut()) {
            // A state that cannot be read just now shows what it showed last.
            if let Some(image) = node.image(now) {
                *last = Some(image);
            }
        }
        *taken = Some(now);
        last.iter().flatten().cloned().collect()
    }
}

impl Node {
    fn image(&mut self, now: Instant) -> Option<Arc<Image>> {
        match self {
            Node::BuiltIn(image) => Some(image.clone()),
            Node::File {
                reader,
                path,
                looked,
            } => {
                let fresh = reader.freshness(clock::boottime_ns()) == Freshness::Fresh;
                if !fresh && now.saturating_duration_since(*looked) >= LOOK_AGAIN {
                    *looked = now;
                    if reader.is_replaced()
                        && let Ok(next) = Reader::open(path)
                    {
                        **reader = next;
                    }
                }
                reader.snapshot().map(Arc::new)
            }
        }
    }
}

/// What a path means: a state file, a directory with one, or a directory of nodes.
fn named(place: &Path) -> Result<Source> {
    if !place.is_dir() {
        return Ok(Source::File(place.to_path_buf()));
    }
    let own = place.join(mirage_state::STATE);
    if own.is_file() {
        return Ok(Source::File(own));
    }
    let nodes = lookup::nodes_in(place);
    if nodes.is_empty() {
        return Err(usage(format!(
            "--state {}: there is no state in it; name the directory of a running `mirage up`",
            place.display()
        )));
    }
    Ok(Source::Several(nodes))
}

/// The node of a name among several, or all of them.
fn choose(paths: Vec<PathBuf>, node: Option<&str>) -> Vec<PathBuf> {
    let is_it = |path: &&PathBuf| {
        let name = path.parent().and_then(Path::file_name);
        node.is_some_and(|node| name == Some(node.as_ref()))
    };
    match paths.iter().find(is_it) {
        Some(path) => vec![path.clone()],
        None => paths,
    }
}

/// The node clients see where nothing runs: 8 idle A100.
fn built_in() -> Result<Arc<Image>> {
    let (host, model, gpus) = BUILT_IN;
    let mut plan = mirage_model::config::demo(host, model, gpus, 1, 0).map_err(usage)?;
    plan.workloads.clear();
    let world = mirage_sim::World::new(&plan);
    let clock = Clock {
        start_unix_ms: 0,
        period: plan.tick,
        epoch: 0,
    };
    let mut images = publish::images(&plan, clock);
    let image = images
        .first_mut()
        .context("the built-in node has no image")?;
    publish::refresh(Arc::make_mut(image), &plan, &world, 0, clock);
    Ok(images.remove(0))
}
