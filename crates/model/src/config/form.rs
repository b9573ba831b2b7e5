//! A document read against the language: every value checked and turned into its type,
//! with its place kept for the checks of meaning that follow.
//!
//! Reading never stops at the first problem; what could not be read is left out.

pub(crate) mod scalar;

use std::time::Duration;

use super::language::{Field, Kind, Rule, Table};
use crate::plan::{Amount, Range};
use crate::quantity::clip;
use crate::select::closest;
use crate::yaml::{Key, MAX_PROBLEMS, Node, Problem, Span, Value};
pub(super) use scalar::{NAMES, ids};

/// A table as written.
#[derive(Debug)]
pub(super) struct Form<'n> {
    /// Where messages about the whole of it point.
    pub(super) span: Span,
    entries: Vec<(&'static str, Entry<'n>)>,
}

/// A value and where it stands.
#[derive(Debug)]
pub(super) struct Entry<'n> {
    pub(super) value: Parsed<'n>,
    pub(super) span: Span,
    pub(super) node: &'n Node,
}

/// A value of its declared kind.
#[derive(Debug)]
pub(super) enum Parsed<'n> {
    Integer(u64),
    Number(f64),
    Flag(bool),
    Text(&'n str),
    Choice(&'static str),
    Duration(Duration),
    Percent(Range),
    Amount(Amount),
    Form(Form<'n>),
    Named(Vec<(&'n Key, Form<'n>)>),
    List(Vec<Entry<'n>>),
}

/// Reads a mapping against a table.
pub(super) fn read<'n>(table: &Table, node: &'n Node, problems: &mut Vec<Problem>) -> Form<'n> {
    let mut reader = Reader { problems };
    match reader.form(table, node, node.span) {
        Some(form) => form,
        None => Form {
            span: node.span,
            entries: Vec::new(),
        },
    }
}

struct Reader<'p> {
    problems: &'p mut Vec<Problem>,
}

