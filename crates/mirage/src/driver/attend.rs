//! The driver of a machine whose node this very process runs: made from what is published, and made again when that
//! changes. The engine goes on writing the state; everything else is as `mirage driver all` makes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use mirage_state::Image;
use mirage_state::layout::text;

use super::item::Part;
use super::mockctl::Mockctl;
use super::node::Still;
use super::options::Args;
use super::report::Report;
use super::{install, remove};

/// What shall be where. What is not said is as for `mirage driver`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// The driver root.
    pub(crate) root: Option<PathBuf>,
    /// Where the CDI specification goes.
    pub(crate) cdi_dir: Option<PathBuf>,
    /// The kind of its devices.
    pub(crate) cdi_kind: Option<String>,
    /// Where the engine keeps its state files.
    pub(crate) state_dir: Option<PathBuf>,
    /// Where our libraries are.
    pub(crate) library_dir: Option<PathBuf>,
    /// Channels of the memory exchange.
    pub(crate) imex_channels: u32,
    /// Beside a real driver too.
    pub(crate) force: bool,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    /// The driver root.
    pub(crate) root: PathBuf,
    /// Whether anything had to be done.
    pub(crate) changed: bool,
}

impl Wishes {
    /// The same in the words of the command line, so that both mean the same.
    fn args(&self, command: &str) -> Result<Args> {
        let mut words: Vec<OsString> = vec!["gpu-mockctl".into(), command.into()];
        let options = [
            ("--root", self.root.as_ref().map(|path| path.into())),
            ("--cdi-dir", self.cdi_dir.as_ref().map(|path| path.into())),
            ("--cdi-kind", self.cdi_kind.as_ref().map(|kind| kind.into())),
            (
                "--state-dir",
                self.state_dir.as_ref().map(|path| path.into()),
            ),
            (
                "--library-dir",
                self.library_dir.as_ref().map(|path| path.into()),
            ),
        ];
        for (name, value) in options {
            if let Some(value) = value {
                words.extend([OsString::from(name), value]);
            }
        }
        if self.imex_channels > 0 {
            let count = self.imex_channels.to_string();
            words.extend([OsString::from("--imex-channels"), count.into()]);
        }
        if self.force {
            words.push("--force".into());
        }
        let parsed = Mockctl::try_parse_from(words).context("choosing what to install")?;
        Ok(parsed.args)
    }
}

/// Makes the driver of a node as published, or what is missing of it.
pub(crate) fn make(wishes: &Wishes, name: &str, image: &Image) -> Result<Made> {
    let args = wishes.args("all")?;
    let node = image.node();
    let still = Still {
        name: Arc::from(name),
        driver: node.driver.to_owned(),
        config: describe(name, image),
        image: image.clone(),
    };
    let mut report = Report::silent();
    install::make(&args, &Part::ALL, &still, &mut report)?;
    Ok(Made {
        root: args.root()?,
        changed: report.facts["changed"] == true,
    })
}

/// Takes it away; whether there was anything.
pub(crate) fn take_away(wishes: &Wishes) -> Result<bool> {
    let mut report = Report::silent();
    remove::run(&wishes.args("remove")?, &mut report)?;
    Ok(report.facts["changed"] == true)
}

/// A config that gives a node like this one.
fn describe(name: &str, image: &Image) -> String {
    let node = image.node();
    let first = node.cards.first().and_then(|card| node.board(card));
    let model = first.map_or("", |board| text(&board.key));
    format!(
        "# The node this driver root was made for; `mirage node` keeps it as the node is.\n\
         driver: {{ version: {} }}\nnodes:\n  {name}: {{ model: {model}, gpus: {} }}\n",
        node.driver,
        node.cards.len()
    )
}
