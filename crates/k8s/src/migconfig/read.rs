//! The `run.ai/mig.config` document.
//!
//! `mig-configs.selected` (or, in a file of mig-parted's, the only entry) lists what to do with which `devices`. MIG devices are listed
//! with name and position, or as `position: profile`, or as `profile: count` the way mig-parted has them.

use std::collections::BTreeMap;

use mirage_model::yaml::{self, Node, Problem};

use super::{Cut, Layout, Wanted};
use crate::{Error, Result};

/// Most devices that a document may ask for on one GPU; no board has more.
const MOST: u64 = 16;

/// Reads the document.
pub fn read(text: &str) -> Result<Layout> {
    let root = parse(text)?;
    selected(&root)
        .and_then(|selected| layout(selected, &|_| true))
        .map_err(bad)
}

/// The layout of this name in a file of mig-parted's, for a board with this PCI device id; `None` if the file has none of that name.
pub fn pick(text: &str, name: &str, device_id: u32) -> Result<Option<Layout>> {
    let root = parse(text)?;
    let Some(configs) = root.get("mig-configs") else {
        return Err(bad(Problem::new(root.span, "there is no `mig-configs`")));
    };
    let Some(named) = configs.get(name) else {
        return Ok(None);
    };
    let fits = |item: &Node| {
        let Some(filter) = item.get("device-filter") else {
            return true;
        };
        let one = std::slice::from_ref(filter);
        let ids = filter.items().unwrap_or(one).iter();
        let mut ids = ids.filter_map(|id| {
            let digits = id.text()?.trim_start_matches("0x");
            u32::from_str_radix(digits, 16).ok()
        });
        ids.any(|id| id == device_id)
    };
    layout(named, &fits).map(Some).map_err(bad)
}

fn bad(problem: Problem) -> Error {
    Error::MigConfig {
        problem: problem.to_string(),
    }
}

fn parse(text: &str) -> Result<Node> {
    yaml::parse(text).map_err(|mut problems| {
        let first = (!problems.is_empty()).then(|| problems.swap_remove(0));
        bad(first.unwrap_or_else(|| Problem::new(yaml::Span::default(), "it is no YAML")))
    })
}

fn problem<T>(node: &Node, message: &str) -> Result<T, Problem> {
    Err(Problem::new(node.span, message))
}

fn selected(root: &Node) -> Result<&Node, Problem> {
    let Some(configs) = root.get("mig-configs") else {
        return problem(root, "there is no `mig-configs`");
    };
    match (configs.get("selected"), configs.entries()) {
        (Some(selected), _) => Ok(selected),
        (None, Some([(_, only)])) => Ok(only),
        _ => problem(configs, "there is no `selected`"),
    }
}

fn layout(selected: &Node, fits: &dyn Fn(&Node) -> bool) -> Result<Layout, Problem> {
    let Some(items) = selected.items() else {
        return problem(selected, "the selected config must be a list");
    };
    let mut layout = Layout {
        all: None,
        gpus: BTreeMap::new(),
    };
    for item in items.iter().filter(|item| fits(item)) {
        let enabled = item.get("mig-enabled").and_then(Node::bool).unwrap_or(true);
        let devices = match item.get("mig-devices") {
            Some(devices) if enabled => wanted(devices)?,
            _ => Vec::new(),
        };
        let cut = Cut { enabled, devices };
        match item.get("devices") {
            None => layout.all = Some(cut),
            Some(all) if all.text() == Some("all") => layout.all = Some(cut),
            Some(list) => {
                let Some(indices) = list.items() else {
                    return problem(list, "`devices` must be `all` or a list of GPU indices");
                };
                for index in indices {
                    // Some write them as text.
                    let number = index.text().and_then(|text| text.parse().ok());
                    let Some(number) = number else {
                        return problem(index, "a GPU index must be a whole number");
                    };
                    layout.gpus.insert(number, cut.clone());
                }
            }
        }
    }
    Ok(layout)
}

fn wanted(devices: &Node) -> Result<Vec<Wanted>, Problem> {
    let mut wanted = Vec::new();
    if let Some(items) = devices.items() {
        for item in items {
            let Some(name) = item.get("name").and_then(Node::text) else {
                return Err(Problem::new(item.span, "a MIG device has no `name`"));
            };
            let position = match item.get("position") {
                Some(position) => Some(slice(position)?),
                None => None,
            };
            wanted.push(Wanted {
                profile: profile(name),
                position,
            });
        }
    } else {
        for (key, value) in devices.entries().unwrap_or(&[]) {
            if let Ok(position) = key.text.parse() {
                let Some(name) = value.text() else {
                    return Err(Problem::new(value.span, "a MIG profile must be text"));
                };
                wanted.push(Wanted {
                    profile: profile(name),
                    position: Some(position),
                });
                continue;
            }
            match value.u64() {
                Some(count @ 0..=MOST) => wanted.extend((0..count).map(|_| Wanted {
                    profile: profile(&key.text),
                    position: None,
                })),
                _ => {
                    let message =
                        format!("a MIG profile's count must be a whole number up to {MOST}");
                    return Err(Problem::new(value.span, message));
                }
            }
        }
    }
    if wanted.len() as u64 > MOST {
        let message = format!("more than {MOST} MIG devices on one GPU");
        return Err(Problem::new(devices.span, message));
    }
    Ok(wanted)
}

fn slice(node: &Node) -> Result<u32, Problem> {
    let number = node.text().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Problem::new(node.span, "a position must be a whole number"))
}

/// Profiles are also written as resources, `nvidia.com/mig-1g.5gb`.
pub(super) fn profile(name: &str) -> String {
    name.strip_prefix(crate::allocate::MIG)
        .unwrap_or(name)
        .to_owned()
}
