//! Compiled exporters that follow their files: a changed field list or identity takes the old one's place
//! only once it compiles.

use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use anyhow::Result;
use mirage_metrics::{Exporter, Identity, Options, Selection};
use mirage_state::Image;
use tokio::signal::unix::Signal;

use super::clocks::{self, Clocks};
use super::doubles;
use super::list::{Edition, List};
use super::spec::{Place, Spec};
use super::vacant;
use crate::attribution::Seen as Shown;
use crate::cli::{say, usage};
use crate::reload::version;
use crate::source;

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The identity nobody has to ask for.
const DEFAULT: &str = "dcgm";

/// All an exporter is made of.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Name of an identity, or a file that declares one.
    pub identity: String,
    /// Field list; the default set without one.
    pub collectors: Option<List>,
    /// Options.
    pub options: Options,
    /// Time between two looks at the GPUs, if it is not the usual one.
    pub every: Option<Duration>,
}

impl Recipe {
    /// Compiles it.
    pub fn compile(&self) -> Result<Exporter> {
        let identity = match self.file() {
            Some(path) => Identity::parse(&source::read(path)?, &self.identity).map_err(usage)?,
            None => Identity::by_name(&self.identity).map_err(usage)?,
        };
        for gap in identity.gaps() {
            say(&format!("{}: {gap}", self.identity));
        }
        let selection = match &self.collectors {
            Some(list) if identity.takes_selection() => list.read()?,
            _ if self.options.old_namespace => Selection::old_set(),
            _ => Selection::default_set(),
        };
        Exporter::new(&identity, &selection, self.options.clone()).map_err(usage)
    }

    /// The file that declares the identity, if it is not one of ours.
    fn file(&self) -> Option<&Path> {
        let is_file = self.identity.ends_with(".json") || self.identity.contains('/');
        is_file.then(|| Path::new(&self.identity))
    }

    fn editions(&self) -> [Option<Edition>; 2] {
        [
            self.file().and_then(version).map(Edition::File),
            self.collectors.as_ref().and_then(List::edition),
        ]
    }
}

/// An exporter that follows its files.
#[derive(Debug)]
pub struct Hot {
    recipe: Recipe,
    current: RwLock<Arc<Exporter>>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    editions: [Option<Edition>; 2],
    reloads: u64,
    refusals: u64,
    trouble: Option<String>,
}

/// What became of an exporter's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloads {
    /// Times a change was taken over.
    pub good: u64,
    /// Times a change was refused.
    pub bad: u64,
    /// Why the last change was refused; `None` if it was not.
    pub trouble: Option<String>,
}

impl Hot {
    /// Compiles an exporter for the first time.
    pub fn new(recipe: Recipe) -> Result<Hot> {
        let editions = recipe.editions();
        Ok(Hot {
            current: RwLock::new(Arc::new(recipe.compile()?)),
            seen: Mutex::new(Seen {
                editions,
                ..Seen::default()
            }),
            recipe,
        })
    }

    /// What it is made of.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The exporter in force, for one whole page.
    pub fn get(&self) -> Arc<Exporter> {
        self.current
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone()
    }

    /// What became of its files so far.
    pub fn reloads(&self) -> Reloads {
        let seen = self.seen();
        Reloads {
            good: seen.reloads,
            bad: seen.refusals,
            trouble: seen.trouble.clone().or_else(|| self.list_trouble()),
        }
    }

    /// Looks at the files, and takes over what changed; `asked` takes over in any case.
    pub fn look(&self, asked: bool) {
        let now = self.recipe.editions();
        {
            let mut seen = self.seen();
            // A file that is gone for a moment is being replaced.
            let changed = now
                .iter()
                .zip(&seen.editions)
                .any(|(now, before)| now.is_some() && now != before);
            if !asked && !changed {
                return;
            }
            seen.editions = now;
        }
        let compiled = self.recipe.compile();
        let name = &self.recipe.identity;
        match compiled {
            Ok(exporter) => {
                *self
                    .current
                    .write()
                    .unwrap_or_else(|poison| poison.into_inner()) = Arc::new(exporter);
                let mut seen = self.seen();
                seen.reloads += 1;
                seen.trouble = None;
                say(&format!("exporter {name} reloaded"));
            }
            Err(error) => {
                let trouble = format!("{error:#}");
                say(&format!(
                    "{trouble}\nmirage: exporter {name} was not reloaded; the old one stays in force"
                ));
                let mut seen = self.seen();
                seen.refusals += 1;
                seen.trouble = Some(trouble);
            }
        }
    }