impl Reader<'_> {
    fn report(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    fn form<'n>(&mut self, table: &Table, node: &'n Node, at: Span) -> Option<Form<'n>> {
        let Some(written) = node.entries() else {
            let keys = keys(table);
            let message = format!("{} must be a mapping, not {}", table.name, node.shape());
            self.report(Problem::new(node.span, message).help(format!("its keys are {keys}")));
            return None;
        };
        let mut entries: Vec<(&'static str, Entry<'n>)> = Vec::with_capacity(written.len());
        let mut seen: Vec<(&'static str, &Key)> = Vec::with_capacity(written.len());
        for (key, value) in written {
            let Some(field) = table.field(&key.text) else {
                // A document full of them is not compared key by key with what there is.
                if self.problems.len() < MAX_PROBLEMS {
                    self.report(unknown(table, key));
                }
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(known, _)| *known == field.key) {
                let message = format!("`{}` and `{}` are the same key", first.text, key.text);
                self.report(Problem::new(key.span, message).help("keep one of them"));
                continue;
            }
            seen.push((field.key, key));
            // A key without a value counts as left out, except where nothing is a value.
            if value.is_null() && !matches!(field.kind, Kind::Named(_) | Kind::List(..)) {
                let message = format!("`{}` has no value", key.text);
                let help = format!("give it {} or remove the key", field.kind.describe());
                self.report(Problem::new(key.span, message).help(help));
                continue;
            }
            if let Some(entry) = self.value(&field.kind, value, &key.text, key.span) {
                entries.push((field.key, entry));
            }
        }
        self.missing(table, &seen, at);
        self.rules(table, &seen, at);
        Some(Form { span: at, entries })
    }

    fn missing(&mut self, table: &Table, seen: &[(&str, &Key)], at: Span) {
        let lacks = |field: &&Field| {
            field.default.is_none() && !seen.iter().any(|(key, _)| *key == field.key)
        };
        for field in table.fields.iter().filter(lacks) {
            let message = format!("{} has no `{}`", table.name, field.key);
            let help = format!("add `{}`: {}", field.key, field.kind.describe());
            self.report(Problem::new(at, message).help(help));
        }
    }

    fn rules(&mut self, table: &Table, seen: &[(&'static str, &Key)], at: Span) {
        for rule in table.rules {
            let (Rule::ExactlyOne(group) | Rule::AtMostOne(group)) = rule;
            let mut present = seen.iter().filter(|(key, _)| group.contains(key));
            match (present.next(), present.next(), rule) {
                (None, _, Rule::ExactlyOne(_)) => {
                    let message = format!("{} does not say what happens", table.name);
                    let help = format!("add one of {}", list(group.iter().copied()));
                    self.report(Problem::new(at, message).help(help));
                }
                (Some((_, first)), Some((_, second)), _) => {
                    let message = format!("`{}` excludes `{}`", first.text, second.text);
                    self.report(Problem::new(second.span, message).help("keep one of them"));
                }
                _ => {}
            }
        }
    }

    /// Reads a value; `at` is where a table in it is reported when something is missing.
    fn value<'n>(&mut self, kind: &Kind, node: &'n Node, key: &str, at: Span) -> Option<Entry<'n>> {
        if let Some(tag) = node.tag.as_deref().filter(|tag| is_custom(tag)) {
            let message = format!("the tag `{}` means nothing here", clip(tag));
            self.report(Problem::new(node.span, message).help("remove it"));
            return None;
        }
        let value = match kind {
            Kind::Table(table) => Parsed::Form(self.form(table, node, at)?),
            Kind::Named(table) => Parsed::Named(self.named(table, node, key)?),
            Kind::List(item, most) => Parsed::List(self.list(item, *most, node, key)?),
            Kind::Either(kinds) => return self.either(kinds, node, key, at),
            _ => match scalar::read(kind, node) {
                Ok(value) => value,
                Err(problem) => {
                    self.report(problem);
                    return None;
                }
            },
        };
        Some(Entry {
            value,
            span: node.span,
            node,
        })
    }

    fn named<'n>(
        &mut self,
        table: &Table,
        node: &'n Node,
        key: &str,
    ) -> Option<Vec<(&'n Key, Form<'n>)>> {
        let Some(entries) = node.entries() else {
            let message = format!("`{key}` must be a mapping from names, not {}", node.shape());
            let help = format!("write `{key}: {{ my-{}: {{ … }} }}`", table.name);
            self.report(Problem::new(node.span, message).help(help));
            return None;
        };
        let mut forms = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            if !super::language::Form::Name.accepts(&name.text) {
                let message = format!("`{}` cannot name a {}", clip(&name.text), table.name);
                self.report(Problem::new(name.span, message).help(NAMES));
                continue;
            }
            if let Some(form) = self.form(table, value, name.span) {
                forms.push((name, form));
            }
        }
        Some(forms)
    }

    fn list<'n>(
        &mut self,
        item: &Kind,
        most: usize,
        node: &'n Node,
        key: &str,
    ) -> Option<Vec<Entry<'n>>> {
        let Some(items) = node.items() else {
            let message = format!("`{key}` must be a list, not {}", node.shape());
            let help = format!("write `{key}: [ … ]`");
            self.report(Problem::new(node.span, message).help(help));
            return None;
        };
        if items.len() > most {
            let count = items.len();
            let message = format!("`{key}` has {count} elements, more than the limit of {most}");
            self.report(Problem::new(node.span, message));
            return None;
        }
        let read = |node: &'n Node| self.value(item, node, key, first_line(node));
        Some(items.iter().filter_map(read).collect())
    }

    /// The alternative whose shape fits; among scalars the first that accepts, and when
    /// none does, one message for all of them.
    fn either<'n>(
        &mut self,
        kinds: &'static [Kind],
        node: &'n Node,
        key: &str,
        at: Span,
    ) -> Option<Entry<'n>> {
        let fits: Vec<&Kind> = kinds.iter().filter(|kind| kind.fits(node)).collect();
        if let [kind] = fits[..] {
            return self.value(kind, node, key, at);
        }
        for kind in &fits {
            if let Ok(value) = scalar::read(kind, node) {
                return Some(Entry {
                    value,
                    span: node.span,
                    node,
                });
            }
        }
        // A number out of range is better explained by the number's own limits.
        if node.f64().is_some() && fits.iter().any(|kind| kind.is_number()) {
            let kind = fits.iter().find(|kind| kind.is_number())?;
            return self.value(kind, node, key, at);
        }
        let near = node.text().and_then(|text| {
            let words = fits.iter().flat_map(|kind| kind.words());
            closest(text, words)
        });
        let wanted: Vec<String> = kinds.iter().map(Kind::describe).collect();
        let got = match node.text() {
            Some(text) => format!("`{}`", clip(text)),
            None => node.shape().into(),
        };
        let message = format!("`{key}` cannot be {got}");
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write {}", wanted.join(", or ")),
        };
        self.report(Problem::new(node.span, message).help(help));
        None
    }
}

