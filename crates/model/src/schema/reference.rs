//! The reference page, `docs/reference/config.md`: words around the tables.

use std::fmt::Display;

use crate::config::form::scalar::show_bytes;
use crate::config::language::{Field, Rule, Table, tables};
use crate::config::limits;
use crate::quantity::{MAX_BYTES, MAX_DURATION, show_duration};
use crate::yaml;

const INTRODUCTION: &str = include_str!("reference.md");

/// The page, from the same tables that check the config.
pub fn reference() -> String {
    let mut page = INTRODUCTION.replace("{limits}", &limits());
    for table in tables::ALL {
        section(&mut page, table);
    }
    page
}

/// The limits, from the constants that set them.
fn limits() -> String {
    let row = |what: &str, limit: &dyn Display| format!("| {what} | {limit} |\n");
    let rows = [
        row("GPUs per node", &limits::MAX_GPUS_PER_NODE),
        row("Nodes", &limits::MAX_NODES),
        row("GPUs in all", &limits::MAX_GPUS),
        row("Workloads", &limits::MAX_WORKLOADS),
        row("Faults", &limits::MAX_FAULTS),
        row("Steps in an activity", &limits::MAX_STEPS),
        row(
            "Devices that workloads and faults name in all",
            &limits::MAX_DEVICE_USES,
        ),
        row("Duration", &show_duration(MAX_DURATION)),
        row("Memory", &show_bytes(MAX_BYTES)),
        row("Size of the document", &show_bytes(yaml::MAX_BYTES as u64)),
        row("Levels of nesting", &yaml::MAX_DEPTH),
        row("Values, copies by aliases included", &yaml::MAX_NODES),
    ];
    format!(
        "## Limits\n\n| What | At most |\n|---|---|\n{}",
        rows.concat()
    )
}

fn section(page: &mut String, table: &Table) {
    let title = match table.name {
        "the config" => "The top".to_string(),
        name => format!("{}{}", name[..1].to_uppercase(), &name[1..]),
    };
    page.push_str(&format!("\n## {title}\n\n{}\n\n", table.doc));
    page.push_str("| Key | Value | Without it | Meaning |\n|---|---|---|---|\n");
    for field in table.fields {
        let key = match field.alias {
            Some(alias) => format!("`{}` or `{alias}`", field.key),
            None => format!("`{}`", field.key),
        };
        let value = field.kind.describe();
        let default = default(field, table);
        let row = format!("| {key} | {value} | {default} | {} |\n", field.doc);
        page.push_str(&row);
    }
    for rule in table.rules {
        let (Rule::ExactlyOne(keys) | Rule::AtMostOne(keys)) = rule;
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let keys = keys.join(", ");
        page.push_str(&match rule {
            Rule::ExactlyOne(_) => format!("\nExactly one of {keys}.\n"),
            Rule::AtMostOne(_) => format!("\nAt most one of {keys}.\n"),
        });
    }
}

fn default<'a>(field: &'a Field, table: &Table) -> &'a str {
    let chosen = |rule: &Rule| matches!(rule, Rule::ExactlyOne(keys) if keys.contains(&field.key));
    match field.default {
        _ if table.rules.iter().any(chosen) => "–",
        Some(default) => default,
        None => "required",
    }
}
