//! The driver of a machine whose node this very process runs: made from what is published, and made again when that
//! changes. The engine goes on writing the state; everything else is as `mirage driver all` makes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser;
use mirage_model::catalogue;
use mirage_state::layout::{Card, text};
use mirage_state::{Image, Node};
use serde_json::Value;

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

/// A config that gives a node like this one: each GPU as it is, since a node may have several models.
fn describe(name: &str, image: &Image) -> String {
    let node = image.node();
    let cuda = image.header.cuda_version;
    let gpus: String = node.cards.iter().map(|card| gpu(&node, card)).collect();
    format!(
        "# The node this driver root was made for; `mirage node` keeps it as the node is.\n\
         driver: {{ version: {}, cuda: \"{}.{}\" }}\nnodes:\n  {name}:\n    gpus:\n{gpus}",
        node.driver,
        cuda / 1000,
        cuda % 1000 / 10,
    )
}

fn gpu(node: &Node<'_>, card: &Card) -> String {
    let model = node.board(card).map_or("", |board| text(&board.key));
    let mut entry = format!(
        "{{ model: {model}, id: {}, serial: {}",
        Value::from(text(&card.uuid)),
        Value::from(text(&card.serial))
    );
    let mib = card.memory_total >> 20;
    if catalogue::find(model).is_some_and(|board| board.memory_total_mib != mib) {
        entry += &format!(", memory: {mib}MiB");
    }
    format!("      - {entry} }}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mirage_model::config::{self, Defaults};

    use super::*;
    use crate::publish::{self, Clock};

    fn image(config: &str) -> Image {
        let loaded = config::load(config, "test", &Defaults::default());
        let plan = loaded.unwrap_or_else(|problems| panic!("{problems}")).plan;
        let clock = Clock {
            start_unix_ms: 0,
            period: Duration::ZERO,
            epoch: 0,
        };
        (*publish::images(&plan, clock)[0]).clone()
    }

    #[test]
    fn a_mixed_node_is_described_as_it_is() {
        let mixed = image(
            "nodes:\n  n:\n    gpus:\n      - { model: h100-pcie-80gb }\n      \
             - { model: tesla-t4, id: GPU-mine, memory: 8GiB }\n      - { model: h100-pcie-80gb }\n",
        );
        let text = describe("n", &mixed);
        let again = image(&text);
        let facts = |image: &Image| -> Vec<_> {
            let node = image.node();
            let boards = node
                .cards
                .iter()
                .map(|card| node.board(card).map(|b| b.key));
            let cards = node
                .cards
                .iter()
                .map(|card| (card.uuid, card.serial, card.memory_total));
            boards.zip(cards).collect()
        };
        assert_eq!(facts(&again), facts(&mixed), "{text}");
        assert_eq!(again.header.driver, mixed.header.driver);
        assert_eq!(again.header.cuda_version, mixed.header.cuda_version);
    }
}
