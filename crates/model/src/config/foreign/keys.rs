//! Keys whose spelling differs between tools: `gpu-memory`, `gpuMemory`, `GpuMemory`.

use crate::quantity::clip;
use crate::yaml::{Key, MAX_PROBLEMS, Node, Problem};

/// Whether a key as written is this one (written without case, `-` and `_`).
pub(super) fn same(written: &str, key: &str) -> bool {
    let letters = written
        .chars()
        .filter(|letter| !matches!(letter, '-' | '_'));
    letters
        .map(|letter| letter.to_ascii_lowercase())
        .eq(key.chars())
}

/// The entry of a mapping under this key.
pub(super) fn find<'n>(node: &'n Node, key: &str) -> Option<(&'n Key, &'n Node)> {
    let entries = node.entries()?;
    let entry = entries.iter().find(|(written, _)| same(&written.text, key));
    entry.map(|(key, value)| (key, value))
}

/// Text under this key, if it is there and not empty.
pub(super) fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    find(node, key)?.1.text().filter(|text| !text.is_empty())
}

/// What a value must be, as far as these documents agree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Text,
    Flag,
    List,
    Mapping,
}

impl Shape {
    fn is_of(self, node: &Node) -> bool {
        match self {
            Self::Text => node.scalar().is_some(),
            Self::Flag => node.bool().is_some(),
            Self::List => node.items().is_some(),
            Self::Mapping => node.entries().is_some(),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Flag => "`true` or `false`",
            Self::List => "a list",
            Self::Mapping => "a mapping",
        }
    }
}

/// Refuses values that nobody could read: a key without any counts as left out.
pub(super) fn shapes(node: &Node, wanted: &[(&str, Shape)], problems: &mut Vec<Problem>) {
    for (key, shape) in wanted {
        if let Some((written, value)) = find(node, key) {
            let name = format!("`{}`", clip(&written.text));
            shaped(value, *shape, &name, problems);
        }
    }
}

/// Refuses a value of another shape; `name` is what the message calls it.
pub(super) fn shaped(value: &Node, shape: Shape, name: &str, problems: &mut Vec<Problem>) {
    if !value.is_null() && !shape.is_of(value) && problems.len() < MAX_PROBLEMS {
        let wanted = shape.describe();
        let message = match shape {
            Shape::Flag => format!("{name} must be {wanted}"),
            _ => format!("{name} must be {wanted}, not {}", value.shape()),
        };
        problems.push(Problem::new(value.span, message));
    }
}

/// Refuses items of a list that are no mappings.
pub(super) fn mappings(node: &Node, key: &str, problems: &mut Vec<Problem>) {
    if let Some((written, list)) = find(node, key) {
        for item in list.items().unwrap_or(&[]) {
            let name = format!("an item of `{}`", clip(&written.text));
            shaped(item, Shape::Mapping, &name, problems);
        }
    }
}

/// Warns of keys mirage does not know.
pub(super) fn strangers(node: &Node, known: &[&str], warnings: &mut Vec<Problem>) {
    for (key, _) in node.entries().unwrap_or(&[]) {
        if !known.iter().any(|known| same(&key.text, known)) && warnings.len() < MAX_PROBLEMS {
            let message = format!("`{}` is not used by mirage", clip(&key.text));
            warnings.push(Problem::new(key.span, message));
        }
    }
}

/// A number under this key within limits; a problem if it is something else.
pub(super) fn number(
    node: &Node,
    key: &str,
    (min, max): (f64, f64),
    problems: &mut Vec<Problem>,
) -> Option<f64> {
    let (written, value) = find(node, key)?;
    if value.is_null() {
        return None;
    }
    match value.f64() {
        Some(number) if (min..=max).contains(&number) => Some(number),
        _ => {
            let message = format!("`{}` must be a number from {min} to {max}", written.text);
            problems.push(Problem::new(value.span, message));
            None
        }
    }
}

/// A whole number under this key within limits.
pub(super) fn integer(
    node: &Node,
    key: &str,
    (min, max): (u64, u64),
    problems: &mut Vec<Problem>,
) -> Option<u64> {
    let (written, value) = find(node, key)?;
    if value.is_null() {
        return None;
    }
    match value.u64() {
        Some(number) if (min..=max).contains(&number) => Some(number),
        _ => {
            let message = format!(
                "`{}` must be a whole number from {min} to {max}",
                written.text
            );
            problems.push(Problem::new(value.span, message));
            None
        }
    }
}
