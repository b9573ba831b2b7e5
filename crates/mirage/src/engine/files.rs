//! The state files of the nodes that have one, and the way from each to the control socket.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use mirage_model::plan::Plan;
use mirage_state::NodeDir;

use crate::cli::say;
use crate::fleet::Fleet;
use crate::statedir::{SOCKET, StateDir, is_plain};

/// The files of a fleet; none for offline runs and for fleets too large to want them.
///
/// Each node has a directory of its own, so that one node's can be mounted into a container. Beside its
/// state lies a link to the control socket, where NVML looks for it.
#[derive(Default)]
pub struct Files {
    // Dropped first: the files go before the directories they lie in.
    nodes: HashMap<Arc<str>, NodeDir>,
    directory: Option<StateDir>,
    /// Whether nodes get files.
    is_wanted: bool,
    /// The last thing that went wrong, told once.
    trouble: Option<String>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("nodes", &self.nodes.len())
            .field("directory", &self.directory)
            .finish()
    }
}

impl Files {
    /// No files, but the directory is held as long as this lives.
    pub fn held(mut directory: StateDir) -> Self {
        directory.clear_leftovers();
        Self::of(directory)
    }

    fn of(directory: StateDir) -> Self {
        Self {
            directory: Some(directory),
            ..Self::default()
        }
    }

    /// A file for every node of the plan.
    pub fn open(directory: StateDir, plan: &Plan) -> Result<Self> {
        let mut files = Self::of(directory);
        files.is_wanted = true;
        for node in &plan.nodes {
            files.add(&node.name)?;
        }
        if let Some(directory) = &mut files.directory {
            directory.clear_leftovers();
        }
        Ok(files)
    }

    fn add(&mut self, name: &Arc<str>) -> Result<()> {
        let Some(directory) = &mut self.directory else {
            return Ok(());
        };
        anyhow::ensure!(
            is_plain(name),
            "node `{name}` cannot have a state file: its name is taken or no file name; rename it"
        );
        let path = directory.directory(name)?;
        let node = NodeDir::open(&path).with_context(|| format!("opening the state of {name}"))?;
        self.nodes.insert(name.clone(), node);
        let target = Path::new("..").join(SOCKET);
        directory.link(Path::new(&**name).join(SOCKET), &target)?;
        Ok(())
    }

    /// Gives new nodes their files and takes those of gone nodes away.
    pub(super) fn lay_out(&mut self, plan: &Plan) {
        if !self.is_wanted {
            return;
        }
        let named: HashSet<_> = plan.nodes.iter().map(|node| &node.name).collect();
        let gone = self.nodes.keys().filter(|name| !named.contains(name));
        let gone: Vec<_> = gone.cloned().collect();
        for name in gone {
            self.nodes.remove(&name);
            if let Some(directory) = &mut self.directory {
                let path = directory.path().join(&*name);
                directory.forget(&path);
            }
        }
        for node in &plan.nodes {
            if !self.nodes.contains_key(&node.name)
                && let Err(error) = self.add(&node.name)
            {
                self.tell(format!("{error:#}"));
            }
        }
    }

    /// Writes the published tick to every file.
    pub(super) fn update(&mut self, fleet: &Fleet) {
        let mut trouble = None;
        for (name, file) in &mut self.nodes {
            let Some(snapshot) = fleet.one(name) else {
                continue;
            };
            for image in &snapshot.nodes {
                if let Err(error) = file.update(image) {
                    let cause = anyhow::Error::new(error);
                    trouble = Some(format!("writing the state of {name}: {cause:#}"));
                }
            }
        }
        match trouble {
            Some(trouble) => self.tell(trouble),
            None => self.trouble = None,
        }
    }

    /// Says what is wrong when it begins, not every tick.
    fn tell(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            say(&trouble);
            self.trouble = Some(trouble);
        }
    }
}
