//! A value as YAML text: block style, two spaces, keys in the order given, quotes only where another reader could
//! take the text for something else.

use std::fmt::Write as _;

use serde_json::Value;

/// The document of a mapping.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(entries) if entries.is_empty() => text.push_str("{}\n"),
        Value::Object(_) => block(value, 0, false, &mut text),
        Value::Array(items) if !items.is_empty() => block(value, 0, false, &mut text),
        other => {
            scalar(other, &mut text);
            text.push('\n');
        }
    }
    text
}

/// Writes a mapping or list that has something in it. `continued`: the first line has its indent already, after `- `.
fn block(value: &Value, depth: usize, continued: bool, text: &mut String) {
    let indent = |first: bool, text: &mut String| {
        if !(first && continued) {
            text.extend(std::iter::repeat_n("  ", depth));
        }
    };
    match value {
        Value::Object(entries) => {
            for (number, (key, value)) in entries.iter().enumerate() {
                indent(number == 0, text);
                string(key, text);
                text.push(':');
                match nested(value) {
                    // Lists stand at their key's indent, as most writers have them.
                    Some(true) => {
                        text.push('\n');
                        block(value, depth, false, text);
                    }
                    Some(false) => {
                        text.push('\n');
                        block(value, depth + 1, false, text);
                    }
                    None => {
                        text.push(' ');
                        scalar(value, text);
                        text.push('\n');
                    }
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                indent(number == 0, text);
                text.push_str("- ");
                match nested(item) {
                    Some(_) => block(item, depth + 1, true, text),
                    None => {
                        scalar(item, text);
                        text.push('\n');
                    }
                }
            }
        }
        _ => {}
    }
}

/// Whether it takes lines of its own, and is a list.
fn nested(value: &Value) -> Option<bool> {
    match value {
        Value::Object(entries) if !entries.is_empty() => Some(false),
        Value::Array(items) if !items.is_empty() => Some(true),
        _ => None,
    }
}

fn scalar(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => {
            // Writing to a string cannot fail.
            let _ = write!(text, "{number}");
        }
        Value::String(value) => string(value, text),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

fn string(value: &str, text: &mut String) {
    if is_plain(value) {
        text.push_str(value);
        return;
    }
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' | '\\' => {
                text.push('\\');
                text.push(letter);
            }
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            ' '..='~' => text.push(letter),
            other => {
                let _ = write!(text, "\\U{:08X}", u32::from(other));
            }
        }
    }
    text.push('"');
}

/// Whether no reader, of YAML 1.1 or 1.2, takes the bare text for anything but this text.
fn is_plain(value: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let Some(first) = value.chars().next() else {
        return false;
    };
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if !value.chars().all(letters) || WORDS.contains(&value.to_ascii_lowercase().as_str()) {
        return false;
    }
    if first.is_ascii_alphabetic() {
        return true;
    }
    // Numbers in any base, with exponents, and dates have none of the letters asked for here.
    let telling = |letter: char| letter.is_ascii_alphabetic() && !"eExXoObBtTzZ_".contains(letter);
    first.is_ascii_digit()
        && !value[1..].starts_with(['x', 'X', 'o', 'O'])
        && value.chars().any(telling)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use mirage_model::yaml::{self, Node};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn text_that_could_be_something_else_is_quoted() {
        for (value, written) in [
            ("GPU-8fc73fbd", "GPU-8fc73fbd"),
            ("1g.5gb", "1g.5gb"),
            ("1g.5gb+me", "\"1g.5gb+me\""),
            ("550.163.01", "\"550.163.01\""),
            ("12.4", "\"12.4\""),
            ("1e5", "\"1e5\""),
            ("0x1f", "\"0x1f\""),
            ("2024-01-01", "\"2024-01-01\""),
            ("Yes", "\"Yes\""),
            ("", "\"\""),
            ("- a", "\"- a\""),
            ("a: b", "\"a: b\""),
            ("ü", "\"\\U000000FC\""),
        ] {
            let mut text = String::new();
            string(value, &mut text);
            assert_eq!(text, written);
        }
    }

    #[test]
    fn lists_and_mappings_nest() {
        let value = json!({"a": [{"b": 1, "c": {}}, [], ["x"]], "d": {"e": true}});
        let text = "a:\n- b: 1\n  c: {}\n- []\n- - x\nd:\n  e: true\n";
        assert_eq!(document(&value), text);
    }

    fn same(node: &Node, value: &Value) -> bool {
        match value {
            Value::Null => node.is_null(),
            Value::Bool(value) => node.bool() == Some(*value),
            Value::Number(value) => node.u64() == value.as_u64(),
            Value::String(value) => node.text() == Some(value),
            Value::Array(values) => node.items().is_some_and(|items| {
                items.len() == values.len() && items.iter().zip(values).all(|(a, b)| same(a, b))
            }),
            Value::Object(values) => node.entries().is_some_and(|entries| {
                entries.len() == values.len()
                    && entries
                        .iter()
                        .zip(values)
                        .all(|((key, a), (name, b))| key.text == *name && same(a, b))
            }),
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<u32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[0-9a-fxoe._+-]{1,8}".prop_map(Value::from),
            "(null|True|no|~|y|2001-1-1|\\.inf|0o7|1_0)".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in values()) {
            let text = document(&value);
            let node = yaml::parse(&text).map_err(|problems| TestCaseError::fail(format!("{problems:?}\n{text}")))?;
            prop_assert!(same(&node, &value), "{text}");
        }
    }
}
