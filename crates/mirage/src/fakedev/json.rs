//! JSON as Go's decoder reads it into structures: member names in any case, the last of
//! several wins, unknown members ignored, `null` the same as absent. Names *inside* maps
//! (metrics, labels) are data and keep their case.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// What a JSON document says that cannot be used, and where in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Invalid {
    /// The member, as a path from the top; empty for the document itself.
    at: String,
    what: String,
}

impl Invalid {
    pub(super) fn new(at: impl Into<String>, what: impl Into<String>) -> Invalid {
        Invalid {
            at: at.into(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() {
            f.write_str(&self.what)
        } else {
            // What stands in a file is somebody else's: it must not break out of its line.
            write!(f, "{}: {}", self.at.escape_debug(), self.what)
        }
    }
}

impl std::error::Error for Invalid {}

/// A JSON object and the way to it.
pub(super) struct Object<'a> {
    at: String,
    members: &'a Map<String, Value>,
}

/// Reads a whole document, which must be an object.
pub(super) fn parse(text: &[u8]) -> Result<Value, Invalid> {
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| Invalid::new("", format!("no JSON object: {error}")))?;
    match value {
        Value::Object(_) => Ok(value),
        other => Err(Invalid::new(
            "",
            format!("an object is needed, not {}", kind(&other)),
        )),
    }
}

impl<'a> Object<'a> {
    /// The object a value is, at a path that errors will name.
    pub(super) fn of(value: &'a Value, at: impl Into<String>) -> Result<Object<'a>, Invalid> {
        let at = at.into();
        match value {
            Value::Object(members) => Ok(Object { at, members }),
            other => Err(mismatch(&at, "an object", other)),
        }
    }

    /// The path of a member.
    pub(super) fn path(&self, name: &str) -> String {
        if self.at.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.at)
        }
    }

    /// An error about a member.
    pub(super) fn invalid(&self, name: &str, what: impl Into<String>) -> Invalid {
        Invalid::new(self.path(name), what)
    }

    /// The last member of a name in any case, unless it is `null`.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members
            .iter()
            .rev()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, Invalid> {
        self.typed(name, "a string", Value::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Invalid> {
        Ok(self
            .typed(name, "true or false", Value::as_bool)?
            .unwrap_or(false))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, Invalid> {
        self.typed(name, "a number", Value::as_f64)
    }

    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, Invalid> {
        self.typed(name, "a whole number from 0 on", Value::as_u64)
    }

    pub(super) fn list(&self, name: &str) -> Result<&'a [Value], Invalid> {
        Ok(self
            .typed(name, "a list", Value::as_array)?
            .map_or(&[], Vec::as_slice))
    }

    /// The entries of a map member, in the order written; none if it is absent.
    pub(super) fn entries(&self, name: &str) -> Result<Vec<(&'a str, &'a Value)>, Invalid> {
        Ok(self
            .typed(name, "an object", Value::as_object)?
            .map_or_else(Vec::new, |map| {
                map.iter()
                    .map(|(key, value)| (key.as_str(), value))
                    .collect()
            }))
    }

    pub(super) fn texts(&self, name: &str) -> Result<BTreeMap<String, String>, Invalid> {
        self.get(name)
            .map_or_else(|| Ok(BTreeMap::new()), |map| texts(map, &self.path(name)))
    }

    pub(super) fn numbers(&self, name: &str) -> Result<BTreeMap<String, f64>, Invalid> {
        self.entries(name)?
            .into_iter()
            .map(|(key, value)| match value.as_f64() {
                Some(number) => Ok((key.to_owned(), number)),
                None => Err(mismatch(
                    &format!("{}.{key}", self.path(name)),
                    "a number",
                    value,
                )),
            })
            .collect()
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Invalid> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(mismatch(&self.path(name), expected, value)),
            },
        }
    }
}

/// A map of strings, such as labels.
pub(super) fn texts(value: &Value, at: &str) -> Result<BTreeMap<String, String>, Invalid> {
    let Value::Object(members) = value else {
        return Err(mismatch(at, "an object", value));
    };
    members
        .iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Null => Ok((key.clone(), String::new())),
            other => Err(mismatch(&format!("{at}.{key}"), "a string", other)),
        })
        .collect()
}

/// An error about a value of the wrong type.
pub(super) fn mismatch(at: &str, expected: &str, found: &Value) -> Invalid {
    Invalid::new(at, format!("{expected} is needed, not {}", kind(found)))
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_names_have_no_case_and_the_last_wins() {
        let value = parse(br#"{"Name": "a", "NAME": "b", "extra": [], "Repeat": null}"#).unwrap();
        let object = Object::of(&value, "").unwrap();
        assert_eq!(object.text("name").unwrap(), Some("b"));
        assert_eq!(object.count("Repeat").unwrap(), None);
    }

    #[test]
    fn errors_name_the_member_and_what_it_holds() {
        let value = parse(br#"{"Limits": {"memory": "much"}, "Repeat": -1}"#).unwrap();
        let object = Object::of(&value, "").unwrap();
        assert_eq!(
            object.numbers("Limits").unwrap_err().to_string(),
            "Limits.memory: a number is needed, not a string"
        );
        assert_eq!(
            object.count("Repeat").unwrap_err().to_string(),
            "Repeat: a whole number from 0 on is needed, not -1"
        );
        assert_eq!(
            parse(b"[1]").unwrap_err().to_string(),
            "an object is needed, not a list"
        );
        assert!(parse(b"foobar").is_err());
        assert!(parse(&[0; 200]).is_err());
    }
}
