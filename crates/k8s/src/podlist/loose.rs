//! An entry of a list as it comes, of whatever types: of what it holds, only what can count is kept, so that a list
//! takes no more memory than it has bytes.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Most values of a list or an object within an entry.
const MOST_VALUES: usize = 4096;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Loose {
    /// `null`, or nothing at all.
    Null,
    /// A text.
    Text(String),
    /// A whole number from 0 on.
    Number(u64),
    /// A list; what was beyond its most values is only counted.
    List(Vec<Loose>, usize),
    /// An object; of several members of a name, the last one.
    Object(Vec<(String, Loose)>),
    /// Anything else, or too deep down.
    Other,
}

impl Loose {
    /// The member of a name.
    pub(super) fn get(&self, name: &str) -> &Loose {
        let Loose::Object(members) = self else {
            return &Loose::Null;
        };
        let found = members.iter().find(|(known, _)| known == name);
        found.map_or(&Loose::Null, |(_, value)| value)
    }

    /// The text it is.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Loose::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// How to read a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Levels of lists and objects that are kept.
    pub(super) depth: u8,
    /// The members to keep of the outermost object; all of them if there are none.
    pub(super) members: &'static [&'static str],
}

impl Reading {
    fn within(self) -> Reading {
        Reading {
            depth: self.depth - 1,
            members: &[],
        }
    }

    fn keeps(self, name: &str) -> bool {
        self.members.is_empty() || self.members.contains(&name)
    }
}

impl<'de> DeserializeSeed<'de> for Reading {
    type Value = Loose;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Loose, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Loose, E> {
        Ok(Loose::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Loose, E> {
        Ok(Loose::Number(number))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
        let (mut values, mut more) = (Vec::new(), 0);
        while self.depth > 0 && values.len() < MOST_VALUES {
            match list.next_element_seed(self.within())? {
                Some(value) => values.push(value),
                None => return Ok(Loose::List(values, 0)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        match self.depth {
            0 => Ok(Loose::Other),
            _ => Ok(Loose::List(values, more)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Loose, A::Error> {
        if self.depth == 0 {
            while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Loose::Other);
        }
        let mut members: Vec<(String, Loose)> = Vec::new();
        while let Some(name) = object.next_key::<String>()? {
            if !self.keeps(&name) || members.len() >= MOST_VALUES {
                object.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = object.next_value_seed(self.within())?;
            // Few are looked for by name, and only there can an earlier one be in the way.
            if !self.members.is_empty() {
                members.retain(|(known, _)| *known != name);
            }
            members.push((name, value));
        }
        Ok(Loose::Object(members))
    }
}
