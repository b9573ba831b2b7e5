//! Asking a node for what it means: text, number, truth value, list, mapping.

use super::{Key, Node, Scalar, Span, Style, Value};

impl Node {
    /// The scalar, if it is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Text of a scalar that is not null.
    pub fn text(&self) -> Option<&str> {
        if self.is_null() {
            return None;
        }
        self.scalar().map(|scalar| scalar.text.as_str())
    }

    /// Elements of a list; a null is an empty list.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ if self.is_null() => Some(&[]),
            _ => None,
        }
    }

    /// Entries of a mapping; a null is an empty mapping.
    pub fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Mapping(entries) => Some(entries),
            _ if self.is_null() => Some(&[]),
            _ => None,
        }
    }

    /// The value under a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Mapping(entries) => entries
                .iter()
                .find(|(candidate, _)| candidate.text == key)
                .map(|(_, node)| node),
            _ => None,
        }
    }

    /// A plain scalar's text: what may be a number, a truth value or null.
    pub fn plain(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if scalar.style == Style::Plain => Some(&scalar.text),
            _ => None,
        }
    }

    /// Whether it is nothing: empty, `~` or `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.plain(), Some("" | "~" | "null" | "Null" | "NULL"))
    }

    /// A whole number, decimal (with `_` between digits) or `0x…`.
    pub fn u64(&self) -> Option<u64> {
        let text = self.plain()?;
        if let Some(digits) = text.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16).ok();
        }
        let digits = text.replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    }

    /// A finite number.
    pub fn f64(&self) -> Option<f64> {
        let text = self.plain()?;
        let numeric = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if !text.bytes().all(numeric) {
            return None;
        }
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// `true` or `false`.
    pub fn bool(&self) -> Option<bool> {
        match self.plain()? {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// Where a scalar with this text stands last in this tree.
    pub fn last(&self, text: &str) -> Option<Span> {
        match &self.value {
            Value::Scalar(scalar) => (scalar.text == text).then_some(self.span),
            Value::Sequence(items) => items.iter().rev().find_map(|item| item.last(text)),
            Value::Mapping(entries) => entries.iter().rev().find_map(|(_, node)| node.last(text)),
        }
    }

    /// What it is, for messages: `a list`, `a mapping`, `nothing`, `text`.
    pub fn shape(&self) -> &'static str {
        match &self.value {
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
            Value::Scalar(_) if self.is_null() => "nothing",
            Value::Scalar(_) => "a value",
        }
    }
}
