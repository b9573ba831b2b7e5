//! Everything that shall exist on a machine, from one node's state.

use anyhow::{Context, Result};

use super::host::Majors;
use super::item::{Item, List, Part, Place};
use super::node::Still;
use super::options::Args;
use super::{cdi, devices, libraries, procfs, sysfs};

/// Name of the specification.
pub(super) const SPECIFICATION: &str = "nvidia.yaml";
/// Name of the one for channels of the memory exchange.
const CHANNELS: &str = "nvidia-imex-channel.yaml";

/// The list for some parts.
pub(super) fn items(
    args: &Args,
    parts: &[Part],
    node: &Still,
    delivery: cdi::Delivery,
) -> Result<Vec<Item>> {
    let majors = Majors::choose(&args.host);
    let mut list = List::new();
    devices::list(&mut list, &node.image, majors, args.imex_channels);
    if parts.contains(&Part::Files) {
        procfs::list(&mut list, &node.image, &node.driver, majors);
        sysfs::list(&mut list, &node.image, &node.driver, &args.host);
    }
    if parts.contains(&Part::Driver) {
        libraries::list(&mut list, args, &node.driver)?;
        list.begin(Part::Driver, Place::Root);
        list.file("version", format!("{}\n", node.driver));
        list.file("config/mirage.yaml", node.config.clone());
        list.file(cdi::MARK, cdi::MARKED);
        list.directory("etc");
        list.begin(Part::Driver, Place::State);
        let state = node.image.to_bytes().context("writing the node's state")?;
        list.file_with(format!("{}/state", node.name), state, 0o444);
        let root = args.root()?;
        if let Some((_, name)) = args.linked()? {
            list.begin(Part::Driver, Place::Link);
            list.link(name, root.clone());
        }
        list.begin(Part::Driver, Place::Cdi);
        let spec = cdi::Spec {
            kind: &args.cdi_kind,
            root: &root,
            dev: &args.place(Place::Dev)?,
            state: &args.place(Place::State)?.join(&*node.name),
            delivery,
            majors,
            image: &node.image,
        };
        list.file(SPECIFICATION, spec.text()?);
        if args.imex_channels > 0 {
            list.file(CHANNELS, spec.channels(args.imex_channels)?);
        }
    }
    Ok(with_parents(list.items))
}

/// Adds the directories things lie in, each once and before what is in it.
fn with_parents(items: Vec<Item>) -> Vec<Item> {
    let mut whole: Vec<Item> = Vec::with_capacity(items.len() * 2);
    let mut seen = std::collections::HashSet::new();
    for item in items {
        let mut parents: Vec<_> = item.path.ancestors().skip(1).collect();
        parents.retain(|path| !path.as_os_str().is_empty());
        for path in parents.into_iter().rev() {
            if seen.insert((item.place, path.to_path_buf())) {
                whole.push(Item {
                    part: item.part,
                    place: item.place,
                    path: path.to_path_buf(),
                    what: super::item::What::Directory,
                });
            }
        }
        if seen.insert((item.place, item.path.clone())) {
            whole.push(item);
        }
    }
    // Specifications last; otherwise the order they were listed in.
    whole.sort_by_key(|item| item.place == Place::Cdi);
    whole
}
