//! A model's figures as a flat list, for people: what, how much, and says who.

use crate::yaml::{Node, Value};

/// One figure of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Where it stands: `power.default-w`, `mig.1g.5gb.memory-mib`.
    pub name: String,
    /// As written; lists are joined with spaces.
    pub value: String,
    /// Where it is from, in words.
    pub source: String,
}

/// All figures of a model file.
pub(super) fn list(root: &Node) -> Vec<Figure> {
    let mut out = Lister {
        sources: root.get("sources"),
        figures: Vec::new(),
    };
    for (section, node) in root.entries().unwrap_or_default() {
        if !matches!(section.text.as_str(), "aliases" | "sources") {
            out.visit(&section.text, node, None);
        }
    }
    out.figures
}

struct Lister<'a> {
    sources: Option<&'a Node>,
    figures: Vec<Figure>,
}

impl Lister<'_> {
    fn visit(&mut self, name: &str, node: &Node, row: Option<&Row<'_>>) {
        match (&node.value, row) {
            (Value::Mapping(entries), _) => {
                let own = Row::of(node);
                let row = own.as_ref().or(row);
                for (key, child) in entries {
                    match key.text.as_str() {
                        "name" | "source" | "estimated" if own.is_some() => {}
                        // Groups inside a row only order it.
                        "figures" | "engines" | "placement" if own.is_some() => {
                            self.visit(name, child, row);
                        }
                        text => self.visit(&format!("{name}.{text}"), child, row),
                    }
                }
            }
            (Value::Sequence(items), _) if items.iter().any(|item| Row::of(item).is_some()) => {
                // Rows are called by their own name: `mig.1g.5gb`, not `mig.profiles.0`.
                let parent = name.rsplit_once('.').map_or(name, |(parent, _)| parent);
                for item in items {
                    let own = item.get("name").and_then(Node::text).unwrap_or_default();
                    self.visit(&format!("{parent}.{own}"), item, None);
                }
            }
            (Value::Sequence(items), None) => {
                if let [value, source] = items.as_slice() {
                    self.push(name, value, source.text());
                }
            }
            (_, Some(row)) => {
                let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
                let source = if row.is_estimated(last) {
                    Some("estimate")
                } else {
                    row.source
                };
                self.push(name, node, source);
            }
            (Value::Scalar(_), None) => {}
        }
    }

    fn push(&mut self, name: &str, value: &Node, source: Option<&str>) {
        let value = match &value.value {
            Value::Sequence(items) => items
                .iter()
                .filter_map(Node::text)
                .collect::<Vec<_>>()
                .join(" "),
            _ => value.text().unwrap_or_default().to_owned(),
        };
        let source = source
            .and_then(|id| self.sources?.get(id)?.text())
            .unwrap_or_default();
        self.figures.push(Figure {
            name: name.to_owned(),
            value,
            source: source.to_owned(),
        });
    }
}

/// A table row that names one source for all its figures, but for those it estimates.
struct Row<'a> {
    source: Option<&'a str>,
    estimated: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let estimated = node.get("estimated").and_then(Node::items);
        Some(Self {
            source: node.get("source")?.text(),
            estimated: estimated
                .unwrap_or_default()
                .iter()
                .filter_map(Node::text)
                .collect(),
        })
    }

    fn is_estimated(&self, figure: &str) -> bool {
        self.estimated.contains(&figure)
    }
}
