//! The config language for other programs and for people: a JSON Schema and the reference
//! page, both written from the tables that check the config.

mod json;
mod reference;

pub use reference::reference;

use crate::config::language::{Field, Form, Kind, Rule, Table, tables};
use json::Writer;

/// JSON Schema (draft 2020-12) of `mirage.yaml`.
///
/// Editors use it for completion. It is a little more lenient than `mirage check`, which
/// alone knows which models and devices exist.
pub fn schema() -> String {
    let mut json = Writer::default();
    json.object(|json| {
        json.text("$schema", "https://json-schema.org/draft/2020-12/schema");
        json.text("title", "mirage.yaml");
        json.key("$ref");
        json.string(&reference_to(&tables::ROOT));
        json.key("$defs");
        json.object(|json| {
            for table in tables::ALL {
                json.key(&id(table));
                write_table(json, table);
            }
        });
    });
    json.finish()
}

fn id(table: &Table) -> String {
    table.name.replace(' ', "-")
}

fn reference_to(table: &Table) -> String {
    format!("#/$defs/{}", id(table))
}

fn write_table(json: &mut Writer, table: &Table) {
    json.object(|json| {
        json.text("description", table.doc);
        json.text("type", "object");
        json.key("additionalProperties");
        json.raw("false");
        json.key("properties");
        json.object(|json| {
            for field in table.fields {
                for key in [Some(field.key), field.alias].into_iter().flatten() {
                    json.key(key);
                    write_field(json, field);
                }
            }
        });
        let needed = table.fields.iter().filter(|field| field.default.is_none());
        let conditions: Vec<Condition> = needed
            .map(|field| {
                Condition::One(
                    [Some(field.key), field.alias]
                        .into_iter()
                        .flatten()
                        .collect(),
                )
            })
            .chain(table.rules.iter().map(Condition::from))
            .collect();
        if conditions.is_empty() {
            return;
        }
        json.key("allOf");
        json.array(|json| {
            for condition in &conditions {
                condition.write(json);
            }
        });
    });
}

/// A demand on which keys are present.
enum Condition {
    /// Exactly one of these.
    One(Vec<&'static str>),
    /// Not two of these.
    NotTwo(&'static [&'static str]),
}

impl From<&Rule> for Condition {
    fn from(rule: &Rule) -> Self {
        match rule {
            Rule::ExactlyOne(keys) => Self::One(keys.to_vec()),
            Rule::AtMostOne(keys) => Self::NotTwo(keys),
        }
    }
}

impl Condition {
    fn write(&self, json: &mut Writer) {
        let required = |json: &mut Writer, keys: &[&str]| {
            json.object(|json| {
                json.key("required");
                json.array(|json| keys.iter().for_each(|key| json.string(key)));
            });
        };
        json.object(|json| match self {
            Self::One(keys) => {
                json.key("oneOf");
                json.array(|json| keys.iter().for_each(|key| required(json, &[key])));
            }
            Self::NotTwo(keys) => {
                json.key("not");
                required(json, keys);
            }
        });
    }
}

fn write_field(json: &mut Writer, field: &Field) {
    json.object(|json| {
        let default = match field.default {
            Some("") | None => String::new(),
            Some(default) => format!(" Default: {default}."),
        };
        json.text("description", &format!("{}{default}", field.doc));
        write_kind(json, &field.kind);
    });
}

/// The keys of a schema for one kind, into an object that is open.
fn write_kind(json: &mut Writer, kind: &Kind) {
    const DURATION: &str = "^0$|^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h|d))+$";
    const BYTES: &str = "^0$|^[0-9]+(\\.[0-9]+)? ?([kKMGT]?B|[KMGT]i|[KMGT]iB)$";
    const PERCENT: &str = "^[0-9]+(\\.[0-9]+)? ?%?( ?- ?[0-9]+(\\.[0-9]+)? ?%?)?$";
    const AMOUNT: &str = "^0$|^([0-9].* ?- ?)?[0-9]+(\\.[0-9]+)? ?(%|[kKMGT]?B|[KMGT]i|[KMGT]iB)$";
    match kind {
        Kind::Integer { min, max } => {
            json.text("type", "integer");
            json.key("minimum");
            json.raw(&min.to_string());
            json.key("maximum");
            json.raw(&max.to_string());
        }
        Kind::Number { min, max } => {
            json.text("type", "number");
            json.key("minimum");
            json.raw(&min.to_string());
            json.key("maximum");
            json.raw(&max.to_string());
        }
        Kind::Flag => json.text("type", "boolean"),
        Kind::Present => {
            json.key("const");
            json.raw("true");
        }
        Kind::Text(form) => {
            // YAML reads a bare 12.4 as a number; the config takes it as text.
            json.key("type");
            json.array(|json| {
                json.string("string");
                json.string("number");
            });
            if let Some(pattern) = form.pattern() {
                json.text("pattern", pattern);
            }
        }
        Kind::Choice(words) => words_of(json, words.iter().copied()),
        Kind::Coded(words) => words_of(json, words.iter().map(|(word, _)| *word)),
        Kind::Duration { .. } => number_or_text(json, 0, DURATION),
        Kind::Bytes { .. } => number_or_text(json, 0, BYTES),
        Kind::Percent => number_or_text(json, 100, PERCENT),
        Kind::Amount => number_or_text(json, 0, AMOUNT),
        Kind::Table(table) => json.text("$ref", &reference_to(table)),
        Kind::Named(table) => {
            json.key("type");
            json.array(|json| {
                json.string("object");
                json.string("null");
            });
            json.key("propertyNames");
            json.object(|json| {
                if let Some(pattern) = Form::Name.pattern() {
                    json.text("pattern", pattern);
                }
            });
            json.key("additionalProperties");
            json.object(|json| {
                json.key("anyOf");
                json.array(|json| {
                    json.object(|json| json.text("$ref", &reference_to(table)));
                    json.object(|json| json.text("type", "null"));
                });
            });
        }
        Kind::List(item, most) => {
            json.key("type");
            json.array(|json| {
                json.string("array");
                json.string("null");
            });
            json.key("maxItems");
            json.raw(&most.to_string());
            json.key("items");
            json.object(|json| write_kind(json, item));
        }
        Kind::Either(kinds) => {
            json.key("anyOf");
            json.array(|json| {
                for kind in *kinds {
                    json.object(|json| write_kind(json, kind));
                }
            });
        }
    }
}

/// A number from 0 to `most` without a unit, or text with one.
fn number_or_text(json: &mut Writer, most: u32, pattern: &str) {
    json.key("anyOf");
    json.array(|json| {
        json.object(|json| {
            json.text("type", "number");
            json.key("minimum");
            json.raw("0");
            json.key("maximum");
            json.raw(&most.to_string());
        });
        json.object(|json| {
            json.text("type", "string");
            json.text("pattern", pattern);
        });
    });
}

fn words_of<'a>(json: &mut Writer, words: impl Iterator<Item = &'a str>) {
    json.key("enum");
    json.array(|json| words.for_each(|word| json.string(word)));
}