/// Where a message about a whole list element points: its first line.
fn first_line(node: &Node) -> Span {
    match &node.value {
        Value::Mapping(entries) if !entries.is_empty() => entries[0].0.span,
        _ => node.span,
    }
}

/// Whether a tag is one of somebody's own, such as `!include`.
fn is_custom(tag: &str) -> bool {
    tag != "!" && !tag.starts_with("tag:yaml.org,2002:")
}

fn unknown(table: &Table, key: &Key) -> Problem {
    if key.text == "<<" {
        let problem = Problem::new(key.span, "merge keys are not part of YAML 1.2");
        return problem.help("write the keys out, or use a pool");
    }
    let names = table
        .fields
        .iter()
        .flat_map(|field| [Some(field.key), field.alias])
        .flatten();
    let message = format!("unknown key `{}` in {}", clip(&key.text), table.name);
    let problem = Problem::new(key.span, message);
    match closest(&key.text, names) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help(format!("its keys are {}", keys(table))),
    }
}

fn keys(table: &Table) -> String {
    list(table.fields.iter().map(|field| field.key))
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

impl<'n> Form<'n> {
    /// The value under a key, if it was given and could be read.
    pub(super) fn get(&self, key: &str) -> Option<&Entry<'n>> {
        self.entries
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, entry)| entry)
    }

    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        match self.get(key)?.value {
            Parsed::Integer(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.get(key)?.value {
            Parsed::Number(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Parsed::Flag(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&'n str> {
        match self.get(key)?.value {
            Parsed::Text(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn choice(&self, key: &str) -> Option<&'static str> {
        match self.get(key)?.value {
            Parsed::Choice(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn duration(&self, key: &str) -> Option<Duration> {
        match self.get(key)?.value {
            Parsed::Duration(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn percent(&self, key: &str) -> Option<Range> {
        match self.get(key)?.value {
            Parsed::Percent(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn amount(&self, key: &str) -> Option<Amount> {
        match self.get(key)?.value {
            Parsed::Amount(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn form(&self, key: &str) -> Option<&Form<'n>> {
        match &self.get(key)?.value {
            Parsed::Form(form) => Some(form),
            _ => None,
        }
    }

    pub(super) fn named(&self, key: &str) -> &[(&'n Key, Form<'n>)] {
        match self.get(key).map(|entry| &entry.value) {
            Some(Parsed::Named(forms)) => forms,
            _ => &[],
        }
    }

    pub(super) fn list(&self, key: &str) -> Option<&[Entry<'n>]> {
        match &self.get(key)?.value {
            Parsed::List(entries) => Some(entries),
            _ => None,
        }
    }

    /// The tables in a list.
    pub(super) fn forms(&self, key: &str) -> impl Iterator<Item = &Form<'n>> {
        let entries = self.list(key).unwrap_or(&[]);
        entries.iter().filter_map(|entry| match &entry.value {
            Parsed::Form(form) => Some(form),
            _ => None,
        })
    }
}
