//! The short spelling of one workload or fault on a command line:
//! `device=node-a/3 xid=79 heal-after=5m`, or a bare `lost`.

use crate::yaml::{Key, Node, Position, Scalar, Span, Style, Value};

/// The words as a mapping; `None` when the text is not of that spelling, which leaves it
/// to YAML.
pub(super) fn parse(text: &str) -> Option<Node> {
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
        if entries.len() >= 100
            || entries
                .iter()
                .any(|(known, _): &(Key, Node)| known.text == key)
        {
            return None;
        }
        let after = from + key.len() + 1;
        let value = match value {
            Some(value) => scalar(text, value, after),
            None => scalar(text, "true", from),
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

fn scalar(text: &str, value: &str, at: usize) -> Node {
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
