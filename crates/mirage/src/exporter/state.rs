//! Nodes read from state files that an engine writes, or wrote.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mirage_state::lookup::{self, Source};
use mirage_state::{Freshness, Image, Reader, clock};

use crate::cli::{say, usage};
use crate::publish::{self, Clock};

/// The node there is when nobody wrote one, and its GPUs.
const BUILT_IN: (&str, &str, u32) = ("localhost", "a100-sxm4-40gb", 8);

/// How often a state that went away is looked for, and whether there are others by now.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A node, and what it showed last, if it could be read ever.
#[derive(Debug)]
struct Node {
    /// Where it is read from; nowhere if it is the built-in one.
    file: Option<File>,
    last: Option<Arc<Image>>,
}

/// One node's state.
#[derive(Debug)]
struct File {
    reader: Box<Reader>,
    path: PathBuf,
    looked: Instant,
}

/// The nodes an exporter shows.
#[derive(Debug)]
pub(super) struct Nodes {
    search: Search,
    inner: Mutex<Inner>,
    every: Duration,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    taken: Option<Instant>,
    looked: Instant,
}

/// Where nodes are looked for.
#[derive(Debug)]
pub(super) struct Search {
    /// A state file, a node's directory, or a directory of nodes.
    pub(super) place: Option<PathBuf>,
    /// The one of several that counts.
    pub(super) node: Option<String>,
    /// What any client of this machine would find.
    pub(super) find: fn() -> Source,
}

impl Search {
    /// The state files there are; none means the built-in node.
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let source = match &self.place {
            Some(place) => named(place)?,
            None => (self.find)(),
        };
        Ok(match source {
            Source::File(path) => vec![path],
            Source::Several(paths) => choose(paths, self.node.as_deref()),
            Source::BuiltIn => Vec::new(),
            Source::Nothing => bail!(
                "there is no state: no engine runs here, and MIRAGE_NO_DEFAULT forbids the built-in node; \
                 start `mirage up`, or name a state with --state"
            ),
        })
    }
}

impl Nodes {
    /// Opens what is found. Values are taken anew when they are older than `every`.
    pub(super) fn open(search: Search, every: Duration) -> Result<Nodes> {
        let mut nodes = Vec::new();
        for path in search.paths()? {
            nodes.push(Node::open(path)?);
        }
        if nodes.is_empty() {
            say("no engine runs here; the built-in node stands in for it until one does");
            nodes.push(Node {
                file: None,
                last: Some(built_in()?),
            });
        }
        Ok(Nodes {
            search,
            inner: Mutex::new(Inner {
                nodes,
                taken: None,
                looked: Instant::now(),
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
        if !recent || self.every.is_zero() {
            if now.saturating_duration_since(inner.looked) >= LOOK_AGAIN {
                inner.looked = now;
                self.look_around(&mut inner.nodes);
            }
            inner.nodes.iter_mut().for_each(|node| node.look(now));
            inner.taken = Some(now);
        }
        let shown = inner.nodes.iter();
        shown.filter_map(|node| node.last.clone()).collect()
    }

    /// Takes in nodes that came, and lets go of those that went while others stayed. An engine that is away altogether leaves
    /// what it showed last.
    fn look_around(&self, nodes: &mut Vec<Node>) {
        let paths = self.search.paths().unwrap_or_default();
        if paths.is_empty() || paths.iter().eq(nodes.iter().filter_map(Node::path)) {
            return;
        }
        let mut before = std::mem::take(nodes);
        for path in paths {
            match before.iter().position(|node| node.path() == Some(&path)) {
                Some(at) => nodes.push(before.swap_remove(at)),
                // One that cannot be opened yet is looked for again.
                None => nodes.extend(Node::open(path).ok()),
            }
        }
        if nodes.is_empty() {
            *nodes = before;
        }
    }
}

impl Node {
    fn open(path: PathBuf) -> Result<Node> {
        let reader = Reader::open(&path).with_context(|| {
            format!(
                "opening the state {}; is its engine running?",
                path.display()
            )
        })?;
        let file = File {
            reader: Box::new(reader),
            path,
            looked: Instant::now(),
        };
        Ok(Node {
            file: Some(file),
            last: None,
        })
    }

    fn path(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|file| &file.path)
    }

    /// Takes its values; a state that cannot be read just now shows what it showed last.
    fn look(&mut self, now: Instant) {
        let Some(file) = &mut self.file else {
            return;
        };
        let fresh = file.reader.freshness(clock::boottime_ns()) == Freshness::Fresh;
        if !fresh && now.saturating_duration_since(file.looked) >= LOOK_AGAIN {
            file.looked = now;
            if file.reader.is_replaced()
                && let Ok(next) = Reader::open(&file.path)
            {
                *file.reader = next;
            }
        }
        if let Some(image) = file.reader.snapshot() {
            self.last = Some(Arc::new(image));
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
    idle(host, model, gpus)
}

/// A node that does nothing.
fn idle(host: &str, model: &str, gpus: u32) -> Result<Arc<Image>> {
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
        .with_context(|| format!("the node {host} has no image"))?;
    publish::refresh(Arc::make_mut(image), &plan, &world, 0, clock);
    Ok(images.remove(0))
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use mirage_state::NodeDir;

    use super::*;

    /// The state of a node, as an engine keeps it.
    fn node(run: &Path, name: &str) -> NodeDir {
        let mut node = NodeDir::open(&run.join(name)).unwrap();
        node.publish(&idle(name, "t4", 1).unwrap()).unwrap();
        node
    }

    fn names(nodes: &Nodes) -> Vec<String> {
        nodes.look_around(&mut nodes.inner.lock().unwrap().nodes);
        let shown = nodes.now();
        let names = shown.iter().map(|image| image.node().name.to_owned());
        names.collect()
    }

    fn open(place: Option<&Path>, node: Option<&str>, find: fn() -> Source) -> Result<Nodes> {
        let search = Search {
            place: place.map(Path::to_owned),
            node: node.map(str::to_owned),
            find,
        };
        Nodes::open(search, Duration::ZERO)
    }

    #[test]
    fn the_built_in_node_gives_way_to_an_engine() {
        static RUN: OnceLock<PathBuf> = OnceLock::new();
        let run = tempfile::tempdir().unwrap();
        let run = RUN.get_or_init(|| run.path().to_owned());
        let find = || lookup::find_in(|_| None, RUN.get().unwrap());
        let nodes = open(None, None, find).unwrap();
        assert_eq!(names(&nodes), ["localhost"]);
        let engine = node(run, "a");
        assert_eq!(names(&nodes), ["a"]);
        // One that ends leaves what it showed last.
        drop(engine);
        assert_eq!(names(&nodes), ["a"]);
    }

    #[test]
    fn nodes_of_a_directory_come_and_go() {
        let run = tempfile::tempdir().unwrap();
        let run = run.path();
        let none = || Source::Nothing;
        assert!(open(None, None, none).is_err());
        assert!(open(Some(run), None, none).is_err());
        let b = node(run, "b");
        let nodes = open(Some(run), None, none).unwrap();
        let own = open(Some(run), Some("c"), none).unwrap();
        assert_eq!(names(&nodes), ["b"]);
        assert_eq!(names(&own), ["b"]);
        let _a = node(run, "a");
        let _c = node(run, "c");
        assert_eq!(names(&nodes), ["a", "b", "c"]);
        assert_eq!(names(&own), ["c"]);
        drop(b);
        assert_eq!(names(&nodes), ["a", "c"]);
    }
}
