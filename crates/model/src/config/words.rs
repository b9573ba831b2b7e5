//! The short spelling of one workload or fault on a command line:
//! `device=node-a/3 xid=79 heal-after=5m`, or a bare `lost`. A list of numbers is written
//! `link-down=0,1`, and a table by its values alone, `ecc=uncorrected,sram,3`.

use super::form::scalar;
use super::language::{Kind, Table};
use crate::yaml::{Key, Node, Position, Scalar, Span, Style, Value};

/// Most words, and most values of one word.
const MOST: usize = 100;

/// The words as a mapping; `None` when the text is not of that spelling, which leaves it
/// to YAML.
pub(super) fn parse(text: &str, table: &Table) -> Option<Node> {
    if text.is_empty() || text.contains(['{', '\n', '#']) {
        return None;
    }
    let mut entries = Vec::new();
    let mut start = 0;
    for piece in text.split(' ') {
        let from = start;
        start += piece.len() + 1;
        if piece.is_empty() {
            continue;
        }
        let (key, value) = match piece.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None if piece.contains(':') => return None,
            None => (piece, None),
        };
        if entries.len() >= MOST
            || entries
                .iter()
                .any(|(known, _): &(Key, Node)| known.text == key)
        {
            return None;
        }
        let after = from + key.len() + 1;
        let value = match value {
            Some(value) => spread(
                text,
                value,
                after,
                table.field(key).map(|field| &field.kind),
            ),
            None => plain(text, "true", from),
        };
        let key = Key {
            text: key.into(),
            span: span(text, from, from + key.len()),
        };
        entries.push((key, value));
    }
    Some(Node {
        value: Value::Mapping(entries),
        tag: None,
        span: span(text, 0, text.len()),
    })
}

/// A value; one with commas as the list or the mapping that its kind can be.
fn spread(text: &str, value: &str, at: usize, kind: Option<&Kind>) -> Node {
    let kinds = match kind {
        Some(Kind::Either(kinds)) => *kinds,
        Some(kind) => std::slice::from_ref(kind),
        None => &[],
    };
    let pieces = || {
        let mut next = at;
        value.split(',').map(move |piece| {
            let from = next;
            next += piece.len() + 1;
            plain(text, piece, from)
        })
    };
    let of_many = |kind: &&Kind| match kind {
        // Selectors have commas of their own.
        Kind::List(item, _) => matches!(item, Kind::Integer { .. }),
        kind => matches!(kind, Kind::Table(_)),
    };
    // No list is as long as a hostile line.
    let is_many = (1..MOST).contains(&value.matches(',').count());
    let many = match kinds.iter().find(of_many).filter(|_| is_many) {
        Some(Kind::Table(table)) => Value::Mapping(named(pieces(), table)),
        Some(Kind::List(..)) => Value::Sequence(pieces().collect()),
        _ => return plain(text, value, at),
    };
    Node {
        value: many,
        ..plain(text, value, at)
    }
}

/// Values without their keys: each is of the first key that takes it and is still free.
fn named(values: impl Iterator<Item = Node>, table: &Table) -> Vec<(Key, Node)> {
    let mut free: Vec<_> = table.fields.iter().collect();
    let mut key = |value: &Node| {
        let takes = free
            .iter()
            .position(|field| scalar::read(&field.kind, value).is_ok());
        // What no key takes is refused as the value of the first that is free.
        let position = takes.or((!free.is_empty()).then_some(0));
        let text = position.map_or_else(
            || value.text().unwrap_or_default(),
            |at| free.remove(at).key,
        );
        Key {
            text: text.into(),
            span: value.span,
        }
    };
    values.map(|value| (key(&value), value)).collect()
}

fn plain(text: &str, value: &str, at: usize) -> Node {
    Node {
        value: Value::Scalar(Scalar {
            text: value.into(),
            style: Style::Plain,
        }),
        tag: None,
        span: span(text, at, (at + value.len()).min(text.len())),
    }
}

fn span(text: &str, from: usize, to: usize) -> Span {
    let position = |offset: usize| {
        let letters = text.get(..offset).unwrap_or(text).chars().count();
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Position {
            offset: small(offset),
            line: 1,
            column: small(letters + 1),
        }
    };
    Span {
        start: position(from),
        end: position(to.max(from)),
    }
}