    fn list_trouble(&self) -> Option<String> {
        self.recipe.collectors.as_ref().and_then(List::trouble)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// One exporter and where it is served.
#[derive(Debug, Clone)]
pub struct Mount {
    /// Where.
    pub place: Place,
    /// What.
    pub exporter: Arc<Hot>,
}

/// The exporters of a process; the first is at `/metrics`.
#[derive(Debug, Clone)]
pub struct Exporters {
    mounts: Vec<Mount>,
    clocks: Arc<Clocks>,
}

impl Exporters {
    /// Compiles what was asked for; dcgm is at `/metrics` unless another is.
    pub fn new(specs: &[Spec], recipe: impl Fn(&str) -> Recipe) -> Result<Exporters> {
        let mount = |identity: &str, place: Place| -> Result<Mount> {
            let exporter = Arc::new(Hot::new(recipe(identity))?);
            Ok(Mount { place, exporter })
        };
        let mut mounts = Vec::new();
        if specs.iter().all(|spec| spec.place != Place::Main) {
            mounts.push(mount(DEFAULT, Place::Main)?);
        }
        for spec in specs {
            let taken = mounts
                .iter()
                .any(|m: &Mount| m.place == spec.place && spec.place != Place::Port(0));
            if taken {
                return Err(usage(format!(
                    "--identity {}: {} has an exporter already; give it a place of its own, \
                     as in {}=/{} or {}:9401",
                    spec.identity,
                    spec.place,
                    spec.identity,
                    spec.identity.replace(['@', '.', '/'], "-"),
                    spec.identity,
                )));
            }
            mounts.push(mount(&spec.identity, spec.place.clone())?);
        }
        mounts.sort_by_key(|mount| mount.place != Place::Main);
        Ok(Exporters {
            mounts,
            clocks: Arc::default(),
        })
    }

    /// The one at `/metrics`.
    pub fn main(&self) -> &Arc<Hot> {
        &self.mounts[0].exporter
    }

    /// All of them, the one at `/metrics` first.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Tells of pages on which the series of these nodes cannot be told apart.
    pub fn warn_of_doubles(&self, nodes: &[Arc<Image>]) {
        let warnings = self.mounts.iter().map(|it| doubles::warning(it, nodes));
        warnings.flatten().for_each(|warning| say(&warning));
    }

    /// Tells of pages that none of these nodes' GPUs is on.
    pub fn warn_of_vacant(&self, nodes: &[Arc<Image>]) {
        let warnings = self.mounts.iter().map(|it| vacant::warning(it, nodes));
        warnings.flatten().for_each(|warning| say(&warning));
    }

    /// Where clock events are remembered.
    pub fn clocks(&self) -> &Arc<Clocks> {
        &self.clocks
    }

    /// Nodes with their clock events, if `exporter` shows these.
    pub fn remember(&self, exporter: &Exporter, nodes: Vec<Shown>) -> Vec<Shown> {
        if !exporter.wants_clock_events() {
            return nodes;
        }
        let noted = |seen| clocks::noted(&self.clocks, seen);
        nodes.into_iter().map(noted).collect()
    }

    /// Looks at clocks, if some exporter shows what holds them back.
    fn look_at_clocks(&self) {
        let wants = |mount: &&Mount| mount.exporter.get().wants_clock_events();
        match self.mounts.iter().find(wants) {
            Some(mount) => {
                let recipe = mount.exporter.recipe();
                let window = recipe.options.clock_window_ms;
                let every = recipe.every.unwrap_or(EVERY).as_millis();
                self.clocks
                    .look(window, u64::try_from(every).unwrap_or(u64::MAX));
            }
            None => self.clocks.forget(),
        }
    }

    /// Follows all files, for ever; `hangup` reloads in any case.
    pub async fn follow(self, mut hangup: Signal) {
        let mut look = tokio::time::interval(EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                _ = hangup.recv() => true,
                _ = look.tick() => false,
            };
            let exporters = self.clone();
            // A file may lie on a disk that does not answer.
            let looking = tokio::task::spawn_blocking(move || {
                for mount in &exporters.mounts {
                    mount.exporter.look(asked);
                }
                exporters.look_at_clocks();
            });
            // A panic there has been told; the exporters in force stay.
            let _ = looking.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn recipe(identity: &str, collectors: Option<PathBuf>) -> Recipe {
        Recipe {
            identity: identity.to_owned(),
            collectors: collectors.map(List::File),
            options: Options::default(),
            every: None,
        }
    }

    fn places(specs: &[&str]) -> Result<Vec<String>> {
        let specs: Vec<Spec> = specs.iter().map(|text| text.parse().unwrap()).collect();
        let exporters = Exporters::new(&specs, |identity| recipe(identity, None))?;
        let show =
            |mount: &Mount| format!("{} {:?}", mount.exporter.recipe().identity, mount.place);
        Ok(exporters.mounts().iter().map(show).collect())
    }

    #[test]
    fn metrics_is_dcgm_unless_another_is_asked_for() {
        assert_eq!(places(&[]).unwrap(), ["dcgm Main"]);
        assert_eq!(
            places(&["xpum:0", "amd"]).unwrap(),
            ["amd Main", "xpum Port(0)"]
        );
        assert_eq!(
            places(&["xpum=/x", "amd=/a", "amd:0", "amd:0"]).unwrap(),
            [
                "dcgm Main",
                "xpum Path(\"/x\")",
                "amd Path(\"/a\")",
                "amd Port(0)",
                "amd Port(0)"
            ]
        );
    }

    #[test]
    fn a_place_has_one_exporter() {
        for specs in [["dcgm", "xpum"], ["amd=/x", "xpum=/x"], ["xpum:1", "amd:1"]] {
            let error = places(&specs).unwrap_err().to_string();
            assert!(error.contains("has an exporter already"), "{error}");
        }
        let error = places(&["nonsense"]).unwrap_err().to_string();
        assert!(error.contains("dcgm@4.8.2"), "{error}");
    }

    #[test]
    fn a_bad_list_leaves_the_old_one_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fields.csv");
        fs::write(&path, "DCGM_FI_DEV_GPU_TEMP, gauge, first\n").unwrap();
        let hot = Hot::new(recipe("dcgm", Some(path.clone()))).unwrap();
        let first = hot.get();
        hot.look(false);
        assert!(Arc::ptr_eq(&first, &hot.get()), "nothing has changed");

        let replace = |text: &str| {
            let next = dir.path().join("next");
            fs::write(&next, text).unwrap();
            fs::rename(&next, &path).unwrap();
        };
        replace("DCGM_FI_DEV_GPU_TMP, gauge, typo\n");
        hot.look(false);
        assert!(Arc::ptr_eq(&first, &hot.get()));
        let reloads = hot.reloads();
        assert_eq!((reloads.good, reloads.bad), (0, 1));
        assert!(reloads.trouble.unwrap().contains("DCGM_FI_DEV_GPU_TEMP?"));

        replace("DCGM_FI_DEV_POWER_USAGE, gauge, second\n");
        hot.look(false);
        assert!(!Arc::ptr_eq(&first, &hot.get()));
        assert_eq!(hot.reloads().trouble, None);

        // Gone for a moment: nothing happens.
        let second = hot.get();
        fs::remove_file(&path).unwrap();
        hot.look(false);
        assert!(Arc::ptr_eq(&second, &hot.get()));
        hot.look(true);
        assert!(Arc::ptr_eq(&second, &hot.get()));
        assert_eq!(hot.reloads().bad, 2);
    }
}
